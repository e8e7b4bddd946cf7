"""Tables fit, cells are whole; JSON takes every number."""

import json
import math

import pytest

from kibitz.cli.tables import Page, for_json, print_json, shorten
from kibitz.cli.terminal import spelled

pytestmark = pytest.mark.slow


def printed(capsys, monkeypatch, width, *arguments, **options):
    monkeypatch.setenv("COLUMNS", str(width))
    Page(120).table(*arguments, **options)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 200])
def test_no_cell_is_cut(capsys, monkeypatch, width):
    columns = ["ε", "looks", *(f"column number {k}" for k in range(8)), "list"]
    rows = [
        [f"0.00{r}", "1e+06", *(f"{1234567 * (r + k)}" for k in range(8)), "1 2 3"] for r in range(4)
    ]
    output = printed(capsys, monkeypatch, width, "a title", columns, rows, lead=2, folded=("list",))
    assert "…" not in output
    for row in rows:
        for cell in row[:-1]:
            assert cell in output
    lines = output.splitlines()
    narrowest = len("┃ 0.001 ┃ 1e+06 ┃ 12345670 ┃")
    assert max(map(len, lines)) <= max(width, narrowest)
    assert output.count("a title") == (1 if width >= 7 else 0) or width == 1
    groups = output.count("looks")
    assert groups == (1 if width == 200 else groups)
    assert output.count("1e+06") == 4 * groups


def test_a_table_that_fits_is_one(capsys, monkeypatch):
    rows = [["ucb", "1 2 3 4 5 6 7 8 9 10"]]
    wide = printed(capsys, monkeypatch, 60, "t", ["policy", "shares"], rows, folded=("shares",))
    assert "1 2 3 4 5 6 7 8 9 10" in wide
    narrow = printed(capsys, monkeypatch, 24, "t", ["policy", "shares"], rows, folded=("shares",))
    assert narrow.count("ucb") == 1
    assert len(narrow.splitlines()) > len(wide.splitlines())
    words = narrow.replace("│", " ").split()
    assert all(str(k) in words for k in range(1, 11))


def test_json_takes_every_number(capsys):
    data = {"a": [math.inf, -math.inf, (1.5, 2)], "b": {"c": math.nan, "ε": True}, "d": None}
    print_json(data)
    output = capsys.readouterr().out
    assert output.isascii()
    assert json.loads(output) == {
        "a": ["inf", "-inf", [1.5, 2]],
        "b": {"c": None, "ε": True},
        "d": None,
    }
    assert for_json(data)["a"][2] == [1.5, 2]


def test_a_long_list_is_shortened():
    assert shorten("1 2 3", 10) == "1 2 3"
    assert shorten("111 222 333", 8) == "111 222 …"
    assert shorten("111 222 333", 6) == "111 …"


class Ascii:
    encoding = "ascii"


def test_letters_are_spelled():
    assert spelled("ε* = 3 ± 1 …", Ascii()) == "eps* = 3 +- 1 ..."
    assert spelled("┏━┓┃│─╭╯", Ascii()) == "+-+||-++"
    assert spelled("10⁻⁵, Δ², 猫", Ascii()) == "10-5, Delta^2, ?"
