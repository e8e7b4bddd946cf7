"""What README and documentation show is run, and links and names in them exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import kibitz

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_and_prints_something(example, tmp_path):
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_are_three_examples():
    assert len(EXAMPLES) == 3


def test_the_commands_of_the_readme_exist_with_the_options_shown():
    shown = [line for block in blocks(ROOT / "README.md", "sh") for line in block.splitlines()]
    text = " ".join(line.split("#")[0].strip(" \\") for line in shown)
    for command in re.findall(r"kibitz (\w+)((?: (?!kibitz )\S+)*)", text):
        name, rest = command
        helped = subprocess.run(
            [sys.executable, "-m", "kibitz.cli", name, "--help"],
            capture_output=True, text=True, env={"COLUMNS": "200", "TERM": "dumb"},
        )  # fmt: skip
        assert helped.returncode == 0, name
        for option in re.findall(r"--[\w-]+", rest):
            assert option in helped.stdout, (name, option)
    targets = re.findall(r"^make (\w+)", "\n".join(shown), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_the_functions_of_the_readmes_table_exist():
    table = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("|")]
    for line in table[2:]:
        module = ""
        for code in re.findall(r"`([^`]+)`", line.split("|")[2]):
            path = re.sub(r"\(.*", "", code).removeprefix("kibitz.")
            path = path if "." in path or not module or hasattr(kibitz, path) else f"{module}.{path}"
            module = path.rpartition(".")[0]
            __import__("kibitz.bounds")
            thing = kibitz
            for name in path.split("."):
                if not hasattr(thing, name):
                    __import__(f"kibitz.{path}")
                thing = getattr(thing, name)
