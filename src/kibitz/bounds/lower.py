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
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.bounds.bound import (
    Answer,
    FloatArray,
    answer,
    check_choice,
    check_gaps,
    check_horizon,
    check_positive,
    check_rate,
    plain,
)
from kibitz.bounds.constraint import (
    C_0_UCB1,
    C_UCB1,
    FIRST_STAGE,
    Constraint,
    all_arms,
    eta,
    h_at,
    make_constraint,
    needs_at,
    observation_constraint,
    required_observations,
)
from kibitz.bounds.sharp import passive_sharp
from kibitz.bounds.stages import (
    Schedule,
    Setting,
    best_stage,
    best_stages,
    best_stages_of,
    check_setting,
    each_place,
    free_looks,
    log_stages,
    regret_of,
    schedule,
)

__all__ = [
    "active_alternative",
    "active_chain",
    "active_equal_gaps",
    "active_fixed_stage",
    "active_maximum",
    "active_multi_period",
    "active_theorem",
    "eta",
    "linear_program",
    "observation_constraint",
    "passive_fixed_stage",
    "passive_maximum",
    "passive_sharp",
    "passive_theorem",
    "reference_curve",
    "required_observations",
    "schedule",
]


# Passive observer ----------------------------------------------------------------------------


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
    s = check_setting(gaps, rate, horizon, weights)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    free = free_looks(s.rate, s.horizon)[..., np.newaxis] * s.weights[c.suboptimal]
    n_pulls = np.maximum(needs_at(c, s.horizon) - free, 0)
    return regret_of(c, n_pulls, s.horizon[..., np.newaxis], s.shape, details)


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
    s = check_setting(gaps, rate, horizon, weights, steady=True)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
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
        n_pulls = np.maximum(h_at(c, t) / c.information - q * t, 0)
    elif form == "printed":
        t = np.minimum(horizon, np.where(turn > 1, turn, 2.0))
        n_pulls = np.where(turn > 1, h_at(c, t) / c.information - q * t, 0.0)
    else:
        t = np.minimum(horizon, turn)
        n_pulls = np.log(np.maximum(t * c.x / (2 * c.v[1]), 1)) / c.information
    return regret_of(c, n_pulls, t, shape, details)


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
    s = check_setting(gaps, rate, horizon, weights)
    c = make_constraint(s.gaps, C, C_0, variant)
    return _at_best_stages(s, c, s.weights[c.suboptimal], details)


def _at_best_stages(s: Setting, c: Constraint, weight: FloatArray, details: bool) -> Answer:
    """The passive constraints, each arm at its own best stage."""
    if callable(s.rate):
        t = best_stages_of(s.rate, c, weight, s.horizon)
        free = free_looks(s.rate, t) * weight
    else:
        q = s.rate[..., np.newaxis] * weight
        t = best_stages(c, q, s.horizon[..., np.newaxis])
        free = q * t
    return regret_of(c, np.maximum(h_at(c, t) / c.information - free, 0), t, s.shape, details)


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
    return plain(total)


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
    return Allocation(plain(value), n, f)


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
    free = free_looks(rate, t)
    needs = np.broadcast_to(needs_at(c, t), (*free.shape, len(c.gaps)))
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
    s = check_setting(gaps, rate, horizon)
    if form == "printed":
        c = make_constraint(s.gaps, C, C_0, "printed")
        n_pulls = _printed_pulls(c, needs_at(c, s.horizon), free_looks(s.rate, s.horizon))
    else:
        c = make_constraint(s.gaps, C, C_0)
        n_pulls = _active_pulls(c, s.rate, s.horizon)
    return regret_of(c, n_pulls, s.horizon[..., np.newaxis], s.shape, details)


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
    s = check_setting(gaps, rate, horizon)
    c = make_constraint(s.gaps, C, C_0, variant)
    n_pulls = np.zeros((*s.shape, len(c.gaps)))
    stages = np.zeros((*s.shape, 1))
    for place, looks, last in each_place(s):
        if last >= FIRST_STAGE:
            t = _best_active_stage(c, looks, last)
            stages[place], n_pulls[place] = t, _active_pulls(c, looks, np.asarray(t))
    stages = np.where((n_pulls > 0).any(axis=-1, keepdims=True), stages, 0.0)
    terms = all_arms(c, c.gaps * n_pulls)
    return answer(terms.sum(axis=-1), terms, stages[..., 0], details)


def _best_active_stage(c: Constraint, rate: FloatArray | Schedule, horizon: float) -> float:
    def value(t: FloatArray) -> FloatArray:
        v: FloatArray = (c.gaps * _active_pulls(c, rate, t)).sum(axis=-1)
        return v

    return best_stage(value, horizon)


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
    s = check_setting(gaps, rate, horizon, steady=True)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    order = np.argsort(c.gaps, kind="stable")
    later = _tails(1 / (2 * c.gaps[order] ** 2))
    terms = np.zeros((*s.shape, len(order)))
    stages = np.zeros(s.shape)
    pick = {"proved": _proved_split, "printed": _printed_split, "leading": _leading_split}
    for place, eps, last in each_place(s):
        t = later / np.maximum(free_looks(eps, np.asarray(1.0)), 1e-280)
        terms[place], stages[place] = pick[form](c, order, t, eps, last)
    full = all_arms(c, terms)
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
    needs = needs_at(c, stage)[:, order]
    uncovered = np.diagonal(_tails(needs)) >= free_looks(rate, stage)
    return _best_split(order, c.gaps[order] * needs, (t <= horizon) & uncovered, stage)


