r"""Upper bounds for UCB as a passive observer (Algorithm 1, Theorem 3).

UCB pulls the largest :math:`\bar X_i+\sqrt{c\log t/O_i}` where O_i counts pulls and free
observations (c = 6 in the paper). If its confidence bounds hold at a stage t at which it pulls arm
i, then :math:`O_i\le 4c\log t/\Delta_i^2`, so that :math:`N_i\le 4c\log t/\Delta_i^2-F_i`; they
fail in at most :math:`4\zeta(a-1)` stages on average, where a = c/(2σ²) must exceed 2. Hence,
whatever is surely seen for free (:func:`ucb_sharp`),

.. math:: E N_i(T) \le 1+\max_{t\le T}\{4c\log t/\Delta_i^2-F_i(t-1)\}+4\zeta(a-1)+\dots

and each of the bounds here is a way to bound this maximum. They hold arm by arm, so the smallest
may be taken per arm.
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
from kibitz.bounds.upper._trivial import at_most_trivial

ALL_STAGES = 1_000_000  # a schedule is looked at stage by stage up to here, by cells beyond
CELL = 1e-4  # relative width of those cells


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
    r"""UCB's logarithmic bound, whatever it sees for free (Theorem 3, first part).

    .. math:: E R_T \le \sum_{\Delta_i>0}\Big[\frac{4c\log T}{\Delta_i}
              +(1+4\zeta(a-1))\Delta_i\Big], \qquad a=\frac{c}{2\sigma^2}>2

    that is 24 log T/Δ_i + (1 + 2π²/3)Δ_i for c = 6. Printed without the second term, and then
    false already at T = 2 (D19). In the words of Definition 1, C = 24 and C_0 = 1 + 2π²/3; the
    paper's C = 8 and C_0 = 1 + π²/3 are those of UCB1 with rewards in [0, 1] (D5). As all proved
    bounds up to a horizon, it is at most :func:`~kibitz.bounds.upper.trivial`.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    exploration, bad = _check_form(form, exploration, sd)
    terms = 4 * exploration * np.log(horizon)[..., None] * invert(gaps)
    if form == "printed":
        return make_result(terms.sum(axis=-1), terms, None, details)
    return at_most_trivial(terms + (1 + bad) * gaps, gaps, horizon, details)


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
    r"""UCB's bound for all T at once, arrivals at random (Theorem 3, second part).

    With q_i = εp_i,

    .. math:: \sum_{\Delta_i>0}\frac{4c}{\Delta_i}\Big[\log\frac{50}{q_i}+\max\Big\{
              \log\frac{\max(1,c/6.25)}{e\Delta_i^2},\log\log\frac{20}{q_i}\Big\}\Big]
              +(2+4\zeta(a-1)+\zeta(2))\Delta_i

    that is (2 + 5π²/6)Δ_i at the end for c = 6. Printed without it (D19). Infinite if a
    sub-optimal arm is never seen for free; :func:`ucb_passive` then falls back on T.
    """
    gaps, seen = _seen(gaps, rate, weights)
    last = None if horizon is None else check_horizon(horizon, rate=seen[..., 0])
    exploration, bad = _check_form(form, exploration, sd)
    with np.errstate(divide="ignore"):
        log_seen, log_gaps = np.log(seen), np.log(gaps)
    # t/log t ≤ 20/q: the looks may be late; beyond: at least qt/2 of them have come
    late = np.log(np.log(20.0) - log_seen)
    early = math.log(max(1.0, exploration / 6.25)) - 1 - 2 * log_gaps
    bracket = math.log(50.0) - log_seen + np.maximum(early, late)
    terms = multiply(4 * exploration * invert(gaps), bracket)
    if form == "printed":
        return make_result(terms.sum(axis=-1), terms, None, details)
    return at_most_trivial(terms + (2 + bad + zeta(2.0)) * gaps, gaps, last, details)


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
    r"""UCB's bound for all T at once, when F_i(t) = ⌊εp_i t⌋ (appendix, deterministic setting).

    .. math:: \sum_{\Delta_i>0}\Delta_i\Big[2+q_i+\Big(\frac{4c}{\Delta_i^2}
              \log\frac{4c}{eq_i\Delta_i^2}\Big)_+ +4\zeta(a-1)\Big]

    Printed without 2 + q_i and without the clip (D21). Infinite if a sub-optimal arm is never
    seen for free. The looks of a feedback are of this kind if they arrive every n stages and all
    show the same arm.
    """
    gaps, seen = _seen(gaps, rate, weights)
    last = None if horizon is None else check_horizon(horizon, rate=seen[..., 0])
    exploration, bad = _check_form(form, exploration, sd)
    scale = 4 * exploration
    with np.errstate(divide="ignore"):
        bracket = math.log(scale) - 1 - np.log(seen) - 2 * np.log(gaps)
    if form == "printed":
        terms = multiply(scale * invert(gaps), bracket) + bad * gaps
        return make_result(terms.sum(axis=-1), terms, None, details)
    terms = multiply(scale * invert(gaps), np.maximum(bracket, 0.0))
    return at_most_trivial(terms + (2 + seen + bad) * gaps, gaps, last, details)


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
    """The smaller, arm by arm, of :func:`ucb_log` and :func:`ucb_rate`: Theorem 3 in full.

    The best closed form there is; :func:`ucb_sharp` is never larger. At most
    :func:`~kibitz.bounds.upper.trivial`.
    """
    gaps, seen = _seen(gaps, rate, weights)
    horizon = check_horizon(horizon, rate=seen[..., 0])
    log = _terms(ucb_log(gaps, horizon, exploration=exploration, sd=sd, details=True))
    bounded = _terms(ucb_rate(gaps, rate, weights, exploration=exploration, sd=sd, details=True))
    return at_most_trivial(np.minimum(log, bounded), gaps, horizon, details)


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
    r"""What Theorem 3's argument gives if its maximum is computed instead of bounded.

    .. math:: \sum_{\Delta_i>0}\Delta_i\min\Big\{(T-K+1)\vee1,
              1+M_i+\sum_{t=K+1}^T(4t^{1-a}+t^{-5/2})\Big\}

    .. math:: M_i=\max_{1\le t\le T}\Big(\frac{4c\log t}{\Delta_i^2}
              -\Big[q_i(t-1)-\sqrt{5q_i(t-1)\log t}\Big]_+\Big)

    The maximum is over whole stages, and exact: the function rises up to a stage and falls after
    it. `stages` (with ``details=True``) says where, arm by arm. At most
    :func:`~kibitz.bounds.upper.trivial`.
    """
    gaps, seen = _seen(gaps, rate, weights)
    horizon = check_horizon(horizon, rate=seen[..., 0])
    exploration, _ = _check_exploration(exploration, sd)
    slopes = 4 * exploration * invert(gaps) ** 2
    slopes, seen, stages = np.broadcast_arrays(slopes, seen, horizon[..., None])
    peaks = np.where(gaps > 0, _peak(slopes, seen, stages), 1.0)
    pulls = 1 + _pulls_needed(peaks, slopes, seen)
    pulls = pulls + _bad_stages(gaps.size, horizon, exploration, sd)[..., None]
    return at_most_trivial(gaps * pulls, gaps, horizon, details, peaks)


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
    r""":func:`ucb_sharp` for a rate ε_t that changes with the stage. Not in the paper.

    Independent arrivals obey the same Chernoff bound, with Φ_i(t) = p_i Σ_{s≤t} ε_s in the place
    of q_i t. Beyond a million stages the maximum is taken over cells of relative width 10⁻⁴, in
    each of which the function is bounded from above, so that the bound stays a bound. At most
    :func:`~kibitz.bounds.upper.trivial`.

    Parameters
    ----------
    schedule
        Gives for an array of stages t the number Σ_{s≤t} ε_s of free observations expected.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    weights, (exploration, _) = check_weights(weights, gaps), _check_exploration(exploration, sd)
    ends = _cells(float(horizon.max()))
    expected = _expected(schedule, ends[:-1])
    last = np.searchsorted(ends, horizon)  # the cell that ends at or after the horizon
    pulls = np.ones((*horizon.shape, gaps.size))
    stages = np.ones_like(pulls)
    for arm in np.flatnonzero(gaps > 0):
        needed = 4 * exploration / gaps[arm] ** 2 * np.log(ends)
        needed = needed - concentration.seen_floor(weights[arm] * expected, ends)
        highest = np.maximum.accumulate(needed)
        pulls[..., arm] += highest[last]
        stages[..., arm] = ends[np.searchsorted(highest, highest[last])]
    pulls = pulls + _bad_stages(gaps.size, horizon, exploration, sd)[..., None]
    return at_most_trivial(gaps * pulls, gaps, horizon, details, stages)


def _expected(schedule: Callable[[FloatArray], FloatArray], stages: FloatArray) -> FloatArray:
    """The looks that a schedule promises up to each stage, none before the first."""
    if not callable(schedule):
        raise invalid("schedule", "a function of the stages", schedule)
    given = schedule(stages)
    try:
        sums = array(given, "schedule")
    except ValueError:
        sums = np.array(math.nan)
    right = sums.shape == stages.shape and (np.diff(sums, prepend=0.0) >= 0).all()
    if not (right and (sums <= stages).all()):
        raise ValueError(
            "schedule must sum rates in [0, 1] up to each stage, "
            f"got {short_repr(given)} from {short_repr(schedule)}"
        )
    return np.concatenate([[0.0], sums])


def _check_form(form: str, exploration: float, sd: float) -> tuple[float, float]:
    """The index's c, and the mean number of stages of bad confidence, 4ζ(a−1)."""
    check_choice("form", form, "proved", "printed")
    exploration, power = _check_exploration(exploration, sd)
    if form == "printed" and (exploration, sd) != (6.0, 1.0):
        raise invalid("form", "proved unless exploration=6 and sd=1", form)
    return exploration, float(4 * zeta(power - 1))


