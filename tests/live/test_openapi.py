"""Other tools accept the OpenAPI document: a validator, a fuzzer and client generators."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

import kibitz
from kibitz.live.dashboard import routes
from kibitz.live.service import app
from kibitz.live.service.auth import create_token
from kibitz.live.service.http import Operation
from kibitz.live.service.streams import open_stream

pytestmark = pytest.mark.slow

SEARCH_PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
NODE_PACKAGES = ("openapi-typescript@7", "openapi-fetch@0", "typescript@5", "@types/node@20")

CONFIG = """
[parameters]
"path.name" = "checkout"

[[operations]]
include-method = "DELETE"
parameters = {"path.name" = "nobody"}
checks.ensure_resource_availability.enabled = false

[checks]
positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 409, 413, 422]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 408, 409, 413, 415, 422]
"""  # 422, because a schema can express neither printable text nor conflicts with the state

EXCLUDED_PATHS = "import$"  # CSV, which schemathesis cannot send
BODY_TYPES = dict.fromkeys(("text/csv", "application/x-ndjson"), "application/octet-stream")

PYTHON = """
import sys
from generated import AuthenticatedClient
from generated.api.default import (
    agents, ask, change_arm, config, create_agent, delete_agent, events, healthz, livez, look,
    metrics, observe, readyz, report, tell,
)
from generated.models import ArmChange, ArmChangeState, Ask, Error, NewAgent, Observe, Tell

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
name = "a/b"
assert healthz.sync(client=client).status == "ok"
first = ask.sync(name, client=client, body=Ask(key="visit-1"))
assert (first.id, first.kind, first.arm, first.key) == (1, "pull", "blue", "visit-1")
assert ask.sync(name, client=client, idempotency_key="visit-1").id == 1
more = ask.sync(name, client=client, body=Ask(n=3))
assert [one.id for one in more] == [2, 3, 4]
assert look.sync(name, client=client).kind == "look"
assert tell.sync(name, client=client, body=Tell(id=1, reward=1.0)).result == "counted"
told = tell.sync(name, client=client, body=[Tell(id=1, reward=1.0), Tell(id=2, reward=0.0)])
assert [one.result for one in told] == ["duplicate", "counted"]
conflict = tell.sync(name, client=client, body=Tell(id=1, reward=0.0))
assert isinstance(conflict, Error) and conflict.error.code == "conflict", conflict
assert tell.sync(name, client=client, body=Tell(id=99, reward=0.0)).error.code == "unknown"
paused = change_arm.sync(name, "c/d", client=client, body=ArmChange(ArmChangeState.PAUSED))
assert (paused.arm, paused.state) == ("c/d", "paused")
assert report.sync(name, client=client).arms[0].n_pulls == 1
assert [one.seq for one in events.sync(name, client=client, after=2, limit=1).events] == [3]
assert [check.sync(client=client).status for check in (livez, readyz)] == ["ok", "ok"]
new_agent = NewAgent(name="banner", arms=["old", "new"], rewards="bernoulli", patience=60.0)
created = create_agent.sync(client=client, body=new_agent)
assert (created.name, [one.arm for one in created.arms]) == ("banner", ["old", "new"])
assert config.sync("banner", client=client) == created
assert ask.sync("banner", client=client, body=Ask(key="visitor-3")).key == "visitor-3"
assert tell.sync("banner", client=client, body=Tell(key="visitor-3", reward=1.0)).result == "counted"
rows = [Observe(arm="old", reward=1.0, key="a"), Observe(arm="new", reward=0.0, key="b")]
assert [one.result for one in observe.sync("banner", client=client, body=rows)] == ["counted"] * 2
page = agents.sync(client=client, limit=1)
assert (page.agents, page.more) == (["a/b"], True)
assert agents.sync(client=client, after="a/b").agents == ["banner"]
assert delete_agent.sync("banner", client=client).result == "deleted"
assert config.sync("banner", client=client).error.code == "unknown"
"""

TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { paths } from "./api";

const [url, token] = process.argv.slice(2);
const client = createClient<paths>({
  baseUrl: url,
  headers: { Authorization: `Bearer ${token}` },
});
const at = { params: { path: { name: "a/b" } } };

function check(right: boolean, what: unknown): void {
  if (!right) throw new Error(JSON.stringify(what));
}

const asked = await client.POST("/v1/agents/{name}/ask", { ...at, body: { key: "visit-1" } });
if (!asked.data || Array.isArray(asked.data)) throw new Error("one decision expected");
check(asked.data.id === 1 && asked.data.arm === "blue", asked.data);
const more = await client.POST("/v1/agents/{name}/ask", { ...at, body: { n: 2 } });
check(Array.isArray(more.data) && more.data.length === 2, more.data);
const told = await client.POST("/v1/agents/{name}/tell", { ...at, body: [{ id: 1, reward: 1 }] });
check(Array.isArray(told.data) && told.data[0].result === "counted", told.data);
const wrong = await client.POST("/v1/agents/{name}/tell", { ...at, body: { id: 1, reward: 0 } });
check(wrong.error?.error.code === "conflict", wrong.error);
const events = await client.GET("/v1/agents/{name}/events", {
  params: { path: { name: "a/b" }, query: { after: 2, limit: 1 } },
});
if (!events.data || typeof events.data === "string") throw new Error("JSON expected");
check(events.data.events[0].seq === 3, events.data);
"""


