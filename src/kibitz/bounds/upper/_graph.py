r"""An upper bound for UCB on a graph, where a pull of arm i shows arm j with probability Q_ij.

UCB pulls the arm with the largest :math:`\bar X_i+\sqrt{c\log t/O_i}`, where :math:`\bar X_i` is the
average of the O_i observations of arm i. Let arm i be sub-optimal. If UCB pulls arm i at stage t,
then the confidence bound of an optimal arm fails, the confidence bound of arm i fails, or the pull
*explores*: :math:`O_i<\ell_i(t)=4c\log t/\Delta_i^2`. There are three bounds on the exploring pulls.

Shared observations (`bound_exploration`)
    Count the exploring pulls of a set B of arms. The last of these pulls, of arm v, is preceded by
    fewer than ⌈ℓ_v⌉ pulls that show v. Remove these pulls and the last pull. None of the remaining
    pulls shows v. Repeat until no pulls remain. Each arm that this procedure selects shows none of
    the arms that were selected before it, so the selected arms contain no directed cycle of sure
    edges (Q_ij = 1). The number of exploring pulls of B is at most W(B), the largest sum of ⌈ℓ_v⌉
    over the subsets of B without such a cycle. Summation by parts over the gaps bounds the regret.
Optimal arms that show other arms (`bound_free_exploration`)
    If no confidence bound fails from stage t/4 to stage t, UCB has pulled optimal arms in all of
    these stages except for at most Σ_i ⌈ℓ_i(t)⌉. If each of these pulls shows arm j with probability
    at least q > 0, then arm j has been seen ℓ_j(t) times with high probability, and UCB does not
    explore arm j.
Cliques (`bound_cliques`)
    If the graph consists of disjoint cliques, all arms of a clique C have been observed equally
    often. UCB pulls the arm of C with the largest average. If arm j of C is worse than the best arm
    of C by d > 0, then after n observations arm j leads with probability at most exp(-n d²/(4σ²)).
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from kibitz._validation import invalid
from kibitz.bounds import concentration
from kibitz.bounds._bound import Result, bound, invert, make_result
from kibitz.bounds._checks import (
    FloatArray,
    Weights,
    check_gaps,
    check_horizon,
    check_one,
    check_rate,
    check_weights,
)
from kibitz.bounds._graph import check_shows
from kibitz.bounds.upper._ucb import check_exploration

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_EXACT_ARMS = 18  # W(B) is exact for strongly connected components of up to this many arms
MAX_EXHAUSTIVE_STAGE = 100_000  # failures are summed stage by stage up to this stage
MAX_CELLS = 4000  # `bound_free_exploration` groups the stages into at most this many cells
MAX_CELL_ARMS = 400_000  # the largest number of cells times arms


@bound("passive")
def ucb_graph(
    gaps: ArrayLike,
    shows: Any,
    horizon: ArrayLike | None = None,
    *,
    rate: float = 0.0,
    weights: Weights = None,
    exploration: float = 6.0,
    sd: float = 1.0,
    details: bool = False,
) -> Result:
    r"""Return an upper bound on UCB's regret on a graph (UCB-N of Caron et al.).

    .. math:: E R_T \le \sum_i\Delta_i + X + \Big(\Delta_{max}+\sum_i\Delta_i\Big)\sum_{t=2}^T f(t)

    The first sum is the cost of the first pulls. UCB may skip the first pull of an arm that it has
    already seen. f(t) is a bound on the probability that a confidence bound fails, and X bounds the
    cost of the pulls that explore. X is the smallest of three bounds. The first bound uses the fact
    that pulls of one arm show other arms: a clique of equally good arms costs as much as a single
    arm. The second bound uses the fact that optimal arms show other arms. This bound does not grow
    with T for arms that every optimal arm shows with positive probability. The third bound is for
    graphs of disjoint cliques. The argument is in `_graph.py`.

    Every arm must have a self-loop (Q_ii > 0). An arm with Q_ii < 1 needs 1/Q_ii times as many pulls,
    and its bound ignores what pulls of other arms show. The bound is at most :math:`T\Delta_{max}`.
    With ``details=True``, `terms` are bounds for each arm alone, so their sum can exceed the total.
    This bound is not in the paper.

    Parameters
    ----------
    rate
        The rate ε of passive looks, a single number.
    """
    delta = check_gaps(gaps)
    matrix = check_shows(shows, delta.size)
    if (matrix.diagonal() == 0).any():
        raise invalid("shows", "positive on the diagonal for UCB, which needs self-loops", shows)
    look_rates = check_one("rate", check_rate(rate)) * check_weights(weights, delta)
    c, power = check_exploration(exploration, sd)
    slopes = 4 * c * invert(delta) ** 2
    horizons = np.array(math.inf) if horizon is None else check_horizon(horizon)
    totals, terms = np.zeros(horizons.shape), np.zeros((*horizons.shape, delta.size))
    for index in np.ndindex(horizons.shape):
        totals[index], terms[index] = _bound_at(
            delta, matrix, look_rates, slopes, float(horizons[index]), power, sd
        )
    if horizon is not None:
        terms = np.minimum(terms, horizons[..., np.newaxis] * delta)
        totals = np.minimum(np.minimum(totals, terms.sum(axis=-1)), horizons * delta.max())
    return make_result(totals, terms, None, details)


def _bound_at(
    gaps: FloatArray,
    shows: "csr_array",
    look_rates: FloatArray,
    slopes: FloatArray,
    horizon: float,
    power: float,
    sd: float,
) -> tuple[float, FloatArray]:
    """Return the bound at one horizon, which may be infinite, and the bounds for each arm alone."""
    is_optimal = gaps == 0
    max_seen = 2 if look_rates.any() else 1  # most observations of an arm at one stage
    failures = sum_failures(2, horizon, power, max_seen)
    own = shows.diagonal()
    needs = np.zeros(gaps.size)
    needs[~is_optimal] = np.ceil(slopes[~is_optimal] * math.log(horizon)) / own[~is_optimal]
    needs_after_first = np.maximum(needs - 1, 0)
    shown_rates = shows[is_optimal].min(axis=0).toarray().ravel()
    if (own[~is_optimal] < 1).any():
        shown_rates = np.zeros(gaps.size)  # the number of exploring pulls has no sure limit
    free_needs = bound_free_exploration(
        shown_rates, look_rates, slopes, own, horizon, power, max_seen
    )
    is_free = free_needs < needs_after_first
    needs_alone = np.where(is_free, free_needs, needs_after_first)
    costs = [
        bound_exploration(gaps, needs_after_first, shows),
        float((gaps * needs_alone)[is_free].sum())
        + bound_exploration(gaps, np.where(is_free, 0.0, needs_after_first), shows),
    ]
    if not look_rates.any():
        costs.append(bound_cliques(gaps, needs_after_first, shows, sd))
    total = float(gaps.sum()) + min(costs) + (gaps.max() + float(gaps.sum())) * failures
    return total, gaps * np.where(is_optimal, 0.0, 1 + needs_alone + 2 * failures)


def _bound_failure(t: FloatArray, power: float, max_seen: int) -> FloatArray:
    """Return f(t), a bound on the probability that one confidence bound fails at stage t.

    The number of observations is at most n = t or 2t. f is the smallest of 1, the union bound over
    all numbers of observations, n t^(-a), and the union bound over blocks of ratio 2,
    (1 + log2 n) t^(-a/φ(2)), where a is `power` and φ is `kibitz.bounds.concentration.phi`.
    """
    n, log_t = max_seen * t, np.log(t)
    union = n * np.exp(-power * log_t)
    blocks = (1 + np.floor(np.log2(n))) * np.exp(-power / float(concentration.phi(2.0)) * log_t)
    return np.asarray(np.minimum(1.0, np.minimum(union, blocks)))


def sum_failures(first: ArrayLike, last: float, power: float, max_seen: int) -> Any:
    """Return an upper bound on Σ f(t) over the stages from `first` to `last`, which may be infinite.

    `_bound_failure` computes f(t). The sum is exact up to stage 10⁵. Beyond this stage, the bound is
    the sum up to infinity.
    """
    start = np.asarray(first, dtype=np.float64)
    stages = np.arange(1.0, min(last, MAX_EXHAUSTIVE_STAGE) + 1)
    sums = np.concatenate(([0.0], np.cumsum(_bound_failure(stages, power, max_seen))))
    index = np.minimum(start, stages.size + 1).astype(np.int64)
    total = np.maximum(sums[-1] - sums[index - 1], 0)
    if last > MAX_EXHAUSTIVE_STAGE:
        total = total + _sum_tail(np.maximum(start, MAX_EXHAUSTIVE_STAGE + 1.0), power, max_seen, 0)
    return total


def _sum_tail(start: FloatArray, power: float, max_seen: int, degree: int) -> FloatArray:
    """Return an upper bound on Σ t^degree f(t) over all stages from `start` on (degree 0 or 1).

    `_bound_failure` computes f(t). The bound is the first term plus an integral, because the terms
    (1 + log2 n) t^(degree - a/φ(2)) decrease from stage 10⁴ on. The bound is infinite if the integral
    diverges.
    """
    exponent = power / float(concentration.phi(2.0)) - degree
    if exponent <= 1 + 1e-6:
        return np.full(start.shape, math.inf)
    height, log_start = 1 + np.log2(max_seen * start), np.log(start)
    integral = height / (exponent - 1) + 1 / (math.log(2) * (exponent - 1) ** 2)
    return np.asarray(
        height * np.exp(-exponent * log_start) + integral * np.exp((1 - exponent) * log_start)
    )


# ---------------------------------------------------------------------- shared observations


def bound_exploration(gaps: FloatArray, counts: FloatArray, shows: "csr_array") -> float:
    """Return a bound on the cost of all pulls of arms i with fewer than counts[i] observations.

    The bound is Σ_k (Δ_(k) - Δ_(k-1)) W({i: Δ_i ≥ Δ_(k)}), where Δ_(k) are the distinct gaps, and the
    docstring of this module defines W. Arms with Q_ii < 1 are counted alone; for these arms,
    counts[i] is an expected number of pulls. W is additive over the strongly connected components of
    the sure edges. In a large component, W is replaced by a sum over disjoint cliques, because a set
    without a cycle has at most one arm of each clique.
    """
    from scipy.sparse.csgraph import connected_components

    arms = np.flatnonzero((gaps > 0) & (counts > 0))
    if not arms.size:
        return 0.0
    if math.inf in counts:
        return math.inf
    has_sure_loop = shows.diagonal()[arms] >= 1
    total = float((gaps * counts)[arms[~has_sure_loop]].sum())
    arms = arms[has_sure_loop]
    arms = arms[np.argsort(-gaps[arms], kind="stable")]
    sure_edges = shows[arms][:, arms] >= 1
    _, labels = connected_components(sure_edges, directed=True, connection="strong")
    order = np.argsort(labels, kind="stable")
    for component in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        own_gaps, own_counts = gaps[arms[component]], counts[arms[component]]
        if component.size == 1:
            total += float(own_gaps[0] * own_counts[0])
        elif component.size <= MAX_EXACT_ARMS:
            is_sure = sure_edges[component][:, component].toarray()
            total += _sum_by_parts(own_gaps, _find_largest_acyclic(is_sure, own_counts))
        else:
            for clique in _cover_by_cliques(sure_edges[component][:, component].tocsr()):
                total += _sum_by_parts(own_gaps[clique], np.maximum.accumulate(own_counts[clique]))
    return total


def _sum_by_parts(gaps: FloatArray, limits: FloatArray) -> float:
    """Return the largest Σ Δ_i n_i over all pulls n that satisfy the limits.

    For each k, the first k arms have at most limits[k-1] pulls in total. The gaps are in decreasing
    order, and the limits do not decrease.
    """
    return float((-np.diff(gaps, append=0.0) * limits).sum())


def _find_largest_acyclic(is_sure: NDArray[np.bool_], counts: FloatArray) -> FloatArray:
    """Return, for each k, the largest sum of counts over the acyclic subsets of the first k arms.

    Subsets are bit masks, in order of size. A set has no cycle if one of its arms shows no other arm
    of the set and the rest of the set has no cycle.
    """
    n_arms = counts.size
    masks = np.arange(1 << n_arms)
    sizes = np.bitwise_count(masks)
    by_size = np.split(np.argsort(sizes, kind="stable"), np.cumsum(np.bincount(sizes))[:-1])
    sums, is_acyclic = np.zeros(masks.size), np.zeros(masks.size, bool)
    is_acyclic[0] = True
    shown = [sum(1 << int(j) for j in np.flatnonzero(row) if j != i) for i, row in enumerate(is_sure)]
    for subsets in by_size[1:]:
        for i in range(n_arms):
            can_go = subsets[((subsets >> i) & 1 == 1) & (subsets & shown[i] == 0)]
            is_acyclic[can_go] |= is_acyclic[can_go ^ (1 << i)]
    for k in range(n_arms):
        sums[1 << k : 2 << k] = sums[: 1 << k] + counts[k]
    sums[~is_acyclic] = 0.0
    return np.maximum.accumulate([sums[1 << k : 2 << k].max() for k in range(n_arms)])


def _cover_by_cliques(sure: "csr_array") -> list[list[int]]:
    """Return a partition of the arms into cliques, in which all arms surely show each other.

    Each arm joins the first clique whose arms all show the arm and are shown by it.
    """
    mutual = sure.multiply(sure.T).tocsr()
    cliques: list[list[int]] = []
    clique_of = np.full(sure.shape[0], -1)
    for arm in range(sure.shape[0] - 1, -1, -1):  # small gaps first: they have large counts
        neighbours = mutual.indices[mutual.indptr[arm] : mutual.indptr[arm + 1]]
        joined_cliques, n_neighbours = np.unique(
            clique_of[neighbours[clique_of[neighbours] >= 0]], return_counts=True
        )
        is_full = [
            n == len(cliques[clique]) for clique, n in zip(joined_cliques, n_neighbours, strict=True)
        ]
        if any(is_full):
            clique_of[arm] = joined_cliques[is_full.index(True)]
            cliques[clique_of[arm]].insert(0, arm)
        else:
            clique_of[arm] = len(cliques)
            cliques.append([arm])
    return cliques


# ------------------------------------------------------------ optimal arms that show other arms


def bound_free_exploration(
    shown_rates: FloatArray,
    look_rates: FloatArray,
    slopes: FloatArray,
    own: FloatArray,
    horizon: float,
    power: float,
    max_seen: int,
) -> FloatArray:
    r"""Return a bound on the expected exploring pulls of each arm after its first pull.

    `shown_rates` holds q_j, the smallest probability with which an optimal arm shows arm j. The bound
    is infinite if neither optimal arms nor looks show arm j. For every stage τ, the bound is

    .. math:: \lceil\ell_j(\tau)\rceil - 1 + \sum_{\tau<t\le T}\min\Big\{1,
              P(Bin(m_t,q_j)<\ell_j(t)) + K\sum_{s=\lceil t/4\rceil}^tf(s)\Big\}, \qquad
              m_t=\Big\lfloor\tfrac34t-1-\sum_i\lceil\ell_i(t)\rceil\Big\rfloor_+ .

    The stages are grouped into cells, with an upper bound on the summand in each cell. With looks,
    the probability :math:`P(Bin(t-1,\epsilon p_j)<\ell_j(t))` can replace the summand. `own` holds
    Q_jj. If Q_jj < 1, ⌈ℓ_j(τ)⌉ is divided by Q_jj, and all q_j must be 0. An infinite
    horizon is replaced by a stage after which the first probability is below 10⁻³⁰⁰.
    """
    rates = 1 - (1 - shown_rates) * (1 - look_rates)
    result = np.full(slopes.shape, math.inf)
    arms = np.flatnonzero((slopes > 0) & (rates > 0))
    if not arms.size or horizon < 2:
        return result
    n_arms, q, arm_slopes = slopes.size, rates[arms], slopes[arms]
    end = horizon if horizon < math.inf else _find_end(q, arm_slopes, slopes)
    tail = 0.0
    if horizon == math.inf:  # the failure at stage s counts at the stages t ≤ 4s
        tail = 4 * n_arms * float(_sum_tail(np.asarray(end / 4), power, max_seen, 1))
    n_cells = int(np.clip(MAX_CELL_ARMS // arms.size, 200, MAX_CELLS))
    ends = np.unique(np.floor(np.geomspace(2.0, end, n_cells)))
    starts = np.concatenate(([2.0], ends[:-1] + 1))
    sizes, log_ends = ends - starts + 1, np.log(ends)
    needs = np.ceil(arm_slopes * log_ends[:, np.newaxis])
    all_needs = np.ceil(slopes * log_ends[:, np.newaxis]).sum(axis=1)
    n_trials = np.maximum(np.floor(0.75 * starts - 1 - all_needs), 0)
    failures = n_arms * sum_failures(np.ceil(starts / 4), end, power, max_seen)
    chances = bound_few_shows(needs, n_trials[:, np.newaxis], q) + failures[:, np.newaxis]
    if look_rates.any():
        looks_only = bound_few_shows(needs, starts[:, np.newaxis] - 1, look_rates[arms])
        chances = np.minimum(chances, looks_only)
    later = np.cumsum((sizes[:, np.newaxis] * np.minimum(chances, 1))[::-1], axis=0)[::-1]
    later = np.concatenate((later[1:], np.zeros((1, arms.size)))) + tail
    result[arms] = (needs / own[arms] - 1 + later).min(axis=0)
    return result


def bound_few_shows(needs: FloatArray, n_trials: FloatArray, q: FloatArray) -> FloatArray:
    """Return P(Bin(n, q) < needs) for whole needs ≥ 1; for large n, return a Chernoff bound."""
    needs, n, q = np.broadcast_arrays(needs, n_trials, q)
    chances = np.ones(needs.shape)
    is_exact = (n >= needs) & (n <= 1e9) & (q > 0)
    k = needs[is_exact]
    chances[is_exact] = betainc(n[is_exact] - k + 1, k, 1 - q[is_exact])
    is_large = (n > 1e9) & (n * q > needs)
    mean, k = (n * q)[is_large], needs[is_large]
    chances[is_large] = np.exp(-((mean - k) ** 2) / (2 * mean))
    return chances


def _find_end(q: FloatArray, arm_slopes: FloatArray, slopes: FloatArray) -> float:
    """Return a stage after which P(Bin(m_t, q_j) < ℓ_j(t)) < 10⁻³⁰⁰ for all arms j."""
    end = 1e6
    while True:
        log_end = math.log(end)
        n_trials = 0.75 * end - 1 - float(np.ceil(slopes * log_end).sum())
        is_large = n_trials * q >= 4 * (arm_slopes * log_end + 1) + 4000
        if is_large.all() and end >= 8 * float(slopes.sum()):
            return end
        end *= 2


# ---------------------------------------------------------------------- cliques


def bound_cliques(gaps: FloatArray, counts: FloatArray, shows: "csr_array", sd: float) -> float:
    """Return a bound on the cost of exploring pulls, and of pulls in the clique of an optimal arm.

    The bound is infinite unless the graph consists of disjoint cliques. `counts` holds ⌈ℓ_i⌉ - 1.
    """
    from scipy.sparse.csgraph import connected_components

    _, labels = connected_components(shows, directed=False)
    sizes = np.bincount(labels)
    if (shows.data < 1).any() or shows.nnz != (sizes**2).sum():
        return math.inf
    smallest = np.full(sizes.size, math.inf)
    np.minimum.at(smallest, labels, gaps)
    largest = np.zeros(sizes.size)
    np.maximum.at(largest, labels, counts)
    largest[smallest == 0] = 0.0
    excess = gaps - smallest[labels]
    with np.errstate(over="ignore"):
        n_wrong = 1 / np.expm1(np.where(excess > 0, excess**2 / (4 * sd**2), math.inf))
    return float((smallest * largest).sum() + (excess * n_wrong).sum())
