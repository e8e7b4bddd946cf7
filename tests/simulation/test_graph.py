"""Simulations with graph feedback: saved results, workers, and combinations that are rejected."""

import json

import numpy as np
import pytest

import kibitz as kb
from kibitz.engine.kernel import fill_graph
from kibitz.engine.leap import can_leap
from kibitz.model.graphs import load_graph
from kibitz.simulation.jobs import Job, play
from kibitz.simulation.payload import check_answer, pack, play_payload

PROBLEM = kb.gaussian([1.0, 0.5, 0.0])
OPTIONS = {"horizon": 50, "runs": 2, "seed": 1}
LOOPLESS = 1 - np.eye(3)


@pytest.mark.slow
def test_a_saved_result_is_resumed_only_with_the_same_graph(tmp_path):
    options = {**OPTIONS, "file": tmp_path / "result.nc"}
    feedback = kb.graph(load_graph("ring", 3))
    kb.simulate(PROBLEM, feedback, kb.ucb(), **options)
    resumed = kb.simulate(PROBLEM, kb.graph(np.ones((3, 3))), kb.ucb(), **{**options, "runs": 4})
    fresh = kb.simulate(PROBLEM, feedback, kb.ucb(), **{**OPTIONS, "runs": 4})
    np.testing.assert_array_equal(resumed.regret, fresh.regret)  # the ring of three is complete
    assert json.loads(resumed.attrs["fingerprint"])["feedback"] == feedback.spec
    with pytest.raises(ValueError, match=r"feedback\.graph"):
        kb.simulate(PROBLEM, kb.graph(np.eye(3)), kb.ucb(), **options)


@pytest.mark.slow
def test_a_worker_plays_a_job_with_a_graph():
    feedback = kb.graph(load_graph("star:2", 3), looks=kb.passive(0.1))
    stages = np.array([10, 50])
    job = Job(None, kb.ucb(), PROBLEM, feedback, 50, stages, 1, 0, 2, kernel="generic")
    payload = pack([job])
    (outcome,) = check_answer(payload, play_payload(payload, 0))
    for values, expected in zip(outcome, play(job), strict=True):
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(
    ("shows", "policy", "message"),
    [
        (np.eye(2), kb.ucb(), "one row and one column for each of 3 arms, got 2"),
        (LOOPLESS, kb.ucb(), r"ucb .* arm 0 never shows its own reward \(shows\[0, 0\] = 0\)"),
        (LOOPLESS, kb.kibitzer(), "its regret can be linear; use scout"),
        (LOOPLESS, kb.thompson(), "its regret can be linear"),
        (LOOPLESS, kb.scout(rule="kibitzer"), "its regret can be linear; use scout"),
        (LOOPLESS, kb.max_n(kb.ucb()), "max_n:ucb .* its regret can be linear"),
        (LOOPLESS, kb.etc(), "etc must see the reward of every pull"),
        (np.full((3, 3), 0.5), kb.ucb2(), r"may hide it \(shows\[0, 0\] = 0.5\)"),
    ],
)
def test_combinations_that_cannot_work_are_rejected(shows, policy, message):
    with pytest.raises(ValueError, match=message):
        kb.simulate(PROBLEM, kb.graph(shows), policy, **OPTIONS)


def test_scout_learns_graphs_of_at_most_2000_arms():
    problem = kb.gaussian(np.zeros(2001))
    with pytest.raises(ValueError, match="scout plays with at most 2000 arms"):
        kb.simulate(problem, kb.graph(load_graph("ring", 2001)), kb.scout(), **OPTIONS)


def test_what_a_pull_shows_costs_scout_constant_time_per_arm(monkeypatch):
    """A hub shows all arms, so scout must not search all arms for the leader at each show.

    scout searches again only if the leader is shown or another arm surpasses it.
    """
    policy = kb.scout(informed=True)
    params, state = fill_graph(policy, 10, None, 3), policy.init(None, 3)
    for arm, reward in enumerate([2.0, 1.0, 0.0]):
        state = policy.update(params, state, 1, arm, 1, reward, False)
    monkeypatch.setitem(policy.update.__globals__, "find_leader", None)
    state = policy.on_graph.show(params, state, 2, 2, 1, 1, 2.5)  # the mean is 1.75
    with pytest.raises(TypeError):
        policy.on_graph.show(params, state, 2, 2, 1, 1, 9.0)


