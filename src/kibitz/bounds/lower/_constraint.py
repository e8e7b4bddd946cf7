r"""The observation constraint: how often an algorithm must have observed each arm by stage t.

The constraint holds for every sub-logarithmic algorithm. The argument is explained in
`kibitz.bounds.lower`.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._validation import array, invalid, short_repr
from kibitz.bounds._bound import Result, document_parameters, make_result
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
FIRST_STAGE = 3.0  # as in the paper, because the constraint is non-decreasing from stage e on
CONCAVE_FROM = 8.0  # the first whole stage after e²
MAX_EXHAUSTIVE_STAGE = 20_000.0  # up to this horizon a search tries every stage


class Constraint(NamedTuple):
    """The coefficients of h_i(t). Arrays hold one number per sub-optimal arm."""

    suboptimal: NDArray[np.bool_]  # whether each arm is sub-optimal, for all arms
    gaps: FloatArray
    x: FloatArray
    u: tuple[float, float]  # U(t) = u[0] + u[1] log t
    divisor: FloatArray  # P = 1 - U(t) / (t divisor)
    v: tuple[FloatArray, FloatArray]  # Q_i = (v[0] + v[1] log t) / (t x)
    information: FloatArray  # the divergence (x + Δ_i)² / 2 of one observation of arm i
    variant: str


def make_constraint(
    gaps: FloatArray, C: float, C_0: float, variant: str = "clip", x: ArrayLike | None = None
) -> Constraint:
    """Return the coefficients of h_i(t) for a variant of `observation_constraint`."""
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
    condition = "from 1e-50 to 1e50, one number or one per arm"
    raised = check_array("x", x, condition, lambda x: (x >= MIN_VALUE) & (x <= MAX_VALUE))
    if raised.shape not in ((), gaps.shape):
        raise invalid("x", condition, x)
    return np.broadcast_to(raised, gaps.shape)


def sum_raised(x: FloatArray, gaps: FloatArray, own: FloatArray) -> FloatArray:
    """Return Σ_{j≠i} (x + Δ_j), the sum of the gaps after arm i is raised; `own` is Δ_i."""
    return (len(gaps) - 1) * x + (float(gaps.sum()) - own)


def sum_inverse_raised(x: FloatArray, gaps: FloatArray, own: FloatArray) -> FloatArray:
    """Return S_i = Σ_{j≠i} 1/(x + Δ_j), computed as the sum over all arms minus the term of arm i.

    No precision is lost, because the best arm's term 1/x stays in the sum and is larger than the term
    that is subtracted. `own` is Δ_i.
    """
    total: FloatArray = (1 / (x[..., np.newaxis] + gaps)).sum(axis=-1) - 1 / (x + own)
    return total


def _compute_missing_and_q(c: Constraint, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return 1 - P and log(1/Q_i) at the stages t, with arms on the last axis."""
    log_t = np.log(t)
    tiny = np.finfo(np.float64).tiny  # for C_0 = 0 and t = 1, where Q_i = 0
    missing = (c.u[0] + c.u[1] * log_t) / (t * c.divisor)
    log_inverse_q = log_t + np.log(c.x) - np.log(np.maximum(c.v[0] + c.v[1] * log_t, tiny))
    return missing, log_inverse_q


def compute_h(c: Constraint, t: FloatArray) -> FloatArray:
    """Return h_i(t). The last axis of `t` runs over the arms and can have length 1."""
    missing, log_inverse_q = _compute_missing_and_q(c, t)
    if c.variant == "printed":
        literal: FloatArray = (1 - missing) * log_inverse_q - math.log(2)
        return literal
    if c.variant == "kl":
        value = compute_kl(missing, log_inverse_q)
    else:
        value = np.maximum(1 - missing, 0) * np.maximum(log_inverse_q, 0) - math.log(2)
    return np.where(t >= FIRST_STAGE, np.maximum(value, 0), 0.0)


