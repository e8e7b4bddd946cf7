r"""The observation constraint: how much a good algorithm must see of each arm, and by which stage.

What it says and why is told in `kibitz.bounds.lower`, which is where to look for the bounds.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._validation import array, invalid, short_repr
from kibitz.bounds._bound import Result, documented, make_result
from kibitz.bounds._checks import (
    MAX_VALUE,
    MIN_VALUE,
    FloatArray,
    Schedule,
    Setting,
    check_array,
    check_choice,
    check_gaps,
    check_nonnegative,
    check_scale,
)

C_UCB1 = 8.0
C_0_UCB1 = 1 + math.pi**2 / 3
FIRST_STAGE = 3.0  # the paper's: from stage e on the constraint can only grow
CONCAVE_FROM = 8.0  # the first whole stage after e²
ALL_STAGES = 20_000.0  # up to here every stage is looked at, above it a grid and its best cells


class Constraint(NamedTuple):
    """The numbers in h_i(t), one per sub-optimal arm; what they mean is in `make_constraint`."""

    suboptimal: NDArray[np.bool_]  # which of all arms
    gaps: FloatArray
    x: FloatArray
    u: tuple[float, float]  # U(t) = u[0] + u[1] log t
    divisor: FloatArray  # P = 1 - U(t) / (t divisor)
    v: tuple[FloatArray, FloatArray]  # Q_i = (v[0] + v[1] log t) / (t x)
    information: FloatArray  # of one observation of arm i, (x + Δ_i)² / 2
    variant: str


def make_constraint(
    gaps: FloatArray, C: float, C_0: float, variant: str = "clip", x: ArrayLike | None = None
) -> Constraint:
    """The constraint of every sub-optimal arm, in one of its variants (`observation_constraint`)."""
    C, C_0 = check_scale("C", C), check_nonnegative("C_0", C_0)
    suboptimal = gaps > 0
    positive = gaps[suboptimal]
    raised = positive if x is None else _check_raise(x, gaps)[suboptimal]
    u = (C_0 * float(gaps.sum()), C * float((1 / positive).sum()))
    v = (
        np.full_like(raised, u[0])
        if variant == "printed"
        else C_0 * sum_raised(raised, gaps, positive),
        C * sum_inverse_raised(raised, gaps, positive),
    )
    if variant == "printed":
        divisor = np.ones_like(positive)
    elif variant == "sharp":
        divisor = positive
    else:
        divisor = np.full_like(positive, positive.min(initial=math.inf))
    return Constraint(
        suboptimal, positive, raised, u, divisor, v, (raised + positive) ** 2 / 2, variant
    )


def _check_raise(x: ArrayLike, gaps: FloatArray) -> FloatArray:
    condition = "from 1e-50 to 1e50, one or one per arm"
    raised = check_array("x", x, condition, lambda x: (x >= MIN_VALUE) & (x <= MAX_VALUE))
    if raised.shape not in ((), gaps.shape):
        raise invalid("x", condition, x)
    return np.broadcast_to(raised, gaps.shape)


def sum_raised(x: FloatArray, gaps: FloatArray, own: FloatArray) -> FloatArray:
    """Σ_{j≠i} (x + Δ_j), the gaps of the problem in which arm i is raised."""
    return (len(gaps) - 1) * x + (float(gaps.sum()) - own)


def sum_inverse_raised(x: FloatArray, gaps: FloatArray, own: FloatArray) -> FloatArray:
    """S_i = Σ_{j≠i} 1/(x + Δ_j). The term 1/x of the best arm keeps the subtraction safe."""
    total: FloatArray = (1 / (x[..., np.newaxis] + gaps)).sum(axis=-1) - 1 / (x + own)
    return total


def _log_odds(c: Constraint, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """1 - P and log(1/Q_i) at the stages t, arms on the last axis."""
    log_t = np.log(t)
    tiny = np.finfo(np.float64).tiny  # C_0 = 0 at t = 1
    missing = (c.u[0] + c.u[1] * log_t) / (t * c.divisor)
    log_inverse_q = log_t + np.log(c.x) - np.log(np.maximum(c.v[0] + c.v[1] * log_t, tiny))
    return missing, log_inverse_q


def h_at(c: Constraint, t: FloatArray) -> FloatArray:
    """h_i(t), arms on the last axis of t (or broadcast along it)."""
    missing, log_inverse_q = _log_odds(c, t)
    if c.variant == "printed":
        literal: FloatArray = (1 - missing) * log_inverse_q - math.log(2)
        return literal
    if c.variant == "kl":
        value = kl_at(missing, log_inverse_q)
    else:
        value = np.maximum(1 - missing, 0) * np.maximum(log_inverse_q, 0) - math.log(2)
    return np.where(t >= FIRST_STAGE, np.maximum(value, 0), 0.0)


def kl_at(missing: FloatArray, log_inverse_q: FloatArray) -> FloatArray:
    """kl(P, Q) where P = 1 - missing > Q, else 0. Written for P near 1 and Q near 0."""
    q = np.exp(-np.maximum(log_inverse_q, 0))
    useful = (log_inverse_q > 0) & (missing < 1 - q)
    y = np.where(useful, missing, 0.0)
    q = np.where(useful, q, 0.5)
    value = (1 - y) * (np.log1p(-y) + log_inverse_q) + y * (
        np.log(np.where(y > 0, y, 1.0)) - np.log1p(-q)
    )
    return np.where(useful, np.maximum(value, 0), 0.0)


def slope_at(c: Constraint, t: FloatArray) -> FloatArray:
    """h_i'(t) where h_i > 0 ("clip" and "sharp"): P' log(1/Q) + P log(1/Q)'."""
    log_t = np.log(t)
    missing, log_inverse_q = _log_odds(c, t)
    growth = missing - c.u[1] / (t * c.divisor)
    slope: FloatArray = (
        growth * log_inverse_q + (1 - missing) * (1 - c.v[1] / (c.v[0] + c.v[1] * log_t))
    ) / t
    return slope


