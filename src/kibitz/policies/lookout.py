r"""lookout: our own policy for means that change.

lookout is kibitzer (`kibitz.policies.kibitzer`) with a change detector for each arm, the block scan
(`kibitz.policies.change_scan`). It needs neither the horizon nor the number of changes.

**Alarm.** Every observation of an arm, pull or look, goes through the arm's scan with the threshold

.. math:: c_k = \max(4, \log(100 K / \delta) - \log(1 + k)),

where K is the number of arms and k measures how often alarms come. If the scan of arm i raises an
alarm, the policy forgets all observations of arm i before the change, and k increases by 1. At each
stage t, k is multiplied by 1 - 1/t, so an early false alarm loses its weight. If no mean changes and
rewards are Gaussian, the probability of an alarm among the first 100,000 observations of every arm is
at most \delta, for \delta up to 0.2.

**Discount.** The scan misses some changes and detects others late. At each stage t with k > 0, the
counts and sums of all arms are therefore multiplied by 1 - 1/\max(t/k, 2): the memory is about the
time between alarms. As long as there is no alarm, nothing is forgotten.

**Pull.** lookout pulls the arm with the largest index of kibitzer, with the discounted counts N_i in
place of O_i. An arm without observations comes first.

**Look.** Every fourth look (every second look after the first alarm) belongs to the watch. The watch
goes to the arm that was observed least recently, and stays with this arm for at most 30 further looks
while the arm is suspicious. An arm i with mean m_i below the largest mean m is suspicious while
u_i > 0. Each look at arm i with reward x sets u_i to

.. math:: \max\Big(0, u_i + (m - m_i)\Big(x - \frac{m + m_i}{2}\Big)\Big),

the log-likelihood ratio of a mean m against a mean m_i; for rewards in [0, 1], it is the ratio of
Bernoulli distributions. The watch finds an arm that has become the best. All other looks go to the
arm with the smallest IMED index, as for kibitzer, but without its turns and holds. Neither the watch
nor the other looks go to the arm with the largest mean.

**Explore.** Without looks, the policy cannot detect that an arm that it does not pull has become
better. Therefore the share `explore` of the pulls goes to the arm that a look would choose. This
costs regret if nothing changes.

No theorem covers lookout.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import between, invalid
from kibitz.policies.change_scan import Scan, add_reward, get_threshold, new_scan
from kibitz.policies.kibitzer import (
    MAX_MEAN,
    RARE_PERIOD,
    bernoulli_divergence,
    bernoulli_pull,
    find_leader,
    find_unseen,
    gaussian_divergence,
    pull as gaussian_pull,
)
from kibitz.policies.policy import (
    LOOKS,
    Array,
    Policy,
    Rewards,
    Statistics,
    check_rewards,
    check_scale,
    count_kind,
)

WATCH_PERIOD = 4  # every fourth look belongs to the watch
ALARM_WATCH_PERIOD = 2  # after an alarm, every second look belongs to the watch
MAX_STAY = 30  # the watch leaves an arm after this many further looks
MIN_MEMORY = 2.0  # in stages
MAX_CORRECTION = 5.0  # a reward that was wrong by more scales has probably raised a false alarm


def lookout(
    delta: float = 0.1,
    explore: float = 0.0,
    rewards: Rewards = "gaussian",
    scale: float | None = None,
) -> Policy:
    """Return lookout, our own policy for means that change, which is not in the paper.

    Parameters
    ----------
    delta
        The probability of a false alarm among the first 100,000 Gaussian observations of every arm,
        above 0 and below 1. It is a proved bound if it is at most 0.2.
    explore
        The share of pulls that go to the arm that a look would choose, from 0 to below 1. If there
        are no looks, only a positive share can show that an arm that is not pulled has become better.
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]).
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    if not 0 < between(delta, "delta", 0, 1) < 1:
        raise invalid("delta", "above 0 and below 1", delta)
    if not between(explore, "explore", 0, 1) < 1:
        raise invalid("explore", "below 1", explore)
    in_unit_interval = check_rewards(rewards) != "gaussian"
    constants = {
        "delta": float(delta),
        "explore": float(explore),
        "in_unit_interval": in_unit_interval,
        "b": 8.0,  # the parameters of kibitzer
        "beta": 1.0,
    }
    return Policy(
        "lookout",
        constants,
        init,
        *make_choices(in_unit_interval),
        update,
        revise=revise,
        rewards=rewards,
        scale=check_scale(scale, rewards),
        parameters={
            "delta": constants["delta"], "explore": constants["explore"], "rewards": rewards
        },
    )  # fmt: skip


