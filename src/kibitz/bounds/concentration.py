r"""The inequalities that the upper bounds stand on: maxima of averages, binary tails, Lambert's W.

`t` counts observations, Z̄_t is the average of the first t terms of a σ²-sub-Gaussian martingale
difference sequence, `sd` is σ. A probability that says nothing is 1.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import kl_div, lambertw

from kibitz.bounds.bound import FloatArray, check_choice, check_positive, plain

_RATIOS = 1.0 + np.geomspace(0.02, 10.0, 60)  # block ratios γ, of which the best is taken
_N_BLOCKS = 128


def phi(x: ArrayLike) -> float | FloatArray:
    r"""What it costs to hold on a block: :math:`\phi(x)=(1+\sqrt x)^2/(4\sqrt x)`, x = T_2/T_1.

    For x ≥ 1, :math:`1-(x-1)^2/16\le 1/\phi(x)\le 1`.
    """
    array = np.asarray(x, dtype=np.float64)
    if not ((array >= 1) & np.isfinite(array)).all():
        raise ValueError(f"x must be finite and ≥ 1, got {x!r}")
    roots = np.sqrt(array)
    return plain((1 + roots) ** 2 / (4 * roots))


def block_radius(
    t: ArrayLike, start: float, stop: float, delta: ArrayLike, sd: float = 1.0
) -> float | FloatArray:
    r"""The block inequality: a radius that Z̄_t reaches in T_1 ≤ t ≤ T_2 with probability ≤ δ.

    .. math:: \sqrt{(2\sigma^2/t)\,\phi(T_2/T_1)\log(1/\delta)}

    The proof takes β = φ log(1/δ) (printed with a spurious 1/4, D24).
    """
    t, delta, sd = _check_count("t", t), _check_delta(delta), check_positive("sd", sd)
    start = check_positive("start", start)
    if not start <= stop < math.inf or not ((t >= start) & (t <= stop)).all():
        raise ValueError(f"t must be between start={start!r} and stop={stop!r}, got {t!r}")
    return plain(sd * np.sqrt(2 / t * phi(stop / start) * -np.log(delta)))


def maximal_radius(
    t: ArrayLike, horizon: ArrayLike, delta: ArrayLike, sd: float = 1.0
) -> float | FloatArray:
    r"""The radius of the maximal inequality, :math:`\sqrt{(2\sigma^2/t)\log(T/(\delta t))}`."""
    t, delta, sd = _check_count("t", t), _check_delta(delta), check_positive("sd", sd)
    horizon = _check_count("horizon", horizon)
    if not (t <= horizon).all():
        raise ValueError(f"t must be at most the horizon, got {t!r}")
    return plain(sd * np.sqrt(2 / t * (np.log(horizon / t) - np.log(delta))))


def maximal(
    delta: ArrayLike, horizon: ArrayLike = math.inf, *, form: str = "proved"
) -> float | FloatArray:
    r"""The maximal inequality: P(∃t ≤ T: Z̄_t ≥ :func:`maximal_radius`), bounded.

    Parameters
    ----------
    delta
        δ in (0, 1), one or many.
    horizon
        T; the default holds for all T. Only the proved form is smaller for a finite one.
    form
        ``"proved"``: peeling on the blocks :math:`[\gamma^{-k-1}T,\gamma^{-k}T]`, on each of
        which the boundary, which is concave, stays above its chord a + bt, and a martingale
        crosses that with probability at most :math:`e^{-2ab/\sigma^2}`; γ is the best of a grid.
        ``"printed"``: :math:`6\delta\sqrt{\log(1/\delta)}`, for δ ≤ 0.2 (lemma
        "martingale_concentration"); it is right, and says something for δ < 0.1128.
        ``"leading"``: :math:`\sqrt{e/8}\,\delta\sqrt{\log(1/\delta)}`, the printed limit for
        δ → 0, which informs only uniformly in T: for fixed T the ratio tends to 0 (D46).

    Both bounds are at most 1; the printed one is 1 where it does not apply.
    """
    check_choice("form", form, "proved", "printed", "leading")
    delta, horizon = np.broadcast_arrays(_check_delta(delta), _check_count("horizon", horizon))
    size = delta * np.sqrt(-np.log(delta))
    if form == "leading":
        return plain(math.sqrt(math.e / 8) * size)
    printed = np.where(delta <= 0.2, np.minimum(6 * size, 1.0), 1.0)
    if form == "printed":
        return plain(printed)
    # to cut the last block at t = 1 mostly helps, but where it does not all of (0, T] is right too
    pairs = zip(delta.flat, horizon.flat, strict=True)
    peeled = np.array([min(_peel(d, t), _peel(d, math.inf)) for d, t in pairs])
    return plain(np.minimum(printed, peeled.reshape(delta.shape)))


def _peel(delta: float, horizon: float) -> float:
    """The chord bound of :func:`maximal`, in units in which T = 1 and σ = 1."""
    stops, first = _RATIOS[:, None] ** -np.arange(_N_BLOCKS), 1 / horizon
    starts = np.maximum(stops / _RATIOS[:, None], first)
    lows, highs = _boundary(starts, delta), _boundary(stops, delta)
    alone = stops <= first * (1 + 1e-12)  # a block of the single stage t = 1, or of none
    slopes = (highs - lows) / np.where(alone, 1.0, stops - starts)
    # a falling chord says nothing
    exponents = np.where(slopes > 0, 2 * (lows - slopes * starts) * slopes, 0.0)
    exponents = np.where(alone, -math.log(delta) - np.log(stops), exponents)
    crossed = np.where(stops >= first * (1 - 1e-12), np.exp(-exponents), 0.0).sum(axis=1)
    # what lies below the last block, by the block inequality and a geometric series
    powers, below = 1 / np.asarray(phi(_RATIOS)), _RATIOS**-_N_BLOCKS
    rest = np.exp(powers * (math.log(delta) + np.log(below))) / (1 - _RATIOS**-powers)
    return float(min(1.0, (crossed + np.where(below >= first, rest, 0.0)).min()))


def _boundary(t: FloatArray, delta: float) -> FloatArray:
    return np.asarray(np.sqrt(2 * t * (-math.log(delta) - np.log(t))))


def binary_tail(
    n: ArrayLike, p: ArrayLike, deviation: ArrayLike, *, form: str = "proved"
) -> float | FloatArray:
    r"""Bound P(S_n ≤ np − nα) for a sum of n independent binary variables of average mean p.

    Lemma "binary_concentration_variance". ``"proved"`` is :math:`e^{-n\,kl(p-\alpha,p)}`, 0 for
    α > p. ``"printed"`` has kl(p+α, p), which is false for p > 1/2 (D18).
    """
    check_choice("form", form, "proved", "printed")
    n, p, alpha = _check_binary(n, p, deviation)
    level = p + alpha if form == "printed" else p - alpha
    impossible = np.abs(level - 0.5) > 0.5 + 1e-12  # the slack forgives the rounding of p ± α
    return plain(np.where(impossible, 0.0, np.exp(-n * _kl(np.clip(level, 0.0, 1.0), p))))


def binary_tail_variance(n: ArrayLike, p: ArrayLike, deviation: ArrayLike) -> float | FloatArray:
    r"""The same for p ≤ 1/2, by its variance: :math:`\exp(-n\alpha^2/(2p(1-p)))` (Okamoto)."""
    n, p, alpha = _check_binary(n, p, deviation)
    if not ((p > 0) & (p <= 0.5)).all():
        raise ValueError(f"p must be in (0, 1/2], got {p!r}")
    return plain(np.exp(-n * alpha**2 / (2 * p * (1 - p))))


def chung_lu_tail(
    deviation: float, variance: float, excesses: ArrayLike, u: int | None = None
) -> float:
    r"""Bound P(X ≥ EX + α) for a sum of independent X_s ≤ EX_s + M_s (Chung and Lu).

    .. math:: \exp\Big(-\frac{\alpha^2}{2(Var X+\sum_{v\ge u}(M_v-M_u)^2+M_u\alpha/3)}\Big)

    with the M in increasing order (lemma "binary_concentration", which prints M_i for M_s, D37).
    Each u in 1..t is valid; `u=None` takes the best.
    """
    alpha = check_positive("deviation", deviation)
    if not 0 <= variance < math.inf:
        raise ValueError(f"variance must be finite and ≥ 0, got {variance!r}")
    m = np.sort(np.asarray(excesses, dtype=np.float64))
    if m.ndim != 1 or m.size == 0 or not ((m >= 0) & np.isfinite(m)).all():
        raise ValueError(f"excesses must be a list of finite numbers ≥ 0, got {excesses!r}")
    if u is not None and not 1 <= u <= m.size:
        raise ValueError(f"u must be from 1 to {m.size}, got {u!r}")
    spread = np.array([((m[v:] - m[v]) ** 2).sum() for v in range(m.size)])
    scale = 2 * (variance + spread + m * alpha / 3)
    scale = scale.min() if u is None else scale[u - 1]
    return math.exp(-(alpha**2) / scale) if scale > 0 else 0.0


def seen_floor(expected: ArrayLike, stage: ArrayLike) -> FloatArray:
    r"""How often an arm is seen for free, surely enough: :math:`[\Phi-\sqrt{5\Phi\log t}]_+`.

    If arrivals are independent, and Φ free observations are expected, there are fewer than this
    with probability at most :math:`t^{-5/2}`: Chernoff, :math:`P(F\le\Phi-\alpha)\le
    e^{-\alpha^2/(2\Phi)}`. Lemma "binary_concentration_t2" has Φ = pt and states t⁻². The paper
    leaves out the [·]_+, without which its Theorem 3 does not follow (D20).
    """
    expected, stage = np.asarray(expected, dtype=np.float64), np.asarray(stage, dtype=np.float64)
    if not ((expected >= 0) & np.isfinite(expected)).all():
        raise ValueError(f"expected must be finite and ≥ 0, got {expected!r}")
    if not ((stage >= 1) & np.isfinite(stage)).all():
        raise ValueError(f"stage must be finite and ≥ 1, got {stage!r}")
    return np.asarray(np.maximum(expected - np.sqrt(5 * expected * np.log(stage)), 0.0))


def lambert_bounds(x: ArrayLike) -> tuple[float | FloatArray, float | FloatArray]:
    r"""Bounds on W(x), the principal branch, for x ≥ e (Hoorfar and Hassani).

    log x − loglog x plus loglog x/(2 log x), or plus e/(e−1) times loglog x/log x.
    """
    array = np.asarray(x, dtype=np.float64)
    if not ((array >= math.e) & np.isfinite(array)).all():
        raise ValueError(f"x must be finite and ≥ e, got {x!r}")
    log = np.log(array)
    loglog = np.log(log)
    middle, step = log - loglog, loglog / log
    return plain(middle + step / 2), plain(middle + math.e / (math.e - 1) * step)


def lambert_lower_branch_bounds(u: ArrayLike) -> tuple[float | FloatArray, float | FloatArray]:
    r"""Bounds on :math:`W_{-1}(-e^{-u-1})` for u > 0 (Chatzigeorgiou).

    :math:`-1-\sqrt{2u}-u < W_{-1}(-e^{-u-1}) < -1-\sqrt{2u}-2u/3`
    """
    array = np.asarray(u, dtype=np.float64)
    if not ((array > 0) & np.isfinite(array)).all():
        raise ValueError(f"u must be positive and finite, got {u!r}")
    root = np.sqrt(2 * array)
    return plain(-1 - root - array), plain(-1 - root - 2 * array / 3)


def log_ratio_inverse(a: ArrayLike) -> float | FloatArray:
    r"""The largest x in (0, 1) with :math:`(1/x)\log(1/x)\ge a`, that is W(a)/a, for a > 0."""
    array = np.asarray(a, dtype=np.float64)
    if not ((array > 0) & np.isfinite(array)).all():
        raise ValueError(f"a must be positive and finite, got {a!r}")
    return plain(np.exp(-lambertw(array).real))


def stage_ratio_inverse(a: ArrayLike, *, form: str = "proved") -> float | FloatArray:
    r"""The largest t with t/log t ≤ a, for a ≥ e: :math:`-aW_{-1}(-1/a)`.

    ``"printed"`` is the paper's upper bound on it, (5/2) a log a, which is right.
    """
    check_choice("form", form, "proved", "printed")
    array = np.asarray(a, dtype=np.float64)
    if not ((array >= math.e) & np.isfinite(array)).all():
        raise ValueError(f"a must be finite and ≥ e, got {a!r}")
    if form == "printed":
        return plain(2.5 * array * np.log(array))
    log = np.log(array)
    excess = np.maximum(log - 1, 0.0)
    y = 1 + np.sqrt(2 * excess) + excess  # bounds y = log t, which solves y − log y = log a
    for _ in range(20):  # Newton from above, on a convex function: each step stays above
        slope = 1 - 1 / y
        y = y - np.divide(y - np.log(y) - log, slope, out=np.zeros_like(y), where=slope > 0)
        y = np.maximum(y, 1.0)
    return plain(array * y)


def _kl(a: FloatArray, b: FloatArray) -> FloatArray:
    """The Bernoulli divergence; infinite where b is 0 or 1 and a is not."""
    divergence: FloatArray = kl_div(a, b) + kl_div(1 - a, 1 - b)
    return divergence


def _check_binary(
    n: ArrayLike, p: ArrayLike, deviation: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    n, p = _check_count("n", n), np.asarray(p, dtype=np.float64)
    alpha = np.asarray(deviation, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p must be in [0, 1], got {p!r}")
    if not (alpha >= 0).all():
        raise ValueError(f"deviation must be ≥ 0, got {deviation!r}")
    return n, p, alpha


def _check_count(name: str, value: ArrayLike) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if not (array >= 1).all():
        raise ValueError(f"{name} must be ≥ 1, got {value!r}")
    return array


def _check_delta(delta: ArrayLike) -> FloatArray:
    array = np.asarray(delta, dtype=np.float64)
    if not ((array > 0) & (array < 1)).all():
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")
    return array
