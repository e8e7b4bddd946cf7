"""Tests of Python policies, which play in the same environment as compiled policies."""

import json
import os
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from textwrap import dedent

import numpy as np
import pytest
from python_agents import Buggy, Dying, Guess, Noting, OddError, PlainUCB

import kibitz as kb
from kibitz.evaluation.league import play_league, standings
from kibitz.simulation import executors

PROBLEM = kb.gaussian([0.9, 0.5, 0.7, 0.2])
FEEDBACKS = [
    kb.bandit(),
    kb.active(0.3),
    kb.active(kb.every(4), looks=2, paid=True),
    kb.passive(0.3, "optimal"),
    kb.passive(lambda stage: 1 / stage**0.5),
    kb.full(),
]


def play(policies, feedback=FEEDBACKS[1], horizon=50, runs=3, **options):
    return kb.simulate(PROBLEM, feedback, policies, horizon=horizon, runs=runs, seed=1, **options)


@pytest.fixture
def in_processes(monkeypatch):
    """Make all Python policies play in other processes, even short runs."""
    monkeypatch.setattr(executors, "SHORT_SECONDS", 0.0)
    return {"threads": 2}


@pytest.mark.slow
@pytest.mark.parametrize("feedback", FEEDBACKS, ids=lambda feedback: feedback.observer)
def test_python_and_compiled_ucb_make_equal_decisions(feedback):
    """The regret at every stage and all counts are equal, because the policies get the same noise."""
    policies = {"compiled": kb.ucb(), "python": kb.python_policy(PlainUCB)}
    data = play(policies, feedback, horizon=300, stages=range(1, 301))
    for name in ("regret", "n_pulls", "n_looks"):
        compiled, in_python = data[name].sel(policy="compiled"), data[name].sel(policy="python")
        np.testing.assert_array_equal(compiled, in_python)
    assert (data["n_pulls"].sum("arm") == 300).all()
    assert (data["n_pulls"] > 0).all()


def test_the_result_says_that_python_played_and_which_version():
    data = play([kb.python_policy(Guess), kb.python_policy(PlainUCB, label="mine", version="1.2")])
    assert list(data["policy"].to_numpy()) == ["Guess", "mine"]
    assert data.attrs["engine"] == "python"
    fingerprint = json.loads(data.attrs["fingerprint"])
    assert fingerprint["engines"] == {"Guess": "python", "mine": "python"}
    fingerprints = fingerprint["policies"]
    assert fingerprints["mine"]["parameters"] == {"label": "mine", "version": "1.2"}
    assert fingerprints["Guess"]["parameters"] == {"label": None, "version": None}
    assert data.encoding["kernel"] == {"Guess": "python", "mine": "python"}


def test_the_generator_of_the_policy_depends_on_seed_and_run_only():
    data, more_data = play(kb.python_policy(Guess)), play(kb.python_policy(Guess), runs=5)
    np.testing.assert_array_equal(data["n_pulls"], more_data["n_pulls"][:, :3])
    assert np.unique(more_data["n_pulls"][0], axis=0).shape[0] > 1


def test_without_a_look_method_the_policy_looks_at_each_arm_in_turn():
    looks = play(kb.python_policy(Guess), kb.active(1.0), horizon=10)["n_looks"].to_numpy()
    np.testing.assert_array_equal(looks[0], [[3, 3, 2, 2]] * 3)


@pytest.mark.parametrize(("scale", "factor"), [(1.0, 1.0), (None, 1 / 4), (2.0, 1 / 2)])
def test_rewards_are_divided_by_the_scale(scale, factor):
    received = []

    class Recorder(Guess):
        def update(self, arm, reward, is_look):
            received.append(reward)

    problem = kb.gaussian([4.0, 4.0], sd=4.0)
    policy = kb.python_policy(Recorder, scale=scale)
    kb.simulate(problem, kb.bandit(), policy, horizon=20, runs=1, seed=1, threads=1)
    rewards = kb.trace(problem, kb.bandit(), kb.ucb(), horizon=20, seed=1, run=0)["reward"]
    np.testing.assert_allclose(received, factor * rewards)


