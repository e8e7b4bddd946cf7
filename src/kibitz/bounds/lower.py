r"""Lower bounds: what no good algorithm can avoid, however it uses its free observations.

An algorithm is *sub-logarithmic* with constants C, C_0 (Definition 1 of the paper) if on every
problem and at every stage T

.. math:: E R_T \le U(T) = C \sum_{\Delta_i>0} \frac{\log T}{\Delta_i} + C_0 \sum_i \Delta_i .

To be that good on the problem at hand *and* on the one in which arm i is raised to x above the
best, it must tell the two apart, hence observe arm i often enough:

.. math:: E O_i(t) \ge a_i(t) = \frac{2 h_i(t)}{(x + \Delta_i)^2}, \qquad
          h_i = \max\{0, P_+ \log_+(1/Q_i) - \log 2\},

.. math:: P = 1 - \frac{U(t)}{t \Delta_{min}}, \qquad
          Q_i = \frac{C_0 \sum_{j \ne i}(x + \Delta_j) + C \log t \sum_{j \ne i} 1/(x + \Delta_j)}
                {t x} .

What is not observed for free must be pulled; pulls never decrease, so every stage t ≤ T gives a
bound on the regret at T. All bounds here are for Gaussian arms of variance 1 with x = Δ_i unless
they say otherwise, and hold for every sub-logarithmic algorithm. For standard deviation s divide
gaps by s and C by s², and multiply the regret by s (`passive_sharp` takes `sd` itself).

The printed formulas differ (docs/errata.md, D1–D3, D9–D12): `form="printed"` gives them to the
letter, for comparison only.

`rate` is ε, one or many; where a function accepts a schedule it may also be a function that
gives for an array of stages t the expected number of free observations Σ_{s ≤ t} ε_s.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.bounds.bound import (
    Bound,
    FloatArray,
    answer,
    check_choice,
    check_gaps,
    check_horizon,
    check_nonnegative,
    check_positive,
    check_rate,
    check_weights,
)

Schedule: TypeAlias = Callable[[FloatArray], FloatArray]
Answer: TypeAlias = float | FloatArray | Bound

C_UCB1 = 8.0
C_0_UCB1 = 1 + math.pi**2 / 3
FIRST_STAGE = 3.0  # the paper's: from stage e on the constraint can only grow
CONCAVE_FROM = 8.0  # the first whole stage after e²
ALL_STAGES = 20_000.0  # up to here every stage is looked at, above it a grid and its best cells


# The constraint ------------------------------------------------------------------------------


class Constraint(NamedTuple):
    """The numbers in h_i(t), one per sub-optimal arm; what they mean is in `_constraint`."""

    suboptimal: NDArray[np.bool_]  # which of all arms
    gaps: FloatArray
    x: FloatArray
    u: tuple[float, float]  # U(t) = u[0] + u[1] log t
    divisor: FloatArray  # P = 1 - U(t) / (t divisor)
    v: tuple[FloatArray, FloatArray]  # Q_i = (v[0] + v[1] log t) / (t x)
    information: FloatArray  # of one observation of arm i, (x + Δ_i)² / 2
    variant: str


def _constraint(
    gaps: FloatArray,
    C: float,
    C_0: float,
    variant: str = "clip",
    x: ArrayLike | None = None,
) -> Constraint:
    check_positive("C", C)
    check_nonnegative("C_0", C_0)
    suboptimal = gaps > 0
    positive = gaps[suboptimal]
    raised = positive if x is None else _check_raise(x, gaps)[suboptimal]
    u = (C_0 * float(gaps.sum()), C * float((1 / positive).sum()))
    v = (
        np.full_like(raised, u[0]) if variant == "printed" else C_0 * _far(raised, gaps, positive),
        C * _near(raised, gaps, positive),
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
    array = np.asarray(x, dtype=np.float64)
    if array.shape not in ((), gaps.shape) or not ((array > 0) & np.isfinite(array)).all():
        raise ValueError(f"x must be positive and finite, one or one per arm, got {x!r}")
    return np.broadcast_to(array, gaps.shape)


def _far(x: FloatArray, gaps: FloatArray, own: FloatArray) -> FloatArray:
    """Σ_{j≠i} (x + Δ_j), the gaps of the problem in which arm i is raised."""
    return (len(gaps) - 1) * x + (float(gaps.sum()) - own)


def _near(x: FloatArray, gaps: FloatArray, own: FloatArray) -> FloatArray:
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


def _h(c: Constraint, t: FloatArray) -> FloatArray:
    """h_i(t), arms on the last axis of t (or broadcast along it)."""
    missing, log_inverse_q = _log_odds(c, t)
    if c.variant == "printed":
        literal: FloatArray = (1 - missing) * log_inverse_q - math.log(2)
        return literal
    if c.variant == "kl":
        value = _kl(missing, log_inverse_q)
    else:
        value = np.maximum(1 - missing, 0) * np.maximum(log_inverse_q, 0) - math.log(2)
    return np.where(t >= FIRST_STAGE, np.maximum(value, 0), 0.0)


def _kl(missing: FloatArray, log_inverse_q: FloatArray) -> FloatArray:
    """kl(P, Q) where P = 1 - missing > Q, else 0. Written for P near 1 and Q near 0."""
    q = np.exp(-np.maximum(log_inverse_q, 0))
    useful = (log_inverse_q > 0) & (missing < 1 - q)
    y = np.where(useful, missing, 0.0)
    q = np.where(useful, q, 0.5)
    value = (1 - y) * (np.log1p(-y) + log_inverse_q) + y * (
        np.log(np.where(y > 0, y, 1.0)) - np.log1p(-q)
    )
    return np.where(useful, np.maximum(value, 0), 0.0)


def _slope(c: Constraint, t: FloatArray) -> FloatArray:
    """h_i'(t) where h_i > 0 ("clip" and "sharp"): P' log(1/Q) + P log(1/Q)'."""
    log_t = np.log(t)
    missing, log_inverse_q = _log_odds(c, t)
    growth = missing - c.u[1] / (t * c.divisor)
    slope: FloatArray = (
        growth * log_inverse_q + (1 - missing) * (1 - c.v[1] / (c.v[0] + c.v[1] * log_t))
    ) / t
    return slope


