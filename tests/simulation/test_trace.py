"""A trace is the run that `simulate` plays, stage by stage."""

import numpy as np
import pytest
from histories import make_policy, numpy_streams
from python_agents import Guess, PlainUCB

import kibitz as kb
from kibitz import _progress
from kibitz.policies import POLICIES

MEANS = [0.9, 0.5, 0.7, 0.2]
PROBLEMS = {
    "gaussian": kb.gaussian(MEANS, sd=[1, 2, 0.5, 1]),
    "bernoulli": kb.bernoulli(MEANS),
    "empirical": kb.empirical([[0, 3], [1, 1.5, 0.25], [2], [-1, 0.5]]),
}
HIDING = np.array([[0.5, 0.5, 0, 1], [0, 1, 0, 0], [0, 1, 0, 0.3], [0.2, 0, 1, 1]])
FEEDBACKS = {
    "bandit": kb.bandit(),
    "active": kb.active(0.3),
    "passive": kb.passive(0.3, "optimal"),
    "two paid looks": kb.active(kb.every(3), looks=2, paid=True),
    "full": kb.full(),
    "graph": kb.graph([[1, 0.5, 0, 1], [0, 1, 0.2, 0], [0.3, 1, 1, 0], [0, 0, 1, 1]]),
    "graph and looks": kb.graph(np.ones((4, 4)), looks=kb.active(0.3)),
    "hiding graph": kb.graph(HIDING),
}
HORIZON = 150


def trace(policy, problem="gaussian", feedback="active", horizon=HORIZON, seed=3, run=2):
    arguments = PROBLEMS[problem], FEEDBACKS[feedback], policy
    return kb.trace(*arguments, horizon=horizon, seed=seed, run=run)


def count_arms(arms):
    """Return the number of occurrences of each arm; -1 means no arm."""
    return np.bincount(arms[arms >= 0], minlength=len(MEANS))


def assert_is_run_of_simulate(policy, problem, feedback, run=2):
    data = trace(policy, problem, feedback, run=run)
    simulated = kb.simulate(
        PROBLEMS[problem], FEEDBACKS[feedback], policy, horizon=HORIZON, runs=run + 1, seed=3,
        stages=range(1, HORIZON + 1), engine="step",
    ).isel(policy=0, run=run)  # fmt: skip
    pulls, looks = data["pull"].to_numpy(), data["look"].to_numpy()[:, np.newaxis]
    if "later_look" in data:
        looks = np.concatenate([looks, data["later_look"]], axis=1)
    np.testing.assert_array_equal(count_arms(pulls), simulated["n_pulls"])
    np.testing.assert_array_equal(count_arms(looks.ravel()), simulated["n_looks"])
    gaps = np.append(PROBLEMS[problem].gaps, 0.0)  # arm -1 means no look, which costs nothing
    costs = gaps[pulls]
    if FEEDBACKS[feedback].paid:
        costs = costs + gaps[looks].sum(axis=1)
    np.testing.assert_allclose(np.cumsum(costs), simulated["regret"], rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("feedback", [name for name in FEEDBACKS if name != "hiding graph"])
@pytest.mark.parametrize("name", POLICIES)
def test_a_trace_is_the_run_of_simulate(name, feedback):
    """The gaps are all different, so equal regrets at every stage imply equal pulls."""
    assert_is_run_of_simulate(make_policy(name), "gaussian", feedback)


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["bernoulli", "empirical"])
@pytest.mark.parametrize("name", ["ucb", "thompson", "kibitzer"])
def test_a_trace_is_the_run_of_simulate_for_other_rewards(name, problem):
    assert_is_run_of_simulate(make_policy(name), problem, "active")


@pytest.mark.parametrize("make", [Guess, PlainUCB])
def test_a_trace_of_a_python_policy_is_the_run_of_simulate(make):
    assert_is_run_of_simulate(kb.python_policy(make), "gaussian", "active")
    data = trace(kb.python_policy(make))
    assert np.isnan(data["index"]).all()