def _check_exploration(exploration: float, sd: float) -> tuple[float, float]:
    """c, and a = c/(2σ²): a confidence bound fails at stage t with probability t⁻ᵃ."""
    c, sd = check_scale("exploration", exploration), check_scale("sd", sd)
    if not (power := c / (2 * sd**2)) > 2:
        raise invalid("exploration", f"greater than 4 sd² = {4 * sd**2}", exploration)
    return c, power


def _seen(gaps: ArrayLike, rate: ArrayLike, weights: Weights) -> tuple[FloatArray, FloatArray]:
    """The gaps, and q_i = εp_i with the arms on the last axis."""
    gaps, rate = check_gaps(gaps), check_rate(rate)
    return gaps, rate[..., None] * check_weights(weights, gaps)


def _terms(bound: Result) -> FloatArray:
    assert isinstance(bound, Bound)
    return bound.terms


def _bad_stages(n_arms: int, horizon: FloatArray, exploration: float, sd: float) -> FloatArray:
    """Σ_{t=K+1}^T (4t^{1−a} + t^{−5/2}), by the tails of the zeta function."""
    power = min(_check_exploration(exploration, sd)[1] - 1, 1000.0)  # all is 0 from there on
    first = n_arms + 1.0
    last = np.maximum(first, horizon + 1)
    bad: FloatArray = 4 * (zeta(power, first) - zeta(power, last))
    bad = bad + zeta(2.5, first) - zeta(2.5, last)
    return bad


