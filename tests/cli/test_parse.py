"""Words become numbers, exactly, or one sentence."""

import math

import pytest

from kibitz.cli.parse import (
    Refused,
    read_number,
    read_numbers,
    read_parameter,
    read_policy,
    read_whole,
)

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
    assert read_number(word, "x") == value
    assert isinstance(read_number(word, "x"), float)


@pytest.mark.parametrize("word", ["", "x", "1/0", "1//2", "1e400", "1,2", "1+2j", "true"])
def test_what_is_no_number(word):
    with pytest.raises(Refused) as refusal:
        read_number(word, "x")
    assert refusal.value.format_message() == f"x must be a number, got {word!r}"


@pytest.mark.parametrize(
    ("word", "value"),
    [("7", 7), ("1e6", 10**6), ("4/2", 2), (str(2**53 + 1), 2**53 + 1), (str(2**62 - 1), 2**62 - 1)],
)
def test_whole_numbers_are_exact(word, value):
    assert read_whole(word, "n") == value
    assert isinstance(read_whole(word, "n"), int)


@pytest.mark.parametrize(
    ("word", "got"),
    [("2.5", "2.5"), ("nan", "nan"), ("inf", "inf"), ("ten", "'ten'"), ("1e400", "'1e400'")],
)
def test_what_is_no_whole_number(word, got):
    with pytest.raises(Refused) as refusal:
        read_whole(word, "n")
    assert refusal.value.format_message() == f"n must be a whole number, got {got}"


@pytest.mark.parametrize(("word", "least"), [("0", 1), ("-1", 0), ("-1e3", 1)])
def test_too_small_a_number_is_refused(word, least):
    with pytest.raises(Refused, match=f"n must be a whole number of at least {least}, got -?[01]"):
        read_whole(word, "n", least)


@pytest.mark.parametrize("word", ["9223372036854775808", "1e19", str(2**62)])
def test_too_large_a_number_is_refused(word):
    with pytest.raises(Refused, match="n must be a whole number below 2"):
        read_whole(word, "n")


def test_lists():
    assert read_numbers("2,1/2,1e-1", "means") == [2.0, 0.5, 0.1]
    for word, sentence in {
        "": "means must be a list such as 1,0.5, got ''",
        "1,": "means must be a number, got ''",
        "1,x": "means must be a number, got 'x'",
    }.items():
        with pytest.raises(Refused) as refusal:
            read_numbers(word, "means")
        assert refusal.value.format_message() == sentence


def test_a_policy():
    assert read_policy("ucb", ["ucb"]) == ("ucb", {})
    assert read_policy("ucb:a=1,b=x=y", ["ucb"]) == ("ucb", {"a": "1", "b": "x=y"})
    for spec, sentence in {
        "x": "policy must be one of ucb, ftl, got 'x'",
        "ucb:a": "policy must be NAME:param=value,..., got 'ucb:a'",
        "ucb:a=": "policy must be NAME:param=value,..., got 'ucb:a='",
        "ucb:a=1,a=2": "a must be given once, got 'ucb:a=1,a=2'",
    }.items():
        with pytest.raises(ValueError) as refusal:
            read_policy(spec, ["ucb", "ftl"])
        assert str(refusal.value) == sentence


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
def test_a_parameter_is_read_as_its_annotation_says(word, annotation, value):
    got = read_parameter(word, annotation, "x")
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("annotation", "condition"),
    [(int | None, "a whole number"), (float, "a number"), (bool, "true or false")],
)
def test_a_parameter_that_cannot_be_read(annotation, condition):
    with pytest.raises(Refused) as refusal:
        read_parameter("maybe", annotation, "x")
    assert refusal.value.format_message() == f"x must be {condition}, got 'maybe'"
