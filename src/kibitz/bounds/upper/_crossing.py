r"""Bounds on the probability that the best arm's average is too low, for kibitzer's upper bound.

For a random walk S with independent 1-sub-Gaussian steps, the tables hold upper bounds on

.. math:: P\Big(\exists u\ge\kappa:\ S_u>\sqrt{2u\,\ell(1+bv/D(u))}+\sqrt\zeta\,u\Big),
          \qquad \ell(x)=\log x-\beta\log(1+\log x),

for active looks (κ = 1/4, D(u) = min(u + b, (2 + b)u)) and for passive looks (κ = 2, D(u) = u + b),
and p_0(s), the same probability for all u > 0 with D(u) = u, v = s and ζ = 1. Here b and β are the
parameters of kibitzer's index. No table depends on the number of arms, the gaps or the rate. All
tabulated functions decrease in each argument, so a table value at smaller arguments is also a bound.
Lookups round the arguments down and never interpolate. `benchmarks/kibitzer_tables.py` certifies and
writes the tables.

In this module, v is called a *speed*, and F(t) counts the *relevant* looks before stage t: all looks
if the policy chooses them, and the looks at the best arm if the observer is passive. G_k is the stage
of the k-th relevant look. The expected number of stages in each cell is computed exactly
(docs/kibitzer_proof.md, step 8). In each cell, every quantity is rounded to the value with the
largest probability of failure.
"""

import functools
import math
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, erfc, lambertw

from kibitz._validation import invalid
from kibitz.bounds._checks import FloatArray

STEPS_PER_E = 128  # the tables store logarithms in units of 1/128


class Tables(NamedTuple):
    """The tables of crossing probabilities for one value of β."""

    b: float
    beta: float
    starts: FloatArray  # κ for active looks and κ for passive looks
    speeds: FloatArray  # the v of `active` and `passive`
    zetas: FloatArray  # the ζ of `active` and `passive`
    active: FloatArray
    passive: FloatArray
    stages: FloatArray  # the s of `from_zero`
    from_zero: FloatArray  # p_0(s)


@functools.cache
def load_tables(b: float, beta: float) -> Tables:
    """Return the tables for the parameters b and β; raise ValueError if there are no such tables."""
    with (files("kibitz.bounds") / "kibitzer.npz").open("rb") as file, np.load(file) as table_file:
        if b != table_file["b"]:
            expected_b = (
                f"{float(table_file['b']):g} (the only value for which the bound is tabulated)"
            )
            raise invalid("b", expected_b, b)
        if f"active_{beta:g}" not in table_file:
            raise invalid("beta", "0 or 1 (the only values for which the bound is tabulated)", beta)

        def read_probabilities(name: str) -> FloatArray:
            log_units = np.cumsum(table_file[f"{name}_{beta:g}"], axis=-1, dtype=np.float64)
            result: FloatArray = np.exp(-log_units / STEPS_PER_E)
            return result

        return Tables(
            b=b,
            beta=beta,
            starts=table_file["starts"],
            speeds=table_file["speeds"],
            zetas=table_file["zetas"],
            active=read_probabilities("active"),
            passive=read_probabilities("passive"),
            stages=table_file["stages"],
            from_zero=read_probabilities("zero"),
        )


def compute_ell(x: FloatArray, beta: float) -> FloatArray:
    """Return ℓ(x) = log x − β log(1 + log x), the exponent of the index."""
    return np.asarray(np.log(x) - beta * np.log1p(np.log(x)))


class Looks(NamedTuple):
    """The relevant looks, and the units of the arguments of the tables.

    If the policy chooses its looks, all looks are relevant. If the observer is passive, only looks at
    the best arm are relevant.
    """

    table: FloatArray  # the table of active or of passive looks
    start: float  # κ of this table
    rate: float  # the rate of relevant looks
    is_periodic: bool
    speed_unit: float  # v = t / (speed_unit F)
    zeta_unit: float  # ζ = F z² / zeta_unit
    zero_unit: float  # before the first relevant look, s = t z² / zero_unit


