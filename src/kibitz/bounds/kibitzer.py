r"""What kibitzer is sure to keep below, for every horizon. Theorem and proof: docs/kibitzer.md.

kibitzer pulls the largest :math:`m_i+\sqrt{2\ell(x_i)/O_i}`, :math:`x_i=1+bt/(KO_i+bF)`, and gives every
fourth look to the arms in turn. For all non-decreasing :math:`0<z_i<\Delta_i`,

.. math:: E R_T\le\sum_i\Delta_i(1+X_i(z_i))+\sum_i(\Delta_i-\Delta_{i-1})H_T(z_i)

where X_i bounds the pulls of arm i while the index of the best arm is above μ_1 − z_i, and H_T(z) the
stages at which it is below. Both are sums over cells; in each cell every factor is taken where the
summand is largest, so that the result is a bound and no approximation (up to floating point).
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, erfc

from kibitz.bounds import crossing
from kibitz.bounds.bound import (
    LARGEST_HORIZON,
    Answer,
    FloatArray,
    answer,
    check_choice,
    check_gaps,
    check_positive,
    check_rate,
)
from kibitz.bounds.crossing import Tables, chernoff, width
from kibitz.validate import refused

LOOKS = ("active", "uniform", "periodic")
LEVELS = 1.03  # the ratio of cells: of numbers of looks,
STAGES = 1.04  # of stages,
COUNTS = 1.02  # and of observations
FEW = 32  # below this each number is a cell of its own
THRESHOLDS = 40  # values of z that are tried
NEVER = 40.0  # e^-40


class Cells(NamedTuple):
    """How many stages are expected in which states, and what the tables need to know of them."""

    n_stages: FloatArray
    shares: FloatArray  # κ: the best arm has been seen at least κF/K times
    speeds: FloatArray  # v = t/F
    looks: FloatArray  # F; ζ = Fz²/K


def kibitzer(
    gaps: ArrayLike,
    rate: ArrayLike,
    horizon: ArrayLike = math.inf,
    *,
    looks: str = "active",
    beta: float = 1.0,
    b: float = 8.0,
    scale: float = 1.0,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""kibitzer's regret, for every T (docs/kibitzer.md, Theorem 1; not in the paper).

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order.
    rate
        ε. With rate 0 nothing is seen but pulls, and the bound is logarithmic in T.
    horizon
        T, or infinity.
    looks
        "active" (arrivals at random, every fourth look in turn, the others anywhere), "periodic" (the
        same, arrivals every 1/ε stages) or "uniform" (passive, at random, each arm alike).
    beta, b
        Of the index; 0 or 1, and 8.
    scale
        σ: rewards are σ²-sub-Gaussian.
    form
        "proved" (Theorem 1, computed) or "closed" (the corollary, a formula; active or periodic).
    """
    check_choice("looks", looks, *LOOKS)
    check_choice("form", form, "proved", "closed")
    tables = crossing.tables(float(b), float(beta))
    unit = check_positive("scale", scale)
    delta, rates, horizons = check_gaps(gaps) / unit, check_rate(rate), _check_horizon(horizon)
    if looks == "periodic":
        _check_period(rates)
    if form == "closed" and looks == "uniform":
        raise refused("looks", "active or periodic for the closed form", looks)
    shape = np.broadcast_shapes(rates.shape, horizons.shape)
    rates, horizons = np.broadcast_to(rates, shape), np.broadcast_to(horizons, shape)
    terms = np.zeros((*shape, delta.size))
    bound = _closed if form == "closed" else _proved
    for place in np.ndindex(shape):
        terms[place] = bound(tables, delta, float(rates[place]), float(horizons[place]), looks)
    terms *= unit
    return answer(terms.sum(axis=-1), terms, None, details)


def _check_horizon(horizon: ArrayLike) -> FloatArray:
    array = np.asarray(horizon, dtype=np.float64)
    whole = (array >= 1) & (array <= LARGEST_HORIZON) & (array == np.floor(array))
    if not (whole | (array == math.inf)).all():
        raise ValueError(
            f"horizon must be a whole number from 1 to 2**53 or infinite, got {horizon!r}"
        )
    return array


