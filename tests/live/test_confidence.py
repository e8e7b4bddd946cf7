"""Tests of the confidence sequences: exact coverage, widths, shares of delta, lost reports."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.special import betaln, xlogy

from kibitz.live.agent.confidence import (
    BETS,
    RHO,
    gap_intervals,
    gaussian_radius,
    intervals,
    loss_rate_evidence,
    lost_intervals,
    regret_interval,
    regret_of_mixture,
    split_delta,
    unit_intervals,
)

pytestmark = pytest.mark.slow


def log_process(n, s, q, mu):
    """Return log(M/2 + E/4) in 40 digits: M is the mixture martingale and E the mean of the bets."""
    with mpmath.workdps(40):
        n, s, q, mu = (mpmath.mpf(float(value)) for value in (n, s, q, mu))
        half = mpmath.mpf(1) / 2
        mixture = mpmath.beta(s + half, n - s + half) / mpmath.pi / (mu**s * (1 - mu) ** (n - s))
        bets = [mpmath.mpf("0.58") / mpmath.mpf("1.6") ** k for k in range(24)]
        costs = [-mpmath.log(1 - bet) - bet for bet in bets]
        variation = q - 2 * mu * s + n * mu**2
        terms = [
            mpmath.exp(bet * (s - n * mu) - cost * variation)
            for bet, cost in zip(bets, costs, strict=True)
        ]
        return float(mpmath.log(mixture / 2 + mpmath.fsum(terms) / 24 / 4))


def test_the_regret_of_the_mixture_agrees_with_40_digits():
    """The negative control subtracts the logarithms directly: its error exceeds 1e-7 at n = 10^9."""
    largest_error = 0.0
    for n in (1, 7, 100, 10**4, 10**6, 10**9):
        for s in sorted({0, 1, 20, 21, n // 1000, n // 3, n // 2, n - 20, n - 1, n}):
            if not 0 <= s <= n:
                continue
            with mpmath.workdps(40):
                likelihood = sum(k * mpmath.log(mpmath.mpf(k) / n) for k in (s, n - s) if k)
                log_gamma = mpmath.loggamma
                half = mpmath.mpf(1) / 2
                log_beta = (
                    log_gamma(s + half) + log_gamma(n - s + half) - log_gamma(mpmath.mpf(n + 1))
                )
                exact_regret = float(likelihood - log_beta + mpmath.log(mpmath.pi))
            assert regret_of_mixture(n, s) == pytest.approx(exact_regret, abs=1e-8)
            assert 0 <= exact_regret <= 0.5 * math.log(n) + math.log(2) + 1e-12
            naive_regret = sum(k * math.log(k / n) for k in (s, n - s) if k) - betaln(
                s + 0.5, n - s + 0.5
            )
            largest_error = max(largest_error, abs(naive_regret + math.log(math.pi) - exact_regret))
    assert largest_error > 1e-7


@pytest.mark.parametrize(
    ("n", "s", "q", "delta"),
    [(1, 1, 1, 0.05), (10, 1, 1, 0.01), (100, 5, 5, 0.01), (1000, 13, 13, 0.009), (50, 49, 49, 0.1),
     (400, 200, 100.5, 0.01), (2000, 100.0, 10.0, 0.2), (10**5, 300, 300, 1e-6)],
)  # fmt: skip
def test_the_ends_are_the_roots_of_the_process(n, s, q, delta):
    """The process reaches 1/delta at each end of an interval, but not slightly inside it."""
    low, high = unit_intervals(n, s, q, delta)
    log_threshold = -math.log(delta)
    for end, reward_sum, square_sum in ((low, s, q), (1 - high, n - s, n - 2 * s + q)):
        if reward_sum == 0:
            assert end == 0
            continue
        assert log_process(n, reward_sum, square_sum, end) >= log_threshold - 1e-9
        assert (
            log_process(n, reward_sum, square_sum, end + 1e-5 * (reward_sum / n - end))
            < log_threshold
        )


def test_half_widths_agree_with_the_table():
    """The table of half-widths (percentage points, delta = 0.01) was computed with other code."""
    table = {
        (0.01, 1e2): 5.4, (0.01, 1e3): 1.36, (0.01, 1e4): 0.428, (0.01, 1e5): 0.136,
        (0.01, 1e6): 0.043, (0.05, 1e2): 8.9, (0.05, 1e4): 0.936, (0.05, 1e6): 0.092,
        (0.3, 1e2): 17.5, (0.3, 1e4): 1.94, (0.3, 1e6): 0.194, (0.5, 1e2): 19.0, (0.5, 1e4): 2.12,
        (0.5, 1e6): 0.211,
    }  # fmt: skip
    for (p, n), half_width in table.items():
        s = round(n * p)
        low, high = unit_intervals(n, s, s, 0.01)
        assert 50 * (high - low) == pytest.approx(half_width, rel=0.013)
    low, high = unit_intervals(1000, 0, 0, 0.01)
    assert (low, high) == (0, pytest.approx(0.0093, abs=5e-5))
    assert unit_intervals(0, 0, 0, 0.01) == (0, 1)


def test_a_small_variance_makes_narrow_intervals():
    """Rewards with mean 1/2 and standard deviation 0.058 get narrower intervals than clicks."""
    n = 10_000
    low, high = unit_intervals([n, n], [n / 2, n / 2], [n / 2, n * (0.25 + 0.04 / 12)], 0.01)
    assert 50 * (high - low) == pytest.approx([2.12, 0.312], rel=0.01)


def failure_probability(p, n_max, is_covered):
    """Return the exact probability that any interval after 1 to `n_max` 0/1 rewards misses `p`.

    States that are more than seven standard deviations from their mean are dropped; this changes the
    result by less than 1e-8.
    """
    n = np.arange(1, n_max + 1)
    half_range = 7 * np.sqrt(n * p * (1 - p)) + 15
    first_sums = np.maximum(0, np.floor(n * p - half_range)).astype(int)
    sizes = np.minimum(n, np.ceil(n * p + half_range)).astype(int) + 1 - first_sums
    s = np.concatenate(
        [
            np.arange(first_sum, first_sum + size)
            for first_sum, size in zip(first_sums, sizes, strict=True)
        ]
    )
    covered_sums = np.split(
        is_covered(np.repeat(n, sizes).astype(float), s.astype(float)), np.cumsum(sizes)
    )
    probabilities, first_sum, failure = np.array([1.0]), 0, 0.0
    for k in range(n_max):
        probabilities = np.append(probabilities * (1 - p), 0.0) + np.append(0.0, probabilities * p)
        probabilities = probabilities[first_sums[k] - first_sum :][: sizes[k]]
        probabilities = np.append(probabilities, np.zeros(sizes[k] - probabilities.size))
        first_sum = first_sums[k]
        failure += probabilities[~covered_sums[k]].sum()
        probabilities = np.where(covered_sums[k], probabilities, 0.0)
    return failure


def log_ratio(n, s, p):
    """Return n kl(s/n, p), the log-likelihood ratio of the mean s/n against p."""
    return xlogy(s, s / n / p) + xlogy(n - s, (1 - s / n) / (1 - p))


def mix_bets(n, s, p):
    """Return the mixture of the bets on 0/1 rewards with a larger mean than `p`."""
    sizes = 0.58 / 1.6 ** np.arange(24)
    costs = -np.log1p(-sizes) - sizes
    variation = s * (1 - 2 * p) + n * p**2
    return (
        sum(np.exp(x * (s - n * p) - c * variation) for x, c in zip(sizes, costs, strict=True)) / 24
    )


@pytest.mark.parametrize(
    ("p", "mixture_failure", "process_failure"),
    [(0.001, 0.0084, 0.0055), (0.013, 0.0229, 0.0069), (0.05, 0.0227, 0.0124), (0.3, 0.0366, 0.0184)],
)
def test_exact_coverage_at_all_times(p, mixture_failure, process_failure):
    """Dynamic programming gives the exact probability that any of 2000 intervals misses the mean.

    The expected numbers were computed with other code, for the mixture alone and for the whole
    process. Each end of an interval uses only a part of the process, so the intervals fail less
    often than the process; the test compares their failures in 400 intervals. Wald intervals, and
    the mixture without its cost C, are the negative controls.
    """
    delta, n_max = 0.05, 2000

    def compute_process(n, s):
        mixture = np.exp(log_ratio(n, s, p) - regret_of_mixture(n, s))
        return mixture / 2 + mix_bets(n, s, p) / 4 + mix_bets(n, n - s, 1 - p) / 4

    def is_in_interval(n, s):
        low, high = unit_intervals(n, s, s, delta)
        return (low <= p) & (p <= high)

    def is_in_mixture(n, s):
        return log_ratio(n, s, p) < regret_of_mixture(n, s) - math.log(delta)

    def is_in_wald(n, s):
        return np.abs(s / n - p) <= 1.96 * np.sqrt(p * (1 - p) / n)

    def is_in_process(n, s):
        return compute_process(n, s) < 1 / delta

    assert failure_probability(p, n_max, is_in_process) == pytest.approx(process_failure, abs=6e-5)
    exact_failure = failure_probability(p, 400, is_in_process)
    assert 0.8 * exact_failure < failure_probability(p, 400, is_in_interval) <= exact_failure + 1e-9
    assert failure_probability(p, n_max, is_in_mixture) == pytest.approx(mixture_failure, abs=6e-5)
    assert failure_probability(p, n_max, is_in_wald) > delta
    assert failure_probability(p, n_max, lambda n, s: log_ratio(n, s, p) < -math.log(delta)) > delta


def test_the_gaussian_radius_agrees_with_the_inequality():
    for n, delta, scale in [(1, 0.05, 1.0), (100, 0.01, 0.5), (10**6, 0.2, 3.0)]:
        log_term = 2 * math.log(1 / delta) + math.log((n + RHO) / RHO)
        expected_radius = scale / n * math.sqrt((n + RHO) * log_term)
        assert gaussian_radius(n, delta, scale) == pytest.approx(expected_radius, rel=1e-12)
    assert gaussian_radius(0, 0.05) == math.inf
    low, high = intervals("gaussian", [0, 4], [0.0, 8.0], [0.0, 17.0], [0.05, 0.05], 2.0)
    assert low[0] == -math.inf
    assert high[0] == math.inf
    assert [low[1], high[1]] == pytest.approx([2 - (r := gaussian_radius(4, 0.05, 2.0)), 2 + r])


@pytest.mark.parametrize("setting", ["gaussian", "uniform", "adaptive"])
def test_at_most_delta_of_runs_ever_leave_the_interval(setting):
    """The interval is checked after each of 10^4 observations in each of 1000 runs.

    With delta = 0.1, at most 100 runs are expected to leave the interval. The limit 148 is five
    standard deviations higher; the probability of a false alarm is below 10^-5. Wald intervals are
    the negative control.
    """
    rng = np.random.default_rng(1)
    n_runs, n_looks, delta = 1000, 10_000, 0.1
    counts = np.arange(1, n_looks + 1)
    half_width = gaussian_radius(counts, delta, 1.0)
    n_outside, n_outside_wald = 0, 0
    for _ in range(n_runs):
        rewards = rng.standard_normal(n_looks)
        if setting == "uniform":
            rewards = rng.uniform(-1, 1, n_looks)
        means = np.cumsum(rewards) / counts
        is_outside = np.abs(means) >= half_width
        if setting == "adaptive":  # optional stopping does not increase the error
            is_outside = is_outside[: 1 + int(np.argmax(means[100:])) + 100]
        n_outside += bool(is_outside.any())
        n_outside_wald += bool(np.any(np.abs(means) > 1.645 / np.sqrt(counts)))
    assert n_outside <= 148
    assert n_outside_wald > 148 or setting == "uniform"
    assert setting != "gaussian" or n_outside >= 10  # fewer failures mean too wide intervals


def test_the_shares_of_delta_never_change_and_sum_to_at_most_delta():
    for n_founding in (2, 3, 50):
        previous_shares = np.zeros(0)
        for n_arms in [*range(n_founding, n_founding + 40), 5000]:
            shares = split_delta(0.05, n_founding, n_arms)
            assert shares.sum() <= 0.05
            assert np.all(shares[: previous_shares.size] == previous_shares)
            previous_shares = shares
    spent_delta = 0.05 + sum(0.05 / k for k in range(3, 101))  # if each new arm got delta / K
    assert spent_delta > 4 * 0.05


def test_intervals_hold_together_while_arms_are_added():
    """An agent with 2 arms gets 98 more arms; each arm is observed 3000 times.

    With delta = 0.2, at most 200 of 1000 runs are expected to fail. The limit is five standard
    deviations higher; the probability of a false alarm is below 10^-5. The negative control gives
    each new arm delta / K with the current K.
    """
    rng = np.random.default_rng(2)
    delta, n_runs, counts = 0.2, 1000, np.arange(10, 3001, 10)
    shares = split_delta(delta, 2, 100)
    has_failed, has_control_failed = np.zeros(n_runs, bool), np.zeros(n_runs, bool)
    for arm in range(100):
        steps = math.sqrt(10) * rng.standard_normal((n_runs, counts.size), dtype=np.float32)
        means = np.abs(np.cumsum(steps, axis=1)) / counts
        has_failed |= (means >= gaussian_radius(counts, shares[arm])).any(axis=1)
        has_control_failed |= (means >= gaussian_radius(counts, delta / max(2, arm + 1))).any(axis=1)
    limit = n_runs * delta + 5 * math.sqrt(n_runs * delta * (1 - delta))
    assert has_failed.sum() <= limit
    assert has_control_failed.sum() > limit


def test_lost_reports_widen_the_interval_by_the_worst_case():
    """The interval contains the interval of the complete data, for all values of lost rewards.

    The interval that ignores the losses is the negative control.
    """
    rng = np.random.default_rng(4)
    is_outside = False
    for _ in range(150):
        n, n_lost = int(rng.integers(1, 400)), int(rng.integers(0, 40))
        reward_shape = rng.integers(3)
        known_rewards = (
            rng.random(n) if reward_shape else (rng.random(n) < rng.random()).astype(float)
        )
        known_rewards = 0.5 + 0.02 * (known_rewards - 0.5) if reward_shape == 2 else known_rewards
        lost_rewards = rng.random(n_lost) if rng.random() < 0.5 else np.round(rng.random(n_lost))
        all_rewards = np.append(known_rewards, lost_rewards)
        low, high = lost_intervals(n, known_rewards.sum(), (known_rewards**2).sum(), n_lost, 0.02)
        complete_interval = unit_intervals(
            n + n_lost, all_rewards.sum(), (all_rewards**2).sum(), 0.02
        )
        assert low <= complete_interval[0] + 1e-9
        assert high >= complete_interval[1] - 1e-9
        interval_without_losses = unit_intervals(
            n, known_rewards.sum(), (known_rewards**2).sum(), 0.02
        )
        is_outside |= bool(interval_without_losses[0] > complete_interval[0] + 1e-6)
    assert is_outside


def test_the_ends_increase_with_every_reward():
    rng = np.random.default_rng(5)
    n = np.floor(10 ** rng.uniform(0, 4, 2000))
    s = n * 10 ** rng.uniform(-3, 0, 2000)
    q = s * rng.uniform(s / n, 1)
    extra_rewards = rng.random(2000)
    ends_before = unit_intervals(n + 1, s, q, 0.03)
    ends_after = unit_intervals(n + 1, s + extra_rewards, q + extra_rewards**2, 0.03)
    for end_before, end_after in zip(ends_before, ends_after, strict=True):
        assert np.all(end_after >= end_before - 1e-6)


def test_loss_rates_are_compared_at_all_times():
    """If all arms lose reports equally, at most 10 % of runs ever have a warning at level 0.1.

    Reports arrive at once, losses are noticed 50 decisions later, and the traffic moves to the
    second arm. The negative control ignores the pending decisions. With 200 runs, the limit 41 is
    five standard deviations above the expectation; the probability of a false alarm is below 1e-5.
    """
    rng = np.random.default_rng(6)
    n_runs, n_stages, delay, log_threshold = 200, 240, 50, math.log(10)
    has_warning, has_control_warning = np.zeros(n_runs, bool), np.zeros(n_runs, bool)
    for run in range(n_runs):
        arms = (np.arange(n_stages) >= 120).astype(int)
        is_lost = rng.random(n_stages) < 0.4
        for t in range(20, n_stages, 20):
            is_noticed = np.arange(t) < t - delay
            counts = [
                [int((arms[:t][selection] == arm).sum()) for arm in (0, 1)]
                for selection in (is_lost[:t] & is_noticed, ~is_lost[:t], is_lost[:t] & ~is_noticed)
            ]
            has_warning[run] |= loss_rate_evidence(*counts) >= log_threshold
            has_control_warning[run] |= loss_rate_evidence(*counts[:2], [0, 0]) >= log_threshold
    assert has_warning.sum() <= 41
    assert has_control_warning.sum() > 41


def test_different_loss_rates_are_found():
    expected_evidence = betaln(40.5, 60.5) + betaln(5.5, 95.5) - 2 * math.log(math.pi)
    expected_evidence -= 45 * math.log(45 / 200) + 155 * math.log(155 / 200)
    assert loss_rate_evidence([40, 5], [60, 95], [0, 0]) == pytest.approx(expected_evidence)
    assert expected_evidence > math.log(1000)
    assert loss_rate_evidence([40, 5], [60, 95], [0, 60]) < 0  # the pending reports may be lost
    assert loss_rate_evidence([0, 0], [0, 0], [0, 0]) <= 0


def test_the_evidence_is_the_least_over_all_outcomes_of_pending_decisions():
    """Positive evidence exceeds the least evidence over all outcomes by at most 0.001.

    The negative controls take the least evidence over 21 common rates, or take all pending decisions
    as reported.
    """
    rng = np.random.default_rng(4)
    n_positive, control_errors = 0, np.zeros(2)
    for _ in range(60):
        totals = rng.integers(30, 300, 3)
        pending_counts = rng.integers(0, 26, 3)
        rates = rng.uniform(0.05, 0.6) * np.exp(rng.normal(0, 0.7, 3))
        lost_counts = rng.binomial(totals - pending_counts, np.minimum(rates, 0.9))
        told_counts = totals - pending_counts - lost_counts
        outcomes = np.array(list(itertools.product(*(range(n + 1) for n in pending_counts))))

        def compute_evidence(losses, totals=totals):
            n, total = totals.sum(), losses.sum(axis=1)
            mixtures = (betaln(losses + 0.5, totals - losses + 0.5) - np.log(np.pi)).sum(axis=1)
            return mixtures - xlogy(total, total / n) - xlogy(n - total, 1 - total / n)

        least = compute_evidence(lost_counts + outcomes).min()
        evidence = loss_rate_evidence(lost_counts, told_counts, pending_counts)
        if evidence > 0:
            n_positive += 1
            assert evidence <= least + 0.001
            grid = np.clip(
                np.linspace(0, 1, 21)[:, None] * totals, lost_counts, lost_counts + pending_counts
            )
            controls = [
                compute_evidence(grid).min(),
                loss_rate_evidence(lost_counts, told_counts + pending_counts, 0 * totals),
            ]
            control_errors = np.maximum(control_errors, np.array(controls) - least)
    assert n_positive > 20
    assert np.all(control_errors > 0.1)


def test_a_coarse_grid_of_rates_does_not_overstate_the_evidence():
    """An outcome of the pending decisions has evidence 4.000; a grid of 201 rates gave 4.114."""
    lost_counts, told_counts = [17, 795, 8, 14717, 7], [5, 4148, 27, 76846, 8]
    losses = np.array([17, 895, 8, 16498, 7])
    totals = np.array([24, 5056, 36, 93344, 15])
    n, total = totals.sum(), losses.sum()
    evidence = (betaln(losses + 0.5, totals - losses + 0.5) - np.log(np.pi)).sum()
    evidence -= xlogy(total, total / n) + xlogy(n - total, 1 - total / n)
    assert loss_rate_evidence(lost_counts, told_counts, [2, 113, 1, 1781, 0]) <= evidence < 4.001


def test_the_regret_lies_in_its_interval_if_the_means_do():
    rng = np.random.default_rng(3)
    for _ in range(300):
        means, pulls = rng.normal(size=4), rng.integers(0, 50, 4)
        low, high = means - rng.exponential(size=4), means + rng.exponential(size=4)
        regret_low, regret_high = regret_interval(pulls, low, high)
        regret = float((pulls * (means.max() - means)).sum())
        assert regret_low - 1e-9 <= regret <= regret_high + 1e-9
        gap_low, gap_high = gap_intervals(low, high)
        gaps = means.max() - means
        assert np.all((gap_low <= gaps + 1e-9) & (gaps <= gap_high + 1e-9))
    exact_means = np.array([1.0, 0.5])
    assert regret_interval([3, 4], exact_means, exact_means) == (2.0, 2.0)


def test_the_bets_keep_the_process_decreasing():
    """Each bet x satisfies 2 (-log(1 - x) - x) <= x; the larger bet 0.6 does not."""
    assert np.all(2 * (-np.log1p(-BETS) - BETS) <= BETS)
    assert 2 * (-math.log1p(-0.6) - 0.6) > 0.6
