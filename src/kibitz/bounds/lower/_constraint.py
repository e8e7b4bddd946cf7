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
    """The coefficients of h_i(t) (`observation_constraint`), one number per sub-optimal arm."""

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
    """Return the coefficients of h_i(t); `variant` is described in `observation_constraint`."""
    C, C_0 = check_scale("C", C), check_nonnegative("C_0", C_0)
    suboptimal = gaps > 0
    suboptimal_gaps = gaps[suboptimal]
    heights = suboptimal_gaps if x is None else _check_raise(x, gaps)[suboptimal]
    u = (C_0 * float(gaps.sum()), C * float((1 / suboptimal_gaps).sum()))
    v = (
        np.full_like(heights, u[0])
        if variant == "printed"
        else C_0 * sum_raised(heights, gaps, suboptimal_gaps),
        C * sum_inverse_raised(heights, gaps, suboptimal_gaps),
    )
    if variant == "printed":
        divisor = np.ones_like(suboptimal_gaps)
    elif variant == "sharp":
        divisor = suboptimal_gaps
    else:
        divisor = np.full_like(suboptimal_gaps, suboptimal_gaps.min(initial=math.inf))
    return Constraint(
        suboptimal,
        suboptimal_gaps,
        heights,
        u,
        divisor,
        v,
        (heights + suboptimal_gaps) ** 2 / 2,
        variant,
    )


def _check_raise(x: ArrayLike, gaps: FloatArray) -> FloatArray:
    condition = "one number or one number per arm, from 1e-50 to 1e50"
    heights = check_array("x", x, condition, lambda x: (x >= MIN_VALUE) & (x <= MAX_VALUE))
    if heights.shape not in ((), gaps.shape):
        raise invalid("x", condition, x)
    return np.broadcast_to(heights, gaps.shape)


def sum_raised(x: FloatArray, gaps: FloatArray, own_gaps: FloatArray) -> FloatArray:
    """Return Σ_{j≠i} (x + Δ_j), the sum of the gaps after raising arm i to x above the best arm.

    `own_gaps` holds Δ_i.
    """
    return (len(gaps) - 1) * x + (float(gaps.sum()) - own_gaps)


def sum_inverse_raised(x: FloatArray, gaps: FloatArray, own_gaps: FloatArray) -> FloatArray:
    """Return S_i = Σ_{j≠i} 1/(x + Δ_j), computed as the sum over all arms minus the term of arm i.

    No precision is lost, because the best arm's term 1/x stays in the sum and is larger than the term
    that is subtracted. `own_gaps` holds Δ_i.
    """
    total: FloatArray = (1 / (x[..., np.newaxis] + gaps)).sum(axis=-1) - 1 / (x + own_gaps)
    return total


