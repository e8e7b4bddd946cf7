"""What a policy is: a record of parameters and small pure functions.

A policy holds no state of its own. What it learns is the state that it is handed and hands back, a
NamedTuple of arrays, so that the same functions run in the simulator, where numba compiles them, and
in plain Python, in a live agent or under a debugger::

    init(params, n_arms)                               -> state
    pull(params, state, stage, rng)                    -> arm     decides, changes nothing
    observe(params, state, stage, rng)                 -> arm     to look at, if a look comes
    update(params, state, stage, arm, n, total, free)  -> state   may reuse the arrays

`stage` counts from 1. `pull` and `observe` see the same state. `update` is told of `n` rewards of
`arm` that sum to `total`, looks (`free`) or pulls in a row from `stage` on. More than one come at a
time to index policies only, for pulls up to the end of their `view`.

Most policies pull the arm of largest index; those are one function::

    index(params, stage, counts, arm, mean) -> float

non-decreasing in `stage` and in `mean`, non-increasing in every count: `index_policy` makes the rest
of it. The promise of monotonicity is what lets the engine skip the index of arms that cannot win.
Such a policy may narrow down the arms and restart the clock from time to time: it tells by `view`.

**Scale.** A policy is for rewards of sub-Gaussian scale 1. What it is told are rewards in units of
the true scale, which it learns from the problem unless it is given (`scale=`), so that no formula
needs to know it. A policy for rewards in [0, 1] (`unit_rewards`) is told rewards as they are.
"""

import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import flag, number, one_of, positive, quoted, refused
from kibitz.engine.content import is_ours
from kibitz.engine.jit import jit, jit_copy, jit_init

Array = NDArray[Any]

FAR = 2**62  # a stage that no run reaches


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy; made by `ucb()` and the like, or by `index_policy`.

    Attributes
    ----------
    name
        The name that it is listed by.
    numbers
        The parameters that its functions find in `params`, by name: floats, ints and bools.
    init, pull, observe, update
        The functions; see the module's docstring.
    index, view
        For index policies only.
    turns
        For index policies that look at some arms in turn: `turns(params, state)` returns which ones
        (an array of booleans) and the arm that was looked at last. None for the runner-up.
    hold
        For index policies that look in turn now and then only: `hold(params, state)` returns which
        arm is looked at in between, and for how long; see `Hold`.
    due
        With `hold`: `due(params, state, arm, n)` returns how many of the next n looks go to an arm
        in turn, if it is neither pulled nor held.
    unit_rewards
        Whether it makes sense only for rewards in [0, 1].
    scale
        The sub-Gaussian scale of the rewards; that of the problem if None.
    setting
        The parameters as the user names them.
    """

    name: str
    numbers: dict[str, Any]
    init: Callable[..., Any]
    pull: Callable[..., int]
    observe: Callable[..., int]
    update: Callable[..., Any]
    index: Callable[..., float] | None = None
    view: Callable[..., Any] | None = None
    turns: Callable[..., Any] | None = None
    hold: Callable[..., Any] | None = None
    due: Callable[..., int] | None = None
    unit_rewards: bool = False
    scale: float | None = None
    setting: dict[str, Any] = field(default_factory=dict)

    @property
    def functions(self) -> tuple[Callable[..., Any] | None, ...]:
        """All functions of the policy: what its numbers, and its machine code, depend on."""
        parts = (self.init, self.pull, self.observe, self.update, self.index, self.view, self.turns)
        return parts if self.hold is None else (*parts, self.hold, self.due)

    @property
    def params(self) -> Any:
        """The parameters as the functions see them, a NamedTuple."""
        return params_type(tuple(self.numbers))(**self.numbers)

    def params_for(self, horizon: float) -> Any:
        """Return the parameters, with the game's horizon where the policy was given none."""
        if self.numbers.get("horizon") == 0:
            return self.params._replace(horizon=float(horizon))
        return self.params

    def scale_for(self, problem_scale: float) -> float:
        """Return the unit in which the policy sees rewards, for a problem of some scale."""
        if self.unit_rewards:
            return 1.0
        return self.scale if self.scale is not None else problem_scale or 1.0

    def __repr__(self) -> str:
        given = {**self.setting, **({} if self.scale is None else {"scale": self.scale})}
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in given.items())})"


@cache
def params_type(names: tuple[str, ...]) -> Any:
    """Return the class of parameters of these names: one for all policies that share them."""
    return namedtuple("Params", names)


def checked_policy(policy: object) -> Policy:
    """Return a policy, or refuse what is none."""
    if not isinstance(policy, Policy):
        raise ValueError(f"policy must be one such as ucb(), got {quoted(policy)}")
    return policy


def checked_scale(scale: float | None, unit_rewards: bool = False) -> float | None:
    """Return the scale that a policy was given, or None for that of the problem."""
    if scale is None:
        return None
    if unit_rewards:
        raise refused("scale", "left out for rewards in [0, 1]", scale)
    return positive(scale, "scale")


