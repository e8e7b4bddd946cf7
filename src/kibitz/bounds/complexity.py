r"""How hard a problem is: gaps, C_Δ, the H's, epochs, thresholds, weights.

Everything here is a function of the gaps Δ and a few parameters; nothing is a bound on regret.
Arms keep the caller's order. A *rank* is the place of an arm when sorted by gap, from 1, the
optimal arms first; arms of equal gap share every value here but :math:`H^{(m)}` (D17).

Epoch lengths and the horizons of Explore-Then-Commit (ETC) grow doubly exponentially, so they
are given by their logarithms.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import wrightomega

from kibitz._validation import invalid, number, numbers, positive, whole
from kibitz.bounds._bound import documented, invert, to_scalar
from kibitz.bounds._checks import (
    FloatArray,
    Weights,
    check_alpha,
    check_any_gaps,
    check_array,
    check_choice,
    check_gaps,
    check_horizon,
    check_log_horizon,
    check_rate,
    check_rho,
    check_scale,
    check_shapes,
    check_weights,
)

__all__ = [
    "c_delta", "effective_arms", "epoch_length", "epoch_log_length", "etc_constant",
    "etc_log_horizon", "etc_observations", "etc_rounds", "final_epoch", "first_eliminated", "gaps",
    "hardness", "last_epoch", "optimal_weights", "rank", "rate_star", "rate_star_active",
    "rate_star_arms", "weights_cost",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


# 2^m − m, which first reaches any finite log2 of a float well before m = 12
_EPOCH_STEPS = np.array([2.0**m - m for m in range(13)])
LAST_EPOCH = 63  # its length has a logarithm of 10¹⁸


@documented
def gaps(means: ArrayLike) -> FloatArray:
    """The gaps Δ_i = max_j μ_j − μ_i, each 0 or from 1e-50 to 1e50.

    Parameters
    ----------
    means
        μ, one per arm.
    """
    array = numbers(means, "means")
    with np.errstate(over="ignore"):
        return check_gaps(array.max() - array)


@documented
def c_delta(gaps: ArrayLike) -> float:
    """C_Δ, the sum of 1/Δ_i over the sub-optimal arms."""
    return float(invert(check_gaps(gaps)).sum())


@documented
def optimal_weights(gaps: ArrayLike, power: float = 1.0) -> FloatArray:
    r"""Weights :math:`p_i \propto \Delta_i^{-power}` on the sub-optimal arms, 0 on optimal ones.

    ``power=1`` is :math:`p^*`, which minimises the lower bound of a passive observer and, at
    leading order, UCB's upper bound (section 3.1); ``power=2`` is the paper's "suboptimal". The
    paper prints them without their normalisation (D31). All zero if every arm is optimal.

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order; here of any size.
    power
        Positive.
    """
    weights, power = check_weights("optimal", check_any_gaps(gaps)), positive(power, "power")
    if not weights.any() or power == 1:
        return weights
    shares = (weights / weights.max()) ** power
    return np.asarray(shares / shares.sum())


@documented
def weights_cost(gaps: ArrayLike, weights: Weights = None) -> float:
    r"""What weights p cost beyond p*: :math:`C_\Delta KL(p^*\|p) = \sum\log(p^*_i/p_i)/\Delta_i`.

    Regret exceeds that of p* by about this, times 1/2 in the lower bound and 24 in UCB's upper
    bound. Infinite if a sub-optimal arm is never seen. `weights=None` are uniform on all arms.
    """
    gaps = check_gaps(gaps)
    weights, best = check_weights(weights, gaps), optimal_weights(gaps)
    positive = gaps > 0
    if (weights[positive] == 0).any():
        return math.inf
    ratios = np.log(best[positive]) - np.log(weights[positive])
    return float((invert(gaps)[positive] * ratios).sum())


@documented
def effective_arms(gaps: ArrayLike, rho: float = 1.0) -> FloatArray:
    r"""The number of arms that are as hard as arm i, the hardest in full, the others in part.

    .. math:: k_{i,\rho} = \sum_j \min\{1, (\Delta_i/\Delta_j)^{2\rho}\}

    Of OCUCB-n's regret (Lemma 10); give the gaps of a subset of arms for k(S).
    An optimal arm counts only the optimal arms.
    """
    gaps, rho = check_gaps(gaps), check_rho(rho)
    return np.asarray(_likeness(gaps, rho).sum(axis=-1))


@documented
def hardness(gaps: ArrayLike, rho: float = 1.0, below: ArrayLike | None = None) -> FloatArray:
    r"""The complexity H of each arm (section 4.2).

    .. math:: H_{i,\rho} = i/\Delta_i^2 + \sum_{j>i} \Delta_i^{-2(1-\rho)}\Delta_j^{-2\rho}
              = k_{i,\rho}/\Delta_i^2

    About :math:`H_{i,1}\log` free observations eliminate arm i and all that are worse, that is
    :math:`H_{i,1}\log/\epsilon` stages (D39). It is infinite for optimal arms.

    Parameters
    ----------
    below
        Gives :math:`H^{(m)}_{i,\rho}`, in which only ranks j < i_m are summed (printed j ≤ i_m,
        D17): the rank i_m of :func:`first_eliminated`, one or many.
    """
    gaps, rho = check_gaps(gaps), check_rho(rho)
    if below is None:
        arms = _likeness(gaps, rho).sum(axis=-1)
    else:
        last, ranks = check_array("below", below, "≥ 0", lambda x: x >= 0), rank(gaps)
        counted = ranks < np.maximum(last[..., None, None], ranks[:, None] + 1)
        arms = np.where(counted, _likeness(gaps, rho), 0.0).sum(axis=-1)
    return np.asarray(arms * np.where(gaps > 0, invert(gaps) ** 2, math.inf))


@documented
def rank(gaps: ArrayLike) -> FloatArray:
    """The place of each arm in order of gap, from 1; the optimal arms come first."""
    return np.asarray(np.argsort(np.argsort(check_gaps(gaps), kind="stable")) + 1.0)


@documented
def rate_star(gaps: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    r"""The paper's threshold :math:`\epsilon^*`, at which free looks begin to matter by stage T.

    :math:`K/(T\Delta^2)` (section 4.2.1, for equal gaps), with the smallest gap where they differ;
    at most 1 (D33). An order of magnitude: for equal gaps the theorem itself changes regime at
    :func:`rate_star_active`, about half of it.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    needed = gaps.size * invert(gaps).max() ** 2 if gaps.any() else math.inf
    return to_scalar(np.minimum(1.0, needed / horizon))


