r"""Upper bounds for active observers: FTL-robin, OCUCB-n, ETC, and ETC-OCUCB (Theorem 4).

FTL-robin pulls the arm with the largest average of all observations and looks at the arms in turn.

The bounds of OCUCB-n and ETC-OCUCB have a constant C_η whose value is unknown. C_η is an argument
without a default. No number from these two bounds is certified (the theory is from Lattimore 2016; we
did not verify it).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kibitz.bounds import complexity, concentration
from kibitz.bounds._bound import Result, bound, document_parameters, invert, make_result, multiply
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
from kibitz.bounds.upper._trivial import limit_by_trivial


class Elimination(NamedTuple):
    """The rounds at which ETC eliminates each arm if all averages stay within their radii.

    Arms are on the last axis.
    """

    first: FloatArray  # the earliest round at which the arm is eliminated; infinite if optimal
    last: FloatArray  # the latest round at which the arm is eliminated; infinite if optimal
    observations: FloatArray  # observations of all arms until the arm and worse arms are eliminated
    probability: FloatArray  # a lower bound on P(all averages stay within their radii until `last`)


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
    r"""Return OCUCB-n's bound for an epoch of d = `horizon` stages (Lemma 10; Lattimore).

    .. math:: C_\eta\sum_{\Delta_i>0}\Big[\frac{\log\max\{d\Delta_i^2/k_{i,\rho},1\}
              +(\log\log d)_+}{\Delta_i}+\Delta_i\Big]

    Here :math:`k_{i,\rho}` is :func:`kibitz.bounds.complexity.effective_arms`. ``"lemma"`` is this
    formula. ``"proved"`` is the same formula, limited by :func:`~kibitz.bounds.upper.trivial`.
    ``"printed"`` does not clip log log d, which is negative for d = 2 and −∞ for d = 1. The proof of
    the active algorithm needs a bound that does not decrease when arms are added. The printed bound
    can decrease; the clipped bound does not decrease if the gaps are at most 1 (D41). ``"leading"``
    omits log log d and Δ_i.

    Parameters
    ----------
    horizon
        The length d of the epoch; a number or an array.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    c_eta = check_scale("c_eta", c_eta)
    check_choice("form", form, "proved", "lemma", "printed", "leading")
    terms = _epoch_terms(gaps, np.log(horizon), complexity.hardness(gaps, rho), form)
    if form != "proved":
        return make_result(c_eta * terms.sum(axis=-1), c_eta * terms, None, details)
    return limit_by_trivial(c_eta * terms, gaps, horizon, details)


def _epoch_terms(
    gaps: FloatArray, log_length: FloatArray, hardness: FloatArray, form: str
) -> FloatArray:
    """Return the terms of :func:`ocucb` without the factor C_η.

    `log_length` is log d, and `hardness` is H_i = k_i/Δ_i², so that dΔ_i²/k_i is d/H_i.
    """
    with np.errstate(divide="ignore"):
        log_hardness, loglogs = np.log(hardness), np.log(log_length)[..., None]
    # an optimal arm has H = ∞
    terms = np.where(gaps > 0, np.maximum(log_length[..., None] - log_hardness, 0.0), 0.0)
    if form == "leading":
        return terms * invert(gaps)
    if form in {"proved", "lemma"}:
        loglogs = np.maximum(loglogs, 0.0)
    return multiply(invert(gaps), terms + loglogs) + gaps


