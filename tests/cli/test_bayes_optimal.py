"""`kibitz bayes-optimal`: its numbers, its table, its refusals."""

import json

import pytest

import kibitz as library
from kibitz.evaluation.bayes_optimal import bayes_regret

pytestmark = pytest.mark.slow

GAME = ("bayes-optimal", "--horizon", "30", "--every", "10", "--runs", "20")


def test_json_holds_the_numbers_of_the_library(kibitz):
    code, output, errors = kibitz(*GAME, "--policy", "ucb:exploration=2", "--json")
    assert (code, errors) == (0, "")
    data = json.loads(output)
    limit = library.bayes_optimal(30, 10).regret
    mean, sem = bayes_regret(library.ucb(2), 30, 10, runs=20, seed=1)
    assert data == {
        "optimum": limit,
        "policies": {"ucb:exploration=2": {"mean": mean, "sem": sem, "ratio": mean / limit}},
    }


def test_without_every_there_are_no_looks_and_without_policies_no_table(kibitz):
    code, output, _ = kibitz("bayes-optimal", "--horizon", "30")
    assert code == 0
    assert "no looks" in output
    assert f"{library.bayes_optimal(30).regret:.4g}" in output
    assert "±" not in output


def test_the_table_names_each_policy(kibitz):
    _, output, _ = kibitz(*GAME, "--policy", "thompson", "--policy", "ftl", "--seed", "3")
    assert "every 10 stages" in output
    assert "20 games, seed 3" in output
    assert "thompson" in output
    assert "ftl" in output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--horizon", "0"), "horizon must be a whole number of at least 1, got 0"),
        (("--horizon", "9", "--every", "x"), "every must be a whole number"),
        (("--horizon", "9", "--policy", "best"), "policy must be one of"),
        (("--horizon", "1e6"), "horizon=1000000 would take"),
    ],
)
def test_bad_input_gets_one_sentence(refused, words, sentence):
    assert refused("bayes-optimal", *words).startswith(sentence)
