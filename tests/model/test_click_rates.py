"""Tests of the posterior distribution of click rates."""

import numpy as np
import pytest
from scipy import integrate, stats

from kibitz.model.click_rates import (
    draw_rates,
    pooled_variance,
    rate_posterior,
    shrink_rates,
    spread_moments,
)


def test_posterior_is_prior_times_likelihood():
    """Compare posterior means with the normalised product of prior and binomial likelihood."""
    views, clicks, variance = np.array([50, 80]), np.array([3, 2]), 0.25
    alpha, beta = rate_posterior(views, clicks, variance)
    mean = clicks.sum() / views.sum()
    size = (1 - mean) / (mean * variance) - 1
    prior = stats.beta(mean * size, (1 - mean) * size)
    assert prior.mean() == pytest.approx(mean)
    assert prior.std() == pytest.approx(mean * variance**0.5)
    for arm in range(2):

        def density(p, arm=arm):
            return prior.pdf(p) * stats.binom.pmf(clicks[arm], views[arm], p)

        total, _ = integrate.quad(density, 0, 1)
        expected, _ = integrate.quad(lambda p: p * density(p), 0, 1)
        assert alpha[arm] / (alpha[arm] + beta[arm]) == pytest.approx(expected / total, rel=1e-6)


def test_pooled_variance_recovers_the_variance_of_simulated_rates():
    """The estimate of τ² from 3,000 experiments is within 6 standard errors of the true value.

    With a random seed, the test fails with probability about 10⁻⁸.
    """
    rng = np.random.default_rng(5)
    estimates = []
    for _ in range(20):
        experiments = []
        for _ in range(150):
            size = (1 - 0.02) / (0.02 * 0.3**2) - 1
            rates = rng.beta(0.02 * size, 0.98 * size, 4)
            views = rng.integers(2_000, 4_000, 4)
            experiments.append((views, rng.binomial(views, rates)))
        estimates.append(pooled_variance(experiments))
    error = np.std(estimates, ddof=1) / 20**0.5
    # p̄ is estimated from the same arms, which biases τ² by a few per cent
    assert abs(np.mean(estimates) - 0.09) < 6 * error + 0.03 * 0.09


def test_excess_is_zero_on_average_for_equal_rates():
    """For equal rates, the mean of Q - (K - 1) over 2,000 draws is within 6 standard errors of 0."""
    rng = np.random.default_rng(6)
    views = np.array([400, 900, 500])
    excess = [spread_moments(views, rng.binomial(views, 0.05))[0] for _ in range(2_000)]
    assert abs(np.mean(excess)) < 6 * np.std(excess) / 2_000**0.5


def test_posterior_means_lie_between_the_observed_rate_and_the_overall_rate():
    views, clicks = np.array([1_000, 1_000, 1_000]), np.array([5, 10, 30])
    alpha, beta = rate_posterior(views, clicks)
    means, overall = alpha / (alpha + beta), 15 / 1_000
    assert np.all(np.abs(means - overall) < np.abs(clicks / views - overall))
    assert np.all(np.diff(means) > 0)


def test_draws_follow_the_posterior_distribution():
    clicks, views = np.array([39, 68, 49, 63]), np.array([2551, 2629, 2539, 2661])
    draws = draw_rates(views, clicks, 20_000, seed=1)
    # 5 standard errors of the mean; a false alarm has probability below 10⁻⁵
    error = draws.std(axis=0) / 20_000**0.5
    shrunk_rates = shrink_rates(views, clicks)
    assert np.abs(draws.mean(axis=0) - shrunk_rates).max() < 5 * error.max()
    assert np.ptp(shrunk_rates) < np.ptp(clicks / views)
    assert (np.argsort(shrunk_rates) == np.argsort(clicks / views)).all()


def test_prior_finds_the_spread_between_arms():
    """With many arms and views, the variance of the prior is the variance between the arms."""
    rng = np.random.default_rng(1)
    rates = rng.beta(0.05 * 400, 0.95 * 400, size=2000)
    views = np.full(2000, 20_000)
    alpha, beta = rate_posterior(views, rng.binomial(views, rates))
    strength = (alpha + beta - views)[0]
    # the estimated variance has a relative standard error of about 3 %
    assert strength == pytest.approx(400, rel=0.15)


@pytest.mark.parametrize("clicks", [[0, 0], [10, 20], [0, 20], [5, 10]])
def test_posterior_is_proper_for_extreme_counts(clicks):
    """Without clicks, with clicks only, or with equal rates, all parameters are positive."""
    alpha, beta = rate_posterior([10, 20], clicks)
    assert np.all(np.isfinite(alpha) & (alpha > 0) & np.isfinite(beta) & (beta > 0))
    alpha, beta = rate_posterior([10, 0], [3, 0])
    assert np.all((alpha > 0) & (beta > 0))
