"""Lower bounds for an active observer that pulls the arms up to k and looks at the arms after k.

The arms are in order of increasing gap. The bounds are Theorem 2 (`active_theorem`) and the bound
that its proof gives before the stages are replaced by a closed form (`active_chain`). The argument is
explained in `kibitz.bounds.lower`.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.bounds._bound import Result, bound
from kibitz.bounds._checks import FloatArray, Rate, Schedule, check_choice, check_setting
from kibitz.bounds.lower._constraint import (
    C_0_UCB1,
    C_UCB1,
    FIRST_STAGE,
    Constraint,
    compute_h,
    compute_needs,
    count_looks,
    make_constraint,
    make_log_stages,
    solve_each,
)


@bound()
def active_theorem(
    gaps: ArrayLike,
    rate: ArrayLike,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    form: str = "proved",
    details: bool = False,
) -> Result:
    r"""Return the lower bound of Theorem 2, in which all looks go to the arms after some arm k.

    .. math:: E R_T \ge \max_k \sum_{i=2}^k \frac{h_i(\lfloor t_k \rfloor)}{2 \Delta_i},
              \qquad t_k = \frac{1}{\epsilon} \sum_{j>k} \frac{1}{2\Delta_j^2}

    Arms are in order of increasing gap. The maximum is over the k with t_k ≤ T for which the looks up
    to stage t_k do not cover the observations that the arms after k need. (The mean of h_j over the
    arms after k, weighted by 1/Δ_j², is then at least 1; errata D10.) With fewer than two sub-optimal
    arms there is no such k, and the bound is 0. `active_chain` applies the same argument
    at the best stages.

    Forms: "proved"; "printed", which is twice as large (errata D9), has the printed h_i, is not
    clipped, and is the maximum over the k for which the looks cover the needs at all stages after T
    (0 if there is no such k); "leading", without the loglog and η terms and clipped at 0, which is
    not a bound.
    """
    check_choice("form", form, "proved", "printed", "leading")
    setting = check_setting(gaps, rate, None, horizon, reject_schedule=True)
    constraint = make_constraint(setting.gaps, C, C_0, "printed" if form == "printed" else "clip")
    order = np.argsort(constraint.gaps, kind="stable")
    tail_sums = _sum_tails(1 / (2 * constraint.gaps[order] ** 2))
    choose_terms = {"proved": _split_proved, "printed": _split_printed, "leading": _split_leading}[
        form
    ]

    def solve(eps: FloatArray | Schedule, horizon_value: float) -> tuple[FloatArray, float]:
        t = tail_sums / np.maximum(count_looks(eps, np.asarray(1.0)), 1e-280)
        return choose_terms(constraint, order, t, eps, horizon_value)

    return solve_each(setting, constraint, solve, details)


def _sum_tails(values: FloatArray) -> FloatArray:
    """Return Σ_{j>k} values[j] for each k except the last, with arms in order of gap."""
    tail_sums: FloatArray = np.cumsum(values[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    return tail_sums


def _choose_split(
    order: NDArray[np.intp], values: FloatArray, is_allowed: NDArray[np.bool_], t: FloatArray
) -> tuple[FloatArray, float]:
    """Return the terms and the stage of the allowed k with the largest Σ_{i≤k} values[k, i].

    `order` lists the arms by gap, and `t` holds the stage of each k.
    """
    terms = np.zeros(len(order))
    if not is_allowed.any():
        return terms, 0.0
    is_up_to_k = np.tri(len(is_allowed), len(order), dtype=bool)
    totals = np.where(is_allowed, np.where(is_up_to_k, values, 0.0).sum(axis=-1), -np.inf)
    k = int(np.argmax(totals))
    terms[order] = np.where(is_up_to_k[k], values[k], 0.0)
    return terms, float(t[k]) if totals[k] > 0 else 0.0


def _split_proved(
    constraint: Constraint,
    order: NDArray[np.intp],
    t: FloatArray,
    rate: FloatArray | Schedule,
    horizon: float,
) -> tuple[FloatArray, float]:
    stage = np.maximum(np.floor(np.minimum(t, horizon)), 1.0)
    needs = compute_needs(constraint, stage)[:, order]
    is_uncovered = np.diagonal(_sum_tails(needs)) >= count_looks(rate, stage)
    return _choose_split(order, constraint.gaps[order] * needs, (t <= horizon) & is_uncovered, stage)


def _split_printed(
    constraint: Constraint,
    order: NDArray[np.intp],
    t: FloatArray,
    rate: FloatArray | Schedule,
    horizon: float,
) -> tuple[FloatArray, float]:
    later_stages = np.geomspace(horizon + 1, 1e18, 500)
    is_covered = (
        _sum_tails(compute_needs(constraint, later_stages)[:, order])
        <= count_looks(rate, later_stages)[:, np.newaxis]
    ).all(axis=0)
    stage = np.clip(t, 1 + 1e-9, 1e280)
    values = compute_h(constraint, stage[:, np.newaxis])[:, order] / constraint.gaps[order]
    return _choose_split(order, values, is_covered & (t > 1), stage)


def _split_leading(
    constraint: Constraint,
    order: NDArray[np.intp],
    t: FloatArray,
    rate: FloatArray | Schedule,
    horizon: float,
) -> tuple[FloatArray, float]:
    stage = np.minimum(t, horizon)
    leading_terms = np.log(
        np.maximum(stage[:, np.newaxis] * constraint.x / (2 * constraint.v[1]), 1)
    ) / (2 * constraint.gaps)
    return _choose_split(order, leading_terms[:, order], t > 0, stage)


@bound()
def active_chain(
    gaps: ArrayLike,
    rate: Rate,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    details: bool = False,
) -> Result:
    r"""Return the bound in the proof of Theorem 2 that uses the exact stages s_k (no closed form).

    .. math:: E R_T \ge \max_{2 \le k < K} \sum_{i=2}^k \frac{h_i(s_k)}{2\Delta_i}, \qquad
              s_k = \max\{t \le T : \sum_{j>k} a_j(t) > \epsilon t\}

    The bound lies between `active_theorem` and `active_maximum`.
    """
    setting = check_setting(gaps, rate, None, horizon)
    constraint = make_constraint(setting.gaps, C, C_0)
    order = np.argsort(constraint.gaps, kind="stable")

    def solve(eps: FloatArray | Schedule, horizon_value: float) -> tuple[FloatArray, float]:
        if horizon_value < FIRST_STAGE or len(order) < 2:
            return np.zeros(len(order)), 0.0
        t = _find_last_uncovered(constraint, order, eps, horizon_value)
        values = constraint.gaps[order] * compute_needs(constraint, np.maximum(t, 1.0))[:, order]
        return _choose_split(order, values, t > 0, t)

    return solve_each(setting, constraint, solve, details)


def _find_last_uncovered(
    constraint: Constraint, order: NDArray[np.intp], rate: FloatArray | Schedule, horizon: float
) -> FloatArray:
    """Return the stage s_k of `active_chain` for each k, or 0 if there is no such stage.

    The search finds the last stage of a logarithmic grid at which the looks do not cover the needs.
    Bisection between this grid stage and the next refines the result. Every stage at which the looks
    do not cover the needs gives a valid bound, even if it is not the last such stage.
    """

    def is_uncovered(t: FloatArray) -> NDArray[np.bool_]:
        return (
            _sum_tails(compute_needs(constraint, t)[..., order])
            > count_looks(rate, t)[..., np.newaxis]
        )

    grid = make_log_stages(FIRST_STAGE, horizon, 2000)
    uncovered_on_grid = is_uncovered(grid)
    last_index = len(grid) - 1 - np.argmax(uncovered_on_grid[::-1], axis=0)
    low, high = grid[last_index], grid[np.minimum(last_index + 1, len(grid) - 1)]
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        is_uncovered_at_middle = np.diagonal(is_uncovered(middle))
        low, high = (
            np.where(is_uncovered_at_middle, middle, low),
            np.where(is_uncovered_at_middle, high, middle),
        )
    low = np.where(np.diagonal(is_uncovered(high)), high, low)
    return np.where(uncovered_on_grid.any(axis=0), low, 0.0)
