r"""Time-uniform confidence sequences for the means of arms.

**The inequality** (Robbins' normal mixture). Let S_n be the sum of the first n observations of an
arm. The rewards are \sigma-sub-Gaussian with mean \mu, and arms may be chosen adaptively. For each
\rho > 0, the mixture of \exp(\lambda (S_n - n \mu) - \lambda^2 \sigma^2 n / 2) over
\lambda \sim N(0, 1/(\rho \sigma^2)) is a non-negative supermartingale. By Ville's inequality

.. math:: P\Big(\exists n: |S_n / n - \mu| \ge \frac{\sigma}{n}
    \sqrt{(n + \rho)\big(2 \log(1/\delta) + \log((n + \rho)/\rho)\big)}\Big) \le \delta.

If each of K arms uses \delta / K, all intervals are valid simultaneously and at all times with
probability at least 1 - \delta. This requires that the delay and the loss of a report do
not depend on its reward.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._validation import invalid, number

Floats = NDArray[np.float64]

MIN_DELTA = 1e-300  # a smaller delta could underflow when divided by the number of arms
RHO = 10.0  # the intervals are tightest at about 10 RHO observations


def check_delta(delta: Any) -> float:
    """Return `delta` as a float; raise ValueError unless it is a probability in (0, 1)."""
    if not 0 < (level := number(delta, "delta", "in (0, 1)")) < 1:
        raise invalid("delta", "in (0, 1)", delta)
    if level < MIN_DELTA:
        raise invalid("delta", f"at least {MIN_DELTA:g}", delta)
    return level


def radius(n: ArrayLike, delta: ArrayLike, scale: float = 1.0) -> Floats:
    """Return half the width of the confidence interval after `n` observations; inf for n = 0.

    The probability that the interval fails at any time is at most `delta`.
    """
    counts = np.asarray(n, dtype=float)
    level = (counts + RHO) * (np.log1p(counts / RHO) - 2 * np.log(delta))
    divisor = np.maximum(counts, 1.0)
    return np.asarray(np.where(counts > 0, scale * np.sqrt(level) / divisor, np.inf))


def intervals(n: ArrayLike, means: ArrayLike, delta: float, scale: float) -> tuple[Floats, Floats]:
    """Return the lower and the upper ends of confidence intervals for the true means.

    `n` and `means` are the number and the mean of the observations of each arm. With probability at
    least 1 - delta, all intervals contain their true means at all times.
    """
    counts, centres = np.asarray(n, dtype=float), np.asarray(means, dtype=float)
    half = radius(counts, delta / counts.size, scale)
    centres = np.where(counts > 0, centres, 0.0)
    return centres - half, centres + half


def best_arm_p_values(n: ArrayLike, means: ArrayLike, scale: float) -> Floats:
    """Return, for each arm, an anytime-valid p-value of the hypothesis that the arm is the best.

    The p-value is the smallest delta at which the intervals rule the arm out; it is 1 if the
    intervals rule the arm out at no delta. If the arm is the best, the probability that its p-value
    is ever p or smaller is at most p.
    """
    counts, centres = np.asarray(n, dtype=float), np.asarray(means, dtype=float)
    rivals = _find_undominated(counts, centres)
    if not rivals.size:
        return np.ones(counts.size)

    def is_ruled_out(log_deltas: Floats) -> NDArray[np.bool_]:  # one delta for each arm
        deltas = np.exp(log_deltas)[:, np.newaxis] / counts.size
        highs = np.where(counts > 0, centres, 0.0) + radius(counts, deltas[:, 0], scale)
        lows = centres[rivals] - radius(counts[rivals], deltas, scale)
        return np.asarray(highs < lows.max(axis=1))

    low, high = np.full(counts.size, -700.0), np.zeros(counts.size)  # logarithms of delta
    has_p_value = is_ruled_out(np.full(counts.size, math.log(0.999)))
    for _ in range(60):
        middle = (low + high) / 2
        ruled_out = is_ruled_out(middle)
        low, high = np.where(ruled_out, low, middle), np.where(ruled_out, middle, high)
    return np.where(has_p_value, np.exp(high), 1.0)


def _find_undominated(counts: Floats, centres: Floats) -> NDArray[np.int64]:
    """Return the arms whose interval may have the largest lower end of all intervals.

    An arm is returned if no other arm has both at least as many observations and at least as large a
    mean.
    """
    arms, best = [], -np.inf
    for arm in np.lexsort((-centres, -counts)):
        if counts[arm] > 0 and centres[arm] > best:
            arms.append(arm)
            best = centres[arm]
    return np.array(arms, dtype=np.int64)


def gap_intervals(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return lower and upper bounds on the gap of each arm to the best arm.

    `low` and `high` are the ends of the intervals for the means.
    """
    least = np.maximum(low.max() - high, 0.0)
    most = np.empty_like(low)
    for arm in range(low.size):
        others = np.delete(high, arm)
        most[arm] = max(0.0, others.max() - low[arm])
    return least, most


def regret_interval(n_pulls: ArrayLike, low: Floats, high: Floats) -> tuple[float, float]:
    r"""Return an interval for the regret, from intervals for the means.

    The regret is \sum_i \Delta_i N_i, where \Delta_i is the gap of arm i and N_i its number of pulls.
    The lower bound takes the largest lower end of the intervals as the best mean, and the upper end
    of its interval as the mean of every other arm. The upper bound takes the upper end of one
    interval as the best mean, and the lower end as the mean of every other arm; it is the largest
    regret over all choices of the best arm.
    """
    pulls = np.asarray(n_pulls, dtype=float)
    pulled = pulls > 0
    least = float((pulls[pulled] * np.maximum(low.max() - high[pulled], 0.0)).sum())
    most = 0.0
    for arm in np.flatnonzero(high >= low.max()):
        others = pulled & (np.arange(pulls.size) != arm)
        most = max(most, float((pulls[others] * np.maximum(high[arm] - low[others], 0.0)).sum()))
    return least, most
