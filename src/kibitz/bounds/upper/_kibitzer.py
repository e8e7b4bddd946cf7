r"""The upper bound for kibitzer, valid for every horizon (theorem and proof: docs/kibitzer_proof.md).

kibitzer pulls the arm with the largest index :math:`m_i+\sqrt{2\ell(x_i)/O_i}` with
:math:`x_i=1+bt/(KO_i+bF)`, where m_i is the average of the O_i observations of arm i and F is the
number of looks so far. Every fourth look goes to the arms in turn. With arms in order of increasing
gap, and for all non-decreasing thresholds :math:`0<z_i<\Delta_i` of the sub-optimal arms,

.. math:: E R_T\le\sum_i\Delta_i(1+X_i(z_i))+\sum_i(\Delta_i-\Delta_{i-1})H_T(z_i)

where μ_1 is the best mean, X_i bounds the pulls of arm i while the best arm's index is above μ_1 −
z_i, and H_T(z) bounds the number of stages at which the index of the best arm is below μ_1 − z. X_i
and H_T are sums over cells. In each cell, every factor is replaced by its largest value, so the
result is a bound and not an approximation (up to floating-point errors).
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc, ndtr

from kibitz._validation import flag, invalid, number
from kibitz.bounds._bound import Result, bound, make_result
from kibitz.bounds._checks import (
    MAX_HORIZON,
    FloatArray,
    check_array,
    check_choice,
    check_gaps,
    check_rate,
    check_scale,
    check_shapes,
)
from kibitz.bounds.upper._crossing import (
    NEGLIGIBLE_EXPONENT,
    Tables,
    compute_chernoff_exponent,
    compute_ell,
    compute_periodic_constant,
    compute_random_constant,
    compute_zero_constant,
    find_end,
    find_places,
    load_tables,
    lookup_probability,
    make_cell_starts,
    make_cells,
)

LOOKS = ("active", "uniform", "periodic")
COUNT_RATIO = 1.02  # the ratio of adjacent cells of numbers of observations
N_THRESHOLDS = 40  # the number of thresholds z to try
MIN_GAP, MAX_GAP = 1e-6, 1e3  # limits of the gaps for which thresholds are chosen


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
) -> Result:
    r"""Return the upper bound on kibitzer's regret (docs/kibitzer_proof.md, Theorem 1).

    Parameters
    ----------
    rate
        The rate ε of looks. At rate 0 there are no looks, and the bound is logarithmic in T.
    horizon
        The horizon T, which can be infinite.
    looks
        "active" (random arrivals; every fourth look goes to the arms in turn, and the other looks to
        any arms), "periodic" (like "active", but a look arrives every 1/ε stages) or "uniform"
        (passive observer with random arrivals and equal weights).
    beta, b
        The parameters of the index: beta is 0 or 1, and b is 8.
    scale
        The sub-Gaussian scale σ of the rewards.
    form
        "proved" (Theorem 1, computed numerically) or "closed" (the corollary, a formula in closed
        form; only for active and periodic looks).
    gaussian
        Whether rewards are Gaussian with standard deviation σ. The bound is then smaller.
    """
    check_choice("looks", looks, *LOOKS)
    check_choice("form", form, "proved", "closed")
    normal = flag(gaussian, "gaussian")
    t = load_tables(number(b, "b"), number(beta, "beta"))
    unit = check_scale("scale", scale)
    delta, rates, horizons = check_gaps(gaps) / unit, check_rate(rate), _check_horizon(horizon)
    if looks == "periodic":
        _check_period(rates)
    if form == "closed" and looks == "uniform":
        raise invalid("looks", "active or periodic for the closed form", looks)
    rates = np.where(
        rates < 1e-100, 0.0, rates
    )  # a look before stage 2⁵³ has probability below 1e-84
    shape = check_shapes(rate=rates, horizon=horizons)
    rates, horizons = np.broadcast_to(rates, shape), np.broadcast_to(horizons, shape)
    terms = np.zeros((*shape, delta.size))
    formula = _evaluate_closed if form == "closed" else _evaluate_proved
    for place in np.ndindex(shape):
        where = float(rates[place]), float(horizons[place]), looks
        terms[place] = formula(t, delta, *where, normal)
    terms *= unit
    return make_result(terms.sum(axis=-1), terms, None, details)


def _check_horizon(horizon: ArrayLike) -> FloatArray:
    return check_array(
        "horizon",
        horizon,
        "a whole number from 1 to 2**53, or infinite",
        lambda t: ((t >= 1) & (t <= MAX_HORIZON) & (t == np.floor(t))) | (t == math.inf),
    )


def _check_period(rates: FloatArray) -> None:
    period = 1 / rates[rates > 0]
    if not (np.abs(period - np.rint(period)) < 1e-6 * period).all():
        raise invalid("rate", "1/n with a whole number n for periodic looks", rates)


# the best choice of thresholds ----------------------------------------------------------------


def _evaluate_proved(
    t: Tables, gaps: FloatArray, rate: float, horizon: float, looks: str, gaussian: bool
) -> FloatArray:
    """Return the terms of Theorem 1, one per arm, for the best thresholds z_i on a grid.

    The bound can ignore gaps up to some Δ_m: every stage then costs Δ_m, and the theorem bounds the
    additional cost of pulling arms with larger gaps. The function uses the best m. m = 0 is the
    theorem itself, and the largest m gives TΔ_max. Gaps below 1e-6 are always ignored.
    """
    order = np.argsort(gaps, kind="stable")
    order = order[gaps[order] > 0]
    terms = np.zeros(gaps.size)
    if order.size == 0:
        return terms
    delta = gaps[order]
    hopeless = int(np.searchsorted(delta, MIN_GAP))
    if horizon == math.inf and (rate == 0 or hopeless):
        terms[order] = math.inf
        return terms
    if hopeless == delta.size:
        terms[order[-1]] = horizon * delta[-1]
        return terms
    z = np.geomspace(0.15 * delta[hopeless], 0.9 * min(delta[-1], MAX_GAP), N_THRESHOLDS)
    z = np.minimum(z, 0.9 * MAX_GAP)
    pulls = 1 + bound_exploration(t, delta[:, None] - z, gaps.size, rate, horizon, looks, gaussian)
    pulls = np.minimum(pulls, horizon)
    stages = bound_failures(t, z, gaps.size, rate, horizon, looks)
    below = np.concatenate([[0.0], delta])
    best = math.inf
    for given_up in range(hopeless, delta.size + 1 if horizon < math.inf else 1):
        price = below[given_up]
        costs = (delta - price)[given_up:, None] * pulls[given_up:]
        costs = costs + np.diff(below)[given_up:, None] * stages
        chosen = _choose_monotone(costs)
        lost = price * horizon if given_up else 0.0
        if lost + chosen.sum() < best:
            best = lost + chosen.sum()
            terms[order] = 0.0
            terms[order[given_up:]] = chosen
            if given_up:
                terms[order[given_up - 1]] = lost
    return terms


def _choose_monotone(costs: FloatArray) -> FloatArray:
    """Return the cost of each row for the cheapest non-decreasing choice of columns."""
    n_rows, n_columns = costs.shape
    total = np.zeros(n_columns)
    origins: list[np.ndarray] = []
    for row in costs:
        origins.append(_running_argmin(total))
        total = np.minimum.accumulate(total) + row
    chosen = np.zeros(n_rows)
    column = int(np.argmin(total))
    for i in range(n_rows - 1, -1, -1):
        chosen[i] = costs[i, column]
        column = int(origins[i][column])
    return chosen


def _running_argmin(values: FloatArray) -> np.ndarray:
    smallest = np.minimum.accumulate(values)
    is_new = np.append(True, values[1:] < smallest[:-1])
    return np.maximum.accumulate(np.where(is_new, np.arange(values.size), 0))


# exploration (steps 3, 5 and 6 of the proof) --------------------------------------------------


def bound_exploration(
    t: Tables,
    room: FloatArray,
    n_arms: int,
    rate: float,
    horizon: float,
    looks: str,
    gaussian: bool = False,
) -> FloatArray:
    r"""Return X, a bound on the pulls of an arm while the best arm's index is above μ_1 − z.

    .. math:: E\sum_{n\ge1}\exp\Big(-\frac n2\big(\Delta-z-\sqrt{2\ell(1+V_n)/n}\big)_+^2\Big),
              \qquad V_n=\sup_{t\le T}\frac t{F(t)+Kn/b}

    `room` holds Δ − z. X does not include the first pull of the arm. The sum is over cells of n, each
    evaluated at its first n, and over cells of V_n, each evaluated at its largest value. For Gaussian
    rewards the summand is the probability that a standard normal variable exceeds (Δ − z)√n − √(2ℓ).
    X is infinite where Δ − z is not positive, or much smaller than the largest Δ − z.
    """
    result = np.full(room.shape, math.inf)
    fits = room > 0.04 * room.max(axis=-1, keepdims=True)
    a = room[fits]
    c = n_arms / t.b
    widest = compute_ell(_find_worst_speed(c, rate, horizon, looks) + 1, t.beta)
    last = (
        (math.sqrt(2 * NEGLIGIBLE_EXPONENT) + math.sqrt(2 * widest)) / a
    ) ** 2  # for larger n, the summand is below e^-40
    first = make_cell_starts(1.0, max(float(last.max()), 1.0), COUNT_RATIO)
    n = first[:-1]
    share, speed = _distribute_speeds(c * n, rate, horizon, looks)  # one row per n
    mass = share * np.diff(first)[:, None]
    kept = mass > 1e-13
    row = np.nonzero(kept)[0]
    weight, steps = mass[kept], np.sqrt(n)[row]
    roots = np.sqrt(2 * compute_ell(1 + speed, t.beta))[kept]
    needed = np.searchsorted(row, np.searchsorted(first, last))  # the number of pairs (n, V) per a
    total = np.full(a.shape, float(mass[~kept].sum()))
    for i, value in enumerate(a):
        over = value * steps[: needed[i]] - roots[: needed[i]]
        heights = ndtr(-over) if gaussian else np.exp(-(np.maximum(over, 0.0) ** 2) / 2)
        total[i] += (weight[: needed[i]] * heights).sum()
    end = np.maximum(first[np.minimum(np.searchsorted(first, last), first.size - 1)], 2.0)
    over = a * np.sqrt(end - 1) - math.sqrt(2 * widest)  # step 5, for n beyond the last cell
    total += 2 / a**2 * (np.exp(-(over**2) / 2) + np.sqrt(math.pi * widest) * erfc(over / 2**0.5))
    result[fits] = total + [_bound_late(c, float(m), rate, horizon, looks) for m in end]
    return result


MAX_SPEED = 60.0  # larger values of V_n ε are bounded by their probability alone


def _find_worst_speed(c: float, rate: float, horizon: float, looks: str) -> FloatArray:
    """Return a value that V_1 exceeds with probability at most about e^-60; `c` is K/b."""
    if rate == 0:
        return np.asarray(horizon / c)
    top = max(1.0, 1 / c) / rate * (1.0 if looks == "periodic" else MAX_SPEED)
    return np.asarray(min(top, horizon / c))


def _bound_late(c: float, n: float, rate: float, horizon: float, looks: str) -> float:
    """Return a bound on Σ_{m ≥ n} P(V_m > MAX_SPEED/ε), the part of X with very large V_m."""
    if rate == 0 or looks == "periodic" or horizon / c <= MAX_SPEED * max(1.0, 1 / c) / rate:
        return 0.0
    slope = float(compute_chernoff_exponent(np.asarray(MAX_SPEED)))
    return math.exp(-slope * (c * n - rate / MAX_SPEED)) / -math.expm1(-slope * c)


def _distribute_speeds(
    c: FloatArray, rate: float, horizon: float, looks: str
) -> tuple[FloatArray, FloatArray]:
    """Return the distribution of V = sup_t t/(F(t) + c), rounded up, as probabilities and values."""
    most = (horizon / c)[:, None]
    certain = np.ones((c.size, 1))
    if rate == 0:
        return certain, most
    if looks == "periodic":
        return certain, np.minimum(np.maximum(1.0, 1 / c)[:, None] / rate, most)
    w = 1 + np.concatenate([[0.0], np.geomspace(1e-3, MAX_SPEED * max(1.0, 1 / float(c.min())), 48)])
    tails = np.minimum.accumulate(np.minimum(1.0, _bound_speed_tail(c, rate, w)), axis=1)
    tails[:, 0] = 1.0
    masses = np.append(-np.diff(tails, axis=1), tails[:, -1:], axis=1)
    return masses, np.minimum(np.append(w[1:] / rate, 1e300), most)


def _bound_speed_tail(c: FloatArray, rate: float, w: FloatArray) -> FloatArray:
    """Return a bound on P(V > w/ε), the smallest of three bounds (step 6); one row per c."""
    line = np.exp(-compute_chernoff_exponent(w) * (c[:, None] - rate / w))
    factors, rows = np.unique(np.maximum(1.0, 1 / c), return_inverse=True)
    scaled = w / factors[:, None]
    poisson = np.exp(-compute_chernoff_exponent(scaled - rate))
    reverse = np.where(scaled > 1, scaled * np.exp(1 - scaled), 1.0)
    return np.minimum(line, np.minimum(poisson, reverse)[rows])


# failure (steps 4, 7 and 8 of the proof) ------------------------------------------------------


def bound_failures(
    t: Tables, z: FloatArray, n_arms: int, rate: float, horizon: float, looks: str
) -> FloatArray:
    """Return H_T(z), a bound on the expected stages with the best arm's index below μ_1 − z."""
    stages = np.array([_sum_before_first_look(t, x, n_arms, rate, horizon, looks) for x in z])
    if rate > 0 and horizon > 1:
        smallest = 2.0 ** math.floor(
            math.log2(z.min())
        )  # powers of 2, so that the cache of `make_cells` is used
        found = make_cells(t.b, t.beta, n_arms, rate, horizon, looks, smallest)
        at = find_places(t, found.shares, found.speeds)
        for i, x in enumerate(z):
            zetas = found.looks * (x * x / n_arms)
            stages[i] += (found.n_stages * lookup_probability(t, at, zetas)).sum()
        stages += _bound_remainder(t, z, n_arms, rate, looks, smallest)
    return np.asarray(np.minimum(stages, horizon))


