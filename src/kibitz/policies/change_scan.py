r"""The block scan: a detector of changes in the mean of an arm, with little memory.

The scan receives the rewards of an arm one by one. Let C(n) be the sum of the first n rewards, and
let the origin o be the number of rewards before the current regime (at first 0). After the n-th
reward, the scan tests whether the mean changed after a rewards, for each a = n - q 2^j > o such that
2^j divides n and q is 3 or 4 (for j = 0: 1, 2, 3 or 4). With s = a - o rewards before and w = n - a
rewards after the possible change, the statistic is

.. math:: G = \frac{s w}{s + w} \cdot \frac{D^2}{2}, \quad
   D = \frac{C(n) - C(a)}{w} - \frac{C(a) - C(o)}{s}

for rewards of scale 1. For rewards in [0, 1] it is G = s kl(m_1, m) + w kl(m_2, m), where m_1, m_2
and m are the means before, after, and of both. The scan raises an alarm if

.. math:: G > c + \log\frac{s + w}{w} ,

where c is the threshold. Of several such tests, the test with the largest excess gives the new origin
a. About six tests per reward are made on average. The scan stores five sums C(k 2^j) for each j,
instead of all rewards.

Each test compares a fixed number of rewards with another fixed number, so the probability of a false
alarm among the first n Gaussian rewards of an arm is at most the sum of
:math:`\mathrm{erfc}\sqrt{c + \log((s + w)/w)}` over all tests up to n with o = 0. This bound covers
the first alarm of an arm.

Sums of Gaussian rewards are sums of differences from the first reward, so a large common offset costs
no digits.
"""

import math
from typing import NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.policies.policy import Array

N_LEVELS = 40  # the levels j = 0, ..., 39
N_STORED = 5  # the stored sums of each level
MIN_BLOCKS, MAX_BLOCKS = 3, 4  # the values of q, except for j = 0
MIN_THRESHOLD = 4.0


class Scan(NamedTuple):
    """The scans of all arms."""

    counts: Array  # n, the number of rewards of each arm
    sums: Array  # C(n), the sum of these rewards
    shifts: Array  # the number that is subtracted from each reward
    origins: Array  # o, the number of rewards before the current regime of each arm
    origin_sums: Array  # C(o), the sum of these rewards
    prefixes: Array  # (arm, j, k % 5): C(k 2^j)


class Change(NamedTuple):
    """A change of an arm's mean; `origin` is -1 if there is none."""

    origin: int  # the change came after this many rewards of the arm
    n_before: int  # the number of rewards between the previous origin and the new origin
    before: float  # the mean of these rewards
    n_after: int  # the number of rewards since the new origin
    after: float  # the mean of these rewards


@jit(allocates=True)
def new_scan(n_arms: int) -> Scan:
    """Return the scans of all arms before any reward."""
    return Scan(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms),
        np.zeros(n_arms),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms),
        np.zeros((n_arms, N_LEVELS, N_STORED)),
    )


@jit
def binary_divergence(mean: float, other: float) -> float:
    """Return the Bernoulli divergence kl(mean, other), for 0 < other < 1."""
    value = 0.0
    if mean > 0:
        value += mean * math.log(mean / other)
    if mean < 1:
        value += (1 - mean) * math.log((1 - mean) / (1 - other))
    return value


@jit
def compare_means(
    s: int, sum_before: float, w: int, sum_after: float, in_unit_interval: bool
) -> float:
    """Return the statistic G of a change between s rewards and the w rewards after them."""
    if not in_unit_interval:
        difference = sum_after / w - sum_before / s
        return s * float(w) / (s + w) * difference**2 / 2
    pooled = (sum_before + sum_after) / (s + w)
    if not 0 < pooled < 1:
        return 0.0
    before = min(max(sum_before / s, 0.0), 1.0)  # a sum may be off by a rounding error
    after = min(max(sum_after / w, 0.0), 1.0)
    return s * binary_divergence(before, pooled) + w * binary_divergence(after, pooled)


