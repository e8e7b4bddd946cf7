r"""Probabilities that the best arm's average is too low, for kibitzer's upper bound.

For a random walk S with independent 1-sub-Gaussian steps, the tables hold

.. math:: p(\kappa,v,\zeta)\ge P\Big(\exists u\ge\kappa:\ S_u>\sqrt{2u\,\ell(1+\tfrac{bv}{u+b})}
          +\sqrt\zeta\,u\Big), \qquad \ell(x)=\log x-\beta\log(1+\log x),

and p_0(s), the same probability for all u > 0 with ℓ(1 + bs/u) and ζ = 1. Here b and β are the
parameters of kibitzer's index. Neither p nor p_0 depends on the number of arms, the gaps or the rate.
Both p and p_0 decrease in each argument, so a table value at smaller arguments is also a bound.
Lookups round the arguments down and never interpolate. `benchmarks/kibitzer_tables.py` certifies and
writes the tables.

In this module, κ is called a *share* and v a *speed*. F(t) is the number of looks before stage t, and
G_k is the stage of the k-th look. The expected number of stages in each cell is computed exactly
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

Indices = NDArray[np.intp]

STEPS_PER_E = 128  # the tables store logarithms in units of 1/128


class Tables(NamedTuple):
    """The tables of p and p_0 for one value of β."""

    b: float
    beta: float
    turn: float  # the share κ of looks that go to the arms in turn
    speeds: FloatArray  # the v of `in_turn`
    zetas: FloatArray  # the ζ of `in_turn`
    in_turn: FloatArray  # p(turn, v, ζ)
    shares: FloatArray  # the κ of `any_share`
    coarse_speeds: FloatArray  # the v of `any_share`
    coarse_zetas: FloatArray  # the ζ of `any_share`
    any_share: FloatArray  # p(κ, v, ζ)
    stages: FloatArray  # the s of `from_zero`
    from_zero: FloatArray  # p_0(s)


@functools.cache
def load_tables(b: float, beta: float) -> Tables:
    """Return the tables for these parameters of the index; raise ValueError if none exist."""
    with (files("kibitz.bounds") / "kibitzer.npz").open("rb") as file, np.load(file) as stored:
        if b != stored["b"]:
            only = f"{float(stored['b']):g} (the only value for which the bound is tabulated)"
            raise invalid("b", only, b)
        if f"turn_{beta:g}" not in stored:
            raise invalid("beta", "0 or 1 (the only values for which the bound is tabulated)", beta)

        def values(name: str) -> FloatArray:
            logs = np.cumsum(stored[f"{name}_{beta:g}"], axis=-1, dtype=np.float64)
            result: FloatArray = np.exp(-logs / STEPS_PER_E)
            return result

        return Tables(
            b=b,
            beta=beta,
            turn=float(stored["turn"]),
            speeds=stored["speeds"],
            zetas=stored["zetas"],
            in_turn=values("turn"),
            shares=stored["shares"],
            coarse_speeds=stored["coarse_speeds"],
            coarse_zetas=stored["coarse_zetas"],
            any_share=values("any"),
            stages=stored["stages"],
            from_zero=values("zero"),
        )


def compute_ell(x: FloatArray, beta: float) -> FloatArray:
    """Return ℓ(x) = log x − β log(1 + log x), the exponent of the index."""
    return np.asarray(np.log(x) - beta * np.log1p(np.log(x)))


class Places(NamedTuple):
    """The table indices of pairs (κ, v), rounded down; -1 for values below the smallest entry."""

    speed: Indices  # the index of v in `speeds`
    share: Indices  # the index of κ in `shares`
    coarse_speed: Indices  # the index of v in `coarse_speeds`
    next_share: Indices  # the index of the next larger share
    shrink: FloatArray  # κ divided by the next larger share


def find_places(t: Tables, shares: FloatArray, speeds: FloatArray) -> Places:
    """Return the table indices of each pair of a share and a speed, for use with many ζ."""
    share = _find_index(t.shares, shares)
    after = np.minimum(share + 1, t.shares.size - 1)
    return Places(
        speed=np.where(shares >= t.turn, _find_index(t.speeds, speeds), -1),
        share=share,
        coarse_speed=_find_index(t.coarse_speeds, speeds),
        next_share=after,
        shrink=np.minimum(shares / t.shares[after], 1.0),
    )


def lookup_probability(t: Tables, at: Places, zetas: FloatArray) -> FloatArray:
    r"""Return a bound on p(κ, v, ζ), with one ζ per place: the smallest of three table values.

    One of the three values uses the inequality p(κ, v, ζ) ≤ p(κ', v, ζκ/κ') for κ' ≥ κ. To see this,
    measure u in units of κ on the left side and in units of κ' on the right side. Then both walks
    start at u = 1 and both slopes are :math:`\sqrt{\zeta\kappa}`, but b/κ' is smaller than b/κ, which
    lowers the boundary of the right side.
    """
    k = _find_index(t.coarse_zetas, zetas)
    ok = (at.share >= 0) & (at.coarse_speed >= 0)
    lower = np.where(ok & (k >= 0), t.any_share[at.share, at.coarse_speed, k], 1.0)
    k = _find_index(t.coarse_zetas, zetas * at.shrink)
    upper = t.any_share[at.next_share, at.coarse_speed, k]
    upper = np.where((at.coarse_speed >= 0) & (k >= 0), upper, 1.0)
    k = _find_index(t.zetas, zetas)
    turn = np.where((at.speed >= 0) & (k >= 0), t.in_turn[at.speed, k], 1.0)
    return np.minimum(np.minimum(lower, upper), turn)


def _find_index(grid: FloatArray, values: FloatArray) -> Indices:
    return np.searchsorted(grid, values * (1 + 1e-12), side="right") - 1


# constants of the closed form -----------------------------------------------------------


def compute_periodic_constant(t: Tables) -> FloatArray:
    """Return C_per(v) = ∫ v p(κ, v, ζ) dζ for the speeds v of the table, by an upper Riemann sum."""
    return _integrate(t, t.speeds[:, None] * t.in_turn, t.speeds)


def compute_largest_constant(t: Tables) -> FloatArray:
    r"""Return C̃(v) = ∫ sup_{v' ≤ v} v' p(κ, v', ζ) dζ for all speeds v except the first."""
    cells = t.speeds[1:, None] * t.in_turn[:-1]  # upper bounds on v' p(v') in each cell
    return _integrate(t, np.maximum.accumulate(cells, axis=0), t.speeds[1:])


def _integrate(t: Tables, heights: FloatArray, speeds: FloatArray) -> FloatArray:
    inside = (heights[:, :-1] * np.diff(t.zetas)).sum(axis=1)
    before = speeds * t.zetas[0]  # p ≤ 1
    after = speeds * 2 / t.turn * np.exp(-t.turn * t.zetas[-1] / 2)  # p ≤ exp(−κζ/2)
    return np.asarray(before + inside + after)


def compute_random_constant(t: Tables, rate: float) -> float:
    r"""Return C̄(ε) = E C̃(1 + W/ε), the constant for random arrivals.

    P(W ≥ w) = exp(−λ_w), where λ_w is :func:`compute_chernoff_exponent`.
    """
    largest, last = compute_largest_constant(t), t.speeds[-1]

    def constant(v: FloatArray) -> FloatArray:
        i = np.minimum(np.searchsorted(t.speeds[1:], v), largest.size - 1)
        return np.asarray(largest[i] * np.maximum(1.0, v / last))  # after the table, p(v) ≤ p(last)

    w = np.concatenate([[0.0, 1.0], 1 + np.geomspace(1e-3, 80, 400)])
    tail = np.exp(-compute_chernoff_exponent(w))
    inside = (constant(1 + w[1:] / rate) * -np.diff(tail)).sum()
    beyond = largest[-1] / min(last, 1 / rate) * (w[-1] + 3) * tail[-1] / rate
    return float(inside + beyond)


def compute_zero_constant(t: Tables, s: float) -> float:
    """Return C_0(s) = ∫_0^s p_0, by an upper Riemann sum."""
    ends = np.minimum(np.append(t.stages, np.inf), s)
    return float(ends[0] + (np.diff(ends) * t.from_zero).sum())


def compute_chernoff_exponent(w: FloatArray) -> FloatArray:
    """Return the λ_w ≥ 0 that solves 1 − exp(−λ) = λ/w; 0 for w ≤ 1.

    If Γ_k is a sum of k independent standard exponential variables, P(sup_k Γ_k/k ≥ w) ≤ exp(−λ_w).
    """
    w = np.maximum(w, 1.0)
    exact = w + lambertw(-w * np.exp(-w)).real
    close = 2 * (w - 1) * (1 - 2 * (w - 1) / 3)  # a lower bound, for w near 1, where `exact` cancels
    return np.where(w < 1 + 1e-4, np.maximum(close, 0.0), np.maximum(exact, 0.0))


LOOK_RATIO = 1.03  # the ratio of adjacent cells of numbers of looks
STAGE_RATIO = 1.04  # the ratio of adjacent cells of stages
MAX_SINGLE = 32  # each smaller number is its own cell
MAX_CELLS = 1000  # problems that would need more cells get wider cells; their bounds are useless
NEGLIGIBLE_EXPONENT = 40.0  # probabilities below e^-40 count as 0
MAX_EXACT_MEAN = 1e6  # for larger means, binomial tails use a faster approximation


class Cells(NamedTuple):
    """Cells of stages with similar table arguments. Each array has one entry per cell."""

    n_stages: FloatArray  # the expected number of stages in the cell
    shares: FloatArray  # κ: the best arm has at least κF/K observations
    speeds: FloatArray  # v = t/F
    looks: FloatArray  # F; ζ = Fz²/K


def find_end(t: Tables, n_arms: int, rate: float, looks: str, smallest: float) -> float:
    """Return the number of looks at which the cells end, for thresholds z ≥ `smallest`.

    For a passive observer, the result is a stage instead of a number of looks.
    """
    if looks == "uniform":
        return math.ceil(60 * n_arms / (rate * -math.expm1(-(smallest**2) / 2)))
    return math.ceil(80 / t.turn * n_arms / smallest**2)


@functools.lru_cache(maxsize=32)
def make_cells(
    b: float, beta: float, n_arms: int, rate: float, horizon: float, looks: str, smallest: float
) -> Cells:
    """Return cells that cover the stages after the first look."""
    t = load_tables(b, beta)
    end = find_end(t, n_arms, rate, looks, smallest)
    if looks == "uniform":
        return _make_passive_cells(n_arms, rate, min(end, horizon))
    first = make_cell_starts(1.0, min(end, horizon), LOOK_RATIO)
    few, many = first[:-1], first[1:] - 1  # the first and last number of looks of each cell
    shares = np.maximum(t.turn, n_arms * (1 + np.floor(t.turn * few / n_arms)) / many)
    if looks == "periodic":
        period = round(1 / rate)
        n_stages = np.minimum((many + 1) * period, horizon) - np.minimum(few * period, horizon)
        return Cells(n_stages, shares, np.full(few.size, float(period)), few)
    edges = np.ceil(t.speeds * many[:, None]) - 1  # t/F ≥ v from the next stage on
    edges = np.minimum(np.concatenate([np.zeros((few.size, 1)), edges], axis=1), horizon)
    until = count_stages(few[:, None], first[1:, None], edges, rate)
    last = count_stages(few, first[1:], np.full(few.size, horizon), rate)
    n_stages = np.maximum(np.diff(np.append(until, last[:, None], axis=1), axis=1), 0.0)
    speeds = np.broadcast_to(np.append(0.0, t.speeds), n_stages.shape)
    kept = n_stages > 0
    rows = np.nonzero(kept)[0]
    return Cells(n_stages[kept], shares[rows], speeds[kept], few[rows])


def _make_passive_cells(n_arms: int, rate: float, horizon: float) -> Cells:
    """Return cells for a passive observer, by stage, looks at the best arm, and total looks."""
    first = make_cell_starts(1.0, horizon + 1, STAGE_RATIO)
    begin, end = first[:-1], first[1:] - 1
    own, other = rate / n_arms, rate * (1 - 1 / n_arms) / (1 - rate / n_arms)
    spread = np.array([-7, -5, -3.5, -2.5, -1.8, -1.2, -0.6, 0, 0.6, 1.2, 2, 3, 4.5, 7])
    few = _spread_around(np.where(spread < 0, own * begin[:, None], own * end[:, None]), spread)
    many = np.append(few[:, 1:] - 1, end[:, None], axis=1)
    n_best = count_stages(few, many + 1, end[:, None], own) - count_stages(
        few, many + 1, begin[:, None] - 1, own
    )
    n_best = np.maximum(n_best, 0.0)
    trials = np.maximum(end[:, None] - 1 - few, 0.0)
    bins = np.array([-1, -0.3, 0.4, 1.1, 1.9, 3.0, 6.0])
    most = _spread_around(other * trials[..., None], bins)
    most = np.append(most, trials[..., None], axis=-1)
    reached = 1 - _compute_arrival_probability(most + 1, trials[..., None], other)  # P(others ≤ most)
    reached[..., -1] = 1.0
    share_of_bin = np.diff(reached, axis=-1, prepend=0.0)
    looks = np.minimum(many[..., None] + most, end[:, None, None] - 1)
    n_stages = n_best[..., None] * np.maximum(share_of_bin, 0.0)
    kept = (n_stages > 1e-9) & (looks >= 1)  # p_0 covers the stages without a look
    n = looks[kept]
    best = np.broadcast_to(np.maximum(few, 1.0)[..., None], looks.shape)[kept]
    stage = np.broadcast_to(begin[:, None, None], looks.shape)[kept]
    rest = n_stages[~kept & (looks >= 1)].sum()  # speed 0 counts these stages as failures
    shares, speeds = np.append(n_arms * best / n, 1.0), np.append(stage / n, 0.0)
    return Cells(np.append(n_stages[kept], rest), shares, speeds, np.append(n, 1.0))


def _spread_around(mean: FloatArray, spread: FloatArray) -> FloatArray:
    """Return increasing whole numbers ≥ 0 that lie `spread` standard deviations from each mean."""
    away = np.floor(mean + spread * np.sqrt(mean))
    result: FloatArray = np.maximum(away, np.arange(spread.size))
    result[..., 0] = 0.0
    return result


def make_cell_starts(first: float, last: float, ratio: float) -> FloatArray:
    """Return the first numbers of cells that cover the whole numbers from `first` to `last`.

    Each number below 32 is its own cell. From 32 on, the first numbers of adjacent cells have about
    this ratio. The last entry is the first number after all cells.
    """
    farther = math.log(max(last / MAX_SINGLE, 1.0))
    n = min(math.ceil(farther / math.log(ratio)), MAX_CELLS) + 1
    later = np.ceil(MAX_SINGLE * np.exp(np.linspace(0.0, farther, n)))
    starts = np.unique(np.concatenate([np.arange(first, MAX_SINGLE), later]))
    return np.append(starts[starts <= last], math.floor(last) + 1.0)


def count_stages(few: FloatArray, many: FloatArray, until: FloatArray, rate: float) -> FloatArray:
    """Return the expected number of stages t ≤ until with few ≤ F(t) < many."""
    return expect_arrival(many, until, rate) - expect_arrival(few, until, rate)


def expect_arrival(k: FloatArray, m: FloatArray, rate: float) -> FloatArray:
    """Return E min(G_k, m) = (k/ε) P(G_{k+1} ≤ m + 1) + m P(G_k > m); `rate` is ε."""
    k, m = np.broadcast_arrays(k, m)
    waiting = 1 - _compute_arrival_probability(k, m, rate)
    finite = np.where(np.isinf(m), 0.0, m)
    return np.asarray(k / rate * _compute_arrival_probability(k + 1, m + 1, rate) + finite * waiting)


def _compute_arrival_probability(k: FloatArray, m: FloatArray, rate: float) -> FloatArray:
    """Return P(G_k ≤ m) = P(Bin(m, ε) ≥ k); values within e^-40 of 0 or 1 become 0 or 1."""
    k, m = np.broadcast_arrays(k, m)
    mean = m * rate
    with np.errstate(invalid="ignore"):
        far = 9.0 * np.sqrt(mean) + NEGLIGIBLE_EXPONENT
        result = np.where((k <= 0) | (mean - k > far) | np.isinf(m), 1.0, 0.0)
        between = (k > 0) & (k <= m) & (np.abs(mean - k) <= far) & np.isfinite(m)
    if rate == 1:
        return np.where(k <= m, 1.0, 0.0)
    exact = between & (m * min(rate, 1 - rate) < MAX_EXACT_MEAN)
    result[exact] = betainc(k[exact], m[exact] - k[exact] + 1, rate)
    close = between & ~exact
    result[close] = _normal_tail(k[close], m[close], rate)
    return np.asarray(result)


def _normal_tail(k: FloatArray, m: FloatArray, rate: float) -> FloatArray:
    """Return P(Bin(m, ε) ≥ k) by Peizer and Pratt's approximation.

    In the range in which this function is used, the error is far below 1e-8.
    """
    away = k - 0.5 - m * rate
    low, high = m * rate, m * (1 - rate)
    bracket = (low + away) * np.log1p(away / low) + (high - away) * np.log1p(-away / high)
    deviation = k - 1 / 3 - (m + 1 / 3) * rate
    scale = np.sqrt(2 / (1 + 1 / (6 * m)) * np.maximum(bracket, 0.0))
    sd = np.sqrt(low * (1 - rate))
    near = np.abs(away) < 1e-3 * sd  # the bracket loses precision; the limit of the ratio is 1/sd
    ratio = np.where(near, 1 / sd, scale / np.maximum(np.abs(away), 1e-3 * sd))
    return np.asarray(erfc(deviation * ratio / math.sqrt(2)) / 2)
