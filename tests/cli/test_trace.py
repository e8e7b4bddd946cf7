"""`kibitz trace` prints one run of `kibitz simulate`, stage by stage."""

import json
import re

import numpy as np
import pytest

import kibitz as kb

pytestmark = pytest.mark.slow

TRACE = ("trace", "--policy", "ucb", "--means", "2,1.8,0.5", "--horizon", "30")
LOOKS = ("--observer", "active", "--rate", "0.4")


def read_rows(output):
    """Return the cells of all rows of the tables, without the headings."""
    lines = [line for line in output.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_the_table_is_the_trace_of_the_library(kibitz):
    code, output, errors = kibitz(*TRACE, *LOOKS, "--seed", "5", "--run", "3")
    assert (code, errors) == (0, "")
    assert max(map(len, output.splitlines())) <= 80
    problem, feedback = kb.gaussian([2, 1.8, 0.5]), kb.active(0.4)
    data = kb.trace(problem, feedback, kb.ucb(), horizon=30, seed=5, run=3)
    rows = read_rows(output)
    assert len(rows) == 30
    for row, stage in zip(rows, range(30), strict=True):
        expected = data.isel(stage=stage)
        assert row[:2] == [str(stage + 1), str(expected["pull"].item())]
        assert float(row[2]) == pytest.approx(expected["reward"].item(), rel=0.01)
        look = expected["look"].item()
        assert row[3] == ("" if look < 0 else str(look))
        indices = [np.inf if cell == "∞" else float(cell) for cell in row[5:]]
        np.testing.assert_allclose(indices, expected["index"], rtol=1e-3)
    assert output.startswith("run 3 of ucb")
    assert "seed 5" in output


def test_the_pulls_agree_with_kibitz_simulate(kibitz):
    rows = read_rows(kibitz(*TRACE, *LOOKS)[1])
    simulate = ("simulate", *TRACE[1:], *LOOKS, "--runs", "1", "--json")
    result = json.loads(kibitz(*simulate)[1])["policies"]["ucb"]
    pulls, looks = ([row[k] for row in rows] for k in (1, 3))
    assert result["n_pulls"] == [pulls.count(arm) for arm in "012"]
    assert result["n_looks"] == [looks.count(arm) for arm in "012"]


def test_first_leaves_out_earlier_stages(kibitz):
    all_rows, rows = (read_rows(kibitz(*TRACE, *args)[1]) for args in ((), ("--first", "28")))
    assert rows == all_rows[27:]


def test_policies_without_an_index_show_means_and_several_looks_share_a_cell(kibitz):
    args = ("--observer", "active", "--every", "3", "--looks", "2", "--horizon", "4")
    output = kibitz("trace", "--policy", "thompson", "--means", "1,0.5", *args)[1]
    assert "mean of 0" in output
    assert re.fullmatch(r"[01] [01]", read_rows(output)[2][3])
    means = ",".join(["0.5"] * 20)
    output = kibitz("trace", "--policy", "ucb", "--means", means, "--observer", "full")[1]
    assert max(map(len, output.splitlines())) <= 80
    assert "every other arm is observed at every stage" in " ".join(output.split())


def test_on_a_graph_the_table_lists_the_arms_that_each_pull_shows(kibitz):
    output = kibitz(*TRACE, "--graph", "star:2")[1]
    for row in read_rows(output):
        assert row[3] == " ".join(sorted({row[1], "2"}))  # star:2: every arm shows itself and arm 2
    assert "shows: the arms whose reward the pull showed" in " ".join(output.split())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--first", "31"], "--first must be at most --horizon 30, got 31"),
        (["--horizon", "1e9"], "--horizon=1000000000 is too long for a trace of 3 arms"),
        (["--run", "-1"], "--run must be a whole number of at least 0"),
        (["--rate", "0.1"], "--rate (or --look-rate) needs --observer passive or --observer active"),
        (["--rewards", "bernoulli"], "--means must be in [0, 1]"),
    ],
)
def test_errors_name_the_flag(kibitz, args, message):
    code, output, errors = kibitz(*TRACE, *args)
    assert (code, output) == (2, "")
    assert errors.startswith(f"kibitz: {message}")
