r"""Improved UCB (Auer and Ortner, 2010), which learns from pulls and looks.

Improved UCB eliminates arms in rounds m = 0, 1, ..., with a guess \tilde\Delta_m = 2^{-m} of the gap,
in units of the scale. In round m, it pulls the remaining arms, the least observed arm first, until
each arm was observed

.. math:: n_m = \lceil 8 \log(T \tilde\Delta_m^2) / \tilde\Delta_m^2 \rceil

times, where T is the horizon. It then eliminates each arm i with
\bar X_i + w_i < \max_j (\bar X_j - w_j), where w_i = \sqrt{2 \log(T \tilde\Delta_m^2) / O_i}, O_i
counts pulls and looks of arm i and \bar X_i averages both. After round \lfloor \log_2(T/e)/2 \rfloor,
or when one arm is left, it pulls the remaining arm with the largest mean. A look counts like a pull.
Without looks O_i = n_m and this is the original algorithm, with one exception: for rewards in [0, 1],
the original algorithm starts with the guess 1, which is twice the scale of these rewards.

The paper mentions Improved UCB (section 4.1) but states no theorem for it with looks. An active
observer looks at the remaining arm with the fewest observations, including the pull of the same
stage.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.policies.etc import all_arms_pulled, eliminate, find_two_least_observed, make_look
from kibitz.policies.policy import (
    Array,
    Policy,
    Statistics,
    check_horizon,
    check_scale,
    count,
    new_statistics,
)


class State(NamedTuple):
    """The statistics of all observations, the remaining arms, and the current round."""

    statistics: Statistics
    allowed: Array
    round: Array  # one number: the current round m


def improved_ucb(horizon: int | None = None, scale: float | None = None) -> Policy:
    """Return Improved UCB (section 4.1).

    Parameters
    ----------
    horizon
        The horizon that the policy is tuned for. Default: the horizon of the simulation.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    return Policy(
        "improved_ucb",
        {"horizon": check_horizon(horizon)},
        init,
        pull,
        look,
        update,
        in_phases=True,
        scale=check_scale(scale),
        parameters={"horizon": horizon},
    )


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(new_statistics(n_arms, 0), np.ones(n_arms, np.bool_), np.zeros(1, np.int64))


@jit
def elimination_level(params: Any, state: State) -> float:
    """Return 2 log(T g^2), where g is the current round's guess of the gap; 0 after the last round.

    This number, divided by the number of observations of an arm, is the arm's squared width.
    """
    last_round = math.floor(math.log2(max(1.0, params.horizon / math.e)) / 2)
    if state.round[0] > last_round or state.allowed.sum() == 1:
        return 0.0
    return 2 * max(0.0, math.log(params.horizon) - state.round[0] * math.log(4.0))


@jit
def target_count(params: Any, state: State) -> int:
    """Return the number of observations that each remaining arm needs; 0 after the last round."""
    return math.ceil(4 * elimination_level(params, state) * 4.0 ** state.round[0])


@jit
def pull(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm to pull.

    Arms that were never pulled come first. Then the least observed remaining arm is pulled until the
    round is complete. After the last round, the remaining arm with the largest mean is pulled.
    """
    stats = state.statistics
    counts, sums = stats.n_observed, stats.sums
    for arm in range(counts.size):
        if stats.n_pulls[arm] == 0:
            return arm
    least_observed_arm = find_two_least_observed(state.allowed, counts)[0]
    if counts[least_observed_arm] < target_count(params, state):
        return least_observed_arm
    best_arm = -1
    for arm in range(counts.size):
        if state.allowed[arm] and (
            best_arm < 0 or sums[arm] / counts[arm] > sums[best_arm] / counts[best_arm]
        ):
            best_arm = arm
    return best_arm


look = make_look(pull)


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count an observation; at the end of each round, eliminate arms."""
    stats = state.statistics
    count(stats, arm, n, total, is_look)
    if all_arms_pulled(stats.n_pulls):
        while True:
            target = target_count(params, state)
            lowest_count = stats.n_observed[
                find_two_least_observed(state.allowed, stats.n_observed)[0]
            ]
            if target == 0 or lowest_count < target:
                return state
            eliminate(
                state.allowed, stats.n_observed, stats.sums, elimination_level(params, state), 0.0
            )
            state.round[0] += 1
    return state
