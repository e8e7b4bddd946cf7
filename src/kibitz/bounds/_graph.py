"""Check the matrix Q of a graph, and find the cheapest pulls that observe every arm.

`shows` is the matrix Q: a pull of arm i shows arm j with probability Q_ij. Without a graph, a pull
shows only its own reward, and Q is the identity matrix. Q is a sparse matrix in all modules.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import invalid
from kibitz.bounds._checks import MIN_VALUE, FloatArray
from kibitz.model.feedback import Feedback, copy_sparse

if TYPE_CHECKING:  # importing scipy.sparse takes a while; only the bounds with a graph need it
    from scipy.sparse import csr_array

MAX_COEFFICIENT = 1e9  # a larger coefficient of the linear program would not change its value
TINY = 1e-300  # replaces 0 in a quotient


def check_shows(shows: Any, n_arms: int | None = None) -> "csr_array":
    """Return Q as a sparse matrix; raise ValueError unless Q has one probability per pair of arms.

    Without `n_arms`, Q may have any number of arms from 2 on. Each probability must be 0 or from
    1e-50 to 1. A sparse matrix is never made dense.
    """
    from scipy.sparse import csr_array, issparse

    condition = (
        f"a matrix of probabilities for {'2 or more' if n_arms is None else n_arms} arms, "
        "each 0 or from 1e-50 to 1"
    )
    sparse_copy = copy_sparse(shows) if issparse(shows) else None
    try:
        matrix = np.asarray(shows) if sparse_copy is None else sparse_copy
        is_square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
        is_masked = isinstance(shows, np.ma.MaskedArray)
        if not is_square or is_masked or matrix.dtype.kind not in "biuf":
            raise TypeError
        matrix = csr_array(matrix, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise invalid("shows", condition, shows) from None
    matrix.sum_duplicates()
    is_valid = (matrix.data == 0) | (matrix.data >= MIN_VALUE) & (matrix.data <= 1)
    n_rows = max(matrix.shape[0], 2) if n_arms is None else n_arms
    if matrix.shape != (n_rows, n_rows) or not is_valid.all():
        raise invalid("shows", condition, shows)
    matrix.eliminate_zeros()
    return matrix


def read_shows(feedback: Feedback, n_arms: int) -> "csr_array":
    """Return the matrix Q of a feedback model, which is the identity matrix without a graph."""
    from scipy.sparse import csr_array, eye_array

    if feedback.observer == "full":
        return csr_array(np.ones((n_arms, n_arms)))
    if feedback.shows is None:
        return csr_array(eye_array(n_arms))
    shows = feedback.shows
    if shows.function is not None:
        raise invalid("feedback", "a graph that does not vary with the stage", feedback)
    if shows.n_arms != n_arms:
        raise invalid("feedback", f"a graph with {n_arms} arms, one per arm of the problem", feedback)
    return csr_array((shows.probabilities, shows.arms, shows.offsets), (n_arms, n_arms))


def count_showing(shows: "csr_array") -> NDArray[np.int64]:
    """Return the number of arms that show each arm."""
    return np.bincount(shows.indices, minlength=shows.shape[1])


def solve_cover(
    costs: FloatArray,
    matrix: "csr_array",
    needs: FloatArray,
    budgets: Sequence[tuple[NDArray[np.intp], float]] = (),
) -> FloatArray | None:
    """Return the cheapest numbers of pulls n ≥ 0 with Σ_i n_i matrix[i, j] ≥ needs[j] for all j.

    The cost of n is Σ_i costs[i] n_i. Each budget (rows, limit) adds the constraint
    Σ_{i in rows} n_i ≤ limit. The result is None if no n satisfies all constraints. The cost of the
    solution is accurate to about one part in 10⁸.

    The program is solved in units in which the costs and the constraints are about 1. Let m_j be the
    cost of the cheapest arm that satisfies constraint j alone. Without budgets, the smallest cost is
    at least max_j m_j and at most Σ_j m_j. The unit of the costs is Σ_j m_j.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, diags_array, vstack

    columns = np.flatnonzero(needs > 0)
    coefficients = csr_array(matrix[:, columns] @ diags_array(1 / needs[columns]))
    coefficients.eliminate_zeros()
    pulled_arms, constraints = coefficients.nonzero()
    if np.unique(constraints).size < columns.size:
        return None
    if not columns.size:
        return np.zeros(costs.size)
    pulls_alone = 1 / coefficients.data  # the pulls of one arm that satisfy one constraint
    cost_alone = costs[pulled_arms] * pulls_alone
    has_cost = cost_alone > 0
    cheapest = np.full(columns.size, math.inf)
    np.minimum.at(cheapest, constraints[has_cost], cost_alone[has_cost])
    cost_unit = float(cheapest[np.isfinite(cheapest)].sum()) or 1.0
    units = np.zeros(costs.size)
    np.maximum.at(units, pulled_arms, pulls_alone)
    with np.errstate(divide="ignore", over="ignore"):
        units = np.minimum(units, cost_unit / costs)
    for rows, limit in budgets:
        units[rows] = np.minimum(units[rows], max(limit, TINY))
    scaled_coefficients = csr_array(diags_array(units) @ coefficients)
    scaled_coefficients.data = np.minimum(scaled_coefficients.data, MAX_COEFFICIENT)
    blocks = [-scaled_coefficients.T]
    for rows, limit in budgets:
        budget_row = np.zeros((1, costs.size))
        budget_row[0, rows] = units[rows] / max(limit, TINY)
        blocks.append(csr_array(budget_row))
    useful = np.flatnonzero(units > 0)
    solution = linprog(
        (costs * units / cost_unit)[useful],
        csr_array(vstack(blocks))[:, useful],
        np.concatenate((-np.ones(columns.size), np.ones(len(budgets)))),
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.status == 2:  # infeasible
        return None
    if solution.status != 0:
        raise RuntimeError(f"the linear program was not solved: {solution.message}")
    pulls = np.zeros(costs.size)
    pulls[useful] = units[useful] * np.maximum(solution.x, 0)
    return pulls