def _pulls_needed(t: FloatArray, slopes: FloatArray, seen: FloatArray) -> FloatArray:
    """4c log t/Δ² less what is surely seen for free before stage t."""
    return slopes * np.log(t) - concentration.seen_floor(seen * (t - 1), t)


def _peak(slopes: FloatArray, seen: FloatArray, horizon: FloatArray) -> FloatArray:
    """The whole stage at which :func:`_pulls_needed` is largest.

    While q(t−1) ≤ 5 log t nothing is surely seen and it rises; from there on it is concave
    (each term of its derivative falls). So its continuous maximum is found by bisection in
    log t, and the whole one is next to it.
    """
    low, high = np.zeros(slopes.shape), np.log(horizon)
    for _ in range(70):
        middle = (low + high) / 2
        rising = _rising(middle, slopes, seen)
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    around = np.floor(np.exp(low))[..., None] + np.arange(-2.0, 4.0)
    around = np.clip(around, 1.0, horizon[..., None])
    values = _pulls_needed(around, slopes[..., None], seen[..., None])
    best = values.argmax(axis=-1)[..., None]
    return np.asarray(np.take_along_axis(around, best, axis=-1)[..., 0])


def _rising(log_t: FloatArray, slopes: FloatArray, seen: FloatArray) -> FloatArray:
    before = np.expm1(log_t)  # t − 1
    root = np.sqrt(np.divide(before, log_t, out=np.ones_like(log_t), where=log_t > 0))
    slope = slopes / (1 + before) - seen + np.sqrt(5 * seen) / 2 * (1 / root + root / (1 + before))
    return np.asarray((seen * before <= 5 * log_t) | (slope > 0))


def _cells(horizon: float) -> FloatArray:
    """The last stages of cells that cover 1..T: single stages, then stages of equal ratio."""
    stages = np.arange(1.0, min(horizon, ALL_STAGES) + 1)
    if horizon <= ALL_STAGES:
        return stages
    n_cells = math.ceil(math.log(horizon / ALL_STAGES) / math.log1p(CELL))
    later = np.floor(np.geomspace(ALL_STAGES, horizon, n_cells + 1)[1:])
    return np.concatenate([stages, np.unique(later)])