def _check_period(rates: FloatArray) -> None:
    period = 1 / rates[rates > 0]
    if not (np.abs(period - np.rint(period)) < 1e-6 * period).all():
        raise refused("rate", "1 over a whole number for periodic looks", rates)


# the best choice of thresholds ----------------------------------------------------------------


def _proved(t: Tables, gaps: FloatArray, rate: float, horizon: float, looks: str) -> FloatArray:
    """The terms of Theorem 1, per arm, for the best thresholds z_i on a grid.

    Gaps up to some Δ_m may be given up: every stage then costs Δ_m, and the theorem bounds what the
    larger gaps cost more. m = 0 is the theorem itself; the largest m is TΔ_max.
    """
    order = np.argsort(gaps, kind="stable")
    order = order[gaps[order] > 0]
    terms = np.zeros(gaps.size)
    if order.size == 0:
        return terms
    delta = gaps[order]
    if rate == 0 and horizon == math.inf:
        terms[order] = math.inf
        return terms
    z = np.geomspace(0.15 * delta[0], 0.9 * delta[-1], THRESHOLDS)
    pulls = 1 + explored(t, delta[:, None] - z, gaps.size, rate, horizon, looks)
    pulls = np.minimum(pulls, horizon)
    stages = failing(t, z, gaps.size, rate, horizon, looks)
    below = np.concatenate([[0.0], delta])
    best = math.inf
    for given_up in range(delta.size + 1 if horizon < math.inf else 1):
        price = below[given_up]
        costs = (delta - price)[given_up:, None] * pulls[given_up:]
        costs = costs + np.diff(below)[given_up:, None] * stages
        chosen = _monotone(costs)
        lost = price * horizon if given_up else 0.0
        if lost + chosen.sum() < best:
            best = lost + chosen.sum()
            terms[order] = 0.0
            terms[order[given_up:]] = chosen
            if given_up:
                terms[order[given_up - 1]] = lost
    return terms


def _monotone(costs: FloatArray) -> FloatArray:
    """What each row costs if columns are chosen that never decrease and cost least together."""
    n_rows, n_columns = costs.shape
    total = np.zeros(n_columns)
    came: list[np.ndarray] = []
    for row in costs:
        came.append(_places_of_running_minimum(total))
        total = np.minimum.accumulate(total) + row
    chosen = np.zeros(n_rows)
    column = int(np.argmin(total))
    for i in range(n_rows - 1, -1, -1):
        chosen[i] = costs[i, column]
        column = int(came[i][column])
    return chosen


def _places_of_running_minimum(values: FloatArray) -> np.ndarray:
    smallest = np.minimum.accumulate(values)
    fresh = np.append(True, values[1:] < smallest[:-1])
    return np.maximum.accumulate(np.where(fresh, np.arange(values.size), 0))


# exploration (steps 3, 5 and 6) ---------------------------------------------------------------


def explored(
    t: Tables, room: FloatArray, n_arms: int, rate: float, horizon: float, looks: str
) -> FloatArray:
    r"""X: the pulls of an arm after its first observation while U_1 is above μ_1 − z; room = Δ − z.

    .. math:: E\sum_{n\ge1}\exp\Big(-\frac n2\big(\Delta-z-\sqrt{2\ell(1+V_n)/n}\big)_+^2\Big),
              \qquad V_n=\sup_{t\le T}\frac t{F(t)+Kn/b}

    over cells of n, in which the first n stands for all, and of V_n, in which the largest does. Infinite
    where there is no room.
    """
    result = np.full(room.shape, math.inf)
    fits = room > 0.04 * room.max()
    a = room[fits]
    c = n_arms / t.b
    widest = width(_worst_speed(c, rate, horizon, looks) + 1, t.beta)
    last = ((math.sqrt(2 * NEVER) + math.sqrt(2 * widest)) / a) ** 2  # then the summand is below e^-40
    first = _cell_starts(1.0, float(last.max()), COUNTS)
    n = first[:-1]
    share, speed = _speeds(c * n, rate, horizon, looks)  # one row for each n
    mass = share * np.diff(first)[:, None]
    kept = mass > 1e-13
    row = np.nonzero(kept)[0]
    weight, steps = mass[kept], np.sqrt(n)[row]
    roots = np.sqrt(2 * width(1 + speed, t.beta))[kept]
    needed = np.searchsorted(row, np.searchsorted(first, last))  # the pairs of each a
    total = np.full(a.shape, float(mass[~kept].sum()))
    for i, value in enumerate(a):
        over = np.maximum(value * steps[: needed[i]] - roots[: needed[i]], 0.0)
        total[i] += (weight[: needed[i]] * np.exp(-(over**2) / 2)).sum()
    end = np.maximum(first[np.minimum(np.searchsorted(first, last), first.size - 1)], 2.0)
    over = a * np.sqrt(end - 1) - math.sqrt(2 * widest)  # step 5, from the last cell on
    total += 2 / a**2 * (np.exp(-(over**2) / 2) + np.sqrt(math.pi * widest) * erfc(over / 2**0.5))
    result[fits] = total + [_late(c, float(m), rate, horizon, looks) for m in end]
    return result


