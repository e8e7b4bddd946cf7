r"""Upper bounds for UCB as a passive observer (Algorithm 1, Theorem 3).

UCB pulls the arm with the largest :math:`\bar X_i+\sqrt{c\log t/O_i}`, where the observations
:math:`O_i=N_i+F_i` of arm i are N_i pulls and F_i looks (c = 6 in the paper). If UCB pulls arm i at a
stage t at which the confidence bounds hold, then :math:`O_i\le 4c\log t/\Delta_i^2`, and hence
:math:`N_i\le 4c\log t/\Delta_i^2-F_i`. The expected number of stages at which the confidence bounds
fail is at most :math:`4\zeta(a-1)`, where ζ is the zeta function and a = c/(2σ²) must exceed 2. Let
:math:`f_i(t-1)` be a high-probability lower bound on the looks before stage t. Then

.. math:: E N_i(T) \le 1+\max_{t\le T}\{4c\log t/\Delta_i^2-f_i(t-1)\}+4\zeta(a-1)+\dots

where the dots stand for the stages at which there are fewer than :math:`f_i(t-1)` looks
(:func:`ucb_sharp`). Each function of this module bounds this maximum in a different way. The bounds
hold for each arm separately, so the smallest bound can be taken for each arm.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import zeta

from kibitz._validation import array, invalid, short_repr
from kibitz.bounds import concentration
from kibitz.bounds._bound import Bound, Result, bound, invert, make_result, multiply
from kibitz.bounds._checks import (
    FloatArray,
    Weights,
    check_choice,
    check_gaps,
    check_horizon,
    check_rate,
    check_scale,
    check_weights,
)
from kibitz.bounds.upper._trivial import limit_by_trivial

MAX_EXHAUSTIVE_STAGE = 1_000_000  # after this stage, a schedule is evaluated on cells of stages
CELL_WIDTH = 1e-4  # the relative width of the cells


@bound()
def ucb_log(
    gaps: ArrayLike,
    horizon: ArrayLike,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    form: str = "proved",
    details: bool = False,
) -> Result:
    r"""Return UCB's logarithmic bound, which holds for any looks (Theorem 3, first part).

    .. math:: E R_T \le \sum_{\Delta_i>0}\Big[\frac{4c\log T}{\Delta_i}
              +(1+4\zeta(a-1))\Delta_i\Big], \qquad a=\frac{c}{2\sigma^2}>2

    For c = 6, the term of arm i is 24 log T/Δ_i + (1 + 2π²/3)Δ_i. The paper omits the second summand,
    and its formula is false even at T = 2 (D19). In terms of Definition 1, C = 24 and
    C_0 = 1 + 2π²/3. The paper's C = 8 and C_0 = 1 + π²/3 are the constants of UCB1 with rewards in
    [0, 1] (D5). The proved bound is at most :func:`~kibitz.bounds.upper.trivial`.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    exploration, failures = _check_form(form, exploration, sd)
    terms = 4 * exploration * np.log(horizon)[..., None] * invert(gaps)
    if form == "printed":
        return make_result(terms.sum(axis=-1), terms, None, details)
    return limit_by_trivial(terms + (1 + failures) * gaps, gaps, horizon, details)


@bound("passive")
def ucb_rate(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: Weights = None,
    horizon: ArrayLike | None = None,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    form: str = "proved",
    details: bool = False,
) -> Result:
    r"""Return UCB's bound for random arrivals, uniform in T (Theorem 3, second part).

    With q_i = εp_i and a = c/(2σ²), the bound is

    .. math:: \sum_{\Delta_i>0}\frac{4c}{\Delta_i}\Big[\log\frac{50}{q_i}+\max\Big\{
              \log\frac{\max(1,c/6.25)}{e\Delta_i^2},\log\log\frac{20}{q_i}\Big\}\Big]
              +(2+4\zeta(a-1)+\zeta(2))\Delta_i

    For c = 6 the last summand is (2 + 5π²/6)Δ_i; the paper omits this summand (D19). The bound is
    infinite if there are no looks at a sub-optimal arm. :func:`ucb_passive` uses the logarithmic
    bound for such an arm.
    """
    gaps, look_rates = _check_looks(gaps, rate, weights)
    horizons = None if horizon is None else check_horizon(horizon, rate=look_rates[..., 0])
    exploration, failures = _check_form(form, exploration, sd)
    with np.errstate(divide="ignore"):
        log_rates, log_gaps = np.log(look_rates), np.log(gaps)
    # while t/log t ≤ 20/q there may be few looks; later there are at least qt/2 looks
    late_term = np.log(np.log(20.0) - log_rates)
    early_term = math.log(max(1.0, exploration / 6.25)) - 1 - 2 * log_gaps
    bracket = math.log(50.0) - log_rates + np.maximum(early_term, late_term)
    terms = multiply(4 * exploration * invert(gaps), bracket)
    if form == "printed":
        return make_result(terms.sum(axis=-1), terms, None, details)
    return limit_by_trivial(terms + (2 + failures + zeta(2.0)) * gaps, gaps, horizons, details)