class State(NamedTuple):
    """The discounted statistics of all arms, their scans, and the state of the watch."""

    statistics: Statistics  # `n_observed` and `sums` are discounted, so `n_observed` are floats
    scan: Scan
    observed_at: Array  # for each arm, the stage of its last observation
    suspicions: Array  # u_i, for each arm
    stays: Array  # for each arm, how many of the latest looks of the watch went to it without a break
    last_stage: Array  # one number: the stage of the last observation
    alarms: Array  # one number: k, the number of alarms, in which earlier alarms count less


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    statistics = Statistics(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms),
        np.zeros(n_arms),
        np.zeros(2, np.int64),
        np.zeros(0),
    )
    return State(
        statistics,
        new_scan(n_arms),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms),
        np.zeros(n_arms, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1),
    )


@jit
def is_exploring(params: Any, state: State, stage: int) -> bool:
    """Return whether the pull of a stage goes to the arm that a look would choose."""
    n_arms = state.observed_at.size
    if params.explore == 0 or stage <= n_arms or n_arms == 1:
        return False
    return math.floor(stage * params.explore) > math.floor((stage - 1) * params.explore)


@jit
def belongs_to_watch(state: State) -> bool:
    """Return whether the next look belongs to the watch, which seeks arms that have become better."""
    period = WATCH_PERIOD if state.alarms[0] == 0 else ALARM_WATCH_PERIOD
    return state.statistics.totals[LOOKS] % period == period - 1


@jit
def choose_watched(state: State, leader: int) -> int:
    """Return the arm that a look of the watch goes to; it is not the leader."""
    for arm in range(state.stays.size):
        stay = state.stays[arm]
        if 0 < stay <= MAX_STAY and arm != leader and state.suspicions[arm] > 0:
            return arm
    choice = 1 if leader == 0 else 0
    for arm in range(choice + 1, state.observed_at.size):
        if arm != leader and state.observed_at[arm] < state.observed_at[choice]:
            choice = arm
    return choice


@cache
def make_choices(in_unit_interval: bool) -> tuple[Any, Any]:
    """Return `pull` and `look` for Gaussian rewards, or for rewards in [0, 1]."""
    divergence = bernoulli_divergence if in_unit_interval else gaussian_divergence
    pull_as_kibitzer = bernoulli_pull if in_unit_interval else gaussian_pull

    def look(params: Any, state: Any, stage: int, rng: Any) -> int:
        """Return an arm without observations, or else the choice of the watch or of IMED."""
        stats = state.statistics
        unseen = find_unseen(state, stage)
        if unseen >= 0:
            return unseen
        leader = find_leader(stats)
        if belongs_to_watch(state):
            return choose_watched(state, leader)
        best = stats.sums[leader] / stats.n_observed[leader]
        rarity = 1 + math.log(1 + stage / (RARE_PERIOD * (stats.totals[LOOKS] + 1)))
        choice, smallest = 1 if leader == 0 else 0, np.inf
        for arm in range(stats.sums.size):
            n = stats.n_observed[arm]
            if arm != leader and n > 0:
                # the logarithm may be negative, because a discounted count may be below 1
                value = n * divergence(stats.sums[arm] / n, best) + rarity * math.log(n)
                if value < smallest:
                    choice, smallest = arm, value
        return choice

    marked_look = jit(look)

    def pull(params: Any, state: Any, stage: int, rng: Any) -> int:
        """Return the arm that kibitzer would pull, or the arm to explore."""
        if is_exploring(params, state, stage):
            return marked_look(params, state, stage, rng)
        return pull_as_kibitzer(params, state, stage, rng)

    return jit(pull), marked_look


@jit
def get_discount(state: State) -> float:
    """Return the factor by which old observations are discounted; there must have been an alarm."""
    return 1 - 1 / max(state.last_stage[0] / state.alarms[0], MIN_MEMORY)


