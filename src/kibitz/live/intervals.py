r"""Intervals that hold at all times at once: who looks at them every day makes no error by it.

**The inequality** (Robbins' mixture of normal laws). The n observations of an arm have a sum S_n, and
rewards are \sigma-sub-Gaussian of mean \mu, whatever arm was chosen when. For each \rho > 0 the
mixture of \exp(\lambda (S_n - n \mu) - \lambda^2 \sigma^2 n / 2) over \lambda \sim N(0, 1/(\rho
\sigma^2)) is a non-negative supermartingale, so that by Ville's inequality

.. math:: P\Big(\exists n: |S_n / n - \mu| \ge \frac{\sigma}{n}
    \sqrt{(n + \rho)\big(2 \log(1/\delta) + \log((n + \rho)/\rho)\big)}\Big) \le \delta.

With \delta / K for each of K arms all intervals hold together, at all times, with probability
1 - \delta. They presuppose that whether a report comes, and how late, does not depend on its value.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

RHO = 10.0  # the intervals are tightest at some ten times as many observations


def radius(n: ArrayLike, delta: float, scale: float = 1.0) -> Floats:
    """Return half the width of the interval for a mean; infinite without observations."""
    counts = np.asarray(n, dtype=float)
    level = (counts + RHO) * (2 * math.log(1 / delta) + np.log1p(counts / RHO))
    some = np.maximum(counts, 1.0)
    return np.asarray(np.where(counts > 0, scale * np.sqrt(level) / some, np.inf))


def intervals(n: ArrayLike, means: ArrayLike, delta: float, scale: float) -> tuple[Floats, Floats]:
    """Return intervals for the means of all arms that hold together with probability 1 - delta."""
    counts, centres = np.asarray(n, dtype=float), np.asarray(means, dtype=float)
    half = radius(counts, delta / counts.size, scale)
    centres = np.where(counts > 0, centres, 0.0)
    return centres - half, centres + half


def best_bounds(n: ArrayLike, means: ArrayLike, scale: float) -> Floats:
    """Return, for each arm, the smallest delta at which the intervals say that it is not best; or 1.

    If an arm is best, this is ever as small as delta with probability at most delta.
    """
    counts, centres = np.asarray(n, dtype=float), np.asarray(means, dtype=float)
    bounds = np.ones(counts.size)
    for arm in range(counts.size):
        low, high = -700.0, 0.0  # logarithms of delta

        def excluded(log: float, arm: int = arm) -> bool:
            lows, highs = intervals(counts, centres, math.exp(log), scale)
            return bool(highs[arm] < lows.max())

        if not excluded(math.log(0.999)):
            continue
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if excluded(middle) else (middle, high)
        bounds[arm] = math.exp(high)
    return bounds


def gap_intervals(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return bounds of each arm's gap to the best, from intervals for the means."""
    least = np.maximum(low.max() - high, 0.0)
    most = np.empty_like(low)
    for arm in range(low.size):
        others = np.delete(high, arm)
        most[arm] = max(0.0, others.max() - low[arm])
    return least, most


def regret_interval(n_pulls: ArrayLike, low: Floats, high: Floats) -> tuple[float, float]:
    r"""Return an interval for \sum_i \Delta_i N_i, from intervals for the means.

    At least as if every mean were as large as the largest lower end allows; at most as if one arm
    were at its upper end and all others at their lower ones.
    """
    pulls = np.asarray(n_pulls, dtype=float)
    played = pulls > 0
    least = float((pulls[played] * np.maximum(low.max() - high[played], 0.0)).sum())
    most = 0.0
    for arm in np.flatnonzero(high >= low.max()):
        others = played & (np.arange(pulls.size) != arm)
        most = max(most, float((pulls[others] * np.maximum(high[arm] - low[others], 0.0)).sum()))
    return least, most
