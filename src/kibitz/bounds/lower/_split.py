"""Lower bounds for an active observer by a split of the arms: looks after k, pulls up to k.

Theorem 2, and what its proof gives before its stages are replaced by a closed form. What
is proved, and for whom, is told in `kibitz.bounds.lower`.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.bounds._bound import Result, bound, make_result
from kibitz.bounds._checks import FloatArray, Rate, Schedule, check_choice, check_setting
from kibitz.bounds.lower._constraint import (
    C_0_UCB1,
    C_UCB1,
    FIRST_STAGE,
    Constraint,
    all_arms,
    each_place,
    free_looks,
    h_at,
    log_stages,
    make_constraint,
    needs_at,
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
    r"""Theorem 2: free looks for the arms after k, pulls for the arms up to k.

    .. math:: E R_T \ge \max_k \sum_{i=2}^k \frac{h_i(\lfloor t_k \rfloor)}{2 \Delta_i},
              \qquad t_k = \frac{1}{\epsilon} \sum_{j>k} \frac{1}{2\Delta_j^2}

    over the k for which t_k ≤ T and the looks up to then do not cover what the arms after k
    need (the mean of their h_j, weighted by 1/Δ_j², is at least 1; errata D10). There is no
    such k with fewer than two sub-optimal arms. Forms: "proved"; "printed" (twice the factor,
    errata D9, with the printed h_i and no clip; the largest over the k for which the looks
    cover the needs at all stages after T; 0 if there is none); "leading" (without the loglog
    and η terms, clipped; no bound).

    `active_chain` is the same argument at the best stages.
    """
    check_choice("form", form, "proved", "printed", "leading")
    s = check_setting(gaps, rate, None, horizon, steady=True)
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
    return make_result(full.sum(axis=-1), full, stages, details)


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
    c: Constraint, order: NDArray[np.intp], t: FloatArray, rate: FloatArray | Schedule, horizon: float
) -> tuple[FloatArray, float]:
    stage = np.maximum(np.floor(np.minimum(t, horizon)), 1.0)
    needs = needs_at(c, stage)[:, order]
    uncovered = np.diagonal(_tails(needs)) >= free_looks(rate, stage)
    return _best_split(order, c.gaps[order] * needs, (t <= horizon) & uncovered, stage)


def _printed_split(
    c: Constraint, order: NDArray[np.intp], t: FloatArray, rate: FloatArray | Schedule, horizon: float
) -> tuple[FloatArray, float]:
    after = np.geomspace(horizon + 1, 1e18, 500)
    covered = (_tails(needs_at(c, after)[:, order]) <= free_looks(rate, after)[:, np.newaxis]).all(
        axis=0
    )
    stage = np.clip(t, 1 + 1e-9, 1e280)
    values = h_at(c, stage[:, np.newaxis])[:, order] / c.gaps[order]
    return _best_split(order, values, covered & (t > 1), stage)


def _leading_split(
    c: Constraint, order: NDArray[np.intp], t: FloatArray, rate: FloatArray | Schedule, horizon: float
) -> tuple[FloatArray, float]:
    stage = np.minimum(t, horizon)
    leading = np.log(np.maximum(stage[:, np.newaxis] * c.x / (2 * c.v[1]), 1)) / (2 * c.gaps)
    return _best_split(order, leading[:, order], t > 0, stage)


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
    r"""What the proof of Theorem 2 gives before its stages are replaced by a closed form.

    .. math:: E R_T \ge \max_{2 \le k < K} \sum_{i=2}^k \frac{h_i(s_k)}{2\Delta_i}, \qquad
              s_k = \max\{t \le T : \sum_{j>k} a_j(t) > \epsilon t\}

    Between `active_theorem` and `active_maximum`.
    """
    s = check_setting(gaps, rate, None, horizon)
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
    return make_result(full.sum(axis=-1), full, stages, details)


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
