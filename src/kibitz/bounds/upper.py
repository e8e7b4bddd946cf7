r"""Upper bounds: what the paper's algorithms are sure to keep below.

UCB, passive observer
    pulls the largest :math:`\bar X_i+\sqrt{c\log t/O_i}` where O_i counts pulls and free
    observations (Algorithm 1, c = 6). If its confidence bounds hold at a stage t at which it
    pulls arm i, then :math:`O_i\le 4c\log t/\Delta_i^2`, so that :math:`N_i\le 4c\log t/\Delta_i^2
    -F_i`; they fail in at most :math:`4\zeta(a-1)` stages on average, where a = c/(2σ²) must
    exceed 2. Hence, whatever is surely seen for free (:func:`ucb_sharp`),

    .. math:: E N_i(T) \le 1+\max_{t\le T}\{4c\log t/\Delta_i^2-F_i(t-1)\}+4\zeta(a-1)+\dots

    and each of the UCB bounds here is a way to bound this maximum. They hold arm by arm, so
    the smallest may be taken per arm.
FTL-robin
    pulls the leader of all observations and looks at the arms in turn.
OCUCB-n, and ETC-OCUCB which the paper proposes for an active observer
    have bounds with a constant C_η that nobody has computed. It is an argument without default:
    no number for these two is certified (theory: Lattimore 2016, taken on trust).

Rewards are σ²-sub-Gaussian (`sd` is σ, 1 in the paper) and every free observation is a fresh
draw. `rate` (ε) and `horizon` (T) may be arrays. `form="printed"` is the paper's formula to the
letter, for comparison only (see the errata); a bound that says nothing is infinite.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import zeta

from kibitz.bounds import complexity, concentration
from kibitz.bounds.bound import (
    Answer,
    Bound,
    FloatArray,
    answer,
    check_choice,
    check_gaps,
    check_horizon,
    check_positive,
    check_rate,
    check_weights,
)

ALL_STAGES = 1_000_000  # a schedule is looked at stage by stage up to here, by cells beyond
CELL = 1e-4  # relative width of those cells


class Elimination(NamedTuple):
    """When ETC drops each arm, if its averages stay within their radii. Arms on the last axis."""

    first: FloatArray  # not before this round; never (inf) for an optimal arm
    last: FloatArray  # at this round at the latest
    observations: FloatArray  # of all arms together until this arm and all worse ones are gone
    probability: FloatArray  # that all of this holds up to `last`, at least; 0 says nothing


# UCB -----------------------------------------------------------------------------------------


def ucb_log(
    gaps: ArrayLike,
    horizon: ArrayLike,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""UCB's logarithmic bound, whatever it sees for free (Theorem 3, first part).

    .. math:: E R_T \le \sum_{\Delta_i>0}\Big[\frac{4c\log T}{\Delta_i}
              +(1+4\zeta(a-1))\Delta_i\Big], \qquad a=\frac{c}{2\sigma^2}>2

    that is 24 log T/Δ_i + (1 + 2π²/3)Δ_i for c = 6. Printed without the second term, and then
    false already at T = 2 (D19). In the words of Definition 1, C = 24 and C_0 = 1 + 2π²/3; the
    paper's C = 8 and C_0 = 1 + π²/3 are those of UCB1 with rewards in [0, 1] (D5).
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    bad = _check_form(form, exploration, sd)
    terms = 4 * exploration * np.log(horizon)[..., None] * complexity.inverse(gaps)
    if form == "proved":
        terms = terms + (1 + bad) * gaps
    return answer(terms.sum(axis=-1), terms, None, details)


def ucb_rate(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""UCB's bound for all T at once, arrivals at random (Theorem 3, second part).

    With q_i = εp_i,

    .. math:: \sum_{\Delta_i>0}\frac{4c}{\Delta_i}\Big[\log\frac{50}{q_i}+\max\Big\{
              \log\frac{\max(1,c/6.25)}{e\Delta_i^2},\log\log\frac{20}{q_i}\Big\}\Big]
              +(2+4\zeta(a-1)+\zeta(2))\Delta_i

    that is (2 + 5π²/6)Δ_i at the end for c = 6. Printed without it (D19). Infinite if a
    sub-optimal arm is never seen for free; :func:`ucb_passive` then falls back on T.
    """
    gaps, seen = _seen(gaps, rate, weights)
    bad = _check_form(form, exploration, sd)
    with np.errstate(divide="ignore"):
        log_seen, log_gaps = np.log(seen), np.log(gaps)
    # t/log t ≤ 20/q: the looks may be late; beyond: at least qt/2 of them have come
    late = np.log(np.log(20.0) - log_seen)
    early = math.log(max(1.0, exploration / 6.25)) - 1 - 2 * log_gaps
    bracket = math.log(50.0) - log_seen + np.maximum(early, late)
    terms = _times(4 * exploration * complexity.inverse(gaps), bracket)
    if form == "proved":
        terms = terms + (2 + bad + zeta(2.0)) * gaps
    return answer(terms.sum(axis=-1), terms, None, details)


