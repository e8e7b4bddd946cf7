r"""Complexity measures of a problem: gaps, C_Δ, C* of a graph, hardness, epochs and thresholds.

The functions depend on the gaps Δ and a few parameters. None of the returned values is a bound on
regret. Arms keep the caller's order. The *rank* of an arm is its position in order of increasing gap,
starting at 1 with the optimal arms. Arms with equal gaps have equal values except for :math:`H^{(m)}`
(D17).

Epoch lengths and the horizons of Explore-Then-Commit (ETC) grow doubly exponentially. Most functions
therefore take and return the logarithms of these lengths and horizons.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr, wrightomega

from kibitz._validation import invalid, number, numbers, positive, whole
from kibitz.bounds._bound import bound, document_parameters, invert, to_scalar
from kibitz.bounds._checks import (
    FloatArray,
    Weights,
    check_alpha,
    check_any_gaps,
    check_array,
    check_best_mean,
    check_choice,
    check_gaps,
    check_horizon,
    check_log_horizon,
    check_one,
    check_rate,
    check_rho,
    check_scale,
    check_shapes,
    check_weights,
)
from kibitz.bounds._graph import check_shows, count_showing, solve_cover
from kibitz.bounds.concentration import scan_delay

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "GraphComplexity", "c_delta", "effective_arms", "epoch_length", "epoch_log_length",
    "etc_constant", "etc_log_horizon", "etc_observations", "etc_rounds", "final_epoch",
    "first_eliminated", "gaps", "graph", "hardness", "last_epoch", "optimal_weights", "rank",
    "rate_star", "rate_star_active", "rate_star_arms", "rise_delay", "weights_cost",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


# for m ≥ 11, 2^m − m exceeds the log2 of every finite float
_EPOCH_STEPS = np.array([2.0**m - m for m in range(13)])
# looks of `lookout` at arms that have not risen: 8 (K - 2)^(3/4) / d², fitted to simulations
WATCH_LOOKS, WATCH_POWER = 8.0, 0.75
MAX_EPOCH = 63  # the logarithm of the length of epoch 63 is about 10¹⁸


@document_parameters
def gaps(means: ArrayLike) -> FloatArray:
    """Return the gaps Δ_i = max_j μ_j − μ_i, each 0 or from 1e-50 to 1e50.

    Parameters
    ----------
    means
        The means μ, one per arm.
    """
    mean_values = numbers(means, "means")
    with np.errstate(over="ignore"):
        return check_gaps(mean_values.max() - mean_values)


@document_parameters
def c_delta(gaps: ArrayLike) -> float:
    """Return C_Δ, the sum of 1/Δ_i over the sub-optimal arms."""
    return float(invert(check_gaps(gaps)).sum())


@document_parameters
def optimal_weights(gaps: ArrayLike, power: float = 1.0) -> FloatArray:
    r"""Return weights :math:`p_i \propto \Delta_i^{-power}`, with 0 for optimal arms.

    ``power=1`` gives :math:`p^*`, which minimises the lower bound of a passive observer and, at
    leading order, UCB's upper bound (section 3.1). ``power=2`` gives the paper's "suboptimal"
    weights. The paper prints both kinds of weights without normalisation (D31). If every arm is
    optimal, all weights are 0.

    Parameters
    ----------
    gaps
        The gaps Δ_i, one per arm in any order; 0 for optimal arms, otherwise of any size.
    power
        The exponent, positive.
    """
    weights, power = check_weights("optimal", check_any_gaps(gaps)), positive(power, "power")
    if not weights.any() or power == 1:
        return weights
    powers = (weights / weights.max()) ** power
    return np.asarray(powers / powers.sum())


@document_parameters
def weights_cost(gaps: ArrayLike, weights: Weights = None) -> float:
    r"""Return the cost of weights p relative to the optimal weights p* (:func:`optimal_weights`).

    .. math:: C_\Delta KL(p^*\|p) = \sum\log(p^*_i/p_i)/\Delta_i

    KL is the Kullback-Leibler divergence, and the sum is over the sub-optimal arms. With weights p
    instead of p*, the lower bound grows by about half of this cost, and UCB's upper bound grows by
    about 24 times this cost. The cost is infinite if a sub-optimal arm has weight 0.
    """
    gaps = check_gaps(gaps)
    weights, best_weights = check_weights(weights, gaps), optimal_weights(gaps)
    is_suboptimal = gaps > 0
    if (weights[is_suboptimal] == 0).any():
        return math.inf
    log_ratios = np.log(best_weights[is_suboptimal]) - np.log(weights[is_suboptimal])
    return float((invert(gaps)[is_suboptimal] * log_ratios).sum())


@document_parameters
def rise_delay(
    n_arms: int,
    rate: ArrayLike,
    *,
    n_before: float,
    change: float,
    threshold: float,
    looks: str = "watch",
) -> float | FloatArray:
    r"""Return the approximate mean number of stages until looks detect the rise of an unpulled arm.

    With :math:`D` the mean number of observations that the scan of an arm needs
    (:func:`~kibitz.bounds.concentration.scan_delay`, leading form), the mean delay is about

    - :math:`(K-1)D/\epsilon` if looks go in turn to the K − 1 arms that are not pulled,
    - :math:`KD/\epsilon` if looks are random with uniform weights,
    - :math:`(D+8(K-2)^{3/4}/d^2)/\epsilon` for the policy `lookout`, which repeats looks at an
      arm while the arm is suspicious.

    These formulas are approximations, not bounds. The formula for `lookout` was fitted to simulations
    (:func:`kibitz.plan_changes` states its accuracy). The delay is infinite if there are no looks or
    the scan does not detect the change.

    Parameters
    ----------
    n_arms
        The number of arms K, at least 2.
    n_before
        The number of observations of the arm before the change, from 0 to 1e50.
    change
        The size d of the change, in units of the scale of the rewards.
    threshold
        The threshold c of the scan, from 0 to 1e50.
    looks
        Where looks go: "watch", "turns" or "passive".
    """
    check_choice("looks", looks, "watch", "turns", "passive")
    n_arms, rates = whole(n_arms, "n_arms", 2), check_rate(rate)
    delay = scan_delay(n_before, change, threshold, form="leading")
    n_looks = {
        "watch": delay + WATCH_LOOKS * (n_arms - 2) ** WATCH_POWER / change**2,
        "turns": delay * (n_arms - 1),
        "passive": delay * n_arms,
    }[looks]
    delays = np.full(rates.shape, math.inf)
    with np.errstate(over="ignore"):
        return to_scalar(np.divide(n_looks, rates, out=delays, where=rates > 0))


class GraphComplexity(NamedTuple):
    """The complexity of a problem on a graph, the result of `kibitz.bounds.complexity.graph`."""

    constant: float  # C*, the smallest possible regret per log T, which may be infinite
    regime: str  # "bounded", "logarithmic", "T^(2/3)" or "linear"
    is_free: NDArray[np.bool_]  # for each arm, whether an optimal arm or a look shows it
    pulls: FloatArray  # the pulls of each sub-optimal arm per log T that attain C*

    def rescale(self, unit: float) -> "GraphComplexity":
        """Convert the complexity from units of `unit` to units of the rewards."""
        return self._replace(constant=self.constant * unit)


@bound(arrivals="any")
def graph(
    gaps: ArrayLike,
    shows: Any,
    *,
    rate: float = 0.0,
    weights: Weights = None,
    observer: str = "passive",
    rewards: str = "gaussian",
    best_mean: float | None = None,
) -> GraphComplexity:
    r"""Return C*, the smallest regret per log T on a graph, with the regime and the free arms.

    An arm is *free* if an optimal arm shows it with positive probability, by the graph or by a look.
    Pulls of optimal arms cost nothing, so the policy observes free arms at no cost. Every other arm j
    needs :math:`\log T/I_j` observations, where :math:`I_j=\Delta_j^2/2` is the divergence of
    one observation. Every consistent policy therefore has :math:`\liminf ER_T/\log T\ge C^*`, with

    .. math:: C^*=\min\Big\{\sum_i\Delta_ic_i:\ c\ge0,\ \sum_ic_iQ_{ij}\ge1/I_j
              \text{ for every sub-optimal arm } j \text{ that is not free}\Big\} .

    If the only optimal arm is not free, the policy must also pay for observations of the optimal arm.
    Let :math:`O_j=\sum_ic_iQ_{ij}`, which is infinite for free arms, and let :math:`O_*` be the same
    sum for the optimal arm. The constraint is then :math:`1/O_j+1/O_*\le I_j` for every sub-optimal
    arm. If there are several optimal arms and one of them is not free, C* is infinite: no number of
    observations of order log T shows whether this arm is slightly better than the other optimal arms.

    The regime describes the regret of the best policies:

    - "bounded": the regret is bounded in T (C* = 0).
    - "logarithmic": the regret is about C* log T.
    - "T^(2/3)": some arm neither shows itself nor is shown by all other arms (the graph is *weakly
      observable*). The regret is of order T^(2/3) in the worst case over all problems on this graph,
      although it is about C* log T for fixed gaps.
    - "linear": some arm is never shown, and C* is infinite.

    The rewards are Gaussian with standard deviation 1. For Bernoulli rewards, I_j is the
    Kullback-Leibler divergence kl(μ_j, μ*).

    Parameters
    ----------
    rate
        The rate ε of looks, a single number.
    rewards
        "gaussian" or "bernoulli".
    best_mean
        The largest mean μ* in [0, 1], required for Bernoulli rewards. The mean of arm i is μ* - Δ_i.

    Returns
    -------
    GraphComplexity
        A named tuple with the fields `constant` (C*), `regime`, `is_free` (whether each arm is free)
        and `pulls` (the solution c, which is 0 for optimal arms).
    """
    delta = check_gaps(gaps)
    matrix = check_shows(shows, delta.size)
    eps = check_one("rate", check_rate(rate))
    look_rates = eps * check_weights(weights, delta)
    if check_choice("observer", observer, "passive", "active") == "active":
        look_rates = np.full(delta.size, eps)
    check_choice("rewards", rewards, "gaussian", "bernoulli")
    with np.errstate(divide="ignore"):
        needs = 2 * invert(delta) ** 2
        if rewards == "bernoulli":
            best_mean = check_best_mean(best_mean, delta)
            means = np.clip(best_mean - delta, 0, 1)
            needs = np.where(
                delta > 0, 1 / (rel_entr(means, best_mean) + rel_entr(1 - means, 1 - best_mean)), 0
            )
    is_optimal = delta == 0
    is_free = (matrix[is_optimal].sum(axis=0) > 0) | (look_rates > 0)
    if is_free[is_optimal].all():
        pulls = solve_cover(delta, matrix, np.where(is_free, 0.0, needs))
    elif is_optimal.sum() > 1:
        pulls = None
    elif rewards == "bernoulli":
        raise invalid("rewards", "'gaussian' if the optimal arm does not show itself", rewards)
    else:
        pulls = _pay_for_best_arm(delta, matrix, is_free)
    if pulls is None:
        pulls = np.where(is_optimal, 0.0, math.inf)
    pulls[is_optimal] = 0.0
    constant = float((delta * pulls)[~is_optimal].sum())
    return GraphComplexity(constant, _find_regime(matrix, look_rates, constant), is_free, pulls)


@document_parameters
def effective_arms(gaps: ArrayLike, rho: float = 1.0) -> FloatArray:
    r"""Return, for each arm i, the effective number of arms that are as hard to rule out as arm i.

    .. math:: k_{i,\rho} = \sum_j \min\{1, (\Delta_i/\Delta_j)^{2\rho}\}

    This number appears in OCUCB-n's regret (Lemma 10). For k(S), pass the gaps of the subset S of
    arms. For an optimal arm, k is the number of optimal arms.
    """
    gaps, rho = check_gaps(gaps), check_rho(rho)
    return np.asarray(_compare_gaps(gaps, rho).sum(axis=-1))


@document_parameters
def hardness(gaps: ArrayLike, rho: float = 1.0, below: ArrayLike | None = None) -> FloatArray:
    r"""Return the complexity H of each arm (section 4.2).

    .. math:: H_{i,\rho} = i/\Delta_i^2 + \sum_{j>i} \Delta_i^{-2(1-\rho)}\Delta_j^{-2\rho}
              = k_{i,\rho}/\Delta_i^2

    Here i is the rank of the arm, and :math:`k_{i,\rho}` is :func:`effective_arms`. ETC with horizon
    T eliminates arm i and all worse arms after about :math:`H_{i,1}\log T` looks, that is after about
    :math:`H_{i,1}\log(T)/\epsilon` stages (D39). H is infinite for optimal arms.

    Parameters
    ----------
    below
        The rank i_m of :func:`first_eliminated`; a number or an array. With `below`, the result is
        :math:`H^{(m)}_{i,\rho}`, whose sum is only over ranks j < i_m (the paper prints j ≤ i_m,
        D17).
    """
    gaps, rho = check_gaps(gaps), check_rho(rho)
    if below is None:
        n_effective = _compare_gaps(gaps, rho).sum(axis=-1)
    else:
        max_rank, ranks = check_array("below", below, "≥ 0", lambda x: x >= 0), rank(gaps)
        is_counted = ranks < np.maximum(max_rank[..., None, None], ranks[:, None] + 1)
        n_effective = np.where(is_counted, _compare_gaps(gaps, rho), 0.0).sum(axis=-1)
    return np.asarray(n_effective * np.where(gaps > 0, invert(gaps) ** 2, math.inf))


@document_parameters
def rank(gaps: ArrayLike) -> FloatArray:
    """Return the rank of each arm in order of gap, starting at 1 with the optimal arms."""
    return np.asarray(np.argsort(np.argsort(check_gaps(gaps), kind="stable")) + 1.0)


@document_parameters
def rate_star(gaps: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    r"""Return the paper's threshold :math:`\epsilon^*` for the rate of looks.

    Looks at rates above the threshold reduce the regret at stage T. The threshold is
    :math:`K/(T\Delta^2)`, where :math:`\Delta` is the smallest positive gap, and at most 1 (section
    4.2.1, for equal gaps; D33). The threshold is only an order of magnitude: for equal gaps the
    theorem itself changes regime at :func:`rate_star_active`, which is about half as large.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    required_looks = gaps.size * invert(gaps).max() ** 2 if gaps.any() else math.inf
    return to_scalar(np.minimum(1.0, required_looks / horizon))