def _sum_before_first_look(
    t: Tables, z: float, n_arms: int, rate: float, horizon: float, looks: str
) -> float:
    """Return a bound on Σ_t P(F(t) = 0) p_0(tz²/K), summed over the cells of the table of p_0."""
    starts = np.maximum(np.ceil(t.stages * (n_arms / z**2)), 1.0)
    ends = np.append(starts[1:], math.inf)
    last = min(horizon, 1 / rate if looks == "periodic" and rate > 0 else math.inf)
    starts, ends = np.minimum(starts, last + 1), np.minimum(ends, last + 1)
    before = _count_before_first_look(np.array([1.0]), starts[:1], rate, looks)[0]  # p_0 ≤ 1
    return float(before + (_count_before_first_look(starts, ends, rate, looks) * t.from_zero).sum())


def _count_before_first_look(
    starts: FloatArray, ends: FloatArray, rate: float, looks: str
) -> FloatArray:
    """Return the expected number of stages in [starts, ends) that precede the first look."""
    if rate == 0 or looks == "periodic":
        return ends - starts
    if rate == 1:
        return np.where((starts <= 1) & (ends > 1), 1.0, 0.0)
    decay = math.log1p(-rate)
    return np.asarray((np.exp(decay * (starts - 1)) - np.exp(decay * (ends - 1))) / rate)


