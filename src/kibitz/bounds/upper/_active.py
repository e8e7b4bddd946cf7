r"""Upper bounds for active observers: FTL-robin, OCUCB-n, ETC, and ETC-OCUCB (Theorem 4).

FTL-robin pulls the leader of all observations and looks at the arms in turn.

OCUCB-n's bound has a constant C_η that nobody has computed. It is an argument without default: no
number for these is certified (theory: Lattimore 2016, taken on trust).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kibitz.bounds import complexity, concentration
from kibitz.bounds._bound import Result, bound, documented, invert, make_result, multiply
from kibitz.bounds._checks import (
    FloatArray,
    Weights,
    check_choice,
    check_gaps,
    check_horizon,
    check_log_horizon,
    check_rate,
    check_rho,
    check_scale,
    check_weights,
)
from kibitz.bounds.upper._trivial import at_most_trivial


class Elimination(NamedTuple):
    """When ETC drops each arm, if its averages stay within their radii. Arms on the last axis."""

    first: FloatArray  # not before this round; never (inf) for an optimal arm
    last: FloatArray  # at this round at the latest
    observations: FloatArray  # of all arms together until this arm and all worse ones are gone
    probability: FloatArray  # that all of this holds up to `last`, at least; 0 says nothing


@bound()
def ocucb(
    gaps: ArrayLike,
    horizon: ArrayLike,
    *,
    c_eta: float,
    rho: float = 0.5,
    form: str = "proved",
    details: bool = False,
) -> Result:
    r"""OCUCB-n's bound on an epoch of d = `horizon` stages (Lemma 10, Lattimore).

    .. math:: C_\eta\sum_{\Delta_i>0}\Big[\frac{\log\max\{d\Delta_i^2/k_{i,\rho},1\}
              +(\log\log d)_+}{\Delta_i}+\Delta_i\Big]

    ``"lemma"`` is this formula, ``"proved"`` what is left of it when no more can be lost than
    :func:`~kibitz.bounds.upper.trivial`. ``"printed"`` does not clip log log d, which is negative
    for d = 2 and −∞ for d = 1; then the bound does not grow with the set of arms, as the proof of
    the active algorithm wants. Clipped it does, as long as gaps are at most 1 (D41). ``"leading"``
    leaves log log d and Δ_i out.

    Parameters
    ----------
    horizon
        d, the length of the epoch, one or many.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    c_eta = check_scale("c_eta", c_eta)
    check_choice("form", form, "proved", "lemma", "printed", "leading")
    terms = _epoch(gaps, np.log(horizon), complexity.hardness(gaps, rho), form)
    if form != "proved":
        return make_result(c_eta * terms.sum(axis=-1), c_eta * terms, None, details)
    return at_most_trivial(c_eta * terms, gaps, horizon, details)


def _epoch(gaps: FloatArray, log_length: FloatArray, hardness: FloatArray, form: str) -> FloatArray:
    """The terms of :func:`ocucb` without C_η, where dΔ²/k is written d/H."""
    with np.errstate(divide="ignore"):
        logs, loglogs = np.log(hardness), np.log(log_length)[..., None]
    # an optimal arm has H = ∞
    terms = np.where(gaps > 0, np.maximum(log_length[..., None] - logs, 0.0), 0.0)
    if form == "leading":
        return terms * invert(gaps)
    if form in {"proved", "lemma"}:
        loglogs = np.maximum(loglogs, 0.0)
    return multiply(invert(gaps), terms + loglogs) + gaps


@documented
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

    Parameters
    ----------
    log_horizon
        log T, see :func:`kibitz.bounds.complexity.etc_log_horizon`; one or many.
    """
    gaps, log_horizon = check_gaps(gaps), check_log_horizon(log_horizon)
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


@bound("active")
def etc_ocucb(
    gaps: ArrayLike,
    rate: ArrayLike,
    horizon: ArrayLike | None = None,
    *,
    c_eta: float,
    rho: float = 0.5,
    alpha: float = 1.0,
    variance: float = 1.0,
    form: str = "proved",
    details: bool = False,
) -> Result:
    r"""The bound of the active algorithm, OCUCB-n on the arms that ETC keeps (Theorem 4).

    .. math:: C_\eta\sum_{\Delta_i>0}\Big[\frac{1}{\Delta_i}\Big(5\log\max\Big\{
              \frac{d_{m_i-1}}{H'_i},\frac{H_{i,\rho}}{\sqrt{H'_i}}\Big\}
              +\frac{\log 2}{2}m_i(m_i+1)\Big)+(m_i+1)\Delta_i\Big]+38.56K+1.44

    with :math:`d_m=2^{2^m}`, m_i of :func:`kibitz.bounds.complexity.last_epoch` and
    :math:`H'_i=H^{(m_i)}_{i,\rho}`. Rewards in [0, 1] or at least gaps ≤ 1: else infinite. The
    last two terms, the regret in case ETC errs, belong to no arm: `terms` do not contain them.

    Parameters
    ----------
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
    c_eta, rho = check_scale("c_eta", c_eta), check_rho(rho)
    if horizon is not None:
        horizon = check_horizon(horizon, rate=rate)
        rate, horizon = np.broadcast_arrays(rate, horizon)
    constant = complexity.etc_constant(alpha, variance, "printed" if form == "printed" else "proved")
    full = complexity.hardness(gaps, rho)
    if form == "leading":
        with np.errstate(divide="ignore"):
            sizes = np.maximum(-np.log(rate)[..., None], np.log(full) / 2)
        terms = c_eta * multiply(5 * invert(gaps), sizes)
        return make_result(terms.sum(axis=-1), terms, None, details)
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
    total = terms.sum(axis=-1) + gaps.any() * shared
    if form != "printed" and horizon is not None:
        terms = np.minimum(terms, horizon[..., None] * gaps)
        total = np.minimum(total, horizon * gaps.max())
    return make_result(total, terms, None, details)


