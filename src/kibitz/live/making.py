"""Making an agent: what it is, as plain data, made sure of once and never changed."""

import json
import secrets
import time
from collections.abc import Sequence
from typing import Any

from kibitz._validation import finite, positive, quoted, refused, text, whole
from kibitz.live import recipe
from kibitz.live.store import Database


def checked(
    name: Any, arms: Any, policy: Any, scale: Any, seed: Any, patience: Any, silence: Any
) -> dict[str, Any]:
    """Return what makes an agent, as plain data."""
    if arms is not None:
        if isinstance(arms, str) or not isinstance(arms, Sequence) or len(arms) < 2:
            raise refused("arms", "a list of at least 2 names", arms)
        arms = [text(arm, "arms") for arm in arms]
        if len(set(arms)) < len(arms):
            raise refused("arms", "different names", arms)
        if policy is None:
            raise ValueError("policy must be given to make an agent, got None")
    given = {
        "name": text(name, "name"),
        "arms": arms,
        "policy": None if policy is None else recipe.recipe_of(policy),
        "scale": positive(scale, "scale"),
        "seed": None if seed is None else whole(seed, "seed"),
        "patience": None if patience is None else positive(patience, "patience"),
        "silence": _silence(silence, policy),
    }
    if given["silence"] != "forget" and patience is None and arms is not None:
        raise refused("patience", "given where silence means a reward", patience)
    plain: dict[str, Any] = json.loads(json.dumps(given))
    return plain


def _silence(silence: Any, policy: Any) -> str | float:
    if isinstance(silence, str):
        if silence != "forget":
            raise refused("silence", "'forget' or a reward", silence)
        return silence
    reward = finite(silence, "silence")
    if policy is not None and policy.unit_rewards and not 0 <= reward <= 1:
        raise refused("silence", f"in [0, 1] for {policy.name}", silence)
    return reward


def make(database: Database, given: dict[str, Any]) -> None:
    """Make an agent unless there is one of this name."""
    if database.rows("select agent from agents where name = ?", given["name"]):
        return
    setting = {key: value for key, value in given.items() if key != "name"}
    if setting["seed"] is None:
        setting["seed"] = secrets.randbits(62)
    found = database.rows("select coalesce(max(agent), 0) + 1 from agents")
    number, now, arms = found[0][0], time.time(), setting["arms"]
    database.rows(
        "insert into agents (agent, name, setting, n_events, n_decisions, n_asks, latest) "
        "values (?, ?, ?, ?, 0, 0, ?)",
        number,
        given["name"],
        json.dumps(setting),
        len(arms),
        now,
    )
    database.many(
        "insert into arms (agent, arm, name, status) values (?, ?, ?, 'active')",
        [(number, place, name) for place, name in enumerate(arms)],
    )
    database.many(
        "insert into events (agent, seq, at, kind, arm) values (?, ?, ?, 'added', ?)",
        [(number, place + 1, now, place) for place in range(len(arms))],
    )


def setting(database: Database, name: str) -> dict[str, Any]:
    """Return what made an agent."""
    found = database.rows("select setting from agents where name = ?", name)
    if not found:
        known = [quoted(known) for (known,) in database.rows("select name from agents order by name")]
        raise ValueError(f"agent must be one of {', '.join(known) or 'none'}, got {name!r}")
    setting: dict[str, Any] = json.loads(found[0][0])
    return setting


def compare(setting: dict[str, Any], given: dict[str, Any], named: bool) -> None:
    """Refuse to open an agent as another one than it is."""
    defaults = {"scale": 1.0, "silence": "forget"}
    for key in ("arms", "policy", "scale", "seed", "patience", "silence"):
        default = None if named and key in {"scale", "silence"} else defaults.get(key)
        wanted = given[key]
        optional = key in {"seed", "arms", "policy"} or not named
        if optional and (wanted is None or (not named and wanted == default)):
            continue
        if wanted != setting[key]:
            raise ValueError(
                f"{key} of agent {given['name']!r} must be {quoted(_shown(setting[key]))} "
                f"as it was made, got {quoted(_shown(wanted))}"
            )


def _shown(value: Any) -> Any:
    """Return a policy as a person writes it, anything else as it is."""
    if not isinstance(value, dict):
        return value
    setting = value["setting"] if "setting" in value else value["parameters"]
    return f"{value['name']}({', '.join(f'{k}={v!r}' for k, v in setting.items())})"
