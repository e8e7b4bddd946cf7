r"""Confidence sequences for the means of arms: intervals that are valid at all times at once.

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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._validation import invalid, number

Floats = NDArray[np.float64]

LEAST_DELTA = 1e-300  # below it, shared among many arms, it would vanish
RHO = 10.0  # the intervals are tightest at some ten times as many observations


def check_delta(delta: Any) -> float:
    """Return the probability with which intervals may fail."""
    if not 0 < (level := number(delta, "delta", "in (0, 1)")) < 1:
        raise invalid("delta", "in (0, 1)", delta)
    if level < LEAST_DELTA:
        raise invalid("delta", f"at least {LEAST_DELTA:g}", delta)
    return level


def radius(n: ArrayLike, delta: ArrayLike, scale: float = 1.0) -> Floats:
    """Return half the width of the interval for a mean; infinite without observations."""
    counts = np.asarray(n, dtype=float)
    level = (counts + RHO) * (np.log1p(counts / RHO) - 2 * np.log(delta))
    some = np.maximum(counts, 1.0)
    return np.asarray(np.where(counts > 0, scale * np.sqrt(level) / some, np.inf))


def intervals(n: ArrayLike, means: ArrayLike, delta: float, scale: float) -> tuple[Floats, Floats]:
    """Return intervals for the means of all arms that hold together with probability 1 - delta."""
    counts, centres = np.asarray(n, dtype=float), np.asarray(means, dtype=float)
    half = radius(counts, delta / counts.size, scale)
    centres = np.where(counts > 0, centres, 0.0)
    return centres - half, centres + half


def best_arm_p_values(n: ArrayLike, means: ArrayLike, scale: float) -> Floats:
    """Return, for each arm, the smallest delta at which the intervals say that it is not best; or 1.

    If an arm is best, this is ever as small as delta with probability at most delta.
    """
    counts, centres = np.asarray(n, dtype=float), np.asarray(means, dtype=float)
    rivals = _undominated(counts, centres)
    if not rivals.size:
        return np.ones(counts.size)

    def excluded(logs: Floats) -> NDArray[np.bool_]:  # each arm at a delta of its own
        deltas = np.exp(logs)[:, np.newaxis] / counts.size
        highs = np.where(counts > 0, centres, 0.0) + radius(counts, deltas[:, 0], scale)
        lows = centres[rivals] - radius(counts[rivals], deltas, scale)
        return np.asarray(highs < lows.max(axis=1))

    low, high = np.full(counts.size, -700.0), np.zeros(counts.size)  # logarithms of delta
    ever = excluded(np.full(counts.size, math.log(0.999)))
    for _ in range(60):
        middle = (low + high) / 2
        yes = excluded(middle)
        low, high = np.where(yes, low, middle), np.where(yes, middle, high)
    return np.where(ever, np.exp(high), 1.0)


def _undominated(counts: Floats, centres: Floats) -> NDArray[np.int64]:
    """Return the arms that may have the largest lower end: no other has more of both."""
    found, best = [], -np.inf
    for arm in np.lexsort((-centres, -counts)):
        if counts[arm] > 0 and centres[arm] > best:
            found.append(arm)
            best = centres[arm]
    return np.array(found, dtype=np.int64)


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