def compute_kl(missing: FloatArray, log_inverse_q: FloatArray) -> FloatArray:
    """Return kl(P, Q) where P > Q and 0 elsewhere, for P = 1 - missing and Q = exp(-log_inverse_q).

    The result is accurate for P near 1 and Q near 0.
    """
    q = np.exp(-np.maximum(log_inverse_q, 0))
    useful = (log_inverse_q > 0) & (missing < 1 - q)
    y = np.where(useful, missing, 0.0)
    q = np.where(useful, q, 0.5)
    value = (1 - y) * (np.log1p(-y) + log_inverse_q) + y * (
        np.log(np.where(y > 0, y, 1.0)) - np.log1p(-q)
    )
    return np.where(useful, np.maximum(value, 0), 0.0)


def compute_slope(c: Constraint, t: FloatArray) -> FloatArray:
    """Return the derivative h_i'(t) = P' log(1/Q) + P log(1/Q)'.

    The result is valid where h_i > 0, for the variants "clip" and "sharp".
    """
    log_t = np.log(t)
    missing, log_inverse_q = _compute_missing_and_q(c, t)
    growth = missing - c.u[1] / (t * c.divisor)
    slope: FloatArray = (
        growth * log_inverse_q + (1 - missing) * (1 - c.v[1] / (c.v[0] + c.v[1] * log_t))
    ) / t
    return slope


def compute_needs(c: Constraint, t: FloatArray) -> FloatArray:
    """Return the required observations a_i(t), with arms on a new last axis."""
    return compute_h(c, t[..., np.newaxis]) / c.information


def expand_arms(c: Constraint, values: FloatArray) -> FloatArray:
    """Extend values of the sub-optimal arms to all arms, with 0 for optimal arms."""
    full = np.zeros((*values.shape[:-1], len(c.suboptimal)))
    full[..., c.suboptimal] = values
    return full


def _check_stage(stage: ArrayLike, least: str) -> FloatArray:
    def holds(t: FloatArray) -> NDArray[np.bool_]:
        return np.isfinite(t) & (t > 1 if least == "> 1" else t >= 1)

    return check_array("stage", stage, f"finite and {least}", holds, min_size=0)


@document_parameters
def observation_constraint(
    gaps: ArrayLike,
    stage: ArrayLike,
    *,
    x: ArrayLike | None = None,
    variant: str = "clip",
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
) -> FloatArray:
    """Return h_i(t), the divergence that the observations of arm i must provide by stage t.

    The formula is in `kibitz.bounds.lower` (paper, appendix A).

    Parameters
    ----------
    variant
        "clip" is the constraint that the paper's argument proves: P contains Δ_min, h_i is clipped
        at 0, and h_i is 0 before stage 3. "sharp" applies the same argument to the pulls of arm i,
        with Δ_i in place of Δ_min. "kl" is "clip" without the step kl(P, Q) ≥ P log(1/Q) - log 2.
        "printed" is the formula of appendix A to the letter, without Δ_min and without clipping
        (errata D1, D2, D3).

    Returns
    -------
    array
        The array has the shape of `stage`, followed by an axis of arms. Optimal arms have 0.
    """
    check_choice("variant", variant, "clip", "sharp", "kl", "printed")
    t = _check_stage(stage, "≥ 1")
    c = make_constraint(check_gaps(gaps), C, C_0, variant, x)
    return expand_arms(c, compute_h(c, t[..., np.newaxis]))


@document_parameters
def eta(
    gaps: ArrayLike,
    stage: ArrayLike,
    *,
    x: ArrayLike | None = None,
    variant: str = "clip",
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
) -> FloatArray:
    r"""Return η_i(t), the part of h_i that vanishes as 1/log t (appendix A).

    .. math:: h_i(t) = \log\frac{t x^2}{2 C \log t \sum_{j\ne i} x/(x+\Delta_j)} + \eta_i(t)

    In this equation h_i is not clipped.

    Parameters
    ----------
    stage
        The stage t > 1, not necessarily whole; a number or an array.
    variant
        "clip", "sharp" or "printed", see `observation_constraint`.
    """
    check_choice("variant", variant, "clip", "sharp", "printed")
    t = _check_stage(stage, "> 1")[..., np.newaxis]
    c = make_constraint(check_gaps(gaps), C, C_0, variant, x)
    missing, log_inverse_q = _compute_missing_and_q(c, t)
    return expand_arms(c, -missing * log_inverse_q - np.log1p(c.v[0] / (c.v[1] * np.log(t))))