TOP = 60.0  # V_n ε beyond which only its probability is counted


def _worst_speed(c: float, rate: float, horizon: float, looks: str) -> FloatArray:
    """A value that V_1 exceeds with probability about e^-60 at most, or never."""
    if rate == 0:
        return np.asarray(horizon / c)
    top = max(1.0, 1 / c) / rate * (1.0 if looks == "periodic" else TOP)
    return np.asarray(min(top, horizon / c))


def _late(c: float, n: float, rate: float, horizon: float, looks: str) -> float:
    """Σ_{m ≥ n} P(V_m > TOP/ε): later observations at which V is beyond the worst speed."""
    if rate == 0 or looks == "periodic" or horizon / c <= TOP * max(1.0, 1 / c) / rate:
        return 0.0
    slope = float(chernoff(np.asarray(TOP)))
    return math.exp(-slope * (c * n - rate / TOP)) / -math.expm1(-slope * c)


def _speeds(
    c: FloatArray, rate: float, horizon: float, looks: str
) -> tuple[FloatArray, FloatArray]:
    """The distribution of V = sup t/(F + c), rounded up: probabilities and values, a row for each c."""
    most = (horizon / c)[:, None]
    certain = np.ones((c.size, 1))
    if rate == 0:
        return certain, most
    if looks == "periodic":
        return certain, np.minimum(np.maximum(1.0, 1 / c)[:, None] / rate, most)
    w = 1 + np.concatenate([[0.0], np.geomspace(1e-3, TOP * max(1.0, 1 / float(c.min())), 48)])
    tails = np.minimum.accumulate(np.minimum(1.0, _speed_tail(c, rate, w)), axis=1)
    tails[:, 0] = 1.0
    masses = np.append(-np.diff(tails, axis=1), tails[:, -1:], axis=1)
    return masses, np.minimum(np.append(w[1:] / rate, 1e300), most)


def _speed_tail(c: FloatArray, rate: float, w: FloatArray) -> FloatArray:
    """P(V > w/ε), a row for each c: the smallest of three bounds (step 6)."""
    line = np.exp(-chernoff(w) * (c[:, None] - rate / w))
    factors, rows = np.unique(np.maximum(1.0, 1 / c), return_inverse=True)
    scaled = w / factors[:, None]
    poisson = np.exp(-chernoff(scaled - rate))
    reverse = np.where(scaled > 1, scaled * np.exp(1 - scaled), 1.0)
    return np.minimum(line, np.minimum(poisson, reverse)[rows])


# failure (steps 4, 7 and 8) -------------------------------------------------------------------


def failing(
    t: Tables, z: FloatArray, n_arms: int, rate: float, horizon: float, looks: str
) -> FloatArray:
    """H_T(z): the expected number of stages at which the index of the best arm is below μ_1 − z."""
    stages = np.array([_before_any_look(t, x, n_arms, rate, horizon, looks) for x in z])
    if rate > 0 and horizon > 1:
        smallest = 2.0 ** math.floor(math.log2(z.min()))  # few values, so that cells are found again
        cells = _cells(t.b, t.beta, n_arms, rate, horizon, looks, smallest)
        at = crossing.places(t, cells.shares, cells.speeds)
        for i, x in enumerate(z):
            zetas = cells.looks * (x * x / n_arms)
            stages[i] += (cells.n_stages * crossing.probability(t, at, zetas)).sum()
        stages += _beyond(t, z, n_arms, rate, looks, smallest)
    return np.minimum(stages, horizon)