def make_looks(t: Tables, n_arms: int, rate: float, looks: str) -> Looks:
    """Return the relevant looks; for passive looks, `rate` is the rate of looks at the best arm."""
    if looks == "passive":
        return Looks(t.passive, float(t.starts[1]), rate, False, n_arms, 2.0, 2.0 * n_arms)
    return Looks(t.active, float(t.starts[0]), rate, looks == "periodic", 1.0, n_arms, n_arms)


def lookup_probability(
    t: Tables, looks: Looks, speeds: NDArray[np.intp], zetas: FloatArray
) -> FloatArray:
    """Return a bound on the probability of a failure, given indices of speeds in the table.

    The index -1 stands for a speed below the table. The random walk crosses a line of slope √ζ
    at some u ≥ κ with probability at most exp(−κζ/2).
    """
    column = np.searchsorted(t.zetas, zetas * (1 + 1e-12), side="right") - 1
    is_tabulated = (speeds >= 0) & (column >= 0)
    line_bound = np.exp(-looks.start * zetas / 2)
    return np.where(is_tabulated, np.minimum(line_bound, looks.table[speeds, column]), line_bound)


# constants of the closed form -----------------------------------------------------------


def compute_periodic_constant(t: Tables) -> FloatArray:
    """Return C_per(v) = ∫ v p̂(v, ζ) dζ for the speeds v of the table, by an upper Riemann sum.

    Here p̂ is the table for active looks.
    """
    return _integrate(t, t.speeds[:, None] * t.active, t.speeds, float(t.starts[0]))


def compute_largest_constant(t: Tables, is_passive: bool = False) -> FloatArray:
    r"""Return C̃(v) = ∫ sup_{v' ≤ v} v' p(v', ζ) dζ for all speeds v except the first.

    Active looks have speeds v' ≥ 1. For passive looks, speeds below the table use p ≤ exp(−κζ/2).
    """
    table, start = (t.passive, t.starts[1]) if is_passive else (t.active, t.starts[0])
    cells = t.speeds[1:, None] * table[:-1]  # upper bounds on v' p(v') in each cell
    if is_passive:
        cells[0] = np.maximum(cells[0], t.speeds[0] * np.exp(-start * t.zetas / 2))
    return _integrate(t, np.maximum.accumulate(cells, axis=0), t.speeds[1:], float(start))


def _integrate(t: Tables, heights: FloatArray, speeds: FloatArray, start: float) -> FloatArray:
    table_integral = (heights[:, :-1] * np.diff(t.zetas)).sum(axis=1)
    head_integral = speeds * t.zetas[0]  # p ≤ 1
    tail_integral = speeds * 2 / start * np.exp(-start * t.zetas[-1] / 2)  # p ≤ exp(−κζ/2)
    return np.asarray(head_integral + table_integral + tail_integral)


def compute_random_constant(t: Tables, rate: float, is_passive: bool = False) -> float:
    r"""Return E C̃(1 + W/ε), the constant for random arrivals: Ĉ(ε) or, for passive looks, C_P(ε).

    The distribution of W is given by P(W ≥ w) = exp(−λ_w), where λ_w is
    :func:`compute_chernoff_exponent`. C̃ is :func:`compute_largest_constant`. For passive looks,
    `rate` is K times the rate of looks at the best arm.
    """
    constants, last_speed = compute_largest_constant(t, is_passive), t.speeds[-1]

    def lookup_constant(v: FloatArray) -> FloatArray:
        i = np.minimum(np.searchsorted(t.speeds[1:], v), constants.size - 1)
        return np.asarray(
            constants[i] * np.maximum(1.0, v / last_speed)
        )  # after the table, p(v) ≤ p(last speed)

    w = np.concatenate([[0.0, 1.0], 1 + np.geomspace(1e-3, 80, 400)])
    tail = np.exp(-compute_chernoff_exponent(w))
    table_part = (lookup_constant(1 + w[1:] / rate) * -np.diff(tail)).sum()
    tail_part = constants[-1] / min(last_speed, 1 / rate) * (w[-1] + 3) * tail[-1] / rate
    return float(table_part + tail_part)


