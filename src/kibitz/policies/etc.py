r"""Explore-Then-Commit: look at all arms alike, drop those that are surely worse (Algorithm 3).

With a horizon T, an arm seen s times has width w = \sqrt{(2 \alpha / s) \log(T/s)}. After each full
round of the arms in play, drop arm i if \hat\mu_i + w_i < \max_j (\hat\mu_j - w_j). By itself, `etc`
pulls the least seen arm in play; a look counts as a pull does and goes to the arm that is least seen
once the pull is counted. Arms may then have been seen unequally often: each has its own width
(without looks they are equal, as in the paper). The test comes after the count and needs s < T
(docs/errata.md, D30). On the paper's concentration event arm i is gone after 1 + u(\Delta_i) rounds
(`kibitz.bounds.complexity`; errata, D13).
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import positive
from kibitz.policies.index_policy import choices_by
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
    """Statistics of all observations, the arms in play, and the rounds that were tested."""

    statistics: Statistics
    allowed: Array
    tested: Array  # one number: how often each arm in play had been seen at the last test


def etc(alpha: float = 1.0, horizon: int | None = None, scale: float | None = None) -> Policy:
    """Return Explore-Then-Commit by itself (Algorithm 3).

    Parameters
    ----------
    alpha
        \\alpha; 1 in the paper, for rewards of sub-Gaussian scale 1.
    horizon
        The horizon that it plans for; that of the simulation unless given.
    scale
        The sub-Gaussian scale of the rewards; that of the problem unless given.
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
    """Return the state before anything was seen."""
    return State(new_statistics(n_arms, 0), np.ones(n_arms, np.bool_), np.zeros(1, np.int64))


@jit
def two_least_seen(allowed: Array, counts: Array) -> tuple[int, int]:
    """Return the least seen arm in play, and the least seen once that one was seen again."""
    first, second = -1, -1
    for arm in range(counts.size):
        if allowed[arm]:
            if first < 0 or counts[arm] < counts[first]:
                first, second = arm, first
            elif second < 0 or counts[arm] < counts[second]:
                second = arm
    if second < 0 or counts[first] + 1 < counts[second]:
        return first, first
    if counts[first] + 1 == counts[second]:
        return first, min(first, second)
    return first, second


@jit
def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return an index that is largest for the least seen arm."""
    return -float(counts[arm])


@jit
def view(params: Any, state: State, stage: int) -> View:
    """Return the arms in play: each observation may change them until one is left."""
    n = state.allowed.sum()
    end, most_looks = (NEVER, NEVER) if n == 1 else (stage, 0)
    known = state.statistics
    return View(known, known.n_pulls, state.allowed, 0, end, True, most_looks)


@jit
def turns(params: Any, state: State) -> tuple[Array, int]:
    """Return that the last arm in play is looked at."""
    return state.allowed, 0


pull, _ = choices_by(index, view)


@cache
def look_by(pull: Any) -> Any:
    """Return `look` for a `pull`: the arm in play that is least seen once the pull is counted."""

    def look(params: Any, state: Any, stage: int, rng: Any) -> Any:
        first, second = two_least_seen(state.allowed, state.statistics.n_observed)
        return second if pull(params, state, stage, rng) == first else first

    return jit(look)


look = look_by(pull)


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count an observation; test after each full round."""
    known = state.statistics
    count(known, arm, n, total, is_look)
    least = known.n_observed[two_least_seen(state.allowed, known.n_observed)[0]]
    if least > state.tested[0] and all_pulled(known.n_pulls):
        state.tested[0] = least
        slope = 2 * params.alpha
        level = slope * math.log(params.horizon)
        eliminate(state.allowed, known.n_observed, known.sums, level, slope)
    return state


@jit
def all_pulled(n_pulls: Array) -> bool:
    """Return whether each arm was pulled at least once."""
    for n in n_pulls:  # noqa: SIM110 (compiled code knows no all())
        if n == 0:
            return False
    return True


@jit
def eliminate(allowed: Array, counts: Array, sums: Array, level: float, slope: float) -> None:
    """Take out of play each arm whose upper bound is below another's lower bound.

    An arm seen s times has width sqrt((level - slope log s) / s); there is no test once an arm in
    play has none. An arm never seen neither drops others nor is dropped.
    """
    best = -np.inf
    for arm in range(counts.size):
        if allowed[arm] and counts[arm] > 0:
            square = (level - slope * math.log(counts[arm])) / counts[arm]
            if square <= 0:
                return
            best = max(best, sums[arm] / counts[arm] - math.sqrt(square))
    for arm in range(counts.size):
        if allowed[arm] and counts[arm] > 0:
            square = (level - slope * math.log(counts[arm])) / counts[arm]
            if sums[arm] / counts[arm] + math.sqrt(square) < best:
                allowed[arm] = False