def _all_arms(c: Constraint, values: FloatArray) -> FloatArray:
    """Values of the sub-optimal arms put back among all arms, 0 for optimal ones."""
    full = np.zeros((*values.shape[:-1], len(c.suboptimal)))
    full[..., c.suboptimal] = values
    return full


def _check_stage(stage: ArrayLike, least: str) -> FloatArray:
    array = np.asarray(stage, dtype=np.float64)
    ok = array > 1 if least == "> 1" else array >= 1
    if not (ok & np.isfinite(array)).all():
        raise ValueError(f"stage must be finite and {least}, got {stage!r}")
    return array


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
    gaps
        One per arm, 0 for optimal arms, in any order.
    stage
        t ≥ 1, whole or not, one or many.
    x
        How far arm i is raised above the best arm; one, or one per arm; Δ_i if not given.
    variant
        "clip" (what the paper's argument proves: P with Δ_min, clipped at 0; 0 before stage 3),
        "sharp" (the same argument about the pulls of arm i: Δ_i in place of Δ_min),
        "kl" (as "clip" without the step kl(P, Q) ≥ P log(1/Q) - log 2),
        "printed" (appendix A to the letter: no Δ_min, no clip; errata D1, D2, D3).
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.

    Returns
    -------
    array
        Shape of `stage`, then one per arm. Optimal arms have 0.
    """
    check_choice("variant", variant, "clip", "sharp", "kl", "printed")
    t = _check_stage(stage, "≥ 1")
    c = _constraint(check_gaps(gaps), C, C_0, variant, x)
    return _all_arms(c, _h(c, t[..., np.newaxis]))


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

    where the left side is not clipped. Parameters as for `observation_constraint`, with t > 1
    and variant "clip", "sharp" or "printed".
    """
    check_choice("variant", variant, "clip", "sharp", "printed")
    t = _check_stage(stage, "> 1")[..., np.newaxis]
    c = _constraint(check_gaps(gaps), C, C_0, variant, x)
    missing, log_inverse_q = _log_odds(c, t)
    return _all_arms(c, -missing * log_inverse_q - np.log1p(c.v[0] / (c.v[1] * np.log(t))))


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

    Parameters as for `observation_constraint`. Optimal arms have 0.
    """
    check_choice("variant", variant, "clip", "sharp", "kl", "printed")
    t = _check_stage(stage, "≥ 1")
    c = _constraint(check_gaps(gaps), C, C_0, variant, x)
    return _all_arms(c, _needs(c, t))


def _needs(c: Constraint, t: FloatArray) -> FloatArray:
    return _h(c, t[..., np.newaxis]) / c.information


# Where a maximum over stages is attained -----------------------------------------------------


def _log_stages(first: float, last: float, n: int) -> FloatArray:
    """At most n whole stages from first to last, about evenly spaced in their logarithm."""
    if last - first < n:
        return np.arange(first, last + 1)
    stages: FloatArray = np.unique(np.rint(np.geomspace(first, last, n)))
    return np.clip(stages, first, last)


def _best_stage(value: Callable[[FloatArray], FloatArray], horizon: float) -> float:
    """The stage from 3 to the horizon at which `value` is largest.

    Every stage up to 20000 is looked at. Beyond, a logarithmic grid and then the cells around
    its three highest peaks, down to single stages. Any stage proves a bound: a peak missed
    between two stages of the grid would cost a little, never the truth.
    """
    if horizon <= ALL_STAGES:
        stages = np.arange(FIRST_STAGE, horizon + 1)
        return float(stages[np.argmax(value(stages))])
    grid = _log_stages(FIRST_STAGE, horizon, 2000)
    heights = np.concatenate(([-np.inf], value(grid), [-np.inf]))
    peaks = np.flatnonzero((heights[1:-1] >= heights[:-2]) & (heights[1:-1] >= heights[2:]))
    highest = peaks[np.argsort(-heights[1:-1][peaks], kind="stable")][:3]
    found = np.array([_zoom(value, grid, int(peak)) for peak in highest])
    return float(found[np.argmax(value(found))])


def _zoom(value: Callable[[FloatArray], FloatArray], grid: FloatArray, peak: int) -> float:
    while True:
        first, last = grid[max(peak - 1, 0)], grid[min(peak + 1, len(grid) - 1)]
        grid = _log_stages(first, last, 64)
        peak = int(np.argmax(value(grid)))
        if last - first < 64:
            return float(grid[peak])


def _best_stages(c: Constraint, q: FloatArray, horizon: FloatArray) -> FloatArray:
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
        rising = (_h(c, middle) == 0) | (_slope(c, middle) > q * c.information)
        low = np.where(rising, middle, low)
        high = np.where(rising, high, middle)
    early = [np.minimum(last, t) for t in np.arange(FIRST_STAGE, CONCAVE_FROM)]
    candidates = np.stack([*early, low, high])
    best = np.argmax(_h(c, candidates) / c.information - q * candidates, axis=0)
    stages: FloatArray = np.take_along_axis(candidates, best[np.newaxis], axis=0)[0]
    return stages


def _free(rate: FloatArray | Schedule, t: FloatArray) -> FloatArray:
    """The expected number of free observations up to the stages t."""
    free = np.asarray(rate(t) if callable(rate) else rate * t, dtype=np.float64)
    if callable(rate) and (
        free.shape != t.shape or not ((free >= 0) & (free <= t * (1 + 1e-9))).all()
    ):
        raise ValueError(f"rate must give a number in [0, t] for each stage t, got {free!r}")
    return free


def schedule(rates: ArrayLike) -> Schedule:
    """The schedule of the rates ε_1, …, ε_n, to be used as `rate`; after n, ε_t = ε_n.

    Parameters
    ----------
    rates
        In [0, 1], one per stage from stage 1 on, at least one.
    """
    array = check_rate(rates)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"rates must be a list of at least one rate, got {rates!r}")
    cumulative = np.concatenate(([0.0], np.cumsum(array)))

    def free(t: FloatArray) -> FloatArray:
        inside = np.minimum(t, len(array)).astype(np.int64)
        return np.asarray(cumulative[inside] + array[-1] * (t - inside))

    return free


# Passive observer ----------------------------------------------------------------------------


class Setting(NamedTuple):
    """What a bound is asked for, checked: one or many rates and horizons, to be broadcast."""

    gaps: FloatArray
    rate: FloatArray | Schedule
    horizon: FloatArray
    weights: FloatArray
    shape: tuple[int, ...]


def _setting(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    weights: ArrayLike | None = None,
) -> Setting:
    delta, last = check_gaps(gaps), check_horizon(horizon)
    p = check_weights(weights, len(delta))
    if callable(rate):
        return Setting(delta, rate, last, p, last.shape)
    eps = check_rate(rate)
    return Setting(delta, eps, last, p, np.broadcast_shapes(eps.shape, last.shape))


def _each(s: Setting) -> Iterator[tuple[tuple[int, ...], FloatArray | Schedule, float]]:
    """The places of the answer, one by one, with their rate and horizon."""
    horizon = np.broadcast_to(s.horizon, s.shape)
    for place in np.ndindex(s.shape):
        rate = s.rate if callable(s.rate) else np.broadcast_to(s.rate, s.shape)[place]
        yield place, rate if callable(rate) else np.asarray(rate), float(horizon[place])


def _regret(
    c: Constraint, n_pulls: FloatArray, stages: FloatArray, shape: tuple[int, ...], details: bool
) -> Answer:
    """The answer for pulls of sub-optimal arms, each attained at its own stage."""
    terms = _all_arms(c, np.broadcast_to(c.gaps * n_pulls, (*shape, len(c.gaps))))
    at = np.broadcast_to(np.where(n_pulls > 0, stages, 0.0), (*shape, len(c.gaps)))
    return answer(terms.sum(axis=-1), terms, _all_arms(c, at), details)


def passive_fixed_stage(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""Lemma `LB_passive_simple`: the constraint at the horizon alone.

    .. math:: E R_T \ge \sum_i \max\{0, \frac{h_i(T)}{2\Delta_i} - \epsilon p_i T \Delta_i\}

    It falls back to 0 for large T. Forms: "proved", "printed" (with the printed h_i).

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order.
    rate
        ε in [0, 1], one or many, or a schedule.
    horizon
        T, whole numbers from 1 on, one or many.
    weights
        p, one per arm, of sum at most 1; uniform over all arms if not given.
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.
    form, details
        See `kibitz.bounds`.
    """
    check_choice("form", form, "proved", "printed")
    s = _setting(gaps, rate, horizon, weights)
    c = _constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    free = _free(s.rate, s.horizon)[..., np.newaxis] * s.weights[c.suboptimal]
    n_pulls = np.maximum(_needs(c, s.horizon) - free, 0)
    return _regret(c, n_pulls, s.horizon[..., np.newaxis], s.shape, details)


def passive_theorem(
    gaps: ArrayLike,
    rate: ArrayLike,
    horizon: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    text: str = "main",
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""Theorem `LB_passive`: the constraint of arm i at stage t*_i = 1/(2 ε p_i Δ_i²) or T.

    .. math:: E R_T \ge \sum_i \frac{(h_i(t) - 2 \epsilon p_i \Delta_i^2 t)_+}{2 \Delta_i},
              \qquad t = \min(T, \lceil t^*_i \rceil)

    so that about h_i(t*_i) - 1 remains for T ≥ t*_i. Stages are whole numbers: the printed
    theorem takes t*_i as it is, which is more than is proved by at most Δ_i ε p_i (errata D43).

    Forms: "proved"; "printed" (literal h_i, no clip; an arm with t*_i ≤ 1, for which the printed
    formula is undefined, counts 0); "leading" (only log(t Δ_i/(2 C S_i)), clipped: no bound).

    Parameters
    ----------
    text
        "main", or "appendix" with t*_i = 1/(4 ε p_i Δ_i²) and -1/2 in place of -1. Both are
        valid (errata D8); "main" is the better one for large t*_i.

    The others as for `passive_fixed_stage`.
    """
    check_choice("form", form, "proved", "printed", "leading")
    check_choice("text", text, "main", "appendix")
    s = _setting(gaps, rate, horizon, weights)
    c = _constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    q = check_rate(rate)[..., np.newaxis] * s.weights[c.suboptimal]
    factor = 2.0 if text == "main" else 4.0
    return _single_stage(c, q, s.horizon[..., np.newaxis], factor, form, s.shape, details)


def _single_stage(
    c: Constraint,
    q: FloatArray,
    horizon: FloatArray,
    factor: float,
    form: str,
    shape: tuple[int, ...],
    details: bool,
) -> Answer:
    """The passive constraints with q_i = ε p_i at stage min(T, 1/(factor q_i Δ_i²))."""
    turn = 1 / np.maximum(factor * q * c.gaps**2, 1e-300)  # q = 0: after every horizon
    if form == "proved":
        t = np.minimum(horizon, np.maximum(np.ceil(turn), FIRST_STAGE))
        n_pulls = np.maximum(_h(c, t) / c.information - q * t, 0)
    elif form == "printed":
        t = np.minimum(horizon, np.where(turn > 1, turn, 2.0))
        n_pulls = np.where(turn > 1, _h(c, t) / c.information - q * t, 0.0)
    else:
        t = np.minimum(horizon, turn)
        n_pulls = np.log(np.maximum(t * c.x / (2 * c.v[1]), 1)) / c.information
    return _regret(c, n_pulls, t, shape, details)


def passive_maximum(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    variant: str = "clip",
    details: bool = False,
) -> Answer:
    r"""The best that the constraint gives: each arm at its own best stage (appendix A).

    .. math:: E R_T \ge \sum_i \Delta_i
              \max\{0, \max_{3 \le t \le T} (a_i(t) - \epsilon p_i t)\}

    over whole stages, exactly; for a schedule above 20000 stages, on a grid that is refined
    around its best stages (a valid bound, rarely a smaller one).

    Parameters
    ----------
    variant
        "clip" or "sharp", see `observation_constraint`; both are proved.

    The others as for `passive_fixed_stage`.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = _setting(gaps, rate, horizon, weights)
    c = _constraint(s.gaps, C, C_0, variant)
    weight = s.weights[c.suboptimal]
    if callable(rate):
        t = _best_stages_of(rate, c, weight, s.horizon)
        free = _free(rate, t) * weight
    else:
        q = check_rate(rate)[..., np.newaxis] * weight
        t = _best_stages(c, q, s.horizon[..., np.newaxis])
        free = q * t
    return _regret(c, np.maximum(_h(c, t) / c.information - free, 0), t, s.shape, details)


def _best_stages_of(
    rate: Schedule, c: Constraint, weight: FloatArray, horizon: FloatArray
) -> FloatArray:
    """As `_best_stages`, for a schedule."""
    t = np.empty((*horizon.shape, len(weight)))
    for place in np.ndindex(t.shape):
        arm = place[-1]
        last = max(float(horizon[place[:-1]]), FIRST_STAGE)

        def pulls(stage: FloatArray, arm: int = arm) -> FloatArray:
            n: FloatArray = _needs(c, stage)[:, arm] - weight[arm] * _free(rate, stage)
            return n

        t[place] = min(_best_stage(pulls, last), float(horizon[place[:-1]]))
    return t


def reference_curve(gaps: ArrayLike, rate: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    r"""The curve that the paper's experiments call "the function f" and do not define.

    .. math:: \sum_{\Delta_i > 0} \frac{1}{\Delta_i} \log_+ \min\{T, 1/(\epsilon\Delta_i^2)\}

    No bound of any kind: the shape that the regret should have in ε and T (errata D45).
    """
    positive = check_gaps(gaps)
    positive = positive[positive > 0]
    late = 1 / np.maximum(check_rate(rate)[..., np.newaxis] * positive**2, 1e-300)
    reach = np.minimum(check_horizon(horizon)[..., np.newaxis], late)
    total = (np.log(np.maximum(reach, 1)) / positive).sum(axis=-1)
    return float(total) if total.ndim == 0 else total


# Passive observer, without the detour through P ----------------------------------------------


def passive_sharp(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    law: str = "gaussian",
    sd: float = 1.0,
    best_mean: float | None = None,
    details: bool = False,
) -> Answer:
    r"""The tightest bound that the paper's argument gives, by a fixed point per arm.

    With n = E N_i(t), F = E F_i(t) and I(x) the divergence of one observation of arm i,

    .. math:: (n + F)\, I(x) \ge kl(1 - n/t,\, Q_i(t; x)) ,

    whose left side grows and whose right side falls with n: n is at least the root n*(t, x),
    which is 0 if Q ≥ 1 or F I(x) ≥ log(1/Q). Neither P, Δ_min nor the log 2 of the paper is
    needed, and every t ≤ T and x > 0 gives a bound: the largest over a grid of (t, x), refined
    around its best point, is returned.

    Parameters
    ----------
    law
        "gaussian", or "bernoulli", for which the constants of UCB1 are legitimate (errata D5).
    sd
        Standard deviation of Gaussian rewards.
    best_mean
        μ* in [0, 1], needed for Bernoulli rewards; the other means are μ* - Δ_i.

    The others as for `passive_fixed_stage`.
    """
    s = _setting(gaps, rate, horizon, weights)
    d = _divergence(s.gaps, law, sd, best_mean, C, C_0)
    weight = s.weights[s.gaps > 0]
    n_pulls = np.zeros((*s.shape, len(d.own)))
    stages = np.zeros_like(n_pulls)
    for place, looks, last in _each(s):
        if last >= FIRST_STAGE and (d.most > 0).all():
            t, x = _best_point(d, looks, weight, last, _roughly)
            stages[place], n_pulls[place] = t, _root(d, t, x, _free(looks, t) * weight, 60)
    c = _constraint(s.gaps, C, C_0)
    return _regret(c, n_pulls, stages, s.shape, details)


class Divergence(NamedTuple):
    """What the fixed point needs to know of each sub-optimal arm."""

    gaps: FloatArray  # of all arms
    own: FloatArray  # of the sub-optimal arms
    C: float
    C_0: float
    sd: float  # Gaussian
    best_mean: float | None  # Bernoulli, if not None
    most: FloatArray  # x is below this


def _divergence(
    gaps: FloatArray, law: str, sd: float, best_mean: float | None, C: float, C_0: float
) -> Divergence:
    check_choice("law", law, "gaussian", "bernoulli")
    check_positive("sd", sd)
    check_positive("C", C)
    check_nonnegative("C_0", C_0)
    own = gaps[gaps > 0]
    if law == "gaussian":
        return Divergence(gaps, own, C, C_0, sd, None, 30 * own)
    if best_mean is None or not gaps.max() <= best_mean * (1 + 1e-12) <= 1 + 1e-12:
        raise ValueError(
            "best_mean must be at most 1 and at least the largest gap for Bernoulli rewards, "
            f"got {best_mean!r}"
        )
    room = (1 - best_mean) * (1 - 1e-9)
    return Divergence(gaps, own, C, C_0, sd, best_mean, np.minimum(30 * own, room))


def _information(d: Divergence, x: FloatArray) -> FloatArray:
    """I(x): the divergence between arm i as it is and raised to x above the best."""
    step = x + d.own
    if d.best_mean is None:
        return (step / d.sd) ** 2 / 2
    mean = np.maximum(d.best_mean - d.own, 0)
    safe = np.where(mean > 0, mean, 1.0)
    own, other = mean * np.log1p(step / safe), (1 - mean) * np.log1p(-step / (1 - mean))
    return np.asarray(np.maximum(-own - other, 0))


def _log_inverse_q(d: Divergence, t: FloatArray, x: FloatArray) -> FloatArray:
    far, near = _far(x, d.gaps, d.own), _near(x, d.gaps, d.own)
    log_t = np.log(t)
    value: FloatArray = log_t + np.log(x) - np.log(d.C_0 * far + d.C * near * log_t)
    return value


def _root(
    d: Divergence, t: FloatArray, x: FloatArray, free: FloatArray, n_steps: int
) -> FloatArray:
    """n*(t, x) from below, by bisection; 0 where there is none."""
    log_inverse_q = _log_inverse_q(d, t, x)
    information = _information(d, x)
    excess = log_inverse_q - free * information
    useful = (excess > 0) & (information > 0)
    low = np.zeros(np.broadcast_shapes(excess.shape, t.shape))
    room = t * -np.expm1(-np.maximum(log_inverse_q, 0))
    high = np.where(useful, np.minimum(room, excess / np.where(useful, information, 1.0)), 0.0)
    for _ in range(n_steps):
        middle = (low + high) / 2
        holds = (middle + free) * information <= _kl(middle / t, log_inverse_q)
        low = np.where(holds, middle, low)
        high = np.where(holds, high, middle)
    return np.where(useful, low, 0.0)


def _roughly(d: Divergence, t: FloatArray, x: FloatArray, free: FloatArray) -> FloatArray:
    return _root(d, t, x, free, 24)


def _best_point(
    d: Divergence,
    looks: FloatArray | Schedule,
    weight: FloatArray,
    horizon: float,
    height: Callable[[Divergence, FloatArray, FloatArray, FloatArray], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """For each arm the stage t and the raise x of the largest height(t, x, F_i(t))."""
    t_span = np.array([np.full_like(d.own, FIRST_STAGE), np.full_like(d.own, horizon)])
    x_span = np.array([np.minimum(d.own / 1000, d.most / 10), d.most])
    arm, near = np.arange(len(d.own)), np.array([-1, 0, 1])[:, np.newaxis]
    for size in (33, *[9] * 9):
        t = np.rint(np.geomspace(t_span[0], t_span[-1], size))
        x = np.geomspace(x_span[0], x_span[-1], size)
        free = _free(looks, t)[:, np.newaxis] * weight
        heights = height(d, t[:, np.newaxis], x[np.newaxis], free)
        row, column = np.divmod(np.argmax(heights.reshape(size * size, -1), axis=0), size)
        t_span = t[np.clip(row + near, 0, size - 1), arm]
        x_span = x[np.clip(column + near, 0, size - 1), arm]
    return t[row, arm], x[column, arm]


# Active observer -----------------------------------------------------------------------------


class Allocation(NamedTuple):
    """The solution of the linear program: its value, and what is pulled and looked at."""

    value: float | FloatArray
    n_pulls: FloatArray
    n_free: FloatArray


def linear_program(gaps: ArrayLike, needs: ArrayLike, n_looks: ArrayLike) -> Allocation:
    r"""The cheapest way to observe arm i `needs[i]` times with `n_looks` free looks, solved.

    .. math:: \min \sum_i \Delta_i n_i \quad\text{with}\quad n_i + f_i \ge a_i,\;
              \sum_i f_i \le \epsilon t,\; n, f \ge 0

    (appendix A). Free looks go to the largest gaps first. The printed value is negative when
    there are more looks than needs (errata D11); this one is then 0.

    Parameters
    ----------
    gaps
        One per arm, non-negative; none need be 0.
    needs
        a, one per arm on the last axis, non-negative.
    n_looks
        How many free looks there are, one or as many as there are rows of needs.
    """
    delta = np.asarray(gaps, dtype=np.float64)
    a = np.asarray(needs, dtype=np.float64)
    budget = np.asarray(n_looks, dtype=np.float64)
    if delta.ndim != 1 or not ((delta >= 0) & np.isfinite(delta)).all():
        raise ValueError(f"gaps must be a list of finite numbers ≥ 0, got {gaps!r}")
    if a.shape[-1:] != delta.shape or not ((a >= 0) & np.isfinite(a)).all():
        raise ValueError(f"needs must be finite numbers ≥ 0, one per arm, got {needs!r}")
    if not (budget >= 0).all():
        raise ValueError(f"n_looks must be ≥ 0, got {n_looks!r}")
    f = _looks(delta, a, budget)
    n = a - f
    value = (delta * n).sum(axis=-1)
    return Allocation(float(value) if value.ndim == 0 else value, n, f)


def _looks(gaps: FloatArray, needs: FloatArray, n_looks: FloatArray) -> FloatArray:
    """Free looks per arm, worst arms first."""
    order = np.argsort(-gaps, kind="stable")
    sorted_needs = needs[..., order]
    before = np.cumsum(sorted_needs, axis=-1) - sorted_needs
    f = np.empty(np.broadcast_shapes(needs.shape, (*n_looks.shape, 1)))
    f[..., order] = np.clip(n_looks[..., np.newaxis] - before, 0, sorted_needs)
    return f


def _active_pulls(c: Constraint, rate: FloatArray | Schedule, t: FloatArray) -> FloatArray:
    """The pulls of sub-optimal arms that the linear program at the stages t asks for."""
    free = _free(rate, t)
    needs = np.broadcast_to(_needs(c, t), (*free.shape, len(c.gaps)))
    return needs - _looks(c.gaps, needs, free)


def active_fixed_stage(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""Lemma `LB_active_simple`: the linear program at the horizon alone.

    .. math:: E R_T \ge V(T) = \sum_{i \le k} \frac{h_i(T)}{2\Delta_i}
              - \Delta_k \Big(\epsilon T - \sum_{j>k} \frac{h_j(T)}{2\Delta_j^2}\Big)

    with arms in order of gap and k the first for which the bracket is ≥ 0. Forms: "proved"
    (clipped), "printed" (with the printed h_i and no clip, errata D11).

    Parameters as for `passive_fixed_stage`.
    """
    check_choice("form", form, "proved", "printed")
    s = _setting(gaps, rate, horizon)
    if form == "printed":
        c = _constraint(s.gaps, C, C_0, "printed")
        n_pulls = _printed_pulls(c, _needs(c, s.horizon), _free(s.rate, s.horizon))
    else:
        c = _constraint(s.gaps, C, C_0)
        n_pulls = _active_pulls(c, s.rate, s.horizon)
    return _regret(c, n_pulls, s.horizon[..., np.newaxis], s.shape, details)


def _printed_pulls(c: Constraint, needs: FloatArray, free: FloatArray) -> FloatArray:
    """Pulls as in the printed lemma, needs of either sign: arm k may have fewer than none."""
    if not len(c.gaps):
        return np.zeros((*free.shape, 0))
    order = np.argsort(c.gaps, kind="stable")
    a = np.broadcast_to(needs, (*free.shape, len(order)))[..., order]
    tail = np.cumsum(a[..., ::-1], axis=-1)[..., ::-1] - a
    looks = free[..., np.newaxis]
    k = np.argmax(tail <= looks, axis=-1)[..., np.newaxis]
    rank = np.arange(len(order))
    pulls = np.zeros_like(a)
    pulls[..., order] = np.where(rank < k, a, np.where(rank == k, a - looks + tail, 0.0))
    return pulls


def active_maximum(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    variant: str = "clip",
    details: bool = False,
) -> Answer:
    r"""The linear program at its best stage: max over 3 ≤ t ≤ T of V(t), whole stages.

    It never exceeds the passive bound for any weights. Every stage is looked at up to
    T = 20000; above, a grid that is refined around its best stages.

    Parameters as for `passive_maximum`.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = _setting(gaps, rate, horizon)
    c = _constraint(s.gaps, C, C_0, variant)
    n_pulls = np.zeros((*s.shape, len(c.gaps)))
    stages = np.zeros((*s.shape, 1))
    for place, looks, last in _each(s):
        if last >= FIRST_STAGE:
            t = _best_active_stage(c, looks, last)
            stages[place], n_pulls[place] = t, _active_pulls(c, looks, np.asarray(t))
    stages = np.where((n_pulls > 0).any(axis=-1, keepdims=True), stages, 0.0)
    terms = _all_arms(c, c.gaps * n_pulls)
    return answer(terms.sum(axis=-1), terms, stages[..., 0], details)


def _best_active_stage(c: Constraint, rate: FloatArray | Schedule, horizon: float) -> float:
    def value(t: FloatArray) -> FloatArray:
        v: FloatArray = (c.gaps * _active_pulls(c, rate, t)).sum(axis=-1)
        return v

    return _best_stage(value, horizon)


def active_theorem(
    gaps: ArrayLike,
    rate: ArrayLike,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""Theorem `LB_active`: free looks for the arms after k, pulls for the arms up to k.

    .. math:: E R_T \ge \max_k \sum_{i=2}^k \frac{h_i(\lfloor t_k \rfloor)}{2 \Delta_i},
              \qquad t_k = \frac{1}{\epsilon} \sum_{j>k} \frac{1}{2\Delta_j^2}

    over the k for which t_k ≤ T and the looks up to then do not cover what the arms after k
    need (the mean of their h_j, weighted by 1/Δ_j², is at least 1; errata D10). There is no
    such k with fewer than two sub-optimal arms. Forms: "proved"; "printed" (twice the factor,
    errata D9, with the printed h_i and no clip; the largest over the k for which the looks
    cover the needs at all stages after T; 0 if there is none); "leading" (without the loglog
    and η terms, clipped; no bound).

    Parameters as for `passive_theorem`. `active_chain` is the same argument at the best stages.
    """
    check_choice("form", form, "proved", "printed", "leading")
    s = _setting(gaps, rate, horizon)
    c = _constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    order = np.argsort(c.gaps, kind="stable")
    later = _tails(1 / (2 * c.gaps[order] ** 2))
    terms = np.zeros((*s.shape, len(order)))
    stages = np.zeros(s.shape)
    pick = {"proved": _proved_split, "printed": _printed_split, "leading": _leading_split}
    for place, eps, last in _each(s):
        t = later / np.maximum(_free(eps, np.asarray(1.0)), 1e-280)
        terms[place], stages[place] = pick[form](c, order, t, eps, last)
    full = _all_arms(c, terms)
    return answer(full.sum(axis=-1), full, stages, details)


def _tails(values: FloatArray) -> FloatArray:
    """Sums over j > k for each k but the last, arms in order of gap."""
    sums: FloatArray = np.cumsum(values[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    return sums


def _best_split(
    order: NDArray[np.intp], values: FloatArray, allowed: NDArray[np.bool_], t: FloatArray
) -> tuple[FloatArray, float]:
    """The k of the largest Σ_{i≤k} values[k, i]: its terms in the caller's order, its stage."""
    terms = np.zeros(len(order))
    if not allowed.any():
        return terms, 0.0
    first = np.tri(len(allowed), len(order), dtype=bool)
    totals = np.where(allowed, np.where(first, values, 0.0).sum(axis=-1), -np.inf)
    k = int(np.argmax(totals))
    terms[order] = np.where(first[k], values[k], 0.0)
    return terms, float(t[k]) if totals[k] > 0 else 0.0


def _proved_split(
    c: Constraint,
    order: NDArray[np.intp],
    t: FloatArray,
    rate: FloatArray | Schedule,
    horizon: float,
) -> tuple[FloatArray, float]:
    stage = np.maximum(np.floor(np.minimum(t, horizon)), 1.0)
    needs = _needs(c, stage)[:, order]
    uncovered = np.diagonal(_tails(needs)) >= _free(rate, stage)
    return _best_split(order, c.gaps[order] * needs, (t <= horizon) & uncovered, stage)


def _printed_split(
    c: Constraint,
    order: NDArray[np.intp],
    t: FloatArray,
    rate: FloatArray | Schedule,
    horizon: float,
) -> tuple[FloatArray, float]:
    after = np.geomspace(horizon + 1, 1e18, 500)
    covered = (_tails(_needs(c, after)[:, order]) <= _free(rate, after)[:, np.newaxis]).all(axis=0)
    stage = np.clip(t, 1 + 1e-9, 1e280)
    values = _h(c, stage[:, np.newaxis])[:, order] / c.gaps[order]
    return _best_split(order, values, covered & (t > 1), stage)


def _leading_split(
    c: Constraint,
    order: NDArray[np.intp],
    t: FloatArray,
    rate: FloatArray | Schedule,
    horizon: float,
) -> tuple[FloatArray, float]:
    stage = np.minimum(t, horizon)
    leading = np.log(np.maximum(stage[:, np.newaxis] * c.x / (2 * c.v[1]), 1)) / (2 * c.gaps)
    return _best_split(order, leading[:, order], t > 0, stage)


def active_chain(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    details: bool = False,
) -> Answer:
    r"""What the proof of Theorem `LB_active` gives before its stages are replaced by a closed form.

    .. math:: E R_T \ge \max_{2 \le k < K} \sum_{i=2}^k \frac{h_i(s_k)}{2\Delta_i}, \qquad
              s_k = \max\{t \le T : \sum_{j>k} a_j(t) > \epsilon t\}

    Between `active_theorem` and `active_maximum`. Parameters as for `passive_fixed_stage`.
    """
    s = _setting(gaps, rate, horizon)
    c = _constraint(s.gaps, C, C_0)
    order = np.argsort(c.gaps, kind="stable")
    terms = np.zeros((*s.shape, len(order)))
    stages = np.zeros(s.shape)
    for place, looks, last in _each(s):
        if last >= FIRST_STAGE and len(order) > 1:
            t = _last_uncovered(c, order, looks, last)
            values = c.gaps[order] * _needs(c, np.maximum(t, 1.0))[:, order]
            terms[place], stages[place] = _best_split(order, values, t > 0, t)
    full = _all_arms(c, terms)
    return answer(full.sum(axis=-1), full, stages, details)


def _last_uncovered(
    c: Constraint, order: NDArray[np.intp], rate: FloatArray | Schedule, horizon: float
) -> FloatArray:
    """s_k for each k, 0 where there is none.

    On a logarithmic grid, then by bisection between the last stage of the grid at which the
    looks do not cover the needs and the next one. Any such stage proves a bound.
    """

    def uncovered(t: FloatArray) -> NDArray[np.bool_]:
        return _tails(_needs(c, t)[..., order]) > _free(rate, t)[..., np.newaxis]

    grid = _log_stages(FIRST_STAGE, horizon, 2000)
    at = uncovered(grid)
    last = len(grid) - 1 - np.argmax(at[::-1], axis=0)
    low, high = grid[last], grid[np.minimum(last + 1, len(grid) - 1)]
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        above = np.diagonal(uncovered(middle))
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    low = np.where(np.diagonal(uncovered(high)), high, low)
    return np.where(at.any(axis=0), low, 0.0)


def active_alternative(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    exact: bool = False,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""The alternative bound: as if every arm were seen at each free look (appendix A).

    The formulas of the passive observer with p_i = 1 for all i: those of `passive_theorem`, or
    with `exact` of `passive_maximum` (a schedule needs this). Better than the linear program
    when gaps are very different. Forms: "proved", "printed", "leading" ("proved" if `exact`).

    The other parameters as for `passive_theorem`.
    """
    check_choice("form", form, *(("proved",) if exact else ("proved", "printed", "leading")))
    s = _setting(gaps, rate, horizon)
    c = _constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    every = np.ones(len(c.gaps))
    if callable(rate):
        if not exact:
            raise ValueError(f"rate must be a number unless exact is True, got {rate!r}")
        t = _best_stages_of(rate, c, every, s.horizon)
        n_pulls = np.maximum(_h(c, t) / c.information - _free(rate, t), 0)
        return _regret(c, n_pulls, t, s.shape, details)
    q = check_rate(rate)[..., np.newaxis] * every
    last = s.horizon[..., np.newaxis]
    if not exact:
        return _single_stage(c, q, last, 2.0, form, s.shape, details)
    t = _best_stages(c, q, last)
    n_pulls = np.maximum(_h(c, t) / c.information - q * t, 0)
    return _regret(c, n_pulls, t, s.shape, details)


def active_equal_gaps(
    n_arms: int,
    gap: float,
    rate: ArrayLike,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    form: str = "proved",
) -> float | FloatArray:
    r"""One best arm, all others worse by the same gap.

    .. math:: E R_T \ge \Big(\frac{(K-1) h(t)}{2\Delta} - \Delta \epsilon t\Big)_+, \qquad
              t = \min(T, \lceil (K-1)/(2\epsilon\Delta^2) \rceil)

    the linear program at one stage, better than Theorem `LB_active`. Forms: "proved";
    "printed", the limit (K-1)/Δ [log(1/ε) - log log(e/ε)] that the paper states (errata D12;
    infinite at ε = 0); "leading", the paper's max over k of (k-1)/Δ log((K-k)/(εK)), clipped.
    The last two are no bounds.

    Parameters
    ----------
    n_arms
        K ≥ 1, the best arm included.
    gap
        Δ > 0.

    The others as for `active_theorem`.
    """
    check_choice("form", form, "proved", "printed", "leading")
    if not n_arms >= 1 or n_arms != int(n_arms):
        raise ValueError(f"n_arms must be a whole number ≥ 1, got {n_arms!r}")
    check_positive("gap", gap)
    eps, last = check_rate(rate), check_horizon(horizon)
    if form == "proved":
        c = _constraint(np.array([0.0] + [gap] * (int(n_arms) - 1)), C, C_0)
        turn = (n_arms - 1) / np.maximum(2 * eps * gap**2, 1e-300)
        t = np.minimum(last, np.maximum(np.ceil(turn), FIRST_STAGE))
        total = np.maximum(gap * (_needs(c, t).sum(axis=-1) - eps * t), 0)
    else:
        log_inverse = np.where(eps > 0, -np.log(np.maximum(eps, 1e-300)), math.inf)
        log_inverse = np.broadcast_to(log_inverse, np.broadcast_shapes(eps.shape, last.shape))
        if form == "printed":
            total = (n_arms - 1) / gap * np.maximum(_less_loglog(log_inverse), 0)
        else:
            k = np.arange(2, n_arms)
            curve = (k - 1) / gap * (log_inverse[..., np.newaxis] + np.log((n_arms - k) / n_arms))
            total = np.max(curve, axis=-1, initial=0.0)
    return float(total) if total.ndim == 0 else total


def _less_loglog(y: FloatArray) -> FloatArray:
    """log(1/ε) - log log(e/ε) as a function of log(1/ε) ≥ 0, which may be infinite."""
    finite = np.where(np.isfinite(y), y, 0.0)
    return np.where(np.isfinite(y), finite - np.log1p(finite), math.inf)


def active_multi_period(
    gaps: ArrayLike,
    rate: float | Schedule,
    horizon: int,
    *,
    stages: ArrayLike | None = None,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    variant: str = "clip",
    details: bool = False,
) -> Answer:
    r"""The linear program over many stages at once, which dominates the other active bounds.

    .. math:: \min \sum_i \Delta_i N_i \quad\text{with}\quad N_i \ge a_i(t_m) - F_i(t_m),\;
              F_i(t_{m+1}) \ge F_i(t_m),\; \sum_i F_i(t_m) \le \epsilon t_m

    Not in the paper. Solved by scipy's HiGHS.

    Parameters
    ----------
    rate, horizon
        One of each.
    stages
        The t_m; if not given, 40 on a logarithmic grid and those at which `active_maximum` and
        `active_alternative` are attained.

    The others as for `active_maximum`. `details` gives Δ_i N_i per arm and the stages used.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = _setting(gaps, rate, horizon)
    if s.shape:
        raise ValueError(f"rate and horizon must be one of each, got {rate!r} and {horizon!r}")
    c = _constraint(s.gaps, C, C_0, variant)
    last = float(s.horizon)
    t = _periods(c, s.rate, last) if stages is None else np.unique(check_horizon(stages))
    t = t[t <= last]
    needs = _needs(c, t)
    n_pulls = np.zeros(len(c.gaps))
    busy = (needs > 0).any(axis=0)
    if busy.any():
        n_pulls[busy] = _solve_periods(c.gaps[busy], needs[:, busy], _free(s.rate, t))
    terms = _all_arms(c, c.gaps * n_pulls)
    return answer(terms.sum(), terms, t, details)


def _periods(c: Constraint, rate: FloatArray | Schedule, horizon: float) -> FloatArray:
    if horizon < FIRST_STAGE or not len(c.gaps):
        return np.array([horizon])
    every = np.ones(len(c.gaps))
    if callable(rate):
        alone = _best_stages_of(rate, c, every, np.asarray(horizon))
    else:
        alone = _best_stages(c, rate * every, np.asarray([horizon]))
    together = _best_active_stage(c, rate, horizon)
    return np.unique(np.concatenate((_log_stages(FIRST_STAGE, horizon, 40), alone, [together])))


def _solve_periods(gaps: FloatArray, needs: FloatArray, free: FloatArray) -> FloatArray:
    """The N_i of the program, in units in which needs and costs are about 1."""
    from scipy.optimize import linprog  # type: ignore[import-untyped]
    from scipy.sparse import bmat, eye, kron  # type: ignore[import-untyped]

    n_periods, n_arms = needs.shape
    most = needs.max(axis=0)  # of arm i: N_i = most_i y_i, F_i = most_i z_i
    scale = float((gaps * most).sum())
    cover = bmat([[-kron(np.ones((n_periods, 1)), eye(n_arms)), -eye(n_periods * n_arms)]])
    budget = kron(eye(n_periods), (most / most.sum())[np.newaxis])
    budget = bmat([[np.zeros((n_periods, n_arms)), budget]])
    rows = [cover, budget]
    limits = [-(needs / most).ravel(), free / most.sum()]
    if n_periods > 1:
        steps = kron(eye(n_periods - 1, n_periods) - eye(n_periods - 1, n_periods, 1), eye(n_arms))
        rows.append(bmat([[np.zeros(((n_periods - 1) * n_arms, n_arms)), steps]]))
        limits.append(np.zeros((n_periods - 1) * n_arms))
    cost = np.concatenate((gaps * most / scale, np.zeros(n_periods * n_arms)))
    found = linprog(cost, bmat([[r] for r in rows]).tocsr(), np.concatenate(limits))
    if found.status != 0:
        raise RuntimeError(f"the linear program was not solved: {found.message}")
    pulls: FloatArray = most * np.maximum(found.x[:n_arms], 0)
    return pulls
