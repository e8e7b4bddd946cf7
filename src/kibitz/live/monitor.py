r"""Detect changes in the means of an agent's arms.

The monitor of an agent raises alarms but never changes a decision. It passes the settled rewards of
each arm to a block scan (`kibitz.policies.change_scan`), in the order of the decisions. A decision
enters the scan when it is older than the agent's patience. The order in which reports arrive would be
misleading: a click is reported at once, but a missing click is known only after the patience. A
growth of traffic would therefore look like a change of the mean.

**Promise.** If the mean of no arm changes, the probability that any arm raises an alarm among its
first `N_PROMISED` rewards is at most \delta, for any choice of the arms. Each arm has a share of
\delta (`Monitor.get_share`), and the false-alarm probabilities of all tests of an arm sum to at
most its share. A test compares s rewards before a possible change with w rewards after it. Without a
change, its statistic G exceeds x with probability

- at most 2 e^{-x} for rewards of sub-Gaussian scale 1, because the difference of the two means is
  sub-Gaussian with variance factor 1/s + 1/w;
- at most 2 (1 + x) e^{-x} for rewards in [0, 1]. Let A = s kl(m_1, \mu) and B = w kl(m_2, \mu), where
  \mu is the true mean, and m_1 and m_2 are the mean rewards before and after the possible change. If
  m_1 \le m_2, then G is at most A 1\{m_1 < \mu\} + B 1\{m_2 > \mu\}. By Chernoff's bound, each term
  exceeds u with probability at most e^{-u}, even conditionally on the other term. The sum therefore
  exceeds x with probability at most (1 + x) e^{-x}. The case m_1 \ge m_2 is symmetric.

The promise covers only the first alarm of each arm. After an alarm, the scan itself has selected the
rewards since the change, so the proof does not apply to later alarms.

The scan gets whole numbers: rewards of 0 or 1, or other rewards in multiples of 2^-40 scales. Its
sums are therefore exact, and the correction of a reward causes no rounding error.
"""

import functools
import math
from typing import Any, NamedTuple, cast

import numpy as np

from kibitz.policies.change_scan import (
    MAX_BLOCKS,
    MIN_BLOCKS,
    N_STORED,
    Scan,
    add_shifted,
    correct_reward,
)

N_PROMISED = 100_000  # rewards of each arm for which the probability of a false alarm is bounded
FOUNDING_SHARE = 0.9  # the share of delta for the arms with which an agent was created
N_STEPS = 20  # fixed-point iterations; each adds more than one correct digit


class Alarm(NamedTuple):
    """A detected change in the mean of an arm.

    `n_before` and `mean_before` are the number and the mean of the arm's rewards before the change.
    These rewards begin at the previous change of the arm, or at its first reward. `n_after` and
    `mean_after` are the number and the mean of the rewards from the change up to the alarm.
    """

    arm: int
    since_id: int  # the first decision after the change
    since_at: float
    at_id: int  # the decision whose reward raised the alarm
    at: float
    n_before: int
    mean_before: float
    n_after: int
    mean_after: float


class Monitor(NamedTuple):
    """The settings of a monitor, which follow from the configuration of its agent."""

    delta: float
    n_founding: int  # number of arms with which the agent was created
    in_unit_interval: bool
    scale: float
    unit: float = 2.0**-40  # rewards are rounded to multiples of this many scales

    def to_units(self, reward: float) -> int:
        """Return a reward as a whole number of units."""
        return round(reward / self.scale / self.unit)

    def get_share(self, arm_index: int) -> float:
        """Return the share of `delta` that an arm gets, as in `confidence.split_delta`."""
        m = arm_index - self.n_founding + 1
        return FOUNDING_SHARE / self.n_founding if m < 1 else (1 - FOUNDING_SHARE) / (m * (m + 1))

    def get_threshold(self, arm_index: int) -> float:
        """Return the value of the scan's statistic at which an arm raises an alarm."""
        return compute_threshold(self.delta * self.get_share(arm_index), self.in_unit_interval)


@functools.cache
def compute_threshold(delta: float, in_unit_interval: bool) -> float:
    """Return a threshold at which the probability of a false alarm of an arm is at most `delta`.

    The bound holds for the first `N_PROMISED` rewards of the arm.
    """
    weights, logs = sum_over_tests(N_PROMISED)
    threshold = math.log(2 * weights) - math.log(delta)
    for _ in range(N_STEPS if in_unit_interval else 0):
        threshold = math.log(2 * ((1 + threshold) * weights + logs)) - math.log(delta)
    return threshold