def find_tool(name):
    """Return the path of a program; skip the test if the program is not installed."""
    path = shutil.which(name, path=SEARCH_PATH)
    if path is None:
        pytest.skip(f"{name} is not installed: the document was NOT tried with it")
    return path


def run(*command, cwd):
    """Run a program and return its output; if the program fails, show its output."""
    environment = {**os.environ, "PATH": SEARCH_PATH, "NO_COLOR": "1"}
    process = subprocess.run(
        [str(argument) for argument in command], cwd=cwd, env=environment, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, f"{process.stdout[-6000:]}\n{process.stderr[-3000:]}"
    return process.stdout


@pytest.fixture
def address_and_token(memory, serve_store):
    """Return the address of a service with one agent, and a token."""
    url = str(memory / "shop.db")
    with kibitz.agent(
        url,
        "a/b",
        arms=["blue", "c/d", "green"],
        policy=kibitz.ucb(),
        rewards="gaussian",
        scale=0.5,
        seed=1,
    ) as agent:
        token = create_token(agent.store, "admin")
    with serve_store(url) as address:
        yield address, token


@pytest.fixture
def document(memory, service, tmp_path):
    """Return the OpenAPI document and the path of a file that contains it."""
    url = str(memory / "document.db")
    kibitz.agent(
        url, "a", arms=["b", "c"], policy=kibitz.ucb(), rewards="gaussian", scale=1.0
    ).close()
    document = service(url).send("GET", "/openapi.json")[2]
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document))
    return document, file


def test_the_document_is_valid(document):
    try:
        from openapi_spec_validator import validate
    except ImportError:
        pytest.skip("openapi-spec-validator is not installed: the document was NOT validated")
    validate(document[0])


@pytest.fixture
def finite_streams(monkeypatch):
    """Make every stream end after its first chunk, because schemathesis reads complete responses."""

    async def take_first(chunks):
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                yield chunk
                return

    for module in (app, routes):
        monkeypatch.setattr(
            module, "open_stream", lambda call, chunks: open_stream(call, take_first(chunks))
        )


def test_schemathesis_finds_no_deviation_on_any_route(finite_streams, address_and_token, tmp_path):
    program, (address, token) = find_tool("schemathesis"), address_and_token
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    content = {"name": "checkout", "arms": ["blue", "green"], "rewards": "bernoulli", "patience": 9}
    headers = {"Authorization": f"Bearer {token}"}
    request = Request(f"{address}/v1/agents", json.dumps(content).encode(), headers)
    urlopen(request).close()
    output = run(
        program, "--config-file", "schemathesis.toml", "run", f"{address}/openapi.json",
        "--header", f"Authorization: Bearer {token}", "--exclude-path-regex", EXCLUDED_PATHS,
        "--max-examples", 15, "--request-timeout", 10, "--seed", 1, cwd=tmp_path,
    )  # fmt: skip
    paths = [
        route.path for route in [*app.ROUTES, *routes.ROUTES] if isinstance(route.endpoint, Operation)
    ]
    n_excluded = sum(re.search(EXCLUDED_PATHS, path) is not None for path in paths)
    assert f"{len(paths) - n_excluded} selected / {len(paths)} total" in output, output


def test_a_python_client_is_generated_and_works(address_and_token, document, tmp_path):
    program = find_tool("openapi-python-client")
    (tmp_path / "config.json").write_text(json.dumps({"content_type_overrides": BODY_TYPES}))
    arguments = ("generate", "--path", document[1], "--meta", "none", "--fail-on-warning")
    run(program, *arguments, "--config", "config.json", "--output-path", "generated", cwd=tmp_path)
    (tmp_path / "client.py").write_text(PYTHON)
    run(Path(program).parent / "python", "client.py", *address_and_token, cwd=tmp_path)


def test_a_typescript_client_is_generated_and_works(address_and_token, document, tmp_path):
    npm, node = find_tool("npm"), find_tool("node")
    (tmp_path / "package.json").write_text('{"type": "module", "private": true}')
    arguments = ("install", "--no-package-lock", "--no-save", "--no-audit", "--no-fund")
    process = subprocess.run(
        [npm, *arguments, *NODE_PACKAGES], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    if process.returncode != 0:
        pytest.skip("npm could not install openapi-typescript: the document was NOT tried with it")
    programs = tmp_path / "node_modules" / ".bin"
    run(programs / "openapi-typescript", document[1], "-o", "api.d.ts", cwd=tmp_path)
    (tmp_path / "client.ts").write_text(TYPESCRIPT)
    options = "--strict --target es2022 --module esnext --moduleResolution bundler --skipLibCheck"
    run(programs / "tsc", *options.split(), "client.ts", cwd=tmp_path)
    run(node, "client.js", *address_and_token, cwd=tmp_path)