def test_all_policies_get_the_same_noise():
    """Rewards minus means are equal to the noise of the stage, for compiled and Python policies."""
    noises = {}
    means, sds = PROBLEMS["gaussian"].means, PROBLEMS["gaussian"].sds
    for policy in (kb.ucb(), kb.thompson(), kb.python_policy(Guess)):
        data = trace(policy)
        noise = (data["reward"].to_numpy() - means[data["pull"]]) / sds[data["pull"]]
        looks = data["look"].to_numpy()
        look_noise = (data["look_reward"].to_numpy() - means[looks]) / sds[looks]
        noises[policy.name] = noise, look_noise
    expected_noise = numpy_streams(3, 2)[0].standard_normal(HORIZON)
    for noise, look_noise in noises.values():
        np.testing.assert_allclose(noise, expected_noise, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(look_noise, noises["ucb"][1], rtol=1e-9, atol=1e-9)
    assert np.isfinite(noises["ucb"][1]).sum() > 20


@pytest.mark.slow
def test_a_trace_is_the_run_of_simulate_on_a_graph_that_hides_rewards():
    assert_is_run_of_simulate(kb.scout(), "gaussian", "hiding graph")
    assert_is_run_of_simulate(kb.scout(informed=True), "bernoulli", "hiding graph")


def test_a_trace_has_what_each_pull_shows():
    data = trace(kb.scout(), "empirical", "hiding graph")
    pulls, shown = data["pull"].to_numpy(), np.isfinite(data["shown_reward"].to_numpy())
    counts = np.cumsum(shown, axis=0)
    np.testing.assert_array_equal(data["n_observed"][0], 0)
    np.testing.assert_array_equal(data["n_observed"][1:], counts[:-1])
    assert (HIDING[pulls][shown] > 0).all()
    assert shown[HIDING[pulls] == 1].all()
    own_reward = data["shown_reward"].to_numpy()[np.arange(HORIZON), pulls]
    is_hidden = np.isnan(own_reward)
    assert 5 < is_hidden.sum() < HORIZON
    np.testing.assert_array_equal(own_reward[~is_hidden], data["reward"][~is_hidden])
    for arm, values in enumerate(PROBLEMS["empirical"].values):
        rewards = data["shown_reward"].to_numpy()[shown[:, arm], arm]
        assert np.isclose(rewards[:, np.newaxis], values, rtol=1e-14).any(axis=1).all()
    assert "shown_reward" not in trace(kb.ucb())


@pytest.mark.parametrize("feedback", [name for name in FEEDBACKS if name != "hiding graph"])
@pytest.mark.parametrize("name", ["ucb", "ftl", "ocucb", "etc_ocucb", "moss", "kibitzer"])
def test_an_index_policy_pulls_the_arm_with_the_largest_index(name, feedback):
    data = trace(make_policy(name), feedback=feedback)
    np.testing.assert_array_equal(data["index"].argmax("arm"), data["pull"])


def test_means_and_counts_are_those_of_the_observations_before_the_stage():
    data = trace(kb.ucb())
    for stage in (1, 2, 10, HORIZON):
        before = data.isel(stage=slice(0, stage - 1))
        for arm in range(4):
            rewards = np.concatenate(
                [
                    before["reward"][before["pull"] == arm],
                    before["look_reward"][before["look"] == arm],
                ]
            )
            row = data.sel(stage=stage, arm=arm)
            assert row["n_observed"] == rewards.size
            if rewards.size:
                assert row["mean"].item() == pytest.approx(rewards.mean(), rel=1e-12)
            else:
                assert np.isnan(row["mean"])
    row = data.sel(stage=100)
    index = row["mean"] + 2 * np.sqrt(6 * np.log(100) / row["n_observed"])  # the scale is 2
    np.testing.assert_allclose(row["index"], index, rtol=1e-12)


def test_rewards_are_rewards_of_the_problem():
    data = trace(kb.ucb(), "empirical", "full")
    for arm, values in enumerate(PROBLEMS["empirical"].values):
        seen = data["reward"].to_numpy()[data["pull"] == arm]
        assert all(np.isclose(value, values, rtol=1e-14).any() for value in seen)


def test_later_looks_are_present_only_if_several_looks_arrive_at_a_stage():
    data = trace(kb.ucb(), feedback="active")
    assert set(data.dims) == {"stage", "arm"}
    np.testing.assert_array_equal(data["look"] == -1, np.isnan(data["look_reward"]))
    data = trace(kb.ucb(), feedback="full")
    assert data["look"].dims == ("stage",)
    assert data["later_look"].dims == data["later_look_reward"].dims == ("stage", "nth")
    assert data["nth"].to_numpy().tolist() == [2, 3]
    assert (trace(kb.ucb(), feedback="bandit")["look"] == -1).all()


def test_a_trace_has_the_attributes_of_a_simulation():
    data = trace(kb.ucb(exploration=2))
    simulated = kb.simulate(
        PROBLEMS["gaussian"], FEEDBACKS["active"], kb.ucb(exploration=2), horizon=HORIZON, runs=3,
        seed=3,
    )  # fmt: skip
    assert data.attrs == {k: v for k, v in simulated.attrs.items() if k != "cells"}
    assert (data["policy"].item(), data["run"].item()) == ("ucb:exploration=2", 2)
    assert all("long_name" in data[name].attrs for name in data.variables)
    assert (data["stage"].attrs["units"], data["index"].attrs["units"]) == ("stages", "reward")
    data = trace(kb.ucb(), feedback="full")
    assert all("long_name" in data[name].attrs for name in data.variables)


def test_a_long_trace_shows_progress(monkeypatch):
    lines = []
    monkeypatch.setattr(_progress, "_find_screen", lambda: lines.append)
    monkeypatch.setattr(_progress, "DELAY_SECONDS", 0.01)
    trace(kb.ucb(), horizon=5000)
    assert lines[0].startswith("tracing ucb: ")
    assert lines[-1] == ""


def test_wrong_arguments_are_rejected():
    with pytest.raises(ValueError, match="policy must be a Policy"):
        trace([kb.ucb()])
    with pytest.raises(ValueError, match="run must be a whole number"):
        trace(kb.ucb(), run=-1)
    with pytest.raises(ValueError, match="horizon=3000000 is too long for a trace of 4 arms"):
        trace(kb.ucb(), horizon=3_000_000)
    with pytest.raises(ValueError, match=r"kl_ucb.* is for rewards in"):
        trace(kb.kl_ucb(rewards="bernoulli"))
