"""Tests of `kibitz plan`: numbers, tables, recommendation and errors."""

import json
import re

import pytest

import kibitz as library
from kibitz.cli.output import format_number
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


def test_gaps_can_be_given_in_several_ways(kibitz):
    data = json.loads(kibitz("plan", "--horizon", "1000", "--gaps", "0.2,1", "--json")[1])
    assert data["setting"]["problems"] == [[0.0, 0.2, 1.0]]
    data = json.loads(kibitz(*RANGE, "--json")[1])
    assert len(data["setting"]["problems"]) == 9
    assert data["setting"]["cost"] == 0.1


@pytest.fixture(scope="module")
def planned():
    return library.plan(10**6, n_arms=5, gap_range=[0.1, 1], cost=0.1)


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_numbers_are_not_cut_at_any_width(planned, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = ["kibitzer", "active", "uniform", "optimal"]
    print_plan(planned, shown)
    output = capsys.readouterr().out
    assert "…" not in output
    for observer in shown:
        for regret in (planned["regret"], planned["early"]["regret"]):
            for k in (0, 1, 7, 13):
                mean, worst = (regret[observer][which][k] for which in ("mean", "worst"))
                assert f"{format_number(mean, 3)} ({format_number(worst, 3)})" in output
    assert max(map(len, output.splitlines())) <= width
    tables = len(re.findall("┏", output))
    assert tables > 1
    print_plan(planned, ["kibitzer", "active"])
    tables = len(re.findall("┏", capsys.readouterr().out))
    assert tables == 1 if width == 140 else tables > 1


def test_command_prints_the_plan_of_the_library(planned, kibitz, capsys):
    print_plan(planned, ["kibitzer", "active"])
    expected = capsys.readouterr().out
    assert kibitz(*RANGE) == (0, expected, "")


def test_policies_of_the_paper_are_an_option(kibitz):
    usual = kibitz(*ONE)[1]
    assert "UCB1-Double" in usual
    assert "UCB," not in usual
    both = kibitz(*ONE, "--policy", "ucb", "--policy", "ucb_double")[1]
    assert "│ UCB1-Double │" in " ".join(both.split()).replace("┃", "│")
    assert all(word in both for word in ("UCB,", "uniform", "optimal"))
    assert "with uniform or with optimal weights" in both
    assert "kibitzer, early" not in both


def test_recommendation_has_a_policy_a_size_and_a_saving(kibitz, planned, capsys):
    text = " ".join(kibitz(*ONE)[1].split())
    advice = library.plan(10_000, n_arms=3, gap=0.5)["advice"]
    assert advice["policy"] == "kibitzer"
    looks, rate = format_number(round(advice["looks"])), format_number(advice["rate"], 2)
    assert f"Recommendation: use kibitzer with {looks} looks (ε = {rate})" in text
    assert f"The looks save {format_number(advice['saving'], 3)}." in text
    expensive = " ".join(kibitz(*ONE, "--cost", "1e6")[1].split())
    assert "use kibitzer without looks; no look is worth its cost. Predicted regret:" in expensive
    advice = {**planned["advice"], "policy": "active", "other_policy": "kibitzer"}
    print_plan({**planned, "advice": advice}, ["active"])
    assert "use UCB1-Double with" in " ".join(capsys.readouterr().out.split())


def test_there_is_one_recommendation(planned, capsys):
    print_plan(planned, ["kibitzer", "active", "uniform", "optimal"])
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("Recommendation") == 1
    alternatives = re.findall(r"Alternative: (.+?) with(?:out)? ", text)
    assert alternatives == ["UCB1-Double", "UCB, uniform", "UCB, optimal"]
    total = planned["regret"]["kibitzer"]["mean"][0] - planned["best"]["kibitzer"]["net"]
    assert text.count(f"against {format_number(total, 3)} for kibitzer") == 3


def test_accuracy_is_one_sentence(planned, capsys):
    print_plan(planned, ["kibitzer", "active"])
    shares = [
        f"{100 * planned['accuracy'][kind]['nine_of_ten']:.0f} %"
        for kind in ("kibitzer", "active", "kibitzer, early", "early")
    ]
    assert (
        f"Accuracy: in our tests, 90 % of predictions were within {shares[0]} (kibitzer) or "
        f"{shares[1]} (UCB1-Double) of the simulated regret; "
        f"for early looks, within {shares[2]} and {shares[3]} of the regret without looks."
    ) in " ".join(capsys.readouterr().out.split())


def test_a_figure_is_written(kibitz, tmp_path):
    plot = tmp_path / "figure.svg"
    code, output, errors = kibitz(*ONE, "--plot", plot)
    assert (code, errors) == (0, "")
    assert output.endswith(f"written to {plot}\n")
    assert b"<svg" in plot.read_bytes()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--runs", "-1"], ["--runs", "at least 1", "-1"]),
        (["--runs", "0"], ["--runs", "at least 1", "0"]),
        (["--seed", "-1"], ["--seed", "at least 0", "-1"]),
        (["--horizon", "0"], ["--horizon", "at least 1", "0"]),
        (["--horizon", "1e19"], ["--horizon", "below 2^62", "1e+19"]),
        (["--arms", "1"], ["--arms", "at least 2", "1"]),
        (["--policy", "ftl"], ["--policy", "'kibitzer', 'ucb_double' or 'ucb'", "'ftl'"]),
        (["--policy", "ucbdouble"], ["--policy", "did you mean 'ucb_double'?"]),
        (["--gap", "x"], ["--gap", "a number", "'x'"]),
        (["--gap", "-1"], ["--gap", "-1.0"]),
        (["--cost", "nan"], ["--cost", "nan"]),
        (["--exploration", "0"], ["--exploration", "0.0"]),
        (["--gaps", "1,x"], ["--gaps", "a number", "'x'"]),
        (["--gaps", "1"], ["exactly one of --gap, --gap-range, --gaps", "--gap and --gaps"]),
        (["--plot", "a.txt"], ["--plot", ".png, .svg or .pdf", "'a.txt'"]),
        (["--plot", "no/a.png"], ["--plot", "folder that exists", "'no/a.png'"]),
    ],
)
def test_error_names_the_flag_and_the_value(error_message, words, parts):
    message = error_message(*ONE, *words)
    for part in parts:
        assert part in message


def test_gaps_are_required(error_message):
    assert error_message("plan", "--horizon", "99").endswith("--gaps and --log, got none of them")
    assert "--gap needs --arms" in error_message("plan", "--horizon", "99", "--gap", "1")
