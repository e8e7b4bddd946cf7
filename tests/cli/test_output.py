"""Tests of the tables, number formats and JSON that the command line prints."""

import json
import math

import pytest

from kibitz.cli.output import Printer, format_mean, format_number, print_json, shorten, to_json
from kibitz.cli.terminal import to_encodable

pytestmark = pytest.mark.slow


def print_table(capsys, monkeypatch, width, *arguments, **options):
    monkeypatch.setenv("COLUMNS", str(width))
    Printer(120).table(*arguments, **options)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 200])
def test_no_cell_is_truncated(capsys, monkeypatch, width):
    columns = ["ε", "looks", *(f"column number {k}" for k in range(8)), "list"]
    rows = [
        [f"0.00{r}", "1e+06", *(f"{1234567 * (r + k)}" for k in range(8)), "1 2 3"] for r in range(4)
    ]
    output = print_table(
        capsys, monkeypatch, width, "a title", columns, rows, lead=2, folded=("list",)
    )
    assert "…" not in output
    for row in rows:
        for cell in row[:-1]:
            assert cell in output
    lines = output.splitlines()
    narrowest_width = len("┃ 0.001 ┃ 1e+06 ┃ 12345670 ┃")
    assert max(map(len, lines)) <= max(width, narrowest_width)
    assert output.count("a title") == (1 if width >= 7 else 0) or width == 1
    groups = output.count("looks")
    assert groups == (1 if width == 200 else groups)
    assert output.count("1e+06") == 4 * groups


def test_table_that_fits_is_not_split(capsys, monkeypatch):
    rows = [["ucb", "1 2 3 4 5 6 7 8 9 10"]]
    wide_table = print_table(
        capsys, monkeypatch, 60, "t", ["policy", "shares"], rows, folded=("shares",)
    )
    assert "1 2 3 4 5 6 7 8 9 10" in wide_table
    narrow_table = print_table(
        capsys, monkeypatch, 24, "t", ["policy", "shares"], rows, folded=("shares",)
    )
    assert narrow_table.count("ucb") == 1
    assert len(narrow_table.splitlines()) > len(wide_table.splitlines())
    printed_cells = narrow_table.replace("│", " ").split()
    assert all(str(k) in printed_cells for k in range(1, 11))


def test_json_has_infinity_as_text_and_nan_as_null(capsys):
    data = {"a": [math.inf, -math.inf, (1.5, 2)], "b": {"c": math.nan, "ε": True}, "d": None}
    print_json(data)
    output = capsys.readouterr().out
    assert output.isascii()
    assert json.loads(output) == {
        "a": ["inf", "-inf", [1.5, 2]],
        "b": {"c": None, "ε": True},
        "d": None,
    }
    assert to_json(data)["a"][2] == [1.5, 2]


def test_long_list_is_shortened():
    assert shorten("1 2 3", 10) == "1 2 3"
    assert shorten("111 222 333", 8) == "111 222 …"
    assert shorten("111 222 333", 6) == "111 …"


class AsciiStream:
    encoding = "ascii"


def test_unencodable_letters_are_replaced():
    assert to_encodable("ε* = 3 ± 1 …", AsciiStream()) == "eps* = 3 +- 1 ..."
    assert to_encodable("┏━┓┃│─╭╯", AsciiStream()) == "+-+||-++"
    assert to_encodable("10⁻⁵, Δ², 猫", AsciiStream()) == "10-5, Delta^2, ?"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0, 4, "0"),
        (1, 4, "1"),
        (1630.4, 3, "1,630"),
        (1630.4, 4, "1,630"),
        (10_571, 4, "10,570"),
        (1e6, 4, "1,000,000"),
        (123_456_789_012.0, 3, "123,000,000,000"),
        (9999.6, 4, "10,000"),
        (12.5, 4, "12.5"),
        (12.0, 4, "12"),
        (0.00038, 2, "0.00038"),
        (0.000384, 2, "0.00038"),
        (1e-5, 2, "0.00001"),
        (5.6e-6, 2, "5.6e-6"),
        (-197.84, 4, "-197.8"),
        (2.5e18, 3, "2.5e18"),
        (5e-324, 3, "4.94e-324"),
        (math.inf, 4, "∞"),
        (-math.inf, 4, "-∞"),
        (math.nan, 4, "nan"),
    ],
)
def test_numbers_are_written_as_people_write_them(value, digits, text):
    assert format_number(value, digits) == text


def test_mean_is_printed_with_its_standard_error():
    assert format_mean(2443.2, 187.0) == "2,443 ± 190"
    assert format_mean(0.0, 0.0) == "0 ± 0"