@pytest.mark.parametrize("kind", ["bernoulli", "bounded"])
def test_a_python_policy_for_rewards_in_the_unit_interval_rejects_other_rewards(kind):
    policy = kb.python_policy(Guess, rewards=kind)
    with pytest.raises(ValueError, match=r"Guess is for rewards in \[0, 1\]"):
        play(policy)
    kb.simulate(kb.bernoulli([0.1, 0.2]), kb.bandit(), policy, horizon=5, runs=1, seed=1)


# ---------------------------------------------------------------------------------------- processes


@pytest.mark.slow
def test_processes_threads_and_executors_give_the_same_numbers(in_processes):
    policies = [kb.python_policy(Guess), kb.python_policy(PlainUCB), kb.ucb()]
    alone = play(policies, runs=9, threads=1)
    progress = []
    in_parallel = play(
        policies, runs=9, progress=lambda _, share: progress.append(share), **in_processes
    )
    assert alone.drop_attrs().equals(in_parallel.drop_attrs())
    assert max(progress) == 1
    with ThreadPoolExecutor(2) as executor:
        assert alone.drop_attrs().equals(play(policies, runs=9, executor=executor).drop_attrs())
    summary = play(policies, runs=9, keep="summary", **in_processes)
    np.testing.assert_allclose(summary["regret"].sel(statistic="mean"), alone["regret"].mean("run"))


@pytest.mark.slow
def test_several_processes_play_a_policy(in_processes, tmp_path):
    policy = kb.python_policy(partial(Noting, folder=tmp_path), label="noting")
    play(policy, runs=8, **in_processes)
    processes = {int(path.name) for path in tmp_path.iterdir()} - {os.getpid()}
    assert len(processes) == 2


@pytest.mark.slow
def test_a_script_needs_no_main_guard(tmp_path):
    """Other processes must not run the script again, as `multiprocessing` would do."""
    script = tmp_path / "script.py"
    script.write_text(
        dedent("""
        import os
        import kibitz

        class Mine:
            def __init__(self, n_arms):
                print("object in another process:", os.getpid() != parent)
            def pull(self, stage, rng):
                return 1
            def update(self, arm, reward, is_look):
                pass

        parent = os.getpid()
        policy = kibitz.python_policy(Mine)
        options = {"horizon": 50_000, "runs": 4, "seed": 1, "threads": 2}
        data = kibitz.simulate(kibitz.gaussian([1, 0]), kibitz.bandit(), policy, **options)
        print("regret", data["final_regret"].mean().item())
        """)
    )
    process = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert process.stdout == "object in another process: False\nregret 50000.0\n", process.stderr
    # the lines of two processes may be mixed
    assert (process.stderr.count("True"), process.stderr.count("False")) == (4, 0)


@pytest.mark.slow
def test_an_error_in_a_process_is_raised_with_its_traceback(in_processes):
    with pytest.raises(AttributeError, match="missing_attribute") as info:
        play(kb.python_policy(Buggy), **in_processes)
    assert "return self.missing_attribute" in info.value.__notes__[0]
    with pytest.raises(RuntimeError, match="UnpicklableError: two words"):
        play(kb.python_policy(OddError), **in_processes)
    with pytest.raises(ValueError, match="a job was lost 4 times because its worker died"):
        play(kb.python_policy(Dying), **in_processes)


def test_an_error_in_this_process_keeps_its_type():
    with pytest.raises(AttributeError, match="missing_attribute"):
        play(kb.python_policy(Buggy), threads=1)


# ------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("file_name", ["runs.nc", "runs.zarr"])
def test_a_result_can_be_resumed_only_under_an_explicit_label(tmp_path, file_name):
    n_made = []

    class Counted(Guess):
        def __init__(self, n_arms):
            n_made.append(1)
            super().__init__(n_arms)

    options = {"file": tmp_path / file_name, "threads": 1}
    for labelled in (
        kb.python_policy(Counted, label="counted", version="1"),
        {"by key": kb.python_policy(Counted)},
    ):
        play(labelled, **options)
        n_made.clear()
        play(labelled, **options)
        assert len(n_made) == 1  # one object for the check of the methods, and none for a run
    with pytest.raises(ValueError, match=r"parameters.version = '1' instead of '2' for counted"):
        play(kb.python_policy(Counted, label="counted", version="2"), **options)
    play(kb.python_policy(Counted), **options)
    message = "cannot be resumed: it has runs of a Python policy without an explicit label"
    with pytest.raises(ValueError, match=message):
        play(kb.python_policy(Counted), **options)


