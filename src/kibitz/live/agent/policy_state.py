"""Store the state of a policy as JSON, if the state depends on the order of the reports.

The state of any other policy follows from the counts and sums of the arms (`agent/pending.py`).

**In the order of decisions.** A policy such as lookout must not learn in the order of the reports: a
click is reported at once, but a missing click is known only after the patience. A growth of traffic
would therefore look like a change of a mean. The policy learns the reward of a decision when this
decision and all earlier decisions are told, silent or forgotten (`InOrder`, `learn_in_order`). Until
then, a reported reward is added to a copy of the state whenever the policy chooses an arm
(`count_ahead`). `Policy.revise` handles a later report or correction.

A correction rebuilds the state of a policy with phases from the log, because any reward may have
changed the course of a phase. For every other policy, a correction changes only the sum of its arm.
A new arm only adds a row to the state. The time for both does not depend on the length of the log.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kibitz.live.agent.config import Config
from kibitz.live.agent.pending import show
from kibitz.live.events import DecisionRecord, Projection, Reward, expand
from kibitz.policies.policy import Array, count_kind, list_arrays, replace_arrays

Entry = DecisionRecord | Reward
UNIT = 2.0**-40  # unit of the whole numbers in `InOrder.sums_ahead`, as a share of `Config.unit`


class InOrder(NamedTuple):
    """The state of a policy that learns in the order of the decisions."""

    policy_state: Any
    n_learned: Array  # one number: the policy has learned all decisions up to this id
    pulls_ahead: Array  # for each arm, the reported pulls that the policy has not learned
    looks_ahead: Array  # for each arm, the other observations that the policy has not learned
    sums_ahead: Array  # for each arm, the exact sum of these rewards, as a whole number of units


def init(config: Config, n_arms: int) -> Any:
    """Return the initial policy state to store; an `InOrder` if the policy learns in order."""
    state = config.policy.init(config.params, n_arms)
    if not config.in_order:
        return state
    pulls, looks = np.zeros(n_arms, np.int64), np.zeros(n_arms, np.int64)
    return InOrder(state, np.zeros(1, np.int64), pulls, looks, np.zeros(n_arms, object))


def learn_in_order(
    config: Config,
    state: InOrder,
    id: int,
    entry: Entry,
    old_reward: float | None,
    find_reported: Callable[[int], Entry | None],
) -> InOrder:
    """Return the state after a report about decision `id`, whose reward was `old_reward` before.

    `entry` has the decision's new reward, or None if the decision was forgotten. `find_reported`
    returns the decision with an id, or None if it is pending or does not exist.
    """
    assert config.policy.revise is not None
    policy_state, arm = state.policy_state, entry.arm
    n_learned = int(state.n_learned[0])
    if entry.reward is not None:
        is_first = old_reward is None
        if id <= n_learned:
            policy_state = config.policy.revise(
                config.params,
                policy_state,
                entry.stage,
                arm,
                is_first,
                (entry.reward - (old_reward or 0.0)) / config.unit,
            )
            return state._replace(policy_state=policy_state)
        ahead = state.pulls_ahead if entry.kind == "pull" else state.looks_ahead
        ahead[arm] += is_first
        state.sums_ahead[arm] += _to_units(config, entry.reward)
        state.sums_ahead[arm] -= _to_units(config, old_reward or 0.0)
    while (first := find_reported(n_learned + 1)) is not None:
        n_learned += 1
        if first.reward is not None:
            ahead = state.pulls_ahead if first.kind == "pull" else state.looks_ahead
            ahead[first.arm] -= 1
            state.sums_ahead[first.arm] -= _to_units(config, first.reward)
            policy_state = update(config, policy_state, first, first.reward)
    state.n_learned[0] = n_learned
    return state._replace(policy_state=policy_state)


def _to_units(config: Config, reward: float) -> int:
    return round(reward / config.unit / UNIT)


def count_ahead(config: Config, state: InOrder) -> Any:
    """Return a copy of the policy's state to which the rewards not yet learned are added."""
    assert config.policy.revise is not None
    arrays = (array.copy() for array in list_arrays(state.policy_state))
    policy_state = replace_arrays(state.policy_state, arrays)
    for arm, (pulls, looks) in enumerate(zip(state.pulls_ahead, state.looks_ahead, strict=True)):
        if pulls or looks:
            count_kind(policy_state.statistics, arm, pulls, False)
            count_kind(policy_state.statistics, arm, looks, True)
            stage, total = int(policy_state.last_stage[0]), UNIT * state.sums_ahead[arm]
            policy_state = config.policy.revise(
                config.params, policy_state, stage, arm, float(pulls + looks), total
            )
    return policy_state


