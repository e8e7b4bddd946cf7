"""Lower bounds for an active observer, who chooses the arm of each look.

What is proved, and for whom, is told in `kibitz.bounds.lower`. The linear programs ask for the
cheapest way to see enough of every arm. `_split.py` has the bounds that give all looks to the worst
arms.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kibitz._validation import flag, invalid, short_repr, whole
from kibitz.bounds._bound import Result, bound, documented, make_result, to_scalar
from kibitz.bounds._checks import (
    MAX_VALUE,
    FloatArray,
    Rate,
    Schedule,
    check_array,
    check_choice,
    check_horizon,
    check_nonnegative,
    check_rate,
    check_scale,
    check_setting,
    check_shapes,
)
from kibitz.bounds.lower._constraint import (
    C_0_UCB1,
    C_UCB1,
    FIRST_STAGE,
    Constraint,
    all_arms,
    best_stage,
    best_stages,
    best_stages_of,
    each_place,
    free_looks,
    log_stages,
    make_constraint,
    needs_at,
    regret_of,
)
from kibitz.bounds.lower._passive import at_best_stages, single_stage


@bound()
def active_fixed_stage(
    gaps: ArrayLike,
    rate: Rate,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    form: str = "proved",
    details: bool = False,
) -> Result:
    r"""Lemma 3: the linear program at the horizon alone.

    .. math:: E R_T \ge V(T) = \sum_{i \le k} \frac{h_i(T)}{2\Delta_i}
              - \Delta_k \Big(\epsilon T - \sum_{j>k} \frac{h_j(T)}{2\Delta_j^2}\Big)

    with arms in order of gap and k the first for which the bracket is ≥ 0. Forms: "proved"
    (clipped), "printed" (with the printed h_i and no clip, errata D11).
    """
    check_choice("form", form, "proved", "printed")
    s = check_setting(gaps, rate, None, horizon)
    if form == "printed":
        c = make_constraint(s.gaps, C, C_0, "printed")
        n_pulls = printed_pulls(c, needs_at(c, s.horizon), free_looks(s.rate, s.horizon))
    else:
        c = make_constraint(s.gaps, C, C_0)
        n_pulls = active_pulls(c, s.rate, s.horizon)
    return regret_of(c, n_pulls, s.horizon[..., np.newaxis], s.shape, details)


@bound()
def active_maximum(
    gaps: ArrayLike,
    rate: Rate,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    variant: str = "clip",
    details: bool = False,
) -> Result:
    r"""The linear program at its best stage: max over 3 ≤ t ≤ T of V(t), whole stages.

    It never exceeds the passive bound for any weights. Every stage is looked at up to
    T = 20000; above, a grid that is refined around its best stages.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = check_setting(gaps, rate, None, horizon)
    c = make_constraint(s.gaps, C, C_0, variant)
    n_pulls = np.zeros((*s.shape, len(c.gaps)))
    stages = np.zeros((*s.shape, 1))
    for place, looks, last in each_place(s):
        if last >= FIRST_STAGE:
            t = _best_active_stage(c, looks, last)
            stages[place], n_pulls[place] = t, active_pulls(c, looks, np.asarray(t))
    stages = np.where((n_pulls > 0).any(axis=-1, keepdims=True), stages, 0.0)
    terms = all_arms(c, c.gaps * n_pulls)
    return make_result(terms.sum(axis=-1), terms, stages[..., 0], details)


def _best_active_stage(c: Constraint, rate: FloatArray | Schedule, horizon: float) -> float:
    def value(t: FloatArray) -> FloatArray:
        v: FloatArray = (c.gaps * active_pulls(c, rate, t)).sum(axis=-1)
        return v

    return best_stage(value, horizon)


@bound()
def active_alternative(
    gaps: ArrayLike,
    rate: Rate,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    exact: bool = False,
    form: str = "proved",
    details: bool = False,
) -> Result:
    r"""The alternative bound: as if every arm were seen at each free look (appendix A).

    The formulas of the passive observer with p_i = 1 for all i: those of `passive_theorem`, or
    with `exact` of `passive_maximum` (a schedule needs this). Better than the linear program
    when gaps are very different. Forms: "proved", "printed", "leading" ("proved" if `exact`).

    Parameters
    ----------
    exact
        Whether to take every arm at its best stage.
    """
    exact = flag(exact, "exact")
    check_choice("form", form, *(("proved",) if exact else ("proved", "printed", "leading")))
    s = check_setting(gaps, rate, None, horizon, steady=not exact)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    every = np.ones(len(c.gaps))
    if exact or callable(s.rate):
        return at_best_stages(s, c, every, details)
    q = s.rate[..., np.newaxis] * every
    return single_stage(c, q, s.horizon[..., np.newaxis], 2.0, form, s.shape, details)


