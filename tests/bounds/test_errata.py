"""Tests of the errata pages: one entry per discrepancy, links, and the tests that entries name."""

import re
from pathlib import Path

import pytest

TESTS_FOLDER = Path(__file__).parents[1]
FOLDER = TESTS_FOLDER.parent / "docs" / "errata"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
SUMMARY_PAGE = PAGES["index.md"]
ENTRY_NUMBERS = list(range(1, 48))


def find_entries(text):
    """Return the entries of a page as text, each including its heading."""
    return re.findall(r"^## D\d.*?(?=^<a id|^## |\Z)", text, re.MULTILINE | re.DOTALL)


def test_every_test_named_in_the_errata_exists():
    named_tests = re.findall(r"`(test_\w+\.py)::(\w+)`", "".join(PAGES.values()))
    assert len(named_tests) > 60
    for file, name in named_tests:
        sources = [path.read_text(encoding="utf-8") for path in TESTS_FOLDER.rglob(file)]
        assert any(f"def {name}(" in source for source in sources), f"{file}::{name}"


def test_every_entry_names_a_test():
    entries = [entry for text in PAGES.values() for entry in find_entries(text)]
    assert len(entries) == 46  # D16 and D42 share an entry
    for entry in entries:
        assert "::test_" in entry, entry.splitlines()[0]


def test_the_summary_links_to_each_entry_in_order():
    rows = re.findall(
        r'^\| <a id="d(\d+)"></a>\[D(\d+)\]\(([\w-]+\.md)#d(\d+)\) \|', SUMMARY_PAGE, re.MULTILINE
    )
    assert [(int(row[0]), int(row[1]), int(row[3])) for row in rows] == [
        (n, n, n) for n in ENTRY_NUMBERS
    ]
    for number, _, page, _ in rows:
        headings = [entry.partition(":")[0] for entry in find_entries(PAGES[page])]
        assert any(re.search(rf"\bD{number}\b", heading) for heading in headings), number


@pytest.mark.parametrize("page", PAGES)
def test_links_between_errata_lead_to_an_anchor(page):
    anchors = {name: re.findall(r'<a id="(\w+)"></a>', text) for name, text in PAGES.items()}
    assert len(anchors[page]) == len(set(anchors[page]))
    for target, anchor in re.findall(r"\]\(([\w-]+\.md)?#(d\d+)\)", PAGES[page]):
        assert anchor in anchors[target or page], (target, anchor)
