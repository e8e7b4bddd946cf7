"""The `Policy` class: a record of parameters and small pure functions.

A policy holds no state. Its functions take a state and return an arm or the next state. A state is a
NamedTuple of arrays (or of such NamedTuples), so the same functions run compiled in the simulator and
as plain Python in a live agent or under a debugger::

    init(params, n_arms)                                  -> state
    pull(params, state, stage, rng)                       -> arm
    look(params, state, stage, rng)                       -> arm
    update(params, state, stage, arm, n, total, is_look)  -> state

`look` is called only if a look arrives. `pull` and `look` must not modify the state; `update` may
reuse its arrays. `stage` counts from 1. `pull` and `look` see the same state. `update` receives the
sum `total` of `n` rewards of `arm`. These rewards come from looks (`is_look`), or from pulls at
consecutive stages that begin with `stage`. Only index policies receive several rewards at once,
within one `view`.

Most policies consist of one function, `index(params, stage, counts, arm, mean) -> float`, and pull
the arm with the largest index (`index_policy`). The index must be non-decreasing in `stage` and
`mean` and non-increasing in every count; the engine can then skip arms that cannot have the largest
index. An index policy may restrict the allowed arms and restart its clock through its `view`.

**Scale.** Policies are written for rewards of sub-Gaussian scale 1. They receive rewards divided by a
scale: the scale passed as `scale=`, or else the scale of the problem. A policy for "bernoulli" or
"bounded" `rewards` receives the rewards unchanged.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import isfunction
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from kibitz._jit import jit
from kibitz._validation import invalid, number, one_of, positive, short_repr

Array = NDArray[Any]

#: The rewards that a policy supports: any sub-Gaussian rewards, rewards 0 or 1, rewards in [0, 1].
Rewards = Literal["gaussian", "bernoulli", "bounded"]

NEVER = 2**62  # a stage that no run reaches


# ------------------------------------------------------------------------------------------- records

PULLS, LOOKS = 0, 1  # the entries of `Statistics.totals`


class Statistics(NamedTuple):
    """Counts and sums of the observations of each arm."""

    n_pulls: Array
    n_looks: Array
    n_observed: Array  # the numbers of observations that the policy learns from
    sums: Array  # the sums of the rewards of these observations
    totals: Array  # two numbers: all pulls and all looks
    derived: Array  # floats that `update` computes from the counts for the index; may be empty


class View(NamedTuple):
    """The data from which an index policy decides, and the stages for which the data are valid."""

    statistics: Statistics
    tried: (
        Array  # for each arm, a count; an arm with count 0 has an infinite index and is pulled first
    )
    allowed: Array  # for each arm, whether it may be pulled
    origin: int  # the stage at which the policy's clock is 0
    last_stage: int  # the last stage at which this view is valid
    learns_from_looks: bool  # whether looks change the counts and sums
    max_looks: int  # the number of looks during which the allowed arms cannot change


class Hold(NamedTuple):
    """A hold: one arm gets all looks that do not go to the arms in turn.

    The hold ends when `leader` no longer has the largest mean, or after `max_looks` looks.
    """

    arm: int
    leader: int  # the arm that must keep the largest mean; -1 if the means do not matter
    max_looks: int


class Graph(NamedTuple):
    """The arms that each pull shows, as sparse rows: row i has the edges of a pull of arm i.

    The entries of row i are `offsets[i] : offsets[i + 1]`.
    A policy whose constants include `graph` receives this record as `params.graph`.
    """

    offsets: Array
    arms: Array  # the shown arm of each edge; the pulled arm itself is left out
    probabilities: Array  # the probability of each edge
    own: Array  # for each arm, the probability that a pull shows its own reward
    skip: Array  # 1 / log(1 - p) if all edges of a long row have the same small p; otherwise 0


NO_GRAPH = Graph(
    np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0)
)  # the value of the constant `graph` before the simulation sets it


@jit(allocates=True)
def new_statistics(n_arms: int, n_derived: int) -> Statistics:
    """Return statistics without observations, with `n_derived` derived floats."""
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
    """Count `n` pulls of an arm, or `n` looks at it; `total` is the sum of their rewards."""
    count_kind(statistics, arm, n, is_look)
    statistics.n_observed[arm] += n
    statistics.sums[arm] += total


@jit
def count_kind(statistics: Statistics, arm: int, n: int, is_look: bool) -> None:
    """Count `n` pulls of an arm, or `n` looks at it, without their rewards."""
    if is_look:
        statistics.n_looks[arm] += n
        statistics.totals[LOOKS] += n
    else:
        statistics.n_pulls[arm] += n
        statistics.totals[PULLS] += n


def list_arrays(state: Any) -> list[Array]:
    """Return all arrays of a state, including the arrays in nested records."""
    if isinstance(state, tuple):
        return [array for field_value in state for array in list_arrays(field_value)]
    return [np.asarray(state)]


def replace_arrays(state: Any, arrays: Iterator[Array]) -> Any:
    """Return a copy of a state with its arrays replaced, in the order of `list_arrays`."""
    if isinstance(state, tuple):
        return type(state)(*(replace_arrays(field_value, arrays) for field_value in state))
    return next(arrays)


# ------------------------------------------------------------------------- the functions of a policy


class Init(Protocol):
    """A function that returns the state before any observation."""

    def __call__(self, params: Any, n_arms: int, /) -> Any: ...


class Choose(Protocol):
    """A function that returns the arm to pull or to look at, without modifying the state."""

    def __call__(self, params: Any, state: Any, stage: int, rng: Any, /) -> int: ...


class Update(Protocol):
    """A function that returns the state after `n` observations of one arm."""

    def __call__(
        self, params: Any, state: Any, stage: int, arm: int, n: int, total: float, is_look: bool, /
    ) -> Any: ...


class Revise(Protocol):
    """A function that returns the state after a late report about an earlier stage.

    The report adds `n` observations whose rewards sum to `total`. For a corrected reward, `n` is 0.
    """

    def __call__(
        self, params: Any, state: Any, stage: int, arm: int, n: float, total: float, /
    ) -> Any: ...


class Index(Protocol):
    """A function that returns the index of an arm.

    `observed` contains the counts of all arms, or is the whole `Statistics` (`Policy.index_reads`).
    """

    def __call__(self, params: Any, stage: int, observed: Any, arm: int, mean: float, /) -> float: ...


class Show(Protocol):
    """A function that returns the state after pulls of `pulled` showed `arm` `n` times."""

    def __call__(
        self, params: Any, state: Any, stage: int, pulled: int, arm: int, n: int, total: float, /
    ) -> Any: ...


class Hide(Protocol):
    """A function that returns the state after `n` pulls of `arm` that hid their own reward."""

    def __call__(self, params: Any, state: Any, stage: int, arm: int, n: int, /) -> Any: ...


class GraphFunctions(NamedTuple):
    """The functions with which a policy plays on a graph (`kibitz.graph`).

    `pull`, `look` and `view` replace the functions of the same name; an arm that was shown need not
    be pulled first.
    """

    pull: Choose
    look: Choose
    view: Callable[..., View] | None
    show: Show
    hide: Hide
    needs_loops: bool = True  # whether every arm must show its own reward with positive probability


class StandardRule(NamedTuple):
    """The options with which `index_policy` turns an index into a policy."""

    look: str  # "runner-up" or "robin"
    ignore_looks: bool


@dataclass(frozen=True)
class Policy:
    """A policy, created by a constructor such as `ucb`, by `index_policy` or from your own functions.

    Attributes
    ----------
    name
        The name under which the policy is listed.
    constants
        The fields of `params`, the first argument of all functions: floats, ints and bools.
    init, pull, look, update
        The functions described in `kibitz.policies.policy`.
    index, view
        The index and its data (`View`); both are None if the policy is not an index policy.
    index_reads
        The third argument of `index`: the "counts" of all arms, or the whole "statistics".
    additive
        Whether the index is the mean plus a term that does not depend on the mean.
    factors
        The functions `growth` and `width`, if the index equals
        mean + growth(params, stage) * width(params, count). The engine tabulates both functions.
    turns
        `turns(params, state)` returns the arms that are looked at in turn, and the arm that was
        looked at last. If `turns` and `hold` are None, the policy looks at the arm with the second
        largest index.
    hold, looks_due
        Two functions of a policy that sends only some of its looks to the arms in turn, or None.
        `hold(params, state)` returns the arm that gets the other looks (`Hold`).
        `looks_due(params, state, arm, n)` returns how many of the next n looks an arm gets in turn.
    on_graph
        The functions with which the policy plays on a graph (`GraphFunctions`). If it is None, the
        policy counts what a pull shows as looks, and every pull must show its own reward.
    max_arms
        The largest number of arms that the policy can play with, or None.
    inner
        The policy that `max_n` was called with, or None.
    in_phases
        Whether decisions depend on the order of the observations. A live agent with such a policy
        must be told each reward before its next decision.
    revise
        The function that learns a late report (`Revise`), for a policy that learns the rewards in the
        order of the decisions. It is None if the order does not matter, or if the policy is
        `in_phases` or `simulation_only`.
    simulation_only
        Whether the policy is for simulations only. Live agents reject it.
    is_python
        Whether the functions call a Python object and are not compiled (`python_policy`).
    rule
        The options of `index_policy`, or None for other policies. `dataclasses.replace` resets this
        field to None.
    rewards
        The rewards that the policy supports: "gaussian", "bernoulli" (0 or 1) or "bounded"
        (in [0, 1]).
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    parameters
        The parameters as the user passed them to the constructor.
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
    looks_due: Callable[..., int] | None = None
    on_graph: GraphFunctions | None = None
    max_arms: int | None = None
    inner: "Policy | None" = None
    in_phases: bool = False
    revise: Revise | None = None
    simulation_only: bool = False
    is_python: bool = False
    rule: StandardRule | None = field(default=None, init=False)
    rewards: Rewards = "gaussian"
    scale: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise invalid("name", "a non-empty string", self.name)
        for name, value in (("constants", self.constants), ("parameters", self.parameters)):
            if not isinstance(value, dict):
                raise invalid(name, "a dict", value)
        for constant, value in self.constants.items():
            if not isinstance(value, bool | np.ndarray | Graph):
                number(value, constant)
        for name in ("init", "pull", "look", "update"):
            if not callable(getattr(self, name)):
                raise invalid(name, "a function", getattr(self, name))
        if (self.index is None) != (self.view is None):
            raise ValueError(f"{self.name} has only one of index and view; pass both or neither")
        one_of(self.index_reads, "index_reads", ("counts", "statistics"))
        check_scale(self.scale, check_rewards(self.rewards))

    def __hash__(self) -> int:
        return hash((self.name, self.functions))

    def __reduce__(self) -> Any:
        from kibitz.policies.spec import reduce_policy

        return reduce_policy(self)

    @property
    def functions(self) -> tuple[Callable[..., Any] | None, ...]:
        """The functions of the policy in a fixed order; None for a function that it does not have."""
        functions: tuple[Callable[..., Any] | None, ...] = (
            self.init, self.pull, self.look, self.update, self.index, self.view, self.turns,
        )  # fmt: skip
        if self.hold is not None:
            functions += (self.hold, self.looks_due)
        if self.on_graph is not None and self.rule is None:  # a rule implies the functions on a graph
            functions += self.on_graph[:5]
        return functions

    def for_graph(self) -> "Policy":
        """Return this policy with the functions that it uses on a graph, if it has such functions."""
        if self.on_graph is None:
            return self
        pull, look, view = self.on_graph[:3]
        return replace(self, pull=pull, look=look, view=None if self.index is None else view)

    @property
    def params(self) -> Any:
        """The parameters, as the NamedTuple that the functions receive."""
        return params_type(tuple(self.constants))(**self.constants)

    def params_for(self, horizon: float) -> Any:
        """Return the parameters for a simulation with a given horizon.

        `horizon` is used only if the policy has a parameter `horizon` and the user did not set it.
        """
        if self.constants.get("horizon") == 0:
            return self.params._replace(horizon=float(horizon))
        return self.params

    def scale_for(self, problem_scale: float) -> float:
        """Return the number by which rewards are divided before the policy receives them."""
        if self.rewards != "gaussian":
            return 1.0
        return self.scale if self.scale is not None else problem_scale or 1.0

    def __repr__(self) -> str:
        from kibitz.policies.spec import format_call

        return format_call(self)


