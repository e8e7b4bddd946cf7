"""What a policy is: a record of parameters and small pure functions that numba compiles.

A policy holds no state of its own. What it learns is the state that it is handed and hands back, a
NamedTuple of arrays and numbers, so that the same functions run in the simulator, in plain Python
and in a live agent::

    init(params, n_arms)                               -> state
    pull(params, state, stage, rng)                    -> arm     decides, changes nothing
    observe(params, state, stage, rng)                 -> arm     to look at, if a look comes
    update(params, state, stage, arm, n, total, free)  -> state   may reuse the arrays it is given

`stage` counts from 1. `pull` and `observe` see the same state. `update` is told of `n` rewards of
`arm` that sum to `total`, looks (`free`) or pulls in a row from `stage` on. More than one come at a
time to index policies only, for pulls up to the end of their `view`.

Most policies pull the arm of largest index; those are one function::

    index(params, stage, counts, arm, mean) -> float

non-decreasing in `stage` and in `mean`, non-increasing in every count: `index_policy` makes the rest
of it. The promise of monotonicity is what lets the engine skip the index of arms that cannot win.
Such a policy may narrow down the arms and restart the clock from time to time: it tells by `view`.
"""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from kibitz.compiling.jit import jit, jit_init, jit_inner
from kibitz.model.feedback import FAR

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy; made by `ucb()` and the like, or by `index_policy`.

    Attributes
    ----------
    name
        The name that it is listed by.
    params
        A NamedTuple of numbers, handed to each function.
    init, pull, observe, update
        The functions; see the module's docstring.
    index, view
        For index policies only.
    turns
        For index policies that look at some arms in turn: `turns(params, state)` returns which ones
        (an array of booleans) and the arm that was looked at last. None for the runner-up.
    unit_rewards
        Whether it makes sense only for rewards in [0, 1].
    setting
        The parameters as the user names them.
    """

    name: str
    params: Any
    init: Callable[..., Any]
    pull: Callable[..., int]
    observe: Callable[..., int]
    update: Callable[..., Any]
    index: Callable[..., float] | None = None
    view: Callable[..., Any] | None = None
    turns: Callable[..., Any] | None = None
    unit_rewards: bool = False
    setting: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.setting.items())})"


class View(NamedTuple):
    """What an index policy decides from: statistics, the arms in play, and until when."""

    counts: Array  # observations that count, of each arm
    sums: Array  # of their rewards
    n_pulls: Array  # pulls since the clock started: each arm is pulled once first
    allowed: Array  # whether an arm may be pulled
    origin: int  # the stage before the clock's first
    end: int  # the last stage of this view
    learns: bool  # whether looks enter the counts and sums
    most_looks: int  # how many looks may be told before arms change


class Seen(NamedTuple):
    """What most policies know: of each arm, how often it was pulled and seen, and what it paid."""

    n_pulls: Array
    counts: Array
    sums: Array
    n_looks: Array  # one number: how many looks came in all
    allowed: Array


def params_of(**numbers: float) -> Any:
    """Return a NamedTuple of parameters, each a float, an int or a bool."""
    return namedtuple("Params", numbers)(**numbers)


def index_policy(
    name: str,
    index: Callable[..., float],
    *,
    look: str = "runner-up",
    ignore_free: bool = False,
    unit_rewards: bool = False,
    setting: dict[str, Any] | None = None,
    **params: float,
) -> Policy:
    """Return the policy that pulls each arm once and then the arm of largest index.

    It counts all observations, pulls and looks. Ties go to the lowest arm.

    Parameters
    ----------
    name
        What to call it.
    index
        `index(params, stage, counts, arm, mean) -> float`, a function that numba can compile:
        `counts[j]` is how often arm j was seen, `mean` the mean of what `arm` paid. It must be
        non-decreasing in `stage` and `mean` and non-increasing in every count. Functions that it
        calls must be compiled too (`numba.njit`).
    look
        Where a look goes: to the "runner-up", the arm of second largest index, or to each arm in
        turn ("robin").
    ignore_free
        Whether to learn from pulls only.
    unit_rewards
        Whether it makes sense only for rewards in [0, 1].
    setting
        The parameters as shown to the user; `params` unless given.
    **params
        The numbers that `index` finds in its first argument.
    """
    if look not in {"runner-up", "robin"}:
        raise ValueError(f"look must be 'runner-up' or 'robin', got {look!r}")
    index = jit(index.py_func if isinstance(index, Dispatcher) else index)
    view = seen_view_pulls if ignore_free else seen_view
    pull, runner_up = chooser(index, view)
    return Policy(
        name,
        params_of(**params),
        init=seen_init,
        pull=pull,
        observe=runner_up if look == "runner-up" else observe_in_turn,
        update=seen_update_pulls if ignore_free else seen_update,
        index=index,
        view=view,
        turns=None if look == "runner-up" else seen_turns,
        unit_rewards=unit_rewards,
        setting=dict(params) if setting is None else setting,
    )


@jit_init
def seen_init(params: Any, n_arms: int) -> Seen:
    """Return the state before anything was seen."""
    return Seen(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.float64),
        np.zeros(1, np.int64),
        np.ones(n_arms, np.bool_),
    )


@jit
def seen_update(
    params: Any, state: Seen, stage: int, arm: int, n: int, total: float, free: bool
) -> Seen:
    """Count all observations."""
    if free:
        state.n_looks[0] += n
    else:
        state.n_pulls[arm] += n
    state.counts[arm] += n
    state.sums[arm] += total
    return state


@jit
def seen_update_pulls(
    params: Any, state: Seen, stage: int, arm: int, n: int, total: float, free: bool
) -> Seen:
    """Count pulls only."""
    if free:
        state.n_looks[0] += n
    else:
        state.n_pulls[arm] += n
        state.counts[arm] += n
        state.sums[arm] += total
    return state


@jit
def seen_view(params: Any, state: Seen, stage: int) -> View:
    """Return all statistics and all arms, for ever."""
    return View(state.counts, state.sums, state.n_pulls, state.allowed, 0, FAR, True, FAR)


@jit
def seen_view_pulls(params: Any, state: Seen, stage: int) -> View:
    """Return the statistics of pulls and all arms, for ever."""
    return View(state.counts, state.sums, state.n_pulls, state.allowed, 0, FAR, False, FAR)


@jit
def seen_turns(params: Any, state: Seen) -> tuple[Array, int]:
    """Return that all arms take turns, and whose turn was the last."""
    n_arms = state.counts.size
    return state.allowed, (state.n_looks[0] + n_arms - 1) % n_arms


@jit
def observe_in_turn(params: Any, state: Seen, stage: int, rng: Any) -> int:
    """Look at each arm in turn."""
    return state.n_looks[0] % state.counts.size


def two_largest(value: Any) -> Any:
    """Return the function that finds the arms of largest and second largest value.

    `value(params, known, stage, arm, rng)` is minus infinity for an arm that is not to be chosen.
    Ties go to the lowest arm.
    """

    def two(params: Any, known: Any, stage: int, n_arms: int, rng: Any) -> tuple[int, int]:
        first, second = 0, 1
        most, more = -np.inf, -np.inf
        for arm in range(n_arms):
            this = value(params, known, stage, arm, rng)
            if this > most:
                first, second = arm, first
                most, more = this, most
            elif this > more:
                second, more = arm, this
        return first, second if more > -np.inf else first

    return jit_inner(two)


def two_best(index: Any) -> Any:
    """Return the function that finds the arms of largest and second largest index.

    An index is infinite before an arm's first pull.
    """

    def value(params: Any, seen: View, stage: int, arm: int, rng: Any) -> Any:
        if not seen.allowed[arm]:
            return -np.inf
        if seen.n_pulls[arm] == 0:
            return np.inf
        mean = seen.sums[arm] / seen.counts[arm]
        return index(params, stage - seen.origin, seen.counts, arm, mean)

    return two_largest(jit_inner(value))


def chooser(index: Any, view: Any) -> tuple[Any, Any]:
    """Return `pull` and `observe` of an index policy: the largest index, and the runner-up."""
    best = two_best(index)

    def pull(params: Any, state: Any, stage: int, rng: Any) -> Any:
        seen = view(params, state, stage)
        return best(params, seen, stage, seen.counts.size, rng)[0]

    def observe(params: Any, state: Any, stage: int, rng: Any) -> Any:
        seen = view(params, state, stage)
        return best(params, seen, stage, seen.counts.size, rng)[1]

    return jit(pull), jit(observe)
