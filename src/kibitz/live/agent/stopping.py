r"""Decide when to stop: rule out arms, and bound the loss of keeping the leading arm.

**Evidence for a pair of arms.** E_{ij}(\eta) measures the evidence against
H: \mu_i - \mu_j \ge \eta. It is a sum over tilts (\alpha, \beta) with weights w (`Tilts`),

.. math:: E_{ij}(\eta) = \min_m \sum_{(\alpha, \beta)} w\,
    e^{-\alpha S_i - n_i \kappa(m, -\alpha)}\; e^{\beta S_j - n_j \kappa(m - \eta, \beta)},

where n and S are the number and the sum of the rewards of an arm. For rewards in [0, 1],
\kappa(m, a) = \log(1 - m + m e^a). For Gaussian rewards of scale \sigma,
\kappa(m, a) = m a + a^2 \sigma^2 / 2.

*Claim.* Under H, E_{ij} is at most a non-negative supermartingale with initial value 1, for any
adaptive choice of arms.

*Proof.* A reward X with mean \mu has \log E e^{aX} \le \kappa(\mu, a): for rewards in [0, 1] because
e^{aX} \le 1 - X + X e^a by convexity, for Gaussian rewards by definition. As
\kappa(m, -\alpha) decreases in m and \kappa(m, \beta) increases, the first factor is a
supermartingale if \mu_i \ge m, the second if \mu_j \le m - \eta. Under H, both hold at
m = \max(\mu_j + \eta, 0) \le \mu_i (for Gaussian rewards at m = \mu_i). The minimum over m is at most
the value there.

*Computation.* -\kappa is convex in m, and a logarithm of a sum of exponentials of convex functions
is convex. Therefore \log E, as the minimum over m of a convex function of (m, \eta), is convex in
\eta; it is also increasing. Newton's method finds the minimum over m and the gap \eta at which \log E
reaches a threshold. Tangents give a lower bound on the minimum, so the evidence is never overstated.

**Verdict.** An arm is ruled out if the hypothesis that it is the best has a p-value (`rule_out`) of
at most \delta. The leading arm wins if all other arms are ruled out. A wrong winner requires that the
best arm is ruled out. With probability at least 1 - \delta, this never happens, and the bound on the
loss holds at all times.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import non_negative
from kibitz.live.agent.confidence import Floats, check_delta
from kibitz.live.events import Arm
from kibitz.live.monitor import FOUNDING_SHARE, has_changed
from kibitz.model.click_rates import TYPICAL_SD, TYPICAL_WEIGHT, rate_posterior

Terms = tuple[Floats, Floats, Floats]

N_DRAWS = 1000  # draws from the posterior for the likely loss
MAX_FACTOR = 10.0  # no estimate if a winner needs more than this many times the observations so far
# delta is split between the best founding arm, the best founding arm after better arms were retired,
# and the arms added later
BEST_FOUNDING_SHARE = 0.9
RETIRED_SHARE = 0.05
LATER_SHARE = 0.05


class Tilts(NamedTuple):
    """The tilts (alpha, beta) of a pair of arms with the logarithms of their weights."""

    down: Floats
    up: Floats
    log_weights: Floats


def _make_tilts(largest_size: float, weights: Sequence[float]) -> Tilts:
    """Return tilts with alpha + beta = `largest_size` / 2^k for k = 0, 1, ...

    Each of these sums is split into alpha and beta in three ways. `weights` has a weight for each k.
    """
    sizes = largest_size / 2.0 ** np.arange(len(weights))
    shares = np.array([0.0, 0.5, 1.0])
    log_weights = np.log(np.repeat(np.asarray(weights) / sum(weights) / 3, 3))
    return Tilts(np.outer(sizes, 1 - shares).ravel(), np.outer(sizes, shares).ravel(), log_weights)


# The tilts are log odds ratios for rewards in [0, 1], and gaps in units of the scale for Gaussian
# rewards. Their weights determine which gaps are detected soonest.
UNIT_TILTS = _make_tilts(0.8, [0.16] * 5 + [0.04] * 5)
GAUSSIAN_TILTS = _make_tilts(2.0, [0.125] * 6 + [0.05] * 5)


@dataclass(frozen=True)
class Verdict:
    """The answer of `Agent.verdict`.

    Attributes
    ----------
    winner
        The name of the best arm, or None if there is no proved winner yet.
    may_stop
        Whether the leading arm is within `tolerance` of the best arm.
    out
        The names of the arms that are ruled out as the best arm.
    loss_high
        An upper bound on the loss per pull if you keep the leading arm from now on.
    loss_likely
        A Bayesian estimate of this loss. It is a heuristic, not a bound.
    remaining
        A heuristic estimate of the number of further observations until there is a winner. It is None
        if a winner would need more than ten times the observations so far, or if there is too little
        data for an estimate.
    sentence
        The verdict in words.
    delta
        With probability at least 1 - delta, no verdict on this agent, at any time, names a wrong
        winner or has a `loss_high` that is too small.
    tolerance
        The loss per pull that you accept.
    """

    winner: str | None
    may_stop: bool
    out: tuple[str, ...]
    loss_high: float
    loss_likely: float
    remaining: int | None
    sentence: str
    delta: float
    tolerance: float


class Data(NamedTuple):
    """The settled rewards of all arms, in units of the scale if they are Gaussian."""

    n: Floats
    sums: Floats
    is_gaussian: bool

    @property
    def means(self) -> Floats:
        """The mean of each arm; -inf without observations."""
        return np.where(self.n > 0, self.sums / np.maximum(self.n, 1.0), -np.inf)


def _unit_terms(data: tuple[Floats, ...], m: Floats, eta: Floats) -> Terms:
    """Return the exponent of each tilt for rewards in [0, 1], and the slopes d_i and d_j.

    m is the mean of arm i, and m - eta is the mean of arm j. The derivative of the exponent in m is
    d_i - d_j.
    """
    n_i, s_i, n_j, s_j = data
    fall_factors, rise_factors = -np.expm1(-UNIT_TILTS.down), np.expm1(UNIT_TILTS.up)
    fall_terms, rise_terms = 1 - fall_factors * m, 1 + rise_factors * (m - eta)
    exponents = (
        UNIT_TILTS.log_weights
        - (UNIT_TILTS.down * s_i + n_i * np.log(fall_terms))
        + (UNIT_TILTS.up * s_j - n_j * np.log(rise_terms))
    )
    return exponents, n_i * (fall_factors / fall_terms), n_j * (rise_factors / rise_terms)


def _gaussian_terms(data: tuple[Floats, ...], m: Floats, eta: Floats) -> Terms:
    """Return the exponents and slopes of `_unit_terms` for Gaussian rewards."""
    n_i, s_i, n_j, s_j = data
    down, up, log_weights = GAUSSIAN_TILTS
    exponents = (
        log_weights
        - (down * (s_i - n_i * m) + n_i * down**2 / 2)
        + (up * (s_j - n_j * (m - eta)) - n_j * up**2 / 2)
    )
    return exponents, n_i * down, n_j * up


def pair_evidence(
    n_i: Floats, s_i: Floats, n_j: Floats, s_j: Floats, eta: Floats, is_gaussian: bool
) -> tuple[Floats, Floats]:
    """Return a lower bound on log E_ij(eta), and its derivative in eta, for arrays of pairs."""
    n_i, s_i, n_j, s_j, eta = (
        np.asarray(values, dtype=float)[:, np.newaxis]
        for values in np.broadcast_arrays(n_i, s_i, n_j, s_j, eta)
    )
    columns = n_i, s_i, n_j, s_j, eta
    all_rows = np.arange(n_i.size)

    def evaluate(m: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats, Floats, Floats]:
        compute_terms = _gaussian_terms if is_gaussian else _unit_terms
        n_i, s_i, n_j, s_j, eta = (column[rows] for column in columns)
        exponents, slope_i, slope_j = compute_terms((n_i, s_i, n_j, s_j), m, eta)
        largest_exponent = exponents.max(axis=1, keepdims=True)
        weights = np.exp(exponents - largest_exponent)
        total = weights.sum(axis=1, keepdims=True)
        weights /= total
        slopes = slope_i - slope_j
        slope = (weights * slopes).sum(axis=1, keepdims=True)
        curvature = (weights * (slopes - slope) ** 2).sum(axis=1, keepdims=True)
        if not is_gaussian:
            squares = slope_i**2 / np.maximum(n_i, 1.0) + slope_j**2 / np.maximum(n_j, 1.0)
            curvature += (weights * squares).sum(axis=1, keepdims=True)
        eta_slope = (weights * slope_j).sum(axis=1, keepdims=True)
        return largest_exponent + np.log(total), slope, curvature, eta_slope

    initial_mean = (s_i + s_j + n_j * eta) / np.maximum(n_i + n_j, 1.0)
    if is_gaussian:
        low, high = _bracket(initial_mean, (n_i > 0) & (n_j > 0), lambda m: evaluate(m, all_rows)[1])
    else:
        low, high = np.maximum(0.0, eta), np.minimum(1.0, 1.0 + eta)
    value, eta_slope = _minimise(evaluate, np.clip(initial_mean, low, high), low, high)
    if is_gaussian:
        value = np.where((n_i > 0) & (n_j > 0), value, -np.inf)
    return value[:, 0], eta_slope[:, 0]


def _bracket(
    initial_point: Floats, is_possible: NDArray[np.bool_], compute_slope: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Return two points around the minimum of a convex function on the real line."""
    low, high, width = initial_point - 0.1, initial_point + 0.1, 0.1
    while np.any(is_possible & (compute_slope(low) > 0)):
        width *= 4
        low = np.where(compute_slope(low) > 0, low - width, low)
    width = 0.1
    while np.any(is_possible & (compute_slope(high) < 0)):
        width *= 4
        high = np.where(compute_slope(high) < 0, high + width, high)
    return low, high