@cache
def params_type(names: tuple[str, ...]) -> Any:
    """Return the class of `params` for these parameter names; equal names give the same class."""
    return namedtuple("Params", names)


def check_policy(
    policy: object, name: str = "policy", condition: str = "a Policy such as ucb()"
) -> Policy:
    """Return `policy`; raise ValueError if it is not a Policy."""
    if isinstance(policy, Policy):
        return policy
    hint = ""
    if callable(getattr(policy, "pull", None)):
        hint = "; use python_policy to make a policy of a Python class"
    elif isfunction(policy) and policy.__name__.isidentifier():  # not a lambda
        hint = f"; did you mean {policy.__name__}()?"
    raise ValueError(f"{invalid(name, condition, policy)}{hint}")


def check_own_rewards(policy: Policy, own: Array, label: str, alternative: str = "scout()") -> None:
    """Raise ValueError if a policy cannot play on a graph because pulls hide their own reward.

    `own` has, for each arm, the probability that a pull shows its own reward. The error recommends
    the policy `alternative`.
    """
    lowest = int(np.argmin(own))
    place = f"shows[{lowest}, {lowest}] = {own[lowest]:g}"
    if policy.on_graph is None and own[lowest] < 1:
        raise ValueError(
            f"{label} must see the reward of every pull, but a pull of arm {lowest} may hide it "
            f"({place}); use loops=True, or another policy such as {alternative}"
        )
    if policy.on_graph is not None and policy.on_graph.needs_loops and own[lowest] == 0:
        raise ValueError(
            f"{label} learns about an arm by pulling it, but a pull of arm {lowest} never shows its "
            f"own reward ({place}), so its regret can be linear; use {alternative}, or loops=True"
        )


def check_rewards(rewards: str) -> Rewards:
    """Return `rewards`; raise ValueError unless it is "gaussian", "bernoulli" or "bounded"."""
    return one_of(rewards, "rewards", get_args(Rewards))  # type: ignore[return-value]


def check_scale(scale: float | None, rewards: Rewards = "gaussian") -> float | None:
    """Return `scale` as a float, or None if it is None; raise ValueError if it is invalid."""
    if scale is None:
        return None
    if rewards != "gaussian":
        raise ValueError(
            f"a policy for {rewards} rewards takes no scale, got scale={short_repr(scale)}; omit it"
        )
    return positive(scale, "scale")


def check_horizon(horizon: float | None) -> float:
    """Return `horizon` as a float, or 0 if it is None; 0 stands for the horizon of the simulation."""
    if horizon is None:
        return 0.0
    if not 1 <= (value := number(horizon, "horizon", "at least 1 and finite")) < np.inf:
        raise invalid("horizon", "at least 1 and finite", horizon)
    return value
