"""`kibitz plan`: its numbers, its tables, its refusals."""

import json
import re

import pytest

import kibitz as library
from kibitz.cli.plan import print_plan

pytestmark = pytest.mark.slow

ONE = ("plan", "--horizon", "1e4", "--arms", "3", "--gap", "0.5")
RANGE = ("plan", "--horizon", "1e6", "--arms", "5", "--gap-range", "0.1,1", "--cost", "0.1")


def test_json_holds_the_numbers_of_the_library(kibitz):
    code, output, errors = kibitz(*ONE, "--cost", "1/10", "--json")
    assert (code, errors) == (0, "")
    planned = library.plan(10_000, n_arms=3, gap=0.5, cost=0.1)
    data = json.loads(output)
    assert data.keys() == planned.keys()
    assert data["regret"] == planned["regret"]
    assert data["setting"] == planned["setting"]


def test_each_way_to_give_the_gaps_is_understood(kibitz):
    data = json.loads(kibitz("plan", "--horizon", "1000", "--gaps", "0.2,1", "--json")[1])
    assert data["setting"]["problems"] == [[0.0, 0.2, 1.0]]
    data = json.loads(kibitz(*RANGE, "--json")[1])
    assert len(data["setting"]["problems"]) == 9
    assert data["setting"]["cost"] == 0.1


@pytest.fixture(scope="module")
def planned():
    return library.plan(10**6, n_arms=5, gap_range=[0.1, 1], cost=0.1)


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_tables_show_whole_numbers_at_any_width(planned, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = ["kibitzer", "active", "uniform", "optimal"]
    print_plan(planned, shown)
    output = capsys.readouterr().out
    assert "…" not in output
    for observer in shown:
        for regret in (planned["regret"], planned["early"]["regret"]):
            for k in (0, 1, 7, 13):
                mean, worst = (regret[observer][which][k] for which in ("mean", "worst"))
                assert f"{mean:.4g} ({worst:.4g})" in output
    assert max(map(len, output.splitlines())) <= width
    tables = len(re.findall("┏", output))
    assert tables > 1
    print_plan(planned, ["kibitzer", "active"])
    tables = len(re.findall("┏", capsys.readouterr().out))
    assert tables == 1 if width == 140 else tables > 1


def test_the_command_prints_the_plan_of_the_library(planned, kibitz, capsys):
    print_plan(planned, ["kibitzer", "active"])
    expected = capsys.readouterr().out
    assert kibitz(*RANGE) == (0, expected, "")


def test_the_policies_of_the_paper_are_an_option(kibitz):
    usual = kibitz(*ONE)[1]
    assert "UCB1-Double" in usual
    assert "UCB," not in usual
    both = kibitz(*ONE, "--policy", "ucb", "--policy", "ucb_double")[1]
    assert "│ UCB1-Double │" in " ".join(both.split()).replace("┃", "│")
    assert all(word in both for word in ("UCB,", "uniform", "best", "weights"))  # which are folded
    assert "kibitzer, early" not in both


def test_it_recommends_a_policy_and_says_what_a_bucket_saves(kibitz, planned, capsys):
    text = " ".join(kibitz(*ONE)[1].split())
    advice = library.plan(10_000, n_arms=3, gap=0.5)["advice"]
    assert advice["policy"] == "kibitzer"
    assert (
        f"use kibitzer: a bucket of {advice['looks']:.3g} looks (ε = {advice['rate']:.2g}) saves"
        in (text)
    )
    dear = " ".join(kibitz(*ONE, "--cost", "1e6")[1].split())
    assert "use kibitzer, without looks: no bucket is worth its cost; predicted regret" in dear
    other = {**planned, "advice": {**planned["advice"], "policy": "active"}}
    print_plan(other, ["active"])
    assert "use UCB1-Double: a bucket of" in " ".join(capsys.readouterr().out.split())


def test_a_figure_is_written(kibitz, tmp_path):
    plot = tmp_path / "figure.svg"
    code, output, errors = kibitz(*ONE, "--plot", plot)
    assert (code, errors) == (0, "")
    assert output.endswith(f"written to {plot}\n")
    assert b"<svg" in plot.read_bytes()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--runs", "-1"], "runs must be a whole number of at least 1, got -1"),
        (["--runs", "0"], "runs must be a whole number of at least 1, got 0"),
        (["--seed", "-1"], "seed must be a whole number of at least 0, got -1"),
        (["--horizon", "0"], "horizon must be a whole number of at least 1, got 0"),
        (["--horizon", "1e19"], "horizon must be a whole number below 2^62, got"),
        (["--arms", "1"], "n_arms must be a whole number of at least 2, got 1"),
        (["--policy", "ftl"], "policy must be 'kibitzer', 'ucb_double' or 'ucb', got 'ftl'"),
        (["--gap", "x"], "gap must be a number, got 'x'"),
        (["--gap", "-1"], "gap must be "),
        (["--cost", "nan"], "cost must be "),
        (["--exploration", "0"], "exploration must be "),
        (["--gaps", "1,x"], "gaps must be a number, got 'x'"),
        (["--plot", "a.txt"], "plot must be a name that ends in .png, .svg or .pdf, got 'a.txt'"),
        (["--plot", "no/a.png"], "plot must be in a folder that exists, got 'no/a.png'"),
    ],
)
def test_bad_input_gets_one_sentence(refused, words, sentence):
    assert refused(*ONE, *words).startswith(sentence)