def _minimise(
    evaluate: Callable[[Floats, NDArray[np.int64]], tuple[Floats, Floats, Floats, Floats]],
    x: Floats,
    low: Floats,
    high: Floats,
) -> tuple[Floats, Floats]:
    """Return lower bounds on the minima of convex functions on [low, high], and extra values.

    Each row is one function. `evaluate` returns the values, the slopes, the second derivatives and
    one extra value of some rows at the points x. The result has the extra values at the last points.
    The tangents give the lower bounds, which are nearly exact.
    """
    bounds, extra_values = np.full(x.shape, -np.inf), np.zeros(x.shape)
    rows = np.arange(x.size)
    for step in range(80):
        value, slope, curvature, extra_values[rows] = evaluate(x, rows)
        tangent_end = np.where(slope > 0, low, high)
        bounds[rows] = np.maximum(bounds[rows], value + slope * (tangent_end - x))
        is_open = (value - bounds[rows] > 1e-8)[:, 0]
        if not is_open.any():
            break
        low, high = np.where(slope > 0, low, x), np.where(slope > 0, x, high)
        next_x = x - slope / np.maximum(curvature, 1e-300)
        is_inside = (next_x > low) & (next_x < high) & (step % 4 < 3)
        x = np.where(is_inside, next_x, (low + high) / 2)
        rows, x, low, high = rows[is_open], x[is_open], low[is_open], high[is_open]
    return bounds, extra_values


