"""What an agent is created with, validated once and stored as plain data."""

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
        self.unit = self.policy.scale_for(self.scale)  # in which the policy sees rewards
        self.in_turn = self.policy.in_phases
        self.keeps_state = self.in_turn or self.policy.hold is not None  # in the store


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
            raise ValueError("policy must be given to make an agent, got None")
    data = {
        "arms": arms,
        "policy": None if policy is None else _check_policy(policy),
        "scale": positive(scale, "scale"),
        "seed": None if seed is None else whole(seed, "seed"),
        "patience": None if patience is None else positive(patience, "patience"),
        "silence": _check_silence(silence, policy),
    }
    if data["silence"] != "forget" and patience is None and arms is not None:
        raise invalid("patience", "given where silence means a reward", patience)
    plain: ConfigData = json.loads(json.dumps(data))
    return plain


def _check_policy(policy: Any) -> Spec:
    """Return a policy as plain data; an agent has no horizon to give to one that needs it."""
    spec = to_spec(policy)
    if policy.constants.get("horizon") == 0:
        raise ValueError(f"horizon of {policy.name} must be given for an agent, got None")
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
    """Return the JSON to store for a new agent, with a random seed unless one was given."""
    seed = secrets.randbits(62) if data["seed"] is None else data["seed"]
    return json.dumps({**data, "seed": seed})


def check_same(name: str, stored: ConfigData, given: ConfigData) -> None:
    """Raise ValueError if an agent is opened with a different configuration than it was created with.

    Without arms, all that is given and not a default is compared; with arms, all but a missing seed.
    """
    defaults = {"scale": 1.0, "silence": "forget"} if given["arms"] is None else {}
    for key, value in given.items():
        is_default = value is None and (given["arms"] is None or key == "seed")
        if is_default or (key in defaults and value == defaults[key]) or value == stored[key]:
            continue
        raise ValueError(
            f"{key} of agent {name!r} must be {short_repr(_show(stored[key]))} "
            f"as it was made, got {short_repr(_show(value))}"
        )


def _show(value: Any) -> Any:
    """Return a policy as a person writes it, and anything else unchanged."""
    if not isinstance(value, dict):
        return value
    return f"{value['name']}({', '.join(f'{k}={v!r}' for k, v in value['parameters'].items())})"
