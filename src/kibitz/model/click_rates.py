r"""A posterior distribution of the click rates of the arms of one experiment.

Arm i had :math:`S_i` clicks in :math:`n_i` views. The largest of several observed rates is partly
large by chance (the winner's curse), so a plan for the observed rates expects too large a lift.
Instead, assume that the rates of the K arms are independent draws from a beta distribution with mean
:math:`\bar p`, the rate of all arms together, and relative standard deviation :math:`\tau`. The
posterior distribution of the rate of arm i is

.. math:: \mathrm{Beta}\bigl(\bar p m + S_i,\ (1 - \bar p) m + n_i - S_i\bigr), \qquad
          m = \frac{1 - \bar p}{\bar p \tau^2} - 1 .

The moment estimate of :math:`\tau^2` compares :math:`Q = \sum_i n_i (S_i/n_i - \bar p)^2 / (\bar p (1
- \bar p))` with K - 1, its expectation if all rates are equal. One experiment has few arms, so its
estimate is averaged with a typical value, 0.2². The relative standard deviation between the arms of a
test in the Upworthy archive (Matias et al. 2021) is 0.22. We split the views of each of 1,952 tests
of this archive into halves. The arm that led in the first half led by 52 % of the pooled rate there,
but only by 24 % in the second half. The posterior mean of its lead, given the first half, was 25 %.

The model is empirical Bayes: the same clicks choose the prior and update it. It is a heuristic, and
no guarantee of kibitz depends on it.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

TYPICAL_SD = 0.2  # relative standard deviation between the arms of a test
TYPICAL_WEIGHT = 3  # the weight of `TYPICAL_SD`, in arms
MIN_STRENGTH = 1.0  # the smallest m, for arms that differ by more than any beta distribution allows


def rate_posterior(
    views: ArrayLike, clicks: ArrayLike, variance: float | None = None
) -> tuple[Floats, Floats]:
    """Return the two parameters of the beta posterior of the rate of each arm.

    Parameters
    ----------
    views, clicks
        The counts of each arm. At least one arm must have a view. `clicks` may also be sums of
        rewards in [0, 1].
    variance
        τ², the relative variance between the arms. Default: a weighted mean of the moment estimate
        and the typical value.
    """
    n, s = np.asarray(views, float), np.asarray(clicks, float)
    pooled_rate = _pooled_rate(n, s)
    if variance is None:
        excess, information = spread_moments(n, s)
        estimated_variance = max(0.0, excess / information) if information > 0 else 0.0
        typical_variance = (TYPICAL_SD * min(1.0, (1 - pooled_rate) / pooled_rate)) ** 2
        variance = (TYPICAL_WEIGHT * typical_variance + (n.size - 1) * estimated_variance) / (
            n.size - 1 + TYPICAL_WEIGHT
        )
    with np.errstate(divide="ignore"):
        strength = max(float(np.divide(1 - pooled_rate, pooled_rate * variance)) - 1, MIN_STRENGTH)
    strength = min(strength, 1e12)  # for equal arms
    return pooled_rate * strength + s, (1 - pooled_rate) * strength + n - s


def draw_rates(views: ArrayLike, clicks: ArrayLike, n_draws: int, seed: int) -> Floats:
    """Return draws from the posterior distribution of the arms' rates, as an array (draw, arm)."""
    alpha, beta = rate_posterior(views, clicks)
    return np.random.default_rng(seed).beta(alpha, beta, size=(n_draws, alpha.size))


def shrink_rates(views: ArrayLike, clicks: ArrayLike) -> Floats:
    """Return the posterior mean of the rate of each arm."""
    alpha, beta = rate_posterior(views, clicks)
    return np.asarray(alpha / (alpha + beta))


def pooled_variance(experiments: Iterable[tuple[ArrayLike, ArrayLike]]) -> float:
    """Return the moment estimate of τ², the relative variance between the arms of an experiment.

    `experiments` holds a pair (views, clicks) for each experiment.
    """
    moments = np.array([spread_moments(views, clicks) for views, clicks in experiments])
    excess, information = moments.sum(axis=0)
    return float(max(0.0, excess / information))


def spread_moments(views: ArrayLike, clicks: ArrayLike) -> tuple[float, float]:
    """Return two numbers whose ratio estimates τ², the relative variance between the arms.

    The first number is Q - (K - 1), where K is the number of arms and Q is the chi-squared statistic
    of a test for equal rates. The second number is the expectation of Q - (K - 1) for τ² = 1.
    """
    n, s = np.asarray(views, float), np.asarray(clicks, float)
    pooled_rate, total = _pooled_rate(n, s), n.sum()
    rates = np.where(n > 0, s / np.maximum(n, 1.0), pooled_rate)
    statistic = float((n * (rates - pooled_rate) ** 2).sum() / (pooled_rate * (1 - pooled_rate)))
    information = float(pooled_rate / (1 - pooled_rate) * (total - (n**2).sum() / total))
    return statistic - (n.size - 1), information


def _pooled_rate(views: Floats, clicks: Floats) -> float:
    """Return the rate of all arms together, cut to stay half a click away from 0 and 1."""
    margin = 0.5 / (views.sum() + 1)
    return float(np.clip(clicks.sum() / views.sum(), margin, 1 - margin))
