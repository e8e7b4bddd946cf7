r"""Time-uniform confidence sequences for the means of arms.

Arms may be chosen adaptively. The rewards of an arm must have a constant conditional mean. For each
possible mean there is a process, which is a non-negative supermartingale with initial value 1 if this
mean is true. A mean is rejected when its process reaches 1/\delta. The interval contains all means
that are not rejected. By Ville's inequality, the probability that the true mean is ever rejected is
at most \delta. The processes use three statistics of an arm, which do not depend on the order of the
reports: the number n, the sum S and the sum of squares Q of its rewards.

**Rewards in [0, 1]** (`unit_intervals`). The process of a mean \mu has two parts. The first half is a
mixture over the alternatives q \sim Beta(1/2, 1/2) (Robbins, 1970; Krichevsky and Trofimov, 1981),

.. math:: M(\mu) = \int \Big(\frac{q}{\mu}\Big)^S \Big(\frac{1-q}{1-\mu}\Big)^{n-S} \pi(dq)
    = \exp(n\,kl(S/n, \mu) - C(n, S)).

The second half consists of a mixture E(\mu) over 24 bets \lambda of
\exp(\lambda (S - n\mu) - \psi(\lambda) V(\mu)), and of the same mixture for the rewards 1 - x. Here
V(\mu) = Q - 2\mu S + n\mu^2 and \psi(\lambda) = -\log(1-\lambda) - \lambda (Fan, Grama and Liu,
2015). M has conditional mean 1 for binary rewards, and at most 1 for other rewards in [0, 1],
because x \mapsto e^{\lambda x} is convex. The bets make the intervals narrow if the variance is
small. Each end of the interval needs only one of the two mixtures over bets: the lower end is the
largest mean below S/n that M/2 + E/4 rejects. Bets are at most 0.58, so 2\psi(\lambda) \le \lambda.
M/2 + E/4 therefore decreases in \mu below S/n, and the lower end is a unique root.

**Gaussian rewards** (`gaussian_radius`): Robbins' normal mixture of
\exp(\lambda (S - n\mu) - \lambda^2\sigma^2 n/2) over \lambda \sim N(0, 1/(\rho\sigma^2)), for any
rewards of sub-Gaussian scale \sigma:

.. math:: P\Big(\exists n: |S / n - \mu| \ge \frac{\sigma}{n}
    \sqrt{(n + \rho)\big(2 \log(1/\delta) + \log(1 + n/\rho)\big)}\Big) \le \delta.

**Several arms** (`split_delta`). Each arm keeps its share of \delta at all times, even when arms are
added. The sum of the shares is at most \delta, so all intervals hold simultaneously.

**Assumption.** The delay and the loss of a report must not depend on its reward. Only
`lost_intervals` allows the loss of a report to depend on its reward.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, xlogy

from kibitz._validation import invalid, number
from kibitz.live.monitor import FOUNDING_SHARE

Floats = NDArray[np.float64]

MIN_DELTA = 1e-300  # a smaller delta could underflow when divided by the number of arms
RHO = 30.0  # Gaussian intervals are tightest at about 350 observations if delta is 0.01
BETS = 0.58 / 1.6 ** np.arange(24)
PENALTIES = -np.log1p(-BETS) - BETS  # psi of each bet
MAX_STEPS = 14  # Newton steps for the end of an interval


def check_delta(delta: Any, name: str = "delta") -> float:
    """Return `delta` as a float; raise ValueError unless it is a probability in (0, 1)."""
    if not 0 < (delta_value := number(delta, name, "in (0, 1)")) < 1:
        raise invalid(name, "in (0, 1)", delta)
    if delta_value < MIN_DELTA:
        raise invalid(name, f"at least {MIN_DELTA:g}", delta)
    return delta_value


def split_delta(delta: float, n_founding: int, n_arms: int) -> Floats:
    r"""Return the share of `delta` of each arm, in the order in which the arms were added.

    The `n_founding` arms with which the agent was created share 0.9 \delta equally. The m-th arm
    added later gets 0.1 \delta / (m (m + 1)). A share never changes, and the sum is at most \delta
    for any number of arms.
    """
    m = np.arange(1.0, n_arms - n_founding + 1)
    founding_shares = np.full(n_founding, FOUNDING_SHARE / n_founding)
    return delta * np.concatenate([founding_shares, (1 - FOUNDING_SHARE) / (m * (m + 1))])


def intervals(
    rewards: str, n: ArrayLike, sums: ArrayLike, squares: ArrayLike, deltas: ArrayLike, scale: float
) -> tuple[Floats, Floats]:
    """Return the lower and the upper ends of confidence sequences for the means of arms.

    Parameters
    ----------
    rewards
        "gaussian", "bernoulli" or "bounded".
    n, sums, squares
        The number, the sum and the sum of squares of the rewards of each arm.
    deltas
        For each arm, the probability that its interval ever misses its mean; see `split_delta`.
    scale
        The sub-Gaussian scale of Gaussian rewards.
    """
    if rewards != "gaussian":
        return unit_intervals(n, sums, squares, deltas)
    counts = np.asarray(n, dtype=float)
    means = np.asarray(sums, dtype=float) / np.maximum(counts, 1.0)
    half_width = gaussian_radius(counts, deltas, scale)
    return means - half_width, means + half_width


def gaussian_radius(n: ArrayLike, deltas: ArrayLike, scale: float = 1.0) -> Floats:
    """Return half the width of the interval after `n` Gaussian rewards; infinity for n = 0."""
    counts = np.asarray(n, dtype=float)
    squared_boundary = (counts + RHO) * (np.log1p(counts / RHO) - 2 * np.log(deltas))
    divisor = np.maximum(counts, 1.0)
    return np.asarray(np.where(counts > 0, scale * np.sqrt(squared_boundary) / divisor, np.inf))


def unit_intervals(
    n: ArrayLike, sums: ArrayLike, squares: ArrayLike, deltas: ArrayLike
) -> tuple[Floats, Floats]:
    """Return the ends of the intervals for rewards in [0, 1]; the ends are 0 and 1 if n is 0.

    The upper end is 1 minus the lower end for the rewards 1 - x.
    """
    counts, totals, square_sums, log_levels = np.broadcast_arrays(
        *(np.asarray(values, dtype=float) for values in (n, sums, squares, -np.log(deltas)))
    )
    mirrored_totals = counts - totals
    mirrored_squares = counts - 2 * totals + square_sums
    ends = _lower_ends(
        np.concatenate([counts.ravel()] * 2),
        np.concatenate([totals.ravel(), mirrored_totals.ravel()]),
        np.concatenate([square_sums.ravel(), mirrored_squares.ravel()]),
        np.concatenate([log_levels.ravel()] * 2),
    )
    low, high = np.split(ends, 2)
    return low.reshape(counts.shape), 1 - high.reshape(counts.shape)


def lost_intervals(
    n: ArrayLike, sums: ArrayLike, squares: ArrayLike, n_lost: ArrayLike, deltas: ArrayLike
) -> tuple[Floats, Floats]:
    """Return the ends of intervals that are valid even if the loss of a report depends on its reward.

    The lower end counts each lost reward as 0 and the upper end counts each lost reward as 1. Both
    ends are non-decreasing functions of every reward, so the interval contains the interval of the
    complete data. Rewards are in [0, 1].
    """
    counts, lost_counts = np.asarray(n, dtype=float), np.asarray(n_lost, dtype=float)
    totals, square_sums = np.asarray(sums, dtype=float), np.asarray(squares, dtype=float)
    low, _ = unit_intervals(counts + lost_counts, totals, square_sums, deltas)
    _, high = unit_intervals(
        counts + lost_counts, totals + lost_counts, square_sums + lost_counts, deltas
    )
    return low, high


def _lower_ends(n: Floats, sums: Floats, squares: Floats, levels: Floats) -> Floats:
    """Return, for each arm, the largest mean below S/n with log(M/2 + E/4) at least `levels`.

    M and E are the mixtures of the module's docstring. Newton's method is applied to the
    square root of the logarithm and aims slightly above the level. The result is the largest mean
    found at which the logarithm reaches the level, so the interval is never too narrow.
    """
    ends = np.zeros(n.size)
    [used_arms] = np.nonzero((n > 0) & (sums > 0))
    n, sums, squares, levels = (values[used_arms] for values in (n, sums, squares, levels))
    means, costs = np.minimum(sums / n, 1.0), regret_of_mixture(n, sums)
    ends[used_arms] = low = _rejected_means(n, sums, squares, levels, costs)
    is_positive = low > 1e-290  # otherwise the end is 0 up to rounding
    used_arms = used_arms[is_positive]
    n, sums, squares, levels, means, costs, low = (
        values[is_positive] for values in (n, sums, squares, levels, means, costs, low)
    )
    root_goal, high, x = np.sqrt(levels * (1 + 1e-7)), means, low
    for _ in range(MAX_STEPS):
        value, slope = _log_evidence(n, sums, squares, means, costs, x)
        is_rejected = value >= levels
        low = np.where(is_rejected, np.maximum(low, x), low)
        high = np.where(is_rejected, high, np.minimum(high, x))
        root = np.sqrt(np.maximum(value, 1e-9))
        is_found = is_rejected & (root - root_goal < 1e-6 * root_goal)
        if is_found.all():
            break
        next_x = x + 2 * root * (root_goal - root) / np.minimum(slope, -1e-300)
        is_inside = (next_x >= low) & (next_x <= high)
        x = np.where(is_found, x, np.where(is_inside, next_x, (low + high) / 2))
    ends[used_arms] = low
    return ends


def _rejected_means(
    n: Floats, sums: Floats, squares: Floats, levels: Floats, costs: Floats
) -> Floats:
    """Return, for each arm, a rejected mean that is close to the largest rejected mean.

    The result is the larger of two means: the largest mean that a single bet rejects, and a mean that
    M rejects because of n kl(S/n, m) >= S log(S/(n m)) - S + n m.
    """
    exponent = (levels + np.log(2) + costs) / sums
    mean_ratio = np.exp(-exponent - 1)  # n m / S; each step comes closer to the root
    for _ in range(3):
        mean_ratio = np.exp(mean_ratio - exponent - 1)
    from_mixture = mean_ratio * sums / n
    # penalty * n * m^2 + b * m + c = 0
    b = np.outer(n, BETS) - 2 * np.outer(sums, PENALTIES)
    c = (levels + np.log(4 * BETS.size))[:, np.newaxis] + (
        np.outer(squares, PENALTIES) - np.outer(sums, BETS)
    )
    discriminant = b * b - 4 * np.outer(n, PENALTIES) * c
    roots = -2 * c / (b + np.sqrt(np.maximum(discriminant, 0.0)))
    from_bets = np.where((discriminant > 0) & (c < 0), roots, 0.0).max(axis=1)
    return np.asarray(np.maximum(from_mixture, from_bets * (1 - 1e-12)))


def _log_evidence(
    n: Floats, sums: Floats, squares: Floats, means: Floats, costs: Floats, x: Floats
) -> tuple[Floats, Floats]:
    """Return log(M/2 + E/4) and its derivative at the means `x`."""
    excess = sums - n * x
    variation = squares - 2 * x * sums + n * x * x
    terms = np.column_stack([excess, variation]) @ np.array([BETS, -PENALTIES])
    terms -= np.log(4 * BETS.size)
    divergence = xlogy(sums, means / x) + xlogy(n - sums, (1 - means) / (1 - x))
    mixture_term = divergence - costs - np.log(2)
    largest_term = np.maximum(terms.max(axis=1), mixture_term)
    bet_weights = np.exp(terms - largest_term[:, np.newaxis])
    mixture_weight = np.exp(mixture_term - largest_term)
    weighted_bet, weighted_penalty, bet_total = (
        bet_weights @ np.column_stack([BETS, PENALTIES, np.ones(BETS.size)])
    ).T
    slope = (
        -weighted_bet * n + 2 * weighted_penalty * excess - mixture_weight * excess / (x * (1 - x))
    )
    return largest_term + np.log(bet_total + mixture_weight), slope / (bet_total + mixture_weight)


def regret_of_mixture(n: ArrayLike, sums: ArrayLike) -> Floats:
    r"""Return C(n, S): the log-likelihood of the mean S/n minus that of the Beta(1/2, 1/2) mixture.

    C is at most \log(n)/2 + \log 2. If S and n - S are large, a subtraction of the logarithms would
    cancel all digits, so the function uses Stirling's series for the Gamma function.
    """
    counts, totals = np.broadcast_arrays(np.asarray(n, dtype=float), np.asarray(sums, dtype=float))
    failures = np.maximum(counts - totals, 0.0)
    z, x, y = counts + 1, totals + 0.5, failures + 0.5
    smaller_counts, larger_counts = np.minimum(totals, failures), np.maximum(totals, failures)
    divisor = np.maximum(counts, 1.0)
    direct_formula = (
        xlogy(smaller_counts, smaller_counts / divisor)
        + larger_counts * np.log1p(-smaller_counts / divisor)
        - betaln(x, y)
    )
    is_large = smaller_counts >= 20
    s, r = np.where(is_large, totals, 20.0), np.where(is_large, failures, 20.0)
    stirling_formula = (
        -s * np.log1p((counts / 2 - s) / (s * z))
        - r * np.log1p((counts / 2 - r) / (r * z))
        + 0.5 * np.log(z / (2 * np.pi))
        - _stirling(x)
        - _stirling(y)
        + _stirling(z)
    )
    return np.asarray(np.where(is_large, stirling_formula, direct_formula) + np.log(np.pi))


def _stirling(x: Floats) -> Floats:
    """Return the remainder of Stirling's formula for log Gamma(x), for x of at least 20."""
    inverse_square = 1 / (x * x)
    return (1 / 12 - inverse_square * (1 / 360 - inverse_square / 1260)) / x


