"""The environment of Gymnasium plays the runs of `simulate`."""

import sys

import numpy as np
import pytest
from python_agents import PlainUCB

import kibitz as kb

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")
checker = pytest.importorskip("gymnasium.utils.env_checker")

PROBLEM = kb.gaussian([0.9, 0.5, 0.7], sd=[1, 2, 1])
FEEDBACKS = {
    "bandit": kb.bandit(),
    "passive": kb.passive(0.3, "optimal", looks=2),
    "active": kb.active(0.3),
    "paid": kb.active(kb.every(3), paid=True),
    "function": kb.passive(lambda stage: 1 / stage),
    "full": kb.full(),
    "graph": kb.graph([[1, 0.5, 1], [0, 1, 0], [0.3, 0.7, 1]]),
    "graph and looks": kb.graph([[1, 0.5, 0], [1, 1, 0], [0, 0, 1]], looks=kb.active(0.3)),
}


@pytest.mark.parametrize("feedback", FEEDBACKS)
def test_the_checker_of_gymnasium_passes_without_a_warning(feedback):
    env = kb.gym_env(kb.bernoulli([0.1, 0.5, 0.3]), FEEDBACKS[feedback], 50, 1)
    checker.check_env(env, skip_render_check=True)


@pytest.mark.filterwarnings("ignore:.*Box observation space m(in|ax)imum value is -?infinity")
def test_gaussian_rewards_are_unbounded():
    env = kb.gym_env(PROBLEM, kb.active(0.3), 50, 1)
    checker.check_env(env, skip_render_check=True)


def play_episode(env):
    """Play an episode of UCB; return the regret, the pulls and the number of arrivals."""
    observation, info = env.reset()
    agent = PlainUCB(3)
    is_active = isinstance(env.action_space, gymnasium.spaces.MultiDiscrete)
    pulls, n_arrivals, is_over = [0, 0, 0], 0, False
    while not is_over:
        n_arrivals += observation["look"]
        stage = info["stage"] + 1
        pull, look = agent.pull(stage, None), agent.look(stage, None)
        action = np.array([pull, look]) if is_active else pull
        observation, _, terminated, is_over, info = env.step(action)
        assert not terminated
        agent.n_pulls[pull] += 1
        for arm in range(3):
            agent.counts[arm] += int(observation["counts"][arm])
            agent.sums[arm] += float(observation["sums"][arm])
        pulls[pull] += 1
    return info["regret"], pulls, n_arrivals


@pytest.mark.slow
@pytest.mark.parametrize("feedback", FEEDBACKS)
def test_episodes_are_the_runs_of_simulate(feedback):
    policy = kb.python_policy(PlainUCB)
    data = kb.simulate(PROBLEM, FEEDBACKS[feedback], policy, horizon=120, runs=3, seed=4)
    env = kb.gym_env(PROBLEM, FEEDBACKS[feedback], 120, 4)
    for run in range(3):
        regret, pulls, n_arrivals = play_episode(env)
        result = data.isel(policy=0, run=run)
        assert pulls == result["n_pulls"].to_numpy().tolist()
        assert regret == pytest.approx(result["final_regret"].item())
        if feedback != "full":
            assert n_arrivals * FEEDBACKS[feedback].looks == result["n_looks"].sum()


def test_a_graph_can_hide_the_reward_of_a_pull_from_the_observation():
    env = kb.gym_env(PROBLEM, kb.graph([[0, 1, 0], [1, 1, 0], [0, 0, 1]]), 9, 1)
    env.reset()
    observation, reward, *_ = env.step(0)
    assert observation["counts"].tolist() == [0, 1, 0]
    assert observation["sums"][0] == 0 != reward


def test_reset_with_a_seed_begins_its_first_run():
    env, other_env = kb.gym_env(PROBLEM, kb.full(), 9, 1), kb.gym_env(PROBLEM, kb.full(), 9, 2)
    assert [env.reset()[1]["run"] for _ in range(3)] == [0, 1, 2]
    env.reset(seed=2)
    other_env.reset()
    for _ in range(9):
        np.testing.assert_array_equal(env.step(0)[0]["sums"], other_env.step(0)[0]["sums"])


def test_misuse_raises_value_error(monkeypatch):
    env = kb.gym_env(PROBLEM, kb.bandit(), 1, 1)
    with pytest.raises(ValueError, match=r"no run is in progress; call reset\(\) first"):
        env.step(0)
    env.reset()
    with pytest.raises(ValueError, match=r"action must be in Discrete\(3\), got 3"):
        env.step(3)
    env.step(0)
    with pytest.raises(ValueError, match="no run is in progress"):
        env.step(0)
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1, got 0"):
        kb.gym_env(PROBLEM, kb.bandit(), 0, 1)
    with pytest.raises(ValueError, match="a graph that does not vary with the stage"):
        kb.gym_env(PROBLEM, kb.graph(lambda stage, i, j: 1.0), 1, 1)
    monkeypatch.setattr("kibitz.simulation.gym_env.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"run: pip install 'kibitz\[gym\]'"):
        kb.gym_env(PROBLEM, kb.bandit(), 1, 1)


def test_importing_kibitz_does_not_import_gymnasium():
    import subprocess

    script = "import kibitz, sys; kibitz.gym_env; print('gymnasium' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
    assert output == "False\n"
