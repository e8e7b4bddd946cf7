"""ε-greedy, IMED, Bayes-UCB and top-two Thompson sampling agree with their definitions."""

import math

import mpmath
import numpy as np
import pytest
import reference
from histories import assert_agrees, decide, make_policy, replay
from scipy import stats

from kibitz.policies import bayes_ucb, epsilon_greedy, imed, top_two_thompson
from kibitz.policies.bayes_ucb import growth
from kibitz.policies.imed import divergence

BASELINES = ["epsilon_greedy", "imed", "bayes_ucb", "top_two_thompson"]
SCALES = [1.0, 0.125, 4.0]


@pytest.mark.parametrize("name", BASELINES)
def test_pulls_each_arm_once_in_order(name):
    policy = make_policy(name)
    assert [decide(policy, 3, *[(a, 5.0) for a in range(n)])[0] for n in range(3)] == [0, 1, 2]
    assert decide(policy, 2, (0, 9.0), (1, -9.0, "look"))[0] == 1  # a look is not a first pull


# -------------------------------------------------------------------------------- epsilon_greedy


def test_epsilon_greedy_agrees_with_the_reference_draw_for_draw():
    assert_agrees(
        make_policy("epsilon_greedy"),
        reference.EpsilonGreedy,
        range(40),
        exploration=[5.0, 0.5, 1e-9, 1e3],
    )


def test_epsilon_greedy_explores_at_its_rate():
    """A pull is random with probability 2 * 0.5 / t. Half of the random pulls go to the worse arm."""
    policy = epsilon_greedy(exploration=0.5)
    state, stage = replay(policy, policy.params, 2, (0, 1.0), (1, 0.0), (0, 1.0), (0, 1.0))
    rng = np.random.default_rng(7)
    n_worse = sum(policy.pull(policy.params, state, stage, rng) == 1 for _ in range(5000))
    # the probability of a false alarm is 1e-6
    assert stats.binomtest(n_worse, 5000, 0.5 * 1 / stage).pvalue > 1e-6


def test_epsilon_greedy_looks_in_turn():
    policy = make_policy("epsilon_greedy")
    looks = [(arm, 0.0, "look") for arm in (0, 1, 2, 0)]
    assert decide(policy, 3, (0, 1.0), *looks[:2])[1] == 2
    assert decide(policy, 3, (0, 1.0), *looks)[1] == 1


# ------------------------------------------------------------------------------------------ imed


def test_imed_agrees_with_the_reference():
    assert_agrees(make_policy("imed"), reference.IMED, range(40), scale=SCALES)
    assert_agrees(
        make_policy("imed"),
        lambda n_arms, bernoulli: reference.IMED(n_arms, "bernoulli"),
        range(40),
        kinds=["bernoulli"],
        bernoulli=[True],
    )


@pytest.mark.parametrize(("x", "y"), [(0.0, 0.5), (0.2, 0.9), (0.999, 0.9999), (0.1, 0.1 + 1e-9)])
def test_the_divergence_of_imed_is_exact(x, y):
    params = imed("bernoulli").params
    with mpmath.workdps(50):
        exact = mpmath.mpf(0) if x == 0 else x * mpmath.log(mpmath.mpf(x) / y)
        exact += (1 - mpmath.mpf(x)) * mpmath.log((1 - mpmath.mpf(x)) / (1 - mpmath.mpf(y)))
    assert divergence(params, x, y) == pytest.approx(float(exact), rel=1e-6)
    assert divergence(params, y, x) == 0.0
    assert divergence(params, 0.5, 1.0) == math.inf


def test_an_infinite_divergence_leaves_the_runner_up_available():
    policy = make_policy("imed", rewards="bernoulli")
    assert decide(policy, 2, (0, 0.0), (1, 1.0)) == (1, 0)


# ------------------------------------------------------------------------------------- bayes_ucb


def test_bayes_ucb_agrees_with_the_reference():
    assert_agrees(make_policy("bayes_ucb"), reference.BayesUCB, range(40), scale=SCALES)


@pytest.mark.parametrize("stage", [3, 4, 5, 10, 1000, 10**6, 10**12, 2**62])
def test_the_growth_of_bayes_ucb_is_a_normal_quantile(stage):
    with mpmath.workdps(40):
        tail = mpmath.mpf(1) / stage
        quantile = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * tail)
    assert growth(None, stage) == pytest.approx(float(quantile), rel=1e-14)


def test_the_growth_of_bayes_ucb_is_zero_below_the_median():
    assert growth(None, 1) == growth(None, 2) == 0.0


# ------------------------------------------------------------------------------ top_two_thompson


def test_top_two_thompson_agrees_with_the_reference_draw_for_draw():
    assert_agrees(
        make_policy("top_two_thompson"),
        lambda n_arms, **grid: reference.TopTwoThompson(n_arms, "gaussian", **grid),
        range(40),
        scale=SCALES,
    )
    assert_agrees(
        make_policy("top_two_thompson"),
        lambda n_arms, beta: reference.TopTwoThompson(n_arms, "bernoulli"),
        range(40),
        kinds=["bernoulli"],
        beta=[True],
    )


@pytest.mark.parametrize("leader_share", [0.0, 0.3, 1.0])
def test_the_share_of_looks_at_a_certain_leader(leader_share):
    """If the leader is certain, the challenger is the runner-up of the last samples."""
    policy = top_two_thompson(leader_share=leader_share)
    state, stage = replay(policy, policy.params, 3, (0, 1e3), (1, 2e3), (2, 0.0))
    rng = np.random.default_rng(3)
    looks = [policy.look(policy.params, state, stage, rng) for _ in range(400)]
    assert set(looks) <= {0, 1}
    # the probability of a false alarm is 1e-6
    assert stats.binomtest(looks.count(1), 400, leader_share).pvalue > 1e-6


# ----------------------------------------------------------------------------------- parameters


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="exploration must be positive and finite, got 0"):
        epsilon_greedy(0)
    with pytest.raises(ValueError, match=r"leader_share must be in \[0, 1\], got 2"):
        top_two_thompson(leader_share=2)
    with pytest.raises(ValueError, match="rewards must be 'gaussian', 'bernoulli' or 'bounded'"):
        imed("poisson")
    with pytest.raises(ValueError, match="scale must be positive and finite, got -1"):
        bayes_ucb(scale=-1)
