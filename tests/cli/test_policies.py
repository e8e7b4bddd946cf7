"""`kibitz policies` lists what the constructors take."""

import inspect

import pytest

from kibitz.policies import POLICIES

pytestmark = pytest.mark.slow


def test_all_are_listed_in_order_with_their_parameters(kibitz):
    code, output, errors = kibitz("policies")
    assert (code, errors) == (0, "")
    lines = output.splitlines()
    assert [line.split("(")[0] for line in lines[::2]] == list(POLICIES)
    for make, line, sentence in zip(POLICIES.values(), lines[::2], lines[1::2], strict=True):
        parameters = inspect.signature(make).parameters.values()
        for parameter in parameters:
            assert f"{parameter.name}={parameter.default!r}" in line
        assert sentence.strip() == inspect.getdoc(make).splitlines()[0]


def test_each_sentence_says_where_in_the_paper():
    for make in POLICIES.values():
        sentence = inspect.getdoc(make).splitlines()[0]
        assert sentence.endswith(".")
        assert "section" in sentence or "Algorithm" in sentence or "not in the paper" in sentence
