r"""Concentration inequalities: maxima of averages, binary tails, detection of changes, Lambert's W.

Throughout, `t` is a number of observations, Z̄_t is the average of the first t terms of a
σ²-sub-Gaussian martingale difference sequence, and `sd` is σ. A vacuous bound on a probability is 1.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import erfcx, gammaln, kl_div, lambertw
from scipy.stats import norm

from kibitz._validation import flag, invalid, whole
from kibitz.bounds._bound import document_parameters, to_scalar
from kibitz.bounds._checks import (
    MAX_VALUE,
    FloatArray,
    check_array,
    check_choice,
    check_horizon,
    check_nonnegative,
    check_one,
    check_scale,
    check_shapes,
)

__all__ = [
    "binary_tail", "binary_tail_variance", "block_radius", "chung_lu_tail", "lambert_bounds",
    "lambert_lower_branch_bounds", "log_ratio_inverse", "maximal", "maximal_radius", "phi",
    "sample_ratio_evidence", "sample_ratio_p_value", "scan_delay", "scan_false_alarms",
    "scan_threshold", "seen_floor", "stage_ratio_inverse",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_RATIOS = 1.0 + np.geomspace(0.02, 10.0, 60)  # block ratios γ to try; the bound uses the best γ
_N_BLOCKS = 128
_MAX_SUMMED = 64  # the number of terms of `scan_false_alarms` that are added one by one
_MAX_LEVEL = 50  # windows of `scan_delay` have at most 4·2⁵⁰ observations
_MEAN_DELAY = 1.2  # the mean delay of an alarm in units of w*, measured for `scan_delay`


@document_parameters
def phi(x: ArrayLike) -> float | FloatArray:
    r"""Return the factor :math:`\phi(x)=(1+\sqrt x)^2/(4\sqrt x)` of the block inequality.

    For x ≥ 1, :math:`1-(x-1)^2/16\le 1/\phi(x)\le 1`.

    Parameters
    ----------
    x
        The ratio T_2/T_1 ≥ 1, finite; a number or an array.
    """
    roots = np.sqrt(check_array("x", x, "finite and ≥ 1", lambda x: (x >= 1) & np.isfinite(x)))
    return to_scalar((1 + roots) ** 2 / (4 * roots))


@document_parameters
def block_radius(
    t: ArrayLike, start: float, stop: float, delta: ArrayLike, sd: float = 1.0
) -> float | FloatArray:
    r"""Return a confidence radius for the averages Z̄_t with T_1 ≤ t ≤ T_2.

    Z̄_t is the average of t centred observations. With probability at least 1 − δ, none of these
    averages exceeds its radius

    .. math:: \sqrt{(2\sigma^2/t)\,\phi(T_2/T_1)\log(1/\delta)} .

    This is the block inequality, and φ is :func:`phi`. The parameter β of its proof is φ log(1/δ);
    the paper prints β with a spurious factor 1/4 (D24).

    Parameters
    ----------
    t
        The number of observations, from T_1 to T_2 and at least 1; a number or an array.
    start
        The first time T_1 of the block.
    stop
        The last time T_2 ≥ T_1 of the block.
    """
    n_observed, delta, sd = _check_count("t", t), _check_delta(delta), check_scale("sd", sd)
    start, stop = check_scale("start", start), check_scale("stop", stop)
    if not (start <= stop and ((n_observed >= start) & (n_observed <= stop)).all()):
        raise invalid("t", f"between start={start!r} and stop={stop!r}", t)
    check_shapes(t=n_observed, delta=delta)
    return to_scalar(sd * np.sqrt(2 / n_observed * phi(stop / start) * -np.log(delta)))


@document_parameters
def maximal_radius(
    t: ArrayLike, horizon: ArrayLike, delta: ArrayLike, sd: float = 1.0
) -> float | FloatArray:
    r"""Return the radius of the maximal inequality, :math:`\sqrt{(2\sigma^2/t)\log(T/(\delta t))}`.

    Parameters
    ----------
    t
        The number of observations, at least 1; a number or an array.
    horizon
        The horizon T ≥ t; a number or an array.
    """
    n_observed, delta, sd = _check_count("t", t), _check_delta(delta), check_scale("sd", sd)
    horizons = _check_horizon(horizon)
    check_shapes(t=n_observed, horizon=horizons, delta=delta)
    if not (n_observed <= horizons).all():
        raise invalid("t", "at most the horizon", t)
    return to_scalar(sd * np.sqrt(2 / n_observed * (np.log(horizons / n_observed) - np.log(delta))))


@document_parameters
def maximal(
    delta: ArrayLike, horizon: ArrayLike = math.inf, *, form: str = "proved"
) -> float | FloatArray:
    r"""Return a bound on P(∃t ≤ T: Z̄_t ≥ :func:`maximal_radius`), the maximal inequality.

    Z̄_t is the average of t centred observations. The bound is at most 1. The printed form is 1 for
    δ > 0.2, where Lemma 4 does not apply.

    Parameters
    ----------
    horizon
        The horizon T. With the default, the bound holds for all T. Only the proved form is smaller
        for a finite T.
    form
        ``"proved"`` uses peeling on the blocks :math:`[\gamma^{-k-1}T,\gamma^{-k}T]`. On each block
        the boundary of the sum tZ̄_t is concave and lies above its chord a + bt. A martingale crosses
        the chord with probability at most :math:`e^{-2ab/\sigma^2}`. The bound uses the best γ of a
        grid. ``"printed"`` is Lemma 4, :math:`6\delta\sqrt{\log(1/\delta)}` for δ ≤ 0.2, which is
        correct and below 1 for δ < 0.1128. ``"leading"`` is
        :math:`\sqrt{e/8}\,\delta\sqrt{\log(1/\delta)}`, the printed limit for δ → 0. The limit is
        informative only uniformly in T: for fixed T, the ratio of the probability to this limit
        tends to 0 (D46).
    """
    check_choice("form", form, "proved", "printed", "leading")
    delta, horizon = _check_delta(delta), _check_horizon(horizon)
    check_shapes(delta=delta, horizon=horizon)
    delta, horizon = np.broadcast_arrays(delta, horizon)
    scaled_delta = delta * np.sqrt(-np.log(delta))
    if form == "leading":
        return to_scalar(math.sqrt(math.e / 8) * scaled_delta)
    printed_bound = np.where(delta <= 0.2, np.minimum(6 * scaled_delta, 1.0), 1.0)
    if form == "printed":
        return to_scalar(printed_bound)
    # cutting the last block at t = 1 usually gives a smaller bound, but not always
    delta_horizon_pairs = zip(delta.flat, horizon.flat, strict=True)
    peeled_bound = np.array([min(_peel(d, t), _peel(d, math.inf)) for d, t in delta_horizon_pairs])
    return to_scalar(np.minimum(printed_bound, peeled_bound.reshape(delta.shape)))


def _peel(delta: float, horizon: float) -> float:
    """Return the peeling bound of :func:`maximal`, computed in units in which T = 1 and σ = 1."""
    stops, first_time = _RATIOS[:, None] ** -np.arange(_N_BLOCKS), 1 / horizon
    starts = np.maximum(stops / _RATIOS[:, None], first_time)
    low_boundary, high_boundary = _boundary(starts, delta), _boundary(stops, delta)
    is_single_time = stops <= first_time * (1 + 1e-12)  # blocks with only t = 1, or with no t at all
    slopes = (high_boundary - low_boundary) / np.where(is_single_time, 1.0, stops - starts)
    # a chord that does not increase gives only the bound 1
    exponents = np.where(slopes > 0, 2 * (low_boundary - slopes * starts) * slopes, 0.0)
    exponents = np.where(is_single_time, -math.log(delta) - np.log(stops), exponents)
    crossing_probability = np.where(stops >= first_time * (1 - 1e-12), np.exp(-exponents), 0.0).sum(
        axis=1
    )
    # the block inequality and a geometric series bound the times before the last block
    powers, first_stop = 1 / np.asarray(phi(_RATIOS)), _RATIOS**-_N_BLOCKS
    tail_probability = np.exp(powers * (math.log(delta) + np.log(first_stop))) / (
        1 - _RATIOS**-powers
    )
    return float(
        min(
            1.0,
            (crossing_probability + np.where(first_stop >= first_time, tail_probability, 0.0)).min(),
        )
    )


def _boundary(t: FloatArray, delta: float) -> FloatArray:
    """Return the boundary of the sum tZ̄_t of :func:`maximal`, for T = 1 and σ = 1."""
    return np.asarray(np.sqrt(2 * t * (-math.log(delta) - np.log(t))))


@document_parameters
def binary_tail(
    n: ArrayLike, p: ArrayLike, deviation: ArrayLike, *, form: str = "proved"
) -> float | FloatArray:
    r"""Return a bound on P(S_n ≤ np − nα) for the sum S_n of n independent binary variables.

    The variables have average mean p. This is Lemma 7 (appendix B.1.2). ``"proved"`` is
    :math:`e^{-n\,kl(p-\alpha,p)}`, and 0 for α > p. kl(a, b) is the divergence of Bernoulli
    distributions with means a and b. ``"printed"`` has kl(p+α, p) instead of kl(p−α, p), and is false
    for p > 1/2 (D18).

    Parameters
    ----------
    p
        The average mean, in [0, 1]; a number or an array.
    """
    check_choice("form", form, "proved", "printed")
    n, p, alpha = _check_binary(n, p, deviation)
    level = p + alpha if form == "printed" else p - alpha
    is_impossible = np.abs(level - 0.5) > 0.5 + 1e-12  # 1e-12 allows for rounding errors of p ± α
    with np.errstate(over="ignore"):
        exponent = n * _kl(np.clip(level, 0.0, 1.0), p)
    return to_scalar(np.where(is_impossible, 0.0, np.exp(-exponent)))


@document_parameters
def binary_tail_variance(n: ArrayLike, p: ArrayLike, deviation: ArrayLike) -> float | FloatArray:
    r"""Return Okamoto's bound on the same probability as :func:`binary_tail`, for p ≤ 1/2.

    .. math:: \exp(-n\alpha^2/(2p(1-p)))

    Parameters
    ----------
    p
        The average mean, in (0, 1/2]; a number or an array.
    """
    check_array("p", p, "in (0, 1/2]", lambda x: (x > 0) & (x <= 0.5))
    n, p, alpha = _check_binary(n, p, deviation)
    # computed with logarithms, because α² and α²/p may overflow
    with np.errstate(divide="ignore", over="ignore"):
        exponent = np.exp(np.log(n) + 2 * np.log(alpha) - np.log(2 * p * (1 - p)))
    return to_scalar(np.exp(-exponent))


@document_parameters
def chung_lu_tail(
    deviation: float, variance: float, excesses: ArrayLike, u: int | None = None
) -> float:
    r"""Return Chung and Lu's bound on P(X ≥ EX + α) for a sum X of independent X_s ≤ E X_s + M_s.

    .. math:: \exp\Big(-\frac{\alpha^2}{2(Var X+\sum_{v\ge u}(M_v-M_u)^2+M_u\alpha/3)}\Big)

    Here M_1 ≤ … ≤ M_t are the limits in increasing order. The bound is valid for each u from 1 to t.
    This is Lemma 8, which prints M_i instead of M_s (D37).

    Parameters
    ----------
    deviation
        The deviation α > 0.
    variance
        The variance of the sum X, at least 0.
    excesses
        The limits M_s ≥ 0, in any order.
    u
        The rank u of M_u in increasing order, starting at 1; the default is the u with the smallest
        bound.
    """
    alpha, variance = check_scale("deviation", deviation), check_nonnegative("variance", variance)
    condition = "a list of numbers from 0 to 1e50"
    excesses = check_array("excesses", excesses, condition, lambda x: (x >= 0) & (x <= MAX_VALUE))
    if excesses.ndim != 1:
        raise invalid("excesses", condition, excesses)
    sorted_excesses = np.sort(excesses)
    if u is not None:
        u = whole(u, "u", 1, sorted_excesses.size)
    squared_excesses = np.array(
        [((sorted_excesses[v:] - sorted_excesses[v]) ** 2).sum() for v in range(sorted_excesses.size)]
    )
    scales = 2 * (variance + squared_excesses + sorted_excesses * alpha / 3)
    smallest_scale = float(scales.min() if u is None else scales[u - 1])
    return math.exp(-alpha * (alpha / smallest_scale)) if smallest_scale > 0 else 0.0


@document_parameters
def seen_floor(expected: ArrayLike, stage: ArrayLike) -> FloatArray:
    r"""Return a high-probability lower bound on the number of looks at an arm.

    .. math:: [\Phi-\sqrt{5\Phi\log t}]_+

    Let F be the number of looks and Φ = E F. If arrivals are independent, F is below this bound with
    probability at most :math:`t^{-5/2}`, by Chernoff's bound :math:`P(F\le\Phi-\alpha)\le
    e^{-\alpha^2/(2\Phi)}`. Lemma 9 has Φ = pt and states the probability t⁻². The paper omits the
    positive part [·]_+, without which its Theorem 3 does not follow (D20).

    Parameters
    ----------
    expected
        The expected number Φ ≥ 0 of looks; a number or an array.
    stage
        The stage t ≥ 1; a number or an array.
    """
    expected = check_array(
        "expected", expected, "finite and ≥ 0", lambda x: (x >= 0) & np.isfinite(x)
    )
    stage = check_array("stage", stage, "finite and ≥ 1", lambda x: (x >= 1) & np.isfinite(x))
    check_shapes(expected=expected, stage=stage)
    fluctuation = np.sqrt(expected) * np.sqrt(5 * np.log(stage))
    return np.asarray(np.maximum(expected - fluctuation, 0.0))


@document_parameters
def sample_ratio_p_value(counts: ArrayLike, shares: ArrayLike | None = None) -> float:
    r"""Return an anytime-valid p-value of the hypothesis that visitors were assigned at random.

    The p-value is min(1, 1/E), where log E is the result of :func:`sample_ratio_evidence`. Under the
    hypothesis, the probability that the p-value is ever α or smaller is at most α.

    Parameters
    ----------
    counts
        The number n_i of visitors of each arm; at least two arms.
    shares
        The intended shares θ_i, which are positive and sum to 1. Default: an even split.
    """
    return float(np.exp(min(0.0, -sample_ratio_evidence(counts, shares))))


@document_parameters
def sample_ratio_evidence(counts: ArrayLike, shares: ArrayLike | None = None) -> float:
    r"""Return log E, the evidence against the hypothesis that visitors were assigned at random.

    Under the hypothesis, each visitor is independently assigned to arm i with probability
    :math:`\theta_i`. The likelihood ratio of a uniform (Dirichlet) mixture of all shares,

    .. math:: E = \frac{\Gamma(K) \prod_i \Gamma(1 + n_i)}{\Gamma(K + n) \prod_i \theta_i^{n_i}},

    is then a martingale with mean 1. By Ville's inequality, the probability that 1/E is ever α or
    smaller is at most α (Lindon and Malek, 2022). A large E indicates a sample-ratio mismatch: the
    randomisation or the tracking is broken. If the set of arms changes, compute log E for each set
    and add the results; the product of the E is again a martingale.

    Parameters
    ----------
    counts
        The number n_i of visitors of each arm; at least two arms.
    shares
        The intended shares θ_i, which are positive and sum to 1. Default: an even split.
    """
    n = check_array("counts", counts, "finite and ≥ 0", lambda x: (x >= 0) & np.isfinite(x))
    if n.ndim != 1 or n.size < 2:
        raise invalid("counts", "a list of at least 2 numbers, one per arm", counts)
    theta = np.full(n.size, 1 / n.size)
    if shares is not None:
        theta = check_array("shares", shares, "positive and at most 1", lambda x: (x > 0) & (x <= 1))
        if theta.shape != n.shape or abs(theta.sum() - 1) > 1e-9:
            raise invalid("shares", f"a list of {n.size} numbers that sum to 1", shares)
    total = n.sum()
    log_mixture = gammaln(n.size) + gammaln(1 + n).sum() - gammaln(n.size + total)
    return float(log_mixture - (n * np.log(theta)).sum())


@document_parameters
def scan_false_alarms(
    n: ArrayLike, threshold: ArrayLike, *, gaussian: bool = True
) -> float | FloatArray:
    r"""Return a bound on the probability that a block scan raises a false alarm.

    The scan reads the observations of one arm, whose mean is constant. After n observations, it
    compares the mean of the last w observations with the mean of the s = n − w observations before
    them, for :math:`w=q2^j` with q = 3, 4 and every j such that :math:`2^j` divides n, and for
    w = 1, 2. Let D be the difference of the two means. The scan raises an alarm if

    .. math:: \frac{sw}{s+w}\,\frac{D^2}2 > c + \log\frac{s+w}w .

    The bound on P(alarm within the first n observations) is the sum of the probabilities that the
    single tests raise an alarm. With x the right-hand side, the probability of a test is
    :math:`\mathrm{erfc}\sqrt x` for Gaussian rewards and at most :math:`2e^{-x}` for sub-Gaussian
    rewards. Each test uses fixed positions in the sequence of the arm's observations, so the bound
    holds for every policy. The bound does not cover alarms after the first alarm of an arm. For
    several arms, add the bounds.

    Parameters
    ----------
    n
        The number n of observations of the arm, a whole number up to 2⁵³; a number or an array.
    threshold
        The threshold c, from 0 to 1e50; a number or an array.
    gaussian
        Whether rewards are Gaussian with variance 1. If false, the bound holds for all sub-Gaussian
        rewards of scale 1.
    """
    n_observed, gaussian = check_horizon(n, "n"), flag(gaussian, "gaussian")
    thresholds = check_array(
        "threshold", threshold, "from 0 to 1e50", lambda x: (x >= 0) & (x <= MAX_VALUE)
    )
    shape = check_shapes(n=n_observed, threshold=thresholds)
    pairs = zip(*(np.broadcast_to(x, shape).flat for x in (n_observed, thresholds)), strict=True)
    sums = [_sum_tests(int(count), c, gaussian) * math.exp(-c) for count, c in pairs]
    return to_scalar(np.minimum(np.reshape(sums, shape), 1.0))


@document_parameters
def scan_threshold(n: ArrayLike, delta: ArrayLike, *, gaussian: bool = True) -> float | FloatArray:
    r"""Return the smallest threshold c for which :func:`scan_false_alarms` is at most δ.

    For K arms, pass δ/K. The probability that any arm has a false alarm within its first n
    observations is then at most δ.

    Parameters
    ----------
    n
        The number n of observations of the arm, a whole number up to 2⁵³; a number or an array.
    gaussian
        Whether rewards are Gaussian with variance 1. If false, the threshold is for all sub-Gaussian
        rewards of scale 1.
    """
    n_observed, delta, gaussian = (
        check_horizon(n, "n"),
        _check_delta(delta),
        flag(gaussian, "gaussian"),
    )
    shape = check_shapes(n=n_observed, delta=delta)
    pairs = zip(*(np.broadcast_to(x, shape).flat for x in (n_observed, delta)), strict=True)
    return to_scalar(np.reshape([_solve_threshold(int(n), d, gaussian) for n, d in pairs], shape))


@document_parameters
def scan_delay(
    n_before: float, change: float, threshold: float, delta: float = 0.05, *, form: str = "proved"
) -> float:
    r"""Return how many observations of an arm a block scan needs to detect a change in its mean.

    The arm was observed :math:`n_0` times before the change. :func:`scan_false_alarms` describes the
    scan. The result is infinite if the scan does not detect the change.

    Parameters
    ----------
    n_before
        The number :math:`n_0` of observations before the change, from 0 to 1e50.
    change
        The size d of the change, in units of the scale of the rewards.
    threshold
        The threshold c, from 0 to 1e50.
    delta
        The probability δ that the scan needs more observations; only for the proved form.
    form
        ``"proved"`` is a number of observations within which the scan raises an alarm with
        probability at least 1 − δ. This holds for Gaussian rewards and a change at any time, if there
        was no false alarm before the change. The number is the smallest :math:`w+2^j-1` over the
        windows :math:`w=q2^j` of the scan with

        .. math:: d\,n_0\sqrt{\frac w{(n_0+x)(n_0+x+w)}} \ge
                  \sqrt{2c+2\log\frac{n_0+x+w}w} + z_\delta, \qquad x=2^j-1 .

        Here :math:`z_\delta` is the quantile of the normal distribution. Up to x observations after
        the change count as observations before the window, because a window ends at a multiple of
        :math:`2^j`. ``"leading"`` is an approximation of the mean, :math:`1.2\,w^*`, where
        :math:`w^*\approx(2/d^2)(c+\log(n_0/w^*))` is the solution of

        .. math:: \frac{n_0w}{n_0+w}\,\frac{d^2}2 = c+\log\frac{n_0+w}w .
    """
    check_choice("form", form, "proved", "leading")
    n_before, change = check_nonnegative("n_before", n_before), check_scale("change", change)
    threshold = check_nonnegative("threshold", threshold)
    quantile = float(norm.isf(check_one("delta", _check_delta(delta))))
    if n_before < 1:  # there is nothing to compare with
        return math.inf
    if form == "leading":
        return max(1.0, _MEAN_DELAY * _solve_window(n_before, change, threshold))
    steps = 2.0 ** np.arange(_MAX_LEVEL + 1)
    windows = np.concatenate(([1.0, 2.0], 3 * steps, 4 * steps))
    n_late = np.concatenate(([0.0, 0.0], steps - 1, steps - 1))
    n_older = n_before + n_late  # observations before the window
    signal = change * (n_before / n_older) * np.sqrt(windows / (1 + windows / n_older))
    limits = np.sqrt(2 * (threshold + np.log1p(n_older / windows))) + quantile
    return float(np.where(signal >= limits, windows + n_late, np.inf).min())


def _sum_tests(n: int, threshold: float, gaussian: bool) -> float:
    """Return e^c times the bound of :func:`scan_false_alarms`, where c is `threshold`.

    The bound itself may underflow. The probability of an alarm in a test of the last q·2^j of k·2^j
    observations depends on k and q only. This probability is convex in k, so an integral over k
    is an upper bound on the sum over large k.
    """
    total = 0.0
    for level in range(n.bit_length()):
        last_k = n >> level
        for q in (3, 4) if level else (1, 2, 3, 4):
            last_summed = min(last_k, _MAX_SUMMED)
            k = np.arange(q + 1, last_summed + 1)
            x = threshold + np.log(k / q)
            total += float((q / k * (erfcx(np.sqrt(x)) if gaussian else 2.0)).sum())
            if last_k > last_summed:
                ends = np.log(np.array([last_summed + 0.5, last_k + 0.5]) / q)
                if gaussian:
                    roots = np.sqrt(threshold + ends)
                    # the difference of two square roots, without cancellation
                    difference = (ends[1] - ends[0]) / roots.sum()
                    integral = np.diff(erfcx(roots))[0] + 2 / math.sqrt(math.pi) * difference
                else:
                    integral = 2 * (ends[1] - ends[0])
                total += q * float(integral)
    return total


def _solve_threshold(n: int, delta: float, gaussian: bool) -> float:
    """Return the smallest c ≥ 0 at which the bound of :func:`scan_false_alarms` is at most δ."""

    def excess(threshold: float) -> float:
        return math.log(_sum_tests(n, threshold, gaussian)) - threshold - math.log(delta)

    if n < 2 or excess(0.0) <= 0:
        return 0.0
    # e^c times the bound decreases in c, so the threshold is at most the excess at 0
    highest = excess(0.0) + 1e-9
    threshold = brentq(excess, 0.0, highest, xtol=1e-12)
    return float(threshold + 1e-11)  # the bound at the result is at most δ despite rounding errors


def _solve_window(n_before: float, change: float, threshold: float) -> float:
    """Return w* of :func:`scan_delay`; infinity if the equation for w* has no solution."""
    information = n_before * change * (change / 2)
    if not threshold < information:
        return math.inf

    def excess(log_ratio: float) -> float:
        """Return the left side minus the right side of the equation, where w = n_0·exp(log_ratio)."""
        share = 1 / (1 + math.exp(-log_ratio))  # w/(n_0 + w)
        return information * share - threshold + math.log(share)

    low = math.log(1e-300)
    high = 700.0
    if excess(high) <= 0:
        return math.inf
    return float(n_before * math.exp(brentq(excess, low, high, xtol=1e-13)))


@document_parameters
def lambert_bounds(x: ArrayLike) -> tuple[float | FloatArray, float | FloatArray]:
    r"""Return a lower and an upper bound on Lambert's W(x) for x ≥ e (Hoorfar and Hassani).

    The lower bound is log x − loglog x + (1/2) loglog x/log x. The upper bound has the factor
    e/(e−1) instead of 1/2.

    Parameters
    ----------
    x
        A finite number ≥ e; a number or an array.
    """
    log_x = np.log(_check_at_least_e("x", x))
    loglog_x = np.log(log_x)
    main_term, correction = log_x - loglog_x, loglog_x / log_x
    return to_scalar(main_term + correction / 2), to_scalar(
        main_term + math.e / (math.e - 1) * correction
    )


@document_parameters
def lambert_lower_branch_bounds(u: ArrayLike) -> tuple[float | FloatArray, float | FloatArray]:
    r"""Return a lower and an upper bound on :math:`W_{-1}(-e^{-u-1})` for u > 0 (Chatzigeorgiou).

    .. math:: -1-\sqrt{2u}-u < W_{-1}(-e^{-u-1}) < -1-\sqrt{2u}-2u/3

    Parameters
    ----------
    u
        A positive finite number; a number or an array.
    """
    u_values = _check_positive("u", u)
    root = math.sqrt(2) * np.sqrt(u_values)
    with np.errstate(over="ignore"):
        return to_scalar(-1 - root - u_values), to_scalar(-1 - root - u_values / 1.5)


@document_parameters
def log_ratio_inverse(a: ArrayLike) -> float | FloatArray:
    r"""Return the largest x in (0, 1) with :math:`(1/x)\log(1/x)\ge a`, which is W(a)/a.

    Parameters
    ----------
    a
        A positive finite number; a number or an array.
    """
    return to_scalar(np.exp(-lambertw(_check_positive("a", a)).real))


@document_parameters
def stage_ratio_inverse(a: ArrayLike, *, form: str = "proved") -> float | FloatArray:
    r"""Return the largest t with t/log t ≤ a, which is :math:`-aW_{-1}(-1/a)`.

    ``"printed"`` is the paper's upper bound on this t, (5/2) a log a, which is correct.

    Parameters
    ----------
    a
        A finite number ≥ e; a number or an array.
    """
    check_choice("form", form, "proved", "printed")
    a_values = _check_at_least_e("a", a)
    if form == "printed":
        with np.errstate(over="ignore"):
            return to_scalar(2.5 * a_values * np.log(a_values))
    log_a = np.log(a_values)
    excess = np.maximum(log_a - 1, 0.0)
    y = (
        1 + np.sqrt(2 * excess) + excess
    )  # an upper bound on y = log t, which solves y − log y = log a
    for _ in range(20):  # by convexity, Newton's method stays above the root
        slope = 1 - 1 / y
        y = y - np.divide(y - np.log(y) - log_a, slope, out=np.zeros_like(y), where=slope > 0)
        y = np.maximum(y, 1.0)
    with np.errstate(over="ignore"):
        return to_scalar(a_values * y)


def _kl(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return kl(a, b), the divergence of two Bernoulli distributions.

    The result is infinite where b is 0 or 1 and a differs from b.
    """
    divergence: FloatArray = kl_div(a, b) + kl_div(1 - a, 1 - b)
    return divergence


def _check_binary(
    n: ArrayLike, p: ArrayLike, deviation: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    n = _check_count("n", n)
    p = check_array("p", p, "in [0, 1]", lambda x: (x >= 0) & (x <= 1))
    alpha = check_array("deviation", deviation, "≥ 0", lambda x: x >= 0)
    check_shapes(n=n, p=p, deviation=alpha)
    return n, p, alpha


def _check_count(name: str, value: ArrayLike) -> FloatArray:
    return check_array(name, value, "finite and ≥ 1", lambda x: (x >= 1) & np.isfinite(x))


def _check_horizon(horizon: ArrayLike) -> FloatArray:
    return check_array("horizon", horizon, "≥ 1", lambda x: x >= 1)


def _check_delta(delta: ArrayLike) -> FloatArray:
    return check_array("delta", delta, "in (0, 1)", lambda x: (x > 0) & (x < 1))


def _check_positive(name: str, value: ArrayLike) -> FloatArray:
    return check_array(name, value, "positive and finite", lambda x: (x > 0) & np.isfinite(x))


def _check_at_least_e(name: str, value: ArrayLike) -> FloatArray:
    return check_array(name, value, "finite and ≥ e", lambda x: (x >= math.e) & np.isfinite(x))
