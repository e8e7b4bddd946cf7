r"""Explore-Then-Commit: sample all arms equally and eliminate the worse arms (Algorithm 3).

With a horizon T, an arm with s observations has width w = \sqrt{(2 \alpha / s) \log(T/s)}. After each
round over the remaining arms, arm i is eliminated if \hat\mu_i + w_i < \max_j (\hat\mu_j - w_j),
where \hat\mu_i is the mean of its observations. The policy `etc` pulls the least observed remaining
arm. A look counts like a pull; it goes to the remaining arm with the fewest observations, including
the pull of the same stage. With looks, counts may differ between arms, and each arm has its own
width; without looks, all widths are equal, as in the paper. The test takes place after the
observation is counted and requires s < T (docs/errata/, D30). On the paper's concentration event, arm
i is eliminated after at most 1 + u(\Delta_i) rounds, where \Delta_i is the gap of arm i and
`kibitz.bounds.complexity` defines u (errata, D13).
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import positive
from kibitz.policies.index_policy import make_choices
from kibitz.policies.policy import (
    NEVER,
    Array,
    Policy,
    Statistics,
    View,
    check_horizon,
    check_scale,
    count,
    new_statistics,
)


class State(NamedTuple):
    """The statistics of all observations, the remaining arms, and the last round that was tested."""

    statistics: Statistics
    allowed: Array
    last_tested_count: Array  # one number: the smallest count of a remaining arm at the last test


def etc(alpha: float = 1.0, horizon: int | None = None, scale: float | None = None) -> Policy:
    """Return Explore-Then-Commit (Algorithm 3).

    Parameters
    ----------
    alpha
        The constant \\alpha of the width; 1 in the paper, for rewards of sub-Gaussian scale 1.
    horizon
        The horizon that the policy is tuned for. Default: the horizon of the simulation.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    constants = {"alpha": positive(alpha, "alpha"), "horizon": check_horizon(horizon)}
    return Policy(
        "etc",
        constants,
        init,
        pull,
        look,
        update,
        index=index,
        view=view,
        turns=turns,
        in_phases=True,
        scale=check_scale(scale),
        parameters={"alpha": float(alpha), "horizon": horizon},
    )


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(new_statistics(n_arms, 0), np.ones(n_arms, np.bool_), np.zeros(1, np.int64))


@jit
def find_two_least_observed(allowed: Array, counts: Array) -> tuple[int, int]:
    """Return the least observed remaining arm, and the arm that will be least observed next.

    The second arm is the least observed remaining arm after one more observation of the first arm.
    """
    first_arm, second_arm = -1, -1
    for arm in range(counts.size):
        if allowed[arm]:
            if first_arm < 0 or counts[arm] < counts[first_arm]:
                first_arm, second_arm = arm, first_arm
            elif second_arm < 0 or counts[arm] < counts[second_arm]:
                second_arm = arm
    if second_arm < 0 or counts[first_arm] + 1 < counts[second_arm]:
        return first_arm, first_arm
    if counts[first_arm] + 1 == counts[second_arm]:
        return first_arm, min(first_arm, second_arm)
    return first_arm, second_arm


@jit
def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return an index that is largest for the least observed arm."""
    return -float(counts[arm])


@jit
def view(params: Any, state: State, stage: int) -> View:
    """Return the statistics and the remaining arms.

    While several arms remain, the view is valid for one observation only, because each observation
    may eliminate arms.
    """
    n_remaining = state.allowed.sum()
    last_stage, max_looks = (NEVER, NEVER) if n_remaining == 1 else (stage, 0)
    stats = state.statistics
    return View(stats, stats.n_pulls, state.allowed, 0, last_stage, True, max_looks)


@jit
def turns(params: Any, state: State) -> tuple[Array, int]:
    """Return the remaining arms, which take turns, and 0 as the arm of the last look.

    The engine calls this function only while a single arm remains.
    """
    return state.allowed, 0


pull, _ = make_choices(index, view)


@cache
def make_look(pull: Any) -> Any:
    """Return the `look` that chooses the least observed remaining arm after `pull` is counted."""

    def look(params: Any, state: Any, stage: int, rng: Any) -> Any:
        first_arm, second_arm = find_two_least_observed(state.allowed, state.statistics.n_observed)
        return second_arm if pull(params, state, stage, rng) == first_arm else first_arm

    return jit(look)


look = make_look(pull)


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count an observation; at the end of each round over the remaining arms, eliminate arms."""
    stats = state.statistics
    count(stats, arm, n, total, is_look)
    lowest_count = stats.n_observed[find_two_least_observed(state.allowed, stats.n_observed)[0]]
    if lowest_count > state.last_tested_count[0] and all_arms_pulled(stats.n_pulls):
        state.last_tested_count[0] = lowest_count
        slope = 2 * params.alpha
        level = slope * math.log(params.horizon)
        eliminate(state.allowed, stats.n_observed, stats.sums, level, slope)
    return state


@jit
def all_arms_pulled(n_pulls: Array) -> bool:
    """Return whether each arm was pulled at least once."""
    for n in n_pulls:  # noqa: SIM110 (numba does not support all())
        if n == 0:
            return False
    return True


@jit
def eliminate(allowed: Array, counts: Array, sums: Array, level: float, slope: float) -> None:
    """Eliminate each arm whose upper confidence bound is below the lower bound of another arm.

    An arm with s observations has width sqrt((level - slope log s) / s). No arm is eliminated if a
    width would be zero or undefined. Arms without observations are ignored.
    """
    largest_lower_bound = -np.inf
    for arm in range(counts.size):
        if allowed[arm] and counts[arm] > 0:
            squared_width = (level - slope * math.log(counts[arm])) / counts[arm]
            if squared_width <= 0:
                return
            largest_lower_bound = max(
                largest_lower_bound, sums[arm] / counts[arm] - math.sqrt(squared_width)
            )
    for arm in range(counts.size):
        if allowed[arm] and counts[arm] > 0:
            squared_width = (level - slope * math.log(counts[arm])) / counts[arm]
            if sums[arm] / counts[arm] + math.sqrt(squared_width) < largest_lower_bound:
                allowed[arm] = False