def _printed_split(
    c: Constraint,
    order: NDArray[np.intp],
    t: FloatArray,
    rate: FloatArray | Schedule,
    horizon: float,
) -> tuple[FloatArray, float]:
    after = np.geomspace(horizon + 1, 1e18, 500)
    covered = (_tails(needs_at(c, after)[:, order]) <= free_looks(rate, after)[:, np.newaxis]).all(
        axis=0
    )
    stage = np.clip(t, 1 + 1e-9, 1e280)
    values = h_at(c, stage[:, np.newaxis])[:, order] / c.gaps[order]
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
    s = check_setting(gaps, rate, horizon)
    c = make_constraint(s.gaps, C, C_0)
    order = np.argsort(c.gaps, kind="stable")
    terms = np.zeros((*s.shape, len(order)))
    stages = np.zeros(s.shape)
    for place, looks, last in each_place(s):
        if last >= FIRST_STAGE and len(order) > 1:
            t = _last_uncovered(c, order, looks, last)
            values = c.gaps[order] * needs_at(c, np.maximum(t, 1.0))[:, order]
            terms[place], stages[place] = _best_split(order, values, t > 0, t)
    full = all_arms(c, terms)
    return answer(full.sum(axis=-1), full, stages, details)


def _last_uncovered(
    c: Constraint, order: NDArray[np.intp], rate: FloatArray | Schedule, horizon: float
) -> FloatArray:
    """s_k for each k, 0 where there is none.

    On a logarithmic grid, then by bisection between the last stage of the grid at which the
    looks do not cover the needs and the next one. Any such stage proves a bound.
    """

    def uncovered(t: FloatArray) -> NDArray[np.bool_]:
        return _tails(needs_at(c, t)[..., order]) > free_looks(rate, t)[..., np.newaxis]

    grid = log_stages(FIRST_STAGE, horizon, 2000)
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
    s = check_setting(gaps, rate, horizon, steady=not exact)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    every = np.ones(len(c.gaps))
    if exact or callable(s.rate):
        return _at_best_stages(s, c, every, details)
    q = s.rate[..., np.newaxis] * every
    return _single_stage(c, q, s.horizon[..., np.newaxis], 2.0, form, s.shape, details)


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
        K ≥ 2, the best arm included.
    gap
        Δ > 0.

    The others as for `active_theorem`.
    """
    check_choice("form", form, "proved", "printed", "leading")
    if not 2 <= n_arms < math.inf or n_arms != int(n_arms):
        raise ValueError(f"n_arms must be a whole number ≥ 2, got {n_arms!r}")
    check_positive("gap", gap)
    eps, last = check_rate(rate), check_horizon(horizon)
    if form == "proved":
        c = make_constraint(np.array([0.0] + [gap] * (int(n_arms) - 1)), C, C_0)
        turn = (n_arms - 1) / np.maximum(2 * eps * gap**2, 1e-300)
        t = np.minimum(last, np.maximum(np.ceil(turn), FIRST_STAGE))
        total = np.maximum(gap * (needs_at(c, t).sum(axis=-1) - eps * t), 0)
    else:
        log_inverse = np.where(eps > 0, -np.log(np.maximum(eps, 1e-300)), math.inf)
        log_inverse = np.broadcast_to(log_inverse, np.broadcast_shapes(eps.shape, last.shape))
        if form == "printed":
            total = (n_arms - 1) / gap * np.maximum(_less_loglog(log_inverse), 0)
        else:
            k = np.arange(2, n_arms)
            curve = (k - 1) / gap * (log_inverse[..., np.newaxis] + np.log((n_arms - k) / n_arms))
            total = np.max(curve, axis=-1, initial=0.0)
    return plain(total)


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
    s = check_setting(gaps, rate, horizon)
    if s.shape:
        raise ValueError(f"rate and horizon must be one of each, got {rate!r} and {horizon!r}")
    c = make_constraint(s.gaps, C, C_0, variant)
    last = float(s.horizon)
    t = _periods(c, s.rate, last) if stages is None else np.unique(check_horizon(stages))
    t = t[t <= last]
    needs = needs_at(c, t)
    n_pulls = np.zeros(len(c.gaps))
    busy = (needs > 0).any(axis=0)
    if busy.any():
        n_pulls[busy] = _solve_periods(c.gaps[busy], needs[:, busy], free_looks(s.rate, t))
    terms = all_arms(c, c.gaps * n_pulls)
    return answer(terms.sum(), terms, t, details)


def _periods(c: Constraint, rate: FloatArray | Schedule, horizon: float) -> FloatArray:
    if horizon < FIRST_STAGE or not len(c.gaps):
        return np.array([horizon])
    every = np.ones(len(c.gaps))
    if callable(rate):
        alone = best_stages_of(rate, c, every, np.asarray(horizon))
    else:
        alone = best_stages(c, rate * every, np.asarray([horizon]))
    together = _best_active_stage(c, rate, horizon)
    return np.unique(np.concatenate((log_stages(FIRST_STAGE, horizon, 40), alone, [together])))


def _solve_periods(gaps: FloatArray, needs: FloatArray, free: FloatArray) -> FloatArray:
    """The N_i of the program, in units in which needs and costs are about 1."""
    from scipy.optimize import linprog
    from scipy.sparse import bmat, eye, kron

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
