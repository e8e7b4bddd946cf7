"""The page of each command in the documentation is its own help."""

import importlib.util
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("commands", DOCS / "commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


def test_every_page_is_as_python_docs_commands_py_writes_it(pages):
    for name, text in pages.items():
        assert (DOCS / "commands" / f"{name}.md").read_text(encoding="utf-8") == text, name


def test_every_command_has_its_page_in_the_list(pages):
    listed = (DOCS / "command_line.md").read_text(encoding="utf-8")
    assert {path.stem for path in (DOCS / "commands").glob("*.md")} == set(pages)
    for name in pages:
        assert f"\ncommands/{name}\n" in listed


def test_the_pages_say_what_the_help_says(pages, kibitz, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    for name, text in pages.items():
        shown = kibitz(*name.split("-"), "--help")[1]
        for line in text.splitlines():
            if line.startswith("| `--"):
                option, takes, meaning, _ = (cell.strip() for cell in line[2:-2].split(" | "))
                assert all(word.strip(" `") in shown for word in option.split(",")), option
                assert takes.strip("`").replace(r"\|", "|") in shown
                assert takes or re.search(rf"{option.strip('`')} +{re.escape(meaning)}", shown)
                assert meaning in shown