def _compute_p_and_q(constraint: Constraint, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return 1 - P and log(1/Q_i) at the stages t, with arms on the last axis.

    `kibitz.bounds.lower` defines P and Q_i.
    """
    log_t = np.log(t)
    smallest_float = np.finfo(np.float64).tiny  # for C_0 = 0 and t = 1, where Q_i = 0
    one_minus_p = (constraint.u[0] + constraint.u[1] * log_t) / (t * constraint.divisor)
    log_inverse_q = (
        log_t
        + np.log(constraint.x)
        - np.log(np.maximum(constraint.v[0] + constraint.v[1] * log_t, smallest_float))
    )
    return one_minus_p, log_inverse_q


def compute_h(constraint: Constraint, t: FloatArray) -> FloatArray:
    """Return h_i(t) of `observation_constraint` for the sub-optimal arms, on the last axis.

    The last axis of `t` runs over these arms or has length 1.
    """
    one_minus_p, log_inverse_q = _compute_p_and_q(constraint, t)
    if constraint.variant == "printed":
        printed_h: FloatArray = (1 - one_minus_p) * log_inverse_q - math.log(2)
        return printed_h
    if constraint.variant == "kl":
        h = compute_kl(one_minus_p, log_inverse_q)
    else:
        h = np.maximum(1 - one_minus_p, 0) * np.maximum(log_inverse_q, 0) - math.log(2)
    return np.where(t >= FIRST_STAGE, np.maximum(h, 0), 0.0)


def compute_kl(one_minus_p: FloatArray, log_inverse_q: FloatArray) -> FloatArray:
    """Return the Bernoulli divergence kl(P, Q) where P > Q, and 0 elsewhere.

    P is 1 - one_minus_p and Q is exp(-log_inverse_q).

    The result is accurate for P near 1 and Q near 0.
    """
    q = np.exp(-np.maximum(log_inverse_q, 0))
    is_useful = (log_inverse_q > 0) & (one_minus_p < 1 - q)
    y = np.where(is_useful, one_minus_p, 0.0)
    q = np.where(is_useful, q, 0.5)
    value = (1 - y) * (np.log1p(-y) + log_inverse_q) + y * (
        np.log(np.where(y > 0, y, 1.0)) - np.log1p(-q)
    )
    return np.where(is_useful, np.maximum(value, 0), 0.0)


def compute_slope(constraint: Constraint, t: FloatArray) -> FloatArray:
    """Return the derivative h_i'(t) = P' log(1/Q) + P log(1/Q)'.

    The result is valid where h_i > 0, for the variants "clip" and "sharp".
    """
    log_t = np.log(t)
    one_minus_p, log_inverse_q = _compute_p_and_q(constraint, t)
    p_slope = one_minus_p - constraint.u[1] / (t * constraint.divisor)
    slope: FloatArray = (
        p_slope * log_inverse_q
        + (1 - one_minus_p) * (1 - constraint.v[1] / (constraint.v[0] + constraint.v[1] * log_t))
    ) / t
    return slope


def compute_needs(constraint: Constraint, t: FloatArray) -> FloatArray:
    """Return the required observations a_i(t) of the sub-optimal arms, on a new last axis."""
    return compute_h(constraint, t[..., np.newaxis]) / constraint.information


def expand_arms(constraint: Constraint, values: FloatArray) -> FloatArray:
    """Extend values of the sub-optimal arms to all arms, with 0 for optimal arms."""
    all_values = np.zeros((*values.shape[:-1], len(constraint.suboptimal)))
    all_values[..., constraint.suboptimal] = values
    return all_values


def _check_stage(stage: ArrayLike, limit: str) -> FloatArray:
    def is_valid(t: FloatArray) -> NDArray[np.bool_]:
        return np.isfinite(t) & (t > 1 if limit == "> 1" else t >= 1)

    return check_array("stage", stage, f"finite and {limit}", is_valid, min_size=0)


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
    constraint = make_constraint(check_gaps(gaps), C, C_0, variant, x)
    return expand_arms(constraint, compute_h(constraint, t[..., np.newaxis]))


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
    r"""Return η_i(t), the part of h_i that vanishes like 1/log t (appendix A).

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
    constraint = make_constraint(check_gaps(gaps), C, C_0, variant, x)
    one_minus_p, log_inverse_q = _compute_p_and_q(constraint, t)
    return expand_arms(
        constraint,
        -one_minus_p * log_inverse_q - np.log1p(constraint.v[0] / (constraint.v[1] * np.log(t))),
    )


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
    constraint = make_constraint(check_gaps(gaps), C, C_0, variant, x)
    return expand_arms(constraint, compute_needs(constraint, t))


def iterate_settings(
    setting: Setting,
) -> Iterator[tuple[tuple[int, ...], FloatArray | Schedule, float]]:
    """Yield the index of each element of the result, with its rate and horizon."""
    horizon = np.broadcast_to(setting.horizon, setting.shape)
    for index in np.ndindex(setting.shape):
        rate = (
            setting.rate
            if callable(setting.rate)
            else np.asarray(np.broadcast_to(setting.rate, setting.shape)[index])
        )
        yield index, rate, float(horizon[index])


def solve_each(
    setting: Setting,
    constraint: Constraint,
    solve: Callable[[FloatArray | Schedule, float], tuple[FloatArray, float]],
    details: bool,
) -> Result:
    """Return the result of a bound that uses the same stage for all arms.

    `solve` takes a single rate and horizon, and returns the terms of the sub-optimal arms and the
    stage.
    """
    terms, stages = np.zeros((*setting.shape, len(constraint.gaps))), np.zeros(setting.shape)
    for index, rate, horizon in iterate_settings(setting):
        terms[index], stages[index] = solve(rate, horizon)
    all_terms = expand_arms(constraint, terms)
    return make_result(all_terms.sum(axis=-1), all_terms, stages, details)


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
    constraint: Constraint,
    n_pulls: FloatArray,
    stages: FloatArray,
    shape: tuple[int, ...],
    details: bool,
) -> Result:
    """Return the result of a bound from lower bounds `n_pulls` on the pulls of the sub-optimal arms.

    `stages` holds the stage at which the lower bound of each arm is attained.
    """
    terms = expand_arms(
        constraint, np.broadcast_to(constraint.gaps * n_pulls, (*shape, len(constraint.gaps)))
    )
    attained_stages = np.broadcast_to(
        np.where(n_pulls > 0, stages, 0.0), (*shape, len(constraint.gaps))
    )
    return make_result(terms.sum(axis=-1), terms, expand_arms(constraint, attained_stages), details)


def make_log_stages(first_stage: float, last_stage: float, n: int) -> FloatArray:
    """Return at most n whole stages, about evenly spaced in their logarithm.

    The stages run from `first_stage` to `last_stage`.
    """
    if last_stage - first_stage < n:
        return np.arange(first_stage, last_stage + 1)
    # in a narrow range of large stages, rounding would make the logarithms equal
    unrounded_stages = (
        np.linspace(first_stage, last_stage, n)
        if last_stage < 2 * first_stage
        else np.geomspace(first_stage, last_stage, n)
    )
    stages: FloatArray = np.unique(np.clip(np.rint(unrounded_stages), first_stage, last_stage))
    return stages