def ucb_periodic(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""UCB's bound for all T at once, when F_i(t) = ⌊εp_i t⌋ (appendix, deterministic setting).

    .. math:: \sum_{\Delta_i>0}\Delta_i\Big[2+q_i+\Big(\frac{4c}{\Delta_i^2}
              \log\frac{4c}{eq_i\Delta_i^2}\Big)_+ +4\zeta(a-1)\Big]

    Printed without 2 + q_i and without the clip (D21). Infinite if a sub-optimal arm is never
    seen for free.
    """
    gaps, seen = _seen(gaps, rate, weights)
    bad = _check_form(form, exploration, sd)
    scale = 4 * exploration
    with np.errstate(divide="ignore"):
        bracket = math.log(scale) - 1 - np.log(seen) - 2 * np.log(gaps)
    if form == "proved":
        terms = _times(scale * complexity.inverse(gaps), np.maximum(bracket, 0.0))
        terms = terms + (2 + seen + bad) * gaps
    else:
        terms = _times(scale * complexity.inverse(gaps), bracket) + bad * gaps
    return answer(terms.sum(axis=-1), terms, None, details)


def ucb_passive(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: ArrayLike | None,
    horizon: ArrayLike,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    details: bool = False,
) -> Answer:
    """The smallest, arm by arm, of :func:`ucb_log`, :func:`ucb_rate` and TΔ_i: Theorem 3 in full.

    The best closed form there is; :func:`ucb_sharp` is never larger.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    log = _terms(ucb_log(gaps, horizon, exploration=exploration, sd=sd, details=True))
    bounded = _terms(ucb_rate(gaps, rate, weights, exploration=exploration, sd=sd, details=True))
    terms = np.minimum(np.minimum(log, bounded), horizon[..., None] * gaps)
    return answer(terms.sum(axis=-1), terms, None, details)


def ucb_sharp(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: ArrayLike | None,
    horizon: ArrayLike,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    details: bool = False,
) -> Answer:
    r"""What Theorem 3's argument gives if its maximum is computed instead of bounded.

    .. math:: \sum_{\Delta_i>0}\Delta_i\min\Big\{T, 1+\max_{1\le t\le T}\Big(\frac{4c\log t}
              {\Delta_i^2}-\Big[q_i(t-1)-\sqrt{5q_i(t-1)\log t}\Big]_+\Big)
              +\sum_{t=K+1}^T(4t^{1-a}+t^{-5/2})\Big\}

    The maximum is over whole stages, and exact: the function rises up to a stage and falls after
    it. `stages` (with ``details=True``) says where, arm by arm.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    _, seen = _seen(gaps, rate, weights)
    slopes = 4 * exploration * complexity.inverse(gaps) ** 2
    slopes, seen, stages = np.broadcast_arrays(slopes, seen, horizon[..., None])
    peaks = np.where(gaps > 0, _peak(slopes, seen, stages), 1.0)
    pulls = 1 + _pulls_needed(peaks, slopes, seen)
    pulls = pulls + _bad_stages(gaps.size, horizon, exploration, sd)[..., None]
    terms = gaps * np.minimum(stages, pulls)
    return answer(terms.sum(axis=-1), terms, peaks, details)


def ucb_schedule(
    gaps: ArrayLike,
    schedule: Callable[[FloatArray], FloatArray],
    weights: ArrayLike | None,
    horizon: ArrayLike,
    *,
    exploration: float = 6.0,
    sd: float = 1.0,
    details: bool = False,
) -> Answer:
    r""":func:`ucb_sharp` for a rate ε_t that changes with the stage. Not in the paper.

    Independent arrivals obey the same Chernoff bound, with Φ_i(t) = p_i Σ_{s≤t} ε_s in the place
    of q_i t. Beyond a million stages the maximum is taken over cells of relative width 10⁻⁴, in
    each of which the function is bounded from above, so that the bound stays a bound.

    Parameters
    ----------
    schedule
        Gives for an array of stages t the number Σ_{s≤t} ε_s of free observations expected.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    weights = check_weights(weights, gaps.size)
    ends = _cells(float(horizon.max()))
    expected = np.concatenate([[0.0], np.asarray(schedule(ends[:-1]), dtype=np.float64)])
    if not (np.diff(expected, prepend=0.0) >= 0).all() or not (expected[1:] <= ends[:-1]).all():
        raise ValueError(f"schedule must sum rates in [0, 1] up to each stage, got {schedule!r}")
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
    terms = gaps * np.minimum(horizon[..., None], pulls)
    return answer(terms.sum(axis=-1), terms, stages, details)


def _check_form(form: str, exploration: float, sd: float) -> float:
    """Check the form of a UCB bound; the mean number of stages of bad confidence, 4ζ(a−1)."""
    check_choice("form", form, "proved", "printed")
    power = _check_exploration(exploration, sd)
    if form == "printed" and (exploration, sd) != (6.0, 1.0):
        raise ValueError(f"form must be proved unless exploration=6 and sd=1, got {form!r}")
    return float(4 * zeta(power - 1))


def _check_exploration(exploration: float, sd: float) -> float:
    """a = c/(2σ²): a confidence bound fails at stage t with probability t⁻ᵃ."""
    power = check_positive("exploration", exploration) / (2 * check_positive("sd", sd) ** 2)
    if not power > 2:
        raise ValueError(f"exploration must be greater than 4 sd² = {4 * sd**2}, got {exploration!r}")
    return power


def _seen(
    gaps: ArrayLike, rate: ArrayLike, weights: ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """The gaps, and q_i = εp_i with the arms on the last axis."""
    gaps, rate = check_gaps(gaps), check_rate(rate)
    return gaps, rate[..., None] * check_weights(weights, gaps.size)


def _times(scales: FloatArray, brackets: FloatArray) -> FloatArray:
    """Their product, where 0 (an optimal arm) times infinity is 0."""
    return np.asarray(np.where(scales > 0, scales * np.where(scales > 0, brackets, 0.0), 0.0))


def _terms(bound: Answer) -> FloatArray:
    assert isinstance(bound, Bound)
    return bound.terms


def _bad_stages(n_arms: int, horizon: FloatArray, exploration: float, sd: float) -> FloatArray:
    """Σ_{t=K+1}^T (4t^{1−a} + t^{−5/2}), by the tails of the zeta function."""
    power, first, last = _check_exploration(exploration, sd) - 1, n_arms + 1.0, horizon + 1
    last = np.maximum(first, last)
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


# Follow the leader ---------------------------------------------------------------------------


def ftl_robin(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    sd: float = 1.0,
    details: bool = False,
) -> Answer:
    r"""FTL-robin's bound, for all T at once (Lemma 1, whose proof the paper omits).

    It errs while an average is off by Δ_i/2, and an average of n or more observations ever is
    with probability at most :math:`e^{-ny_i}`, :math:`y_i=\Delta_i^2/(8\sigma^2)`. In a period of
    K/ε stages every arm is seen once more (printed 1/ε, D22):

    .. math:: \sum_{\Delta_i>0}\Delta_i\Big[1+\frac K\epsilon\sum_{n\ge1}\min(1,2e^{-ny_i})\Big]

    for looks in turn (`weights=None`), whether arrivals are periodic or random; for two arms
    and Δ ≤ 1 that is at most 27.2/(εΔ). With `weights`, the leader sees what comes by:

    .. math:: \sum_{\Delta_i>0}\Delta_i\Big[1+\Big(\frac1{\epsilon p_1}+\frac1{\epsilon p_i}\Big)
              \frac{1}{e^{y_i}-1}\Big]

    with p_1 the largest weight of an optimal arm. Infinite if either is never seen.
    """
    gaps, rate = check_gaps(gaps), check_rate(rate)[..., None]
    positive = gaps > 0
    y = np.where(positive, (gaps / check_positive("sd", sd)) ** 2 / 8, math.inf)
    with np.errstate(over="ignore"):  # at rates near the smallest float all of it may overflow
        if weights is None:
            certain = np.floor(math.log(2) / y)  # terms of the sum that are 1
            errors = certain + 2 * np.exp(-(certain + 1) * y) / -np.expm1(-y)
            stages = _per(errors, rate / gaps.size)
        else:
            weights = check_weights(weights, gaps.size)
            errors = np.exp(-y) / -np.expm1(-y)
            stages = _per(errors, rate * weights[~positive].max()) + _per(errors, rate * weights)
        terms = np.where(positive, gaps * (1 + np.where(positive, stages, 0.0)), 0.0)
        return answer(terms.sum(axis=-1), terms, None, details)


def _per(errors: FloatArray, rate: FloatArray) -> FloatArray:
    """The stages that errors last, each until a look comes; for ever if none does."""
    return np.asarray(np.where(rate > 0, errors / np.where(rate > 0, rate, 1.0), math.inf))


# OCUCB-n, ETC, and the two together ------------------------------------------------------------


def ocucb(
    gaps: ArrayLike,
    horizon: ArrayLike,
    c_eta: float,
    *,
    rho: float = 0.5,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""OCUCB-n's bound on an epoch of d = `horizon` stages (lemma "ocucb_regret", Lattimore).

    .. math:: C_\eta\sum_{\Delta_i>0}\Big[\frac{\log\max\{d\Delta_i^2/k_{i,\rho},1\}
              +(\log\log d)_+}{\Delta_i}+\Delta_i\Big]

    ``"printed"`` does not clip log log d, which is negative for d = 2 and −∞ for d = 1; then the
    bound does not grow with the set of arms, as the proof of the active algorithm wants. Clipped
    it does, as long as gaps are at most 1 (D41). ``"leading"`` leaves log log d and Δ_i out.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    c_eta = check_positive("c_eta", c_eta)
    check_choice("form", form, "proved", "printed", "leading")
    terms = _epoch(gaps, np.log(horizon), complexity.hardness(gaps, rho), form)
    return answer(c_eta * terms.sum(axis=-1), c_eta * terms, None, details)


def _epoch(gaps: FloatArray, log_length: FloatArray, hardness: FloatArray, form: str) -> FloatArray:
    """The terms of :func:`ocucb` without C_η, where dΔ²/k is written d/H."""
    with np.errstate(divide="ignore"):
        logs, loglogs = np.log(hardness), np.log(log_length)[..., None]
    # an optimal arm has H = ∞
    terms = np.where(gaps > 0, np.maximum(log_length[..., None] - logs, 0.0), 0.0)
    if form == "leading":
        return terms * complexity.inverse(gaps)
    if form == "proved":
        loglogs = np.maximum(loglogs, 0.0)
    return _times(complexity.inverse(gaps), terms + loglogs) + gaps


def etc_elimination(
    gaps: ArrayLike,
    log_horizon: ArrayLike,
    *,
    alpha: float = 1.0,
    variance: float = 1.0,
    form: str = "proved",
) -> Elimination:
    r"""When ETC with parameter α and horizon T drops each arm, and with what probability.

    If all averages up to round τ are within :math:`\sqrt{(2c/s)\log(T/s)}` of their means, where
    c is the variance proxy of the rewards and α ≥ c, the best arms stay, and arm i goes at a
    round s with

    .. math:: \frac{L}{\Delta_i^2}W(T\Delta_i^2/L) \le s \le
              1+\frac{C}{\Delta_i^2}W(T\Delta_i^2/C), \qquad
              C = 8(\sqrt\alpha+\sqrt c)^2,\quad L = 8(\sqrt\alpha-\sqrt c)^2

    ``"printed"`` has C = 8(α+c) and L = 8(α−c), both wrong (D13), and the probability
    :math:`1-12K(\tau/T)\sqrt{\log(T/\tau)}`; ``"proved"`` has that of
    :func:`kibitz.bounds.concentration.maximal` for each side of each arm.

    `log_horizon` is log T, see :func:`kibitz.bounds.complexity.etc_log_horizon`.
    """
    gaps, log_horizon = check_gaps(gaps), np.asarray(log_horizon, dtype=np.float64)
    upper = complexity.etc_constant(alpha, variance, form)
    difference = math.sqrt(alpha) - math.sqrt(variance)
    lower = 8 * (alpha - variance) if form == "printed" else 8 * difference**2
    optimal = gaps == 0
    rounds = complexity.etc_rounds(gaps, log_horizon, upper)
    last = np.where(optimal, math.inf, np.floor(rounds) + 1)
    first = np.ones_like(last)
    if lower > 0:
        first = np.maximum(1.0, np.ceil(complexity.etc_rounds(gaps, log_horizon, lower)))
    log_last = np.log(np.where(optimal, 1.0, last))
    delta = np.exp(np.minimum(log_last - log_horizon[..., None], 0.0))
    meaningful = ~optimal & (delta < 1)
    delta = np.clip(delta, 1e-300, 0.999)
    failure = concentration.maximal(delta, np.where(optimal, 1.0, last), form=form)
    probability = np.where(meaningful, np.maximum(1 - 2 * gaps.size * failure, 0.0), 0.0)
    observations = complexity.etc_observations(gaps, log_horizon, upper)
    return Elimination(
        np.where(optimal, math.inf, first),
        last,
        np.where(optimal, math.inf, observations),
        probability,
    )


def etc_ocucb(
    gaps: ArrayLike,
    rate: ArrayLike,
    c_eta: float,
    horizon: ArrayLike | None = None,
    *,
    rho: float = 0.5,
    alpha: float = 1.0,
    variance: float = 1.0,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""The bound of the active algorithm, OCUCB-n on the arms that ETC keeps (Theorem 4).

    .. math:: C_\eta\sum_{\Delta_i>0}\Big[\frac{1}{\Delta_i}\Big(5\log\max\Big\{
              \frac{d_{m_i-1}}{H'_i},\frac{H_{i,\rho}}{\sqrt{H'_i}}\Big\}
              +\frac{\log 2}{2}m_i(m_i+1)\Big)+(m_i+1)\Delta_i\Big]+38.56K+1.44

    with :math:`d_m=2^{2^m}`, m_i of :func:`kibitz.bounds.complexity.last_epoch` and
    :math:`H'_i=H^{(m_i)}_{i,\rho}`. Rewards in [0, 1] or at least gaps ≤ 1: else infinite. The
    last two terms, the regret in case ETC errs, belong to no arm: `terms` do not contain them.

    Parameters
    ----------
    c_eta
        OCUCB-n's constant C_η, which the literature does not give: the number is only as good
        as this one.
    horizon
        T, which caps the number of epochs; None plays for ever.
    variance
        The variance proxy c ≤ α of the rewards: 1 in the paper, 1/4 for rewards in [0, 1].
    form
        ``"proved"`` as above. ``"exact"``, never larger: the sum over epochs itself, as the
        proof has it before it is bounded. ``"printed"``: the last explicit formula of the
        appendix, with 4 for 5 (D25), 51K, the printed C_α (D13) and H^{(m)} (D17) and without
        one Δ_i per epoch (D36). ``"leading"``:
        :math:`5C_\eta\sum\Delta_i^{-1}\max\{\log(1/\epsilon),\log\sqrt{H_{i,\rho}}\}`.
    """
    gaps, rate = check_gaps(gaps), check_rate(rate)
    check_choice("form", form, "proved", "exact", "printed", "leading")
    c_eta, rho = check_positive("c_eta", c_eta), complexity.check_rho(rho)
    if horizon is not None:
        rate, horizon = np.broadcast_arrays(rate, check_horizon(horizon))
    constant = complexity.etc_constant(alpha, variance, "printed" if form == "printed" else "proved")
    full = complexity.hardness(gaps, rho)
    if form == "leading":
        with np.errstate(divide="ignore"):
            sizes = np.maximum(-np.log(rate)[..., None], np.log(full) / 2)
        terms = c_eta * _times(5 * complexity.inverse(gaps), sizes)
        return answer(terms.sum(axis=-1), terms, None, details)
    epochs = complexity.last_epoch(gaps, rate, horizon, constant)
    endless = np.isinf(epochs) & (gaps > 0)
    epochs = np.where(np.isinf(epochs), 0.0, epochs)
    final = None if horizon is None else complexity.final_epoch(horizon)
    if form == "exact":
        terms = _sum_of_epochs(gaps, rate, rho, constant, epochs)
        shared = _when_etc_errs(gaps.size, final)
    else:
        terms = _explicit(gaps, rate, rho, constant, epochs, final, form)
        shared = np.asarray(51.0 * gaps.size) if form == "printed" else _when_etc_errs(gaps.size)
    terms = np.where(endless, math.inf, c_eta * terms)
    if form != "printed" and (gaps > 1).any():
        terms = np.where(gaps > 0, math.inf, terms)
    return answer(terms.sum(axis=-1) + gaps.any() * shared, terms, None, details)


def _sum_of_epochs(
    gaps: FloatArray, rate: FloatArray, rho: float, constant: float, epochs: FloatArray
) -> FloatArray:
    """Epoch m is played on the arms that epoch m − 1 left; arm i plays up to epoch m_i."""
    terms = np.zeros(epochs.shape)
    for m in range(int(epochs.max()) + 1):
        left = complexity.first_eliminated(gaps, m - 1, rate, constant) if m > 0 else None
        log_length = np.asarray(complexity.epoch_log_length(m))
        epoch = _epoch(gaps, log_length, complexity.hardness(gaps, rho, left), "proved")
        terms = terms + np.where(m <= epochs, epoch, 0.0)
    return terms


def _explicit(
    gaps: FloatArray,
    rate: FloatArray,
    rho: float,
    constant: float,
    epochs: FloatArray,
    final: FloatArray | None,
    form: str,
) -> FloatArray:
    """The same sum in closed form, with factor 5; as printed, with factor 4."""
    printed = form == "printed"
    reduced = complexity.hardness(gaps, rho, 0)  # i/Δ², after the epoch in which the arm goes
    if final is not None:  # arms that the horizon stops before they go
        left = complexity.first_eliminated(gaps, final, rate, constant) + printed
        stopped = epochs == final[..., None]
        reduced = np.where(stopped, complexity.hardness(gaps, rho, left), reduced)
    log_full = np.log(np.where(gaps > 0, complexity.hardness(gaps, rho), 1.0))
    log_reduced = np.log(np.where(gaps > 0, reduced, 1.0))
    log_length = 2.0 ** (epochs - 1) * math.log(2)  # of epoch m_i − 1, √2 for m_i = 0
    largest = np.maximum(log_length - log_reduced, log_full - log_reduced / 2)
    if printed:
        brackets = 4 * largest + epochs + epochs**2
        return brackets * complexity.inverse(gaps) + gaps
    brackets = 5 * largest + math.log(2) / 2 * epochs * (epochs + 1)
    return brackets * complexity.inverse(gaps) + (epochs + 1) * gaps


def _when_etc_errs(n_arms: int, final: FloatArray | None = None) -> FloatArray:
    """Σ_m (1 + 12K√log(d_{m+1} log d_{m+1}))/log d_{m+1}: 38.56K + 1.44, or up to an epoch."""
    logs = 2.0 ** np.arange(1, 201) * math.log(2)
    sums = np.cumsum((1 + 12 * n_arms * np.sqrt(logs + np.log(logs))) / logs)
    if final is None:
        return np.asarray(sums[-1])
    return np.concatenate([[0.0], sums])[final.astype(np.int64)]


# Looks that cost -------------------------------------------------------------------------------


def paid_looks(
    gaps: ArrayLike,
    rate: ArrayLike,
    horizon: ArrayLike,
    *,
    form: str = "leading",
    details: bool = False,
) -> Answer:
    r"""The size of the regret if each look costs what a pull costs (conclusion of the paper).

    .. math:: \sum_{\Delta_i>0}\frac{\log_+(\epsilon T\Delta_i^2)+\log(1/\epsilon)}{\Delta_i}

    An order of magnitude, ``form="leading"`` and no other: constants and log log terms are
    dropped. It is :math:`\sum\log(T\Delta_i^2)/\Delta_i` as long as every εTΔ_i² ≥ 1, and more
    otherwise (D35). Infinite at rate 0.
    """
    gaps, rate, horizon = check_gaps(gaps), check_rate(rate), check_horizon(horizon)
    check_choice("form", form, "leading")
    with np.errstate(divide="ignore"):
        looks = np.log(rate)[..., None]
        looked = np.maximum(looks + np.log(horizon)[..., None] + 2 * np.log(gaps), 0.0)
    terms = _times(complexity.inverse(gaps), looked - looks)
    return answer(terms.sum(axis=-1), terms, None, details)
