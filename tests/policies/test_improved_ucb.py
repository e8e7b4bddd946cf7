"""Improved UCB agrees with small examples and with the reference."""

import math

import numpy as np
import pytest
import reference
from histories import assert_agrees, decide, make_policy, replay

from kibitz.policies import improved_ucb


def state_after(*observations, horizon):
    """Return the remaining arms and the number of the current round."""
    policy = make_policy("improved_ucb")
    state, _ = replay(policy, policy.params._replace(horizon=horizon), 2, *observations)
    return state.allowed.tolist(), int(state.round[0])


def rounds(n, first_reward, second_reward):
    return [observation for _ in range(n) for observation in ((0, first_reward), (1, second_reward))]


def test_a_round_ends_when_each_arm_has_enough_observations():
    # With T = 20, round 0 needs n_0 = ceil(8 log 20) = 24 observations of each arm.
    assert state_after(*rounds(23, 0.0, 0.0), horizon=20.0)[1] == 0
    assert state_after(*rounds(23, 0.0, 0.0), (0, 0.0), horizon=20.0)[1] == 0
    assert state_after(*rounds(24, 0.0, 0.0), horizon=20.0)[1] == 1


def test_drops_arms_that_are_clearly_worse_after_a_round():
    # The width is sqrt(2 log(20) / 24) = 0.49964, so a difference of 1 is enough to drop an arm.
    assert state_after(*rounds(24, 0.99, 0.0), horizon=20.0)[0] == [True, True]
    assert state_after(*rounds(24, 1.0, 0.0), horizon=20.0)[0] == [True, False]


def test_looks_count_like_pulls():
    history = [(0, 0.0), (1, 0.0), *[(arm, 0.0, "look") for arm in (0, 1) for _ in range(23)]]
    assert state_after(*history, horizon=20.0)[1] == 1


def test_the_last_round_is_half_the_logarithm_of_the_horizon():
    # With T = 20, log2(20 / e) / 2 = 1.44, so rounds 0 and 1 are played.
    assert state_after(*rounds(60, 0.0, 0.0), horizon=20.0)[1] == 2


def test_after_the_last_round_pulls_the_leader_of_the_remaining_arms():
    params = make_policy("improved_ucb").params._replace(horizon=20.0)
    history = rounds(60, 0.0, 0.1)
    assert decide(make_policy("improved_ucb"), 2, *history, params=params)[0] == 1


def test_uses_the_horizon_of_the_simulation_by_default():
    assert improved_ucb().params_for(500).horizon == 500.0
    assert improved_ucb(horizon=200).params_for(500).horizon == 200.0


def test_agrees_with_the_reference():
    assert_agrees(
        make_policy("improved_ucb"),
        reference.ImprovedUCB,
        range(80),
        n_stages=150,
        scale=[1.0, 0.5, 0.125, 0.25],
        horizon=[1.0, 2.0, 3.0, 20.0, 150.0, 1e4],
    )


def test_the_reference_histories_drop_arms_and_end_rounds():
    oracle = reference.ImprovedUCB(3, scale=0.25, horizon=20)
    rng = np.random.default_rng(0)
    for stage in range(1, 150):
        arm = oracle.pull(stage)
        oracle.update(stage, arm, rng.normal(arm / 5, 0.1), False)
    assert oracle.in_play == {2}
    assert oracle.round == 2


def test_stores_its_parameters():
    assert improved_ucb(30, 2).params._asdict() == {"horizon": 30.0}
    assert improved_ucb(30, 2).scale == 2.0
    assert improved_ucb().scale is None


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan])
def test_rejects_a_bad_scale(bad):
    with pytest.raises(ValueError, match=f"^scale must be positive and finite, got {bad!r}$"):
        improved_ucb(scale=bad)


@pytest.mark.parametrize("bad", [0, -5, math.inf, math.nan])
def test_rejects_a_bad_horizon(bad):
    with pytest.raises(ValueError, match=f"^horizon must be at least 1 and finite, got {bad!r}$"):
        improved_ucb(horizon=bad)
