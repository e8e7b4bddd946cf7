"""Tests of how the command line parses numbers, lists and policies."""

import math

import pytest

from kibitz.cli.option import OptionError, parse_integer, parse_number, parse_numbers
from kibitz.cli.policies import parse_parameter, split_spec

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1e-3", 0.001),
        ("1/3", 1 / 3),
        ("-2", -2.0),
        (" 5 ", 5.0),
        ("inf", math.inf),
        ("1e3/2", 500.0),
    ],
)
def test_numbers(word, value):
    assert parse_number(word, "x") == value
    assert isinstance(parse_number(word, "x"), float)


@pytest.mark.parametrize("word", ["", "x", "1/0", "1//2", "1e400", "1,2", "1+2j", "true"])
def test_invalid_numbers(word):
    with pytest.raises(OptionError) as raised:
        parse_number(word, "x")
    assert raised.value.format_message() == f"x must be a number, got {word!r}"


@pytest.mark.parametrize(
    ("word", "value"),
    [("7", 7), ("1e6", 10**6), ("4/2", 2), (str(2**53 + 1), 2**53 + 1), (str(2**62 - 1), 2**62 - 1)],
)
def test_integers_are_exact(word, value):
    assert parse_integer(word, "n") == value
    assert isinstance(parse_integer(word, "n"), int)


@pytest.mark.parametrize(
    ("word", "got"),
    [("2.5", "2.5"), ("nan", "nan"), ("inf", "inf"), ("ten", "'ten'"), ("1e400", "'1e400'")],
)
def test_invalid_integers(word, got):
    with pytest.raises(OptionError) as raised:
        parse_integer(word, "n")
    assert raised.value.format_message() == f"n must be a whole number, got {got}"


@pytest.mark.parametrize(("word", "least"), [("0", 1), ("-1", 0), ("-1e3", 1)])
def test_integer_below_the_limit_is_rejected(word, least):
    with pytest.raises(
        OptionError, match=f"n must be a whole number of at least {least}, got -?[01]"
    ):
        parse_integer(word, "n", least)


@pytest.mark.parametrize("word", ["9223372036854775808", "1e19", str(2**62)])
def test_integer_above_the_limit_is_rejected(word):
    with pytest.raises(OptionError, match="n must be a whole number below 2"):
        parse_integer(word, "n")


def test_lists_of_numbers():
    assert parse_numbers("2,1/2,1e-1", "means") == [2.0, 0.5, 0.1]
    for word, sentence in {
        "": "means must be a list such as 1,0.5, got ''",
        "1,": "means must be a number, got ''",
        "1,x": "means must be a number, got 'x'",
    }.items():
        with pytest.raises(OptionError) as raised:
            parse_numbers(word, "means")
        assert raised.value.format_message() == sentence


def test_policy_specs():
    assert split_spec("ucb", ["ucb"]) == ("ucb", {})
    assert split_spec("ucb:a=1,b=x=y", ["ucb"]) == ("ucb", {"a": "1", "b": "x=y"})
    for spec, sentence in {
        "x": "--policy: unknown policy 'x'; choose one of ucb, ftl",
        "usb": "--policy: unknown policy 'usb'; did you mean 'ucb'?",
        "ucb:a": "--policy must have the form NAME or NAME:PARAMETER=VALUE,..., got 'ucb:a'",
        "ucb:a=": "--policy must have the form NAME or NAME:PARAMETER=VALUE,..., got 'ucb:a='",
        "ucb:a=1,a=2": "--policy ucb: a is given twice, got 'ucb:a=1,a=2'",
    }.items():
        with pytest.raises(OptionError) as raised:
            split_spec(spec, ["ucb", "ftl"])
        assert raised.value.format_message() == sentence


@pytest.mark.parametrize(
    ("word", "annotation", "value"),
    [
        ("1e3", int | None, 1000),
        ("1e3", float | None, 1000.0),
        ("2", float, 2.0),
        ("1", bool, True),
        ("False", bool, False),
        ("1", str, "1"),
    ],
)
def test_parameter_is_parsed_by_its_annotation(word, annotation, value):
    parsed = parse_parameter(word, annotation, "x")
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("annotation", "condition"),
    [(int | None, "a whole number"), (float, "a number"), (bool, "true or false")],
)
def test_invalid_parameter(annotation, condition):
    with pytest.raises(OptionError) as raised:
        parse_parameter("maybe", annotation, "x")
    assert raised.value.format_message() == f"x must be {condition}, got 'maybe'"