@document_parameters
def required_observations(
    gaps: ArrayLike,
    stage: ArrayLike,
    *,
    x: ArrayLike | None = None,
    variant: str = "clip",
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
) -> FloatArray:
    """Return a_i(t) = 2 h_i(t) / (x + Δ_i)², a lower bound on the expected observations E O_i(t).

    Observations are pulls and looks. The result is 0 for optimal arms.

    Parameters
    ----------
    variant
        "clip", "sharp", "kl" or "printed", see `observation_constraint`.
    """
    check_choice("variant", variant, "clip", "sharp", "kl", "printed")
    t = _check_stage(stage, "≥ 1")
    c = make_constraint(check_gaps(gaps), C, C_0, variant, x)
    return expand_arms(c, compute_needs(c, t))


def iterate_settings(s: Setting) -> Iterator[tuple[tuple[int, ...], FloatArray | Schedule, float]]:
    """Yield the index of each element of the result, with its rate and horizon."""
    horizon = np.broadcast_to(s.horizon, s.shape)
    for index in np.ndindex(s.shape):
        rate = s.rate if callable(s.rate) else np.asarray(np.broadcast_to(s.rate, s.shape)[index])
        yield index, rate, float(horizon[index])


def solve_each(
    s: Setting,
    c: Constraint,
    solve: Callable[[FloatArray | Schedule, float], tuple[FloatArray, float]],
    details: bool,
) -> Result:
    """Return the result of a bound that uses the same stage for all arms.

    `solve` takes a single rate and horizon, and returns the terms of the sub-optimal arms and the
    stage.
    """
    terms, stages = np.zeros((*s.shape, len(c.gaps))), np.zeros(s.shape)
    for index, rate, horizon in iterate_settings(s):
        terms[index], stages[index] = solve(rate, horizon)
    full = expand_arms(c, terms)
    return make_result(full.sum(axis=-1), full, stages, details)


def count_looks(rate: FloatArray | Schedule, t: FloatArray) -> FloatArray:
    """Return the expected number of looks up to the stages t."""
    if not callable(rate):
        return np.asarray(rate * t)
    values = rate(t)
    try:
        n_looks = array(values, "rate")
    except ValueError:
        n_looks = np.array(np.nan)
    if n_looks.shape != t.shape or not ((n_looks >= 0) & (n_looks <= t * (1 + 1e-9))).all():
        raise ValueError(
            f"rate must return a number in [0, t] for each stage t, got {short_repr(values)}"
        )
    return n_looks


def sum_regret(
    c: Constraint, n_pulls: FloatArray, stages: FloatArray, shape: tuple[int, ...], details: bool
) -> Result:
    """Return the result of a bound, given lower bounds on the pulls of the sub-optimal arms.

    `stages` holds the stage at which the pulls of each arm are attained.
    """
    terms = expand_arms(c, np.broadcast_to(c.gaps * n_pulls, (*shape, len(c.gaps))))
    at = np.broadcast_to(np.where(n_pulls > 0, stages, 0.0), (*shape, len(c.gaps)))
    return make_result(terms.sum(axis=-1), terms, expand_arms(c, at), details)


def make_log_stages(first: float, last: float, n: int) -> FloatArray:
    """Return at most n whole stages from first to last, about evenly spaced in their logarithm."""
    if last - first < n:
        return np.arange(first, last + 1)
    # in a narrow range of large stages, rounding would make the logarithms equal
    spaced = np.linspace(first, last, n) if last < 2 * first else np.geomspace(first, last, n)
    stages: FloatArray = np.unique(np.clip(np.rint(spaced), first, last))
    return stages


