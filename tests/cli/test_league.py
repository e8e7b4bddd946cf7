"""Tests of `kibitz league`: numbers, tables and errors."""

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


def test_table_has_every_policy_and_the_setting(kibitz):
    code, output, errors = kibitz(*SMALL, *TWO)
    assert (code, errors) == (0, "")
    for word in ("│ ftl │", "│ kl_ucb │", "8 settings", "3 runs, seed 7", "99 %", "ns per stage"):
        assert word in " ".join(output.split())


@pytest.fixture(scope="module")
def table():
    played = play_league([ftl(), kl_ucb()], problems=2, runs=3, horizon=60, seed=7)
    standing = standings(played)
    for one in standing["policies"].values():
        one |= {"nanoseconds": 55.0, "kernel": "generic"}
    return standing


@pytest.mark.parametrize("width", [40, 80, 170])
def test_tables_fit_any_width(table, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    print_league(table)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width


def test_settings_won_by_another_policy_are_listed(table, capsys):
    where = {"problem": "problem 2", "n_arms": 4, "rate": 0.1, "policy": "kl_ucb"}
    beaten = {**where, "regret": 3.0, "reference": 9.0, "difference": -6.0, "sem": 1.0}
    print_league({**table, "beaten": [beaten]})
    shown = capsys.readouterr().out
    assert re.search(r"│ 2 +│ +4 │ 0.1 │ kl_ucb │ +3 │ +9 │", shown)
    print_league({**table, "beaten": []})
    assert "In no setting is another policy significantly better than ftl." in capsys.readouterr().out


def test_a_figure_is_written(kibitz, tmp_path):
    plot = tmp_path / "league.svg"
    code, output, errors = kibitz(*SMALL, *TWO, "--plot", plot)
    assert (code, errors) == (0, "")
    assert output.endswith(f"written to {plot}\n")
    assert b"<svg" in plot.read_bytes()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--policy", "ftl"], ["--policy", "at least twice", "'ftl'"]),
        (["--policy", "nobody"], ["--policy", "unknown policy 'nobody'", "one of ftl, "]),
        (["--policy", "ftl", "--policy", "ftl"], ["--policy ftl is given twice"]),
        (["--problems", "0"], ["--problems", "at least 1", "0"]),
        (["--runs", "1"], ["--runs", "at least 2", "1"]),
        (["--horizon", "x"], ["--horizon", "whole number", "'x'"]),
        (["--seed", "-1"], ["--seed", "at least 0", "-1"]),
        (["--plot", "a.txt"], ["--plot", ".png, .svg or .pdf", "'a.txt'"]),
    ],
)
def test_error_names_the_flag_and_the_value(error_message, words, parts):
    message = error_message("league", *words)
    for part in parts:
        assert part in message