def _find_leaders(n: Floats, means: Floats) -> NDArray[np.int64]:
    """Return the arms that no other arm equals or exceeds in both observations and mean."""
    arms, best_mean = [], -np.inf
    for arm in np.lexsort((-means, -n)):
        if n[arm] > 0 and means[arm] > best_mean:
            arms.append(int(arm))
            best_mean = means[arm]
    return np.array(arms, dtype=np.int64)


def _split_weights(n_founding: int, n_arms: int) -> Floats:
    """Return weights[i, j], the weight of arm j in the evidence that arm i is not the best.

    The sum over j is at most 1 for any number of arms, and a weight never changes.
    """
    m = np.arange(1.0, n_arms - n_founding + 1)
    weights = np.zeros((n_arms, n_arms))
    weights[:n_founding, :n_founding] = FOUNDING_SHARE / (n_founding - 1)
    weights[n_founding:, :n_founding] = FOUNDING_SHARE / n_founding
    weights[:, n_founding:] = (1 - FOUNDING_SHARE) / (m * (m + 1))
    return weights


def rule_out(
    data: Data, is_retired: NDArray[np.bool_], n_founding: int, delta: float
) -> tuple[Floats, Floats]:
    r"""Return, for each arm, a p-value of the hypothesis that it is the best, and its share of delta.

    An arm that is not retired is the best if no other arm that is not retired has a larger mean. A
    retired arm is compared with all arms. Arm i is ruled out when its p-value is at most `delta`.
    This means that \sum_j \omega_{ij} E_{ij}(0) is at least 1 / (share \delta), with the weights
    \omega of `_split_weights`. The sum contains only the leading arms j (`_find_leaders`). The
    omitted terms are not negative, so the smaller sum is still valid evidence.

    **The shares.** A wrong winner requires that the best arm that is not retired is ruled out.
    Suppose that this arm is a founding arm, and let r be the number of retired founding arms that are
    not ruled out. If r = 0, the arm is the best of all founding arms, unless that arm was retired and
    ruled out, which is the same error. Its share is 0.9. If r > 0, the arm is one of the r + 1 best
    founding arms, and its share is 0.05 / (r (r + 1)). It has rank k only if r is at least k - 1, so
    the error probabilities of all ranks k > 1 sum to at most 0.05 \delta. The m-th arm added later
    has its own share, 0.05 / (m (m + 1)). The error probabilities of all arms sum to at most \delta,
    whenever arms are added or retired.
    """
    n_arms = data.n.size
    log_sums = np.full(n_arms, -np.inf)
    log_weights = np.log(_split_weights(n_founding, n_arms))
    for is_group, is_rival in (
        (~is_retired, ~is_retired),
        (is_retired, np.ones(n_arms, dtype=np.bool_)),
    ):
        rivals = np.flatnonzero(is_rival)
        leaders = rivals[_find_leaders(data.n[rivals], data.means[rivals])]
        i, j = np.meshgrid(np.flatnonzero(is_group & (data.n > 0)), leaders, indexing="ij")
        is_pair = data.means[i] < data.means[j]
        i, j = i[is_pair], j[is_pair]
        if not i.size:
            continue
        values, _ = pair_evidence(
            data.n[i], data.sums[i], data.n[j], data.sums[j], np.zeros(i.size), data.is_gaussian
        )
        np.logaddexp.at(log_sums, i, values + log_weights[i, j])
    m = np.arange(1.0, n_arms - n_founding + 1)
    founding_shares = np.full(n_founding, BEST_FOUNDING_SHARE)
    shares = np.concatenate([founding_shares, LATER_SHARE / (m * (m + 1))])
    # retired arms that are not ruled out
    is_unresolved = is_retired & (-np.log(shares) - log_sums > math.log(delta))
    n_unresolved = int(is_unresolved[:n_founding].sum())
    if n_unresolved:
        shares[:n_founding] = RETIRED_SHARE / (n_unresolved * (n_unresolved + 1))
    return np.exp(np.minimum(0.0, -np.log(shares) - log_sums)), shares