# ------------------------------------------------------------------------- sweeps, leagues, checks


def test_sweep_and_league_play_python_policies():
    def make(n):
        return {"guess": kb.python_policy(lambda n_arms: Guess(min(n, n_arms)))}

    data = kb.sweep(PROBLEM, kb.bandit(), make, n=[1, 4], horizon=20, runs=2, seed=1)
    np.testing.assert_array_equal(data["n_pulls"].sel(n=1)[0, :, 0], 20)
    assert (data["n_pulls"].sel(n=4)[0, :, 0] < 20).all()
    league = play_league([kb.python_policy(Guess)], problems=1, horizon=20, runs=2, seed=1)
    assert list(standings(league)["policies"]) == ["Guess"]


def test_check_plays_a_python_policy():
    kb.check(kb.python_policy(PlainUCB))
    with pytest.raises(ValueError, match=r"pull of three must return an arm from 0 to 1, got 3"):
        kb.check(kb.python_policy(lambda n_arms: Constant(3), label="three"))


class Constant(Guess):
    """Pull the same arm at every stage."""

    def pull(self, stage, rng):
        return self.n_arms


@pytest.mark.parametrize("arm", [4, -1, None, "0", 1.0, True])
def test_a_wrong_arm_raises_an_error_that_names_the_policy(arm):
    policy = kb.python_policy(lambda n_arms: Constant(arm), label="mine")
    message = f"pull of mine must return an arm from 0 to 3, got {re.escape(repr(arm))}"
    with pytest.raises(ValueError, match=message):
        play(policy)


def test_numpy_integers_are_arms():
    play(kb.python_policy(lambda n_arms: Constant(np.int32(1))))
    play(kb.python_policy(lambda n_arms: Constant(np.array(1))))


@pytest.mark.parametrize("forgotten", [Guess, Guess(4), [Guess], {"guess": Guess}])
def test_a_class_without_python_policy_raises_an_error_that_names_python_policy(forgotten):
    with pytest.raises(ValueError, match=r"got .*Guess.*; use python_policy to make a"):
        play(forgotten)


def test_a_function_that_was_not_called_is_suggested():
    with pytest.raises(ValueError, match=r"got <function ucb .*>; did you mean ucb\(\)\?"):
        play(kb.ucb)
    with pytest.raises(ValueError, match=r"policy must be a Policy .*; did you mean imed\(\)\?"):
        kb.trace(PROBLEM, FEEDBACKS[0], kb.imed, horizon=5, seed=1)
    with pytest.raises(ValueError, match=r"got <function [^;]*$"):
        play(lambda n_arms: Guess(n_arms))


def test_wrong_arguments_are_rejected():
    with pytest.raises(ValueError, match="make must be a class or a function that takes"):
        kb.python_policy(3)
    with pytest.raises(ValueError, match="list needs a method pull; make"):
        play(kb.python_policy(lambda n_arms: [], label="list"))
    with pytest.raises(ValueError, match="label must be a text"):
        kb.python_policy(Guess, label="")
    with pytest.raises(ValueError, match="version must be a text"):
        kb.python_policy(Guess, version=2)


def test_a_live_agent_rejects_a_python_policy(tmp_path):
    url = f"sqlite:///{tmp_path / 'agents.db'}"
    with pytest.raises(ValueError, match="Guess is a Python policy, which can be simulated but not"):
        kb.agent(url, "a", arms=["x", "y"], rewards="bernoulli", policy=kb.python_policy(Guess))


def test_equal_policies_are_equal_and_can_be_pickled():
    policy = kb.python_policy(Guess, label="mine")
    assert policy == kb.python_policy(Guess, label="mine")
    assert policy != kb.python_policy(PlainUCB, label="mine")
    assert pickle.loads(pickle.dumps(policy)) == policy
