"""Run every example of docs/serve.md in order, in one shell."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "serve.md"
PAGE_TEXT = PAGE.read_text(encoding="utf-8")


def find_blocks(*languages):
    all_blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE_TEXT, re.MULTILINE | re.DOTALL)
    return [(language, block) for language, block in all_blocks if language in languages]


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="needs curl and bash")
def test_every_example_runs(memory):
    with socket.create_server(("127.0.0.1", 0)) as free_socket:
        port = str(free_socket.getsockname()[1])
    program = memory / "kibitz"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kibitz.cli "$@"\n')
    program.chmod(0o755)
    script = ["set -eu", "set -o pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for n, (language, block) in enumerate(find_blocks("sh", "py")):
        if language == "py":
            (memory / f"{n}.py").write_text(block.replace("8765", port))
            script.append(f"export TOKEN; {sys.executable} {n}.py")
            continue
        for line in block.replace("8765", port).splitlines():
            if line.startswith("pip install"):
                continue
            script.append(line.replace("--silent", "--silent --fail-with-body --max-time 20"))
            script.append("echo" if line.startswith("curl") else ":")
    process = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=memory,
        env={**os.environ, "PATH": f"{memory}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (process.returncode, process.stderr) == (0, ""), process.stdout
    lines = [line for line in process.stdout.splitlines() if line.startswith(("{", "["))]
    documented_lines = find_blocks("json")[0][1].replace("\n ", " ").splitlines()  # join long lines
    documented_answers = [json.loads(line) for line in documented_lines]
    assert json.loads(lines[0]) == {"status": "ok"}
    for printed_line, example in zip(lines[1:], documented_answers, strict=False):
        printed_answer = json.loads(printed_line)
        assert {**printed_answer, "asked_at": 0} == {**example, "asked_at": 0}
    assert "\n21\n" in process.stdout  # printed by the client
    assert re.search(r"1 +│ admin │ all +│ valid", process.stdout)
    assert process.stdout.rstrip().endswith("revoked")


def test_the_documented_table_has_every_route():
    from kibitz.live.service.app import ROUTES

    for route in ROUTES:
        address = route.endpoint
        path = address.path.removeprefix("/v1/agents/{name}")
        if address.method == "GET":
            assert f"`GET {path}".rstrip() in PAGE_TEXT
            continue
        shown_path = f"{address.method} {path}".rstrip()
        row = re.search(rf"^\| `{re.escape(shown_path)}` \|.*\| (\w+) \|$", PAGE_TEXT, re.M)
        assert row, path
        assert row[1] == address.role


def test_the_documented_extras_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extras_text in re.findall(r"kibitz\[([\w,]+)\]", PAGE_TEXT):
        assert set(extras_text.split(",")) <= set(extras)


def test_the_documented_limits_agree_with_the_service():
    from kibitz.live.service import agents, auth, group_commit, http, reads, server, streams

    max_import = agents.MAX_IMPORT_BYTES // 2**20
    assert f"an import over {max_import} MiB" in PAGE_TEXT
    assert f"client_max_body_size {max_import}m;" in PAGE_TEXT  # the limit of nginx
    assert f"over {http.MAX_BODY_BYTES // 1024} KiB, or over {http.MAX_BATCH} decisions" in PAGE_TEXT
    n_waiting, n_small = group_commit.MAX_WAITING, group_commit.MAX_SMALL
    assert f"({n_waiting} in requests for up to {n_small}, or {n_waiting} in larger" in PAGE_TEXT
    assert f"or reads ({reads.MAX_WAITING})" in PAGE_TEXT
    assert f"the token has {streams.MAX_STREAMS} open streams" in PAGE_TEXT
    assert f"more than {server.MAX_CONNECTIONS:,} connections" in PAGE_TEXT
    assert (server.RESERVED_FILES, server.MAX_WRITE_SECONDS, reads.MAX_AGE_SECONDS) == (100, 10, 5)
    assert f"up to {group_commit.MAX_GROUP} requests" in PAGE_TEXT
    assert (server.MAX_HEADER_SECONDS, http.MAX_BODY_SECONDS, auth.TOKEN_CACHE_SECONDS) == (10, 10, 1)
