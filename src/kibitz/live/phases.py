"""The state of a policy that goes in phases: it depends on the order of reports; the store keeps it.

For all other policies the state follows from the counts and sums of the arms (`kibitz.live.delay`).
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from kibitz.live.projection import Decided, Projection

if TYPE_CHECKING:
    from kibitz.live.agent import Agent


def told(agent: "Agent", state: Any, decided: Decided, reward: float) -> Any:
    """Return the state of a policy after a reward."""
    return agent.policy.update(
        agent.params,
        state,
        decided.stage,
        decided.arm,
        1,
        reward / agent.unit,
        decided.kind != "pull",
    )


def replayed(agent: "Agent", projection: Projection) -> Any:
    """Return the state of a policy that was told all that counts, in the order of the log."""
    state = agent.policy.init(agent.params, len(projection.arms))
    for id in projection.order:
        decided = projection.decisions[id - 1]
        assert decided.reward is not None
        state = told(agent, state, decided, decided.reward)
    return state


def as_json(state: Any) -> str:
    """Return the state of a policy as text; numbers come back as they were."""
    return json.dumps([np.asarray(part).tolist() for part in state])


def from_json(text: str, empty: Any) -> Any:
    """Return the state that a text holds; `empty` is one of the same policy."""
    kept = json.loads(text)
    return type(empty)(*(_array(k, e.dtype) for k, e in zip(kept, empty, strict=True)))


def _array(kept: list[Any], dtype: Any) -> Any:
    """Return an array as it was; records come out of JSON as lists."""
    return np.array(kept if dtype.names is None else [tuple(record) for record in kept], dtype)
