r"""The upper bound for kibitzer, valid for every horizon (theorem and proof: docs/kibitzer_proof.md).

kibitzer pulls the arm with the largest index :math:`m_i+\sqrt{2\ell(x_i)/O_i}` with
:math:`x_i=1+bt/\min(KO_i+bF,\,K(2O_i+bF_i))`, where m_i is the average of the O_i observations of arm
i, F is the number of looks so far, and F_i is the number of looks at arm i. If the policy chooses the
looks, every fourth look goes to the arms in turn. With arms in order of increasing gap, and for all
non-decreasing thresholds :math:`0<z_i<\Delta_i` of the sub-optimal arms,

.. math:: E R_T\le\sum_i\Delta_i(1+X_i(z_i))+\sum_i(\Delta_i-\Delta_{i-1})H_T(z_i)

where μ_1 is the best mean, X_i bounds the pulls of arm i while the best arm's index is above μ_1 −
z_i, and H_T(z) bounds the number of stages at which the index of the best arm is below μ_1 − z. X_i
and H_T are sums over cells. In each cell, every factor is replaced by its largest value, so the
result is a bound and not an approximation (up to floating-point errors).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc, ndtr

from kibitz._validation import flag, invalid, number
from kibitz.bounds._bound import Result, bound, make_result
from kibitz.bounds._checks import (
    MAX_HORIZON,
    FloatArray,
    Weights,
    check_array,
    check_choice,
    check_gaps,
    check_rate,
    check_scale,
    check_shapes,
    check_weights,
)
from kibitz.bounds.upper._crossing import (
    NEGLIGIBLE_EXPONENT,
    Looks,
    Tables,
    compute_chernoff_exponent,
    compute_ell,
    compute_periodic_constant,
    compute_random_constant,
    compute_zero_constant,
    find_end,
    load_tables,
    lookup_probability,
    make_cell_starts,
    make_cells,
    make_looks,
)

LOOKS = ("active", "periodic", "passive", "uniform")
MIN_RATE = 1e-100  # a look before stage 2⁵³ has probability below 1e-84; smaller rates count as 0
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
    weights: Weights = None,
    beta: float = 1.0,
    b: float = 8.0,
    scale: float = 1.0,
    form: str = "proved",
    gaussian: bool = False,
    details: bool = False,
) -> Result:
    r"""Return the upper bound on kibitzer's regret (docs/kibitzer_proof.md, Theorem 1).

    The bound is finite at an infinite horizon if looks are active, or if looks are passive and show
    every sub-optimal arm and at least one of the best arms. Otherwise the bound is logarithmic in T.

    Parameters
    ----------
    rate
        The rate ε of looks. At rate 0 there are no looks, and the bound is logarithmic in T.
    horizon
        The horizon T, which can be infinite.
    looks
        "active" (random arrivals; every fourth look goes to the arms in turn, and the other looks to
        any arms), "periodic" (like "active", but a look arrives every 1/ε stages), "passive" (random
        arrivals; `weights` are the probabilities of the arms) or "uniform" (passive with equal
        weights).
    weights
        The weights p of passive looks, one per arm, with sum at most 1; or a name: uniform (the same
        as None), optimal or suboptimal.
    beta, b
        The parameters of the index: beta is 0 or 1, and b is 8.
    scale
        The sub-Gaussian scale σ of the rewards.
    form
        "proved" (Theorem 1, computed numerically) or "closed" (the corollary, a formula in closed
        form).
    gaussian
        Whether rewards are Gaussian with standard deviation σ. The bound is then smaller.
    """
    check_choice("looks", looks, *LOOKS)
    check_choice("form", form, "proved", "closed")
    is_gaussian = flag(gaussian, "gaussian")
    t = load_tables(number(b, "b"), number(beta, "beta"))
    unit = check_scale("scale", scale)
    delta, rates, horizons = check_gaps(gaps) / unit, check_rate(rate), _check_horizon(horizon)
    if weights is not None and looks != "passive":
        raise invalid("weights", f"None for {looks} looks", weights)
    shares = check_weights(weights, delta)
    if looks == "periodic":
        _check_period(rates)
    shape = check_shapes(rate=rates, horizon=horizons)
    rates, horizons = np.broadcast_to(rates, shape), np.broadcast_to(horizons, shape)
    terms = np.zeros((*shape, delta.size))
    formula = _evaluate_closed if form == "closed" else _evaluate_proved
    for point in np.ndindex(shape):
        model = _make_model(delta, float(rates[point]), float(horizons[point]), looks, shares)
        terms[point] = formula(t, delta, model, is_gaussian)
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


class Model(NamedTuple):
    """The arrivals of looks, the number of arms and the horizon.

    Without looks, the model is "active" with rate 0.
    """

    looks: str  # "active", "periodic" or "passive"
    n_arms: int
    rate: float  # the rate ε of all looks
    horizon: float
    arm_rates: FloatArray  # ε_i, the rate of looks at each arm; used for passive looks only
    best_rate: float  # the largest ε_i of a best arm; ε unless looks are passive


def _make_model(
    gaps: FloatArray, rate: float, horizon: float, looks: str, weights: FloatArray
) -> Model:
    arm_rates = rate * weights
    arm_rates[arm_rates < MIN_RATE] = 0.0
    if looks in {"passive", "uniform"}:
        rate = min(rate * float(weights.sum()), 1.0)
        looks = "passive" if rate >= MIN_RATE else "active"
    rate = rate if rate >= MIN_RATE else 0.0
    best_rate = min(float(arm_rates[gaps == 0].max()), rate) if looks == "passive" else rate
    return Model(looks, gaps.size, rate, horizon, arm_rates, best_rate)


# the best choice of thresholds ----------------------------------------------------------------


def _evaluate_proved(t: Tables, gaps: FloatArray, model: Model, gaussian: bool) -> FloatArray:
    """Return the terms of Theorem 1, one per arm, for the best thresholds z_i on a grid.

    The bound can ignore gaps up to some Δ_m: every stage then costs Δ_m, and the theorem bounds the
    additional cost of pulling arms with larger gaps. The function uses the best m. m = 0 is the
    theorem itself, and the largest m gives TΔ_max. Gaps below 1e-6 are always ignored.
    """
    horizon = model.horizon
    order = np.argsort(gaps, kind="stable")
    order = order[gaps[order] > 0]
    terms = np.zeros(gaps.size)
    if order.size == 0:
        return terms
    delta = gaps[order]
    n_tiny_gaps = int(np.searchsorted(delta, MIN_GAP))
    if horizon == math.inf and (model.best_rate == 0 or n_tiny_gaps):
        terms[order] = math.inf
        return terms
    if n_tiny_gaps == delta.size:
        terms[order[-1]] = horizon * delta[-1]
        return terms
    z = np.geomspace(0.15 * delta[n_tiny_gaps], 0.9 * min(delta[-1], MAX_GAP), N_THRESHOLDS)
    z = np.minimum(z, 0.9 * MAX_GAP)
    pulls = np.full((delta.size, z.size), horizon)
    own_rates = model.arm_rates[order] if model.looks == "passive" else np.zeros(delta.size)
    for own_rate in np.unique(own_rates[n_tiny_gaps:]):
        rows = n_tiny_gaps + np.flatnonzero(own_rates[n_tiny_gaps:] == own_rate)
        exploration = bound_exploration(t, delta[rows, None] - z, model, float(own_rate), gaussian)
        pulls[rows] = np.minimum(1 + exploration, horizon)
    stages = bound_failures(t, z, model)
    gaps_from_zero = np.concatenate([[0.0], delta])
    best_total = math.inf
    for n_ignored in range(n_tiny_gaps, delta.size + 1 if horizon < math.inf else 1):
        ignored_gap = gaps_from_zero[n_ignored]
        costs = (delta - ignored_gap)[n_ignored:, None] * pulls[n_ignored:]
        costs = costs + np.diff(gaps_from_zero)[n_ignored:, None] * stages
        row_costs = _choose_monotone(costs)
        ignored_regret = ignored_gap * horizon if n_ignored else 0.0
        if n_ignored == n_tiny_gaps or ignored_regret + row_costs.sum() < best_total:
            best_total = ignored_regret + row_costs.sum()
            terms[order] = 0.0
            terms[order[n_ignored:]] = row_costs
            if n_ignored:
                terms[order[n_ignored - 1]] = ignored_regret
    return terms


def _choose_monotone(costs: FloatArray) -> FloatArray:
    """Return the cost of each row for the cheapest non-decreasing choice of columns.

    Rows in which all costs are infinite do not influence the choice.
    """
    is_infinite = costs.min(axis=1) == math.inf
    costs = np.where(is_infinite[:, None], 0.0, costs)
    n_rows, n_columns = costs.shape
    total = np.zeros(n_columns)
    origins: list[np.ndarray] = []
    for row in costs:
        origins.append(_running_argmin(total))
        total = np.minimum.accumulate(total) + row
    row_costs = np.zeros(n_rows)
    column = int(np.argmin(total))
    for i in range(n_rows - 1, -1, -1):
        row_costs[i] = costs[i, column]
        column = int(origins[i][column])
    row_costs[is_infinite] = math.inf
    return row_costs


def _running_argmin(values: FloatArray) -> np.ndarray:
    running_minimum = np.minimum.accumulate(values)
    is_new = np.append(True, values[1:] < running_minimum[:-1])
    return np.maximum.accumulate(np.where(is_new, np.arange(values.size), 0))


# exploration (steps 3, 5 and 6 of the proof) --------------------------------------------------


def bound_exploration(
    t: Tables, room: FloatArray, model: Model, own_rate: float = 0.0, gaussian: bool = False
) -> FloatArray:
    r"""Return X_i, a bound on the pulls of arm i while the best arm's index is above μ_1 − z.

    .. math:: E\sum_{n\ge1}\exp\Big(-\frac n2\big(\Delta-z-\sqrt{2\ell(1+V_n)/n}\big)_+^2\Big)

    docs/kibitzer_proof.md defines ℓ and V_n. `room` holds Δ − z. `own_rate` is ε_i, the rate of looks
    at the arm if looks are passive. X_i does not include the first pull of the arm. The sum is over
    cells of n, each evaluated at its first n, and over cells of V_n, each evaluated at its largest
    value. For Gaussian rewards the summand is the probability that a standard normal variable exceeds
    (Δ − z)√n − √(2ℓ). X_i is infinite where Δ − z is not positive, or much smaller than the largest Δ
    − z.
    """
    result = np.full(room.shape, math.inf)
    is_never_shown = model.looks == "passive" and own_rate == 0
    if model.horizon == math.inf and (is_never_shown or model.rate == 0):
        return result
    is_large_enough = room > 0.04 * room.max(axis=-1, keepdims=True)
    a = room[is_large_enough]
    largest_speed = _find_largest_speed(t.b, model, own_rate)
    largest_ell = compute_ell(np.asarray(1 + largest_speed), t.beta)
    # for larger n, the summand is below e^-40
    last_n = ((math.sqrt(2 * NEGLIGIBLE_EXPONENT) + math.sqrt(2 * largest_ell)) / a) ** 2
    cell_starts = make_cell_starts(1.0, max(float(last_n.max()), 1.0), COUNT_RATIO)
    n = cell_starts[:-1]
    probability, speed = _distribute_speeds(n, t.b, model, own_rate)  # one row per n
    mass = probability * np.diff(cell_starts)[:, None]
    is_kept = mass > 1e-13
    row = np.nonzero(is_kept)[0]
    weight, sqrt_n = mass[is_kept], np.sqrt(n)[row]
    index_widths = np.sqrt(2 * compute_ell(1 + speed, t.beta))[is_kept]
    # the number of pairs (n, V) for each a
    n_pairs = np.searchsorted(row, np.searchsorted(cell_starts, last_n))
    total = np.full(a.shape, float(mass[~is_kept].sum()))
    for i, value in enumerate(a):
        excess = value * sqrt_n[: n_pairs[i]] - index_widths[: n_pairs[i]]
        heights = ndtr(-excess) if gaussian else np.exp(-(np.maximum(excess, 0.0) ** 2) / 2)
        total[i] += (weight[: n_pairs[i]] * heights).sum()
    end_n = np.maximum(
        cell_starts[np.minimum(np.searchsorted(cell_starts, last_n), cell_starts.size - 1)], 2.0
    )
    excess = a * np.sqrt(end_n - 1) - math.sqrt(2 * largest_ell)  # step 5, for n beyond the last cell
    total += (
        2 / a**2 * (np.exp(-(excess**2) / 2) + np.sqrt(math.pi * largest_ell) * erfc(excess / 2**0.5))
    )
    result[is_large_enough] = total + [_bound_late(float(m), t.b, model, own_rate) for m in end_n]
    return result


MAX_SPEED = 60.0  # V_n exceeds its scale by a larger factor with probability about e^-60


def _find_scales(b: float, model: Model, own_rate: float) -> list[float]:
    """Return the scales of the two speeds whose maximum is V_n, for looks at random times.

    If looks are passive and never show the arm, the second speed is not random and has no scale.
    """
    if model.looks == "passive":
        return [1 / model.rate] + ([1 / (model.n_arms * own_rate)] if own_rate > 0 else [])
    return [1 / model.rate, 2 * b / model.rate]


def _find_largest_speed(b: float, model: Model, own_rate: float) -> float:
    """Return a value that V_1 exceeds with probability at most about e^-60."""
    speed_limit = b * model.horizon / model.n_arms
    if model.rate == 0:
        return speed_limit
    if model.looks == "periodic":
        return min(2 * b / model.rate, speed_limit)
    factor = MAX_SPEED * max(1.0, b / model.n_arms, b / 2)
    largest_speed = factor * max(_find_scales(b, model, own_rate))
    if model.looks == "passive" and own_rate == 0:
        largest_speed = max(largest_speed, speed_limit / 2)
    return min(largest_speed, speed_limit)


def _bound_late(n: float, b: float, model: Model, own_rate: float) -> float:
    """Return a bound on the sum over m ≥ n of the probability that V_m exceeds the largest speed."""
    speed_limit = b * model.horizon / model.n_arms
    if model.looks == "periodic" or _find_largest_speed(b, model, own_rate) >= speed_limit:
        return 0.0
    slope = float(compute_chernoff_exponent(np.asarray(MAX_SPEED)))
    rates = [(model.n_arms / b, model.rate)]  # c/n and the rate, for each speed t/(F + c)
    if model.looks == "passive" and own_rate > 0:
        rates.append((2 / b, own_rate))
    total = sum(
        math.exp(-slope * (c * n - rate / MAX_SPEED)) / -math.expm1(-slope * c) for c, rate in rates
    )
    if model.looks == "active":
        exponent = 4 * model.n_arms * (MAX_SPEED - 1 - math.log(MAX_SPEED))
        total += math.exp(-exponent * n) / -math.expm1(-exponent)
    return total


def _distribute_speeds(
    n: FloatArray, b: float, model: Model, own_rate: float
) -> tuple[FloatArray, FloatArray]:
    """Return the distribution of V_n, rounded up, as probabilities and values; one row per n."""
    speed_limits = (b * model.horizon / (model.n_arms * n))[:, None]
    certainty = np.ones((n.size, 1))
    if model.rate == 0:
        return certainty, speed_limits
    if model.looks == "periodic":
        return certainty, np.minimum(2 * b / model.rate, speed_limits)
    scales = _find_scales(b, model, own_rate)
    largest_speed = MAX_SPEED * max(1.0, b / model.n_arms, b / 2) * max(scales)
    speeds = [scale * (1 + np.geomspace(1e-3, largest_speed / scale, 48)) for scale in scales]
    values = np.unique(np.concatenate([[min(scales)], *speeds]))
    tails = np.minimum(1.0, bound_speed_tail(n, values, b, model, own_rate))
    tails[:, 0] = 1.0
    tails = np.minimum.accumulate(tails, axis=1)
    masses = np.append(-np.diff(tails, axis=1), tails[:, -1:], axis=1)
    values = np.append(values[1:], 1e300)
    if model.looks == "passive" and own_rate == 0:
        return masses, np.minimum(np.maximum(values, speed_limits / 2), speed_limits)
    return masses, np.minimum(values, speed_limits)


def bound_speed_tail(
    n: FloatArray, values: FloatArray, b: float, model: Model, own_rate: float
) -> FloatArray:
    """Return a bound on P(V_n > value) for looks at random times (step 6); one row per n.

    V_n is the larger of two speeds, and the bound is the sum of the bounds on their tails. If looks
    are passive and never show the arm, the result bounds the tail of the first speed only, because
    the second speed bT/2Kn is not random.
    """
    k, rate = model.n_arms, model.rate
    tails = _bound_supremum_tail(k * n / b, rate, values * rate)
    if model.looks == "active":
        w = values * (rate / (2 * b))
        exponent = np.where(w > 1, w - 1 - np.log(np.maximum(w, 1.0)), 0.0)
        second_tails = np.exp(-4 * k * n[:, None] * exponent)
    elif own_rate > 0:
        second_tails = _bound_supremum_tail(2 * n / b, own_rate, values * (k * own_rate))
    else:
        return tails
    second_speed_limit = b * model.horizon / (2 * k * n[:, None])  # the second speed is never larger
    return np.asarray(tails + np.where(values < second_speed_limit, second_tails, 0.0))


def _bound_supremum_tail(c: FloatArray, rate: float, w: FloatArray) -> FloatArray:
    """Return a bound on P(sup_t t/(F(t) + c) > w/ε), the smallest of three bounds; one row per c."""
    line_bound = np.exp(-compute_chernoff_exponent(w) * (c[:, None] - rate / w))
    factors, rows = np.unique(np.maximum(1.0, 1 / c), return_inverse=True)
    scaled_w = w / factors[:, None]
    poisson_bound = np.exp(-compute_chernoff_exponent(scaled_w - rate))
    reverse_bound = np.where(scaled_w > 1, scaled_w * np.exp(1 - scaled_w), 1.0)
    return np.minimum(line_bound, np.minimum(poisson_bound, reverse_bound)[rows])


# failure (steps 4, 7 and 8 of the proof) ------------------------------------------------------


def bound_failures(t: Tables, z: FloatArray, model: Model) -> FloatArray:
    """Return H_T(z), a bound on the expected stages with the best arm's index below μ_1 − z."""
    looks = make_looks(t, model.n_arms, model.best_rate, model.looks)
    stages = np.array([_sum_before_first_look(t, x, model, looks) for x in z])
    if looks.rate > 0 and model.horizon > 1:
        # a power of 2, because similar problems can then share the cache of `make_cells`
        min_threshold = 2.0 ** math.floor(math.log2(z.min()))
        cells = make_cells(
            t.b, t.beta, model.n_arms, looks.rate, model.horizon, model.looks, min_threshold
        )
        for i, x in enumerate(z):
            zetas = cells.n_looks * (x * x / looks.zeta_unit)
            stages[i] += (cells.n_stages * lookup_probability(t, looks, cells.speeds, zetas)).sum()
        stages += _bound_remainder(z, looks, min_threshold)
    return np.asarray(np.minimum(stages, model.horizon))


