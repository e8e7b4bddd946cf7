"""The errata page keeps its promise: an entry for each discrepancy, in order, and real tests."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "errata.md").read_text(encoding="utf-8")
ENTRIES = re.split(r"^### ", PAGE.split("\n## ")[2], flags=re.M)[1:]


def test_every_test_named_on_the_page_exists():
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", PAGE)
    assert len(named) > 60
    for file, name in named:
        sources = [path.read_text(encoding="utf-8") for path in TESTS.rglob(file)]
        assert any(f"def {name}(" in source for source in sources), f"{file}::{name}"


def test_every_entry_names_a_test():
    for entry in ENTRIES:
        assert "::test_" in entry, entry.splitlines()[0]


def test_the_entries_are_in_order_and_the_contents_lead_to_each():
    numbers = [int(re.match(r"D(\d+)", entry)[1]) for entry in ENTRIES]
    assert numbers == sorted(numbers)
    listed = re.findall(r"^\| \[D(\d+)\]\(#d(\d+)\)", PAGE.split("\n## ")[1], flags=re.M)
    assert listed == [(str(n), str(n)) for n in range(1, 48)]


def test_every_link_on_the_page_leads_somewhere():
    links, places = re.findall(r"\]\(#(\w+)\)", PAGE), re.findall(r'<a id="(\w+)"></a>', PAGE)
    assert len(places) == len(set(places))
    assert set(links) <= set(places)
