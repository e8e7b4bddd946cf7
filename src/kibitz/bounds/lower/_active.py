"""Lower bounds for an active observer, which chooses the arm of each look.

The argument is explained in `kibitz.bounds.lower`. The linear programs find the cheapest way to
observe every arm often enough. `_split.py` contains the bounds that give all looks to the worst arms.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kibitz._validation import flag, invalid, short_repr, whole
from kibitz.bounds._bound import Result, bound, document_parameters, make_result, to_scalar
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
    compute_needs,
    count_looks,
    expand_arms,
    find_best_stage,
    find_best_stages,
    find_best_stages_scheduled,
    make_constraint,
    make_log_stages,
    solve_each,
    sum_regret,
)
from kibitz.bounds.lower._passive import evaluate_best_stages, evaluate_single_stage


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
    r"""Return the lower bound of Lemma 3, the value V(T) of the linear program at the horizon.

    .. math:: E R_T \ge V(T) = \sum_{i \le k} \frac{h_i(T)}{2\Delta_i}
              - \Delta_k \Big(\epsilon T - \sum_{j>k} \frac{h_j(T)}{2\Delta_j^2}\Big)

    The arms are in order of increasing gap, and k is the first arm for which the bracket is ≥ 0.
    Forms: "proved" (clipped at 0) and "printed" (with the printed h_i and not clipped, errata D11).
    """
    check_choice("form", form, "proved", "printed")
    s = check_setting(gaps, rate, None, horizon)
    if form == "printed":
        c = make_constraint(s.gaps, C, C_0, "printed")
        n_pulls = compute_printed_pulls(
            c, compute_needs(c, s.horizon), count_looks(s.rate, s.horizon)
        )
    else:
        c = make_constraint(s.gaps, C, C_0)
        n_pulls = solve_pulls(c, s.rate, s.horizon)
    return sum_regret(c, n_pulls, s.horizon[..., np.newaxis], s.shape, details)


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
    r"""Return the largest value V(t) of the linear program over whole stages 3 ≤ t ≤ T.

    V is defined in `active_fixed_stage`. The bound never exceeds `passive_maximum`, for any weights.
    The search tries every stage if T ≤ 20000, and uses a refined grid if T is larger.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = check_setting(gaps, rate, None, horizon)
    c = make_constraint(s.gaps, C, C_0, variant)

    def solve(eps: FloatArray | Schedule, last: float) -> tuple[FloatArray, float]:
        if last < FIRST_STAGE:
            return np.zeros(len(c.gaps)), 0.0
        t = _find_best_active_stage(c, eps, last)
        terms = c.gaps * solve_pulls(c, eps, np.asarray(t))
        return terms, t if (terms > 0).any() else 0.0

    return solve_each(s, c, solve, details)


def _find_best_active_stage(c: Constraint, rate: FloatArray | Schedule, horizon: float) -> float:
    def value(t: FloatArray) -> FloatArray:
        v: FloatArray = (c.gaps * solve_pulls(c, rate, t)).sum(axis=-1)
        return v

    return find_best_stage(value, horizon)


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
    r"""Return the alternative bound, which assumes that each look shows every arm (appendix A).

    The bound is that of a passive observer with p_i = 1 for all i: `passive_theorem`, or
    `passive_maximum` if `exact` is true. The alternative bound is better than the linear program if
    the gaps are very different. Forms: "proved"; if `exact` is false, also "printed" and "leading".

    Parameters
    ----------
    exact
        Whether to use the constraint of every arm at the best stage for this arm. A schedule requires
        `exact=True`.
    """
    exact = flag(exact, "exact")
    check_choice("form", form, *(("proved",) if exact else ("proved", "printed", "leading")))
    s = check_setting(gaps, rate, None, horizon, steady=not exact)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    every = np.ones(len(c.gaps))
    if exact or callable(s.rate):
        return evaluate_best_stages(s, c, every, details)
    q = s.rate[..., np.newaxis] * every
    return evaluate_single_stage(c, q, s.horizon[..., np.newaxis], 2.0, form, s.shape, details)


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
    r"""Return the lower bound for one best arm and K - 1 arms with equal gaps.

    .. math:: E R_T \ge \Big(\frac{(K-1) h(t)}{2\Delta} - \Delta \epsilon t\Big)_+, \qquad
              t = \min(T, \lceil (K-1)/(2\epsilon\Delta^2) \rceil)

    This bound is the value of the linear program at stage t, and is better than Theorem 2. Forms:
    "proved"; "printed", the limit (K-1)/Δ [log(1/ε) - log log(e/ε)] that the paper states (errata
    D12), infinite at ε = 0; "leading", the paper's maximum over k of (k-1)/Δ log((K-k)/(εK)),
    clipped at 0. The forms "printed" and "leading" are not bounds.

    Parameters
    ----------
    n_arms
        The number of arms K ≥ 2, including the best arm.
    gap
        The gap Δ > 0 of the other arms.
    """
    check_choice("form", form, "proved", "printed", "leading")
    n_arms = whole(n_arms, "n_arms", 2, 1_000_000)
    gap, C, C_0 = check_scale("gap", gap), check_scale("C", C), check_nonnegative("C_0", C_0)
    eps, last = check_rate(rate), check_horizon(horizon)
    shape = check_shapes(rate=eps, horizon=last)
    if form == "proved":
        c = _make_equal_constraint(n_arms, gap, C, C_0)
        turn = (n_arms - 1) / np.maximum(2 * eps * gap**2, 1e-300)
        t = np.minimum(last, np.maximum(np.ceil(turn), FIRST_STAGE))
        total = np.maximum(gap * ((n_arms - 1) * compute_needs(c, t)[..., 0] - eps * t), 0)
    else:
        log_inverse = np.where(eps > 0, -np.log(np.maximum(eps, 1e-323)), math.inf)
        log_inverse = np.broadcast_to(log_inverse, shape)
        if form == "printed":
            total = (n_arms - 1) / gap * np.maximum(_subtract_loglog(log_inverse), 0)
        else:
            k = np.arange(2, n_arms)
            curve = (k - 1) / gap * (log_inverse[..., np.newaxis] + np.log((n_arms - k) / n_arms))
            total = np.max(curve, axis=-1, initial=0.0)
    return to_scalar(total)