@functools.cache
def sum_over_tests(n: int) -> tuple[float, float]:
    """Return the sums of w/m and of (w/m) log(m/w) over all tests of the first `n` rewards.

    A test after m rewards compares the last w rewards with the m - w rewards before them.
    """
    weights = logs = 0.0
    level = 0
    while MIN_BLOCKS << level < n:
        for q in range(1 if level == 0 else MIN_BLOCKS, MAX_BLOCKS + 1):
            w = q << level
            ratios = w / np.arange(w + (1 << level), n + 1, 1 << level)
            weights += float(ratios.sum())
            logs -= float((ratios * np.log(ratios)).sum())
        level += 1
    return weights, logs


class _Prefixes:
    """The stored sums of one arm as lists, indexed like the array `Scan.prefixes`."""

    def __init__(self, levels: list[list[Any]]) -> None:
        self.levels = levels

    def __getitem__(self, index: tuple[int, int, int]) -> Any:
        return self.levels[index[1]][index[2]]

    def __setitem__(self, index: tuple[int, int, int], value: Any) -> None:
        while index[1] >= len(self.levels):
            self.levels.append([0] * N_STORED)
        self.levels[index[1]][index[2]] = value


def _load(state: list[Any]) -> Scan:
    """Return the scan of one arm, whose state is a list that can be stored as JSON."""
    n, total, origin, origin_sum = ([value] for value in state[:4])
    return Scan(*cast(Any, (n, total, [0], origin, origin_sum, _Prefixes(state[4]))))


def _store(scan: Scan, state: list[Any]) -> None:
    fields = scan.counts, scan.sums, scan.origins, scan.origin_sums
    state[:4] = [values[0] for values in fields]


def add_observation(
    state: list[Any], monitor: Monitor, arm_index: int, id: int, asked_at: float, reward: float
) -> Alarm | None:
    """Add the settled reward of a decision to the scan of its arm; return the alarm or None.

    `state` is [] before the first reward. Afterwards, it has the fields `counts`, `sums`, `origins`,
    `origin_sums` and `prefixes` of the arm's `Scan`, and for each prefix the id and the time of the
    decision that follows it. The field `shifts` is not needed, because the sums are whole numbers.
    """
    if not state:
        state += [0, 0, 0, 0, [], []]
    n, marks = state[0], _Prefixes(state[5])
    level = 0
    while n and n % (1 << level) == 0:
        marks[0, level, (n >> level) % N_STORED] = [id, asked_at]
        level += 1
    scan = _load(state)
    threshold = monitor.get_threshold(arm_index)
    change = add_shifted(
        scan, 0, monitor.to_units(reward), threshold, 1.0, 1.0, monitor.in_unit_interval, monitor.unit
    )
    _store(scan, state)
    if change.origin < 0:
        return None
    level = (change.origin & -change.origin).bit_length() - 1
    since_id, since_at = marks[0, level, (change.origin >> level) % N_STORED]
    return Alarm(
        arm_index,
        since_id,
        since_at,
        id,
        asked_at,
        change.n_before,
        change.before * monitor.scale,
        change.n_after,
        change.after * monitor.scale,
    )


def correct_observation(
    state: list[Any], monitor: Monitor, place: int, old_reward: float, reward: float
) -> None:
    """Replace the reward at position `place` in the scan of an arm; earlier alarms remain."""
    scan = _load(state)
    correct_reward(scan, 0, place, monitor.to_units(reward) - monitor.to_units(old_reward))
    _store(scan, state)


def has_changed(state: list[Any]) -> bool:
    """Return whether the scan of an arm has raised an alarm."""
    return bool(state) and state[2] > 0


def last_observed_at(state: list[Any]) -> float:
    """Return the time of an arm's latest reward; -inf if the arm has fewer than two rewards."""
    if not state or state[0] < 2:
        return -math.inf
    at: float = _Prefixes(state[5])[0, 0, (state[0] - 1) % N_STORED][1]
    return at


def measure_regime(state: list[Any], monitor: Monitor) -> tuple[int, float]:
    """Return the number and the sum of an arm's rewards since its last change."""
    n, total, origin, origin_sum = state[:4]
    return n - origin, monitor.scale * (monitor.unit * (total - origin_sum))
