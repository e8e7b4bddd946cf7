r"""Compute the tables of docs/kibitzer_proof.md: `python benchmarks/kibitzer_tables.py`.

The script writes src/kibitz/bounds/kibitzer.npz. It takes about four minutes on one core.

A table bounds the probability that a 1-sub-Gaussian walk S exceeds g at any time u ≥ κ, where

.. math:: g(u) = \sqrt{2u\,\ell(1+bv/D(u))}+\sqrt\zeta\,u, \qquad \ell(x)=\log x-\beta\log(1+\log x).

There are three tables (docs/kibitzer_proof.md, step 7):

- p̂(v, ζ), for active looks: κ = 1/4 and D(u) = min(u + b, (2 + b)u),
- p(v, ζ), for passive looks: κ = 2 and D(u) = u + b,
- p_0(s), before the first look: all times u > 0, D(u) = u, v = s and ζ = 1.

If Σ w_j exp(λ_j g(u) − uλ_j²/2) ≥ 1 for all u ≥ κ, then Σ w_j is such a bound, by Ville's inequality.
The weights w_j come from a linear program over a grid of λ.

A value is certified as follows. On each interval of a grid of u, ℓ is evaluated at the right end,
where it is smallest, because D does not decrease. Each exponent is then concave in u, hence at least
the smaller of its values at the two ends. Beyond the grid ℓ is replaced by 0, and only λ ≤ 2√ζ are
used. The sum of the weights is divided by the smallest left side of a constraint, so any weights give
a valid bound, even if the linear program is not solved exactly. Values are rounded up and stored as
⌊−128 log p⌋, as differences along the last axis.

For p_0 near u = 0, each interval [u/γ, u] below the grid is bounded by the chord of the boundary
(docs/kibitzer_proof.md, step 10), and the bounds are summed.
"""

import math
import time
from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray

B = 8.0
BETAS = (1.0, 0.0)
STEPS_PER_UNIT = 128  # resolution of a stored logarithm
MAX_LOG = 40.0  # probabilities below e^-40 are stored as e^-40
ACTIVE, PASSIVE, FROM_ZERO = 0, 1, 2  # the tables
STARTS = 0.25, 2.0  # κ of the tables of active and of passive looks
SPEEDS = 10 ** np.concatenate([np.arange(-2, 193) / 32, np.arange(49, 97) / 8])  # the arguments v
ZETAS = 2.0 ** np.concatenate([np.arange(-44, -6), np.arange(-96, 144) / 16])  # the arguments ζ
STAGES = 10 ** (np.arange(-96, 481) / 32)  # the arguments s of p_0(s)

Floats = NDArray[np.float64]
jit = numba.njit(error_model="numpy")


@jit
def ell(x, beta):
    """Return ℓ(x), the exponent of the index."""
    return np.log(x) - beta * np.log1p(np.log(x))


@jit
def denominator(u, table):
    """Return D(u), the denominator in the boundary g of a table."""
    if table == FROM_ZERO:
        return u
    return min(u + B, (2 + B) * u) if table == ACTIVE else u + B


@jit
def lower_exponents(v, zeta, beta, times, slopes, table):
    """Return lower bounds on λg(u) − uλ²/2: a row per interval of the grid, and a row beyond it."""
    rows = np.empty((times.size, slopes.size))
    root = np.sqrt(zeta)
    for i in range(times.size - 1):
        left, right = times[i], times[i + 1]
        level = ell(1 + B * v / denominator(right, table), beta)
        for j, slope in enumerate(slopes):
            first = slope * (np.sqrt(2 * left * level) + root * left) - left * slope**2 / 2
            last = slope * (np.sqrt(2 * right * level) + root * right) - right * slope**2 / 2
            rows[i, j] = min(first, last)
    for j, slope in enumerate(slopes):
        rows[-1, j] = times[-1] * slope * (root - slope / 2) if slope <= 2 * root else -1e9
    return rows


@jit
def solve_weights(matrix, costs, max_steps):
    """Minimise cost·w subject to matrix w ≥ 1, w ≥ 0, by the simplex method on the dual."""
    n, m = matrix.shape
    tableau = np.zeros((m + 1, n + m + 1))
    tableau[:m, :n] = matrix.T
    tableau[:m, n + m] = costs
    tableau[m, :n] = -1.0
    for j in range(m):
        tableau[j, n + j] = 1.0
    for _ in range(max_steps):
        column = np.argmin(tableau[m, : n + m])
        if tableau[m, column] > -1e-9:
            break
        row, smallest = -1, np.inf
        for j in range(m):
            if tableau[j, column] > 1e-11 and tableau[j, n + m] < smallest * tableau[j, column]:
                row, smallest = j, tableau[j, n + m] / tableau[j, column]
        if row < 0:
            break
        tableau[row] /= tableau[row, column]
        for j in range(m + 1):
            factor = tableau[j, column]
            if j != row and factor != 0:
                for k in range(n + m + 1):
                    tableau[j, k] -= factor * tableau[row, k]
    return np.maximum(tableau[m, n : n + m], 0.0)