def _before_any_look(
    t: Tables, z: float, n_arms: int, rate: float, horizon: float, looks: str
) -> float:
    """Σ_t P(F(t) = 0) p_0(tz²/K), in cells of the table of p_0."""
    starts = np.maximum(np.ceil(t.stages * (n_arms / z**2)), 1.0)
    ends = np.append(starts[1:], math.inf)
    last = min(horizon, 1 / rate if looks == "periodic" and rate > 0 else math.inf)
    starts, ends = np.minimum(starts, last + 1), np.minimum(ends, last + 1)
    before = _unlooked(np.array([1.0]), starts[:1], rate, looks)[0]  # p_0 ≤ 1
    return float(before + (_unlooked(starts, ends, rate, looks) * t.from_zero).sum())


def _unlooked(starts: FloatArray, ends: FloatArray, rate: float, looks: str) -> FloatArray:
    """How many of the stages from `starts` to before `ends` are expected to come before any look."""
    if rate == 0 or looks == "periodic":
        return ends - starts
    if rate == 1:
        return np.where((starts <= 1) & (ends > 1), 1.0, 0.0)
    decay = math.log1p(-rate)
    return np.asarray((np.exp(decay * (starts - 1)) - np.exp(decay * (ends - 1))) / rate)


def _farthest(t: Tables, n_arms: int, rate: float, looks: str, smallest: float) -> float:
    """Where the cells end for this smallest z: a number of looks, or for a passive observer a stage."""
    if looks == "uniform":
        return math.ceil(60 * n_arms / (rate * -math.expm1(-(smallest**2) / 2)))
    return math.ceil(80 / t.turn * n_arms / smallest**2)


def _beyond(
    t: Tables, z: FloatArray, n_arms: int, rate: float, looks: str, smallest: float
) -> FloatArray:
    """The stages of failure after that, at most, by P(∃ n ≥ m: S_n > nz) ≤ exp(−mz²/2)."""
    end = _farthest(t, n_arms, rate, looks, smallest)
    if looks == "uniform":  # Σ_t E exp(−F_1(t) z²/2)
        falling = rate / n_arms * -np.expm1(-(z**2) / 2)
        return np.asarray(np.exp(-falling * end) / falling)
    slope = t.turn * z**2 / (2 * n_arms)  # 1/ε stages at each number of looks
    return np.asarray(np.exp(-slope * end) / -np.expm1(-slope) / rate)


@functools.lru_cache(maxsize=32)
def _cells(
    b: float, beta: float, n_arms: int, rate: float, horizon: float, looks: str, smallest: float
) -> Cells:
    """The stages after the first look, sorted by what the tables need to know of them."""
    t = crossing.tables(b, beta)
    end = _farthest(t, n_arms, rate, looks, smallest)
    if looks == "uniform":
        return _passive_cells(n_arms, rate, min(end, horizon))
    first = _cell_starts(1.0, min(end, horizon), LEVELS)
    few, many = first[:-1], first[1:] - 1  # looks, from … to
    shares = np.maximum(t.turn, n_arms * (1 + np.floor(t.turn * few / n_arms)) / many)
    if looks == "periodic":
        period = round(1 / rate)
        n_stages = np.minimum((many + 1) * period, horizon) - np.minimum(few * period, horizon)
        return Cells(n_stages, shares, np.full(few.size, float(period)), few)
    edges = np.ceil(t.speeds * many[:, None]) - 1  # t/F ≥ v from the next stage on
    edges = np.minimum(np.concatenate([np.zeros((few.size, 1)), edges], axis=1), horizon)
    until = _stages(few[:, None], first[1:, None], edges, rate)
    last = _stages(few, first[1:], np.full(few.size, horizon), rate)
    n_stages = np.maximum(np.diff(np.append(until, last[:, None], axis=1), axis=1), 0.0)
    speeds = np.broadcast_to(np.append(0.0, t.speeds), n_stages.shape)
    kept = n_stages > 0
    rows = np.nonzero(kept)[0]
    return Cells(n_stages[kept], shares[rows], speeds[kept], few[rows])


