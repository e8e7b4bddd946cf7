"""Tests of `kibitz league`: numbers, tables and errors."""

import json
import re

import pytest

from kibitz import ftl, kl_ucb
from kibitz.cli.league import print_league
from kibitz.evaluation.league import play_league, standings

pytestmark = pytest.mark.slow

SMALL_LEAGUE = ("league", "--problems", "2", "--runs", "3", "--horizon", "60", "--seed", "7")
TWO_POLICIES = ("--policy", "ftl", "--policy", "kl_ucb")


def test_json_holds_the_numbers_of_the_library(kibitz):
    code, output, errors = kibitz(*SMALL_LEAGUE, *TWO_POLICIES, "--json")
    assert (code, errors) == (0, "")
    data = json.loads(output)
    assert {entry.pop("nanoseconds") > 0 for entry in data["policies"].values()} == {True}
    assert {entry.pop("kernel") for entry in data["policies"].values()} <= {"generic", "specialised"}
    league = play_league([ftl(), kl_ucb()], problems=2, runs=3, horizon=60, seed=7)
    assert data == json.loads(json.dumps(standings(league)))


def test_table_has_every_policy_and_the_setting(kibitz):
    code, output, errors = kibitz(*SMALL_LEAGUE, *TWO_POLICIES)
    assert (code, errors) == (0, "")
    for text in ("│ ftl │", "│ kl_ucb │", "10 settings", "3 runs, seed 7", "99 %", "ns per stage"):
        assert text in " ".join(output.split())


@pytest.fixture(scope="module")
def standings_data():
    league = play_league([ftl(), kl_ucb()], problems=2, runs=3, horizon=60, seed=7)
    standings_table = standings(league)
    for entry in standings_table["policies"].values():
        entry |= {"nanoseconds": 55.0, "kernel": "generic"}
    return standings_table


@pytest.mark.parametrize("width", [40, 80, 170])
def test_tables_fit_any_width(standings_data, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    print_league(standings_data)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width


def test_settings_won_by_another_policy_are_listed(standings_data, capsys):
    setting = {"problem": "problem 2", "n_arms": 4, "rate": 0.1, "policy": "kl_ucb"}
    beaten_setting = {**setting, "regret": 3.0, "reference": 9.0, "difference": -6.0, "sem": 1.0}
    beaten_settings = [{**beaten_setting, "looks": looks} for looks in ("active", "only the worst")]
    print_league({**standings_data, "beaten": beaten_settings})
    output = capsys.readouterr().out
    assert re.search(r"│ 2 +│ +4 │ ε=0.1 +│ kl_ucb │ +3 │ +9 │", output)
    assert re.search(r"│ 2 +│ +4 │ only the worst │ kl_ucb │ +3 │ +9 │", output)
    print_league({**standings_data, "beaten": []})
    assert "In no setting is another policy significantly better than ftl." in capsys.readouterr().out


def test_a_figure_is_written(kibitz, tmp_path):
    plot = tmp_path / "league.svg"
    code, output, errors = kibitz(*SMALL_LEAGUE, *TWO_POLICIES, "--plot", plot)
    assert (code, errors) == (0, "")
    assert output.endswith(f"written to {plot}\n")
    assert b"<svg" in plot.read_bytes()


@pytest.mark.parametrize(
    ("args", "message_parts"),
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
def test_error_names_the_flag_and_the_value(error_message, args, message_parts):
    message = error_message("league", *args)
    for message_part in message_parts:
        assert message_part in message


def test_a_league_on_graphs_has_a_table_by_graph(kibitz, error_message):
    arguments = ("--problems", "1", "--runs", "3", "--horizon", "60", "--arms", "4")
    graphs = ("--graph", "ring", "--graph", "star:3")
    code, output, errors = kibitz("league", *arguments, *graphs, *TWO_POLICIES)
    assert (code, errors) == (0, "")
    for text in ("by graph", "│ ring ", "│ star:3 ", "2 settings", "99 %", "a ring"):
        assert text in output
    assert error_message("league", "--arms", "4") == (
        "--arms needs --graph; add --graph random, or omit --arms"
    )
    assert error_message("league", "--graph", "ring", "--tests", "x.csv") == (
        "--tests and --graph cannot be combined; omit one of them"
    )