def compute_zero_constant(t: Tables, s: float) -> float:
    """Return C_0(s) = ∫_0^s p_0 by an upper Riemann sum, where p_0 is the table `from_zero`."""
    ends = np.minimum(np.append(t.stages, np.inf), s)
    return float(ends[0] + (np.diff(ends) * t.from_zero).sum())


def compute_chernoff_exponent(w: FloatArray) -> FloatArray:
    """Return the λ_w ≥ 0 that solves 1 − exp(−λ) = λ/w; 0 for w ≤ 1.

    If Γ_k is a sum of k independent standard exponential variables, P(sup_k Γ_k/k ≥ w) ≤ exp(−λ_w).
    """
    w = np.maximum(w, 1.0)
    exact_exponent = w + lambertw(-w * np.exp(-w)).real
    series_bound = (
        2 * (w - 1) * (1 - 2 * (w - 1) / 3)
    )  # a lower bound, for w near 1, where `exact_exponent` cancels
    return np.where(w < 1 + 1e-4, np.maximum(series_bound, 0.0), np.maximum(exact_exponent, 0.0))


LOOK_RATIO = 1.03  # the ratio of adjacent cells of numbers of looks
MAX_SINGLE = 32  # each smaller number of looks is its own cell
MAX_CELLS = 1000  # problems that would need more cells get wider cells; their bounds are useless
NEGLIGIBLE_EXPONENT = 40.0  # probabilities below e^-40 count as 0
MAX_EXACT_MEAN = 1e6  # for larger means, binomial tails use a faster approximation


class Cells(NamedTuple):
    """Cells of stages with similar table arguments. Each array has one entry per cell."""

    n_stages: FloatArray  # the expected number of stages in the cell
    speeds: NDArray[np.intp]  # the index of the speed in the table, -1 for a speed below the table
    n_looks: FloatArray  # F, the number of relevant looks


def find_end(looks: Looks, min_threshold: float) -> float:
    """Return a number of relevant looks after which failures are negligible.

    This holds for every threshold z ≥ `min_threshold`.
    """
    return math.ceil(2 * NEGLIGIBLE_EXPONENT * looks.zeta_unit / (looks.start * min_threshold**2))


@functools.lru_cache(maxsize=32)
def make_cells(
    b: float, beta: float, n_arms: int, rate: float, horizon: float, looks: str, min_threshold: float
) -> Cells:
    """Return cells that cover the stages after the first relevant look; `Looks` defines relevant."""
    t = load_tables(b, beta)
    model = make_looks(t, n_arms, rate, looks)
    cell_starts = make_cell_starts(1.0, min(find_end(model, min_threshold), horizon), LOOK_RATIO)
    min_looks, max_looks = cell_starts[:-1], cell_starts[1:] - 1  # in each cell
    if model.is_periodic:
        period = round(1 / rate)
        n_stages = np.minimum((max_looks + 1) * period, horizon) - np.minimum(
            min_looks * period, horizon
        )
        speed_index = np.searchsorted(t.speeds, period * (1 + 1e-12), side="right") - 1
        return Cells(n_stages, np.full(min_looks.size, speed_index), min_looks)
    # from the stage after each edge on, t/F ≥ v
    edges = np.ceil(t.speeds * (model.speed_unit * max_looks[:, None])) - 1
    edges = np.minimum(np.concatenate([np.zeros((min_looks.size, 1)), edges], axis=1), horizon)
    n_before_edge = count_stages(min_looks[:, None], cell_starts[1:, None], edges, rate)
    n_before_horizon = count_stages(
        min_looks, cell_starts[1:], np.full(min_looks.size, horizon), rate
    )
    n_stages = np.maximum(
        np.diff(np.append(n_before_edge, n_before_horizon[:, None], axis=1), axis=1), 0.0
    )
    rows, columns = np.nonzero(n_stages > 0)
    return Cells(n_stages[rows, columns], columns - 1, min_looks[rows])


