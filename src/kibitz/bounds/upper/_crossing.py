r"""How likely the mean of the best arm is to stay too low: the tables behind kibitzer's bound.

For a walk S of independent 1-sub-Gaussian steps,

.. math:: p(\kappa,v,\zeta)\ge P\Big(\exists u\ge\kappa:\ S_u>\sqrt{2u\,\ell(1+\tfrac{bv}{u+b})}
          +\sqrt\zeta\,u\Big), \qquad \ell(x)=\log x-\beta\log(1+\log x),

and p_0(s) is the same for all u > 0 with ℓ(1 + bs/u) and ζ = 1. Neither depends on the number of
arms, the gaps or the rate. Both fall in each argument, so that a value of the table at smaller
arguments is a bound too: that is how they are looked up, never interpolated.
`benchmarks/kibitzer_tables.py` says how each value is certified, and makes the file again.

F(t) is the number of looks before stage t, G_k the stage of the k-th look. Stages are counted
exactly (docs/kibitzer_proof.md, step 8); in each cell what matters is rounded to where failure is
likeliest.
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

STEPS = 128  # a stored 1 is a factor of e^(1/128)


class Tables(NamedTuple):
    """The tables for one β."""

    b: float
    beta: float
    turn: float  # κ, the share of looks in turn
    speeds: FloatArray  # v of `in_turn`
    zetas: FloatArray
    in_turn: FloatArray  # p(turn, v, ζ)
    shares: FloatArray  # κ of `any_share`
    coarse_speeds: FloatArray
    coarse_zetas: FloatArray
    any_share: FloatArray  # p(κ, v, ζ)
    stages: FloatArray  # s of `from_zero`
    from_zero: FloatArray  # p_0(s)


@functools.cache
def tables(b: float, beta: float) -> Tables:
    """The tables for these parameters of the index; a sentence if there are none."""
    with (files("kibitz.bounds") / "kibitzer.npz").open("rb") as file, np.load(file) as kept:
        if b != kept["b"]:
            raise invalid("b", f"{float(kept['b']):g}, for which the bound is tabulated", b)
        if f"turn_{beta:g}" not in kept:
            raise invalid("beta", "0 or 1, for which the bound is tabulated", beta)

        def values(name: str) -> FloatArray:
            logs = np.cumsum(kept[f"{name}_{beta:g}"], axis=-1, dtype=np.float64)
            result: FloatArray = np.exp(-logs / STEPS)
            return result

        return Tables(
            b=b,
            beta=beta,
            turn=float(kept["turn"]),
            speeds=kept["speeds"],
            zetas=kept["zetas"],
            in_turn=values("turn"),
            shares=kept["shares"],
            coarse_speeds=kept["coarse_speeds"],
            coarse_zetas=kept["coarse_zetas"],
            any_share=values("any"),
            stages=kept["stages"],
            from_zero=values("zero"),
        )


def width(x: FloatArray, beta: float) -> FloatArray:
    """ℓ(x) = log x − β log(1 + log x), the exponent of the index."""
    return np.asarray(np.log(x) - beta * np.log1p(np.log(x)))


class Places(NamedTuple):
    """Where some (κ, v) stand in the tables, rounded down; -1 where they are too small for them."""

    speed: Indices  # in `in_turn`
    share: Indices  # in `any_share`
    coarse_speed: Indices
    next_share: Indices  # the next larger share
    shrink: FloatArray  # κ over that share


def places(t: Tables, shares: FloatArray, speeds: FloatArray) -> Places:
    """Where each pair of a share and a speed stands in the tables; to be used with many ζ."""
    share = _below(t.shares, shares)
    after = np.minimum(share + 1, t.shares.size - 1)
    return Places(
        speed=np.where(shares >= t.turn, _below(t.speeds, speeds), -1),
        share=share,
        coarse_speed=_below(t.coarse_speeds, speeds),
        next_share=after,
        shrink=np.minimum(shares / t.shares[after], 1.0),
    )


def probability(t: Tables, at: Places, zetas: FloatArray) -> FloatArray:
    r"""p(κ, v, ζ), one ζ for each place: the smallest of three bounds.

    With κ' ≥ κ, p(κ, v, ζ) ≤ p(κ', v, ζκ/κ'): in units of κ the walk starts at 1, the slope is
    :math:`\sqrt{\zeta\kappa}` in both, and b/κ' is less than b/κ, which lowers the boundary.
    """
    k = _below(t.coarse_zetas, zetas)
    ok = (at.share >= 0) & (at.coarse_speed >= 0)
    lower = np.where(ok & (k >= 0), t.any_share[at.share, at.coarse_speed, k], 1.0)
    k = _below(t.coarse_zetas, zetas * at.shrink)
    upper = t.any_share[at.next_share, at.coarse_speed, k]
    upper = np.where((at.coarse_speed >= 0) & (k >= 0), upper, 1.0)
    k = _below(t.zetas, zetas)
    turn = np.where((at.speed >= 0) & (k >= 0), t.in_turn[at.speed, k], 1.0)
    return np.minimum(np.minimum(lower, upper), turn)


def _below(grid: FloatArray, values: FloatArray) -> Indices:
    return np.searchsorted(grid, values * (1 + 1e-12), side="right") - 1


# the constants of the closed form -----------------------------------------------------------


def periodic_constant(t: Tables) -> FloatArray:
    """C_per(v) = ∫ v p(κ, v, ζ) dζ for the speeds of the table: an upper Riemann sum."""
    return _integral(t, t.speeds[:, None] * t.in_turn, t.speeds)


def largest_constant(t: Tables) -> FloatArray:
    r"""C̃(v) = ∫ sup_{v' ≤ v} v' p(κ, v', ζ) dζ for the speeds of the table but the first."""
    cells = t.speeds[1:, None] * t.in_turn[:-1]  # v' p(v') on a cell is at most this
    return _integral(t, np.maximum.accumulate(cells, axis=0), t.speeds[1:])


def _integral(t: Tables, heights: FloatArray, speeds: FloatArray) -> FloatArray:
    inside = (heights[:, :-1] * np.diff(t.zetas)).sum(axis=1)
    before = speeds * t.zetas[0]  # p ≤ 1
    after = speeds * 2 / t.turn * np.exp(-t.turn * t.zetas[-1] / 2)  # p ≤ exp(−κζ/2)
    return np.asarray(before + inside + after)


def random_constant(t: Tables, rate: float) -> float:
    r"""C̄(ε) = E C̃(1 + W/ε), P(W ≥ w) = exp(−λ_w): what random arrivals cost."""
    largest, last = largest_constant(t), t.speeds[-1]

    def constant(v: FloatArray) -> FloatArray:
        i = np.minimum(np.searchsorted(t.speeds[1:], v), largest.size - 1)
        return np.asarray(largest[i] * np.maximum(1.0, v / last))  # beyond the table p(v) ≤ p(last)

    w = np.concatenate([[0.0, 1.0], 1 + np.geomspace(1e-3, 80, 400)])
    tail = np.exp(-chernoff(w))
    inside = (constant(1 + w[1:] / rate) * -np.diff(tail)).sum()
    beyond = largest[-1] / min(last, 1 / rate) * (w[-1] + 3) * tail[-1] / rate
    return float(inside + beyond)


def zero_constant(t: Tables, s: float) -> float:
    """C_0(s) = ∫_0^s p_0, an upper Riemann sum."""
    ends = np.minimum(np.append(t.stages, np.inf), s)
    return float(ends[0] + (np.diff(ends) * t.from_zero).sum())


def chernoff(w: FloatArray) -> FloatArray:
    """λ_w ≥ 0 with 1 − exp(−λ) = λ/w: P(sup Γ_k/k ≥ w) ≤ exp(−λ_w). 0 for w ≤ 1."""
    w = np.maximum(w, 1.0)
    exact = w + lambertw(-w * np.exp(-w)).real
    close = 2 * (w - 1) * (1 - 2 * (w - 1) / 3)  # a lower bound near 1, where the other cancels
    return np.where(w < 1 + 1e-4, np.maximum(close, 0.0), np.maximum(exact, 0.0))


LEVELS = 1.03  # the ratio of cells: of numbers of looks,
STAGES = 1.04  # and of stages
FEW = 32  # below this each number is a cell of its own
MOST = 1000  # cells; for more, in problems where nothing useful can be said, the ratio grows
NEVER = 40.0  # e^-40
LARGE = 1e6  # from so many looks on, binomial tails by a formula: exact ones would take for ever


class Cells(NamedTuple):
    """How many stages are expected in which states, and what the tables need to know of them."""

    n_stages: FloatArray
    shares: FloatArray  # κ: the best arm has been seen at least κF/K times
    speeds: FloatArray  # v = t/F
    looks: FloatArray  # F; ζ = Fz²/K


def farthest(t: Tables, n_arms: int, rate: float, looks: str, smallest: float) -> float:
    """Where the cells end for this smallest z: at a number of looks, or (passive) at a stage."""
    if looks == "uniform":
        return math.ceil(60 * n_arms / (rate * -math.expm1(-(smallest**2) / 2)))
    return math.ceil(80 / t.turn * n_arms / smallest**2)


@functools.lru_cache(maxsize=32)
def cells(
    b: float, beta: float, n_arms: int, rate: float, horizon: float, looks: str, smallest: float
) -> Cells:
    """The stages after the first look, sorted by what the tables need to know of them."""
    t = tables(b, beta)
    end = farthest(t, n_arms, rate, looks, smallest)
    if looks == "uniform":
        return _passive(n_arms, rate, min(end, horizon))
    first = cell_starts(1.0, min(end, horizon), LEVELS)
    few, many = first[:-1], first[1:] - 1  # looks, from … to
    shares = np.maximum(t.turn, n_arms * (1 + np.floor(t.turn * few / n_arms)) / many)
    if looks == "periodic":
        period = round(1 / rate)
        n_stages = np.minimum((many + 1) * period, horizon) - np.minimum(few * period, horizon)
        return Cells(n_stages, shares, np.full(few.size, float(period)), few)
    edges = np.ceil(t.speeds * many[:, None]) - 1  # t/F ≥ v from the next stage on
    edges = np.minimum(np.concatenate([np.zeros((few.size, 1)), edges], axis=1), horizon)
    until = stages_at(few[:, None], first[1:, None], edges, rate)
    last = stages_at(few, first[1:], np.full(few.size, horizon), rate)
    n_stages = np.maximum(np.diff(np.append(until, last[:, None], axis=1), axis=1), 0.0)
    speeds = np.broadcast_to(np.append(0.0, t.speeds), n_stages.shape)
    kept = n_stages > 0
    rows = np.nonzero(kept)[0]
    return Cells(n_stages[kept], shares[rows], speeds[kept], few[rows])


def _passive(n_arms: int, rate: float, horizon: float) -> Cells:
    """Cells of stages, of looks at the best arm, and of all looks: an axis each."""
    first = cell_starts(1.0, horizon + 1, STAGES)
    begin, end = first[:-1], first[1:] - 1
    own, other = rate / n_arms, rate * (1 - 1 / n_arms) / (1 - rate / n_arms)
    spread = np.array([-7, -5, -3.5, -2.5, -1.8, -1.2, -0.6, 0, 0.6, 1.2, 2, 3, 4.5, 7])
    few = _around(np.where(spread < 0, own * begin[:, None], own * end[:, None]), spread)
    many = np.append(few[:, 1:] - 1, end[:, None], axis=1)
    n_best = stages_at(few, many + 1, end[:, None], own) - stages_at(
        few, many + 1, begin[:, None] - 1, own
    )
    n_best = np.maximum(n_best, 0.0)
    trials = np.maximum(end[:, None] - 1 - few, 0.0)
    bins = np.array([-1, -0.3, 0.4, 1.1, 1.9, 3.0, 6.0])
    most = _around(other * trials[..., None], bins)
    most = np.append(most, trials[..., None], axis=-1)
    reached = 1 - _reached(most + 1, trials[..., None], other)  # P(others ≤ most)
    reached[..., -1] = 1.0
    share_of_bin = np.diff(reached, axis=-1, prepend=0.0)
    looks = np.minimum(many[..., None] + most, end[:, None, None] - 1)
    n_stages = n_best[..., None] * np.maximum(share_of_bin, 0.0)
    kept = (n_stages > 1e-9) & (looks >= 1)  # no look at all: p_0 has counted it
    n = looks[kept]
    best = np.broadcast_to(np.maximum(few, 1.0)[..., None], looks.shape)[kept]
    stage = np.broadcast_to(begin[:, None, None], looks.shape)[kept]
    rest = n_stages[~kept & (looks >= 1)].sum()  # counted as failures, by a speed of 0
    shares, speeds = np.append(n_arms * best / n, 1.0), np.append(stage / n, 0.0)
    return Cells(np.append(n_stages[kept], rest), shares, speeds, np.append(n, 1.0))


def _around(mean: FloatArray, spread: FloatArray) -> FloatArray:
    """Whole numbers from 0 on around each mean, so many standard deviations away, increasing."""
    away = np.floor(mean + spread * np.sqrt(mean))
    result: FloatArray = np.maximum(away, np.arange(spread.size))
    result[..., 0] = 0.0
    return result


def cell_starts(first: float, last: float, ratio: float) -> FloatArray:
    """Whole numbers from `first` to beyond `last`: each at first, then in about this ratio."""
    farther = math.log(max(last / FEW, 1.0))
    n = min(math.ceil(farther / math.log(ratio)), MOST) + 1
    later = np.ceil(FEW * np.exp(np.linspace(0.0, farther, n)))
    starts = np.unique(np.concatenate([np.arange(first, FEW), later]))
    return np.append(starts[starts <= last], math.floor(last) + 1.0)


def stages_at(few: FloatArray, many: FloatArray, until: FloatArray, rate: float) -> FloatArray:
    """How many stages t ≤ until are expected with few ≤ F(t) < many: a difference of arrivals."""
    return arrival(many, until, rate) - arrival(few, until, rate)


def arrival(k: FloatArray, m: FloatArray, rate: float) -> FloatArray:
    """E min(G_k, m) = (k/ε) P(G_{k+1} ≤ m + 1) + m P(G_k > m), G_k the stage of the k-th look."""
    k, m = np.broadcast_arrays(k, m)
    waiting = 1 - _reached(k, m, rate)
    finite = np.where(np.isinf(m), 0.0, m)
    return np.asarray(k / rate * _reached(k + 1, m + 1, rate) + finite * waiting)


def _reached(k: FloatArray, m: FloatArray, rate: float) -> FloatArray:
    """P(G_k ≤ m) = P(Bin(m, ε) ≥ k); 0 or 1 where the other has probability below e^-40."""
    k, m = np.broadcast_arrays(k, m)
    mean = m * rate
    with np.errstate(invalid="ignore"):
        far = 9.0 * np.sqrt(mean) + NEVER
        result = np.where((k <= 0) | (mean - k > far) | np.isinf(m), 1.0, 0.0)
        between = (k > 0) & (k <= m) & (np.abs(mean - k) <= far) & np.isfinite(m)
    if rate == 1:
        return np.where(k <= m, 1.0, 0.0)
    exact = between & (m * min(rate, 1 - rate) < LARGE)
    result[exact] = betainc(k[exact], m[exact] - k[exact] + 1, rate)
    close = between & ~exact
    result[close] = _normal_tail(k[close], m[close], rate)
    return np.asarray(result)


def _normal_tail(k: FloatArray, m: FloatArray, rate: float) -> FloatArray:
    """P(Bin(m, ε) ≥ k) by Peizer and Pratt's formula; its error is far below 1e-8 from `LARGE` on."""
    away = k - 0.5 - m * rate
    low, high = m * rate, m * (1 - rate)
    bracket = (low + away) * np.log1p(away / low) + (high - away) * np.log1p(-away / high)
    deviation = k - 1 / 3 - (m + 1 / 3) * rate
    scale = np.sqrt(2 / (1 + 1 / (6 * m)) * np.maximum(bracket, 0.0))
    sd = np.sqrt(low * (1 - rate))
    near = np.abs(away) < 1e-3 * sd  # where the bracket cancels, and the ratio is 1/sd
    ratio = np.where(near, 1 / sd, scale / np.maximum(np.abs(away), 1e-3 * sd))
    return np.asarray(erfc(deviation * ratio / math.sqrt(2)) / 2)
