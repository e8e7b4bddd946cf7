"""Tests of `kibitz bounds`: numbers, tables and errors."""

import json
import math
import subprocess
import sys

import pytest

from kibitz.bounds import complexity, lower, upper
from kibitz.cli.output import format_number
from kibitz.model.graphs import load_graph

pytestmark = pytest.mark.slow

FOUR_ARMS = ("--means", "2,1.8,0.5,0.2", "--rate", "0.1", "--horizon", "10000")
KEYS = [
    "gaps",
    "c_delta",
    "optimal_weights",
    "rate_star",
    "lower.passive.fixed_stage",
    "lower.passive.theorem",
    "lower.passive.maximum",
    "lower.passive.sharp",
    "lower.active.fixed_stage",
    "lower.active.theorem",
    "lower.active.maximum",
    "lower.active.alternative",
    "upper.ucb_log",
    "upper.ucb_rate",
    "upper.ucb_periodic",
    "upper.ucb_sharp",
    "upper.ftl_robin",
    "printed.lower.passive.theorem",
    "printed.lower.active.theorem",
    "printed.upper.ucb_rate",
]


def get_entry(data, path):
    for key in path.split("."):
        data = data[key]
    return data


def test_json_has_every_key_and_only_numbers(kibitz):
    code, out, _ = kibitz("bounds", *FOUR_ARMS, "--json")
    data = json.loads(out)
    assert code == 0
    for key in KEYS:
        value = get_entry(data, key)
        for number in value if isinstance(value, list) else [value]:
            assert isinstance(number, float)
    assert data["gaps"] == pytest.approx([0, 0.2, 1.5, 1.8])
    assert data["c_delta"] == pytest.approx(1 / 0.2 + 1 / 1.5 + 1 / 1.8)
    assert data["rate_star"] == pytest.approx(4 / (10_000 * 0.2**2))


def test_json_holds_the_numbers_of_the_library(kibitz):
    args = ("--means", "0.2,1,0.5", "--rate", "1e-4", "--horizon", "1e6", "--weights", "0,0,1")
    data = json.loads(kibitz("bounds", *args, "--C", "2", "--C0", "1", "--json")[1])
    gaps, constants = [0.8, 0.0, 0.5], {"C": 2.0, "C_0": 1.0}
    maximum = lower.passive_maximum(gaps, 1e-4, [0, 0, 1], 10**6, **constants)
    assert get_entry(data, "lower.passive.maximum") == pytest.approx(maximum) != 0
    theorem = lower.active_theorem(gaps, 1e-4, 10**6, form="printed", **constants)
    assert get_entry(data, "printed.lower.active.theorem") == pytest.approx(theorem)
    assert get_entry(data, "upper.ucb_sharp") == pytest.approx(
        upper.ucb_sharp(gaps, 1e-4, [0, 0, 1], 10**6)
    )


def test_infinity_is_a_string(kibitz):
    args = ("--means", "1,0", "--rate", "0", "--horizon", "1e12", "--json")
    data = json.loads(kibitz("bounds", *args)[1])
    assert get_entry(data, "upper.ucb_rate") == get_entry(data, "upper.ftl_robin") == 10**12 - 1
    assert get_entry(data, "hardness") == ["inf", 2.0]


def test_lower_bounds_are_vacuous_on_the_papers_problem(kibitz):
    code, out, _ = kibitz("bounds", *FOUR_ARMS)
    assert code == 0
    rows = [line for line in out.splitlines() if "passive, " in line or "active, " in line]
    assert len(rows) == 9
    assert all("vacuous" in row for row in rows)
    assert "570.2" in out  # the table also shows the value that the paper prints
    sentence = "All proved lower bounds are vacuous here; the first is positive for ε below 0.019."
    assert sentence in " ".join(out.split())
    assert "2,495" in out  # the first stage at which the theorem without looks is positive


def test_positive_lower_bounds_are_printed(kibitz):
    args = ("--means", "2,1.8,0.5,0.2", "--rate", "1e-5", "--horizon", "1e6")
    out = kibitz("bounds", *args)[1]
    assert "All proved lower bounds are vacuous" not in out
    row = next(line for line in out.splitlines() if "passive, sharp" in line)
    value = lower.passive_sharp([0, 0.2, 1.5, 1.8], 1e-5, None, 10**6)
    assert format_number(value) in row


def test_trivial_upper_bounds_are_vacuous(kibitz):
    out = kibitz("bounds", "--means", "1,0", "--rate", "0")[1]
    row = next(line for line in out.splitlines() if "UCB rate" in line)
    assert "vacuous" in row


