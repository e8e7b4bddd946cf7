"""Tests of how the command line parses numbers, lists and policies."""

import math

import pytest

from kibitz.cli.option import OptionError, parse_integer, parse_number, parse_numbers
from kibitz.cli.policies import parse_parameter, split_spec

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1/3", 1 / 3),
        ("-2", -2.0),
        (" 5 ", 5.0),
        ("inf", math.inf),
        ("1e3/2", 500.0),
    ],
)
def test_numbers_are_parsed(text, value):
    assert parse_number(text, "x") == value
    assert isinstance(parse_number(text, "x"), float)


@pytest.mark.parametrize("text", ["", "x", "1/0", "1//2", "1e400", "1,2", "1+2j", "true"])
def test_invalid_numbers_are_rejected(text):
    with pytest.raises(OptionError) as error:
        parse_number(text, "x")
    assert error.value.format_message() == f"x must be a number, got {text!r}"


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("1e6", 10**6), ("4/2", 2), (str(2**53 + 1), 2**53 + 1), (str(2**62 - 1), 2**62 - 1)],
)
def test_integers_are_exact(text, value):
    assert parse_integer(text, "n") == value
    assert isinstance(parse_integer(text, "n"), int)


@pytest.mark.parametrize(
    ("text", "shown_value"),
    [("2.5", "2.5"), ("nan", "nan"), ("inf", "inf"), ("ten", "'ten'"), ("1e400", "'1e400'")],
)
def test_invalid_integers_are_rejected(text, shown_value):
    with pytest.raises(OptionError) as error:
        parse_integer(text, "n")
    assert error.value.format_message() == f"n must be a whole number, got {shown_value}"


@pytest.mark.parametrize(("text", "limit"), [("0", 1), ("-1", 0), ("-1e3", 1)])
def test_integer_below_the_limit_is_rejected(text, limit):
    with pytest.raises(
        OptionError, match=f"n must be a whole number of at least {limit}, got -?[01]"
    ):
        parse_integer(text, "n", limit)


@pytest.mark.parametrize("text", ["9223372036854775808", "1e19", str(2**62)])
def test_integer_above_the_limit_is_rejected(text):
    with pytest.raises(OptionError, match="n must be a whole number below 2"):
        parse_integer(text, "n")


def test_lists_of_numbers_are_parsed():
    assert parse_numbers("2,1/2,1e-1", "means") == [2.0, 0.5, 0.1]
    for text, sentence in {
        "": "means must be a list such as 1,0.5, got ''",
        "1,": "means must be a number, got ''",
        "1,x": "means must be a number, got 'x'",
    }.items():
        with pytest.raises(OptionError) as error:
            parse_numbers(text, "means")
        assert error.value.format_message() == sentence


def test_policy_specs_are_parsed():
    assert split_spec("ucb", ["ucb"]) == ("ucb", {})
    assert split_spec("ucb:a=1,b=x=y", ["ucb"]) == ("ucb", {"a": "1", "b": "x=y"})
    for spec, sentence in {
        "x": "--policy: unknown policy 'x'; choose one of ucb, ftl",
        "usb": "--policy: unknown policy 'usb'; did you mean 'ucb'?",
        "ucb:a": "--policy must have the form NAME or NAME:PARAMETER=VALUE,..., got 'ucb:a'",
        "ucb:a=": "--policy must have the form NAME or NAME:PARAMETER=VALUE,..., got 'ucb:a='",
        "ucb:a=1,a=2": "--policy ucb: a is given twice in 'ucb:a=1,a=2'",
    }.items():
        with pytest.raises(OptionError) as error:
            split_spec(spec, ["ucb", "ftl"])
        assert error.value.format_message() == sentence


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("1e3", int | None, 1000),
        ("1e3", float | None, 1000.0),
        ("2", float, 2.0),
        ("1", bool, True),
        ("False", bool, False),
        ("1", str, "1"),
    ],
)
def test_parameter_is_parsed_by_its_annotation(text, annotation, value):
    parsed_value = parse_parameter(text, annotation, "x")
    assert parsed_value == value
    assert type(parsed_value) is type(value)


@pytest.mark.parametrize(
    ("annotation", "condition"),
    [(int | None, "a whole number"), (float, "a number"), (bool, "true or false")],
)
def test_invalid_parameters_are_rejected(annotation, condition):
    with pytest.raises(OptionError) as error:
        parse_parameter("maybe", annotation, "x")
    assert error.value.format_message() == f"x must be {condition}, got 'maybe'"
