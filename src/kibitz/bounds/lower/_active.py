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
    setting = check_setting(gaps, rate, None, horizon)
    if form == "printed":
        constraint = make_constraint(setting.gaps, C, C_0, "printed")
        n_pulls = compute_printed_pulls(
            constraint,
            compute_needs(constraint, setting.horizon),
            count_looks(setting.rate, setting.horizon),
        )
    else:
        constraint = make_constraint(setting.gaps, C, C_0)
        n_pulls = solve_pulls(constraint, setting.rate, setting.horizon)
    return sum_regret(constraint, n_pulls, setting.horizon[..., np.newaxis], setting.shape, details)


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
    setting = check_setting(gaps, rate, None, horizon)
    constraint = make_constraint(setting.gaps, C, C_0, variant)

    def solve(eps: FloatArray | Schedule, horizon_value: float) -> tuple[FloatArray, float]:
        if horizon_value < FIRST_STAGE:
            return np.zeros(len(constraint.gaps)), 0.0
        t = _find_best_active_stage(constraint, eps, horizon_value)
        terms = constraint.gaps * solve_pulls(constraint, eps, np.asarray(t))
        return terms, t if (terms > 0).any() else 0.0

    return solve_each(setting, constraint, solve, details)


def _find_best_active_stage(
    constraint: Constraint, rate: FloatArray | Schedule, horizon: float
) -> float:
    def compute_regret(t: FloatArray) -> FloatArray:
        total_regret: FloatArray = (constraint.gaps * solve_pulls(constraint, rate, t)).sum(axis=-1)
        return total_regret

    return find_best_stage(compute_regret, horizon)


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

    The bound equals the bound of a passive observer with p_i = 1 for all i: `passive_theorem`, or
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
    setting = check_setting(gaps, rate, None, horizon, reject_schedule=not exact)
    constraint = make_constraint(setting.gaps, C, C_0, "printed" if form == "printed" else "clip")
    unit_weights = np.ones(len(constraint.gaps))
    if exact or callable(setting.rate):
        return evaluate_best_stages(setting, constraint, unit_weights, details)
    look_rates = setting.rate[..., np.newaxis] * unit_weights
    return evaluate_single_stage(
        constraint, look_rates, setting.horizon[..., np.newaxis], 2.0, form, setting.shape, details
    )


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
    eps, horizons = check_rate(rate), check_horizon(horizon)
    shape = check_shapes(rate=eps, horizon=horizons)
    if form == "proved":
        constraint = _make_equal_constraint(n_arms, gap, C, C_0)
        turning_stage = (n_arms - 1) / np.maximum(2 * eps * gap**2, 1e-300)
        t = np.minimum(horizons, np.maximum(np.ceil(turning_stage), FIRST_STAGE))
        total = np.maximum(gap * ((n_arms - 1) * compute_needs(constraint, t)[..., 0] - eps * t), 0)
    else:
        log_inverse = np.where(eps > 0, -np.log(np.maximum(eps, 1e-323)), math.inf)
        log_inverse = np.broadcast_to(log_inverse, shape)
        if form == "printed":
            total = (n_arms - 1) / gap * np.maximum(_subtract_loglog(log_inverse), 0)
        else:
            k = np.arange(2, n_arms)
            regret_curve = (
                (k - 1) / gap * (log_inverse[..., np.newaxis] + np.log((n_arms - k) / n_arms))
            )
            total = np.max(regret_curve, axis=-1, initial=0.0)
    return to_scalar(total)


def _make_equal_constraint(n_arms: int, gap: float, C: float, C_0: float) -> Constraint:
    """Return the constraint of a single sub-optimal arm, if all K - 1 sub-optimal gaps are equal."""
    gap_array = np.array([gap])
    other_sums = (
        C_0 * (2 * n_arms - 3) * gap_array,
        C * (n_arms / 2) / gap_array,
    )  # Σ_{j≠i} Δ + Δ_j and 1/(Δ + Δ_j)
    u = (C_0 * (n_arms - 1) * gap, C * (n_arms - 1) / gap)
    return Constraint(
        np.array([True]), gap_array, gap_array, u, gap_array, other_sums, 2 * gap_array**2, "clip"
    )


def _subtract_loglog(y: FloatArray) -> FloatArray:
    """Return log(1/ε) - log log(e/ε) as a function of y = log(1/ε) ≥ 0, which may be infinite."""
    finite_y = np.where(np.isfinite(y), y, 0.0)
    return np.where(np.isfinite(y), finite_y - np.log1p(finite_y), math.inf)


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
    setting = check_setting(gaps, rate, None, horizon)
    if setting.shape:
        values = f"{short_repr(rate)} and {short_repr(horizon)}"
        raise ValueError(f"rate and horizon must be single numbers, got {values}")
    constraint = make_constraint(setting.gaps, C, C_0, variant)
    horizon_value = float(setting.horizon)
    t = (
        _choose_stages(constraint, setting.rate, horizon_value)
        if stages is None
        else np.unique(check_horizon(stages, "stages"))
    )
    t = t[t <= horizon_value]
    needs = compute_needs(constraint, t)
    n_pulls = np.zeros(len(constraint.gaps))
    is_needed = (needs > 0).any(axis=0)
    if is_needed.any():
        n_pulls[is_needed] = solve_periods(
            constraint.gaps[is_needed], needs[:, is_needed], count_looks(setting.rate, t)
        )
    terms = expand_arms(constraint, constraint.gaps * n_pulls)
    return make_result(terms.sum(), terms, t, details)