def _sum_before_first_look(t: Tables, z: float, model: Model, looks: Looks) -> float:
    """Return a bound on the expected failures before the first relevant look.

    If looks are passive, the stages before the first look at any arm have the same bound as in a
    bandit without looks.
    """
    total = _sum_from_zero(t, z, looks.zero_unit, looks.rate, model)
    if model.looks == "passive":
        total -= _sum_from_zero(t, z, looks.zero_unit, model.rate, model)
        total += _sum_from_zero(t, z, model.n_arms, model.rate, model)
    return total


def _sum_from_zero(t: Tables, z: float, unit: float, rate: float, model: Model) -> float:
    """Return the sum over t of P(F(t) = 0) p_0(tz²/unit), where p_0 is the tabulated step function.

    F(t) counts looks that arrive at the given rate.
    """
    starts = np.maximum(np.ceil(t.stages * (unit / z**2)), 1.0)
    ends = np.append(starts[1:], math.inf)
    is_periodic = model.looks == "periodic"
    last_stage = min(model.horizon, 1 / rate if is_periodic and rate > 0 else math.inf)
    starts, ends = np.minimum(starts, last_stage + 1), np.minimum(ends, last_stage + 1)
    # before the table begins, p_0 ≤ 1
    n_before_table = _count_before_first_look(np.array([1.0]), starts[:1], rate, is_periodic)[0]
    counts = _count_before_first_look(starts, ends, rate, is_periodic)
    return float(n_before_table + (counts * t.from_zero).sum())


