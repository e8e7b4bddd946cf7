"""`kibitz policies` lists what the constructors take."""

import inspect

import pytest

from kibitz.cli.policies import LISTED
from kibitz.policies import POLICIES

pytestmark = pytest.mark.slow


def test_all_are_listed_in_order(kibitz):
    assert [listed.name for listed in LISTED] == list(POLICIES)
    code, output, errors = kibitz("policies")
    assert (code, errors) == (0, "")
    for name, parameters, sentence in LISTED:
        assert f"{name}({parameters})\n    {sentence}\n" in output


def test_parameters_defaults_and_sentences_are_those_of_the_constructors():
    for name, parameters, sentence in LISTED:
        signature = inspect.signature(POLICIES[name])
        expected = ", ".join(f"{p.name}={p.default!r}" for p in signature.parameters.values())
        assert parameters == expected, name
        assert sentence == inspect.getdoc(POLICIES[name]).splitlines()[0], name


def test_each_sentence_says_where_in_the_paper():
    for _, _, sentence in LISTED:
        assert sentence.endswith(".")
        assert "section" in sentence or "Algorithm" in sentence or "not in the paper" in sentence
