r"""GLR-UCB (Besson, Kaufmann, Maillard and Seznec, 2022), with looks.

GLR-UCB is KL-UCB with a test of each arm for a change in its mean. If the test finds a change, the
policy restarts the arm. It pulls the arm with the largest q that satisfies

.. math:: N_i\, d(\bar X_i, q) \le \log(t - \tau_i)

where t is the stage, \tau_i is the stage of the last restart of arm i (at first 0), N_i counts pulls
and looks of arm i since this restart, \bar X_i averages both, and d is the divergence of Gaussian or
Bernoulli distributions. An arm without observations since its restart is pulled first. To see changes
of all arms, GLR-UCB also pulls the arms in turn: with k - 1 restarts so far, K arms and the horizon
T, every block of \lceil K / \alpha_k \rceil stages since the last restart begins with one pull of
each arm, where

.. math:: \alpha_k = a \sqrt{k K \log(T) / T} .

The authors prove a bound for a = 1 and use a = 0.05 in practice.

The test compares the s observations of arm i before a possible change with the w observations after
it. It restarts the arm if the generalised likelihood ratio
s d(\bar X_{before}, \bar X_i) + w d(\bar X_{after}, \bar X_i) exceeds
\log((s + w)^{3/2} / \delta), with \delta = T^{-1/2}. The authors test all pairs (s, w), or every
tenth pair to save time; we test the pairs of the block scan (`kibitz.policies.change_scan`), so a
stage takes the same time at any horizon. If GLR-UCB may choose its looks, it looks at the arms in
turn. No theorem covers it with looks, and the paper does not treat it.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import non_negative
from kibitz.policies.change_scan import Scan, add_and_test, new_scan
from kibitz.policies.kl_ucb import bernoulli_index
from kibitz.policies.policy import (
    Array,
    Policy,
    Rewards,
    check_horizon,
    check_rewards,
    check_scale,
    params_type,
)

KL_UCB = params_type(("c",))(0.0)  # parameters of KL-UCB with level log t


def glr_ucb(
    a: float = 0.05,
    horizon: int | None = None,
    rewards: Rewards = "gaussian",
    scale: float | None = None,
) -> Policy:
    """Return GLR-UCB, which restarts an arm after a change of its mean; it is not in the paper.

    Parameters
    ----------
    a
        The constant a of the rate \\alpha_k at which arms are pulled in turn.
    horizon
        The horizon that the policy is tuned for. Default: the horizon of the simulation.
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]).
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    constants = {
        "a": non_negative(a, "a"),
        "horizon": check_horizon(horizon),
        "in_unit_interval": check_rewards(rewards) != "gaussian",
    }
    return Policy(
        "glr_ucb",
        constants,
        init,
        pull,
        look,
        update,
        simulation_only=True,
        rewards=rewards,
        scale=check_scale(scale, rewards),
        parameters={"a": constants["a"], "horizon": horizon, "rewards": rewards},
    )


class State(NamedTuple):
    """The observations of each arm since its restart, the scans for changes, and the restarts."""

    counts: Array  # N_i
    sums: Array
    scan: Scan
    restarts: Array  # the stage of the last restart of each arm
    totals: Array  # three numbers: looks, restarts, and the stage of the last restart of any arm


LOOKS, RESTARTS, LAST_RESTART = 0, 1, 2  # the entries of `State.totals`


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms),
        new_scan(n_arms),
        np.zeros(n_arms, np.int64),
        np.zeros(3, np.int64),
    )


@jit
def find_due_arm(params: Any, state: State, stage: int) -> int:
    """Return the arm whose turn it is to be pulled, or -1 if it is no arm's turn."""
    n_arms, horizon = state.counts.size, max(2.0, params.horizon)
    k = state.totals[RESTARTS] + 1
    rate = params.a * math.sqrt(k * n_arms * math.log(horizon) / horizon)
    if rate * horizon <= n_arms:
        return -1  # the second block would begin after the horizon, and all arms are pulled anyway
    length = math.ceil(n_arms / min(1.0, rate))
    place = (stage - state.totals[LAST_RESTART] - 1) % length
    return place if place < n_arms else -1


@jit
def pull(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm that is due, or else the arm with the largest index."""
    due_arm = find_due_arm(params, state, stage)
    if due_arm >= 0:
        return due_arm
    best_arm, largest = 0, -np.inf
    for arm in range(state.counts.size):
        n = state.counts[arm]
        if n == 0:
            return arm
        mean = state.sums[arm] / n
        clock = max(1, stage - state.restarts[arm])
        if params.in_unit_interval:
            value = bernoulli_index(KL_UCB, clock, state.counts, arm, mean)
        else:
            value = mean + math.sqrt(2 * math.log(clock) / n)
        if value > largest:
            best_arm, largest = arm, value
    return best_arm


@jit
def look(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the next arm to look at, in turn."""
    return state.totals[LOOKS] % state.counts.size


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count an observation; restart the arm if the observation reveals a change of its mean."""
    if is_look:
        state.totals[LOOKS] += 1
    state.counts[arm] += 1
    state.sums[arm] += total
    threshold = 0.5 * math.log(max(2.0, params.horizon))
    change = add_and_test(state.scan, arm, total, threshold, 1.5, 0.0, params.in_unit_interval)
    if change.origin >= 0:
        state.counts[arm], state.sums[arm] = 0, 0.0
        state.scan.origins[arm] = state.scan.counts[arm]
        state.scan.origin_sums[arm] = state.scan.sums[arm]
        state.restarts[arm] = stage
        state.totals[RESTARTS] += 1
        state.totals[LAST_RESTART] = stage
    return state
