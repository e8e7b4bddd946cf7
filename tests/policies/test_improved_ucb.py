"""Improved UCB, against small examples and the reference."""

import math

import numpy as np
import pytest
import reference
from stories import agree, decisions, made, tell

from kibitz.policies import improved_ucb


def after(*observations, horizon):
    """Return the arms in play and the round."""
    policy = made("improved_ucb")
    state, _ = tell(policy, policy.params._replace(horizon=horizon), 2, *observations)
    return state.allowed.tolist(), int(state.round[0])


def rounds(n, first, second):
    return [pair for _ in range(n) for pair in ((0, first), (1, second))]


def test_a_round_ends_when_each_arm_was_seen_often_enough():
    # T = 20: n_0 = ceil(8 log 20) = 24
    assert after(*rounds(23, 0.0, 0.0), horizon=20.0)[1] == 0
    assert after(*rounds(23, 0.0, 0.0), (0, 0.0), horizon=20.0)[1] == 0
    assert after(*rounds(24, 0.0, 0.0), horizon=20.0)[1] == 1


def test_then_drops_what_is_surely_worse():
    # w = sqrt(2 log(20) / 24) = 0.49964
    assert after(*rounds(24, 0.99, 0.0), horizon=20.0)[0] == [True, True]
    assert after(*rounds(24, 1.0, 0.0), horizon=20.0)[0] == [True, False]


def test_looks_count_as_pulls_do():
    story = [(0, 0.0), (1, 0.0), *[(arm, 0.0, "free") for arm in (0, 1) for _ in range(23)]]
    assert after(*story, horizon=20.0)[1] == 1


def test_the_last_round_is_half_the_logarithm_of_the_horizon():
    # T = 20: log2(20 / e) / 2 = 1.44, so that rounds 0 and 1 are played
    assert after(*rounds(60, 0.0, 0.0), horizon=20.0)[1] == 2


def test_after_the_last_round_pulls_the_leader_among_the_arms_in_play():
    params = made("improved_ucb").params._replace(horizon=20.0)
    story = rounds(60, 0.0, 0.1)
    assert decisions(made("improved_ucb"), 2, *story, params=params)[0] == 1


def test_plans_for_the_horizon_of_the_simulation_unless_given_one():
    assert improved_ucb().params_for(500).horizon == 500.0
    assert improved_ucb(horizon=200).params_for(500).horizon == 200.0


def test_agrees_with_the_reference():
    agree(
        made("improved_ucb"),
        reference.ImprovedUCB,
        range(80),
        n_stages=150,
        scale=[1.0, 0.5, 0.125, 0.25],
        horizon=[1.0, 2.0, 3.0, 20.0, 150.0, 1e4],
    )


def test_the_stories_of_the_reference_do_drop_arms_and_end_rounds():
    oracle = reference.ImprovedUCB(3, scale=0.25, horizon=20)
    rng = np.random.default_rng(0)
    for stage in range(1, 150):
        arm = oracle.pull(stage)
        oracle.update(stage, arm, rng.normal(arm / 5, 0.1), False)
    assert oracle.in_play == {2}
    assert oracle.round == 2


def test_hands_on_its_parameters():
    assert improved_ucb(30, 2).params._asdict() == {"horizon": 30.0}
    assert improved_ucb(30, 2).scale == 2.0
    assert improved_ucb().scale is None


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan])
def test_refuses_a_bad_scale(bad):
    with pytest.raises(ValueError, match=f"^scale must be positive and finite, got {bad!r}$"):
        improved_ucb(scale=bad)


@pytest.mark.parametrize("bad", [0, -5, math.inf, math.nan])
def test_refuses_a_bad_horizon(bad):
    with pytest.raises(ValueError, match=f"^horizon must be at least 1 and finite, got {bad!r}$"):
        improved_ucb(horizon=bad)