def largest_gaps(data: Data, arms: NDArray[np.int64], kept_arm: int, thresholds: Floats) -> Floats:
    """Return, for each arm, the largest gap to the arm `kept_arm` that the evidence does not exclude.

    The evidence excludes a gap if log E at this gap is at least the arm's threshold. log E is convex
    and increasing in the gap, so Newton's method approaches the root from above, and the result is
    never too small.
    """
    n_i, s_i, n_j, s_j = np.broadcast_arrays(
        data.n[arms], data.sums[arms], data.n[kept_arm], data.sums[kept_arm]
    )
    count_i, count_j = np.maximum(n_i, 1.0), np.maximum(n_j, 1.0)
    mean_i, mean_j = s_i / count_i, s_j / count_j
    variance = 1.0 if data.is_gaussian else mean_j * (1 - mean_j) + 1 / count_i
    width = 1.5 * np.sqrt(2 * (thresholds + 3) * variance * (1 / count_i + 1 / count_j))
    limit = np.inf if data.is_gaussian else 1.0
    low, high = np.full(arms.size, -limit), np.full(arms.size, limit)
    eta = np.minimum(mean_i - mean_j + width, limit)
    for _ in range(60):
        value, slope = pair_evidence(n_i, s_i, n_j, s_j, eta, data.is_gaussian)
        is_excluded = value >= thresholds
        high = np.where(is_excluded, np.minimum(high, eta), high)
        low = np.where(is_excluded, low, np.maximum(low, eta))
        is_found = (is_excluded & (value - thresholds < 1e-6)) | (low >= limit) | (value == -np.inf)
        if is_found.all():
            break
        next_eta = eta - (value - thresholds - 5e-7) / np.maximum(slope, 1e-300)
        is_inside = (next_eta > low) & (next_eta < high)
        width = np.where(is_excluded, width, 2 * width)
        middle = np.where(np.isfinite(high - low), (low + high) / 2, eta + width)
        eta = np.where(is_found, eta, np.where(is_inside & np.isfinite(high), next_eta, middle))
    return high