@jit
def add_reward(
    scan: Scan, arm: int, reward: float, threshold: float, in_unit_interval: bool
) -> Change:
    """Add a reward of an arm; return the change that it reveals, with origin -1 if there is none.

    `in_unit_interval` says which statistic G is used, and must be the same for all rewards. After an
    alarm, the arm's origin is the origin of the returned change.
    """
    return add_and_test(scan, arm, reward, threshold, 1.0, 1.0, in_unit_interval)


@jit
def add_and_test(
    scan: Scan,
    arm: int,
    reward: float,
    threshold: float,
    growth: float,
    decay: float,
    in_unit_interval: bool,
) -> Change:
    """Add a reward as `add_reward` does, with another threshold.

    The threshold is `threshold` + `growth` log(s + w) - `decay` log w, for a test of a change between
    s rewards and the w rewards after them.
    """
    if scan.counts[arm] == 0 and not in_unit_interval:
        scan.shifts[arm] = reward
    shifted = reward - scan.shifts[arm]
    return add_shifted(scan, arm, shifted, threshold, growth, decay, in_unit_interval, 1.0)


@jit
def add_shifted(
    scan: Scan,
    arm: int,
    shifted: float,
    threshold: float,
    growth: float,
    decay: float,
    in_unit_interval: bool,
    unit: float,
) -> Change:
    """Add a reward whose shift is already subtracted, as `add_and_test` does.

    The reward, the shift and all sums are multiples of `unit`. In plain Python they can be whole
    numbers, whose sums are exact.
    """
    scan.counts[arm] += 1
    scan.sums[arm] += shifted
    # Python numbers, because plain Python computes slowly with NumPy's
    n, origin = int(scan.counts[arm]), int(scan.origins[arm])
    total, origin_sum = scan.sums[arm], scan.origin_sums[arm]
    best, best_sum, largest = -1, origin_sum, 0.0
    for level in range(N_LEVELS):
        length = 1 << level
        if n % length != 0:
            break
        k = n // length
        scan.prefixes[arm, level, k % N_STORED] = total
        for q in range(1 if level == 0 else MIN_BLOCKS, MAX_BLOCKS + 1):
            start = n - q * length
            if start <= origin:
                break
            start_sum = scan.prefixes[arm, level, (k - q) % N_STORED]
            s, w = start - origin, n - start
            sum_before = float(unit * (start_sum - origin_sum))
            sum_after = float(unit * (total - start_sum))
            statistic = compare_means(s, sum_before, w, sum_after, in_unit_interval)
            excess = statistic - threshold - growth * math.log(s + w) + decay * math.log(w)
            if excess > largest:
                best, best_sum, largest = start, start_sum, excess
    if best < 0:
        return Change(-1, 0, 0.0, 0, 0.0)
    scan.origins[arm], scan.origin_sums[arm] = best, best_sum
    shift = float(unit * scan.shifts[arm])
    before = shift + float(unit * (best_sum - origin_sum)) / (best - origin)
    after = shift + float(unit * (total - best_sum)) / (n - best)
    return Change(best, best - origin, before, n - best, after)


@jit
def correct_reward(scan: Scan, arm: int, position: int, difference: float) -> None:
    """Add `difference` to the reward of an arm at a `position`, counted from 1.

    All stored sums are then as if the reward had been right from the start. Earlier tests are not
    repeated.
    """
    scan.sums[arm] += difference
    if scan.origins[arm] >= position:
        scan.origin_sums[arm] += difference
    for level in range(N_LEVELS):
        last = scan.counts[arm] >> level
        if last == 0:
            break
        for k in range(max(1, last - N_STORED + 1), last + 1):
            if k << level >= position:
                scan.prefixes[arm, level, k % N_STORED] += difference


@jit
def get_threshold(n_arms: int, delta: float, n_alarms: float) -> float:
    """Return the threshold of the scans after `n_alarms` alarms.

    If nothing changes and rewards are Gaussian, the probability that any of the arms raises an alarm
    among its first 100,000 rewards is at most `delta`. Each alarm lowers the threshold, because more
    changes are then to be expected.
    """
    value = math.log(100.0 * n_arms / delta) - math.log(1.0 + n_alarms)
    return max(MIN_THRESHOLD, value)
