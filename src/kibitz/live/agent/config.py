"""The configuration of an agent, validated once and stored as plain data."""

import json
import secrets
from collections.abc import Sequence
from typing import Any

from kibitz._validation import finite, invalid, positive, short_repr, text, whole
from kibitz.policies.spec import Spec, from_spec, to_spec

ConfigData = dict[str, Any]


class Config:
    """An agent's name, its stored configuration and its policy."""

    def __init__(self, name: str, stored: str) -> None:
        self.name = name
        self.data: ConfigData = json.loads(stored)
        self.policy = from_spec(self.data["policy"])
        self.params = self.policy.params
        self.scale: float = self.data["scale"]
        self.unit = self.policy.scale_for(self.scale)  # the policy gets rewards divided by this unit
        self.in_turn = self.policy.in_phases  # each request needs the report of the last decision
        self.stores_state = self.in_turn or self.policy.hold is not None


def check_config(
    name: Any, arms: Any, policy: Any, scale: Any, seed: Any, patience: Any, silence: Any
) -> ConfigData:
    """Validate the arguments of `kibitz.agent`; return them as plain data."""
    text(name, "name")
    if arms is not None:
        if isinstance(arms, str) or not isinstance(arms, Sequence) or len(arms) < 2:
            raise invalid("arms", "a list of at least 2 names", arms)
        arms = [text(arm, "arms") for arm in arms]
        if len(set(arms)) < len(arms):
            raise invalid("arms", "different names", arms)
        if policy is None:
            raise ValueError("policy is required to create an agent")
    data = {
        "arms": arms,
        "policy": None if policy is None else _check_policy(policy),
        "scale": positive(scale, "scale"),
        "seed": None if seed is None else whole(seed, "seed"),
        "patience": None if patience is None else positive(patience, "patience"),
        "silence": _check_silence(silence, policy),
    }
    if data["silence"] != "forget" and patience is None and arms is not None:
        raise ValueError("patience is required when silence is a reward")
    plain: ConfigData = json.loads(json.dumps(data))
    return plain


def _check_policy(policy: Any) -> Spec:
    """Return a policy as plain data; raise ValueError if it still needs a horizon."""
    spec = to_spec(policy)
    if policy.constants.get("horizon") == 0:
        raise ValueError(f"an agent needs {policy.name} with a horizon: {policy.name}(horizon=...)")
    return spec


def _check_silence(silence: Any, policy: Any) -> str | float:
    if isinstance(silence, str):
        if silence != "forget":
            raise invalid("silence", "'forget' or a reward", silence)
        return silence
    reward = finite(silence, "silence")
    if policy is not None and policy.rewards != "gaussian" and not 0 <= reward <= 1:
        raise invalid("silence", f"in [0, 1] for {policy.name}", silence)
    return reward


def to_stored(data: ConfigData) -> str:
    """Return the JSON to store for a new agent; choose a random seed if there is none."""
    seed = secrets.randbits(62) if data["seed"] is None else data["seed"]
    return json.dumps({**data, "seed": seed})


def check_same(name: str, stored: ConfigData, given: ConfigData) -> None:
    """Raise ValueError if an agent is opened with a configuration that differs from the stored one.

    If `given` has arms, compare all arguments, except a seed of None. If `given` has no arms, compare
    only the arguments that differ from their defaults.
    """
    defaults = {"scale": 1.0, "silence": "forget"} if given["arms"] is None else {}
    for key, value in given.items():
        is_default = value is None and (given["arms"] is None or key == "seed")
        if is_default or (key in defaults and value == defaults[key]) or value == stored[key]:
            continue
        raise ValueError(
            f"agent {name!r} was created with {key}={short_repr(_format(stored[key]))} and cannot be "
            f"opened with {key}={short_repr(_format(value))}"
        )


def _format(value: Any) -> Any:
    """Format a policy as a call; return any other value unchanged."""
    if not isinstance(value, dict):
        return value
    return f"{value['name']}({', '.join(f'{k}={v!r}' for k, v in value['parameters'].items())})"
