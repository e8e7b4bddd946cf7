r"""UCB2 (Auer, Cesa-Bianchi and Fischer, 2002), counting free observations.

Time goes in bursts. With \tau(r) = \lceil (1 + \alpha)^r \rceil, an arm seen O_i times is at level
r_i, the largest r with \tau(r) \le O_i. Pull each arm once; then choose the arm of largest

.. math:: \bar X_i + \sqrt{2 (1 + \alpha) \log(e t / \tau(r_i)) / \tau(r_i)}

(with t / \tau(r_i) at least 1: looks can make \tau(r_i) exceed t) and pull it until it was seen
\tau(r_i + 1) times. A look raises O_i, so it raises the level of an arm or shortens a burst. Without
looks this is UCB2; the original is for rewards in [0, 1], of scale 1/2.
The paper names it (section 4.1) and states no theorem for it with looks. An active observer looks at
the runner-up.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kibitz._validation import between
from kibitz.engine.jit import jit, jit_init
from kibitz.policies.policy import FAR, Array, Policy, checked_scale, two_largest

LEAST, MOST = 1e-6, 1e6  # of alpha, between which levels can be told apart and counted


class State(NamedTuple):
    """Statistics of all observations, and the burst."""

    n_pulls: Array
    counts: Array
    sums: Array
    begins: Array  # the count at which each arm's level began
    ends: Array  # and that at which the next one begins
    burst: Array  # the arm of the burst, and the count at which the burst ends


def ucb2(alpha: float = 0.001, scale: float | None = None) -> Policy:
    """Return UCB2 (section 4.1).

    Parameters
    ----------
    alpha
        \\alpha > 0: how fast bursts grow; 0.001 as its authors advise.
    scale
        The sub-Gaussian scale of the rewards; that of the problem unless given.
    """
    numbers = {"alpha": between(alpha, "alpha", LEAST, MOST)}
    return Policy(
        "ucb2",
        numbers,
        init,
        pull,
        observe,
        update,
        scale=checked_scale(scale),
        setting=numbers,
    )


@jit
def tau(alpha: float, level: int) -> int:
    """Return the number of observations at which a level begins."""
    return math.ceil(min((1 + alpha) ** level, float(FAR)))


@jit
def level_of(alpha: float, count: int) -> int:
    """Return the largest level that begins at or below `count` observations."""
    level = int(math.log(count) / math.log1p(alpha))
    while tau(alpha, level) > count:
        level -= 1
    while tau(alpha, level + 1) <= count:
        level += 1
    return level


@jit_init
def init(params: Any, n_arms: int) -> State:
    """Return the state before anything was seen."""
    return State(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.float64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.array([-1, 0]),
    )


@jit
def bound(params: Any, state: State, stage: int, arm: int, rng: Any) -> Any:
    """Return the upper confidence bound of an arm; infinite before its first pull."""
    if state.n_pulls[arm] == 0:
        return np.inf
    seen = float(state.begins[arm])
    log = 1 + math.log(max(1.0, stage / seen))
    width = math.sqrt(2 * (1 + params.alpha) * log / seen)
    return state.sums[arm] / state.counts[arm] + width


best = two_largest(bound)


@jit
def pull(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm of the burst, or of the largest bound where a new burst begins."""
    arm = state.burst[0]
    if arm >= 0 and state.counts[arm] < state.burst[1]:
        return arm
    return best(params, state, stage, state.counts.size, rng)[0]


@jit
def observe(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the best arm that is not pulled."""
    first, second = best(params, state, stage, state.counts.size, rng)
    return second if pull(params, state, stage, rng) == first else first


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, free: bool
) -> State:
    """Count an observation; a pull outside of a burst begins one."""
    counts, burst = state.counts, state.burst
    if not free:
        if burst[0] < 0 or counts[burst[0]] >= burst[1]:
            first_pull = state.n_pulls[arm] == 0
            burst[0] = -1 if first_pull else arm
            burst[1] = 0 if first_pull else state.ends[arm]
        state.n_pulls[arm] += n
    counts[arm] += n
    state.sums[arm] += total
    if counts[arm] >= state.ends[arm]:
        level = level_of(params.alpha, counts[arm])
        state.begins[arm] = tau(params.alpha, level)
        state.ends[arm] = tau(params.alpha, level + 1)
    return state