@document_parameters
def etc_elimination(
    gaps: ArrayLike,
    log_horizon: ArrayLike,
    *,
    alpha: float = 1.0,
    variance: float = 1.0,
    form: str = "proved",
) -> Elimination:
    r"""Return when ETC with parameter α and horizon T eliminates each arm, and with what probability.

    Let c be the variance proxy of the rewards, with α ≥ c. If all averages up to round τ are within
    :math:`\sqrt{(2c/s)\log(T/s)}` of their means, ETC keeps the best arms and eliminates arm i at a
    round s with

    .. math:: \frac{L}{\Delta_i^2}W(T\Delta_i^2/L) \le s \le
              1+\frac{C}{\Delta_i^2}W(T\Delta_i^2/C), \qquad
              C = 8(\sqrt\alpha+\sqrt c)^2,\quad L = 8(\sqrt\alpha-\sqrt c)^2

    Here W is Lambert's function. ``"printed"`` has C = 8(α+c) and L = 8(α−c), which are both wrong
    (D13), and the probability :math:`1-12K(\tau/T)\sqrt{\log(T/\tau)}`. ``"proved"`` uses
    :func:`kibitz.bounds.concentration.maximal` for the upper and the lower deviations of each arm.

    Parameters
    ----------
    log_horizon
        log T, see :func:`kibitz.bounds.complexity.etc_log_horizon`; a number or an array.
    """
    gaps, log_horizon = check_gaps(gaps), check_log_horizon(log_horizon)
    upper_constant = complexity.etc_constant(alpha, variance, form)
    root_difference = math.sqrt(alpha) - math.sqrt(variance)
    lower_constant = 8 * (alpha - variance) if form == "printed" else 8 * root_difference**2
    is_optimal = gaps == 0
    max_rounds = complexity.etc_rounds(gaps, log_horizon, upper_constant)
    last_round = np.where(is_optimal, math.inf, np.floor(max_rounds) + 1)
    first_round = np.ones_like(last_round)
    if lower_constant > 0:
        first_round = np.maximum(
            1.0, np.ceil(complexity.etc_rounds(gaps, log_horizon, lower_constant))
        )
    log_last = np.log(np.where(is_optimal, 1.0, last_round))
    delta = np.exp(np.minimum(log_last - log_horizon[..., None], 0.0))
    is_nontrivial = ~is_optimal & (delta < 1)
    delta = np.clip(delta, 1e-300, 0.999)
    failure_probability = concentration.maximal(
        delta, np.where(is_optimal, 1.0, last_round), form=form
    )
    probability = np.where(
        is_nontrivial, np.maximum(1 - 2 * gaps.size * failure_probability, 0.0), 0.0
    )
    observations = complexity.etc_observations(gaps, log_horizon, upper_constant)
    return Elimination(
        np.where(is_optimal, math.inf, first_round),
        last_round,
        np.where(is_optimal, math.inf, observations),
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
    r"""Return the bound of Theorem 4 for the active algorithm ETC-OCUCB.

    .. math:: C_\eta\sum_{\Delta_i>0}\Big[\frac{1}{\Delta_i}\Big(5\log\max\Big\{
              \frac{d_{m_i-1}}{H'_i},\frac{H_{i,\rho}}{\sqrt{H'_i}}\Big\}
              +\frac{\log 2}{2}m_i(m_i+1)\Big)+(m_i+1)\Delta_i\Big]+38.56K+1.44

    Here :math:`d_m=2^{2^m}`, m_i is :func:`kibitz.bounds.complexity.last_epoch` and
    :math:`H'_i=H^{(m_i)}_{i,\rho}`. The algorithm runs OCUCB-n on the arms that ETC has not
    eliminated. The bound requires gaps ≤ 1, which holds for rewards in [0, 1], and is infinite if a
    gap exceeds 1. The last two terms bound the regret if ETC makes an error. These two terms belong
    to no arm and are not part of `terms`.

    Parameters
    ----------
    horizon
        The horizon T, which limits the number of epochs; None means no horizon.
    variance
        The variance proxy c ≤ α of the rewards: 1 in the paper, 1/4 for rewards in [0, 1].
    form
        ``"proved"`` is the formula above. ``"exact"`` is the sum over epochs that the proof bounds by
        this formula, and is never larger. ``"printed"`` is the last explicit formula of the appendix,
        with 4 instead of 5 (D25), 51K, the printed C_α (D13) and H^{(m)} (D17), and without one Δ_i
        per epoch (D36). ``"leading"`` is
        :math:`5C_\eta\sum\Delta_i^{-1}\max\{\log(1/\epsilon),\log\sqrt{H_{i,\rho}}\}`.
    """
    gaps, rate = check_gaps(gaps), check_rate(rate)
    check_choice("form", form, "proved", "exact", "printed", "leading")
    c_eta, rho = check_scale("c_eta", c_eta), check_rho(rho)
    if horizon is not None:
        horizon = check_horizon(horizon, rate=rate)
        rate, horizon = np.broadcast_arrays(rate, horizon)
    constant = complexity.etc_constant(alpha, variance, "printed" if form == "printed" else "proved")
    hardness = complexity.hardness(gaps, rho)
    if form == "leading":
        with np.errstate(divide="ignore"):
            log_factors = np.maximum(-np.log(rate)[..., None], np.log(hardness) / 2)
        terms = c_eta * multiply(5 * invert(gaps), log_factors)
        return make_result(terms.sum(axis=-1), terms, None, details)
    last_epochs = complexity.last_epoch(gaps, rate, horizon, constant)
    is_never_eliminated = np.isinf(last_epochs) & (gaps > 0)
    last_epochs = np.where(np.isinf(last_epochs), 0.0, last_epochs)
    final_epoch = None if horizon is None else complexity.final_epoch(horizon)
    if form == "exact":
        terms = _sum_epochs(gaps, rate, rho, constant, last_epochs)
        error_regret = _sum_errors(gaps.size, final_epoch)
    else:
        terms = _closed_form(gaps, rate, rho, constant, last_epochs, final_epoch, form)
        error_regret = np.asarray(51.0 * gaps.size) if form == "printed" else _sum_errors(gaps.size)
    terms = np.where(is_never_eliminated, math.inf, c_eta * terms)
    if form != "printed" and (gaps > 1).any():
        terms = np.where(gaps > 0, math.inf, terms)
    total = terms.sum(axis=-1) + gaps.any() * error_regret
    if form != "printed" and horizon is not None:
        terms = np.minimum(terms, horizon[..., None] * gaps)
        total = np.minimum(total, horizon * gaps.max())
    return make_result(total, terms, None, details)


def _sum_epochs(
    gaps: FloatArray, rate: FloatArray, rho: float, constant: float, last_epochs: FloatArray
) -> FloatArray:
    """Return the terms of the sum over epochs in `etc_ocucb`, without the factor C_η.

    Arm i takes part up to its last epoch m_i.
    """
    terms = np.zeros(last_epochs.shape)
    for m in range(int(last_epochs.max()) + 1):
        first_eliminated_rank = (
            complexity.first_eliminated(gaps, rate, m - 1, constant) if m > 0 else None
        )
        log_length = np.asarray(complexity.epoch_log_length(m))
        epoch_terms = _epoch_terms(
            gaps, log_length, complexity.hardness(gaps, rho, first_eliminated_rank), "proved"
        )
        terms = terms + np.where(m <= last_epochs, epoch_terms, 0.0)
    return terms


def _closed_form(
    gaps: FloatArray,
    rate: FloatArray,
    rho: float,
    constant: float,
    last_epochs: FloatArray,
    final_epoch: FloatArray | None,
    form: str,
) -> FloatArray:
    """Return the closed form of :func:`_sum_epochs`, with factor 5; the printed form has factor 4."""
    is_printed = form == "printed"
    reduced_hardness = complexity.hardness(
        gaps, rho, 0
    )  # H' = i/Δ² of an arm that has been eliminated
    if final_epoch is not None:  # arms that are not eliminated before the horizon
        first_eliminated_rank = (
            complexity.first_eliminated(gaps, rate, final_epoch, constant) + is_printed
        )
        reaches_horizon = last_epochs == final_epoch[..., None]
        reduced_hardness = np.where(
            reaches_horizon, complexity.hardness(gaps, rho, first_eliminated_rank), reduced_hardness
        )
    log_full = np.log(np.where(gaps > 0, complexity.hardness(gaps, rho), 1.0))
    log_reduced = np.log(np.where(gaps > 0, reduced_hardness, 1.0))
    log_length = 2.0 ** (last_epochs - 1) * math.log(2)  # log d of epoch m_i − 1; d is √2 for m_i = 0
    larger_log = np.maximum(log_length - log_reduced, log_full - log_reduced / 2)
    if is_printed:
        brackets = 4 * larger_log + last_epochs + last_epochs**2
        return brackets * invert(gaps) + gaps
    brackets = 5 * larger_log + math.log(2) / 2 * last_epochs * (last_epochs + 1)
    return brackets * invert(gaps) + (last_epochs + 1) * gaps


def _sum_errors(n_arms: int, final_epoch: FloatArray | None = None) -> FloatArray:
    """Return Σ_m (1 + 12K√log(d_{m+1} log d_{m+1}))/log d_{m+1}, the regret if ETC makes an error.

    The sum is over the epochs before `final_epoch`, or over all epochs, which gives 38.56K + 1.44.
    """
    log_lengths = 2.0 ** np.arange(1, 201) * math.log(2)
    sums = np.cumsum((1 + 12 * n_arms * np.sqrt(log_lengths + np.log(log_lengths))) / log_lengths)
    if final_epoch is None:
        return np.asarray(sums[-1])
    return np.concatenate([[0.0], sums])[final_epoch.astype(np.int64)]


@bound("active", arrivals="any", paid=True)
def paid_looks(
    gaps: ArrayLike,
    rate: ArrayLike,
    horizon: ArrayLike,
    *,
    form: str = "leading",
    details: bool = False,
) -> Result:
    r"""Return the order of the regret if a look costs as much as a pull (conclusion of the paper).

    .. math:: \sum_{\Delta_i>0}\frac{\log_+(\epsilon T\Delta_i^2)+\log(1/\epsilon)}{\Delta_i}

    The result is an order of magnitude without constants and log log terms; the only form is
    ``"leading"``. The result equals :math:`\sum\log(T\Delta_i^2)/\Delta_i` if every εTΔ_i² ≥ 1, and
    is larger if some εTΔ_i² < 1 (D35). The result is infinite at rate 0.
    """
    gaps, rate = check_gaps(gaps), check_rate(rate)
    horizon = check_horizon(horizon, rate=rate)
    check_choice("form", form, "leading")
    with np.errstate(divide="ignore"):
        log_rate = np.log(rate)[..., None]
        log_looks = np.maximum(log_rate + np.log(horizon)[..., None] + 2 * np.log(gaps), 0.0)
    terms = multiply(invert(gaps), log_looks - log_rate)
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
    r"""Return FTL-robin's bound, uniform in T (Lemma 1, whose proof the paper omits).

    FTL-robin pulls arm i only while the average of arm i or of the best arm deviates from its mean by
    at least Δ_i/2. The probability of such a deviation of an average at any time after n observations
    is at most :math:`e^{-ny_i}` with :math:`y_i=\Delta_i^2/(8\sigma^2)`. Every arm gets one more look
    in a period of K/ε stages (the paper prints 1/ε, D22). For looks in turn (`weights=None`) the
    bound is

    .. math:: \sum_{\Delta_i>0}\Delta_i\Big[1+\frac K\epsilon\sum_{n\ge1}\min(1,2e^{-ny_i})\Big]

    for periodic and for random arrivals. For two arms and Δ ≤ 1 this bound is at most 27.2/(εΔ). With
    `weights`, for a passive observer, the bound is

    .. math:: \sum_{\Delta_i>0}\Delta_i\Big[1+\Big(\frac1{\epsilon p_1}+\frac1{\epsilon p_i}\Big)
              \frac{1}{e^{y_i}-1}\Big]

    where p_1 is the largest weight of an optimal arm. The bound is infinite if p_1 or p_i is 0.

    Parameters
    ----------
    weights
        The weights p, one per arm, with sum at most 1, or the name of weights; None means that the
        looks go to the arms in turn.
    """
    gaps, rate = check_gaps(gaps), check_rate(rate)
    horizons = None if horizon is None else check_horizon(horizon, rate=rate)
    rate = rate[..., None]
    is_suboptimal = gaps > 0
    y = np.where(is_suboptimal, (gaps / check_scale("sd", sd)) ** 2 / 8, math.inf)
    with np.errstate(over="ignore"):  # division by a rate near the smallest float may overflow
        if weights is None:
            n_certain = np.floor(math.log(2) / y)  # the number of terms of the sum that are 1
            n_errors = n_certain + 2 * np.exp(-(n_certain + 1) * y) / -np.expm1(-y)
            stages = _count_stages(n_errors, rate / gaps.size)
        else:
            weights = check_weights(weights, gaps)
            n_errors = np.exp(-y) / -np.expm1(-y)
            stages = _count_stages(n_errors, rate * weights[~is_suboptimal].max()) + _count_stages(
                n_errors, rate * weights
            )
        terms = np.where(is_suboptimal, gaps * (1 + np.where(is_suboptimal, stages, 0.0)), 0.0)
        return limit_by_trivial(terms, gaps, horizons, details)


def _count_stages(n_errors: FloatArray, rate: FloatArray) -> FloatArray:
    """Return the expected number of stages with an error, if each error lasts until a look arrives.

    `n_errors` is the expected number of errors, and looks arrive at `rate`.
    """
    return np.asarray(np.where(rate > 0, n_errors / np.where(rate > 0, rate, 1.0), math.inf))