@bound()
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

    the linear program at one stage, better than Theorem 2. Forms: "proved";
    "printed", the limit (K-1)/Δ [log(1/ε) - log log(e/ε)] that the paper states (errata D12;
    infinite at ε = 0); "leading", the paper's max over k of (k-1)/Δ log((K-k)/(εK)), clipped.
    The last two are no bounds.

    Parameters
    ----------
    n_arms
        K ≥ 2, the best arm included.
    gap
        Δ > 0.
    """
    check_choice("form", form, "proved", "printed", "leading")
    n_arms = whole(n_arms, "n_arms", 2, 1_000_000)
    gap, C, C_0 = check_scale("gap", gap), check_scale("C", C), check_nonnegative("C_0", C_0)
    eps, last = check_rate(rate), check_horizon(horizon)
    shape = check_shapes(rate=eps, horizon=last)
    if form == "proved":
        c = _equal_constraint(n_arms, gap, C, C_0)
        turn = (n_arms - 1) / np.maximum(2 * eps * gap**2, 1e-300)
        t = np.minimum(last, np.maximum(np.ceil(turn), FIRST_STAGE))
        total = np.maximum(gap * ((n_arms - 1) * needs_at(c, t)[..., 0] - eps * t), 0)
    else:
        log_inverse = np.where(eps > 0, -np.log(np.maximum(eps, 1e-323)), math.inf)
        log_inverse = np.broadcast_to(log_inverse, shape)
        if form == "printed":
            total = (n_arms - 1) / gap * np.maximum(_less_loglog(log_inverse), 0)
        else:
            k = np.arange(2, n_arms)
            curve = (k - 1) / gap * (log_inverse[..., np.newaxis] + np.log((n_arms - k) / n_arms))
            total = np.max(curve, axis=-1, initial=0.0)
    return to_scalar(total)


def _equal_constraint(n_arms: int, gap: float, C: float, C_0: float) -> Constraint:
    """The constraint of one of K - 1 arms of equal gap, without making a list of all of them."""
    one = np.array([gap])
    others = (C_0 * (2 * n_arms - 3) * one, C * (n_arms / 2) / one)  # Σ_{j≠i} of Δ + Δ_j, 1/(Δ + Δ_j)
    u = (C_0 * (n_arms - 1) * gap, C * (n_arms - 1) / gap)
    return Constraint(np.array([True]), one, one, u, one, others, 2 * one**2, "clip")


def _less_loglog(y: FloatArray) -> FloatArray:
    """log(1/ε) - log log(e/ε) as a function of log(1/ε) ≥ 0, which may be infinite."""
    finite = np.where(np.isfinite(y), y, 0.0)
    return np.where(np.isfinite(y), finite - np.log1p(finite), math.inf)


@bound()
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
) -> Result:
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
    details
        Whether to return a `Bound`: total, Δ_i N_i per arm, and the stages used.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = check_setting(gaps, rate, None, horizon)
    if s.shape:
        given = f"{short_repr(rate)} and {short_repr(horizon)}"
        raise ValueError(f"rate and horizon must be one of each, got {given}")
    c = make_constraint(s.gaps, C, C_0, variant)
    last = float(s.horizon)
    t = _periods(c, s.rate, last) if stages is None else np.unique(check_horizon(stages, "stages"))
    t = t[t <= last]
    needs = needs_at(c, t)
    n_pulls = np.zeros(len(c.gaps))
    busy = (needs > 0).any(axis=0)
    if busy.any():
        n_pulls[busy] = solve_periods(c.gaps[busy], needs[:, busy], free_looks(s.rate, t))
    terms = all_arms(c, c.gaps * n_pulls)
    return make_result(terms.sum(), terms, t, details)


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


class Allocation(NamedTuple):
    """The solution of the linear program: its value, and what is pulled and looked at."""

    value: float | FloatArray
    n_pulls: FloatArray
    n_looks: FloatArray


@documented
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
    condition = "a list of numbers from 0 to 1e50"
    delta = check_array("gaps", gaps, condition, lambda x: (x >= 0) & (x <= MAX_VALUE))
    if delta.ndim != 1:
        raise invalid("gaps", condition, gaps)
    condition = "numbers from 0 to 1e200, one per arm"
    a = check_array("needs", needs, condition, lambda x: (x >= 0) & (x <= 1e200), min_size=0)
    if a.shape[-1:] != delta.shape:
        raise invalid("needs", condition, needs)
    budget = check_array("n_looks", n_looks, "≥ 0", lambda x: x >= 0, min_size=0)
    check_shapes(needs=a[..., 0], n_looks=budget)
    f = _looks(delta, a, budget)
    n = a - f
    value = (delta * n).sum(axis=-1)
    return Allocation(to_scalar(value), n, f)


def _looks(gaps: FloatArray, needs: FloatArray, n_looks: FloatArray) -> FloatArray:
    """Free looks per arm, worst arms first."""
    order = np.argsort(-gaps, kind="stable")
    sorted_needs = needs[..., order]
    before = np.cumsum(sorted_needs, axis=-1) - sorted_needs
    f = np.empty(np.broadcast_shapes(needs.shape, (*n_looks.shape, 1)))
    f[..., order] = np.clip(n_looks[..., np.newaxis] - before, 0, sorted_needs)
    return f


def active_pulls(c: Constraint, rate: FloatArray | Schedule, t: FloatArray) -> FloatArray:
    """The pulls of sub-optimal arms that the linear program at the stages t asks for."""
    free = free_looks(rate, t)
    needs = np.broadcast_to(needs_at(c, t), (*free.shape, len(c.gaps)))
    return needs - _looks(c.gaps, needs, free)


def printed_pulls(c: Constraint, needs: FloatArray, free: FloatArray) -> FloatArray:
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


def solve_periods(gaps: FloatArray, needs: FloatArray, free: FloatArray) -> FloatArray:
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
