r"""What kibitzer is sure to keep below, for every horizon. Theorem and proof: docs/kibitzer_proof.md.

kibitzer pulls the largest :math:`m_i+\sqrt{2\ell(x_i)/O_i}`, :math:`x_i=1+bt/(KO_i+bF)`, and gives
every fourth look to the arms in turn. For all non-decreasing :math:`0<z_i<\Delta_i`,

.. math:: E R_T\le\sum_i\Delta_i(1+X_i(z_i))+\sum_i(\Delta_i-\Delta_{i-1})H_T(z_i)

where X_i bounds the pulls of arm i while the index of the best arm is above μ_1 − z_i, and H_T(z) the
stages at which it is below. Both are sums over cells; in each cell every factor is taken where the
summand is largest, so that the result is a bound and no approximation (up to floating point).
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc, ndtr

from kibitz._validation import flag, invalid, number
from kibitz.bounds._bound import Answer, answer, bound
from kibitz.bounds._checks import (
    LARGEST_HORIZON,
    FloatArray,
    check_array,
    check_choice,
    check_gaps,
    check_rate,
    check_scale,
    check_shapes,
)
from kibitz.bounds.upper._crossing import (
    NEVER,
    Tables,
    cell_starts,
    cells,
    chernoff,
    farthest,
    periodic_constant,
    places,
    probability,
    random_constant,
    tables,
    width,
    zero_constant,
)

LOOKS = ("active", "uniform", "periodic")
COUNTS = 1.02  # the ratio of cells of numbers of observations
THRESHOLDS = 40  # values of z that are tried
SMALLEST, LARGEST = 1e-6, 1e3  # gaps that thresholds are made for


@bound(arrivals="any")
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
    gaussian: bool = False,
    details: bool = False,
) -> Answer:
    r"""kibitzer's regret, for every T (docs/kibitzer_proof.md, Theorem 1; not in the paper).

    Parameters
    ----------
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
    gaussian
        Whether rewards are Gaussian of standard deviation σ, of which more can be said.
    """
    check_choice("looks", looks, *LOOKS)
    check_choice("form", form, "proved", "closed")
    normal = flag(gaussian, "gaussian")
    t = tables(number(b, "b"), number(beta, "beta"))
    unit = check_scale("scale", scale)
    delta, rates, horizons = check_gaps(gaps) / unit, check_rate(rate), _check_horizon(horizon)
    if looks == "periodic":
        _check_period(rates)
    if form == "closed" and looks == "uniform":
        raise invalid("looks", "active or periodic for the closed form", looks)
    rates = np.where(rates < 1e-100, 0.0, rates)  # a look before stage 2⁵³ is less likely than 1e-84
    shape = check_shapes(rate=rates, horizon=horizons)
    rates, horizons = np.broadcast_to(rates, shape), np.broadcast_to(horizons, shape)
    terms = np.zeros((*shape, delta.size))
    formula = _closed if form == "closed" else _proved
    for place in np.ndindex(shape):
        where = float(rates[place]), float(horizons[place]), looks
        terms[place] = formula(t, delta, *where, normal)
    terms *= unit
    return answer(terms.sum(axis=-1), terms, None, details)


def _check_horizon(horizon: ArrayLike) -> FloatArray:
    return check_array(
        "horizon",
        horizon,
        "a whole number from 1 to 2**53, or infinite",
        lambda t: ((t >= 1) & (t <= LARGEST_HORIZON) & (t == np.floor(t))) | (t == math.inf),
    )


def _check_period(rates: FloatArray) -> None:
    period = 1 / rates[rates > 0]
    if not (np.abs(period - np.rint(period)) < 1e-6 * period).all():
        raise invalid("rate", "1 over a whole number for periodic looks", rates)


# the best choice of thresholds ----------------------------------------------------------------


def _proved(
    t: Tables, gaps: FloatArray, rate: float, horizon: float, looks: str, gaussian: bool
) -> FloatArray:
    """The terms of Theorem 1, per arm, for the best thresholds z_i on a grid.

    Gaps up to some Δ_m may be given up: every stage then costs Δ_m, and the theorem bounds what the
    larger gaps cost more. m = 0 is the theorem itself; the largest m is TΔ_max. Gaps below 1e-6 are
    always given up.
    """
    order = np.argsort(gaps, kind="stable")
    order = order[gaps[order] > 0]
    terms = np.zeros(gaps.size)
    if order.size == 0:
        return terms
    delta = gaps[order]
    hopeless = int(np.searchsorted(delta, SMALLEST))
    if horizon == math.inf and (rate == 0 or hopeless):
        terms[order] = math.inf
        return terms
    if hopeless == delta.size:
        terms[order[-1]] = horizon * delta[-1]
        return terms
    z = np.geomspace(0.15 * delta[hopeless], 0.9 * min(delta[-1], LARGEST), THRESHOLDS)
    z = np.minimum(z, 0.9 * LARGEST)
    pulls = 1 + explored(t, delta[:, None] - z, gaps.size, rate, horizon, looks, gaussian)
    pulls = np.minimum(pulls, horizon)
    stages = failing(t, z, gaps.size, rate, horizon, looks)
    below = np.concatenate([[0.0], delta])
    best = math.inf
    for given_up in range(hopeless, delta.size + 1 if horizon < math.inf else 1):
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
    t: Tables,
    room: FloatArray,
    n_arms: int,
    rate: float,
    horizon: float,
    looks: str,
    gaussian: bool = False,
) -> FloatArray:
    r"""X: the pulls of an arm after its first observation while U_1 is above μ_1 − z; room = Δ − z.

    .. math:: E\sum_{n\ge1}\exp\Big(-\frac n2\big(\Delta-z-\sqrt{2\ell(1+V_n)/n}\big)_+^2\Big),
              \qquad V_n=\sup_{t\le T}\frac t{F(t)+Kn/b}

    over cells of n, in which the first n stands for all, and of V_n, in which the largest does. For
    Gaussian rewards the summand is the probability itself, of a normal variable above
    (Δ − z)√n − √(2ℓ). Infinite where there is no room.
    """
    result = np.full(room.shape, math.inf)
    fits = room > 0.04 * room.max(axis=-1, keepdims=True)
    a = room[fits]
    c = n_arms / t.b
    widest = width(_worst_speed(c, rate, horizon, looks) + 1, t.beta)
    last = (
        (math.sqrt(2 * NEVER) + math.sqrt(2 * widest)) / a
    ) ** 2  # then the summand is below e^-40
    first = cell_starts(1.0, max(float(last.max()), 1.0), COUNTS)
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
        over = value * steps[: needed[i]] - roots[: needed[i]]
        heights = ndtr(-over) if gaussian else np.exp(-(np.maximum(over, 0.0) ** 2) / 2)
        total[i] += (weight[: needed[i]] * heights).sum()
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


def _speeds(c: FloatArray, rate: float, horizon: float, looks: str) -> tuple[FloatArray, FloatArray]:
    """The law of V = sup t/(F + c), rounded up: probabilities and values, a row for each c."""
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
        found = cells(t.b, t.beta, n_arms, rate, horizon, looks, smallest)
        at = places(t, found.shares, found.speeds)
        for i, x in enumerate(z):
            zetas = found.looks * (x * x / n_arms)
            stages[i] += (found.n_stages * probability(t, at, zetas)).sum()
        stages += _beyond(t, z, n_arms, rate, looks, smallest)
    return np.asarray(np.minimum(stages, horizon))


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


def _beyond(
    t: Tables, z: FloatArray, n_arms: int, rate: float, looks: str, smallest: float
) -> FloatArray:
    """The stages of failure after that, at most, by P(∃ n ≥ m: S_n > nz) ≤ exp(−mz²/2)."""
    end = farthest(t, n_arms, rate, looks, smallest)
    if looks == "uniform":  # Σ_t E exp(−F_1(t) z²/2)
        falling = rate / n_arms * -np.expm1(-(z**2) / 2)
        return np.asarray(np.exp(-falling * end) / falling)
    slope = t.turn * z**2 / (2 * n_arms)  # 1/ε stages at each number of looks
    return np.asarray(np.exp(-slope * end) / -np.expm1(-slope) / rate)


# the closed form ------------------------------------------------------------------------------


def _closed(
    t: Tables, gaps: FloatArray, rate: float, horizon: float, looks: str, gaussian: bool
) -> FloatArray:
    r"""The corollary: z_i = Δ_i/2 and the constants C̄ (or C_per) and C_0.

    .. math:: \sum_i\Big[\Delta_i+\frac{8(\bar\ell+\sqrt{\pi\bar\ell}+1)}{\Delta_i}\Big]
              +\frac{8K}{\Delta_{\min}}\Big[\bar C(\varepsilon)
              +C_0\Big(\frac{\Delta_{\max}^2}{4K\varepsilon}\Big)\Big]

    For Gaussian rewards ℓ̄ + 1/2 takes the place of ℓ̄ + √(πℓ̄) + 1.
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
    more = 0.5 if gaussian else np.sqrt(math.pi * level) + 1
    terms[positive] = delta + 8 * (level + more) / delta
    waiting = min(horizon, 1 / rate if rate > 0 else math.inf)
    failures = zero_constant(t, waiting * delta.max() ** 2 / (4 * k))
    if rate > 0 and looks == "periodic":
        v = np.searchsorted(t.speeds, (1 + 1e-12) / rate, side="right") - 1
        failures += periodic_constant(t)[v] / (rate * t.speeds[v])
    elif rate > 0:
        failures += random_constant(t, rate)
    worst = np.flatnonzero(positive)[np.argmin(delta)]
    terms[worst] += 8 * k / delta.min() * failures
    return terms
