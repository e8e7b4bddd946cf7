r"""What kibitzer's regret will be, predicted without playing: a fluid, and a fit of the rest.

Take the noise away (as `kibitz.planning.fluid` does for UCB). At stage t, with F looks so far, an arm
that is pulled has been observed n_i times, where

.. math:: n_i (\Delta_i + v)^2 = 2\ell\Bigl(1 + \frac{bt}{Kn_i + bF}\Bigr), \qquad
          \ell(x) = \log x - \log(1 + \log x), \quad b = 8,

and v is the best arm's own width. A quarter of the looks falls on all arms alike, the rest on those
of smallest :math:`O_i\Delta_i^2` (the IMED rule without its logarithm), so that these are level; what
looks bring need not be pulled. Let B be the regret of this fluid. It is too small, by a tenth where
looks are scarce and several times where they are plenty: then regret is that of the stages at which
a worse arm happens to have the largest mean. With O_i of the fluid these cost

.. math:: M = \int \sum_i \Delta_i \Phi\bigl(-\Delta_i / \sqrt{1/O_i + 1/O_1}\bigr)\,dt ,

which is too much: they do not come anew at each stage. So

.. math:: \log R \approx \log B + \sum_k c_k \phi_k,

a quadratic polynomial in :math:`\log(M/B)`, :math:`\log K` and :math:`\log(\sum 1/\Delta_i / B)`,
kept within the range of the random settings that its coefficients were fitted to
(benchmarks/kibitzer_fit.py). How accurate that is was measured on others (benchmarks/fluid.py;
`prediction.ACCURACY`). No bound of any kind.
"""

import numpy as np
from scipy.special import ndtr

from kibitz.planning.fluid import FloatArray

B = 8.0  # b, as `kibitz.kibitzer()` has it
N_STAGES = 96
SHARE_IN_TURN = 0.25
STEPS = 4  # of Newton's method, from where the last stage left off
ROOM = 1_000_000  # numbers in an array: rows are taken in chunks that keep within
LEAST = 1e-280  # what is smaller counts as this: its logarithm is finite

#: Of the polynomial in log(M/B), log K and log(Σ 1/Δ / B): its terms in the order of `features`.
COEFFICIENTS = (0.6374, 0.299, -0.19, 0.2848, -0.0098, -0.0075, 0.0431, 0.0103, 0.0014, 0.0362)
#: The range of each of the three in the settings of the fit.
RANGES = ((-1.86, 7.41), (0.69, 3.4), (-2.91, 6.65))


def stages_up_to(horizon: int, n_arms: int) -> FloatArray:
    """The stages at which the fluid is looked at, from the first pulls on."""
    if horizon <= n_arms:
        return np.array([float(horizon)])
    return np.unique(np.geomspace(max(n_arms, 2), horizon, N_STAGES))


def predicted_regret(
    gaps: FloatArray, counts: FloatArray, looks: FloatArray, stages: FloatArray
) -> FloatArray:
    """Return the predicted regret of kibitzer as an active observer: one number for each row.

    Parameters
    ----------
    gaps
        Of each group of arms, the best arm's first: row, group.
    counts
        The arms of each group.
    looks
        Expected up to each stage: row, stage.
    stages
        At which the fluid is looked at; the horizon is the last.
    """
    size = max(1, int(ROOM / gaps.shape[1]))
    chunks = [
        _chunk(gaps[k : k + size], counts, looks[k : k + size], stages)
        for k in range(0, len(gaps), size)
    ]
    return np.concatenate(chunks)


def _chunk(gaps: FloatArray, counts: FloatArray, looks: FloatArray, stages: FloatArray) -> FloatArray:
    all_alike = stages[-1] * (counts * gaps).sum(axis=-1) / counts.sum()
    if len(stages) == 1:  # not a pull for each arm
        return np.asarray(all_alike)
    base, noise, n_arms, inverse = parts(gaps, counts, looks, stages)
    exponent = features(base, noise, n_arms, inverse) @ np.array(COEFFICIENTS)
    return np.asarray(np.minimum(base * np.exp(exponent), all_alike))


def parts(
    gaps: FloatArray, counts: FloatArray, looks: FloatArray, stages: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return B, M, K and Σ 1/Δ for each row."""
    asked, mistaken = fluid(gaps, counts, looks, stages)
    bad = gaps > 0
    inverse = (counts * np.where(bad, 1 / np.where(bad, gaps, 1.0), 0.0)).sum(axis=-1)
    base, noise = ((counts * gaps * pulls).sum(axis=-1) for pulls in (asked, mistaken))
    n_arms = np.full(len(gaps), counts.sum())
    return np.maximum(base, LEAST), np.maximum(noise, LEAST), n_arms, np.maximum(inverse, LEAST)


def features(
    base: FloatArray, noise: FloatArray, n_arms: FloatArray, inverse: FloatArray
) -> FloatArray:
    """Return the terms of the polynomial: row, term."""
    logs = np.log(base)
    raw = (np.log(noise) - logs, np.log(n_arms), np.log(inverse) - logs)
    x = [np.clip(values, *limits) for values, limits in zip(raw, RANGES, strict=True)]
    pairs = [x[i] * x[j] for i in range(3) for j in range(i, 3)]
    return np.stack([np.ones_like(x[0]), *x, *pairs], axis=-1)


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
        looked = looked + levelled(gaps, counts, looked + pulls, (1 - SHARE_IN_TURN) * arriving)
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


def levelled(gaps: FloatArray, counts: FloatArray, seen: FloatArray, looks: FloatArray) -> FloatArray:
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