def find_best_stage(objective: Callable[[FloatArray], FloatArray], horizon: float) -> float:
    """Return the stage from 3 to the horizon at which `objective` is largest.

    Up to a horizon of 20000 the search tries every stage. For longer horizons the search uses a
    logarithmic grid and refines it around the three highest peaks. Every stage gives a valid bound.
    If the search misses the highest peak, the bound is therefore slightly weaker but not wrong.
    """
    if horizon <= MAX_EXHAUSTIVE_STAGE:
        stages = np.arange(FIRST_STAGE, horizon + 1)
        return float(stages[np.argmax(objective(stages))])
    grid = make_log_stages(FIRST_STAGE, horizon, 2000)
    heights = np.concatenate(([-np.inf], objective(grid), [-np.inf]))
    peaks = np.flatnonzero((heights[1:-1] >= heights[:-2]) & (heights[1:-1] >= heights[2:]))
    highest_peaks = peaks[np.argsort(-heights[1:-1][peaks], kind="stable")][:3]
    stages = np.array([_zoom(objective, grid, int(peak)) for peak in highest_peaks])
    return float(stages[np.argmax(objective(stages))])


def _zoom(objective: Callable[[FloatArray], FloatArray], grid: FloatArray, peak_index: int) -> float:
    """Return the best stage between the two grid stages next to a peak."""
    while True:
        first_stage, last_stage = (
            grid[max(peak_index - 1, 0)],
            grid[min(peak_index + 1, len(grid) - 1)],
        )
        grid = make_log_stages(first_stage, last_stage, 64)
        peak_index = int(np.argmax(objective(grid)))
        if last_stage - first_stage < 64:
            return float(grid[peak_index])


def find_best_stages(
    constraint: Constraint, look_rates: FloatArray, horizon: FloatArray
) -> FloatArray:
    r"""Return for each arm the stage from 3 to the horizon at which a_i(t) - q_i t is largest.

    `look_rates` holds the rates of looks q_i. The result is exact. Where h_i > 0 and t ≥ e², h_i is
    concave, and bisection on the sign of the slope finds the maximum. To show that h_i is concave,
    let r = 1 - P, L = log(1/Q), s = 1/(log t + v_0/v_1) ≤ 1/2 and b = u_1/(t Δ) ≤ r/2, where u, v
    and Δ are the fields u, v and divisor of `Constraint`. Then

    .. math:: t^2 h'' = (3b - 2r) L + 2 (r - b)(1 - s) - (1 - r)(1 - s - s^2) .

    The right side is linear in b. At b = 0 it equals 2r(1-s-L) - (1-r)(1-s-s²), and at b = r/2 it
    equals r(1-s-L/2) - (1-r)(1-s-s²). If h > 0, that is (1-r)L > log 2, both values are negative for
    all 0 ≤ r < 1 and 0 < s ≤ 1/2 (a test checks this on a grid). The five stages from 3 to e² are
    tried one by one.
    """
    horizons = np.broadcast_to(horizon, np.broadcast_shapes(look_rates.shape, horizon.shape)).copy()
    low = np.minimum(horizons, CONCAVE_FROM)
    high = horizons.copy()
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        is_rising = (compute_h(constraint, middle) == 0) | (
            compute_slope(constraint, middle) > look_rates * constraint.information
        )
        low = np.where(is_rising, middle, low)
        high = np.where(is_rising, high, middle)
    early_stages = [np.minimum(horizons, t) for t in np.arange(FIRST_STAGE, CONCAVE_FROM)]
    candidates = np.stack([*early_stages, low, high])
    best_index = np.argmax(
        compute_h(constraint, candidates) / constraint.information - look_rates * candidates, axis=0
    )
    stages: FloatArray = np.take_along_axis(candidates, best_index[np.newaxis], axis=0)[0]
    return stages


def find_best_stages_scheduled(
    rate: Schedule, constraint: Constraint, arm_weights: FloatArray, horizon: FloatArray
) -> FloatArray:
    """Return for each arm the stage at which a_i(t) minus the expected looks is largest.

    This function does for a schedule what `find_best_stages` does for a constant rate. It uses the
    search of `find_best_stage`.
    """
    best_stages = np.empty((*horizon.shape, len(arm_weights)))
    for index in np.ndindex(best_stages.shape):
        arm = index[-1]
        horizon_value = max(float(horizon[index[:-1]]), FIRST_STAGE)

        def count_pulls(stage: FloatArray, arm: int = arm) -> FloatArray:
            n: FloatArray = compute_needs(constraint, stage)[:, arm] - arm_weights[arm] * count_looks(
                rate, stage
            )
            return n

        best_stages[index] = min(
            find_best_stage(count_pulls, horizon_value), float(horizon[index[:-1]])
        )
    return best_stages