def _sum_of_epochs(
    gaps: FloatArray, rate: FloatArray, rho: float, constant: float, epochs: FloatArray
) -> FloatArray:
    """Epoch m is played on the arms that epoch m − 1 left; arm i plays up to epoch m_i."""
    terms = np.zeros(epochs.shape)
    for m in range(int(epochs.max()) + 1):
        left = complexity.first_eliminated(gaps, rate, m - 1, constant) if m > 0 else None
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
        left = complexity.first_eliminated(gaps, rate, final, constant) + printed
        stopped = epochs == final[..., None]
        reduced = np.where(stopped, complexity.hardness(gaps, rho, left), reduced)
    log_full = np.log(np.where(gaps > 0, complexity.hardness(gaps, rho), 1.0))
    log_reduced = np.log(np.where(gaps > 0, reduced, 1.0))
    log_length = 2.0 ** (epochs - 1) * math.log(2)  # of epoch m_i − 1, √2 for m_i = 0
    largest = np.maximum(log_length - log_reduced, log_full - log_reduced / 2)
    if printed:
        brackets = 4 * largest + epochs + epochs**2
        return brackets * invert(gaps) + gaps
    brackets = 5 * largest + math.log(2) / 2 * epochs * (epochs + 1)
    return brackets * invert(gaps) + (epochs + 1) * gaps


def _when_etc_errs(n_arms: int, final: FloatArray | None = None) -> FloatArray:
    """Σ_m (1 + 12K√log(d_{m+1} log d_{m+1}))/log d_{m+1}: 38.56K + 1.44, or up to an epoch."""
    logs = 2.0 ** np.arange(1, 201) * math.log(2)
    sums = np.cumsum((1 + 12 * n_arms * np.sqrt(logs + np.log(logs))) / logs)
    if final is None:
        return np.asarray(sums[-1])
    return np.concatenate([[0.0], sums])[final.astype(np.int64)]


@bound("active", arrivals="any", paid=True)
def paid_looks(
    gaps: ArrayLike,
    rate: ArrayLike,
    horizon: ArrayLike,
    *,
    form: str = "leading",
    details: bool = False,
) -> Result:
    r"""The size of the regret if each look costs what a pull costs (conclusion of the paper).

    .. math:: \sum_{\Delta_i>0}\frac{\log_+(\epsilon T\Delta_i^2)+\log(1/\epsilon)}{\Delta_i}

    An order of magnitude, ``form="leading"`` and no other: constants and log log terms are
    dropped. It is :math:`\sum\log(T\Delta_i^2)/\Delta_i` as long as every εTΔ_i² ≥ 1, and more
    otherwise (D35). Infinite at rate 0.
    """
    gaps, rate = check_gaps(gaps), check_rate(rate)
    horizon = check_horizon(horizon, rate=rate)
    check_choice("form", form, "leading")
    with np.errstate(divide="ignore"):
        looks = np.log(rate)[..., None]
        looked = np.maximum(looks + np.log(horizon)[..., None] + 2 * np.log(gaps), 0.0)
    terms = multiply(invert(gaps), looked - looks)
    return make_result(terms.sum(axis=-1), terms, None, details)


@bound(arrivals="any")
def ftl_robin(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: Weights = None,
    horizon: ArrayLike | None = None,
    *,
    sd: float = 1.0,
    details: bool = False,
) -> Result:
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

    Parameters
    ----------
    weights
        p, one per arm, of sum at most 1, or a name; looks in turn if not given.
    """
    gaps, rate = check_gaps(gaps), check_rate(rate)
    last = None if horizon is None else check_horizon(horizon, rate=rate)
    rate = rate[..., None]
    positive = gaps > 0
    y = np.where(positive, (gaps / check_scale("sd", sd)) ** 2 / 8, math.inf)
    with np.errstate(over="ignore"):  # at rates near the smallest float all of it may overflow
        if weights is None:
            certain = np.floor(math.log(2) / y)  # terms of the sum that are 1
            errors = certain + 2 * np.exp(-(certain + 1) * y) / -np.expm1(-y)
            stages = _per(errors, rate / gaps.size)
        else:
            weights = check_weights(weights, gaps)
            errors = np.exp(-y) / -np.expm1(-y)
            stages = _per(errors, rate * weights[~positive].max()) + _per(errors, rate * weights)
        terms = np.where(positive, gaps * (1 + np.where(positive, stages, 0.0)), 0.0)
        return at_most_trivial(terms, gaps, last, details)


def _per(errors: FloatArray, rate: FloatArray) -> FloatArray:
    """The stages that errors last, each until a look comes; for ever if none does."""
    return np.asarray(np.where(rate > 0, errors / np.where(rate > 0, rate, 1.0), math.inf))
