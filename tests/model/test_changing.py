"""Problems that change with time: construction, errors, files, figures and the command line."""

import json
import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

import kibitz as kb
from kibitz.bounds import lower, upper
from kibitz.cli import app

PAIR = [(1, kb.gaussian([1, 0])), (101, kb.gaussian([0, 2], sd=3))]


def test_a_changing_problem_has_a_row_per_piece():
    problem = kb.changing(PAIR)
    assert problem.n_arms == 2
    assert problem.scale == 3
    assert problem.gaps.tolist() == [[0, 1], [2, 0]]
    assert [problem.at(stage).means.tolist() for stage in (1, 100, 101, 10**9)] == [
        [1, 0], [1, 0], [0, 2], [0, 2],
    ]  # fmt: skip
    assert kb.changing(PAIR[:1]) is PAIR[0][1]
    first, second = (piece for _, piece in PAIR)
    assert repr(problem) == f"changing([(1, {first!r}), (101, {second!r})])"


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([], "pieces must be a list of pairs"),
        ([kb.gaussian([1, 0])], r"pieces\[0\] must be a pair"),
        ([(2, PAIR[0][1])], r"the start of pieces\[0\] must be 1, the first stage, got 2"),
        ([PAIR[0], (1, PAIR[0][1])], r"the start of pieces\[1\] must be after stage 1, got 1"),
        ([PAIR[0], (2.5, PAIR[0][1])], r"the start of pieces\[1\] must be a whole number"),
        ([PAIR[0], (5, kb.gaussian([1, 0, 2]))], r"pieces\[1\] must be .* 2 arms, .* got 3 arms"),
        ([PAIR[0], (5, kb.bernoulli([1, 0]))], "gaussian rewards, .* got bernoulli rewards"),
        ([PAIR[0], (5, kb.changing(PAIR))], r"pieces\[1\] must not change with time"),
        ([PAIR[0], (5, [1, 0])], r"pieces\[1\] must be a problem such as"),
    ],
)
def test_bad_pieces_are_rejected(pieces, message):
    with pytest.raises(ValueError, match=message):
        kb.changing(pieces)


def test_a_drift_is_a_list_of_pieces():
    problem = kb.drifting(lambda t: [0.5, 0.5 + 0.4 * math.cos(t)], 100, step=30, rewards="bernoulli")
    assert problem.starts == (1, 31, 61, 91)
    assert problem.at(60).means.tolist() == [0.5, 0.5 + 0.4 * math.cos(31)]
    assert len(kb.drifting(lambda t: [t, 0], 10_001).starts) == 910  # pieces of 11 stages
    stages = []
    kb.drifting(lambda t: stages.append(t) or [t, 0], 100, step=30)  # numba cannot compile this
    assert stages == [1, 31, 61, 91]
    for mean, rewards in ((math.nan, "gaussian"), (math.inf, "gaussian"), (1.01, "bernoulli")):
        with pytest.raises(ValueError, match="the mean of arm 1 at stage 31 must be"):
            kb.drifting(lambda t, m=mean: [0, m if t > 30 else 0], 100, step=30, rewards=rewards)
    with pytest.raises(ValueError, match="would make 1000001 pieces, more than 1000000; use step=2"):
        kb.drifting(lambda t: [1, 0], 10**6 + 1, step=1)
    with pytest.raises(ValueError, match=r"means\(1\) must be a list of at least 2 numbers"):
        kb.drifting(lambda t: t, 10)


def test_functions_for_stationary_problems_reject_a_change():
    problem = kb.changing(PAIR)
    for call in (
        lambda: upper.kibitzer(problem, kb.active(0.1), 1000),
        lambda: lower.reference_curve(problem, kb.active(0.1), 1000),
    ):
        with pytest.raises(ValueError, match="problem must not change with time, got 2 pieces"):
            call()
    for call in (
        lambda: kb.plan(1000, gaps=problem),
        lambda: kb.league([kb.ucb()], problems=problem, seed=1),
        lambda: kb.bayes_optimal(problem),
    ):
        with pytest.raises(ValueError, match=r"must be a .*, got changing\("):
            call()


def test_weights_that_need_gaps_are_rejected_in_a_piece_without_gaps():
    problem = kb.changing([PAIR[0], (50, kb.gaussian([1, 1]))])
    with pytest.raises(ValueError, match="in the piece that starts at stage 50"):
        kb.simulate(problem, kb.passive(0.1, "optimal"), kb.ucb(), horizon=100, runs=1, seed=1)


