r"""What kibitzer's regret will be, predicted without playing: a fluid, and a fit of what it leaves out.

Take the noise away (as `kibitz.planning.fluid` does for UCB). At stage t, with F looks so far, an arm
that is pulled has been observed n_i times, where

.. math:: n_i (\Delta_i + v)^2 = 2\ell\Bigl(1 + \frac{bt}{Kn_i + bF}\Bigr), \qquad
          \ell(x) = \log x - \log(1 + \log x), \quad b = 8,

and v is the best arm's own width. A quarter of the looks falls on all arms alike, the rest on those of
smallest :math:`O_i\Delta_i^2/2` (the IMED rule without its logarithm), so that these are level; what
looks bring need not be pulled. The regret of this fluid, B, is too small, often by half: kibitzer
explores so little that much of its regret is that of runs in which the best arm looks bad at first. So

.. math:: \log R \approx \log B + \sum_k c_k \phi_k

with functions :math:`\phi_k` of the setting (`features`) and coefficients fitted to random settings
(benchmarks/kibitzer_fit.py). How accurate that is was measured on others (benchmarks/fluid.py).
"""

import numpy as np
from scipy.special import ndtr

from kibitz.planning.fluid import FloatArray

B = 8.0  # b, as `kibitz.kibitzer()` has it
N_STAGES = 96
SHARE_IN_TURN = 0.25
STEPS = 4  # of Newton's method, from where the last stage left off


def level(x: FloatArray) -> FloatArray:
    """Return ℓ(x) = log x − log(1 + log x)."""
    log = np.log(x)
    return np.asarray(log - np.log1p(log))


def needed(
    d: FloatArray, stage: float, looks: FloatArray, n_arms: float, start: FloatArray
) -> FloatArray:
    """Return n with n d² = 2ℓ(1 + bt/(Kn + bF)), by Newton's method in log n."""
    u = np.log(start)
    for _ in range(STEPS):
        n = np.exp(u)
        below = n_arms * n + B * looks
        x = 1 + B * stage / below
        log = np.log(x)
        goal = np.maximum(2 * (log - np.log1p(log)), 1e-300)
        # d log ℓ / d log n, ℓ' = log x / (1 + log x) / x
        fall = 2 * log / (1 + log) / x * (B * stage / below) * (n_arms * n / below) / goal
        u = u + (np.log(goal) - 2 * np.log(d) - u) / (1 + fall)
    return np.asarray(np.exp(u))


def fluid(
    gaps: FloatArray, counts: FloatArray, looks: FloatArray, stages: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the pulls of one arm of each group that the fluid asks for, and those by mistake.

    Parameters
    ----------
    gaps
        Of each group, the best arm's first: row, group.
    counts
        The arms of each group.
    looks
        Expected up to each stage: row, stage.
    stages
        At which the fluid is looked at.
    """
    n_arms, best = counts.sum(), gaps == 0
    first = looks[:, :1]
    n = np.ones(gaps.shape)
    pulls = np.broadcast_to(stages[0] / n_arms / (1 + first / stages[0]), gaps.shape)
    looked, mistaken = np.zeros(gaps.shape), np.zeros(gaps.shape)
    before, last, chance = np.zeros(first.shape), stages[0], np.zeros(gaps.shape)
    for k, t in enumerate(stages):
        now = looks[:, k : k + 1]
        arriving, before = now - before, now
        looked = looked + SHARE_IN_TURN * arriving / n_arms
        looked = looked + _levelled(gaps, counts, looked + pulls, (1 - SHARE_IN_TURN) * arriving)
        spent = (counts * pulls * ~best).sum(axis=-1, keepdims=True)
        alone = np.maximum((t - spent) / counts[0], t / n_arms) + looked[:, :1]
        v = np.sqrt(2 * level(1 + B * t / (n_arms * alone + B * now)) / alone)
        n = needed(gaps + v, t, now, n_arms, n)
        pulls = np.maximum(pulls, np.minimum(n - looked, t / n_arms))
        noise = np.sqrt(1 / (looked + pulls) + 1 / alone)
        wrong = np.where(best, 0.0, ndtr(-gaps / noise))
        wrong = wrong / np.maximum((counts * wrong).sum(axis=-1, keepdims=True), 1.0)
        mistaken = mistaken + (t - last) * (chance + wrong) / 2
        chance, last = wrong, t
    return np.where(best, 0.0, pulls), mistaken


def _levelled(
    gaps: FloatArray, counts: FloatArray, seen: FloatArray, looks: FloatArray
) -> FloatArray:
    """Return the looks at one arm of each group that raise the smallest O_iΔ_i² to one level."""
    bad = gaps > 0
    value = np.where(bad, seen * gaps**2, np.inf)
    room = np.where(bad, counts / np.where(bad, gaps, 1.0) ** 2, 0.0)
    order = np.argsort(value, axis=-1, kind="stable")
    height = np.take_along_axis(value, order, -1)
    width = np.cumsum(np.take_along_axis(room, order, -1), axis=-1)
    filled = np.cumsum(np.take_along_axis(room * np.where(bad, value, 0.0), order, -1), axis=-1)
    # with the first j groups under water the level is (looks + Σ room·value) / Σ room
    levels = (looks + filled) / width
    after = np.concatenate([height[:, 1:], np.full((len(height), 1), np.inf)], axis=-1)
    j = np.argmax(levels <= after, axis=-1)[:, np.newaxis]
    water = np.take_along_axis(levels, j, -1)
    more = np.where(bad, np.maximum(water - np.where(bad, value, 0.0), 0.0), 0.0)
    return np.asarray(more / np.where(bad, gaps, 1.0) ** 2)
