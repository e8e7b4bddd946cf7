r"""UCB for means that change: SW-UCB and D-UCB (Garivier and Moulines, 2011), with looks.

Both policies forget old observations. SW-UCB learns from the last \tau stages only and pulls the arm
with the largest

.. math:: \bar X_i + \sqrt{c \log(\min(t, \tau)) / N_i}

where t is the stage, N_i counts pulls and looks of arm i in these stages and \bar X_i averages
both. D-UCB gives an observation that is s stages old the weight \gamma^s. It pulls the arm with the
largest \bar X_i + \sqrt{c \log(n) / N_i}, where N_i is the sum of the weights of arm i, \bar X_i is
its weighted mean, and n is the sum of all weights. With `rewards="bernoulli"` or `"bounded"`, the
index is instead the largest q with 2 N_i kl(\bar X_i, q) <= c L, as in KL-UCB, where L is the same
logarithm. Both policies first pull the arms without observations, in order.

Garivier and Moulines bound the regret of both policies. Their bounds need a larger constant c than
our default (for rewards in [0, 1], their constant \xi corresponds to c = 4 \xi for SW-UCB and c =
16 \xi for D-UCB), a window of 2 \sqrt{T \log(T) / \Upsilon} and a discount of 1 - \sqrt{\Upsilon /
T} / 4, where \Upsilon is the number of changes until the horizon T. The defaults assume one change.
If a policy may choose its looks, it looks at the arms in turn. No theorem covers these policies
with looks, and they are not in the paper by Degenne, Garcelon and Perchet.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import between, invalid, positive, whole
from kibitz.policies.kl_ucb import bernoulli_index
from kibitz.policies.policy import Array, Policy, Rewards, check_rewards, check_scale, params_type

MAX_WINDOW = 10**8  # the policy stores this many counts for each arm
KL_UCB = params_type(("c",))(0.0)  # parameters of KL-UCB with level log t


def sw_ucb(
    window: int | None = None,
    exploration: float = 2.0,
    rewards: Rewards = "gaussian",
    scale: float | None = None,
) -> Policy:
    """Return SW-UCB, which learns from the last stages only; it is not in the paper.

    Parameters
    ----------
    window
        The number of stages from which the policy learns. Default: 2 sqrt(T log T) for the horizon T
        of the simulation.
    exploration
        The constant c of the index.
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]). For the last two, the
        index is that of KL-UCB.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    constants = {
        "window": 0 if window is None else whole(window, "window", 1, MAX_WINDOW),
        "exploration": positive(exploration, "exploration"),
        "horizon": 0.0,
        "in_unit_interval": check_rewards(rewards) != "gaussian",
    }
    return Policy(
        "sw_ucb",
        constants,
        init,
        pull,
        look,
        update,
        simulation_only=True,
        rewards=rewards,
        scale=check_scale(scale, rewards),
        parameters={
            "window": window, "exploration": constants["exploration"], "rewards": rewards
        },
    )  # fmt: skip


def d_ucb(
    discount: float | None = None,
    exploration: float = 2.0,
    rewards: Rewards = "gaussian",
    scale: float | None = None,
) -> Policy:
    """Return D-UCB, in which the weight of an observation decays; it is not in the paper.

    Parameters
    ----------
    discount
        The factor \\gamma by which all weights are multiplied at each stage, between 0 and 1.
        Default: 1 - 1 / (4 sqrt(T)) for the horizon T of the simulation.
    exploration
        The constant c of the index.
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]). For the last two, the
        index is that of KL-UCB.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    if discount is not None and not 0 < between(discount, "discount", 0, 1) < 1:
        raise invalid("discount", "above 0 and below 1", discount)
    constants = {
        "discount": 0.0 if discount is None else float(discount),
        "exploration": positive(exploration, "exploration"),
        "horizon": 0.0,
        "in_unit_interval": check_rewards(rewards) != "gaussian",
    }
    return Policy(
        "d_ucb",
        constants,
        init_discounted,
        pull_discounted,
        look,
        update_discounted,
        simulation_only=True,
        rewards=rewards,
        scale=check_scale(scale, rewards),
        parameters={
            "discount": discount, "exploration": constants["exploration"], "rewards": rewards
        },
    )  # fmt: skip


class State(NamedTuple):
    """The counts and sums of the observations that are not forgotten.

    SW-UCB stores them by stage too: the row `stage % window` of `stage_counts` and `stage_sums`
    belongs to `stage`.
    """

    counts: Array  # N_i: floats, because a discount makes them fractions
    sums: Array
    clock: Array  # two numbers: the number of looks, and the last stage with an observation
    stage_counts: Array  # (stage, arm); no rows for a discount
    stage_sums: Array


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state of SW-UCB before any observation."""
    n_rows = params.window
    if n_rows == 0:
        horizon = max(2.0, params.horizon)
        n_rows = math.ceil(2 * math.sqrt(horizon * math.log(horizon)))
    n_rows = min(n_rows, int(max(1.0, params.horizon))) if params.horizon > 0 else n_rows
    shape = (n_rows, n_arms)
    return State(
        np.zeros(n_arms), np.zeros(n_arms), np.zeros(2, np.int64), np.zeros(shape), np.zeros(shape)
    )