def test_results_are_saved_resumed_swept_and_drawn(tmp_path):
    def simulate(problem, runs):
        return kb.simulate(
            problem, kb.bandit(), kb.ucb(), horizon=300, runs=runs, seed=1, kernel="generic",
            file=tmp_path / "result.nc", progress=False,
        )  # fmt: skip

    problem = kb.changing(PAIR)
    first = simulate(problem, 3)
    resumed = simulate(problem, 5)
    np.testing.assert_array_equal(resumed["regret"][:, :3], first["regret"])
    assert resumed.attrs["problem"].startswith("changing (starts 1, 101; pieces gaussian (means 1, 0")
    with pytest.raises(ValueError, match=r"cannot be resumed: it has problem\.starts"):
        simulate(kb.changing([PAIR[0], (102, PAIR[1][1])]), 5)
    axes = kb.plot.regret(resumed)
    assert [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"] == [101]
    plt.close(axes.figure)
    swept = kb.sweep(
        lambda change: kb.changing([PAIR[0], (change, PAIR[1][1])]), kb.bandit(), kb.ucb(),
        change=[101, 10_000], horizon=300, runs=3, seed=1, kernel="generic", progress=False,
    )  # fmt: skip
    np.testing.assert_array_equal(swept["final_regret"].sel(change=101), first["final_regret"])
    # the problem stays in its first piece, where a pull of arm 1 costs 1
    never_changed = swept.sel(change=10_000)
    np.testing.assert_array_equal(never_changed["final_regret"], never_changed["n_pulls"][..., 1])


def test_many_pieces_are_described_by_a_hash():
    problems = [kb.drifting(lambda t, a=a: [t, a], 2002, step=1) for a in (0, 0, 1)]
    hashes = [problem.spec["hash"] for problem in problems]
    assert hashes[0] == hashes[1] != hashes[2]


def run_command(*words):
    result = CliRunner().invoke(app, ["simulate", "--policy", "ucb", "--runs", "3", *words])
    return result.exit_code, result.output


def test_the_command_line_takes_changes(tmp_path):
    file = tmp_path / "problem.csv"
    file.write_text("stage,first,second\n1,1,0\n101,0,2\n")
    arguments = ("--horizon", "300", "--json")
    code, output = run_command("--means", "1,0", "--change", "101:0,2", *arguments)
    assert code == 0, output
    assert run_command("--problem", str(file), *arguments) == (code, output)
    for words, message in (
        (("--means", "1,0", "--change", "101"), "--change must be as in 3001:2,0.5,0.2"),
        (("--means", "1,0", "--change", "101:1"), "at least 2 numbers"),
        (("--means", "1,0", "--change", "1:1,2"), "must be after stage 1"),
        (
            ("--means", "1,0", "--change", "9:1,nan"),
            "--change, from stage 9 on: means must be finite",
        ),
        (("--means", "1,0", "--change", "9:1,0,2"), "from stage 9 on: one mean is needed for each"),
        (("--means", "1,0", "--problem", str(file)), "--means cannot be used with --problem"),
        (("--problem", str(tmp_path / "none.csv")), "cannot read --problem"),
        (("--log", "x.csv", "--change", "2:1,0"), "--change cannot be used with --log"),
    ):
        code, output = run_command(*words)
        assert code != 0
        assert message in " ".join(output.replace("│", " ").split())


def test_the_command_line_rehearses_a_change():
    words = ["rehearse", "--rewards", "bernoulli", "--means", "0.9,0.2", "--change", "201:0.05,0.2"]
    options = ["--horizon", "400", "--runs", "1", "--delay", "5", "--loss", "0.1", "--alarms", "0.1"]
    result = CliRunner().invoke(app, [*words, *options])
    assert result.exit_code == 0, result.output
    assert "alarms of the monitor in each run: 1" in result.output
    assert json.loads(CliRunner().invoke(app, [*words, *options, "--json"]).output)["n_alarms"] == [1]


def test_a_rehearsal_and_an_environment_follow_the_pieces():
    problem = kb.changing([PAIR[0], (51, kb.gaussian([0, 2]))])
    arguments = {"horizon": 120, "runs": 1, "seed": 4, "progress": False}
    rehearsal_data = kb.rehearse(problem, kb.ucb(), **arguments)
    simulation_data = kb.simulate(problem, kb.bandit(), kb.ucb(), kernel="generic", **arguments)
    np.testing.assert_allclose(rehearsal_data["final_regret"], simulation_data["final_regret"])
    pytest.importorskip("gymnasium")
    environment = kb.gym_env(problem, kb.bandit(), horizon=120, seed=4)
    for _ in range(2):  # the second run begins with the first piece again
        environment.reset()
        info = [environment.step(1)[-1] for _ in range(120)][-1]
        assert info["regret"] == 50