def _choose_stages(constraint: Constraint, rate: FloatArray | Schedule, horizon: float) -> FloatArray:
    if horizon < FIRST_STAGE or not len(constraint.gaps):
        return np.array([horizon])
    unit_weights = np.ones(len(constraint.gaps))
    if callable(rate):
        stages_by_arm = find_best_stages_scheduled(
            rate, constraint, unit_weights, np.asarray(horizon)
        )
    else:
        stages_by_arm = find_best_stages(constraint, rate * unit_weights, np.asarray([horizon]))
    joint_stage = _find_best_active_stage(constraint, rate, horizon)
    return np.unique(
        np.concatenate((make_log_stages(FIRST_STAGE, horizon, 40), stages_by_arm, [joint_stage]))
    )


class Allocation(NamedTuple):
    """The solution of the linear program: its value, and the pulls and looks of each arm."""

    value: float | FloatArray
    n_pulls: FloatArray
    n_looks: FloatArray


@document_parameters
def linear_program(gaps: ArrayLike, needs: ArrayLike, n_looks: ArrayLike) -> Allocation:
    r"""Return the cheapest pulls and looks that observe every arm i at least `needs[i]` times.

    .. math:: \min \sum_i \Delta_i n_i \quad\text{with}\quad n_i + f_i \ge a_i,\;
              \sum_i f_i \le \epsilon t,\; n, f \ge 0

    Here n_i is the number of pulls and f_i the number of looks of arm i, a_i is `needs[i]`, and εt is
    `n_looks`, the largest number of looks. The looks go to the arms with the largest gaps first
    (appendix A). If there are more looks than needs, the value is 0; the printed value is then
    negative (errata D11).

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
    required_observations = check_array(
        "needs", needs, condition, lambda x: (x >= 0) & (x <= 1e200), min_size=0
    )
    if required_observations.shape[-1:] != delta.shape:
        raise invalid("needs", condition, needs)
    budget = check_array("n_looks", n_looks, "≥ 0", lambda x: x >= 0, min_size=0)
    check_shapes(needs=required_observations[..., 0], n_looks=budget)
    looks = _allocate_looks(delta, required_observations, budget)
    pulls = required_observations - looks
    value = (delta * pulls).sum(axis=-1)
    return Allocation(to_scalar(value), pulls, looks)


def _allocate_looks(gaps: FloatArray, needs: FloatArray, n_looks: FloatArray) -> FloatArray:
    """Return the number of looks at each arm; looks go to the arms with the largest gaps first."""
    order = np.argsort(-gaps, kind="stable")
    sorted_needs = needs[..., order]
    needs_before = np.cumsum(sorted_needs, axis=-1) - sorted_needs
    looks = np.empty(np.broadcast_shapes(needs.shape, (*n_looks.shape, 1)))
    looks[..., order] = np.clip(n_looks[..., np.newaxis] - needs_before, 0, sorted_needs)
    return looks


def solve_pulls(constraint: Constraint, rate: FloatArray | Schedule, t: FloatArray) -> FloatArray:
    """Return the pulls of the sub-optimal arms in the linear program at the stages t."""
    n_looks = count_looks(rate, t)
    needs = np.broadcast_to(compute_needs(constraint, t), (*n_looks.shape, len(constraint.gaps)))
    return needs - _allocate_looks(constraint.gaps, needs, n_looks)


def compute_printed_pulls(
    constraint: Constraint, needs: FloatArray, n_looks: FloatArray
) -> FloatArray:
    """Return the pulls N_i of the printed Lemma 3.

    The pulls of arm k, which `active_fixed_stage` defines, can be negative.
    """
    if not len(constraint.gaps):
        return np.zeros((*n_looks.shape, 0))
    order = np.argsort(constraint.gaps, kind="stable")
    required = np.broadcast_to(needs, (*n_looks.shape, len(order)))[..., order]
    later_needs = np.cumsum(required[..., ::-1], axis=-1)[..., ::-1] - required
    budget = n_looks[..., np.newaxis]
    k = np.argmax(later_needs <= budget, axis=-1)[..., np.newaxis]
    rank = np.arange(len(order))
    pulls = np.zeros_like(required)
    pulls[..., order] = np.where(
        rank < k, required, np.where(rank == k, required - budget + later_needs, 0.0)
    )
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
    need_rows = bmat([[-kron(np.ones((n_periods, 1)), eye(n_arms)), -eye(n_periods * n_arms)]])
    look_rows = kron(eye(n_periods), (units / units.sum())[np.newaxis])
    look_rows = bmat([[np.zeros((n_periods, n_arms)), look_rows]])
    rows = [need_rows, look_rows]
    limits = [-(needs / units).ravel(), n_looks / units.sum()]
    if n_periods > 1:
        monotone_rows = kron(
            eye(n_periods - 1, n_periods) - eye(n_periods - 1, n_periods, 1), eye(n_arms)
        )
        rows.append(bmat([[np.zeros(((n_periods - 1) * n_arms, n_arms)), monotone_rows]]))
        limits.append(np.zeros((n_periods - 1) * n_arms))
    cost = np.concatenate((gaps * units / scale, np.zeros(n_periods * n_arms)))
    solution = linprog(cost, bmat([[r] for r in rows]).tocsr(), np.concatenate(limits))
    if solution.status != 0:
        raise RuntimeError(
            f"the linear program was not solved: {solution.message}; pass fewer stages"
        )
    pulls: FloatArray = units * np.maximum(solution.x[:n_arms], 0)
    return pulls