def needs_at(c: Constraint, t: FloatArray) -> FloatArray:
    return h_at(c, t[..., np.newaxis]) / c.information


def all_arms(c: Constraint, values: FloatArray) -> FloatArray:
    """Values of the sub-optimal arms put back among all arms, 0 for optimal ones."""
    full = np.zeros((*values.shape[:-1], len(c.suboptimal)))
    full[..., c.suboptimal] = values
    return full


def _check_stage(stage: ArrayLike, least: str) -> FloatArray:
    def holds(t: FloatArray) -> NDArray[np.bool_]:
        return np.isfinite(t) & (t > 1 if least == "> 1" else t >= 1)

    return check_array("stage", stage, f"finite and {least}", holds, min_size=0)


@documented
def observation_constraint(
    gaps: ArrayLike,
    stage: ArrayLike,
    *,
    x: ArrayLike | None = None,
    variant: str = "clip",
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
) -> FloatArray:
    """h_i(t): the divergence that the observations of arm i must amount to by stage t.

    Parameters
    ----------
    variant
        "clip" (what the paper's argument proves: P with Δ_min, clipped at 0; 0 before stage 3),
        "sharp" (the same argument about the pulls of arm i: Δ_i in place of Δ_min),
        "kl" (as "clip" without the step kl(P, Q) ≥ P log(1/Q) - log 2),
        "printed" (appendix A to the letter: no Δ_min, no clip; errata D1, D2, D3).

    Returns
    -------
    array
        Shape of `stage`, then one per arm. Optimal arms have 0.
    """
    check_choice("variant", variant, "clip", "sharp", "kl", "printed")
    t = _check_stage(stage, "≥ 1")
    c = make_constraint(check_gaps(gaps), C, C_0, variant, x)
    return all_arms(c, h_at(c, t[..., np.newaxis]))


@documented
def eta(
    gaps: ArrayLike,
    stage: ArrayLike,
    *,
    x: ArrayLike | None = None,
    variant: str = "clip",
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
) -> FloatArray:
    r"""η_i(t), the part of h_i that vanishes as 1/log t (appendix A).

    .. math:: h_i(t) = \log\frac{t x^2}{2 C \log t \sum_{j\ne i} x/(x+\Delta_j)} + \eta_i(t)

    where the left side is not clipped.

    Parameters
    ----------
    stage
        t > 1, whole or not, one or many.
    variant
        "clip", "sharp" or "printed", see `observation_constraint`.
    """
    check_choice("variant", variant, "clip", "sharp", "printed")
    t = _check_stage(stage, "> 1")[..., np.newaxis]
    c = make_constraint(check_gaps(gaps), C, C_0, variant, x)
    missing, log_inverse_q = _log_odds(c, t)
    return all_arms(c, -missing * log_inverse_q - np.log1p(c.v[0] / (c.v[1] * np.log(t))))


@documented
def required_observations(
    gaps: ArrayLike,
    stage: ArrayLike,
    *,
    x: ArrayLike | None = None,
    variant: str = "clip",
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
) -> FloatArray:
    """a_i(t) = 2 h_i(t) / (x + Δ_i)², a lower bound on E O_i(t): pulls and free observations.

    Optimal arms have 0.

    Parameters
    ----------
    variant
        See `observation_constraint`.
    """
    check_choice("variant", variant, "clip", "sharp", "kl", "printed")
    t = _check_stage(stage, "≥ 1")
    c = make_constraint(check_gaps(gaps), C, C_0, variant, x)
    return all_arms(c, needs_at(c, t))


def each_place(s: Setting) -> Iterator[tuple[tuple[int, ...], FloatArray | Schedule, float]]:
    """The places of the make_result, one by one, with their rate and horizon."""
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
        free = array(given, "rate")
    except ValueError:
        free = np.array(np.nan)
    if free.shape != t.shape or not ((free >= 0) & (free <= t * (1 + 1e-9))).all():
        raise ValueError(
            f"rate must give a number in [0, t] for each stage t, got {short_repr(given)}"
        )
    return free


def regret_of(
    c: Constraint, n_pulls: FloatArray, stages: FloatArray, shape: tuple[int, ...], details: bool
) -> Result:
    """The answer for pulls of sub-optimal arms, each attained at its own stage."""
    terms = all_arms(c, np.broadcast_to(c.gaps * n_pulls, (*shape, len(c.gaps))))
    at = np.broadcast_to(np.where(n_pulls > 0, stages, 0.0), (*shape, len(c.gaps)))
    return make_result(terms.sum(axis=-1), terms, all_arms(c, at), details)


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