def _count_before_first_look(
    starts: FloatArray, ends: FloatArray, rate: float, is_periodic: bool
) -> FloatArray:
    """Return the expected number of stages in [starts, ends) that precede the first look."""
    if rate == 0 or is_periodic:
        return ends - starts
    if rate == 1:
        return np.where((starts <= 1) & (ends > 1), 1.0, 0.0)
    decay = math.log1p(-rate)
    return np.asarray((np.exp(decay * (starts - 1)) - np.exp(decay * (ends - 1))) / rate)


def _bound_remainder(z: FloatArray, looks: Looks, min_threshold: float) -> FloatArray:
    """Return a bound on the failures beyond the last cell, by P(∃ n ≥ m: S_n > nz) ≤ exp(−mz²/2).

    F stays at each number of looks for 1/ε stages on average.
    """
    slope = looks.start * z**2 / (2 * looks.zeta_unit)
    end_looks = find_end(looks, min_threshold)
    return np.asarray(np.exp(-slope * end_looks) / -np.expm1(-slope) / looks.rate)


# the closed form ------------------------------------------------------------------------------


def _evaluate_closed(t: Tables, gaps: FloatArray, model: Model, gaussian: bool) -> FloatArray:
    r"""Return the terms of the corollary, which is Theorem 1 with z_i = Δ_i/2 in closed form.

    .. math:: \sum_i\Big[\Delta_i+\frac{8(\bar\ell_i+\sqrt{\pi\bar\ell_i}+1)}{\Delta_i}\Big]
              +\frac{8q}{\Delta_{\min}}\Big[C+C_0\Big(\frac{\Delta_{\max}^2}{4q\varepsilon'}\Big)\Big]

    :math:`\bar\ell_i` is a bound on the exponent ℓ of the index of arm i. For active looks q = K,
    ε' = ε and C = Ĉ(ε) (C_per for periodic looks). For passive looks q = 2K, ε' = ε_1 and
    C = C_P(Kε_1). `_crossing.py` computes these constants and C_0 from its tables. For Gaussian
    rewards ℓ̄ + 1/2 replaces ℓ̄ + √(πℓ̄) + 1.
    """
    k, is_suboptimal = gaps.size, gaps > 0
    terms = np.zeros(k)
    if not is_suboptimal.any():
        return terms
    looks = make_looks(t, k, model.best_rate, model.looks)
    if model.horizon == math.inf and looks.rate == 0:
        return np.where(is_suboptimal, math.inf, 0.0)
    delta = gaps[is_suboptimal]
    speeds = _find_mean_speeds(t.b, model)[is_suboptimal]
    ell_bounds = compute_ell(1 + np.minimum(speeds, 1e300), t.beta)
    deviation_term = 0.5 if gaussian else np.sqrt(math.pi * ell_bounds) + 1
    terms[is_suboptimal] = np.where(
        speeds < math.inf, delta + 8 * (ell_bounds + deviation_term) / delta, math.inf
    )
    n_stages = min(model.horizon, 1 / looks.rate if looks.rate > 0 else math.inf)
    failures = compute_zero_constant(t, n_stages * delta.max() ** 2 / (4 * looks.zero_unit))
    if looks.rate > 0 and looks.is_periodic:
        v = np.searchsorted(t.speeds, (1 + 1e-12) / looks.rate, side="right") - 1
        failures += compute_periodic_constant(t)[v] / (looks.rate * t.speeds[v])
    elif looks.rate > 0:
        rate = looks.rate * looks.speed_unit
        failures += compute_random_constant(t, rate, model.looks == "passive")
    smallest_gap_arm = np.flatnonzero(is_suboptimal)[np.argmin(delta)]
    terms[smallest_gap_arm] += 8 * looks.zero_unit / delta.min() * failures
    return terms


def _find_mean_speeds(b: float, model: Model) -> FloatArray:
    """Return bounds on E V_1, one per arm, for the closed form; infinity if no bound exists."""
    k, rate = model.n_arms, model.rate
    speed_limits = np.full(k, b * model.horizon / k)
    if rate == 0:
        return speed_limits
    if model.looks == "periodic":
        return np.asarray(np.minimum(2 * b / rate, speed_limits))
    first_speed = max(1.0, b / k) * (1 + math.pi**2 / (6 * rate))
    if model.looks == "active":
        return np.asarray(np.minimum(first_speed + 2 * b / rate, speed_limits))
    arm_rates = model.arm_rates
    mean_waits = 1 + math.pi**2 / (6 * np.maximum(arm_rates, MIN_RATE))
    second_speeds = np.where(arm_rates > 0, max(1.0, b / 2) / k * mean_waits, math.inf)
    return np.asarray(
        np.minimum(first_speed + np.minimum(second_speeds, speed_limits / 2), speed_limits)
    )
