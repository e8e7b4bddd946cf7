r"""How likely the mean of the best arm is to stay too low: the tables behind kibitzer's bound.

For a walk S of independent 1-sub-Gaussian steps,

.. math:: p(\kappa,v,\zeta)\ge P\Big(\exists u\ge\kappa:\ S_u>\sqrt{2u\,\ell(1+\tfrac{bv}{u+b})}
          +\sqrt\zeta\,u\Big), \qquad \ell(x)=\log x-\beta\log(1+\log x),

and p_0(s) is the same for all u > 0 with ℓ(1 + bs/u) and ζ = 1. Neither depends on the number of
arms, the gaps or the rate. Both fall in each argument, so that a value of the table at smaller
arguments is a bound too: that is how they are looked up, never interpolated.
`benchmarks/kibitzer_tables.py` says how each value is certified, and makes the file again.
"""

import functools
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

from kibitz._validation import refused
from kibitz.bounds.bound import FloatArray

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
            raise refused("b", f"{float(kept['b']):g}, for which the bound is tabulated", b)
        if f"turn_{beta:g}" not in kept:
            raise refused("beta", "0 or 1, for which the bound is tabulated", beta)

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
