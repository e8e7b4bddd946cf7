"""Index policies, which pull each arm once and then the arm with the largest index."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import flag, invalid, one_of
from kibitz.policies.policy import (
    LOOKS,
    NEVER,
    Array,
    GraphFunctions,
    Policy,
    Rewards,
    StandardRule,
    Statistics,
    View,
    check_rewards,
    check_scale,
    count,
    count_kind,
    new_statistics,
)


def index_policy(
    name: str,
    index: Callable[..., float],
    *,
    look: str = "runner-up",
    ignore_looks: bool = False,
    rewards: Rewards = "gaussian",
    scale: float | None = None,
    parameters: dict[str, Any] | None = None,
    **params: float,
) -> Policy:
    """Return the policy that pulls each arm once and then the arm with the largest index.

    The policy learns from all observations, pulls and looks. In a tie, it chooses the lowest arm.

    Parameters
    ----------
    name
        The name of the policy.
    index
        `index(params, stage, counts, arm, mean) -> float`, a function that numba can compile:
        `counts[j]` is the number of observations of arm j, and `mean` is the mean reward of `arm`.
        The index must be non-decreasing in `stage` and `mean` and non-increasing in every count, and
        must not modify `counts`. Mark the functions that it calls with `kibitz.jit` (or
        `numba.njit`).
    look
        The arm to look at: the arm with the second largest index ("runner-up"), or each arm in turn
        ("robin").
    ignore_looks
        Whether to learn from pulls only.
    rewards
        The rewards that the index supports: "gaussian", "bernoulli" (0 or 1) or "bounded"
        (any number in [0, 1]).
    scale
        The sub-Gaussian scale of the rewards; `mean` is in units of this scale. Default: the scale of
        the problem. With 1, rewards are not rescaled.
    parameters
        The parameters to show in labels and results. Default: `params`.
    **params
        The fields of the first argument of `index`.
    """
    one_of(look, "look", ("runner-up", "robin"))
    if not (parameters is None or isinstance(parameters, dict)):
        raise invalid("parameters", "a dict", parameters)
    if not callable(index):
        raise invalid("index", "a function", index)
    index = getattr(index, "py_func", index)  # the Python function of a numba dispatcher
    if not isinstance(index, FunctionType):
        raise invalid("index", "a function written in Python", index)
    rule = StandardRule(look, flag(ignore_looks, "ignore_looks"))
    view_function = view_pulls if rule.ignore_looks else view
    pull, runner_up = make_choices(index, view_function)
    on_graph = make_graph_functions(index, ignore_looks=rule.ignore_looks)
    if look == "robin":
        on_graph = on_graph._replace(look=look_in_turn)
    policy = Policy(
        name,
        dict(params),
        init,
        pull,
        runner_up if look == "runner-up" else look_in_turn,
        update_pulls if rule.ignore_looks else update,
        index=index,
        view=view_function,
        turns=None if look == "runner-up" else turns,
        on_graph=on_graph,
        rewards=check_rewards(rewards),
        scale=check_scale(scale, rewards),
        parameters=dict(params) if parameters is None else parameters,
    )
    return _set_rule(policy, rule)


def with_factors(policy: Policy, growth: Any, width: Any) -> Policy:
    """Return the policy with `factors` set to `growth` and `width`, which the engine tabulates."""
    assert policy.rule is not None
    return _set_rule(replace(policy, factors=(growth, width)), policy.rule)


def _set_rule(policy: Policy, rule: StandardRule) -> Policy:
    object.__setattr__(policy, "rule", rule)
    return policy


class State(NamedTuple):
    """The statistics of an index policy, and the allowed arms, which are all arms."""

    statistics: Statistics
    allowed: Array


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(new_statistics(n_arms, 0), np.ones(n_arms, np.bool_))


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count pulls and looks, and learn from both."""
    count(state.statistics, arm, n, total, is_look)
    return state