def _make_equal_constraint(n_arms: int, gap: float, C: float, C_0: float) -> Constraint:
    """Return the constraint of one of the K - 1 arms with equal gaps, without a list of all arms."""
    one = np.array([gap])
    others = (C_0 * (2 * n_arms - 3) * one, C * (n_arms / 2) / one)  # Σ_{j≠i} Δ + Δ_j and 1/(Δ + Δ_j)
    u = (C_0 * (n_arms - 1) * gap, C * (n_arms - 1) / gap)
    return Constraint(np.array([True]), one, one, u, one, others, 2 * one**2, "clip")


def _subtract_loglog(y: FloatArray) -> FloatArray:
    """Return log(1/ε) - log log(e/ε) as a function of y = log(1/ε) ≥ 0, which may be infinite."""
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
    r"""Return the value of the linear program over many stages at once, the best active bound.

    .. math:: \min \sum_i \Delta_i N_i \quad\text{with}\quad N_i \ge a_i(t_m) - F_i(t_m),\;
              F_i(t_{m+1}) \ge F_i(t_m),\; \sum_i F_i(t_m) \le \epsilon t_m

    Here N_i is the number of pulls of arm i, F_i(t) is the number of looks at arm i up to stage t,
    and t_1 < t_2 < … are the stages. The solver is SciPy's HiGHS. This bound is not in the paper.

    Parameters
    ----------
    rate, horizon
        The rate ε (or a schedule) and the horizon T, each a single number.
    stages
        The stages t_m. The default is a logarithmic grid of 40 stages, plus the stages at which
        `active_maximum` and `active_alternative` are attained.
    details
        Whether to return a `Bound` with the total, the terms Δ_i N_i per arm, and the stages t_m.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = check_setting(gaps, rate, None, horizon)
    if s.shape:
        got = f"{short_repr(rate)} and {short_repr(horizon)}"
        raise ValueError(f"rate and horizon must be single numbers, got {got}")
    c = make_constraint(s.gaps, C, C_0, variant)
    last = float(s.horizon)
    t = (
        _choose_stages(c, s.rate, last)
        if stages is None
        else np.unique(check_horizon(stages, "stages"))
    )
    t = t[t <= last]
    needs = compute_needs(c, t)
    n_pulls = np.zeros(len(c.gaps))
    needed = (needs > 0).any(axis=0)
    if needed.any():
        n_pulls[needed] = solve_periods(c.gaps[needed], needs[:, needed], count_looks(s.rate, t))
    terms = expand_arms(c, c.gaps * n_pulls)
    return make_result(terms.sum(), terms, t, details)


def _choose_stages(c: Constraint, rate: FloatArray | Schedule, horizon: float) -> FloatArray:
    if horizon < FIRST_STAGE or not len(c.gaps):
        return np.array([horizon])
    every = np.ones(len(c.gaps))
    if callable(rate):
        alone = find_best_stages_scheduled(rate, c, every, np.asarray(horizon))
    else:
        alone = find_best_stages(c, rate * every, np.asarray([horizon]))
    together = _find_best_active_stage(c, rate, horizon)
    return np.unique(np.concatenate((make_log_stages(FIRST_STAGE, horizon, 40), alone, [together])))


class Allocation(NamedTuple):
    """The solution of the linear program: its value, and the pulls and looks of each arm."""

    value: float | FloatArray
    n_pulls: FloatArray
    n_looks: FloatArray


@document_parameters
def linear_program(gaps: ArrayLike, needs: ArrayLike, n_looks: ArrayLike) -> Allocation:
    r"""Return the cheapest way to observe arm i `needs[i]` times with `n_looks` looks.

    .. math:: \min \sum_i \Delta_i n_i \quad\text{with}\quad n_i + f_i \ge a_i,\;
              \sum_i f_i \le \epsilon t,\; n, f \ge 0

    Here n_i is the number of pulls and f_i the number of looks of arm i, a_i is `needs[i]`, and εt is
    `n_looks`. The looks go to the arms with the largest gaps first (appendix A). If there are more
    looks than needs, the value is 0; the printed value is then negative (errata D11).

    Parameters
    ----------
    gaps
        The gaps, one per arm, non-negative. No gap has to be 0.
    needs
        The required observations a_i, non-negative, with arms on the last axis.
    n_looks
        The number of looks: one number, or one number per row of needs.
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
    f = _allocate_looks(delta, a, budget)
    n = a - f
    value = (delta * n).sum(axis=-1)
    return Allocation(to_scalar(value), n, f)


