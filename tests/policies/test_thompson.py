"""Thompson sampling agrees with its posterior and, draw for draw, with the reference."""

import math

import numpy as np
import pytest
import reference
from histories import assert_agrees, decide, make_policy, replay
from scipy import stats

from kibitz.policies import thompson


def test_pulls_each_arm_once_in_order():
    assert [
        decide(make_policy("thompson"), 3, *[(a, 5.0) for a in range(n)])[0] for n in range(3)
    ] == [0, 1, 2]


def test_a_look_does_not_replace_the_first_pull():
    assert decide(make_policy("thompson"), 2, (0, 9.0), (1, -9.0, "look"))[0] == 1


def test_looks_at_the_runner_up_of_a_fresh_sample():
    policy = make_policy("thompson")
    assert decide(policy, 3, (0, 1e6), (1, 3e6), (2, 2e6)) == (1, 2)


def count_pulls(policy, params, observations, n=4000):
    """Return the number of pulls of arm 0 in n decisions after the same observations, and n."""
    state, stage = replay(policy, params, 2, *observations)
    rng = np.random.default_rng(5)
    return sum(policy.pull(params, state, stage, rng) == 0 for _ in range(n)), n


def test_samples_the_gaussian_posterior():
    # The posteriors are N(0.5, 1) for arm 0 and N(0.25, 1/2) for arm 1. The difference is
    # N(0.25, 1.5).
    policy = make_policy("thompson")
    wins, n = count_pulls(policy, policy.params, [(0, 0.5), (1, 0.0), (1, 0.5, "look")])
    chance = stats.norm.cdf(0.25 / math.sqrt(1.5))
    assert stats.binomtest(wins, n, chance).pvalue > 1e-6  # the probability of a false alarm


def test_samples_the_beta_posterior():
    # The posterior of arm 0 is Beta(2, 1) with density 2x. The posterior of arm 1 is Beta(1, 3) with
    # P(Y < x) = 1 - (1 - x)^3. P(arm 0 wins) = int (1 - (1 - x)^3) 2x dx = 1 - 2 B(2, 4) = 0.9.
    policy = make_policy("thompson")
    params = policy.params._replace(beta=True)
    wins, n = count_pulls(policy, params, [(0, 1.0), (1, 0.0), (1, 0.0, "look")])
    assert stats.binomtest(wins, n, 0.9).pvalue > 1e-6  # the probability of a false alarm


def test_agrees_with_the_reference_draw_for_draw():
    assert_agrees(
        make_policy("thompson"),
        lambda n_arms, **grid: reference.Thompson(n_arms, "gaussian", **grid),
        range(40),
        scale=[1.0, 0.125, 4.0],
    )
    assert_agrees(
        make_policy("thompson"),
        lambda n_arms, beta: reference.Thompson(n_arms, "bernoulli"),
        range(40),
        kinds=["bernoulli"],
        beta=[True],
    )


def test_stores_its_parameters():
    assert thompson().params._asdict() == {"beta": False}
    assert thompson(scale=2).scale == 2.0
    assert thompson("bernoulli").params.beta is True
    assert thompson("bernoulli").rewards == "bernoulli"
    assert thompson().rewards == "gaussian"


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan])
def test_rejects_a_bad_scale(bad):
    with pytest.raises(ValueError, match=f"^scale must be positive and finite, got {bad!r}$"):
        thompson(scale=bad)


@pytest.mark.parametrize("bad", ["poisson", "", None])
def test_rejects_unknown_rewards(bad):
    with pytest.raises(
        ValueError, match=f"^rewards must be 'gaussian', 'bernoulli' or 'bounded', got {bad!r}$"
    ):
        thompson(bad)