@bound("passive", arrivals="periodic")
def ucb_periodic(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: Weights = None,
    horizon: ArrayLike | None = None,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    form: str = "proved",
    details: bool = False,
) -> Result:
    r"""Return UCB's bound for F_i(t) = ⌊q_i t⌋ looks, uniform in T (appendix, deterministic setting).

    With q_i = εp_i and a = c/(2σ²), the bound is

    .. math:: \sum_{\Delta_i>0}\Delta_i\Big[2+q_i+\Big(\frac{4c}{\Delta_i^2}
              \log\frac{4c}{eq_i\Delta_i^2}\Big)_+ +4\zeta(a-1)\Big]

    The paper omits 2 + q_i and the clipping (D21). The bound is infinite if there are no looks at a
    sub-optimal arm. A feedback model has such deterministic looks if looks arrive every n stages and
    all looks show the same arm.
    """
    gaps, look_rates = _check_looks(gaps, rate, weights)
    horizons = None if horizon is None else check_horizon(horizon, rate=look_rates[..., 0])
    exploration, failures = _check_form(form, exploration, sd)
    scale = 4 * exploration
    with np.errstate(divide="ignore"):
        bracket = math.log(scale) - 1 - np.log(look_rates) - 2 * np.log(gaps)
    if form == "printed":
        terms = multiply(scale * invert(gaps), bracket) + failures * gaps
        return make_result(terms.sum(axis=-1), terms, None, details)
    terms = multiply(scale * invert(gaps), np.maximum(bracket, 0.0))
    return limit_by_trivial(terms + (2 + look_rates + failures) * gaps, gaps, horizons, details)


@bound("passive")
def ucb_passive(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: Weights,
    horizon: ArrayLike,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    details: bool = False,
) -> Result:
    """Return the bound of Theorem 3, the smaller of :func:`ucb_log` and :func:`ucb_rate` per arm.

    This is UCB's best bound in closed form; :func:`ucb_sharp` is never larger. The bound is at most
    :func:`~kibitz.bounds.upper.trivial`.
    """
    gaps, look_rates = _check_looks(gaps, rate, weights)
    horizon = check_horizon(horizon, rate=look_rates[..., 0])
    log_terms = _get_terms(ucb_log(gaps, horizon, exploration=exploration, sd=sd, details=True))
    rate_terms = _get_terms(
        ucb_rate(gaps, rate, weights, exploration=exploration, sd=sd, details=True)
    )
    return limit_by_trivial(np.minimum(log_terms, rate_terms), gaps, horizon, details)


@bound("passive")
def ucb_sharp(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: Weights,
    horizon: ArrayLike,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    details: bool = False,
) -> Result:
    r"""Return the bound in the proof of Theorem 3, with its maximum computed exactly.

    .. math:: \sum_{\Delta_i>0}\Delta_i\min\Big\{(T-K+1)\vee1,
              1+M_i+\sum_{t=K+1}^T(4t^{1-a}+t^{-5/2})\Big\}

    .. math:: M_i=\max_{1\le t\le T}\Big(\frac{4c\log t}{\Delta_i^2}
              -\Big[q_i(t-1)-\sqrt{5q_i(t-1)\log t}\Big]_+\Big)

    Here q_i = εp_i, a = c/(2σ²), and x ∨ y is the larger of x and y. The maximum over whole stages is
    exact, because the function of t increases up to one stage and decreases afterwards. With
    ``details=True``, `stages` holds this stage for each arm. The bound is at most
    :func:`~kibitz.bounds.upper.trivial`.
    """
    gaps, look_rates = _check_looks(gaps, rate, weights)
    horizon = check_horizon(horizon, rate=look_rates[..., 0])
    exploration, _ = check_exploration(exploration, sd)
    slopes = 4 * exploration * invert(gaps) ** 2
    slopes, look_rates, stages = np.broadcast_arrays(slopes, look_rates, horizon[..., None])
    peaks = np.where(gaps > 0, _find_peak(slopes, look_rates, stages), 1.0)
    pulls = 1 + _count_required_pulls(peaks, slopes, look_rates)
    pulls = pulls + _count_failures(gaps.size, horizon, exploration, sd)[..., None]
    return limit_by_trivial(gaps * pulls, gaps, horizon, details, peaks)


