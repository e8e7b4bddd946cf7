"""At which stage a lower bound is best: settings, schedules, maxima over whole stages."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from kibitz import _validation as validate
from kibitz.bounds.bound import (
    Answer,
    FloatArray,
    Weights,
    answer,
    check_array,
    check_gaps,
    check_horizon,
    check_rate,
    check_shapes,
    check_weights,
)
from kibitz.bounds.constraint import FIRST_STAGE, Constraint, all_arms, h_at, needs_at, slope_at

Schedule: TypeAlias = Callable[[FloatArray], FloatArray]

CONCAVE_FROM = 8.0  # the first whole stage after e²
ALL_STAGES = 20_000.0  # up to here every stage is looked at, above it a grid and its best cells


class Setting(NamedTuple):
    """What a bound is asked for, checked: one or many rates and horizons, to be broadcast."""

    gaps: FloatArray
    rate: FloatArray | Schedule
    horizon: FloatArray
    weights: FloatArray
    shape: tuple[int, ...]


def check_setting(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    weights: Weights = None,
    *,
    steady: bool = False,
) -> Setting:
    """The setting of a lower bound, made sure of; `steady` if it takes no schedule."""
    delta, last = check_gaps(gaps), check_horizon(horizon)
    p = check_weights(weights, delta)
    if callable(rate) and steady:
        raise validate.refused("rate", "in [0, 1] and not a schedule", rate)
    if callable(rate):
        return Setting(delta, rate, last, p, last.shape)
    eps = check_rate(rate)
    return Setting(delta, eps, last, p, check_shapes(rate=eps, horizon=last))


def each_place(s: Setting) -> Iterator[tuple[tuple[int, ...], FloatArray | Schedule, float]]:
    """The places of the answer, one by one, with their rate and horizon."""
    horizon = np.broadcast_to(s.horizon, s.shape)
    for place in np.ndindex(s.shape):
        rate = s.rate if callable(s.rate) else np.broadcast_to(s.rate, s.shape)[place]
        yield place, rate if callable(rate) else np.asarray(rate), float(horizon[place])


def free_looks(rate: FloatArray | Schedule, t: FloatArray) -> FloatArray:
    """The expected number of free observations up to the stages t."""
    if not callable(rate):
        return np.asarray(rate * t)
    given = rate(t)
    try:
        free = validate.array(given, "rate")
    except ValueError:
        free = np.array(np.nan)
    if free.shape != t.shape or not ((free >= 0) & (free <= t * (1 + 1e-9))).all():
        raise ValueError(
            f"rate must give a number in [0, t] for each stage t, got {validate.quoted(given)}"
        )
    return free


def schedule(rates: ArrayLike) -> Schedule:
    """The schedule of the rates ε_1, …, ε_n, to be used as `rate`; after n, ε_t = ε_n.

    Parameters
    ----------
    rates
        In [0, 1], one per stage from stage 1 on, at least one.
    """
    condition = "a list of at least one rate in [0, 1]"
    array = check_array("rates", rates, condition, lambda x: (x >= 0) & (x <= 1))
    if array.ndim != 1:
        raise validate.refused("rates", condition, rates)
    cumulative = np.concatenate(([0.0], np.cumsum(array)))

    def free(t: FloatArray) -> FloatArray:
        inside = np.minimum(t, len(array)).astype(np.int64)
        return np.asarray(cumulative[inside] + array[-1] * (t - inside))

    return free


def regret_of(
    c: Constraint, n_pulls: FloatArray, stages: FloatArray, shape: tuple[int, ...], details: bool
) -> Answer:
    """The answer for pulls of sub-optimal arms, each attained at its own stage."""
    terms = all_arms(c, np.broadcast_to(c.gaps * n_pulls, (*shape, len(c.gaps))))
    at = np.broadcast_to(np.where(n_pulls > 0, stages, 0.0), (*shape, len(c.gaps)))
    return answer(terms.sum(axis=-1), terms, all_arms(c, at), details)


def log_stages(first: float, last: float, n: int) -> FloatArray:
    """At most n whole stages from first to last, about evenly spaced in their logarithm."""
    if last - first < n:
        return np.arange(first, last + 1)
    # in a narrow cell of large stages the logarithms would be equal to the last digit
    spaced = np.linspace(first, last, n) if last < 2 * first else np.geomspace(first, last, n)
    stages: FloatArray = np.unique(np.clip(np.rint(spaced), first, last))
    return stages


def best_stage(value: Callable[[FloatArray], FloatArray], horizon: float) -> float:
    """The stage from 3 to the horizon at which `value` is largest.

    Every stage up to 20000 is looked at. Beyond, a logarithmic grid and then the cells around
    its three highest peaks, down to single stages. Any stage proves a bound: a peak missed
    between two stages of the grid would cost a little, never the truth.
    """
    if horizon <= ALL_STAGES:
        stages = np.arange(FIRST_STAGE, horizon + 1)
        return float(stages[np.argmax(value(stages))])
    grid = log_stages(FIRST_STAGE, horizon, 2000)
    heights = np.concatenate(([-np.inf], value(grid), [-np.inf]))
    peaks = np.flatnonzero((heights[1:-1] >= heights[:-2]) & (heights[1:-1] >= heights[2:]))
    highest = peaks[np.argsort(-heights[1:-1][peaks], kind="stable")][:3]
    found = np.array([_zoom(value, grid, int(peak)) for peak in highest])
    return float(found[np.argmax(value(found))])


def _zoom(value: Callable[[FloatArray], FloatArray], grid: FloatArray, peak: int) -> float:
    while True:
        first, last = grid[max(peak - 1, 0)], grid[min(peak + 1, len(grid) - 1)]
        grid = log_stages(first, last, 64)
        peak = int(np.argmax(value(grid)))
        if last - first < 64:
            return float(grid[peak])


def best_stages(c: Constraint, q: FloatArray, horizon: FloatArray) -> FloatArray:
    r"""The stage from 3 to the horizon at which a_i(t) - q_i t is largest, exactly, for each arm.

    Where h_i > 0 and t ≥ e², h_i is concave, so that a bisection on the sign of its slope finds
    the maximum: with r = 1 - P, L = log(1/Q), s = 1/(log t + v_0/v_1) ≤ 1/2 and
    b = u_1/(t Δ) ≤ r/2,

    .. math:: t^2 h'' = (3b - 2r) L + 2 (r - b)(1 - s) - (1 - r)(1 - s - s^2) .

    It is linear in b. At b = 0 it is 2r(1-s-L) - (1-r)(1-s-s²), at b = r/2 it is
    r(1-s-L/2) - (1-r)(1-s-s²), and h > 0 means (1-r)L > log 2; both are then negative for
    all 0 ≤ r < 1, 0 < s ≤ 1/2 (a test scans them). Before e² there are five stages to look at.
    """
    last = np.broadcast_to(horizon, np.broadcast_shapes(q.shape, horizon.shape)).copy()
    low = np.minimum(last, CONCAVE_FROM)
    high = last.copy()
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        rising = (h_at(c, middle) == 0) | (slope_at(c, middle) > q * c.information)
        low = np.where(rising, middle, low)
        high = np.where(rising, high, middle)
    early = [np.minimum(last, t) for t in np.arange(FIRST_STAGE, CONCAVE_FROM)]
    candidates = np.stack([*early, low, high])
    best = np.argmax(h_at(c, candidates) / c.information - q * candidates, axis=0)
    stages: FloatArray = np.take_along_axis(candidates, best[np.newaxis], axis=0)[0]
    return stages


def best_stages_of(
    rate: Schedule, c: Constraint, weight: FloatArray, horizon: FloatArray
) -> FloatArray:
    """As `best_stages`, for a schedule."""
    t = np.empty((*horizon.shape, len(weight)))
    for place in np.ndindex(t.shape):
        arm = place[-1]
        last = max(float(horizon[place[:-1]]), FIRST_STAGE)

        def pulls(stage: FloatArray, arm: int = arm) -> FloatArray:
            n: FloatArray = needs_at(c, stage)[:, arm] - weight[arm] * free_looks(rate, stage)
            return n

        t[place] = min(best_stage(pulls, last), float(horizon[place[:-1]]))
    return t