def posterior(data: Data) -> tuple[Floats, Floats]:
    """Return the two parameters of a heuristic empirical Bayes posterior of each mean.

    For rewards in [0, 1], the posteriors are beta distributions (`kibitz.model.click_rates`). For
    Gaussian rewards, the parameters are the mean and the standard deviation of a normal distribution.
    The variance between the arms is estimated from the data and shrunk towards a typical value, which
    has the weight of three arms. This counteracts the upward bias of the largest of several means.
    """
    n, sums = data.n, data.sums
    if not data.is_gaussian:
        return rate_posterior(n, sums)
    n_arms, total = n.size, max(float(n.sum()), 1.0)
    information = max(total - float((n * n).sum()) / total, 1e-9)
    pooled_mean = float(sums.sum()) / total
    chi_square = float((n * (sums / np.maximum(n, 1.0) - pooled_mean) ** 2).sum())
    estimate = max(0.0, (chi_square - (n_arms - 1)) / information)
    variance = (TYPICAL_WEIGHT * TYPICAL_SD**2 + (n_arms - 1) * estimate) / (
        n_arms - 1 + TYPICAL_WEIGHT
    )
    precision = n + 1 / variance
    return (sums + pooled_mean / variance) / precision, 1 / np.sqrt(precision)


def _estimate_loss(data: Data, kept_arm: int) -> float:
    """Return the posterior expectation of the gap between the arm `kept_arm` and the best arm."""
    rng = np.random.default_rng(1)
    first_parameter, second_parameter = posterior(data)
    draw = rng.normal if data.is_gaussian else rng.beta
    mean_draws = draw(first_parameter, second_parameter, (N_DRAWS, data.n.size))
    return float((mean_draws.max(axis=1) - mean_draws[:, kept_arm]).mean())


