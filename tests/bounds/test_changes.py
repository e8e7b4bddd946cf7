"""Tests of the theory of changing means against brute force and simulated observations.

The simulations have fixed seeds. Each statistical test states the probability that it would fail with
a random seed although the code is right.
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy.special import erfc, xlogy
from scipy.stats import binom, norm

from kibitz.bounds import complexity, concentration, lower


def list_windows(n):
    """Return the lengths of the windows that the scan tests after n observations without an alarm."""
    windows = {1, 2}
    for level in range(n.bit_length()):
        if n % 2**level == 0:
            windows |= {3 * 2**level, 4 * 2**level}
    return sorted(w for w in windows if w < n)


def simulate_first_alarms(rewards, threshold, start=0):
    """Return the number of observations at the first alarm of each row of rewards.

    The number is infinite for a row without an alarm. The scan starts after `start` observations.
    """
    sums = np.concatenate((np.zeros((len(rewards), 1)), rewards.cumsum(axis=1)), axis=1)
    first = np.full(len(rewards), math.inf)
    for n in range(start + 1, rewards.shape[1] + 1):
        for w in list_windows(n):
            s = n - w
            difference = (sums[:, n] - sums[:, s]) / w - sums[:, s] / s
            is_alarm = s * w / n * difference**2 / 2 > threshold + math.log(n / w)
            first[is_alarm & (first > n)] = n
    return first


# False alarms


@pytest.mark.parametrize("threshold", [0.0, 4.0, 9.5])
@pytest.mark.parametrize("n", [1, 2, 5, 64, 65, 1500])
def test_the_bound_on_false_alarms_is_the_sum_over_all_tests(n, threshold):
    tests = [(k, w) for k in range(2, n + 1) for w in list_windows(k)]
    levels = [threshold + math.log(k / w) for k, w in tests]
    for gaussian, expected in (
        (True, math.fsum(erfc(math.sqrt(x)) for x in levels)),
        (False, math.fsum(2 * math.exp(-x) for x in levels)),
    ):
        bound = concentration.scan_false_alarms(n, threshold, gaussian=gaussian)
        assert bound == pytest.approx(min(expected, 1.0), rel=1e-5)
        assert bound >= min(expected, 1.0) * (1 - 1e-12)


@cache
def compute_false_alarm_rate(threshold, law):
    rng = np.random.default_rng(1)
    shape = (4000, 1000)
    rewards = rng.standard_normal(shape) if law == "normal" else rng.choice([-1.0, 1.0], shape)
    return float(np.isfinite(simulate_first_alarms(rewards, threshold)).mean())


def test_false_alarms_are_at_most_as_frequent_as_the_bound():
    """With a random seed, the test fails with probability below 1e-9.

    The probability of a false alarm is about 0.051 for Gaussian rewards, and the bound is 0.089. The
    limits 0.04 and 0.089 are more than 3 and 10 standard errors of 0.0035 away from 0.051. The lower
    limit only shows that the bound is not loose.
    """
    share = compute_false_alarm_rate(6.0, "normal")
    assert 0.4 * concentration.scan_false_alarms(1000, 6.0) < share
    assert share < concentration.scan_false_alarms(1000, 6.0) < 0.09
    assert compute_false_alarm_rate(6.0, "signs") < concentration.scan_false_alarms(
        1000, 6.0, gaussian=False
    )


@pytest.mark.parametrize("gaussian", [True, False])
def test_the_threshold_is_the_smallest_that_keeps_the_false_alarm_probability(gaussian):
    n, delta = [[100], [10**5], [2**53]], [1e-300, 0.02, 0.5]
    thresholds = concentration.scan_threshold(n, delta, gaussian=gaussian)
    bounds = concentration.scan_false_alarms(n, thresholds, gaussian=gaussian)
    assert (bounds <= np.array(delta)).all()
    assert bounds == pytest.approx(np.broadcast_to(delta, bounds.shape), rel=1e-6)
    assert concentration.scan_threshold(1, 0.1) == 0  # one observation cannot raise an alarm


def test_the_threshold_of_lookout_keeps_its_promise_for_small_probabilities_only():
    """log(100 K/δ) keeps the probability of an alarm below δ for δ ≤ 0.2, but not for δ = 0.5."""
    for n_arms in (2, 5, 20):
        for delta in (0.01, 0.1, 0.2):
            threshold = math.log(100 * n_arms / delta)
            assert n_arms * concentration.scan_false_alarms(10**5, threshold) <= delta
    assert 2 * concentration.scan_false_alarms(10**5, math.log(100 * 2 / 0.5)) > 0.5


def find_largest_tail(s, w, x):
    """Return the largest probability, over all means, that the statistic of clicks exceeds x."""
    clicks_before, clicks_after = np.arange(s + 1)[:, None], np.arange(w + 1)
    pooled = (clicks_before + clicks_after) / (s + w)

    def divergence(mean):
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = xlogy(mean, mean / pooled) + xlogy(1 - mean, (1 - mean) / (1 - pooled))
        return np.where((pooled > 0) & (pooled < 1), terms, 0.0)

    is_above = s * divergence(clicks_before / s) + w * divergence(clicks_after / w) > x
    rates = np.linspace(0.005, 0.995, 100)
    before = binom.pmf(clicks_before.T, s, rates[:, None])
    after = binom.pmf(clicks_after, w, rates[:, None])
    return float(np.einsum("ri,ij,rj->r", before, is_above, after).max())


@pytest.mark.parametrize(("s", "w"), [(100, 3), (400, 4), (400, 48), (200, 200)])
def test_clicks_raise_more_alarms_than_gaussian_rewards(s, w):
    """The tail probability for clicks exceeds that for Gaussian rewards, but not 2 exp(-x)."""
    x = 5 + math.log((s + w) / w)
    assert erfc(math.sqrt(x)) < find_largest_tail(s, w, x) < 2 * math.exp(-x)


# The delay of an alarm


@cache
def simulate_delays(n_before, change, threshold):
    """Return the number of observations from a change to the first later alarm, for each run."""
    rng = np.random.default_rng(2)
    longest = int(concentration.scan_delay(n_before, change, threshold, 1e-4))
    rewards = rng.standard_normal((1000, n_before + longest))
    rewards[:, n_before:] += change
    return simulate_first_alarms(rewards, threshold, start=n_before) - n_before


@pytest.mark.parametrize(("n_before", "change"), [(1000, 0.5), (300, 1.0), (301, 1.0), (319, 2.0)])
def test_the_mean_delay_is_close_to_its_approximation(n_before, change):
    """With a random seed, the test fails with probability below 1e-6.

    The ratio is between 1.00 and 1.05, with a standard error of about 0.015, in all four cases.
    """
    delays = simulate_delays(n_before, change, 8.0)
    mean_delay = concentration.scan_delay(n_before, change, 8.0, form="leading")
    assert delays.mean() == pytest.approx(mean_delay, rel=0.2)


@pytest.mark.parametrize("delta", [0.5, 0.05])
@pytest.mark.parametrize(("n_before", "change"), [(1000, 0.5), (300, 1.0), (301, 1.0), (319, 2.0)])
def test_the_proved_delay_is_rarely_exceeded(n_before, change, delta):
    """With a random seed, the test fails with probability below 1e-6.

    The proof uses a single test of the scan, but the scan makes several tests. The share of longer
    delays is therefore at most 0.37 for δ = 0.5 and at most 0.021 for δ = 0.05, which is at least 6
    standard errors below δ.
    """
    longest = concentration.scan_delay(n_before, change, 8.0, delta)
    assert (simulate_delays(n_before, change, 8.0) > longest).mean() < delta


@pytest.mark.parametrize("n_before", [60, 63, 150, 255, 4000])
def test_the_proved_delay_holds_wherever_the_change_is(n_before):
    """Check that some single test of the scan detects the change with probability at least 1 − δ."""
    change, threshold, delta = 1.5, 8.0, 0.1
    longest = concentration.scan_delay(n_before, change, threshold, delta)
    best_probability = 0.0
    for n in range(n_before + 1, n_before + int(longest) + 1):
        for w in list_windows(n):
            s = n - w
            # expected means of the two parts, which may both contain observations after the change
            after = change * min(1.0, (n - n_before) / w)
            before = change * max(0, s - n_before) / s
            signal = (after - before) * math.sqrt(s * w / n)
            limit = math.sqrt(2 * (threshold + math.log(n / w)))
            best_probability = max(best_probability, norm.sf(limit - signal))
    assert best_probability >= 1 - delta


def test_a_change_after_few_observations_is_not_detected():
    change, threshold = 1.0, 8.0
    limit = 2 * threshold / change**2
    assert concentration.scan_delay(limit, change, threshold, form="leading") == math.inf
    assert concentration.scan_delay(1.5 * limit, change, threshold, form="leading") < math.inf
    assert concentration.scan_delay(limit, change, threshold) == math.inf


def test_the_mean_window_solves_its_equation():
    for n_before, change, threshold in ((40, 1.0, 8.0), (1e6, 0.01, 12.0), (1e9, 3.0, 4.0)):
        w = concentration.scan_delay(n_before, change, threshold, form="leading") / 1.2
        gain = n_before * w / (n_before + w) * change**2 / 2
        assert gain == pytest.approx(threshold + math.log((n_before + w) / w), rel=1e-9)


def test_the_delay_of_a_rise_is_that_of_the_scan_in_stages():
    options = {"n_before": 2000, "change": 0.8, "threshold": 9.0}
    delay = concentration.scan_delay(2000, 0.8, 9.0, form="leading")
    rates = [0.0, 0.1, 1.0]
    for looks, n_looks in (
        ("turns", 4 * delay),
        ("passive", 5 * delay),
        ("watch", delay + 8 * 3**0.75 / 0.64),
    ):
        delays = complexity.rise_delay(5, rates, looks=looks, **options)
        assert delays == pytest.approx([math.inf, n_looks / 0.1, n_looks])


# The lower bound


def search_hidden_rise(n_arms, gap, rate, horizon, change, regret):
    """Return the lower bound, computed by a search over all windows and all numbers of pulls."""
    best = 0.0
    for m in range(1, horizon + 1):
        pulls = regret / ((n_arms - 1) * gap * (horizon // m))
        divergence = change**2 / 2 * (pulls + m * rate / (n_arms - 1))
        for a in range(1, m + 1):
            p = min(pulls / a, 1.0)
            low, high = p, 1.0
            for _ in range(50):
                q = (low + high) / 2
                kl = (p * math.log(p / q) if p else 0) + (
                    (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 and q < 1 else 0
                )
                low, high = (q, high) if kl <= divergence else (low, q)
            best = max(best, (change - gap) * (m - a + 1) * (1 - high))
    return best


@pytest.mark.parametrize(
    ("n_arms", "rate", "horizon", "regret"),
    [(2, 0.3, 40, 1.0), (5, 0.1, 60, 3.0), (3, 0.0, 60, 2.0), (2, 0.0, 30, 0.0), (4, 1.0, 1, 0.1)],
)
def test_the_bound_of_a_rise_is_the_best_of_all_windows(n_arms, rate, horizon, regret):
    exact = search_hidden_rise(n_arms, 0.4, rate, horizon, 1.0, regret)
    bound = lower.hidden_rise(n_arms, 0.4, rate, horizon, change=1.0, regret=regret)
    assert 0.97 * exact <= bound <= exact * (1 + 1e-9)


def test_a_policy_that_never_explores_loses_everything_after_a_rise():
    bound = lower.hidden_rise(3, 0.5, 0.0, 1000, change=0.8, regret=0.0)
    assert bound == pytest.approx(0.3 * 1000)


def test_the_leading_form_is_smaller_and_of_the_same_order():
    options = {"change": 0.8, "regret": 20.0}
    for rate in (0.0, 0.001, 0.1, 1.0):
        leading = lower.hidden_rise(5, 0.4, rate, 10**6, form="leading", **options)
        assert leading <= lower.hidden_rise(5, 0.4, rate, 10**6, **options) <= 4 * leading
    # with looks, the bound does not grow with T; without looks, bound times regret is of order T
    with_looks = lower.hidden_rise(5, 0.4, 0.1, [10**6, 10**8], **options)
    assert with_looks[1] == pytest.approx(with_looks[0], rel=0.1)
    without = lower.hidden_rise(5, 0.4, 0.0, [10**6, 10**8], **options)
    assert without[1] == pytest.approx(100 * without[0], rel=0.1)
    assert lower.hidden_rise(5, 0.4, 0.0, 10, form="leading", **options) == 0


def simulate_rise(rate, exploration, limit, rise, horizon=1500, runs=400):
    """Return the mean regret after the rise, for a policy that knows the problem and the change.

    Three arms have means 0, -0.5 and -0.5; arm 1 rises by 1 at stage `rise`. The policy pulls the
    risen arm if its CUSUM statistic exceeds the limit. It looks at arms 1 and 2 in turn.
    """
    rng = np.random.default_rng(3)
    means, regret = np.array([0.0, -0.5, -0.5]), np.zeros(runs)
    statistics, turn, rows = np.full((runs, 3), -math.inf), 1, np.arange(runs)
    statistics[:, 1:] = 0
    for stage in range(1, horizon + 1):
        if stage == rise:
            means = np.array([0.0, 0.5, -0.5])
            regret[:] = 0
        arms = np.where(statistics.max(axis=1) > limit, statistics.argmax(axis=1), 0)
        arms = np.where(rng.random(runs) < exploration, rng.integers(1, 3, runs), arms)
        regret += means.max() - means[arms]
        seen = [(arms, np.ones(runs, bool))]
        if rate:
            seen.append((np.full(runs, turn), rng.random(runs) < rate))
            turn = 3 - turn
        for observed, is_seen in seen:
            rewards = means[observed] + rng.standard_normal(runs)
            # log-likelihood ratio of a mean of 0.5 against -0.5
            values = np.maximum(statistics[rows, observed] + rewards, 0)
            is_counted = is_seen & (observed > 0)
            statistics[rows[is_counted], observed[is_counted]] = values[is_counted]
    return regret.mean()


@pytest.mark.parametrize(
    ("rate", "exploration", "limit"), [(0.2, 0.0, 2.0), (0.2, 0.0, 5.0), (0.0, 0.01, 3.0)]
)
def test_no_simulated_policy_beats_the_lower_bound(rate, exploration, limit):
    """With a random seed, the test fails with probability below 1e-6.

    The regret is more than twice the bound, and its standard error is below 5 %.
    """
    regret = simulate_rise(rate, exploration, limit, rise=None)
    bound = lower.hidden_rise(3, 0.5, rate, 1500, change=1.0, regret=regret)
    assert bound > 0.1
    largest = max(simulate_rise(rate, exploration, limit, rise) for rise in (1, 751))
    assert bound < largest < 60 * bound


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"^change must be greater than gap=0.5, got 0.5$"):
        lower.hidden_rise(3, 0.5, 0.1, 100, change=0.5, regret=1.0)
    with pytest.raises(ValueError, match=r"^looks must be one of watch, turns, passive, got 'all'$"):
        complexity.rise_delay(3, 0.1, n_before=9, change=1.0, threshold=8.0, looks="all")
    with pytest.raises(ValueError, match=r"^threshold must be from 0 to 1e50, got -1$"):
        concentration.scan_false_alarms(10, -1)