def _bound_remainder(
    t: Tables, z: FloatArray, n_arms: int, rate: float, looks: str, smallest: float
) -> FloatArray:
    """Return a bound on the failures beyond the last cell, by P(∃ n ≥ m: S_n > nz) ≤ exp(−mz²/2)."""
    end = find_end(t, n_arms, rate, looks, smallest)
    if looks == "uniform":  # sum over t of E exp(−F_1(t) z²/2)
        falling = rate / n_arms * -np.expm1(-(z**2) / 2)
        return np.asarray(np.exp(-falling * end) / falling)
    slope = t.turn * z**2 / (2 * n_arms)  # 1/ε stages per look
    return np.asarray(np.exp(-slope * end) / -np.expm1(-slope) / rate)


# the closed form ------------------------------------------------------------------------------


def _evaluate_closed(
    t: Tables, gaps: FloatArray, rate: float, horizon: float, looks: str, gaussian: bool
) -> FloatArray:
    r"""Return the terms of the corollary, which is Theorem 1 with z_i = Δ_i/2 in closed form.

    .. math:: \sum_i\Big[\Delta_i+\frac{8(\bar\ell+\sqrt{\pi\bar\ell}+1)}{\Delta_i}\Big]
              +\frac{8K}{\Delta_{\min}}\Big[\bar C(\varepsilon)
              +C_0\Big(\frac{\Delta_{\max}^2}{4K\varepsilon}\Big)\Big]

    :math:`\bar\ell` is a bound on the exponent ℓ of the index, and :math:`\bar C` (C_per for periodic
    looks) and C_0 are computed from the tables of `_crossing.py`. For Gaussian rewards ℓ̄ + 1/2
    replaces ℓ̄ + √(πℓ̄) + 1.
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
    level = compute_ell(np.asarray(1 + fastest), t.beta)
    delta = gaps[positive]
    more = 0.5 if gaussian else np.sqrt(math.pi * level) + 1
    terms[positive] = delta + 8 * (level + more) / delta
    waiting = min(horizon, 1 / rate if rate > 0 else math.inf)
    failures = compute_zero_constant(t, waiting * delta.max() ** 2 / (4 * k))
    if rate > 0 and looks == "periodic":
        v = np.searchsorted(t.speeds, (1 + 1e-12) / rate, side="right") - 1
        failures += compute_periodic_constant(t)[v] / (rate * t.speeds[v])
    elif rate > 0:
        failures += compute_random_constant(t, rate)
    worst = np.flatnonzero(positive)[np.argmin(delta)]
    terms[worst] += 8 * k / delta.min() * failures
    return terms
