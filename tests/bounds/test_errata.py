"""The errata page keeps its promise: every test that it names exists."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGES = sorted((HERE.parents[1] / "docs").glob("errata*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_named_on_the_page_exists(page):
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", page.read_text(encoding="utf-8"))
    assert len(named) > 10
    for file, name in named:
        assert f"def {name}(" in (HERE / file).read_text(encoding="utf-8"), f"{file}::{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_entry_names_a_test(page):
    for entry in re.split(r"^### ", page.read_text(encoding="utf-8"), flags=re.M)[1:]:
        assert "::test_" in entry, entry.splitlines()[0]