@documented
def rate_star_active(gaps: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    r"""Where the active lower bound changes regime: :math:`\sum_j 1/(2\Delta_j^2T)`, at most 1.

    As the other thresholds it is 1 if all arms are optimal: then looks never help.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    needed = (invert(gaps) ** 2).sum() / 2 if gaps.any() else math.inf
    return to_scalar(np.minimum(1.0, needed / horizon))


@documented
def rate_star_arms(gaps: ArrayLike, weights: Weights, horizon: ArrayLike) -> FloatArray:
    r"""Where the passive lower bound of each arm changes regime: :math:`1/(2p_i\Delta_i^2T)`.

    At most 1, and 1 where looks do not help: at optimal arms, and at arms of weight 0. Arms on
    the last axis, after the shape of `horizon`.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    weights = check_weights(weights, gaps)
    needed = np.full(gaps.shape, math.inf)
    useful = (gaps > 0) & (weights > 0)
    with np.errstate(over="ignore"):
        needed[useful] = invert(gaps)[useful] ** 2 / (2 * weights[useful])
    return np.minimum(1.0, needed / horizon[..., None])


@documented
def epoch_length(epoch: int, base: float = 2.0) -> int:
    """The length ⌈p^(p^m)⌉ of epoch m, if it fits a float; else see :func:`epoch_log_length`.

    Parameters
    ----------
    epoch
        m, from 0 to 63.
    """
    epoch, base = whole(epoch, "epoch", 0, LAST_EPOCH), _check_base(base)
    if not epoch * math.log(base) + math.log(math.log(base)) < math.log(709.0):
        raise ValueError(f"epoch must have a length that fits a float, got {epoch}")
    if base == int(base):
        return int(int(base) ** int(base**epoch))
    return math.ceil(_steady(np.asarray(base**base**epoch)))


@documented
def epoch_log_length(epoch: ArrayLike, base: float = 2.0) -> float | FloatArray:
    """log d_m for epochs of length d_m = ⌈p^(p^m)⌉ (section 5: any base p > 1; the theorem: 2)."""
    epochs, base = _check_epoch(epoch), _check_base(base)
    with np.errstate(over="ignore"):
        logs = np.power(base, epochs) * math.log(base)
    return to_scalar(
        np.where(logs < 36.0, np.log(np.ceil(_steady(np.exp(np.minimum(logs, 36.0))))), logs)
    )


@documented
def etc_log_horizon(epoch: ArrayLike, base: float = 2.0) -> float | FloatArray:
    r"""The logarithm of ETC's horizon in epoch m, :math:`d_{m+1}^{1+1/p}\log d_{m+1}`.

    The paper's exponent 3/2 belongs to p = 2. The exponent 1+1/p keeps what the proof needs,
    :math:`d_m/T_m = 1/(d_{m+1}\log d_{m+1})`, for every base (D34).

    Parameters
    ----------
    epoch
        m, from 0 to 62, one or many.
    """
    logs = np.asarray(epoch_log_length(_check_epoch(epoch, LAST_EPOCH - 1) + 1, base))
    with np.errstate(over="ignore"):
        return to_scalar((1.0 + 1.0 / base) * logs + np.log(logs))


@documented
def etc_constant(alpha: float = 1.0, variance: float = 1.0, form: str = "proved") -> float:
    r"""ETC's constant :math:`C_\alpha = 8(\sqrt\alpha+\sqrt c)^2`, for rewards of variance proxy c.

    Printed as 8(α+c), from (1+a)² read as 1+a² (D13). Needs α ≥ c (printed α > c, and then
    used with α = c; D14).
    """
    alpha, variance = check_alpha(alpha, variance)
    check_choice("form", form, "proved", "printed")
    if form == "printed":
        return 8.0 * (alpha + variance)
    return 8.0 * (math.sqrt(alpha) + math.sqrt(variance)) ** 2


@documented
def etc_rounds(gaps: ArrayLike, log_horizon: ArrayLike, constant: float = 32.0) -> FloatArray:
    r"""Rounds in which ETC may keep an arm: :math:`u(\Delta)=(C/\Delta^2)W(T\Delta^2/C)`.

    The s at which :math:`\Delta^2 = (C/s)\log(T/s)`. With C = :func:`etc_constant` and good
    concentration the arm is gone at round ⌊u⌋ + 1; with C = 8α it is where the test falls
    without noise. Decreasing in Δ, and T for an optimal arm. Arms on the last axis, after the
    shape of `log_horizon`, which is log T.
    """
    gaps, constant = check_gaps(gaps), check_scale("constant", constant)
    log_horizon = check_log_horizon(log_horizon)[..., None]
    scale = 2 * np.log(invert(gaps), where=gaps > 0, out=np.full(gaps.shape, math.inf))
    scale = scale + math.log(constant)  # log(C/Δ²)
    lambert: FloatArray = wrightomega(log_horizon - scale)  # W(e^y) = ω(y): T may overflow
    # the two forms are equal; each is used where it loses no digits
    small = log_horizon < scale
    with np.errstate(over="ignore"):
        early = np.exp(np.where(small, log_horizon - lambert, 0.0))
        return np.where(small, early, np.exp(np.where(small, 0.0, scale)) * lambert)


@documented
def etc_observations(gaps: ArrayLike, log_horizon: ArrayLike, constant: float = 32.0) -> FloatArray:
    r"""Observations, over all arms, until arm i and all worse ones are gone: :math:`H_i(T)`.

    :math:`H_i(T) = K + i\,u(\Delta_i) + \sum_{j>i}u(\Delta_j)` with u = :func:`etc_rounds`.
    """
    rounds = etc_rounds(gaps, log_horizon, constant)
    return np.asarray(
        rounds.shape[-1] + np.minimum(rounds[..., :, None], rounds[..., None, :]).sum(axis=-1)
    )


@documented
def last_epoch(
    gaps: ArrayLike, rate: ArrayLike, horizon: ArrayLike | None = None, constant: float = 32.0
) -> FloatArray:
    r"""The epoch :math:`m_i` after which, with high probability, arm i is pulled no more.

    .. math:: m_i = \min\{\lceil\log_2\log_2T\rceil,\
              \min\{m: 2^m-m\ge\log_2(10\log(2)\,C_\alpha H_{i,1}/\epsilon)\}\}

    Arms on the last axis; `horizon=None` plays for ever. Infinite where an arm is never dropped.

    Parameters
    ----------
    horizon
        T, one or many; None plays for ever.
    """
    gaps, rate = check_gaps(gaps), check_rate(rate)
    if horizon is not None:
        horizon = check_horizon(horizon, rate=rate)
    steps = _epoch_steps(gaps, rate, constant)
    epochs = np.where(
        np.isinf(steps), math.inf, np.searchsorted(_EPOCH_STEPS, steps).astype(np.float64)
    )
    if horizon is None:
        return epochs
    return np.minimum(epochs, final_epoch(horizon)[..., None])


@documented
def final_epoch(horizon: ArrayLike) -> FloatArray:
    """The epoch ⌈log2 log2 T⌉ by whose end stage T has passed, 0 for T ≤ 2."""
    return np.asarray(np.ceil(np.log2(np.log2(np.maximum(check_horizon(horizon), 2.0)))))


@documented
def first_eliminated(
    gaps: ArrayLike, rate: ArrayLike, epoch: ArrayLike, constant: float = 32.0
) -> FloatArray:
    """The rank i_m from which every arm is gone after epoch m; K + 1 if none need be (D17)."""
    gaps, rate, epochs = check_gaps(gaps), check_rate(rate), _check_epoch(epoch)
    check_shapes(epoch=epochs, rate=rate)
    reached = np.exp2(epochs) - epochs
    kept = _epoch_steps(gaps, rate, constant) > reached[..., None]
    return np.asarray(kept.sum(axis=-1) + 1.0)  # the arms kept are those of smallest gap


def _check_base(base: float) -> float:
    condition = "finite and greater than 1"
    if not 1 < (x := number(base, "base", condition)) < math.inf:
        raise invalid("base", condition, base)
    return x


def _check_epoch(epoch: ArrayLike, last: int = LAST_EPOCH) -> FloatArray:
    condition = f"a whole number from 0 to {last}"
    return check_array(
        "epoch", epoch, condition, lambda x: (x >= 0) & (x <= last) & (x == np.floor(x))
    )


def _epoch_steps(gaps: FloatArray, rate: FloatArray, constant: float) -> FloatArray:
    """log2(10 log(2) C_α H_{i,1}/ε), infinite at optimal arms and at rate 0."""
    constant = check_scale("constant", constant)
    with np.errstate(divide="ignore"):  # at rate 0
        return (
            np.log2(hardness(gaps))
            - np.log2(rate)[..., None]
            + math.log2(10 * math.log(2) * constant)
        )


def _likeness(gaps: FloatArray, rho: float) -> FloatArray:
    """min{1, (Δ_i/Δ_j)^(2ρ)} for each pair (i, j), where optimal arms are like each other."""
    smaller = np.minimum(gaps[:, None], gaps)
    ratios = np.divide(smaller, gaps, out=np.ones_like(smaller), where=gaps > 0)
    return np.asarray(ratios ** (2 * rho))


def _steady(lengths: FloatArray) -> FloatArray:
    """Undo the last rounding errors, so that the ceiling of 256 + 1e-13 is 256."""
    whole = np.rint(lengths)
    return np.where(np.abs(lengths - whole) < 1e-9 * whole, whole, lengths)