@jit
def update_pulls(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count pulls and looks, but learn from pulls only."""
    if is_look:
        count_kind(state.statistics, arm, n, is_look)
    else:
        count(state.statistics, arm, n, total, is_look)
    return state


@jit
def view(params: Any, state: State, stage: int) -> View:
    """Return all statistics and all arms; this view is valid at all stages."""
    stats = state.statistics
    return View(stats, stats.n_pulls, state.allowed, 0, NEVER, True, NEVER)


@jit
def view_pulls(params: Any, state: State, stage: int) -> View:
    """Return the same view as `view`, for a policy that learns from pulls only."""
    stats = state.statistics
    return View(stats, stats.n_pulls, state.allowed, 0, NEVER, False, NEVER)


@jit
def view_observed(params: Any, state: Any, stage: int) -> View:
    """Return the same view as `view`, but an arm that was observed need not be pulled first."""
    stats = state.statistics
    return View(stats, stats.n_observed, state.allowed, 0, NEVER, True, NEVER)


@jit
def view_observed_pulls(params: Any, state: Any, stage: int) -> View:
    """Return the same view as `view_observed`, for a policy that learns from pulls only."""
    stats = state.statistics
    return View(stats, stats.n_observed, state.allowed, 0, NEVER, False, NEVER)


@jit
def show(params: Any, state: Any, stage: int, pulled: int, arm: int, n: int, total: float) -> Any:
    """Learn from rewards that a pull showed; count neither pulls nor looks."""
    state.statistics.n_observed[arm] += n
    state.statistics.sums[arm] += total
    return state


@jit
def ignore_show(
    params: Any, state: Any, stage: int, pulled: int, arm: int, n: int, total: float
) -> Any:
    """Learn nothing from what a pull showed."""
    return state


@jit
def hide(params: Any, state: Any, stage: int, arm: int, n: int) -> Any:
    """Count pulls that hid their own reward."""
    count_kind(state.statistics, arm, n, False)
    return state


def make_graph_functions(
    index: Any, index_reads: str = "counts", ignore_looks: bool = False
) -> GraphFunctions:
    """Return the functions with which an index policy plays on a graph."""
    graph_view = view_observed_pulls if ignore_looks else view_observed
    choices = make_choices(index, graph_view, index_reads)
    return GraphFunctions(*choices, graph_view, ignore_show if ignore_looks else show, hide)


@jit
def turns(params: Any, state: State) -> tuple[Array, int]:
    """Return the arms that are looked at in turn, here all arms, and the arm of the last look."""
    n_arms = state.allowed.size
    return state.allowed, (state.statistics.totals[LOOKS] + n_arms - 1) % n_arms


@jit
def look_in_turn(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the next arm to look at, in turn."""
    return state.statistics.totals[LOOKS] % state.allowed.size


@cache
def make_choices(index: Any, view: Any, index_reads: str = "counts") -> tuple[Any, Any]:
    """Return `pull` and `look`, which choose the arm with the largest index and the runner-up.

    The index of an arm is infinite before its first pull.
    """
    index_value = make_statistics_index(index, index_reads)

    def index_or_infinity(params: Any, current_view: View, stage: int, arm: int, rng: Any) -> Any:
        if not current_view.allowed[arm]:
            return -np.inf
        if current_view.tried[arm] == 0:
            return np.inf
        statistics = current_view.statistics
        mean = statistics.sums[arm] / statistics.n_observed[arm]
        return index_value(params, stage - current_view.origin, statistics, arm, mean)

    find_two_largest = make_two_largest(jit(index_or_infinity))

    def pull(params: Any, state: Any, stage: int, rng: Any) -> Any:
        current_view = view(params, state, stage)
        return find_two_largest(params, current_view, stage, current_view.allowed.size, rng)[0]

    def look(params: Any, state: Any, stage: int, rng: Any) -> Any:
        current_view = view(params, state, stage)
        return find_two_largest(params, current_view, stage, current_view.allowed.size, rng)[1]

    return jit(pull), jit(look)


@cache
def make_statistics_index(index: Any, index_reads: str) -> Any:
    """Return an index as a function that takes the whole `Statistics` as its third argument."""
    if index_reads == "statistics":
        return index

    def value(params: Any, stage: int, statistics: Statistics, arm: int, mean: float) -> Any:
        return index(params, stage, statistics.n_observed, arm, mean)

    return jit(value)


@cache
def make_two_largest(value: Any) -> Any:
    """Return a function that finds the arms with the largest and the second largest value.

    `value(params, data, stage, arm, rng)` is minus infinity for an arm that must not be chosen. If
    only one arm may be chosen, the function returns it twice. In a tie, the lowest arm comes first.
    """

    def find_two_largest(
        params: Any, data: Any, stage: int, n_arms: int, rng: Any
    ) -> tuple[int, int]:
        best_arm, second_arm = 0, 1
        largest_value, second_value = -np.inf, -np.inf
        for arm in range(n_arms):
            arm_value = value(params, data, stage, arm, rng)
            if arm_value > largest_value:
                best_arm, second_arm = arm, best_arm
                largest_value, second_value = arm_value, largest_value
            elif arm_value > second_value:
                second_arm, second_value = arm, arm_value
        return best_arm, second_arm if second_value > -np.inf else best_arm

    return jit(find_two_largest)


@cache
def make_separable_index(growth: Any, width: Any) -> Any:
    """Return a function that computes mean + growth(params, stage) * width(params, count)."""

    def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> Any:
        return mean + growth(params, stage) * width(params, counts[arm])

    return jit(index)


@jit
def inverse_root(params: Any, count: int) -> float:
    """Return 1 / sqrt(count), the width of most confidence intervals up to a factor."""
    return 1 / math.sqrt(count)