@pytest.mark.parametrize(
    ("args", "message_parts"),
    [
        (["--rate", "2"], ["--rate", "[0, 1]", "2.0"]),
        (["--rate", "nan"], ["--rate", "[0, 1]", "nan"]),
        (["--means", "1,x"], ["--means", "a number", "'x'"]),
        (["--means", "1,inf"], ["--means", "inf"]),
        (["--horizon", "0"], ["--horizon", "at least 1", "0"]),
        (["--horizon", "2.5"], ["--horizon", "whole number", "2.5"]),
        (["--weights", "best"], ["--weights", "'best'"]),
        (["--weights", "1,2"], ["--weights", "[1.0, 2.0]"]),
        (["--C", "0"], ["--C ", "positive", "0.0"]),
        (["--C0", "-1"], ["--C0", "-1.0"]),
        (["--rho", "0.2"], ["--rho", "[1/2, 1]", "0.2"]),
        (["--alpha", "0.5"], ["--alpha", "0.5"]),
    ],
)
def test_error_names_the_flag_and_the_value(error_message, args, message_parts):
    message = error_message("bounds", "--means", "1,0", "--rate", "0.1", *args)
    assert message.startswith(message_parts[0])
    for message_part in message_parts:
        assert message_part in message


def test_bounds_do_not_import_numba():
    code = (
        "import sys; from kibitz.cli import app; "
        'app("bounds --means 1,0 --rate 0.1".split(), standalone_mode=False); '
        'assert "numba" not in sys.modules'
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
    )


def test_no_bound_is_nan_at_the_edges(kibitz):
    for args in (
        ("--means", "1,1", "--rate", "1", "--horizon", "1"),
        ("--means", "100,0", "--rate", "1", "--horizon", "2"),
        ("--means", "1e-6,0", "--rate", "1e-9", "--horizon", "1e15", "--weights", "optimal"),
    ):
        code, out, err = kibitz("bounds", *args, "--json")
        assert (code, err) == (0, "")
        for key in KEYS:
            value = get_entry(json.loads(out), key)
            for number in value if isinstance(value, list) else [value]:
                assert not math.isnan(float(number))


FIVE_ARMS = ("--means", "2,1.8,1.5,1,0.5")


def test_graph_prints_the_regime_and_the_bounds(kibitz):
    code, out, _ = kibitz("bounds", *FIVE_ARMS, "--graph", "star:0")
    assert code == 0
    assert "regime: bounded" in out
    assert "free arms, which an optimal arm shows: 0 1 2 3 4" in out
    code, out, _ = kibitz("bounds", *FIVE_ARMS, "--graph", "star:4", "--horizon", "1e6")
    assert code == 0
    assert "regime: logarithmic" in out
    assert "C* = 15.6" in " ".join(out.split())
    assert "UCB, all horizons" in out


def test_graph_in_a_file_without_loops(kibitz, tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text("2,0\n2,1\n2,2\n")
    args = ("--means", "1,0.7,0", "--graph", str(file))
    code, out, _ = kibitz("bounds", *args)
    assert code == 0
    assert "regime: T^(2/3)" in out
    assert "There is no upper bound" in out
    assert "worst case" in out
    assert "regret of order T^(2/3), no algorithm is sub-logarithmic." in " ".join(out.split())
    data = json.loads(kibitz("bounds", *args, "--json")[1])
    assert data["graph"]["constant"] == pytest.approx(4 / 0.3**2)
    assert data["setting"]["arms_without_loop"] == [0, 1]
    assert get_entry(data, "lower.graph.worst_case") == pytest.approx(
        0.14218 * 1e4 ** (2 / 3), rel=1e-4
    )
    assert data["upper"] == {}


def test_json_of_a_graph_holds_the_numbers_of_the_library(kibitz):
    args = (*FIVE_ARMS, "--graph", "cliques:2", "--look-rate", "1e-4", "--horizon", "1e6")
    data = json.loads(kibitz("bounds", *args, "--C", "2", "--json")[1])
    gaps, shows = complexity.gaps([2, 1.8, 1.5, 1, 0.5]), load_graph("cliques:2", 5)
    looks = {"rate": 1e-4}
    assert get_entry(data, "upper.ucb_graph") == pytest.approx(
        upper.ucb_graph(gaps, shows, 10**6, **looks)
    )
    fixed_stage = lower.graph_fixed_stage(gaps, shows, 10**6, C=2, **looks)
    assert get_entry(data, "lower.graph.fixed_stage") == pytest.approx(fixed_stage)
    assert data["graph"]["regime"] == "bounded"


def test_an_edge_that_is_listed_twice_names_the_graph_flag(kibitz, tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text("0,1\n0,1\n1,1\n2,2\n3,3\n4,4\n")
    code, _, error = kibitz("bounds", *FIVE_ARMS, "--graph", str(file))
    assert code == 2
    assert "--graph" in error
    assert "shows must be a matrix of probabilities for 5 arms" in error


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--graph", "stra"), "--graph stra: there is no file or named graph 'stra'"),
        (("--graph", "star:9"), "--graph star:9: star takes a whole number from 0 to 4"),
        ((), "--rate is missing; use --rate 0.1, or --graph NAME"),
    ],
)
def test_errors_name_the_graph_flag(kibitz, args, message):
    code, _, error = kibitz("bounds", *FIVE_ARMS, *args)
    assert code == 2
    assert message in error