def update(config: Config, state: Any, record: DecisionRecord | Reward, reward: float) -> Any:
    """Return the state of the policy after it learns the reward of a decision."""
    if record.kind == "show":
        return show(
            config.policy, config.params, state, record.stage, record.arm, 1, reward / config.unit
        )
    is_look = record.kind != "pull"
    return config.policy.update(
        config.params, state, record.stage, record.arm, 1, reward / config.unit, is_look
    )


def correct(config: Config, state: Any, arm_index: int, total: float) -> Any:
    """Return the state after a correction; `total` is the new sum of all rewards of the arm."""
    view = config.policy.view
    assert view is not None  # every policy with a hold has a view
    view(config.params, state, 1).statistics.sums[arm_index] = total / config.unit
    return state


def add_arm(text: str, empty: Any) -> str:
    """Add an arm to a stored state; `empty` is the initial state with one more arm."""
    stored, arrays = json.loads(text), list_arrays(empty)
    parts = [[*part, *new.tolist()[len(part) :]] for part, new in zip(stored, arrays, strict=True)]
    return to_json(from_json(json.dumps(parts), empty))


def replay(config: Config, projection: Projection) -> str | None:
    """Rebuild the stored state of a policy from the log; return it as JSON.

    Return None if the policy stores no state or has not learned anything.
    """
    if not config.stores_state:
        return None
    if config.in_order:
        return _replay_in_order(config, projection)
    if all(entry.reward is None for entry in projection.order):
        return None
    state = config.policy.init(config.params, len(projection.arms))
    rewards: dict[int, float] = {}
    sums: list[list[float]] = [[] for _ in projection.arms]  # exact; see `expand`
    final_rewards = {entry.id: entry.reward for entry in projection.order}
    for entry in projection.order:
        if entry.reward is None:
            continue
        old_reward = rewards.get(entry.id)
        rewards[entry.id] = entry.reward
        arm_sum = sums[entry.arm]
        arm_sum[:] = expand([*arm_sum, entry.reward, -(old_reward or 0.0)])
        if old_reward is None:
            final_reward = final_rewards[entry.id]
            assert final_reward is not None
            reward = final_reward if config.in_turn else entry.reward
            state = update(config, state, entry, reward)
        elif not config.in_turn:
            state = correct(config, state, entry.arm, arm_sum[0] if arm_sum else 0.0)
    return to_json(state)


def _replay_in_order(config: Config, projection: Projection) -> str | None:
    """Return the state of a policy that learns in the order of the decisions, as JSON.

    Return None if no decision was told, forgotten or silent.
    """
    state: Any = None
    n_arms = 0
    reported: dict[int, Reward] = {}
    for entry in projection.order:
        if entry.kind == "added":
            n_arms += 1
            if state is not None:
                empty = init(config, n_arms)
                state = from_json(add_arm(to_json(state), empty), empty)
            continue
        if state is None:
            state = init(config, n_arms)
        old_reward = reported[entry.id].reward if entry.id in reported else None
        reported[entry.id] = entry
        state = learn_in_order(config, state, entry.id, entry, old_reward, reported.get)
    return None if state is None else to_json(state)


def to_json(state: Any) -> str:
    """Convert a state to JSON. `from_json` restores its numbers exactly."""
    return json.dumps([array.tolist() for array in list_arrays(state)])


def from_json(text: str, empty: Any) -> Any:
    """Return the state that `to_json` converted to JSON; `empty` is the policy's initial state.

    Raise ValueError if an older version of the policy wrote the state with arrays of other shapes.
    """
    stored, arrays = json.loads(text), list_arrays(empty)
    parts = [_array(part, initial.dtype) for part, initial in zip(stored, arrays, strict=True)]
    if any(part.shape != initial.shape for part, initial in zip(parts, arrays, strict=True)):
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