def _estimate_remaining(
    data: Data, arms: NDArray[np.int64], kept_arm: int, thresholds: Floats
) -> int | None:
    """Estimate how many more observations are needed to rule out all `arms`.

    The estimate assumes that all counts grow in proportion and that the true means are the posterior
    means. Return None if more than `MAX_FACTOR` times the observations so far would be needed.
    """
    first_parameter, second_parameter = posterior(data)
    means = (
        first_parameter
        if data.is_gaussian
        else first_parameter / (first_parameter + second_parameter)
    )

    def is_enough(factor: float) -> bool:
        n, sums = factor * data.n, factor * data.n * means
        zero_gaps = np.zeros(arms.size)
        arguments = n[arms], sums[arms], n[kept_arm], sums[kept_arm], zero_gaps, data.is_gaussian
        return bool(np.all(pair_evidence(*arguments)[0] >= thresholds))

    if not is_enough(MAX_FACTOR):
        return None
    low, high = 0.0, math.log(MAX_FACTOR)
    for _ in range(7):
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(math.exp(middle)) else (middle, high)
    return max(1, int(float(f"{math.expm1(high) * data.n.sum():.1g}")))


def decide(
    arms: Sequence[Arm],
    rewards: str,
    scale: float,
    n_founding: int,
    delta: float = 0.05,
    tolerance: float = 0.0,
) -> tuple[Verdict, Floats]:
    """Return the verdict and, for each arm, the p-value of the hypothesis that it is the best.

    Retired arms cannot win, and the loss ignores them. Paused arms are treated like active arms.
    There is no verdict while an arm that is not retired has no settled rewards.

    Parameters
    ----------
    arms
        The arms in the order in which they were added.
    rewards, scale
        The kind of rewards, and the sub-Gaussian scale of Gaussian rewards.
    n_founding
        The number of arms with which the agent was created.
    delta
        An upper bound on the probability that any verdict, at any time, has a wrong winner or a wrong
        bound on the loss.
    tolerance
        The loss per pull at which you are ready to stop.
    """
    delta, tolerance = check_delta(delta), non_negative(tolerance, "tolerance")
    is_gaussian = rewards == "gaussian"
    reward_unit = scale if is_gaussian else 1.0
    n = np.array([arm.n_settled for arm in arms], dtype=float)
    sums = np.array([arm.settled_sum for arm in arms]) / reward_unit
    data = Data(n, sums if is_gaussian else np.clip(sums, 0.0, n), is_gaussian)
    is_retired = np.array([arm.status == "retired" for arm in arms])
    p_values, shares = rule_out(data, is_retired, n_founding, delta)

    unretired_arms = np.flatnonzero(~is_retired)
    data = Data(data.n[unretired_arms], data.sums[unretired_arms], is_gaussian)
    names = [arm.name for arm in arms if arm.status != "retired"]
    is_ruled_out = p_values[unretired_arms] <= delta
    unseen_names = [name for name, count in zip(names, data.n, strict=True) if count == 0]
    confidence_text = f"at {100 * (1 - delta):.6g} % confidence, however often you check"
    if any(has_changed(arm.scan) for arm in arms):
        confidence_text += ", if the means changed when the monitor says"
    winner, remaining = None, None
    loss_high, loss_likely = 0.0, 0.0
    if not names:
        sentence = "All arms are retired."
    elif len(unseen_names) == len(names):
        loss_high, loss_likely = (math.inf if is_gaussian else 1.0), math.nan
        sentence = "No verdict yet: no arm has a settled reward."
    else:
        kept_arm = max(range(len(names)), key=lambda k: (data.means[k], data.n[k]))
        rivals = np.array(
            [k for k in range(len(names)) if k != kept_arm and not is_ruled_out[k]], dtype=int
        )
        if not rivals.size:
            winner, remaining = names[kept_arm], 0
            sentence = f"{winner} is best: every other arm is ruled out ({confidence_text})."
            if len(names) == 1:
                sentence = f"{winner} is the only arm that is not retired."
        else:
            weights = _split_weights(n_founding, n.size)[
                unretired_arms[rivals], unretired_arms[kept_arm]
            ]
            thresholds = -np.log(delta * shares[unretired_arms[rivals]] * weights)
            gaps = largest_gaps(data, rivals, kept_arm, thresholds)
            loss_high = max(0.0, float(gaps.max())) * reward_unit
            loss_likely = _estimate_loss(data, kept_arm) * reward_unit
            if not unseen_names:
                remaining = _estimate_remaining(data, rivals, kept_arm, thresholds)
            if loss_high <= tolerance and not unseen_names:
                tolerance_text = (
                    f"{100 * tolerance:.4g} points" if not is_gaussian else f"{tolerance:.4g}"
                )
                sentence = (
                    f"You may stop: {names[kept_arm]} is within {tolerance_text} of the best "
                    f"({confidence_text})."
                )
            else:
                missing_text = f": {_join_names(unseen_names)} not seen" if unseen_names else ""
                loss_text = _format_loss(
                    names[kept_arm], loss_high, loss_likely, rewards, confidence_text
                )
                ties = (
                    []
                    if unseen_names
                    else _find_ties(data, rivals, kept_arm, loss_high / reward_unit)
                )
                tied_names = [names[k] for k in ties]
                outlook_text = "" if unseen_names else _format_outlook(remaining, tied_names, rewards)
                sentence = f"No verdict yet{missing_text}. {loss_text}{outlook_text}"
    may_stop = bool(names) and not unseen_names and loss_high <= tolerance
    ruled_out_names = tuple(name for name, is_out in zip(names, is_ruled_out, strict=True) if is_out)
    verdict = Verdict(
        winner,
        may_stop,
        ruled_out_names,
        loss_high,
        loss_likely,
        remaining,
        sentence,
        delta,
        tolerance,
    )
    return verdict, p_values


