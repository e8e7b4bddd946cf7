"""The linear programs of the active bounds: the cheapest way to see enough of every arm."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kibitz import _validation as validate
from kibitz.bounds.bound import MOST, FloatArray, check_array, check_shapes, plain
from kibitz.bounds.constraint import Constraint, needs_at
from kibitz.bounds.stages import Schedule, free_looks


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
    condition = "a list of numbers from 0 to 1e50"
    delta = check_array("gaps", gaps, condition, lambda x: (x >= 0) & (x <= MOST))
    if delta.ndim != 1:
        raise validate.refused("gaps", condition, gaps)
    condition = "numbers from 0 to 1e200, one per arm"
    a = check_array("needs", needs, condition, lambda x: (x >= 0) & (x <= 1e200), least=0)
    if a.shape[-1:] != delta.shape:
        raise validate.refused("needs", condition, needs)
    budget = check_array("n_looks", n_looks, "≥ 0", lambda x: x >= 0, least=0)
    check_shapes(needs=a[..., 0], n_looks=budget)
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
