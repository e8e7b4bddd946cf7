"""What a policy is: a record of parameters and small pure functions.

A policy holds no state. Its functions take the state and return the next one, a NamedTuple of arrays
(or of such NamedTuples), so the same functions run compiled in the simulator and as plain Python in a
live agent or under a debugger::

    init(params, n_arms)                                  -> state
    pull(params, state, stage, rng)                       -> arm     reads the state only
    look(params, state, stage, rng)                       -> arm     to look at, if asked
    update(params, state, stage, arm, n, total, is_look)  -> state   may reuse the arrays

`stage` counts from 1. `pull` and `look` see the same state. `update` receives `n` rewards of
`arm` that sum to `total`: looks (`is_look`), or pulls of consecutive stages from `stage` on. Only
index policies receive more than one at once, up to the end of their `view`.

Most policies consist of one function, `index(params, stage, counts, arm, mean) -> float`, and pull
the arm with the largest index (`index_policy`). It is non-decreasing in `stage` and `mean` and
non-increasing in every count, so the engine can skip arms that cannot win. An index policy may
restrict the arms in play and restart its clock: its `view` says so.

**Scale.** Policies are written for rewards of sub-Gaussian scale 1. They receive rewards divided by
the scale, which is that of the problem unless given (`scale=`). A policy for "bernoulli" or "bounded"
`rewards` receives them unchanged.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from kibitz._jit import jit
from kibitz._validation import invalid, number, one_of, positive, short_repr

Array = NDArray[Any]

#: The kinds of rewards that a policy can be made for: any sub-Gaussian, 0 or 1, or in [0, 1].
Rewards = Literal["gaussian", "bernoulli", "bounded"]

NEVER = 2**62  # a stage that no run reaches


# ------------------------------------------------------------------------------------------- records

PULLS, LOOKS = 0, 1  # the entries of `Statistics.totals`


class Statistics(NamedTuple):
    """Counts and sums of the observations of each arm."""

    n_pulls: Array
    n_looks: Array
    n_observed: Array  # the pulls and looks that count
    sums: Array  # of the rewards that count
    totals: Array  # of all arms: pulls, looks
    derived: Array  # floats that `update` computes from the counts for the index, or none


class View(NamedTuple):
    """What an index policy decides from, and how long that stays so."""

    statistics: Statistics
    tried: Array  # an arm with a 0 here is pulled first: its index is infinite
    allowed: Array  # whether an arm may be pulled
    origin: int  # the stage before the first one of the policy's clock
    end: int  # the last stage of this view
    learns: bool  # whether looks enter the counts and sums
    most_looks: int  # how many looks may come before the arms in play can change


class Hold(NamedTuple):
    """Where looks go that do not go in turn: to one arm, as long as `leader` has the largest mean."""

    arm: int
    leader: int  # -1 if it does not matter which arm leads
    most: int  # how many looks may come before another arm is chosen


@jit(allocates=True)
def new_statistics(n_arms: int, n_derived: int) -> Statistics:
    """Return statistics without observations, with room for so many derived floats."""
    return Statistics(
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.int64),
        np.zeros(n_arms, np.float64),
        np.zeros(2, np.int64),
        np.zeros(n_derived, np.float64),
    )


@jit
def count(statistics: Statistics, arm: int, n: int, total: float, is_look: bool) -> None:
    """Count `n` pulls or looks of an arm whose rewards sum to `total`."""
    count_kind(statistics, arm, n, is_look)
    statistics.n_observed[arm] += n
    statistics.sums[arm] += total


@jit
def count_kind(statistics: Statistics, arm: int, n: int, is_look: bool) -> None:
    """Count pulls or looks without learning from their rewards."""
    if is_look:
        statistics.n_looks[arm] += n
        statistics.totals[LOOKS] += n
    else:
        statistics.n_pulls[arm] += n
        statistics.totals[PULLS] += n


def arrays_of(state: Any) -> list[Array]:
    """Return the arrays of a state, those of records inside it included."""
    if isinstance(state, tuple):
        return [array for part in state for array in arrays_of(part)]
    return [np.asarray(state)]


def with_arrays(state: Any, arrays: Iterator[Array]) -> Any:
    """Return a state of the same types that consists of other arrays, in the order of `arrays_of`."""
    if isinstance(state, tuple):
        return type(state)(*(with_arrays(part, arrays) for part in state))
    return next(arrays)


# ------------------------------------------------------------------------- the functions of a policy


class Init(Protocol):
    """Return the state before any observation."""

    def __call__(self, params: Any, n_arms: int, /) -> Any: ...


class Choose(Protocol):
    """Return the arm to pull, or to look at, without modifying the state."""

    def __call__(self, params: Any, state: Any, stage: int, rng: Any, /) -> int: ...


class Update(Protocol):
    """Return the state after `n` observations of one arm."""

    def __call__(
        self, params: Any, state: Any, stage: int, arm: int, n: int, total: float, is_look: bool, /
    ) -> Any: ...


class Index(Protocol):
    """Return the index of an arm; `observed` is its counts or the whole `Statistics`."""

    def __call__(self, params: Any, stage: int, observed: Any, arm: int, mean: float, /) -> float: ...


class StandardRule(NamedTuple):
    """How `index_policy` completes an index to a policy."""

    look: str  # "runner-up" or "robin"
    ignore_looks: bool


@dataclass(frozen=True)
class Policy:
    """A policy; made by `ucb()` and the like, by `index_policy`, or from functions of your own.

    Attributes
    ----------
    name
        The name under which the policy is listed.
    constants
        The parameters that the functions find in `params`, by name: floats, ints and bools.
    init, pull, look, update
        The functions described in `kibitz.policies.policy`.
    index, view
        For index policies only.
    index_reads
        What the third argument of `index` is: the "counts" of the arms or the whole "statistics".
    additive
        Whether the index is the mean plus something that does not depend on the mean.
    factors
        For an index mean + growth(params, stage) * width(params, count): both functions. The engine
        then looks them up in tables.
    turns
        `turns(params, state)`: which arms are looked at in turn, and the last one. None: runner-up.
    hold, due
        For looks in turn now and then: `hold(params, state)` is the arm looked at in between, and
        `due(params, state, arm, n)` how many of the next n looks an arm gets in turn.
    in_phases
        Whether the decisions depend on the order of the observations, so that a live agent must
        report each reward before it asks again.
    rule
        How the functions follow from the index, for policies made by `index_policy`. Only it sets the
        rule, and `dataclasses.replace` drops it.
    rewards
        The rewards that the policy is made for: "gaussian", "bernoulli" (0 or 1) or "bounded"
        (in [0, 1]).
    scale
        The sub-Gaussian scale of the rewards; that of the problem if None.
    parameters
        The parameters under the names that the user knows.
    """

    name: str
    constants: dict[str, Any]
    init: Init
    pull: Choose
    look: Choose
    update: Update
    index: Index | None = None
    view: Callable[..., View] | None = None
    index_reads: Literal["counts", "statistics"] = "counts"
    additive: bool = False
    factors: tuple[Callable[..., float], Callable[..., float]] | None = None
    turns: Callable[..., tuple[Array, int]] | None = None
    hold: Callable[..., Hold] | None = None
    due: Callable[..., int] | None = None
    in_phases: bool = False
    rule: StandardRule | None = field(default=None, init=False)
    rewards: Rewards = "gaussian"
    scale: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise invalid("name", "a word", self.name)
        for name, value in (("constants", self.constants), ("parameters", self.parameters)):
            if not isinstance(value, dict):
                raise invalid(name, "a dict", value)
        for parameter, value in self.constants.items():
            if not isinstance(value, bool | np.ndarray):
                number(value, parameter)
        for name in ("init", "pull", "look", "update"):
            if not callable(getattr(self, name)):
                raise invalid(name, "a function", getattr(self, name))
        if (self.index is None) != (self.view is None):
            raise ValueError(f"{self.name} has only one of index and view; give both or none")
        one_of(self.index_reads, "index_reads", ("counts", "statistics"))
        check_scale(self.scale, check_rewards(self.rewards))

    def __hash__(self) -> int:
        return hash((self.name, self.functions))

    def __reduce__(self) -> Any:
        from kibitz.policies.spec import pickled

        return pickled(self)

    @property
    def functions(self) -> tuple[Callable[..., Any] | None, ...]:
        """All functions of the policy, on which its decisions and its compiled code depend."""
        parts = (self.init, self.pull, self.look, self.update, self.index, self.view, self.turns)
        return parts if self.hold is None else (*parts, self.hold, self.due)

    @property
    def params(self) -> Any:
        """The parameters as the functions see them, a NamedTuple."""
        return params_type(tuple(self.constants))(**self.constants)

    def params_for(self, horizon: float) -> Any:
        """Return the parameters, with the horizon of the simulation if the policy has none."""
        if self.constants.get("horizon") == 0:
            return self.params._replace(horizon=float(horizon))
        return self.params

    def scale_for(self, problem_scale: float) -> float:
        """Return the unit in which the policy receives rewards of a problem with this scale."""
        if self.rewards != "gaussian":
            return 1.0
        return self.scale if self.scale is not None else problem_scale or 1.0

    def __repr__(self) -> str:
        from kibitz.policies.spec import expression

        return expression(self)


@cache
def params_type(names: tuple[str, ...]) -> Any:
    """Return the class of parameters with these names, one for all policies that share them."""
    return namedtuple("Params", names)


def check_policy(policy: object) -> Policy:
    """Return a policy; raise ValueError for anything else."""
    if not isinstance(policy, Policy):
        raise ValueError(f"policy must be one such as ucb(), got {short_repr(policy)}")
    return policy


def check_rewards(rewards: str) -> Rewards:
    """Return the kind of rewards that a policy is made for; raise ValueError for anything else."""
    return one_of(rewards, "rewards", get_args(Rewards))  # type: ignore[return-value]


def check_scale(scale: float | None, rewards: Rewards = "gaussian") -> float | None:
    """Return the scale that a policy was given, or None for that of the problem."""
    if scale is None:
        return None
    if rewards != "gaussian":
        raise invalid("scale", f"left out for {rewards} rewards", scale)
    return positive(scale, "scale")


def check_horizon(horizon: float | None) -> float:
    """Return the horizon that a policy plans for; 0 stands for that of the simulation."""
    if horizon is None:
        return 0.0
    if not 1 <= (given := number(horizon, "horizon", "at least 1 and finite")) < np.inf:
        raise invalid("horizon", "at least 1 and finite", horizon)
    return given
