"""Store the state of a policy as JSON, if the state depends on the order of the reports.

The state of any other policy follows from the counts and sums of the arms (`agent/pending.py`).

A correction rebuilds the state of a policy with phases from the log, because any reward may have
decided a phase. For every other policy, a correction changes only the sum of its arm, and a new arm
only adds an arm, so neither takes longer if the log is long.
"""

import json
from typing import Any

import numpy as np

from kibitz.live.agent.config import Config
from kibitz.live.events import DecisionRecord, Projection, Reward, expand
from kibitz.policies.policy import list_arrays, replace_arrays


def update(config: Config, state: Any, record: DecisionRecord | Reward, reward: float) -> Any:
    """Return the state of the policy after it learns the reward of a decision."""
    is_look = record.kind != "pull"
    return config.policy.update(
        config.params, state, record.stage, record.arm, 1, reward / config.unit, is_look
    )


def correct(config: Config, state: Any, arm_index: int, total: float) -> Any:
    """Return the state after a correction; `total` is the new sum of all rewards of the arm."""
    view = config.policy.view
    assert view is not None  # every policy that holds looks has a view
    view(config.params, state, 1).statistics.sums[arm_index] = total / config.unit
    return state


def add_arm(text: str, empty: Any) -> str:
    """Return a stored state with another arm; `empty` is the initial state with this arm."""
    stored, arrays = json.loads(text), list_arrays(empty)
    parts = [[*part, *new.tolist()[len(part) :]] for part, new in zip(stored, arrays, strict=True)]
    return to_json(from_json(json.dumps(parts), empty))


def replay(config: Config, projection: Projection) -> str | None:
    """Return the state after all rewards, in the order of the log, as JSON.

    Return None if the policy stores no state or the log has no rewards.
    """
    if not config.stores_state or not projection.order:
        return None
    state = config.policy.init(config.params, len(projection.arms))
    rewards: dict[int, float] = {}
    sums: list[list[float]] = [[] for _ in projection.arms]  # exact, as in `expand`
    final_rewards = {entry.id: entry.reward for entry in projection.order}
    for entry in projection.order:
        old_reward = rewards.get(entry.id)
        rewards[entry.id] = entry.reward
        arm_sum = sums[entry.arm]
        arm_sum[:] = expand([*arm_sum, entry.reward, -(old_reward or 0.0)])
        if old_reward is None:
            reward = final_rewards[entry.id] if config.in_turn else entry.reward
            state = update(config, state, entry, reward)
        elif not config.in_turn:
            state = correct(config, state, entry.arm, arm_sum[0] if arm_sum else 0.0)
    return to_json(state)


def to_json(state: Any) -> str:
    """Convert a state to JSON. `from_json` restores its numbers exactly."""
    return json.dumps([array.tolist() for array in list_arrays(state)])


def from_json(text: str, empty: Any) -> Any:
    """Return the state that `to_json` converted to JSON; `empty` is the policy's initial state.

    Raise ValueError if an older version of the policy wrote the state with arrays of other shapes.
    """
    stored, arrays = json.loads(text), list_arrays(empty)
    parts = [_array(part, new.dtype) for part, new in zip(stored, arrays, strict=True)]
    if any(part.shape != new.shape for part, new in zip(parts, arrays, strict=True)):
        raise ValueError("the stored arrays have other shapes than those of the policy")
    return replace_arrays(empty, iter(parts))


def is_outdated(text: str | None, empty: Any) -> bool:
    """Return whether a stored state was written by an older version of the policy."""
    try:
        return text is not None and from_json(text, empty) is None
    except (TypeError, ValueError):
        return True


def _array(stored: list[Any], dtype: Any) -> Any:
    """Return an array from its JSON form, in which each record of a structured array is a list."""
    return np.array(stored if dtype.names is None else [tuple(record) for record in stored], dtype)