def loss_rate_evidence(n_lost: ArrayLike, n_told: ArrayLike, n_pending: ArrayLike) -> float:
    r"""Return the logarithm of an e-process for the hypothesis that all arms have the same loss rate.

    Under the hypothesis, the probability that the result ever reaches \log(1/\alpha) is at most
    \alpha. The numerator of the e-process is the product of the Beta(1/2, 1/2) mixtures of the arms.
    The denominator is the largest likelihood of a common loss rate.

    Reports arrive earlier than losses are noticed, so the pending decisions must not be left out. The
    result is nearly the minimum over all ways to count them as lost or reported. Up to the error of
    Stirling's formula, the minimum has a common loss rate of one of three kinds: the rate of an arm
    if all its pending decisions are lost, the rate of an arm if none of them is lost, or the joint
    rate of all arms whose own rate cannot reach it. In 1,400 random cases with a minimum above 3, the
    result exceeded the minimum by at most 0.005.
    """
    lost_counts, told_counts, pending_counts = (
        np.asarray(v, dtype=float) for v in (n_lost, n_told, n_pending)
    )
    max_lost_counts = lost_counts + pending_counts
    totals = max_lost_counts + told_counts
    divisors = np.maximum(totals, 1.0)
    end_rates = np.sort(np.concatenate([lost_counts / divisors, max_lost_counts / divisors]))
    middles = (end_rates[:-1] + end_rates[1:]) / 2
    losses = np.clip(middles[:, np.newaxis] * totals, lost_counts, max_lost_counts)
    is_end = (losses == lost_counts) | (losses == max_lost_counts)
    end_losses, end_totals = (is_end * losses).sum(axis=1), (is_end * totals).sum(axis=1)
    common_rates = np.clip(end_losses / np.maximum(end_totals, 1.0), end_rates[:-1], end_rates[1:])
    rates = np.concatenate([end_rates, common_rates])
    # for each common rate, the pending decisions bring the arms as close to the rate as possible
    losses = np.clip(rates[:, np.newaxis] * totals, lost_counts, max_lost_counts)
    mixtures = (betaln(losses + 0.5, totals - losses + 0.5) - np.log(np.pi)).sum(axis=1)
    n, total = totals.sum(), losses.sum(axis=1)
    likelihood = xlogy(total, total / max(n, 1.0)) + xlogy(n - total, (n - total) / max(n, 1.0))
    return float((mixtures - likelihood).min())