def _allocate_looks(gaps: FloatArray, needs: FloatArray, n_looks: FloatArray) -> FloatArray:
    """Return the number of looks at each arm; looks go to the arms with the largest gaps first."""
    order = np.argsort(-gaps, kind="stable")
    sorted_needs = needs[..., order]
    before = np.cumsum(sorted_needs, axis=-1) - sorted_needs
    f = np.empty(np.broadcast_shapes(needs.shape, (*n_looks.shape, 1)))
    f[..., order] = np.clip(n_looks[..., np.newaxis] - before, 0, sorted_needs)
    return f


def solve_pulls(c: Constraint, rate: FloatArray | Schedule, t: FloatArray) -> FloatArray:
    """Return the pulls of the sub-optimal arms in the linear program at the stages t."""
    n_looks = count_looks(rate, t)
    needs = np.broadcast_to(compute_needs(c, t), (*n_looks.shape, len(c.gaps)))
    return needs - _allocate_looks(c.gaps, needs, n_looks)


def compute_printed_pulls(c: Constraint, needs: FloatArray, n_looks: FloatArray) -> FloatArray:
    """Return the pulls according to the printed Lemma 3, which can be negative for arm k."""
    if not len(c.gaps):
        return np.zeros((*n_looks.shape, 0))
    order = np.argsort(c.gaps, kind="stable")
    a = np.broadcast_to(needs, (*n_looks.shape, len(order)))[..., order]
    tail = np.cumsum(a[..., ::-1], axis=-1)[..., ::-1] - a
    total = n_looks[..., np.newaxis]
    k = np.argmax(tail <= total, axis=-1)[..., np.newaxis]
    rank = np.arange(len(order))
    pulls = np.zeros_like(a)
    pulls[..., order] = np.where(rank < k, a, np.where(rank == k, a - total + tail, 0.0))
    return pulls


def solve_periods(gaps: FloatArray, needs: FloatArray, n_looks: FloatArray) -> FloatArray:
    """Solve the linear program of `active_multi_period`; return the pulls N_i.

    The program is solved in units in which needs and costs are about 1.
    """
    from scipy.optimize import linprog
    from scipy.sparse import bmat, eye, kron

    n_periods, n_arms = needs.shape
    units = needs.max(axis=0)  # the variables are N_i / units_i and F_i / units_i
    scale = float((gaps * units).sum())
    cover = bmat([[-kron(np.ones((n_periods, 1)), eye(n_arms)), -eye(n_periods * n_arms)]])
    budget = kron(eye(n_periods), (units / units.sum())[np.newaxis])
    budget = bmat([[np.zeros((n_periods, n_arms)), budget]])
    rows = [cover, budget]
    limits = [-(needs / units).ravel(), n_looks / units.sum()]
    if n_periods > 1:
        steps = kron(eye(n_periods - 1, n_periods) - eye(n_periods - 1, n_periods, 1), eye(n_arms))
        rows.append(bmat([[np.zeros(((n_periods - 1) * n_arms, n_arms)), steps]]))
        limits.append(np.zeros((n_periods - 1) * n_arms))
    cost = np.concatenate((gaps * units / scale, np.zeros(n_periods * n_arms)))
    solution = linprog(cost, bmat([[r] for r in rows]).tocsr(), np.concatenate(limits))
    if solution.status != 0:
        raise RuntimeError(f"the linear program was not solved: {solution.message}")
    pulls: FloatArray = units * np.maximum(solution.x[:n_arms], 0)
    return pulls
