"""KL-UCB agrees with its definition and with the reference."""

import math

import numpy as np
import pytest
import reference
from histories import assert_agrees, make_policy

from kibitz.policies import kl_ucb

BERNOULLI = make_policy("kl_ucb", rewards="bernoulli")


def compute_bernoulli_index(mean, level, count=1):
    """Return the index of an arm at stage t = round(e^level), and the bound log(t) / count on kl."""
    stage = round(math.exp(level))
    counts = np.array([count, 1])
    return BERNOULLI.index(BERNOULLI.params, stage, counts, 0, mean), math.log(stage) / count


def test_the_gaussian_index_is_explicit():
    policy = make_policy("kl_ucb")
    params = policy.params._replace(c=3.0)
    index = policy.index(params, 100, np.array([7, 1]), 0, 0.25)
    level = math.log(100) + 3 * math.log(math.log(100))
    assert index == pytest.approx(0.25 + math.sqrt(2 * level / 7), rel=1e-14)


@pytest.mark.parametrize("mean", [0.001, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("level", [2, 5, 20])
@pytest.mark.parametrize("count", [1, 10, 1000, 10**8])
def test_the_bernoulli_index_is_the_largest_mean_within_the_divergence(mean, level, count):
    index, bound = compute_bernoulli_index(mean, level, count)
    assert mean < index <= 1  # the index is 1 if the root of the equation rounds to 1
    assert index == pytest.approx(reference.kl_upper_bound(mean, bound), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("level", [2, 5, 20])
def test_at_mean_zero_the_bernoulli_index_is_explicit(level):
    index, bound = compute_bernoulli_index(0.0, level)
    assert index == pytest.approx(1 - math.exp(-bound), rel=1e-14)


def test_at_mean_one_the_bernoulli_index_is_one():
    assert compute_bernoulli_index(1.0, 5)[0] == 1.0


def test_at_the_first_stage_the_bernoulli_index_is_the_mean():
    assert compute_bernoulli_index(0.3, 0)[0] == 0.3


def test_the_bernoulli_index_is_monotone():
    for count in (1, 3, 50):
        values = [
            [compute_bernoulli_index(mean, level, count)[0] for mean in np.linspace(0, 1, 101)]
            for level in (0, 1, 3, 6, 12)
        ]
        assert np.all(np.diff(values, axis=0) >= -1e-12)
        assert np.all(np.diff(values, axis=1) >= -1e-12)


def test_agrees_with_the_reference():
    assert_agrees(
        make_policy("kl_ucb"),
        lambda n_arms, **grid: reference.KLUCB(n_arms, "gaussian", **grid),
        range(40),
        scale=[1.0, 0.125, 4.0],
        c=[0.0, 3.0, 0.5],
    )
    assert_agrees(
        BERNOULLI,
        lambda n_arms, **grid: reference.KLUCB(n_arms, "bernoulli", **grid),
        range(40),
        kinds=["bernoulli"],
        c=[0.0, 3.0, 0.5],
    )


def test_stores_its_parameters():
    assert kl_ucb(c=3).params._asdict() == {"c": 3.0}
    assert kl_ucb(scale=2).scale == 2.0
    assert kl_ucb("bernoulli", c=3).params._asdict() == {"c": 3.0}
    assert kl_ucb("bernoulli").rewards == "bernoulli"
    assert kl_ucb("gaussian").rewards == "gaussian"


@pytest.mark.parametrize("bad", [-1.0, math.inf, math.nan])
def test_rejects_a_bad_c(bad):
    with pytest.raises(ValueError, match=f"^c must be non-negative and finite, got {bad!r}$"):
        kl_ucb(c=bad)


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan])
def test_rejects_a_bad_scale(bad):
    with pytest.raises(ValueError, match=f"^scale must be positive and finite, got {bad!r}$"):
        kl_ucb(scale=bad)


@pytest.mark.parametrize("bad", ["poisson", "", None])
def test_rejects_unknown_rewards(bad):
    with pytest.raises(
        ValueError, match=f"^rewards must be 'gaussian', 'bernoulli' or 'bounded', got {bad!r}$"
    ):
        kl_ucb(bad)