@document_parameters
def rate_star_active(gaps: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    r"""Return the rate at which the active lower bound changes regime.

    This rate is :math:`\sum_j 1/(2\Delta_j^2T)` over the sub-optimal arms j, and at most 1. Like the
    other thresholds, the rate is 1 if all arms are optimal, because looks then do not help.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    required_looks = (invert(gaps) ** 2).sum() / 2 if gaps.any() else math.inf
    return to_scalar(np.minimum(1.0, required_looks / horizon))


@document_parameters
def rate_star_arms(gaps: ArrayLike, weights: Weights, horizon: ArrayLike) -> FloatArray:
    r"""Return the rate at which the passive lower bound of each arm changes regime.

    The rate of arm i is :math:`1/(2p_i\Delta_i^2T)`, and at most 1. The rate is 1 where looks do not
    help: for optimal arms and for arms with weight 0. The result has the shape of `horizon`, followed
    by an axis of arms.
    """
    gaps, horizon = check_gaps(gaps), check_horizon(horizon)
    weights = check_weights(weights, gaps)
    required_looks = np.full(gaps.shape, math.inf)
    looks_help = (gaps > 0) & (weights > 0)
    with np.errstate(over="ignore"):
        required_looks[looks_help] = invert(gaps)[looks_help] ** 2 / (2 * weights[looks_help])
    return np.minimum(1.0, required_looks / horizon[..., None])


@document_parameters
def epoch_length(epoch: int, base: float = 2.0) -> int:
    """Return the length ⌈p^(p^m)⌉ of epoch m; raise ValueError if it overflows a float.

    For longer epochs, use :func:`epoch_log_length`.

    Parameters
    ----------
    epoch
        The epoch m, from 0 to 63.
    """
    epoch, base = whole(epoch, "epoch", 0, MAX_EPOCH), _check_base(base)
    if not epoch * math.log(base) + math.log(math.log(base)) < math.log(709.0):
        raise ValueError(f"epoch {epoch} has a length that overflows a float; use epoch_log_length")
    if base == int(base):
        return int(int(base) ** int(base**epoch))
    return math.ceil(_round_if_close(np.asarray(base**base**epoch)))


@document_parameters
def epoch_log_length(epoch: ArrayLike, base: float = 2.0) -> float | FloatArray:
    """Return log d_m, where epoch m has length d_m = ⌈p^(p^m)⌉ (section 5; p = 2 in the theorem)."""
    epochs, base = _check_epoch(epoch), _check_base(base)
    with np.errstate(over="ignore"):
        log_lengths = np.power(base, epochs) * math.log(base)
    return to_scalar(
        np.where(
            log_lengths < 36.0,
            np.log(np.ceil(_round_if_close(np.exp(np.minimum(log_lengths, 36.0))))),
            log_lengths,
        )
    )


@document_parameters
def etc_log_horizon(epoch: ArrayLike, base: float = 2.0) -> float | FloatArray:
    r"""Return the logarithm of ETC's horizon in epoch m, :math:`d_{m+1}^{1+1/p}\log d_{m+1}`.

    Here :math:`d_m` is the length of epoch m, and :math:`T_m` is ETC's horizon in epoch m. The
    paper's exponent 3/2 is for p = 2. With the exponent 1+1/p, the condition :math:`d_m/T_m =
    1/(d_{m+1}\log d_{m+1})` of the proof holds for every base (D34).

    Parameters
    ----------
    epoch
        The epoch m, from 0 to 62; a number or an array.
    """
    log_lengths = np.asarray(epoch_log_length(_check_epoch(epoch, MAX_EPOCH - 1) + 1, base))
    with np.errstate(over="ignore"):
        return to_scalar((1.0 + 1.0 / base) * log_lengths + np.log(log_lengths))


@document_parameters
def etc_constant(alpha: float = 1.0, variance: float = 1.0, form: str = "proved") -> float:
    r"""Return ETC's constant :math:`C_\alpha = 8(\sqrt\alpha+\sqrt c)^2` for variance proxy c.

    The paper prints 8(α+c), because it replaces (1+a)² by 1+a² (D13). The constant is valid for
    α ≥ c. The paper requires α > c but uses α = c (D14).
    """
    alpha, variance = check_alpha(alpha, variance)
    check_choice("form", form, "proved", "printed")
    if form == "printed":
        return 8.0 * (alpha + variance)
    return 8.0 * (math.sqrt(alpha) + math.sqrt(variance)) ** 2


@document_parameters
def etc_rounds(gaps: ArrayLike, log_horizon: ArrayLike, constant: float = 32.0) -> FloatArray:
    r"""Return, for each arm, the number of rounds for which ETC with horizon T can keep the arm.

    This number is :math:`u(\Delta)=(C/\Delta^2)W(T\Delta^2/C)`, the solution s of :math:`\Delta^2 =
    (C/s)\log(T/s)`; W is Lambert's function. With C = :func:`etc_constant`, the arm is eliminated by
    round ⌊u⌋ + 1 if all averages stay within their confidence radii. With C = 8α, u is the round at
    which the arm would be eliminated without noise. u decreases with Δ and is T for an optimal arm.
    The result has the shape of `log_horizon`, followed by an axis of arms.
    """
    gaps, constant = check_gaps(gaps), check_scale("constant", constant)
    log_horizon = check_log_horizon(log_horizon)[..., None]
    log_scale = 2 * np.log(invert(gaps), where=gaps > 0, out=np.full(gaps.shape, math.inf))
    log_scale = log_scale + math.log(constant)  # log(C/Δ²)
    lambert_w: FloatArray = wrightomega(log_horizon - log_scale)  # W(e^y) = ω(y): T may overflow
    # the two expressions are equal; each is used where it is accurate
    is_small = log_horizon < log_scale
    with np.errstate(over="ignore"):
        small_rounds = np.exp(np.where(is_small, log_horizon - lambert_w, 0.0))
        return np.where(
            is_small, small_rounds, np.exp(np.where(is_small, 0.0, log_scale)) * lambert_w
        )


@document_parameters
def etc_observations(gaps: ArrayLike, log_horizon: ArrayLike, constant: float = 32.0) -> FloatArray:
    r"""Return the number of observations of all arms until ETC has eliminated arm i and worse arms.

    With arms in order of gap and u = :func:`etc_rounds`, this number is :math:`H_i(T) = K +
    i\,u(\Delta_i) + \sum_{j>i}u(\Delta_j)`.
    """
    rounds = etc_rounds(gaps, log_horizon, constant)
    return np.asarray(
        rounds.shape[-1] + np.minimum(rounds[..., :, None], rounds[..., None, :]).sum(axis=-1)
    )


@document_parameters
def last_epoch(
    gaps: ArrayLike, rate: ArrayLike, horizon: ArrayLike | None = None, constant: float = 32.0
) -> FloatArray:
    r"""Return the epoch :math:`m_i` after which, with high probability, arm i is not pulled again.

    .. math:: m_i = \min\{\lceil\log_2\log_2T\rceil,\
              \min\{m: 2^m-m\ge\log_2(10\log(2)\,C_\alpha H_{i,1}/\epsilon)\}\}

    Here :math:`C_\alpha` is `constant`, and :math:`H_{i,1}` is :func:`hardness` with ρ = 1. Arms
    are on the last axis of the result. m_i is infinite if arm i is never eliminated.

    Parameters
    ----------
    horizon
        The horizon T, a number or an array; None means no horizon.
    """
    gaps, rate = check_gaps(gaps), check_rate(rate)
    if horizon is not None:
        horizon = check_horizon(horizon, rate=rate)
    min_steps = _epoch_steps(gaps, rate, constant)
    epochs = np.where(
        np.isinf(min_steps), math.inf, np.searchsorted(_EPOCH_STEPS, min_steps).astype(np.float64)
    )
    if horizon is None:
        return epochs
    return np.minimum(epochs, final_epoch(horizon)[..., None])


@document_parameters
def final_epoch(horizon: ArrayLike) -> FloatArray:
    """Return ⌈log2 log2 T⌉, an epoch that ends at stage T or later; the result is 0 for T ≤ 2."""
    return np.asarray(np.ceil(np.log2(np.log2(np.maximum(check_horizon(horizon), 2.0)))))


@document_parameters
def first_eliminated(
    gaps: ArrayLike, rate: ArrayLike, epoch: ArrayLike, constant: float = 32.0
) -> FloatArray:
    """Return i_m, the smallest rank of an arm that is eliminated by the end of epoch m (D17).

    The result is K + 1 if no arm is eliminated.
    """
    gaps, rate, epochs = check_gaps(gaps), check_rate(rate), _check_epoch(epoch)
    check_shapes(epoch=epochs, rate=rate)
    reached_steps = np.exp2(epochs) - epochs
    is_kept = _epoch_steps(gaps, rate, constant) > reached_steps[..., None]
    return np.asarray(is_kept.sum(axis=-1) + 1.0)  # the arms that are kept have the smallest gaps


def _pay_for_best_arm(
    gaps: FloatArray, shows: "csr_array", is_free: NDArray[np.bool_]
) -> FloatArray | None:
    """Return the solution c of `graph` if the only optimal arm is not free; None if c does not exist.

    For a fixed number s of observations of the optimal arm, the constraints are linear. The smallest
    cost is a convex function of s. The search is over z = s_min/s in (0, 1], where s_min = 2/Δ² for
    the smallest positive gap Δ.
    """
    from scipy.optimize import minimize_scalar

    is_suboptimal = gaps > 0
    if not is_suboptimal.any():
        return np.zeros(gaps.size)
    smallest_gap = gaps[is_suboptimal].min()
    must_buy = is_suboptimal & ~is_free

    def solve(z: float) -> FloatArray | None:
        needs = np.zeros(gaps.size)
        needs[~is_suboptimal] = 2 / (z * smallest_gap**2)
        needs[must_buy] = 2 / (gaps[must_buy] ** 2 - z * smallest_gap**2)
        return solve_cover(gaps, shows, needs)

    def compute_cost(z: float) -> float:
        pulls = solve(z)
        return math.inf if pulls is None else float(gaps @ pulls)

    if solve(0.5) is None:
        return None
    best = minimize_scalar(compute_cost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9})
    candidates = [float(best.x)]
    if (gaps[must_buy] > smallest_gap).all():
        candidates.append(1.0)
    return solve(min(candidates, key=compute_cost))


def _find_regime(shows: "csr_array", look_rates: FloatArray, constant: float) -> str:
    """Return the regime of the regret; `graph` describes the regimes."""
    n_arms = look_rates.size
    n_showing = count_showing(shows)
    if ((n_showing == 0) & (look_rates == 0)).any() and n_arms > 1:
        return "linear"
    is_shown_by_itself = (shows.diagonal() > 0) | (look_rates > 0)
    if not (is_shown_by_itself | (n_showing == n_arms - 1)).all():
        return "T^(2/3)"
    return "logarithmic" if constant > 0 else "bounded"


def _check_base(base: float) -> float:
    condition = "finite and greater than 1"
    if not 1 < (x := number(base, "base", condition)) < math.inf:
        raise invalid("base", condition, base)
    return x


def _check_epoch(epoch: ArrayLike, max_epoch: int = MAX_EPOCH) -> FloatArray:
    condition = f"a whole number from 0 to {max_epoch}"
    return check_array(
        "epoch", epoch, condition, lambda x: (x >= 0) & (x <= max_epoch) & (x == np.floor(x))
    )


def _epoch_steps(gaps: FloatArray, rate: FloatArray, constant: float) -> FloatArray:
    """Return log2(10 log(2) C_α H_{i,1}/ε) for each arm, the limit in the formula of `last_epoch`.

    C_α is `constant`, and ε is `rate`. The limit is infinite for optimal arms and at rate 0.
    """
    constant = check_scale("constant", constant)
    with np.errstate(divide="ignore"):  # the logarithm of rate 0 is −∞
        return (
            np.log2(hardness(gaps))
            - np.log2(rate)[..., None]
            + math.log2(10 * math.log(2) * constant)
        )


def _compare_gaps(gaps: FloatArray, rho: float) -> FloatArray:
    """Return the matrix of min{1, (Δ_i/Δ_j)^(2ρ)} for all arms i and j; 1 for two optimal arms."""
    smaller_gaps = np.minimum(gaps[:, None], gaps)
    ratios = np.divide(smaller_gaps, gaps, out=np.ones_like(smaller_gaps), where=gaps > 0)
    return np.asarray(ratios ** (2 * rho))


def _round_if_close(lengths: FloatArray) -> FloatArray:
    """Round lengths that are almost whole, because the ceiling of 256 + 1e-13 must be 256."""
    rounded_lengths = np.rint(lengths)
    return np.where(
        np.abs(lengths - rounded_lengths) < 1e-9 * rounded_lengths, rounded_lengths, lengths
    )