@jit
def crossing(kappa, v, zeta, beta, table, n_times=200, n_slopes=56):
    """Return a certified bound on the probability that the walk S exceeds g at any time u ≥ κ."""
    root, end = np.sqrt(zeta), 160.0 if table == FROM_ZERO else 60.0  # no bound is below e^{-end/2}
    highest = np.sqrt(2 * ell(1 + B * v / denominator(kappa, table), beta) / kappa) + root
    times = np.exp(np.linspace(np.log(kappa), np.log(max(4 * kappa, end / zeta)), n_times + 1))
    slopes = np.exp(np.linspace(np.log(0.3 * root), np.log(1.3 * highest), n_slopes))
    rows = lower_exponents(v, zeta, beta, times, slopes, table)
    single_exponent = max(
        [rows[:, j].min() for j in range(n_slopes)]
    )  # the exponent of the best single λ
    around = min([rows[i].max() for i in range(times.size)])  # about log(1/p), which scales the costs
    rows = np.minimum(rows, around + 6)  # lower values stay valid; higher values do not help
    peaks = np.array([rows[:, j].max() for j in range(n_slopes)])
    matrix = np.exp(rows - peaks)
    mixture = solve_weights(matrix, np.exp(around - peaks), 2000)
    least_sum = np.inf
    for i in range(matrix.shape[0]):
        least_sum = min(least_sum, (mixture * matrix[i]).sum())
    single_bound = np.exp(-single_exponent)
    mixture_bound = (mixture * np.exp(-peaks)).sum() / least_sum if least_sum > 0 else 1.0
    return min(1.0, single_bound, mixture_bound)


def bound_by_chords(s: float, start: float, beta: float, gamma: float = 1.05) -> float:
    """Return a bound on the probability that the walk S exceeds g before time `start`."""
    tau = math.tanh(math.log(gamma) / 4)
    levels = ell(1 + B * s * gamma ** np.arange(2001.0) / start, beta)
    terms = np.exp(-(1 - tau**2) * levels)
    # The increments of ℓ grow, so all further terms decrease at least as fast as the last two.
    return float(terms[:-1].sum() + terms[-1] / (1 - terms[-1] / terms[-2]))


def from_zero(s: float, beta: float) -> float:
    """Return a certified bound p_0(s) on the probability that S exceeds g at any time u > 0."""
    start = 1e-4 * min(1.0, s)
    later = crossing(start, s, 1.0, beta, FROM_ZERO, 240, 64)
    return min(1.0, later + bound_by_chords(s, start, beta))


def encode(values: Floats) -> NDArray[np.int16]:
    """Round values up; return their logarithms as differences along the last axis."""
    # The probability decreases along this axis, so each bound is valid for all later entries too.
    falling = np.minimum.accumulate(values, axis=-1)
    logs = np.floor(-STEPS_PER_UNIT * np.log(np.maximum(falling, math.exp(-MAX_LOG))) * (1 - 1e-9))
    return np.diff(logs.astype(np.int16), axis=-1, prepend=np.int16(0))


def main() -> None:
    """Compute all tables and write the file."""
    start = time.time()
    tables: dict[str, NDArray[np.generic]] = {
        "b": np.array(B), "starts": np.array(STARTS),
        "speeds": SPEEDS, "zetas": ZETAS, "stages": STAGES,
    }  # fmt: skip
    for beta in BETAS:
        for name, table in {"active": ACTIVE, "passive": PASSIVE}.items():
            values = [[crossing(STARTS[table], v, z, beta, table) for z in ZETAS] for v in SPEEDS]
            tables[f"{name}_{beta:g}"] = encode(np.array(values))
            print(f"β = {beta:g}, {name}: {time.time() - start:.0f} s", flush=True)
        tables[f"zero_{beta:g}"] = encode(np.array([from_zero(s, beta) for s in STAGES]))
    target = Path(__file__).parents[1] / "src" / "kibitz" / "bounds" / "kibitzer.npz"
    np.savez_compressed(target, **tables)
    print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB, {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