def test_without_edges_scout_with_the_rule_of_kibitzer_pulls_like_kibitzer():
    policies = [kb.kibitzer(), kb.scout(informed=True, rule="kibitzer")]
    for looks in (None, kb.passive(0.1)):
        feedback = kb.graph(np.eye(3), looks=looks)
        data = kb.simulate(PROBLEM, feedback, policies, **{**OPTIONS, "horizon": 1000})
        assert np.array_equal(data.n_pulls[0], data.n_pulls[1])


@pytest.mark.slow
def test_scout_with_the_rule_of_kibitzer_pulls_a_bad_hub_for_what_it_shows():
    """The limits are 5 standard errors from the means. A false alarm has probability 1e-6."""
    shows = np.eye(20)
    shows[19] = 1
    problem = kb.gaussian([0.5, *[0.3] * 18, 0])
    options = {"horizon": 10_000, "runs": 40, "seed": 1}
    data = kb.simulate(problem, kb.graph(shows), kb.scout(rule="kibitzer"), **options)
    assert data.final_regret.mean() < 250
    assert data.n_pulls.sel(arm=19).mean() > 110


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "ucb"}, "rule must be 'price' or 'kibitzer', got 'ucb'"),
        ({"rule": None}, "rule must be 'price' or 'kibitzer'"),
        ({"rule": "kibitzer", "c": 1}, "c is a constant of rule='price'; omit it"),
    ],
)
def test_invalid_rules_of_scout_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        kb.scout(**arguments)


def test_max_n_rejects_unsupported_policies():
    for policy in (kb.scout(), kb.max_n(kb.ucb()), kb.etc(), "ucb"):
        with pytest.raises(ValueError, match="policy must be"):
            kb.max_n(policy)


def test_an_agent_rejects_a_policy_for_graphs(tmp_path):
    for policy in (kb.scout(), kb.scout(informed=True), kb.max_n(kb.ucb())):
        with pytest.raises(ValueError, match="is for graphs; pass the graph as shows="):
            kb.agent(
                tmp_path / "shop.db", "shop", arms=["a", "b"], rewards="bernoulli", policy=policy
            )


def test_edges_of_vanishing_probability_change_nothing():
    bandit_regret = kb.simulate(PROBLEM, kb.graph(np.eye(3)), kb.ucb(), **OPTIONS).final_regret
    for probability in (1e-300, 5e-324):
        feedback = kb.graph(np.full((3, 3), probability), loops=True)
        data = kb.simulate(PROBLEM, feedback, kb.ucb(), **OPTIONS)
        assert np.array_equal(data.final_regret, bandit_regret)


def test_a_graph_is_a_matrix_or_a_function_and_no_other_object():
    class Network(dict):
        """A dict from each node to its neighbours, like a graph of NetworkX."""

    for shows in (Network({0: {1: {}}, 1: {0: {}}}), [(0, 1), (1, 2)], {0: [1], 1: [2]}):
        with pytest.raises(ValueError, match="shows must be a "):
            kb.graph(shows)


def show_own_reward(stage, pulled, arm):
    return float(pulled == arm)


@pytest.mark.parametrize(
    ("function", "policy", "message"),
    [
        (lambda stage, i, j: 2.0 if stage == 50 else 1.0, kb.ucb(), "got 2.0 at stage 50 for a pull"),
        (
            lambda stage, i, j: float("nan"),
            kb.ucb(),
            r"shows must be in \[0, 1\], got nan at stage 1",
        ),
        (lambda stage, i, j: float(j < 2), kb.scout(), "no pull shows arm 2 at the stages"),
        (lambda stage, i, j: float(i != j), kb.ucb(), "arm 0 never shows its own reward"),
        (lambda stage, i, j: float(stage % 2), kb.etc(), "etc must see the reward of every pull"),
        (show_own_reward, kb.scout(informed=True), "needs the matrix of the graph, but this graph"),
        (show_own_reward, kb.max_n(kb.ucb()), "varies with the stage; use a policy that does not"),
    ],
)
def test_invalid_graphs_that_vary_are_rejected(function, policy, message):
    with pytest.raises(ValueError, match=message):
        kb.simulate(PROBLEM, kb.graph(function), policy, **OPTIONS)


def test_bounds_agents_and_leaps_need_a_graph_that_does_not_vary(tmp_path):
    feedback = kb.graph(show_own_reward)
    with pytest.raises(ValueError, match="a graph that does not vary with the stage"):
        kb.bounds.complexity.graph(PROBLEM, feedback)
    with pytest.raises(ValueError, match="an agent's graph does not vary"):
        kb.agent(tmp_path / "a.db", "a", arms=["a", "b"], rewards="bernoulli", shows=feedback)
    assert not can_leap(kb.ucb(), PROBLEM, feedback)