def checked_horizon(horizon: float | None) -> float:
    """Return the horizon that a policy plans for; 0, for that of the game, if none is given."""
    if horizon is None:
        return 0.0
    if not 1 <= (given := number(horizon, "horizon", "at least 1 and finite")) < np.inf:
        raise refused("horizon", "at least 1 and finite", horizon)
    return given


class View(NamedTuple):
    """What an index policy decides from: statistics, the arms in play, and until when."""

    counts: Array  # observations that count, of each arm; then that of looks, or what the index keeps
    sums: Array  # of their rewards
    n_pulls: Array  # pulls since the clock started: each arm is pulled once first
    allowed: Array  # whether an arm may be pulled
    origin: int  # the stage before the clock's first
    end: int  # the last stage of this view
    learns: bool  # whether looks enter the counts and sums
    most_looks: int  # how many looks may be told before arms change


class Hold(NamedTuple):
    """Where looks go that do not go in turn: to one arm, while another has the largest mean."""

    arm: int  # that is looked at
    leader: int  # the arm of largest mean; -1 if it does not matter
    most: int  # how many looks may come before the arm is given up


class Seen(NamedTuple):
    """What most policies know: of each arm, how often it was pulled and seen, and what it paid."""

    n_pulls: Array
    counts: Array
    sums: Array
    n_looks: Array  # one number: how many looks came in all
    allowed: Array


def index_policy(
    name: str,
    index: Callable[..., float],
    *,
    look: str = "runner-up",
    ignore_free: bool = False,
    unit_rewards: bool = False,
    scale: float | None = None,
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
        Whether it makes sense only for rewards in [0, 1], which `mean` is in then.
    scale
        The sub-Gaussian scale of the rewards, in units of which `mean` is; that of the problem unless
        given. 1 leaves rewards as they are.
    setting
        The parameters as shown to the user; `params` unless given.
    **params
        The numbers that `index` finds in its first argument.
    """
    if not (isinstance(name, str) and name):
        raise refused("name", "a word", name)
    one_of(look, "look", ("runner-up", "robin"))
    if not (setting is None or isinstance(setting, dict)):
        raise refused("setting", "a dict", setting)
    if not callable(index):
        raise refused("index", "a function", index)
    formula = index if is_ours(index) else jit_copy(index)
    for parameter, value in params.items():
        number(value, parameter) if not isinstance(value, bool) else None
    view = seen_view_pulls if flag(ignore_free, "ignore_free") else seen_view
    pull, runner_up = choices_by(formula, view)
    return Policy(
        name,
        dict(params),
        init=seen_init,
        pull=pull,
        observe=runner_up if look == "runner-up" else observe_in_turn,
        update=seen_update_pulls if ignore_free else seen_update,
        index=formula,
        view=view,
        turns=None if look == "runner-up" else seen_turns,
        unit_rewards=flag(unit_rewards, "unit_rewards"),
        scale=checked_scale(scale, unit_rewards),
        setting=dict(params) if setting is None else setting,
    )


@cache
def separable(growth: Any, width: Any) -> Any:
    """Return the index mean + growth(params, stage) * width(params, count), of functions of kibitz.

    The engine looks both up in tables (`simulator.tables`): a stage then costs about what it costs in
    code that is written by hand for one formula.
    """

    def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> Any:
        return mean + growth(params, stage) * width(params, counts[arm])

    index.factors = (growth, width)  # type: ignore[attr-defined]
    return jit(index)


@cache
def additive(width: Any) -> Any:
    """Return the index mean + width(params, stage, counts, arm), of a function of kibitz.

    That it falls with the mean as the mean does saves the engine every other evaluation.
    """

    def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> Any:
        return mean + width(params, stage, counts, arm)

    index.width = width  # type: ignore[attr-defined]
    return jit(index)


@jit
def one_over_root(params: Any, count: int) -> float:
    """Return the width of most confidence intervals, in units of what they owe to the stage."""
    return 1 / math.sqrt(count)


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


@cache
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

    return jit(two)


@cache
def choices_by(index: Any, view: Any) -> tuple[Any, Any]:
    """Return `pull` and `observe` of an index policy: the largest index, and the runner-up.

    An index is infinite before an arm's first pull.
    """

    def value(params: Any, seen: View, stage: int, arm: int, rng: Any) -> Any:
        if not seen.allowed[arm]:
            return -np.inf
        if seen.n_pulls[arm] == 0:
            return np.inf
        mean = seen.sums[arm] / seen.counts[arm]
        return index(params, stage - seen.origin, seen.counts, arm, mean)

    best = two_largest(jit(value))

    def pull(params: Any, state: Any, stage: int, rng: Any) -> Any:
        seen = view(params, state, stage)
        return best(params, seen, stage, seen.allowed.size, rng)[0]

    def observe(params: Any, state: Any, stage: int, rng: Any) -> Any:
        seen = view(params, state, stage)
        return best(params, seen, stage, seen.allowed.size, rng)[1]

    return jit(pull), jit(observe)
