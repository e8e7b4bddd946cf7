r"""The rule "kibitzer" of scout: explore when kibitzer explores, with the arm that is worth most.

scout first pulls arms that show unobserved arms, as with the rule "price". Then let L be the arm with
the largest mean, and \Delta_k the difference to the mean of arm k. The rule uses kibitzer's index
with one change: it adds b K Q_Lk t to the denominator of x_k, because pulls of L show arm k. If L has
the largest index, scout pulls L. Otherwise, let i be the arm with the largest index, and W the arms
whose index at stage 4t is at least the present index of L. The value of a pull of arm j is

.. math:: v_j = \frac{1}{\Delta_j} \sum_{k \in W} Q_{jk} \Delta_k .

Let j be the arm with the largest value among the arms other than L with Q_ji >= 1/2. scout pulls arm
j if v_j > 1.5 v_i, and arm i otherwise. If scout knows that pulls show no other arms, it pulls the
same arms as kibitzer.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.policies.kibitzer import find_leader, spread
from kibitz.policies.max_n import probability
from kibitz.policies.policy import Array, Statistics, count, count_kind, new_statistics

B, BETA = 8.0, 1.0  # kibitzer's constants
FORESIGHT = 4.0  # W has the arms that kibitzer may explore until the stage has grown by this factor
MIN_ADVANTAGE = 1.5  # how many times as valuable another arm must be
MIN_SHARE = 0.5  # the smallest probability with which another arm must show the explored arm
PRIOR_WEIGHT = 0.125  # a power of 2, so that equal sums stay equal in floating-point arithmetic
MIN_GAP = 1e-12


class State(NamedTuple):
    """The statistics of all observations, and the learned graph."""

    statistics: Statistics
    n_shown: Array  # (pulled arm, shown arm); empty if the policy knows the graph


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(new_statistics(n_arms, 0), np.zeros((n_arms, n_arms)))


@jit(allocates=True)
def init_informed(params: Any, n_arms: int) -> State:
    """Return the state before any observation, for a policy that knows the graph."""
    return State(new_statistics(n_arms, 0), np.zeros((0, 0)))


@jit
def share_learned(params: Any, state: State, pulled: int, arm: int) -> float:
    """Return the estimate of the probability that a pull shows an arm."""
    prior = PRIOR_WEIGHT if pulled == arm else PRIOR_WEIGHT / 2
    n_pulls = state.statistics.n_pulls[pulled]
    return (state.n_shown[pulled, arm] + prior) / (n_pulls + PRIOR_WEIGHT)


@jit
def share_informed(params: Any, state: State, pulled: int, arm: int) -> float:
    """Return the probability that a pull shows an arm."""
    if pulled == arm:
        own: float = params.graph.own[arm]
        return own
    return probability(params.graph, pulled, arm)


@cache
def make_pull(informed: bool) -> Any:
    """Return the function `pull` of a policy that knows the graph (`informed`) or learns it."""
    share = share_informed if informed else share_learned

    def index(params: Any, state: State, stage: Any, arm: int, leader: int) -> float:
        """Return kibitzer's index, with the observations that pulls of the leader will show."""
        stats = state.statistics
        x = spread(params, stage, stats, arm)
        if arm != leader and (informed or stats.n_pulls[leader] > 0):
            free = stats.sums.size * share(params, state, leader, arm) * stage
            x = 1 + params.b * stage / (params.b * stage / (x - 1) + params.b * free)
        log = math.log(x)
        level = log - params.beta * math.log(1 + log)
        n = stats.n_observed[arm]
        return stats.sums[arm] / n + math.sqrt(2 * abs(level) / n)

    index = jit(index)

    def worth(params: Any, state: State, stage: float, arm: int, leader: int, limit: float) -> float:
        """Return the worth of an observation of an arm.

        The worth is the gap of the arm if its index at `stage` is at least `limit`, and otherwise 0.
        Without a leader (-1), the worth is 1 for unobserved arms and 0 for other arms.
        """
        stats = state.statistics
        if leader < 0:
            return 1.0 if stats.n_observed[arm] == 0 else 0.0
        if arm == leader or index(params, state, stage, arm, leader) < limit:
            return 0.0
        best_mean = stats.sums[leader] / stats.n_observed[leader]
        return best_mean - stats.sums[arm] / stats.n_observed[arm]

    worth = jit(worth)

    def sum_worth(
        params: Any, state: State, stage: float, pulled: int, leader: int, limit: float, total: float
    ) -> float:
        """Return the expected total worth of the arms that a pull shows.

        This is the sum over all arms of the probability that a pull of `pulled` shows the arm, times
        the worth of the arm. `total` is the sum of the worth of all arms.
        """
        own = worth(params, state, stage, pulled, leader, limit)
        if informed:
            graph = params.graph
            value = graph.own[pulled] * own
            for edge in range(graph.offsets[pulled], graph.offsets[pulled + 1]):
                arm = graph.arms[edge]
                value += graph.probabilities[edge] * worth(params, state, stage, arm, leader, limit)
            return value
        value = PRIOR_WEIGHT / 2 * (total + own)
        for arm in range(state.statistics.sums.size):
            n_shown = state.n_shown[pulled, arm]
            if n_shown > 0:
                value += n_shown * worth(params, state, stage, arm, leader, limit)
        return value / (state.statistics.n_pulls[pulled] + PRIOR_WEIGHT)

    sum_worth = jit(sum_worth)

    def pull(params: Any, state: State, stage: int, rng: Any) -> Any:
        """Return an arm that shows unobserved arms, or else the leader or an arm that explores."""
        stats = state.statistics
        n_arms = stats.sums.size
        total = 0.0
        for arm in range(n_arms):
            total += worth(params, state, float(stage), arm, -1, 0.0)
        if total > 0:
            best_arm, best_value, best_mean = 0, -1.0, -np.inf
            for arm in range(n_arms):
                value = sum_worth(params, state, float(stage), arm, -1, 0.0, total)
                n = stats.n_observed[arm]
                mean = stats.sums[arm] / n if n > 0 else -np.inf
                if value > best_value or (value == best_value and mean > best_mean):
                    best_arm, best_value, best_mean = arm, value, mean
            return best_arm
        leader = find_leader(stats)
        explored, largest = 0, -np.inf
        for arm in range(n_arms):
            value = index(params, state, float(stage), arm, leader)
            if value > largest:
                explored, largest = arm, value
        if explored == leader:
            return leader
        limit, later = index(params, state, float(stage), leader, leader), FORESIGHT * stage
        for arm in range(n_arms):
            total += worth(params, state, later, arm, leader, limit)
        best_mean = stats.sums[leader] / stats.n_observed[leader]
        best_arm, best_value, own_value = explored, 0.0, 0.0
        for arm in range(n_arms):
            if arm == leader or (arm != explored and share(params, state, arm, explored) < MIN_SHARE):
                continue
            gap = best_mean - stats.sums[arm] / stats.n_observed[arm]
            value = sum_worth(params, state, later, arm, leader, limit, total) / max(gap, MIN_GAP)
            if arm == explored:
                own_value = value
            elif value > best_value:
                best_arm, best_value = arm, value
        return best_arm if best_value > MIN_ADVANTAGE * own_value else explored

    return jit(pull)


@jit
def update(params: Any, state: Any, stage: int, arm: int, n: int, total: float, is_look: bool) -> Any:
    """Count observations; a pull whose reward is reported here has shown its own arm."""
    count(state.statistics, arm, n, total, is_look)
    if not is_look and state.n_shown.size > 0:
        state.n_shown[arm, arm] += n
    return state


@jit
def show(params: Any, state: Any, stage: int, pulled: int, arm: int, n: int, total: float) -> Any:
    """Learn from what a pull showed, about the shown arm and about the graph."""
    state.statistics.n_observed[arm] += n
    state.statistics.sums[arm] += total
    if state.n_shown.size > 0:
        state.n_shown[pulled, arm] += n
    return state


@jit
def hide(params: Any, state: Any, stage: int, arm: int, n: int) -> Any:
    """Count pulls that hid their own reward."""
    count_kind(state.statistics, arm, n, False)
    return state
