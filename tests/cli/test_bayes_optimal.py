"""Tests of `kibitz bayes-optimal`: numbers, table and errors."""

import json

import pytest

import kibitz as library
from kibitz.cli.output import format_number
from kibitz.evaluation.bayes_optimal import bayes_regret

pytestmark = pytest.mark.slow

BAYES_OPTIMAL = ("bayes-optimal", "--horizon", "30", "--every", "10", "--runs", "20")


def test_json_holds_the_numbers_of_the_library(kibitz):
    code, output, errors = kibitz(*BAYES_OPTIMAL, "--policy", "ucb:exploration=2", "--json")
    assert (code, errors) == (0, "")
    data = json.loads(output)
    limit = library.bayes_optimal(30, 10).regret
    mean, sem = bayes_regret(library.ucb(2), 30, 10, runs=20, seed=1)
    assert data == {
        "optimum": limit,
        "policies": {"ucb:exploration=2": {"mean": mean, "sem": sem, "ratio": mean / limit}},
    }


def test_the_default_has_no_looks_and_no_policies(kibitz):
    code, output, _ = kibitz("bayes-optimal", "--horizon", "30")
    assert code == 0
    assert "no looks" in output
    assert format_number(library.bayes_optimal(30).regret) in output
    assert "±" not in output


def test_table_has_each_policy(kibitz):
    _, output, _ = kibitz(*BAYES_OPTIMAL, "--policy", "thompson", "--policy", "ftl", "--seed", "3")
    assert "every 10 stages" in output
    assert "20 runs, seed 3" in output
    assert "thompson" in output
    assert "ftl" in output


@pytest.mark.parametrize(
    ("args", "message_parts"),
    [
        (("--horizon", "0"), ["--horizon", "at least 1", "0"]),
        (("--horizon", "9", "--every", "x"), ["--every", "whole number", "'x'"]),
        (("--horizon", "9", "--policy", "best"), ["--policy", "unknown policy 'best'"]),
        (("--horizon", "1e6"), ["--horizon", "1000000"]),
    ],
)
def test_error_names_the_flag_and_the_value(error_message, args, message_parts):
    message = error_message("bayes-optimal", *args)
    assert message.startswith(message_parts[0])
    for message_part in message_parts:
        assert message_part in message
