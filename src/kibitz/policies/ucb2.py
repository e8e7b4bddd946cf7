r"""UCB2 (Auer, Cesa-Bianchi and Fischer, 2002), which learns from pulls and looks.

UCB2 pulls arms in bursts. Let \tau(r) = \lceil (1 + \alpha)^r \rceil. An arm with O_i observations is
at level r_i, the largest r with \tau(r) \le O_i. UCB2 pulls each arm once; then it chooses the arm
with the largest

.. math:: \bar X_i + \sqrt{2 (1 + \alpha) \log(e t / \tau(r_i)) / \tau(r_i)}

where t is the stage, and pulls this arm until it has \tau(r_i + 1) observations. Looks can make
\tau(r_i) exceed t; the ratio t / \tau(r_i) is then replaced by 1. A look increases O_i, which may
raise the level of an arm or shorten a burst. Without looks this is the original UCB2, which is for
rewards in [0, 1], of scale 1/2. The paper mentions UCB2 (section 4.1) but states no theorem for UCB2
with looks. An active observer looks at the arm with the largest index among the arms that are not
pulled.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import between
from kibitz.policies.index_policy import make_two_largest
from kibitz.policies.policy import (
    NEVER,
    Array,
    Policy,
    Statistics,
    check_scale,
    count,
    new_statistics,
)

MIN_ALPHA, MAX_ALPHA = 1e-6, 1e6  # outside this range, levels could not be told apart or counted


class State(NamedTuple):
    """The statistics of all observations, the levels of all arms, and the current burst."""

    statistics: Statistics
    level_starts: Array  # for each arm, the count at which its current level began
    level_ends: Array  # for each arm, the count at which its next level begins
    burst: Array  # the arm of the burst and the count at which the burst ends


def ucb2(alpha: float = 0.001, scale: float | None = None) -> Policy:
    """Return UCB2 (section 4.1).

    Parameters
    ----------
    alpha
        The constant \\alpha > 0, which determines how fast bursts grow. The authors of UCB2 advise
        0.001.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    constants = {"alpha": between(alpha, "alpha", MIN_ALPHA, MAX_ALPHA)}
    return Policy(
        "ucb2",
        constants,
        init,
        pull,
        look,
        update,
        in_phases=True,
        scale=check_scale(scale),
        parameters=constants,
    )


@jit
def tau(alpha: float, level: int) -> int:
    """Return τ(level), the number of observations at which a level begins."""
    return math.ceil(min((1 + alpha) ** level, float(NEVER)))


@jit
def find_level(alpha: float, count: int) -> int:
    """Return the largest level that begins at or below `count` observations."""
    level = int(math.log(count) / math.log1p(alpha))
    while tau(alpha, level) > count:
        level -= 1
    while tau(alpha, level + 1) <= count:
        level += 1
    return level


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(
        new_statistics(n_arms, 0),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.array([-1, 0]),
    )


@jit
def compute_bound(params: Any, state: State, stage: int, arm: int, rng: Any) -> Any:
    """Return the upper confidence bound of an arm; infinity before the arm's first pull."""
    stats = state.statistics
    if stats.n_pulls[arm] == 0:
        return np.inf
    level_start = float(state.level_starts[arm])
    log_term = 1 + math.log(max(1.0, stage / level_start))
    width = math.sqrt(2 * (1 + params.alpha) * log_term / level_start)
    return stats.sums[arm] / stats.n_observed[arm] + width


find_two_best = make_two_largest(compute_bound)


@jit
def pull(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm of the current burst, or the arm with the largest bound for a new burst."""
    arm = state.burst[0]
    if arm >= 0 and state.statistics.n_observed[arm] < state.burst[1]:
        return arm
    return find_two_best(params, state, stage, state.level_starts.size, rng)[0]


@jit
def look(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm with the largest bound among the arms that are not pulled."""
    best_arm, second_arm = find_two_best(params, state, stage, state.level_starts.size, rng)
    return second_arm if pull(params, state, stage, rng) == best_arm else best_arm


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count an observation; a pull outside a burst begins a new burst."""
    stats, burst = state.statistics, state.burst
    counts = stats.n_observed
    if not is_look and (burst[0] < 0 or counts[burst[0]] >= burst[1]):
        is_first_pull = stats.n_pulls[arm] == 0
        burst[0] = -1 if is_first_pull else arm
        burst[1] = 0 if is_first_pull else state.level_ends[arm]
    count(stats, arm, n, total, is_look)
    if counts[arm] >= state.level_ends[arm]:
        level = find_level(params.alpha, counts[arm])
        state.level_starts[arm] = tau(params.alpha, level)
        state.level_ends[arm] = tau(params.alpha, level + 1)
    return state
