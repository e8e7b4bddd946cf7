"""Tests of the problems: means, gaps, scales, rewards, and invalid input."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from kibitz.engine.cache import cached_dispatcher
from kibitz.engine.environment import draw, make_arms
from kibitz.engine.rng import new_stream
from kibitz.model.problem import bernoulli, empirical, gaussian

finite_means = st.floats(-1e6, 1e6)
lists_of_means = st.lists(finite_means, min_size=2, max_size=8)


def draws(law, arm, stream, out):
    for n in range(out.size):
        out[n] = draw(law, arm, stream)


def sample(problem, arm, n, seed):
    out = np.empty(n)
    cached_dispatcher(draws)(make_arms(problem, 1.0), arm, new_stream(seed), out)
    return out


# --------------------------------------------------------------------------------- means and gaps


@given(lists_of_means)
def test_gaps_are_non_negative_and_0_for_an_optimal_arm(means):
    problem = gaussian(means)
    assert problem.n_arms == len(means)
    assert np.all(problem.gaps >= 0)
    assert np.all(problem.gaps[problem.optimal] == 0)
    assert problem.optimal.any()
    assert problem.optimal[np.argmax(means)]


@given(lists_of_means, st.randoms())
def test_arms_keep_their_order(means, random):
    arm_order = list(range(len(means)))
    random.shuffle(arm_order)
    shuffled_problem = gaussian([means[arm] for arm in arm_order])
    np.testing.assert_array_equal(shuffled_problem.gaps, gaussian(means).gaps[arm_order])


@given(st.lists(st.lists(finite_means, min_size=1, max_size=5), min_size=2, max_size=5))
def test_empirical_problem_has_the_mean_and_support_of_its_values(rewards):
    problem = empirical(rewards)
    np.testing.assert_allclose(problem.means, [math.fsum(v) / len(v) for v in rewards], atol=1e-6)
    assert problem.support == (min(map(min, rewards)), max(map(max, rewards)))
    assert problem.scale == max(max(v) - min(v) for v in rewards) / 2


def test_several_arms_can_be_optimal():
    assert gaussian([1.0, 0.0, 1.0]).optimal.tolist() == [True, False, True]


def test_problem_copies_its_means():
    means = np.array([1.0, 0.0])
    problem = gaussian(means)
    means[0] = -5.0
    assert problem.means.tolist() == [1.0, 0.0]


def test_scale_is_the_largest_standard_deviation():
    assert gaussian([0, 1], sd=[0.5, 3.0]).scale == 3.0
    assert gaussian([0, 1]).scale == 1.0
    assert bernoulli([0.1, 0.2]).scale == 0.5


@pytest.mark.parametrize(
    "problem", [bernoulli([0.0, 0.1, 0.5, 1.0]), empirical([[0, 1, 1], [3.0], [0, 5], [-1, 0, 4]])]
)
def test_rewards_are_sub_gaussian_with_the_given_scale(problem):
    if problem.kind == "bernoulli":
        supports = [([0.0, 1.0], [1 - m, m]) for m in problem.means]
    else:
        supports = [(v, [1 / len(v)] * len(v)) for v in problem.spec["rewards"]]
    for values, probabilities in supports:
        centred_values = np.array(values) - np.dot(values, probabilities)
        for x in np.linspace(-3, 3, 61):
            assert math.log(np.dot(probabilities, np.exp(x * centred_values))) <= (
                problem.scale**2 * x**2 / 2 + 1e-12
            )


def test_spec_and_repr_show_the_parameters():
    assert repr(gaussian([1, 0])) == "gaussian(means=[1.0, 0.0], sd=1.0)"
    assert repr(bernoulli([1, 0])) == "bernoulli(means=[1.0, 0.0])"
    assert empirical([[1, 0], [2]]).spec == {"kind": "empirical", "rewards": [[1.0, 0.0], [2.0]]}


# ---------------------------------------------------------------------------------------- rewards
# The seeds are fixed. With a random seed, each test would fail by chance with probability 10^-6.


@pytest.mark.parametrize(("arm", "mean", "sd"), [(0, 2.0, 0.5), (1, -1.0, 3.0)])
def test_gaussian_rewards_are_gaussian(arm, mean, sd):
    rewards = sample(gaussian([2.0, -1.0], sd=[0.5, 3.0]), arm, 5000, seed=1)
    assert stats.kstest(rewards, stats.norm(mean, sd).cdf).pvalue > 1e-6


def test_rewards_with_sd_0_equal_the_mean():
    assert set(sample(gaussian([2.0, -1.0], sd=[0.0, 3.0]), 0, 20, seed=1)) == {2.0}


@pytest.mark.parametrize("arm", range(4))
def test_bernoulli_rewards_have_the_given_means(arm):
    means = [0.0, 0.1, 0.7, 1.0]
    rewards = sample(bernoulli(means), arm, 5000, seed=2)
    assert set(rewards) <= {0.0, 1.0}
    assert stats.binomtest(int(rewards.sum()), 5000, means[arm]).pvalue > 1e-6


@pytest.mark.parametrize("arm", range(3))
def test_empirical_rewards_are_equally_likely(arm):
    values = [[5.0], [1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 7.0]]
    rewards = sample(empirical(values), arm, 5000, seed=3)
    drawn_values, counts = np.unique(rewards, return_counts=True)
    assert drawn_values.tolist() == sorted(values[arm])
    if len(drawn_values) > 1:
        assert stats.chisquare(counts).pvalue > 1e-6


def test_all_arms_consume_the_same_random_numbers():
    """Check that every arm advances the stream equally, as common random numbers require."""
    for problem in (gaussian([1.0, 0.0]), bernoulli([0.2, 0.9]), empirical([[1.0], [1.0, 2.0]])):
        streams = [new_stream(4) for _ in range(2)]
        for arm, stream in enumerate(streams):
            draws(make_arms(problem, 1.0), arm, stream, np.empty(50))
        assert streams[0].rng.random() == streams[1].rng.random()


def test_gaussian_arms_share_the_noise():
    problem = gaussian([1.0, 0.0])
    np.testing.assert_allclose(
        sample(problem, 0, 50, seed=5) - 1.0, sample(problem, 1, 50, seed=5), atol=1e-12
    )


# -------------------------------------------------------------------------------------- invalid input

BAD_MEANS = [
    ([], "means must be a list of at least 2 numbers, got []"),
    ([1.0], "means must be a list of at least 2 numbers, got [1.0]"),
    (3.0, "means must be a list of at least 2 numbers, got 3.0"),
    ([[1, 2], [3, 4]], "means must be a list of at least 2 numbers, got [[1, 2], [3, 4]]"),
    ([1.0, math.nan], "means must be finite, got [1.0, nan]"),
    ([1.0, math.inf], "means must be finite, got [1.0, inf]"),
    (["a", "b"], "means must be a list of at least 2 numbers, got ['a', 'b']"),
    ([[1, 2], [3]], "means must be a list of at least 2 numbers, got [[1, 2], [3]]"),
    (None, "means must be a list of at least 2 numbers, got None"),
]


@pytest.mark.parametrize("make", [gaussian, bernoulli])
@pytest.mark.parametrize(("means", "message"), BAD_MEANS)
def test_invalid_means_raise(make, means, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make(means)


@pytest.mark.parametrize("means", [[-0.1, 0.5], [0.5, 1.1]])
def test_bernoulli_means_outside_0_to_1_raise(means):
    message = f"means must be in [0, 1] for bernoulli rewards, got {means!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        bernoulli(means)


@pytest.mark.parametrize(
    ("sd", "message"),
    [
        (-1.0, "sd must be non-negative and finite, got -1.0"),
        (math.nan, "sd must be finite, got [nan]"),
        ([1.0, math.inf], "sd must be finite, got [1.0, inf]"),
        (
            [1.0, 1.0, 1.0],
            "sd must be one number or a list of 2 numbers, one per arm, got [1.0, 1.0, 1.0]",
        ),
        ([1.0], "sd must be one number or a list of 2 numbers, one per arm, got [1.0]"),
    ],
)
def test_invalid_sd_raises(sd, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        gaussian([0.0, 1.0], sd=sd)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([], "rewards must be a list of values for at least 2 arms, got []"),
        ([[1.0]], "rewards must be a list of values for at least 2 arms, got [[1.0]]"),
        ([[1.0], []], "rewards[1] must be a list of numbers, got []"),
        ([[math.nan], [1.0]], "rewards[0] must be finite, got [nan]"),
        ([[1.0], [[1.0]]], "rewards[1] must be a list of numbers, got [[1.0]]"),
        ([1.0, 2.0], "rewards[0] must be a list of numbers, got 1.0"),
    ],
)
def test_invalid_empirical_rewards_raise(rewards, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        empirical(rewards)


@settings(max_examples=30)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=4))
def test_any_list_of_numbers_works_or_raises(means):
    try:
        problem = gaussian(means)
    except ValueError as error:
        assert str(error).startswith("means must be ")  # noqa: PT017
    else:
        assert len(means) >= 2
        assert np.all(np.isfinite(problem.means))


@pytest.mark.parametrize(
    ("problem", "is_binary"),
    [
        (bernoulli([0.1, 0.2]), True),
        (gaussian([0, 1], sd=0), False),
        (empirical([[0, 1, 1], [1.0]]), True),
        (empirical([[0, 1, 0.5], [1.0]]), False),
    ],
)
def test_a_problem_is_binary_if_every_reward_is_0_or_1(problem, is_binary):
    assert problem.is_binary is is_binary