def make_cell_starts(first_number: float, last_number: float, ratio: float) -> FloatArray:
    """Return the first numbers of cells that cover `first_number` to `last_number`.

    Each number below 32 is its own cell. From 32 on, `ratio` is about the ratio of the first numbers
    of adjacent cells. The last entry is the first number after all cells.
    """
    log_range = math.log(max(last_number / MAX_SINGLE, 1.0))
    n = min(math.ceil(log_range / math.log(ratio)), MAX_CELLS) + 1
    wide_starts = np.ceil(MAX_SINGLE * np.exp(np.linspace(0.0, log_range, n)))
    starts = np.unique(np.concatenate([np.arange(first_number, MAX_SINGLE), wide_starts]))
    return np.append(starts[starts <= last_number], math.floor(last_number) + 1.0)


def count_stages(
    low: FloatArray, high: FloatArray, last_stage: FloatArray, rate: float
) -> FloatArray:
    """Return the expected number of stages t ≤ last_stage with low ≤ F(t) < high.

    F(t) is the number of relevant looks before stage t.
    """
    return expect_arrival(high, last_stage, rate) - expect_arrival(low, last_stage, rate)


def expect_arrival(k: FloatArray, m: FloatArray, rate: float) -> FloatArray:
    """Return E min(G_k, m) = (k/ε) P(G_{k+1} ≤ m + 1) + m P(G_k > m).

    G_k is the stage of the k-th relevant look, and ε is `rate`.
    """
    k, m = np.broadcast_arrays(k, m)
    p_later = 1 - _compute_arrival_probability(k, m, rate)
    finite_m = np.where(np.isinf(m), 0.0, m)
    return np.asarray(
        k / rate * _compute_arrival_probability(k + 1, m + 1, rate) + finite_m * p_later
    )


def _compute_arrival_probability(k: FloatArray, m: FloatArray, rate: float) -> FloatArray:
    """Return P(G_k ≤ m) = P(Bin(m, ε) ≥ k); values within e^-40 of 0 or 1 become 0 or 1."""
    k, m = np.broadcast_arrays(k, m)
    mean = m * rate
    with np.errstate(invalid="ignore"):
        max_distance = 9.0 * np.sqrt(mean) + NEGLIGIBLE_EXPONENT
        result = np.where((k <= 0) | (mean - k > max_distance) | np.isinf(m), 1.0, 0.0)
        is_near = (k > 0) & (k <= m) & (np.abs(mean - k) <= max_distance) & np.isfinite(m)
    if rate == 1:
        return np.where(k <= m, 1.0, 0.0)
    is_exact = is_near & (m * min(rate, 1 - rate) < MAX_EXACT_MEAN)
    result[is_exact] = betainc(k[is_exact], m[is_exact] - k[is_exact] + 1, rate)
    is_approximate = is_near & ~is_exact
    result[is_approximate] = _normal_tail(k[is_approximate], m[is_approximate], rate)
    return np.asarray(result)


def _normal_tail(k: FloatArray, m: FloatArray, rate: float) -> FloatArray:
    """Return P(Bin(m, ε) ≥ k) by Peizer and Pratt's approximation.

    In the range in which this function is used, the error is far below 1e-8.
    """
    offset = k - 0.5 - m * rate
    mean_successes, mean_failures = m * rate, m * (1 - rate)
    bracket = (mean_successes + offset) * np.log1p(offset / mean_successes) + (
        mean_failures - offset
    ) * np.log1p(-offset / mean_failures)
    deviation = k - 1 / 3 - (m + 1 / 3) * rate
    scale = np.sqrt(2 / (1 + 1 / (6 * m)) * np.maximum(bracket, 0.0))
    sd = np.sqrt(mean_successes * (1 - rate))
    is_near_mean = (
        np.abs(offset) < 1e-3 * sd
    )  # the bracket loses precision; the limit of the ratio is 1/sd
    ratio = np.where(is_near_mean, 1 / sd, scale / np.maximum(np.abs(offset), 1e-3 * sd))
    return np.asarray(erfc(deviation * ratio / math.sqrt(2)) / 2)