def off_policy_interval(
    n: int, total: float, squares: float, max_weight: float, baseline: float, delta: float
) -> tuple[float, float]:
    r"""Return a confidence sequence for the mean reward of a policy that did not choose the arms.

    At visit t the log has an arm, chosen with probability \pi_t, and its reward X_t in [0, 1]. The
    evaluated policy chooses this arm with probability w_t \pi_t. For any constant m,
    \phi_t = m + w_t (X_t - m) is an unbiased estimate of the policy's mean reward v_t at this visit.
    Let R = 1 + m w_{max} and \psi(\lambda) = -\log(1-\lambda) - \lambda. Since \phi_t - m is at least
    -R, the product of

    .. math:: \exp\big(\lambda (\phi_t - v_t)/R - \psi(\lambda) (\phi_t - m)^2/R^2\big)

    is a supermartingale for each of the 24 bets \lambda, with a predictable centre m (Howard, Ramdas,
    McAuliffe and Sekhon, 2021). The lower end holds for all bets at all times with probability
    1 - \delta/2. The upper end follows in the same way from the rewards 1 - x. The means v_t may
    change from visit to visit. The interval is for their average over the n visits so far.

    Parameters
    ----------
    n
        The number of visits.
    total, squares
        The sum of w_t (X_t - m), and the sum of its squares.
    max_weight
        An upper bound on w_t that was known before the visits.
    baseline
        The constant m in [0, 1]; it must be chosen without looking at the rewards.
    delta
        The probability that the interval ever misses the average is at most delta.
    """
    low = baseline - _off_policy_radius(n, -total, squares, 1 + baseline * max_weight, delta)
    high = baseline + _off_policy_radius(n, total, squares, 1 + (1 - baseline) * max_weight, delta)
    return max(0.0, low), min(1.0, high)