@jit(allocates=True)
def init_discounted(params: Any, n_arms: int) -> State:
    """Return the state of D-UCB before any observation."""
    shape = (0, n_arms)
    return State(
        np.zeros(n_arms), np.zeros(n_arms), np.zeros(2, np.int64), np.zeros(shape), np.zeros(shape)
    )


LOOKS, LAST_STAGE = 0, 1  # the entries of `State.clock`


@jit
def find_largest(state: State, level: float, in_unit_interval: bool) -> int:
    """Return the lowest arm without observations, or else the arm with the largest index.

    The index of an arm is the largest q whose divergence from the arm's mean is at most `level` / n,
    where n is the weight of the arm's observations. The divergence is Gaussian, or Bernoulli if
    `in_unit_interval` is true.
    """
    best_arm, largest = 0, -np.inf
    clock: Any = math.exp(level)  # the (fractional) stage at which the level of KL-UCB is `level`
    for arm in range(state.counts.size):
        n = state.counts[arm]
        if n <= 0:
            return arm
        mean = state.sums[arm] / n
        if in_unit_interval:
            value = bernoulli_index(KL_UCB, clock, state.counts, arm, mean)
        else:
            value = mean + math.sqrt(2 * level / n)
        if value > largest:
            best_arm, largest = arm, value
    return best_arm


@jit
def pull(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm that SW-UCB pulls."""
    clock = min(stage, state.stage_counts.shape[0])
    return find_largest(state, params.exploration / 2 * math.log(clock), params.in_unit_interval)


@jit
def pull_discounted(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm that D-UCB pulls."""
    n = 0.0
    for arm in range(state.counts.size):
        n += state.counts[arm]
    level = params.exploration / 2 * math.log(max(1.0, n))
    return find_largest(state, level, params.in_unit_interval)


@jit
def look(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the next arm to look at, in turn."""
    return state.clock[LOOKS] % state.counts.size


@jit
def add_observations(state: State, arm: int, n: int, total: float, is_look: bool) -> None:
    """Count observations of an arm."""
    state.counts[arm] += n
    state.sums[arm] += total
    if is_look:
        state.clock[LOOKS] += n


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Forget the stages that leave the window, and count observations."""
    window, n_arms = state.stage_counts.shape
    first_new = max(state.clock[LAST_STAGE] + 1, stage - window + 1)
    for new_stage in range(first_new, stage + 1):
        row = new_stage % window
        for other_arm in range(n_arms):
            if state.stage_counts[row, other_arm] > 0:
                state.counts[other_arm] -= state.stage_counts[row, other_arm]
                state.sums[other_arm] -= state.stage_sums[row, other_arm]
                if state.counts[other_arm] == 0:
                    state.sums[other_arm] = 0.0  # without the rounding errors
                state.stage_counts[row, other_arm] = 0.0
                state.stage_sums[row, other_arm] = 0.0
    state.clock[LAST_STAGE] = max(state.clock[LAST_STAGE], stage)
    state.stage_counts[stage % window, arm] += n
    state.stage_sums[stage % window, arm] += total
    add_observations(state, arm, n, total, is_look)
    return state


@jit
def update_discounted(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count an observation, and discount all earlier observations once per stage."""
    n_stages = stage - state.clock[LAST_STAGE]
    if n_stages > 0:
        discount = params.discount
        if discount == 0:
            discount = 1 - 0.25 / math.sqrt(max(1.0, params.horizon))
        for other_arm in range(state.counts.size):
            state.counts[other_arm] *= discount**n_stages
            state.sums[other_arm] *= discount**n_stages
        state.clock[LAST_STAGE] = stage
    add_observations(state, arm, n, total, is_look)
    return state
