r"""Lower bounds on a graph, where a pull of arm i shows arm j with probability Q_ij.

A sub-logarithmic algorithm must observe arm j at least a_j(t) times up to stage t
(`kibitz.bounds.lower`). The expected observations of arm j are :math:`\sum_i Q_{ij} E N_i(t)` plus
the looks, so a linear program finds the cheapest pulls. The algorithms must be sub-logarithmic on
every problem with this graph. If the graph is only weakly observable, no algorithm is
sub-logarithmic: its regret is at least C* log T, and for small gaps C* grows like the inverse square
of the gap. The bound `graph_worst_case` has a different proof and holds for all algorithms.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import lambertw

from kibitz._validation import short_repr
from kibitz.bounds._bound import Result, bound, document_parameters, make_result, to_scalar
from kibitz.bounds._checks import (
    FloatArray,
    Rate,
    Schedule,
    Setting,
    Weights,
    check_choice,
    check_horizon,
    check_scale,
    check_setting,
)
from kibitz.bounds._graph import check_shows, count_showing, solve_cover
from kibitz.bounds.lower._constraint import (
    C_0_UCB1,
    C_UCB1,
    FIRST_STAGE,
    Constraint,
    compute_needs,
    count_looks,
    expand_arms,
    find_best_stages,
    iterate_settings,
    make_constraint,
    make_log_stages,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_STAGES = 40  # the size of the default grid of `graph_multi_period`
MAX_ENTRIES = 2_000_000  # a large graph gets a smaller grid, to limit the size of the linear program
MAX_PAIR_ARMS = 300  # `graph_worst_case` tries all pairs of this many arms


@bound()
def graph_fixed_stage(
    gaps: ArrayLike,
    shows: Any,
    horizon: ArrayLike,
    *,
    rate: Rate = 0.0,
    weights: Weights = None,
    observer: str = "passive",
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    variant: str = "clip",
    details: bool = False,
) -> Result:
    r"""Return the lower bound on a graph that uses the constraints only at the horizon.

    .. math:: E R_T \ge \min\Big\{\sum_i \Delta_i n_i :\ \sum_i Q_{ij} n_i + f_j \ge a_j(T)
              \text{ for every sub-optimal arm } j,\ \sum_i n_i \le T,\ n \ge 0\Big\}

    Here :math:`f_j = \epsilon p_j T` for a passive observer. For an active observer, the f_j are
    variables with :math:`\sum_j f_j \le \epsilon T`. If Q is the identity matrix, this bound equals
    Lemma 2 (`passive_fixed_stage`) or Lemma 3 (`active_fixed_stage`) of the paper. The bound is
    infinite if no pulls satisfy the constraints; no algorithm is then sub-logarithmic with these
    constants on this graph. The solver is SciPy's HiGHS. This bound is not in the paper.
    """
    program = _read_program(gaps, shows, rate, weights, observer, horizon, C, C_0, variant)
    setting = program.setting
    terms = np.zeros((*setting.shape, setting.gaps.size))
    for index, rate_value, horizon_value in iterate_settings(setting):
        terms[index] = _solve_program(program, rate_value, np.array([horizon_value]))
    stages = np.broadcast_to(setting.horizon, setting.shape)
    return make_result(terms.sum(axis=-1), terms, stages, details)


@bound()
def graph_multi_period(
    gaps: ArrayLike,
    shows: Any,
    horizon: int,
    *,
    rate: float | Schedule = 0.0,
    weights: Weights = None,
    observer: str = "passive",
    stages: ArrayLike | None = None,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    variant: str = "clip",
    details: bool = False,
) -> Result:
    r"""Return the value of the linear program over many stages at once, the best bound on a graph.

    The pulls n_i(t) up to stage t must satisfy the constraints of `graph_fixed_stage` at all stages
    t_1 < t_2 < … at once, and may not decrease with t. The bound is therefore at least as large as
    `graph_fixed_stage` at each of these stages. If Q is the identity matrix and the observer is
    passive, the bound equals `passive_maximum`. This bound is not in the paper.

    Parameters
    ----------
    rate, horizon
        The rate ε (or a schedule) and the horizon T, each a single number.
    stages
        The stages t_m. The default is a logarithmic grid of up to 40 stages, plus the best stage of
        each arm if only optimal arms are pulled.
    details
        Whether to return a `Bound` with the total, the terms Δ_i n_i(T) per arm, and the stages t_m.
    """
    program = _read_program(gaps, shows, rate, weights, observer, horizon, C, C_0, variant)
    setting = program.setting
    if setting.shape:
        values = f"{short_repr(rate)} and {short_repr(horizon)}"
        raise ValueError(f"rate and horizon must be single numbers, got {values}")
    horizon_value = float(setting.horizon)
    t = (
        _choose_stages(program, horizon_value)
        if stages is None
        else np.unique(check_horizon(stages, "stages"))
    )
    t = t[t <= horizon_value]
    terms = np.zeros(setting.gaps.size)
    if t.size:
        terms = _solve_program(program, setting.rate, t)
    return make_result(terms.sum(), terms, t, details)


class Program(NamedTuple):
    """The checked arguments of a linear program."""

    setting: Setting
    matrix: "csr_array"  # Q
    constraint: Constraint
    is_active: bool


def _read_program(
    gaps: ArrayLike,
    shows: Any,
    rate: Rate,
    weights: Weights,
    observer: str,
    horizon: ArrayLike,
    C: float,
    C_0: float,
    variant: str,
) -> Program:
    check_choice("variant", variant, "clip", "sharp")
    check_choice("observer", observer, "passive", "active")
    setting = check_setting(gaps, rate, weights, horizon)
    return Program(
        setting,
        check_shows(shows, setting.gaps.size),
        make_constraint(setting.gaps, C, C_0, variant),
        observer == "active",
    )


def _solve_program(program: Program, rate: FloatArray | Schedule, stages: FloatArray) -> FloatArray:
    """Return the terms Δ_i n_i(T) of all arms; they are infinite if no pulls satisfy the constraints.

    The variables are the pulls of arm i between two successive stages.
    """
    from scipy.sparse import eye_array, kron, vstack

    gaps, n_stages = program.setting.gaps, stages.size
    needs = expand_arms(program.constraint, compute_needs(program.constraint, stages))
    n_looks = count_looks(rate, stages)
    is_before = np.triu(np.ones((n_stages, n_stages)))  # increment l counts at stage m ≥ l
    matrix = kron(is_before, program.matrix, format="csr")
    costs = np.tile(gaps, n_stages)
    budgets = [
        (np.arange((m + 1) * gaps.size), float(stage)) for m, stage in enumerate(stages.tolist())
    ]
    if program.is_active:
        matrix = vstack([matrix, kron(is_before, eye_array(gaps.size))], format="csr")
        costs = np.concatenate((costs, np.zeros(costs.size)))
        budgets += [
            (n_stages * gaps.size + rows, float(looks))
            for (rows, _), looks in zip(budgets, n_looks, strict=True)
        ]
    else:
        needs = needs - n_looks[:, np.newaxis] * program.setting.weights
    pulls = solve_cover(costs, matrix, needs.ravel(), budgets)
    if pulls is None:
        return np.where(gaps > 0, math.inf, 0.0)
    terms: FloatArray = gaps * pulls[: n_stages * gaps.size].reshape(n_stages, -1).sum(axis=0)
    return terms


def _choose_stages(program: Program, horizon: float) -> FloatArray:
    constraint, setting = program.constraint, program.setting
    if horizon < FIRST_STAGE or not len(constraint.gaps):
        return np.array([horizon])
    n_entries = program.matrix.nnz + program.is_active * setting.gaps.size
    n_stages = int(np.clip(math.sqrt(2 * MAX_ENTRIES / max(n_entries, 1)), 2, MAX_STAGES))
    free_rates = np.asarray(program.matrix[setting.gaps == 0].max(axis=0).toarray()).ravel()
    if not (callable(setting.rate) or program.is_active):
        free_rates = free_rates + setting.rate * setting.weights
    stages_by_arm = np.unique(
        find_best_stages(constraint, free_rates[constraint.suboptimal], np.asarray([horizon]))
    )
    if stages_by_arm.size > n_stages:
        stages_by_arm = stages_by_arm[:: -(-stages_by_arm.size // n_stages)]
    grid = make_log_stages(FIRST_STAGE, horizon, n_stages)
    return np.unique(np.concatenate((grid, stages_by_arm)))


@document_parameters
def graph_worst_case(shows: Any, horizon: ArrayLike, *, gap: float = 1.0) -> float | FloatArray:
    r"""Return a lower bound on the largest regret of any algorithm over all problems on a graph.

    On a weakly observable graph, some arm neither shows itself nor is shown by all other arms. An
    algorithm must then pull bad arms to compare two good arms. If all arms that show one of the good
    arms have the gap D, then for every algorithm there is a problem with regret at least

    .. math:: \max_{0<\delta\le D} \frac{D}{\kappa\delta^2}
              W\Big(\frac{\kappa\delta^3T}{8D}\Big)
              = 0.142\,(D/\kappa)^{1/3}\,T^{2/3} \quad (T\ge 4\sqrt e/(\kappa D^2)) .

    Here W is Lambert's function, and δ is the difference between the two good arms. Every arm v that
    is neither shown by itself nor by all other arms gives :math:`\kappa = 2 \max_j Q_{jv}`. Two such
    arms u and v that do not show each other give :math:`\kappa = \max_j (Q_{ju}+Q_{jv})/2`. The bound
    uses the smallest of these κ. If some arm is not shown by any arm, the bound is TD/2. If the graph
    is strongly observable, the bound is 0. All bounds are for Gaussian rewards of variance 1, without
    looks. This bound is not in the paper.

    Parameters
    ----------
    shows
        The matrix Q of the graph, with one row and one column per arm, at least two arms. Each
        probability is 0 or from 1e-50 to 1. The matrix can be a SciPy sparse matrix.
    gap
        The gap D of all arms but two.
    """
    matrix, t, D = check_shows(shows), check_horizon(horizon), check_scale("gap", gap)
    n_showing = count_showing(matrix)
    if (n_showing == 0).any():
        return to_scalar(t * D / 2)
    kappa = _find_kappa(matrix, n_showing)
    if kappa is None:
        return to_scalar(np.zeros_like(t))
    difference = np.minimum(D, np.cbrt(4 * math.sqrt(math.e) * D / (kappa * t)))
    return to_scalar(
        D
        / (kappa * difference**2)
        * lambertw(kappa * difference**2 * (difference / (8 * D)) * t).real
    )


def _find_kappa(matrix: "csr_array", n_showing: NDArray[np.int64]) -> float | None:
    """Return the smallest κ of `graph_worst_case`, or None if the graph is strongly observable."""
    has_loop = matrix.diagonal() > 0
    is_weak = ~has_loop & (n_showing < n_showing.size - 1)
    if not is_weak.any():
        return None
    largest_entries = np.asarray(matrix.max(axis=0).toarray()).ravel()
    kappa = 2 * float(largest_entries[is_weak].min())
    candidates = np.flatnonzero(is_weak)
    candidates = candidates[np.argsort(largest_entries[candidates], kind="stable")][:MAX_PAIR_ARMS]
    columns = matrix[:, candidates].toarray()
    for n, arm in enumerate(candidates):
        is_pair = (columns[candidates, n] == 0) & (columns[arm] == 0)
        is_pair[n] = False
        if is_pair.any():
            rates = (columns[:, [n]] + columns[:, is_pair]).max(axis=0) / 2
            kappa = min(kappa, float(rates.min()))
    return kappa