@jit
def discount(state: State, stage: int) -> None:
    """Discount all observations and earlier alarms at the first observation of a stage."""
    if stage <= state.last_stage[0]:
        return
    state.last_stage[0] = stage
    if state.alarms[0] > 0:
        factor = get_discount(state)
        stats = state.statistics
        for arm in range(stats.sums.size):
            stats.n_observed[arm] *= factor
            stats.sums[arm] *= factor
        state.alarms[0] *= 1 - 1 / stage


@jit
def log_ratio(reward: float, mean: float, best: float, in_unit_interval: bool) -> float:
    """Return the log-likelihood ratio of the mean `best` against `mean`, for one reward."""
    if not in_unit_interval:
        return (best - mean) * (reward - (best + mean) / 2)
    best = min(max(best, 1 - MAX_MEAN), MAX_MEAN)
    mean = min(max(mean, 1 - MAX_MEAN), MAX_MEAN)
    return reward * math.log(best / mean) + (1 - reward) * math.log((1 - best) / (1 - mean))


@jit
def move_watch(state: State, arm: int) -> None:
    """Record that a look of the watch went to an arm."""
    for other_arm in range(state.stays.size):
        if other_arm != arm and state.stays[other_arm] > 0:
            state.suspicions[other_arm] = 0.0
            state.stays[other_arm] = 0
    state.stays[arm] += 1


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Learn from one observation; forget observations of the arm from before a change."""
    stats = state.statistics
    discount(state, stage)
    state.observed_at[arm] = stage
    is_explored = not is_look and is_exploring(params, state, stage)
    if (is_look or is_explored) and belongs_to_watch(state):
        move_watch(state, arm)
    count_kind(stats, arm, 1, is_look)
    if is_explored:  # a look that was paid with a pull
        count_kind(stats, arm, 1, True)
    leader = find_leader(stats)
    if (is_look or is_explored) and arm != leader and stats.n_observed[arm] > 0:
        mean = stats.sums[arm] / stats.n_observed[arm]
        best = stats.sums[leader] / stats.n_observed[leader]
        if mean < best:
            ratio = log_ratio(total, mean, best, params.in_unit_interval)
            state.suspicions[arm] = max(0.0, state.suspicions[arm] + ratio)
    threshold = get_threshold(stats.sums.size, params.delta, state.alarms[0])
    change = add_reward(state.scan, arm, total, threshold, params.in_unit_interval)
    if change.origin < 0:
        stats.n_observed[arm] += 1
        stats.sums[arm] += total
    else:
        state.alarms[0] += 1
        stats.n_observed[arm] = change.n_after
        stats.sums[arm] = change.n_after * change.after
        state.suspicions[arm] = 0.0
    return state


@jit
def restart(state: State, arm: int) -> None:
    """Forget all observations of an arm."""
    state.statistics.n_observed[arm] = 0.0
    state.statistics.sums[arm] = 0.0
    state.suspicions[arm] = 0.0
    state.scan.counts[arm] = state.scan.origins[arm] = 0
    state.scan.sums[arm] = state.scan.origin_sums[arm] = 0.0


@jit
def revise(params: Any, state: State, stage: int, arm: int, n: float, total: float) -> State:
    """Learn from a late report about an earlier stage: `n` observations whose rewards sum to `total`.

    For a corrected reward, `n` is 0 and `total` is the difference. The observations get about the
    weight that they would have now if they had been reported in time. The scan ignores them. If a
    reward was wrong by more than `MAX_CORRECTION`, the policy forgets all observations of the arm
    instead.
    """
    if n == 0 and abs(total) > MAX_CORRECTION:
        restart(state, arm)
        return state
    weight = 1.0
    if state.alarms[0] > 0:
        weight = get_discount(state) ** max(0, state.last_stage[0] - stage)
    stats = state.statistics
    stats.n_observed[arm] += weight * n
    stats.sums[arm] += weight * total
    if params.in_unit_interval:  # the corrected reward may have been forgotten after an alarm
        stats.sums[arm] = min(max(0.0, stats.sums[arm]), stats.n_observed[arm])
    return state
