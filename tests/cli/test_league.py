"""`kibitz league`: its numbers, its tables, its refusals."""

import json
import re

import pytest

from kibitz import ftl, kl_ucb
from kibitz.cli.league import print_league
from kibitz.evaluation.league import play_league, standings

pytestmark = pytest.mark.slow

SMALL = ("league", "--problems", "2", "--runs", "3", "--horizon", "60", "--seed", "7")
TWO = ("--policy", "ftl", "--policy", "kl_ucb")


def test_json_holds_the_numbers_of_the_library(kibitz):
    code, output, errors = kibitz(*SMALL, *TWO, "--json")
    assert (code, errors) == (0, "")
    data = json.loads(output)
    assert {one.pop("nanoseconds") > 0 for one in data["policies"].values()} == {True}
    assert {one.pop("kernel") for one in data["policies"].values()} <= {"generic", "specialised"}
    played = play_league([ftl(), kl_ucb()], problems=2, runs=3, horizon=60, seed=7)
    assert data == json.loads(json.dumps(standings(played)))


def test_the_table_shows_every_policy_and_how_it_was_made(kibitz):
    code, output, errors = kibitz(*SMALL, *TWO)
    assert (code, errors) == (0, "")
    for word in ("│ ftl │", "│ kl_ucb │", "8 settings", "3 runs, seed 7", "q99", "ns a stage"):
        assert word in " ".join(output.split())


@pytest.fixture(scope="module")
def found():
    played = play_league([ftl(), kl_ucb()], problems=2, runs=3, horizon=60, seed=7)
    standing = standings(played)
    for one in standing["policies"].values():
        one |= {"nanoseconds": 55.0, "kernel": "generic"}
    return standing


@pytest.mark.parametrize("width", [40, 80, 170])
def test_tables_fit_any_width(found, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    print_league(found)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width


def test_it_says_where_another_wins_or_that_none_does(found, capsys):
    where = {"problem": "problem 2", "n_arms": 4, "rate": 0.1, "policy": "kl_ucb"}
    beaten = {**where, "regret": 3.0, "reference": 9.0, "difference": -6.0, "sem": 1.0}
    print_league({**found, "beaten": [beaten]})
    shown = capsys.readouterr().out
    assert re.search(r"│ 2 +│ +4 │ 0.1 │ kl_ucb │ +3 │ +9 │", shown)
    print_league({**found, "beaten": []})
    assert "in no setting is another policy surely better than ftl" in capsys.readouterr().out


def test_a_figure_is_written(kibitz, tmp_path):
    plot = tmp_path / "league.svg"
    code, output, errors = kibitz(*SMALL, *TWO, "--plot", plot)
    assert (code, errors) == (0, "")
    assert output.endswith(f"written to {plot}\n")
    assert b"<svg" in plot.read_bytes()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--policy", "ftl"], "policy must be two or more policies, got ['ftl']"),
        (["--policy", "nobody"], "policy must be one of ftl, "),
        (["--policy", "ftl", "--policy", "ftl"], "policy must be given once each, got 'ftl' twice"),
        (["--problems", "0"], "problems must be a whole number of at least 1, got 0"),
        (["--runs", "1"], "runs must be a whole number of at least 2, got 1"),
        (["--horizon", "x"], "horizon must be a whole number, got 'x'"),
        (["--seed", "-1"], "seed must be a whole number of at least 0, got -1"),
        (["--plot", "a.txt"], "plot must be a name that ends in .png, .svg or .pdf, got 'a.txt'"),
    ],
)
def test_bad_input_gets_one_sentence(refused, words, sentence):
    assert refused("league", *words).startswith(sentence)
