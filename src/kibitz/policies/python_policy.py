"""Policies that are plain Python objects.

A Python policy plays through the same environment and the same random streams as compiled policies.
The engine runs its loop in plain Python and calls the methods of the object at every stage. The
object can use any library; it need not be fast, or deterministic, or free of side effects.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kibitz._validation import invalid, short_repr, text
from kibitz.policies.policy import Policy, Rewards, check_rewards, check_scale


class PythonAgent(Protocol):
    """An object that can play. Its method `look(stage, rng)`, which returns an arm, is optional."""

    def pull(self, stage: int, rng: Any, /) -> int:
        """Return the arm to pull."""

    def update(self, arm: int, reward: float, is_look: bool, /) -> object:
        """Learn from the reward of a pull or of a look."""


def python_policy(
    make: Callable[[int], PythonAgent],
    *,
    label: str | None = None,
    version: str | None = None,
    rewards: Rewards = "gaussian",
    scale: float | None = 1.0,
) -> Policy:
    """Return a policy that plays with a Python object, which is not compiled.

    `make(n_arms)` is called at the beginning of each run and returns an object with these methods::

        pull(stage, rng)               returns the arm to pull
        look(stage, rng)               returns the arm to look at (optional)
        update(arm, reward, is_look)   learns from one reward

    Stages count from 1 and arms from 0. `rng` is a NumPy generator that depends only on the seed and
    the number of the run; use it for all random numbers of the policy. At each stage, `pull` is
    called first, then `look` if looks arrive and the policy chooses their arms, then `update` for the
    pull and for each look. What a pull shows of other arms counts as a look. Without a method `look`,
    the policy looks at each arm in turn.

    Parameters
    ----------
    make
        A class or a function that takes the number of arms and returns the object.
    label
        The name of the policy in results. Saved results can be resumed only under an explicit label
        (here, or the key of the policy in a dict), because kibitz cannot tell whether the code of the
        object has changed.
    version
        The version of the code, stored in results. Results of another version are not resumed.
    rewards
        The rewards that the object supports: "gaussian", "bernoulli" (0 or 1) or "bounded"
        (in [0, 1]).
    scale
        The number by which rewards are divided before the object receives them; None means the scale
        of the problem. By default, the object receives rewards unchanged.
    """
    if not callable(make):
        raise invalid("make", "a class or a function that takes the number of arms", make)
    if check_rewards(rewards) != "gaussian" and scale == 1.0:
        scale = None
    name = getattr(make, "__name__", None) or type(make).__name__
    if label is not None:
        name = text(label, "label")
    parameters = {"label": label, "version": None if version is None else text(version, "version")}
    return Policy(
        name,
        {},
        Init(make, name),
        pull,
        look,
        update,
        is_python=True,
        rewards=rewards,
        scale=check_scale(scale, rewards),
        parameters=parameters,
    )


def with_label(policy: Policy, label: str) -> Policy:
    """Return a Python policy with this explicit label, unless it already has an explicit label."""
    if policy.parameters["label"] is not None:
        return policy
    return replace(policy, parameters={**policy.parameters, "label": label})


class State:
    """The object that plays, and the data that the engine needs about it."""

    def __init__(self, agent: Any, name: str, n_arms: int) -> None:
        self.agent, self.name, self.n_arms = agent, name, n_arms
        self.n_looks = 0

    def check_arm(self, arm: Any, method: str) -> int:
        """Return an arm as an int; raise ValueError if it is not one of the arms."""
        try:
            if 0 <= (number := operator.index(arm)) < self.n_arms and not isinstance(arm, bool):
                return number
        except TypeError:
            pass
        raise ValueError(
            f"{method} of {self.name} must return an arm from 0 to {self.n_arms - 1}, "
            f"got {short_repr(arm)}"
        )


@dataclass(frozen=True)
class Init:
    """The function `init` of a Python policy: it creates the object for a run."""

    make: Callable[[int], Any]
    name: str

    def __call__(self, params: Any, n_arms: int) -> State:
        """Return a new object that has not observed anything."""
        agent = self.make(n_arms)
        for method in ("pull", "update"):
            if not callable(getattr(agent, method, None)):
                raise ValueError(
                    f"{self.name} needs a method {method}; make(n_arms) returned {short_repr(agent)}"
                )
        return State(agent, self.name, n_arms)


def pull(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm that the object pulls."""
    return state.check_arm(state.agent.pull(int(stage), rng), "pull")


def look(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm that the object looks at; without a method `look`, each arm in turn."""
    choose = getattr(state.agent, "look", None)
    if choose is None:
        return state.n_looks % state.n_arms
    return state.check_arm(choose(int(stage), rng), "look")


def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Report a reward to the object. Only index policies receive several rewards at once."""
    state.n_looks += bool(is_look)
    state.agent.update(int(arm), float(total), bool(is_look))
    return state