def _off_policy_radius(n: int, total: float, squares: float, bound: float, delta: float) -> float:
    costs = bound * np.log(2 * BETS.size / delta) / BETS + PENALTIES / BETS * squares / bound
    return float((total + costs.min()) / n) if n else np.inf


def count_visits_needed(
    precision: float, mean_square: float, max_weight: float, baseline: float, delta: float
) -> float:
    """Return the number of visits after which the half-width of `off_policy_interval` is `precision`.

    The number is an approximation. `mean_square` is the expected square of w_t (X_t - m), in the
    symbols of `off_policy_interval`.
    """
    bound = 1 + max(baseline, 1 - baseline) * max_weight
    margins = precision - PENALTIES / BETS * mean_square / bound
    costs = bound * np.log(2 * BETS.size / delta) / BETS
    return float(np.min(np.where(margins > 0, costs / np.maximum(margins, 1e-300), np.inf)))


def gap_intervals(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return lower and upper bounds on the gap of each arm to the best arm.

    `low` and `high` are the ends of the intervals for the means.
    """
    low_gaps = np.maximum(low.max() - high, 0.0)
    high_gaps = np.empty_like(low)
    for arm in range(low.size):
        other_highs = np.delete(high, arm)
        high_gaps[arm] = max(0.0, other_highs.max() - low[arm])
    return low_gaps, high_gaps


def regret_interval(n_pulls: ArrayLike, low: Floats, high: Floats) -> tuple[float, float]:
    r"""Return an interval for the regret, from intervals for the means.

    The regret is \sum_i \Delta_i N_i, where \Delta_i is the gap of arm i and N_i its number of pulls.
    For the lower bound, the best mean is the largest lower end of all intervals, and the mean of each
    arm is the upper end of its interval. The upper bound is the largest regret over all choices of
    the best arm. The mean of the best arm is then the upper end of its interval, and the mean of each
    other arm is the lower end of its interval.
    """
    pulls = np.asarray(n_pulls, dtype=float)
    is_pulled = pulls > 0
    low_regret = float((pulls[is_pulled] * np.maximum(low.max() - high[is_pulled], 0.0)).sum())
    high_regret = 0.0
    for arm in np.flatnonzero(high >= low.max()):
        is_other = is_pulled & (np.arange(pulls.size) != arm)
        high_regret = max(
            high_regret, float((pulls[is_other] * np.maximum(high[arm] - low[is_other], 0.0)).sum())
        )
    return low_regret, high_regret