def _find_ties(data: Data, rivals: NDArray[np.int64], kept_arm: int, loss_high: float) -> list[int]:
    """Return the leading arm and the rivals within one standard error of it.

    Return [] if there is no such rival, or if the bound on the loss is still large.
    """
    mean = float(data.means[kept_arm])
    variance = 1.0 if data.is_gaussian else mean * (1 - mean)
    if loss_high > 0.1 * (1.0 if data.is_gaussian else mean):
        return []
    standard_errors = np.sqrt(variance * (1 / data.n[rivals] + 1 / data.n[kept_arm]))
    tied_rivals = rivals[mean - data.means[rivals] < standard_errors]
    return sorted([kept_arm, *tied_rivals.tolist()]) if tied_rivals.size else []


def _format_loss(
    kept_arm: str, max_loss: float, likely_loss: float, rewards: str, confidence_text: str
) -> str:
    """Return a sentence about the loss; the bound is rounded up to two digits."""
    if math.isinf(max_loss):
        return f"If you stop now and keep {kept_arm}, the loss has no bound yet."
    factor, unit_text = {
        "bernoulli": (100, " clicks in 100 views"),
        "bounded": (100, " percentage points per pull"),
        "gaussian": (1, " per pull"),
    }[rewards]
    bound_text = format_bound(factor * max_loss)
    if bound_text == "1":
        unit_text = unit_text.replace("clicks", "click").replace("points", "point")
    return (
        f"If you stop now and keep {kept_arm}, you give up at most {bound_text}{unit_text} "
        f"({confidence_text}); likely about {_format_digits(factor * likely_loss, 1)}."
    )


def format_bound(value: float) -> str:
    """Format a non-negative upper bound with two digits, rounded up."""
    if value == 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return _format_digits(math.ceil(value / step - 1e-9) * step, 2)


def _format_digits(value: float, digits: int) -> str:
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="-")


def _format_outlook(remaining: int | None, tied_names: list[str], rewards: str) -> str:
    if remaining is not None:
        unit_name = "views" if rewards == "bernoulli" else "observations"
        return (
            f" A winner may be found after about {remaining:,} more {unit_name} at the present pace."
        )
    if tied_names:
        return f" {_join_names(tied_names)} may be equal; a winner may never be found."
    return " A winner is not in sight."


def _join_names(names: Sequence[str]) -> str:
    """Return names as text: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
