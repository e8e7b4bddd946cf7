"""The documentation page of each command contains its help text."""

import importlib.util
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def commands():
    """Return the module of the script that writes the pages."""
    spec = importlib.util.spec_from_file_location("commands", DOCS / "commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(commands):
    """Return the text of each page, by the name of the page."""
    return commands.pages()


def test_pages_are_up_to_date(pages):
    for name, text in pages.items():
        assert (DOCS / "commands" / f"{name}.md").read_text(encoding="utf-8") == text, name


def test_every_command_has_a_page_in_the_list(pages):
    index_text = (DOCS / "command_line.md").read_text(encoding="utf-8")
    assert {path.stem for path in (DOCS / "commands").glob("*.md")} == set(pages)
    for name in pages:
        assert f"\ncommands/{name}\n" in index_text


def test_every_command_page_has_an_example_that_is_run(commands, pages):
    for name, text in pages.items():
        example = re.search(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1]
        assert f"kibitz {' '.join(commands.split_words(name))}" in example


def test_pages_agree_with_the_help(commands, pages, kibitz, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    for name, text in pages.items():
        help_text = kibitz(*commands.split_words(name), "--help")[1]
        for line in text.splitlines():
            if line.startswith("| `--"):
                option, argument, meaning, _ = (cell.strip() for cell in line[2:-2].split(" | "))
                assert all(flag.strip(" `") in help_text for flag in option.split(",")), option
                assert argument.strip("`").replace(r"\|", "|") in help_text
                assert argument or re.search(rf"{option.strip('`')} +{re.escape(meaning)}", help_text)
                assert meaning in help_text