def _passive_cells(n_arms: int, rate: float, horizon: float) -> Cells:
    """Cells of stages, of looks at the best arm, and of all looks: an axis each."""
    first = _cell_starts(1.0, horizon + 1, STAGES)
    begin, end = first[:-1], first[1:] - 1
    own, other = rate / n_arms, rate * (1 - 1 / n_arms) / (1 - rate / n_arms)
    spread = np.array([-7, -5, -3.5, -2.5, -1.8, -1.2, -0.6, 0, 0.6, 1.2, 2, 3, 4.5, 7])
    few = _around(np.where(spread < 0, own * begin[:, None], own * end[:, None]), spread)
    many = np.append(few[:, 1:] - 1, end[:, None], axis=1)
    n_best = _stages(few, many + 1, end[:, None], own) - _stages(few, many + 1, begin[:, None] - 1, own)
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


def _cell_starts(first: float, last: float, ratio: float) -> FloatArray:
    """Whole numbers from `first` to beyond `last`: each at first, then in about this ratio."""
    n = max(math.ceil(math.log(max(last / FEW, 1.0)) / math.log(ratio)), 0) + 1
    later = np.ceil(FEW * ratio ** np.arange(n + 1.0))
    starts = np.unique(np.concatenate([np.arange(first, FEW), later]))
    return np.append(starts[starts <= last], math.floor(last) + 1.0)


def _stages(few: FloatArray, many: FloatArray, until: FloatArray, rate: float) -> FloatArray:
    """How many stages t ≤ until are expected with few ≤ F(t) < many: E min(G_many, t) − E min(G_few, t)."""
    return _arrival(many, until, rate) - _arrival(few, until, rate)


def _arrival(k: FloatArray, m: FloatArray, rate: float) -> FloatArray:
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
        result = np.where((k <= 0) | (mean - k > far), 1.0, 0.0)
        between = (k > 0) & (k <= m) & (np.abs(mean - k) <= far)
    if rate == 1:
        return np.where(k <= m, 1.0, 0.0)
    result[between] = betainc(k[between], m[between] - k[between] + 1, rate)
    return np.asarray(result)


# the closed form ------------------------------------------------------------------------------


def _closed(t: Tables, gaps: FloatArray, rate: float, horizon: float, looks: str) -> FloatArray:
    r"""The corollary: z_i = Δ_i/2 and the constants C̄ (or C_per) and C_0.

    .. math:: \sum_i\Big[\Delta_i+\frac{8(\bar\ell+\sqrt{\pi\bar\ell}+1)}{\Delta_i}\Big]
              +\frac{8K}{\Delta_{\min}}\Big[\bar C(\varepsilon)
              +C_0\Big(\frac{\Delta_{\max}^2}{4K\varepsilon}\Big)\Big]
    """
    k, positive = gaps.size, gaps > 0
    terms = np.zeros(k)
    if not positive.any():
        return terms
    if rate == 0 and horizon == math.inf:
        return np.where(positive, math.inf, 0.0)
    fastest = horizon * t.b / k
    if rate > 0:
        mean = 1 / rate if looks == "periodic" else 1 + math.pi**2 / (6 * rate)
        fastest = min(fastest, max(1.0, t.b / k) * mean)
    level = width(np.asarray(1 + fastest), t.beta)
    delta = gaps[positive]
    terms[positive] = delta + 8 * (level + np.sqrt(math.pi * level) + 1) / delta
    waiting = min(horizon, 1 / rate if rate > 0 else math.inf)
    failures = crossing.zero_constant(t, waiting * delta.max() ** 2 / (4 * k))
    if rate > 0 and looks == "periodic":
        v = np.searchsorted(t.speeds, (1 + 1e-12) / rate, side="right") - 1
        failures += crossing.periodic_constant(t)[v] / (rate * t.speeds[v])
    elif rate > 0:
        failures += crossing.random_constant(t, rate)
    worst = np.flatnonzero(positive)[np.argmin(delta)]
    terms[worst] += 8 * k / delta.min() * failures
    return terms
