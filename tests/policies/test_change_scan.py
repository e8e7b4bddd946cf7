"""Tests that the scan of blocks makes the same tests as a scan that stores all rewards."""

import math

import numpy as np
import pytest
import reference

from kibitz.policies.change_scan import add_reward, correct_reward, get_threshold, new_scan

KINDS = {"gaussian": False, "unit interval": True}


def draw_rewards(rng, n, in_unit_interval):
    """Return rewards whose mean changes at random places."""
    means = np.repeat(rng.random(n), rng.integers(1, 150, n))[:n]
    if in_unit_interval:
        return (rng.random(n) < means).astype(float)
    return 3 * means + rng.normal(size=n)


@pytest.mark.parametrize("kind", KINDS)
def test_the_scan_agrees_with_a_scan_of_all_rewards(kind):
    rng = np.random.default_rng(1)
    n_alarms = 0
    for threshold in (1.0, 4.0, 8.0):
        scan, slow_scan = new_scan(2), reference.ChangeScan(KINDS[kind])
        for reward in draw_rewards(rng, 700, KINDS[kind]):
            last_origin = slow_scan.origin
            add_reward(scan, 0, -reward, threshold, False)  # another arm
            change = add_reward(scan, 1, reward, threshold, KINDS[kind])
            is_alarm = slow_scan.add(reward, threshold)
            assert (change.origin >= 0) == is_alarm
            if is_alarm:
                n_alarms += 1
                before = slow_scan.rewards[last_origin : slow_scan.origin]
                after = slow_scan.rewards[slow_scan.origin :]
                assert (change.origin, change.n_before, change.n_after) == (
                    slow_scan.origin,
                    len(before),
                    len(after),
                )
                assert change.before == pytest.approx(reference.mean(before), abs=1e-12)
                assert change.after == pytest.approx(reference.mean(after), abs=1e-12)
            since = slow_scan.rewards[slow_scan.origin :]
            total = scan.shifts[1] * len(since) + scan.sums[1] - scan.origin_sums[1]
            assert total == pytest.approx(sum(since), abs=1e-10)
    assert n_alarms > 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_corrected_reward_gives_the_sums_of_the_right_reward(kind):
    """There is no alarm before the correction, because a correction does not repeat earlier tests."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        rewards = draw_rewards(rng, 300, KINDS[kind])
        n, position = int(rng.integers(1, 301)), int(rng.integers(1, 301))
        n, position = max(n, position), min(n, position)
        scan, right_scan = new_scan(1), new_scan(1)
        for place, reward in enumerate(rewards[:n], start=1):
            is_wrong = place == position
            add_reward(scan, 0, reward + (0.25 if is_wrong else 0.0), math.inf, True)
            add_reward(right_scan, 0, reward, math.inf, True)
        origin = int(rng.integers(1, 301))
        scan.origins[0] = right_scan.origins[0] = origin
        scan.origin_sums[0] = right_scan.origin_sums[0] + (0.25 if position <= origin else 0.0)
        correct_reward(scan, 0, position, -0.25)
        for array, right_array in zip(scan, right_scan, strict=True):
            np.testing.assert_allclose(array, right_array, atol=1e-12)
        for reward in rewards[n:]:  # later tests read only right sums
            change = add_reward(scan, 0, reward, 2.0, KINDS[kind])
            assert change == pytest.approx(add_reward(right_scan, 0, reward, 2.0, KINDS[kind]))


def test_a_large_common_offset_changes_no_alarm():
    rng = np.random.default_rng(3)
    rewards = np.round(draw_rewards(rng, 2000, False), 3)
    alarms = []
    for offset in (0.0, 1e9):
        scan = new_scan(1)
        changes = [add_reward(scan, 0, offset + reward, 8.0, False) for reward in rewards]
        alarms.append([(n, change.origin) for n, change in enumerate(changes) if change.origin >= 0])
    assert alarms[0] == alarms[1]
    assert len(alarms[0]) > 3


def test_equal_rewards_raise_no_alarm():
    scan = new_scan(2)
    for _ in range(1000):
        assert add_reward(scan, 0, 0.1, 1e-9, False).origin < 0
        assert add_reward(scan, 1, 0.0, 1e-9, True).origin < 0


def test_the_memory_suffices_for_trillions_of_rewards():
    scan = new_scan(1)
    n = 2**41 - 1
    scan.counts[0] = n
    for level in range(scan.prefixes.shape[1]):
        for k in range((n >> level) - 4, (n >> level) + 1):
            scan.prefixes[0, level, k % 5] = 0.0
    assert add_reward(scan, 0, 1.0, 8.0, False).origin < 0
    assert add_reward(scan, 0, 9.0, 8.0, False).origin == 2**41


def sum_error_probabilities(threshold, n):
    """Return the sum of P(alarm) over all tests of n Gaussian rewards with a constant mean."""
    scan, total = reference.ChangeScan(False), 0.0
    for count in range(1, n + 1):
        scan.rewards = range(count)
        for start in scan.list_starts():
            total += math.erfc(math.sqrt(threshold + math.log(count / (count - start))))
    return total


def test_the_rate_of_false_alarms_is_close_to_the_sum_of_their_probabilities():
    """Count the streams with an alarm among 200 streams of 200 rewards with a constant mean.

    The sum over all tests bounds the probability of an alarm, and is close to this probability. With
    a random seed, the number of streams with an alarm exceeds the limit with probability below 10^-4.
    """
    rng = np.random.default_rng(4)
    bound = sum_error_probabilities(4.0, 200)
    n_streams, n_alarms = 200, 0
    for _ in range(n_streams):
        scan = new_scan(1)
        n_alarms += any(add_reward(scan, 0, x, 4.0, False).origin >= 0 for x in rng.normal(size=200))
    assert n_streams * bound / 4 < n_alarms
    assert n_alarms < n_streams * bound + 4 * math.sqrt(n_streams * bound)


def test_the_threshold_keeps_the_promise_for_all_arms_together():
    for n_arms, delta in ((1, 0.1), (5, 0.1), (20, 0.01)):
        threshold = get_threshold(n_arms, delta, 0)
        # the sum over all tests of 100,000 rewards is below 100 e^-c; 5000 rewards keep the test fast
        assert n_arms * sum_error_probabilities(threshold, 5000) < delta
    assert get_threshold(2, 0.1, 3) == get_threshold(2, 0.1, 0) - math.log(4)
    assert get_threshold(2, 0.1, 10**6) == 4.0
    assert get_threshold(2, 1e-300, 0) > 690
