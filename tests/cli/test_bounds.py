"""`kibitz bounds`: its keys, its words, its refusals."""

import json
import math
import subprocess
import sys

import pytest

from kibitz.bounds import lower, upper

pytestmark = pytest.mark.slow

FOUR = ("--means", "2,1.8,0.5,0.2", "--rate", "0.1", "--horizon", "10000")
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


def at(data, path):
    for key in path.split("."):
        data = data[key]
    return data


def test_json_has_every_key_and_only_numbers(kibitz):
    code, out, _ = kibitz("bounds", *FOUR, "--json")
    data = json.loads(out)
    assert code == 0
    for key in KEYS:
        value = at(data, key)
        for number in value if isinstance(value, list) else [value]:
            assert isinstance(number, float)
    assert data["gaps"] == pytest.approx([0, 0.2, 1.5, 1.8])
    assert data["c_delta"] == pytest.approx(1 / 0.2 + 1 / 1.5 + 1 / 1.8)
    assert data["rate_star"] == pytest.approx(4 / (10_000 * 0.2**2))


def test_json_holds_the_numbers_of_the_library(kibitz):
    words = ("--means", "0.2,1,0.5", "--rate", "1e-4", "--horizon", "1e6", "--weights", "0,0,1")
    data = json.loads(kibitz("bounds", *words, "--C", "2", "--C0", "1", "--json")[1])
    gaps, constants = [0.8, 0.0, 0.5], {"C": 2.0, "C_0": 1.0}
    maximum = lower.passive_maximum(gaps, 1e-4, [0, 0, 1], 10**6, **constants)
    assert at(data, "lower.passive.maximum") == pytest.approx(maximum) != 0
    theorem = lower.active_theorem(gaps, 1e-4, 10**6, form="printed", **constants)
    assert at(data, "printed.lower.active.theorem") == pytest.approx(theorem)
    assert at(data, "upper.ucb_sharp") == pytest.approx(upper.ucb_sharp(gaps, 1e-4, [0, 0, 1], 10**6))


def test_infinity_is_a_string(kibitz):
    words = ("--means", "1,0", "--rate", "0", "--horizon", "1e12", "--json")
    data = json.loads(kibitz("bounds", *words)[1])
    assert at(data, "upper.ucb_rate") == at(data, "upper.ftl_robin") == 10**12 - 1
    assert at(data, "hardness") == ["inf", 2.0]


def test_the_table_says_that_the_papers_problem_is_not_covered(kibitz):
    code, out, _ = kibitz("bounds", *FOUR)
    assert code == 0
    rows = [line for line in out.splitlines() if "passive, " in line or "active, " in line]
    assert len(rows) == 9
    assert all("vacuous" in row for row in rows)
    assert "570.2" in out  # what the paper prints, beside it
    assert "No proved lower bound says anything here; the first one does for ε below 0.019" in out
    assert "2495" in out  # the stage from which the theorem speaks without looks


def test_the_table_shows_bounds_that_say_something(kibitz):
    words = ("--means", "2,1.8,0.5,0.2", "--rate", "1e-5", "--horizon", "1e6")
    out = kibitz("bounds", *words)[1]
    assert "No proved lower bound" not in out
    row = next(line for line in out.splitlines() if "passive, sharp" in line)
    value = lower.passive_sharp([0, 0.2, 1.5, 1.8], 1e-5, None, 10**6)
    assert f"{value:.4g}" in row


def test_upper_bounds_that_say_nothing_are_called_vacuous(kibitz):
    out = kibitz("bounds", "--means", "1,0", "--rate", "0")[1]
    row = next(line for line in out.splitlines() if "UCB rate" in line)
    assert "vacuous" in row


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rate", "2"], "rate must be in [0, 1], got 2.0"),
        (["--rate", "nan"], "rate must be in [0, 1], got nan"),
        (["--means", "1,x"], "means must be a number, got 'x'"),
        (["--means", "1,inf"], "means must be "),
        (["--horizon", "0"], "horizon must be a whole number of at least 1, got 0"),
        (["--horizon", "2.5"], "horizon must be a whole number, got 2.5"),
        (["--weights", "best"], "weights must be "),
        (["--weights", "1,2"], "weights must be 2 numbers ≥ 0 of sum at most 1, got [1.0, 2.0]"),
        (["--C", "0"], "C must be positive and finite, got 0.0"),
        (["--C0", "-1"], "C_0 must be finite and ≥ 0, got -1.0"),
        (["--rho", "0.2"], "rho must be in [1/2, 1], got 0.2"),
        (["--alpha", "0.5"], "alpha must be finite and at least variance=1.0, got 0.5"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(refused, words, sentence):
    assert refused("bounds", "--means", "1,0", "--rate", "0.1", *words).startswith(sentence)


def test_bounds_do_not_wait_for_numba():
    code = (
        "import sys; from kibitz.cli import app; "
        'app("bounds --means 1,0 --rate 0.1".split(), standalone_mode=False); '
        'assert "numba" not in sys.modules'
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
    )


def test_every_number_is_a_number_at_the_edges(kibitz):
    for words in (
        ("--means", "1,1", "--rate", "1", "--horizon", "1"),
        ("--means", "100,0", "--rate", "1", "--horizon", "2"),
        ("--means", "1e-6,0", "--rate", "1e-9", "--horizon", "1e15", "--weights", "optimal"),
    ):
        code, out, err = kibitz("bounds", *words, "--json")
        assert (code, err) == (0, "")
        for key in KEYS:
            value = at(json.loads(out), key)
            for number in value if isinstance(value, list) else [value]:
                assert not math.isnan(float(number))