@bound("passive")
def ucb_schedule(
    gaps: ArrayLike,
    schedule: Callable[[FloatArray], FloatArray],
    weights: Weights,
    horizon: ArrayLike,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    details: bool = False,
) -> Result:
    r"""Return the bound of :func:`ucb_sharp` for a rate ε_t that changes with the stage.

    Independent arrivals obey the same Chernoff bound, with Φ_i(t) = p_i Σ_{s≤t} ε_s in place of q_i
    t. After stage 10⁶ the maximum is over cells of relative width 10⁻⁴, with an upper bound on the
    function in each cell. The bound is at most :func:`~kibitz.bounds.upper.trivial`. This bound is
    not in the paper.

    Parameters
    ----------
    schedule
        A function that maps an array of stages t to the expected numbers of looks Σ_{s≤t} ε_s.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    weights, (exploration, _) = check_weights(weights, gaps), check_exploration(exploration, sd)
    cell_ends = _make_cells(float(horizon.max()))
    expected_looks = _expect_looks(schedule, cell_ends[:-1])
    last_cell = np.searchsorted(cell_ends, horizon)  # the cell that ends at or after the horizon
    pulls = np.ones((*horizon.shape, gaps.size))
    stages = np.ones_like(pulls)
    for arm in np.flatnonzero(gaps > 0):
        required_pulls = 4 * exploration / gaps[arm] ** 2 * np.log(cell_ends)
        required_pulls = required_pulls - concentration.seen_floor(
            weights[arm] * expected_looks, cell_ends
        )
        running_maximum = np.maximum.accumulate(required_pulls)
        pulls[..., arm] += running_maximum[last_cell]
        stages[..., arm] = cell_ends[np.searchsorted(running_maximum, running_maximum[last_cell])]
    pulls = pulls + _count_failures(gaps.size, horizon, exploration, sd)[..., None]
    return limit_by_trivial(gaps * pulls, gaps, horizon, details, stages)


def _expect_looks(schedule: Callable[[FloatArray], FloatArray], stages: FloatArray) -> FloatArray:
    """Check the schedule; return 0, followed by the expected number of looks up to each stage."""
    if not callable(schedule):
        raise invalid("schedule", "a function of the stages", schedule)
    values = schedule(stages)
    try:
        expected_looks = array(values, "schedule")
    except ValueError:
        expected_looks = np.array(math.nan)
    is_increasing = (
        expected_looks.shape == stages.shape and (np.diff(expected_looks, prepend=0.0) >= 0).all()
    )
    if not (is_increasing and (expected_looks <= stages).all()):
        raise ValueError(
            "schedule must return sums of rates in [0, 1] up to each stage, "
            f"got {short_repr(values)} from {short_repr(schedule)}"
        )
    return np.concatenate([[0.0], expected_looks])


def _check_form(form: str, exploration: float, sd: float) -> tuple[float, float]:
    """Return c = `exploration`, and 4ζ(a−1), a bound on the expected failures of confidence bounds.

    Here a = c/(2σ²). Raise ValueError if the form, c or the scale is invalid.
    """
    check_choice("form", form, "proved", "printed")
    exploration, power = check_exploration(exploration, sd)
    if form == "printed" and (exploration, sd) != (6.0, 1.0):
        raise invalid("form", "'proved' unless exploration=6 and sd=1", form)
    return exploration, float(4 * zeta(power - 1))


def check_exploration(exploration: float, sd: float) -> tuple[float, float]:
    """Return c = `exploration` and a = c/(2σ²), where σ is `sd`; raise ValueError unless a > 2.

    A confidence bound fails at stage t with probability at most t⁻ᵃ.
    """
    c, sd = check_scale("exploration", exploration), check_scale("sd", sd)
    if not (power := c / (2 * sd**2)) > 2:
        raise invalid("exploration", f"greater than 4 sd² = {4 * sd**2}", exploration)
    return c, power


def _check_looks(gaps: ArrayLike, rate: ArrayLike, weights: Weights) -> tuple[FloatArray, FloatArray]:
    """Return the gaps, and the rates q_i = εp_i of looks at each arm, with arms on the last axis."""
    gaps, rate = check_gaps(gaps), check_rate(rate)
    return gaps, rate[..., None] * check_weights(weights, gaps)


def _get_terms(bound: Result) -> FloatArray:
    assert isinstance(bound, Bound)
    return bound.terms


def _count_failures(n_arms: int, horizon: FloatArray, exploration: float, sd: float) -> FloatArray:
    """Return Σ_{t=K+1}^T (4t^{1−a} + t^{−5/2}), the expected failures of `ucb_sharp`.

    The sum is computed as a difference of tails of the zeta function.
    """
    power = min(check_exploration(exploration, sd)[1] - 1, 1000.0)  # for larger powers the sum is 0
    first_stage = n_arms + 1.0
    end_stage = np.maximum(first_stage, horizon + 1)
    failures: FloatArray = 4 * (zeta(power, first_stage) - zeta(power, end_stage))
    failures = failures + zeta(2.5, first_stage) - zeta(2.5, end_stage)
    return failures


def _count_required_pulls(t: FloatArray, slopes: FloatArray, look_rates: FloatArray) -> FloatArray:
    """Return the maximand of M_i in `ucb_sharp`: slope · log t minus a lower bound on the looks.

    `slopes` holds 4c/Δ_i². The bound on the looks before stage t holds with high probability.
    """
    return slopes * np.log(t) - concentration.seen_floor(look_rates * (t - 1), t)


def _find_peak(slopes: FloatArray, look_rates: FloatArray, horizon: FloatArray) -> FloatArray:
    """Return the whole stage at which :func:`_count_required_pulls` is largest.

    While q(t−1) ≤ 5 log t, the lower bound on the looks is 0 and the function increases. Afterwards
    the function is concave, because each term of its derivative decreases. Bisection in log t finds
    the maximum over real t; the best whole stage is next to it.
    """
    low, high = np.zeros(slopes.shape), np.log(horizon)
    for _ in range(70):
        middle = (low + high) / 2
        is_rising = _is_rising(middle, slopes, look_rates)
        low, high = np.where(is_rising, middle, low), np.where(is_rising, high, middle)
    candidates = np.floor(np.exp(low))[..., None] + np.arange(-2.0, 4.0)
    candidates = np.clip(candidates, 1.0, horizon[..., None])
    values = _count_required_pulls(candidates, slopes[..., None], look_rates[..., None])
    best_index = values.argmax(axis=-1)[..., None]
    return np.asarray(np.take_along_axis(candidates, best_index, axis=-1)[..., 0])


def _is_rising(log_t: FloatArray, slopes: FloatArray, look_rates: FloatArray) -> FloatArray:
    t_minus_1 = np.expm1(log_t)  # t − 1
    root = np.sqrt(np.divide(t_minus_1, log_t, out=np.ones_like(log_t), where=log_t > 0))
    slope = (
        slopes / (1 + t_minus_1)
        - look_rates
        + np.sqrt(5 * look_rates) / 2 * (1 / root + root / (1 + t_minus_1))
    )
    return np.asarray((look_rates * t_minus_1 <= 5 * log_t) | (slope > 0))


def _make_cells(horizon: float) -> FloatArray:
    """Return the last stage of each cell; the cells cover the stages 1 to T.

    Up to stage 10⁶ each stage is its own cell. Later cells have equal relative width.
    """
    stages = np.arange(1.0, min(horizon, MAX_EXHAUSTIVE_STAGE) + 1)
    if horizon <= MAX_EXHAUSTIVE_STAGE:
        return stages
    n_cells = math.ceil(math.log(horizon / MAX_EXHAUSTIVE_STAGE) / math.log1p(CELL_WIDTH))
    later_ends = np.floor(np.geomspace(MAX_EXHAUSTIVE_STAGE, horizon, n_cells + 1)[1:])
    return np.concatenate([stages, np.unique(later_ends)])