def find_best_stage(value: Callable[[FloatArray], FloatArray], horizon: float) -> float:
    """Return the stage from 3 to the horizon at which `value` is largest.

    Up to a horizon of 20000 the search tries every stage. For longer horizons the search uses a
    logarithmic grid and refines it around the three highest peaks. Every stage gives a valid bound.
    If the search misses the highest peak, the bound is therefore slightly weaker but not wrong.
    """
    if horizon <= MAX_EXHAUSTIVE_STAGE:
        stages = np.arange(FIRST_STAGE, horizon + 1)
        return float(stages[np.argmax(value(stages))])
    grid = make_log_stages(FIRST_STAGE, horizon, 2000)
    heights = np.concatenate(([-np.inf], value(grid), [-np.inf]))
    peaks = np.flatnonzero((heights[1:-1] >= heights[:-2]) & (heights[1:-1] >= heights[2:]))
    highest = peaks[np.argsort(-heights[1:-1][peaks], kind="stable")][:3]
    stages = np.array([_zoom(value, grid, int(peak)) for peak in highest])
    return float(stages[np.argmax(value(stages))])


def _zoom(value: Callable[[FloatArray], FloatArray], grid: FloatArray, peak: int) -> float:
    """Return the best stage between the two grid stages next to a peak."""
    while True:
        first, last = grid[max(peak - 1, 0)], grid[min(peak + 1, len(grid) - 1)]
        grid = make_log_stages(first, last, 64)
        peak = int(np.argmax(value(grid)))
        if last - first < 64:
            return float(grid[peak])


def find_best_stages(c: Constraint, q: FloatArray, horizon: FloatArray) -> FloatArray:
    r"""Return for each arm the stage from 3 to the horizon at which a_i(t) - q_i t is largest.

    `q` holds the rates of looks q_i. The result is exact. Where h_i > 0 and t ≥ e², h_i is concave,
    and bisection on the sign of the slope finds the maximum. To show that h_i is concave, let
    r = 1 - P, L = log(1/Q), s = 1/(log t + v_0/v_1) ≤ 1/2 and b = u_1/(t Δ) ≤ r/2, where u, v and Δ
    are the fields u, v and divisor of `Constraint`. Then

    .. math:: t^2 h'' = (3b - 2r) L + 2 (r - b)(1 - s) - (1 - r)(1 - s - s^2) .

    The right side is linear in b. At b = 0 it equals 2r(1-s-L) - (1-r)(1-s-s²), and at b = r/2 it
    equals r(1-s-L/2) - (1-r)(1-s-s²). If h > 0, that is (1-r)L > log 2, both values are negative for
    all 0 ≤ r < 1 and 0 < s ≤ 1/2 (a test checks this on a grid). The five stages from 3 to e² are
    tried one by one.
    """
    last = np.broadcast_to(horizon, np.broadcast_shapes(q.shape, horizon.shape)).copy()
    low = np.minimum(last, CONCAVE_FROM)
    high = last.copy()
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        rising = (compute_h(c, middle) == 0) | (compute_slope(c, middle) > q * c.information)
        low = np.where(rising, middle, low)
        high = np.where(rising, high, middle)
    early = [np.minimum(last, t) for t in np.arange(FIRST_STAGE, CONCAVE_FROM)]
    candidates = np.stack([*early, low, high])
    best = np.argmax(compute_h(c, candidates) / c.information - q * candidates, axis=0)
    stages: FloatArray = np.take_along_axis(candidates, best[np.newaxis], axis=0)[0]
    return stages


def find_best_stages_scheduled(
    rate: Schedule, c: Constraint, weight: FloatArray, horizon: FloatArray
) -> FloatArray:
    """Return for each arm the stage at which a_i(t) minus the expected looks is largest.

    This function is `find_best_stages` for a schedule; it uses the search of `find_best_stage`.
    """
    t = np.empty((*horizon.shape, len(weight)))
    for index in np.ndindex(t.shape):
        arm = index[-1]
        last = max(float(horizon[index[:-1]]), FIRST_STAGE)

        def pulls(stage: FloatArray, arm: int = arm) -> FloatArray:
            n: FloatArray = compute_needs(c, stage)[:, arm] - weight[arm] * count_looks(rate, stage)
            return n

        t[index] = min(find_best_stage(pulls, last), float(horizon[index[:-1]]))
    return t
