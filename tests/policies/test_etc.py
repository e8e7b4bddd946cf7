"""Explore-Then-Commit agrees with small examples and with the reference."""

import math

import numpy as np
import pytest
import reference
from histories import assert_agrees, decide, make_policy, replay

from kibitz.policies import etc


def remaining_arms(*observations, n_arms=2, **params):
    policy = make_policy("etc")
    state, _ = replay(policy, policy.params._replace(**params), n_arms, *observations)
    return state.allowed.tolist()


def test_pulls_each_arm_once_then_the_least_observed():
    assert decide(make_policy("etc"), 3, (0, 0.0))[0] == 1
    assert decide(make_policy("etc"), 3, (0, 0.0), (2, 0.0, "look"))[0] == 1
    assert decide(make_policy("etc"), 3, (0, 0.0), (1, 0.0), (2, 0.0), (0, 0.0, "look"))[0] == 1


def test_looks_at_the_least_observed_arm_after_the_pull():
    assert decide(make_policy("etc"), 3, (0, 0.0), (1, 0.0), (2, 0.0)) == (0, 1)
    # The counts are 1, 3, 3 before the pull and 2, 3, 3 after it.
    history = (0, 0.0), (1, 0.0), (2, 0.0), *[(arm, 0.0, "look") for arm in (1, 1, 2, 2)]
    assert decide(make_policy("etc"), 3, *history) == (0, 0)


def test_drops_an_arm_whose_upper_bound_is_below_anothers_lower_bound():
    # With s = 1 and T = 1000, the width is sqrt(2 log 1000) = 3.717. An arm is dropped if its mean is
    # more than 7.434 below another mean.
    assert remaining_arms((0, 7.43), (1, 0.0)) == [True, True]
    assert remaining_arms((0, 7.44), (1, 0.0)) == [True, False]
    assert remaining_arms((0, 0.0), (1, 7.44)) == [False, True]


def test_keeps_an_arm_whose_upper_bound_equals_anothers_lower_bound():
    width = math.sqrt(2 * math.log(1000))  # 2w - w = 0 + w, exactly
    assert remaining_arms((0, 2 * width), (1, 0.0)) == [True, True]


def test_the_width_shrinks_with_rounds():
    # With s = 2, the width is sqrt(log 500) = 2.493. An arm is dropped if its mean is more than 4.986
    # below another mean.
    assert remaining_arms((0, 4.98), (1, 0.0), (0, 4.98), (1, 0.0)) == [True, True]
    assert remaining_arms((0, 4.99), (1, 0.0), (0, 4.99), (1, 0.0)) == [True, False]


def test_alpha_widens_the_bounds():
    assert remaining_arms((0, 7.44), (1, 0.0), alpha=1.01) == [True, True]


def test_each_arm_has_its_own_width():
    # The widths are 3.717 for s = 1 and 2.493 for s = 2; their sum is 6.21. ETC tests only after both
    # arms were pulled.
    history = (0, 6.20, "look"), (0, 6.20), (1, 0.0)
    assert remaining_arms(*history) == [True, True]
    assert remaining_arms(
        *[(arm, reward * 6.22 / 6.20, *kind) for arm, reward, *kind in history]
    ) == [True, False]


def test_eliminates_arms_after_full_rounds_only():
    # After its second observation arm 1 would be dropped, but the second round is not complete.
    assert remaining_arms((0, 4.0), (1, 0.0), (1, -99.0)) == [True, True]
    assert remaining_arms((0, 4.0), (1, 0.0), (1, -99.0), (0, 4.0)) == [True, False]


def test_no_arm_is_dropped_once_a_count_reaches_the_horizon():
    assert remaining_arms((0, 99.0), (1, 0.0), horizon=1.0) == [True, True]


def test_commits_to_the_last_arm():
    assert decide(make_policy("etc"), 2, (0, 7.44), (1, 0.0), (0, -50.0)) == (0, 0)


def test_uses_the_horizon_of_the_simulation_by_default():
    assert etc().params_for(500).horizon == 500.0
    assert etc(horizon=200).params_for(500).horizon == 200.0


def test_agrees_with_the_reference():
    assert_agrees(
        make_policy("etc"),
        reference.ETC,
        range(100),
        n_stages=150,
        alpha=[1.0, 0.02, 0.1, 0.3, 3.0],
        horizon=[1.0, 2.0, 20.0, 150.0, 1e4],
    )


def test_the_reference_histories_drop_arms():
    policy, oracle = make_policy("etc"), reference.ETC(3, alpha=0.1)
    rng = np.random.default_rng(0)
    for stage in range(1, 100):
        oracle.update(stage, oracle.pull(stage), rng.normal(oracle.pull(stage)), False)
    assert oracle.in_play == {2}
    assert policy.params.horizon == 1000


def test_stores_its_parameters():
    assert etc(2, 30).params._asdict() == {"alpha": 2.0, "horizon": 30.0}
    assert etc().params.alpha == 1.0


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan])
def test_rejects_a_bad_alpha(bad):
    with pytest.raises(ValueError, match=f"^alpha must be positive and finite, got {bad!r}$"):
        etc(alpha=bad)


@pytest.mark.parametrize("bad", [0, -5, math.inf, math.nan])
def test_rejects_a_bad_horizon(bad):
    with pytest.raises(ValueError, match=f"^horizon must be at least 1 and finite, got {bad!r}$"):
        etc(horizon=bad)
