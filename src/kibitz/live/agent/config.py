"""The configuration of an agent, validated once and stored as plain data."""

import contextlib
import json
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kibitz._errors import StoreDamaged
from kibitz._validation import (
    between,
    finite,
    flag,
    invalid,
    one_of,
    positive,
    seed_number,
    short_repr,
    text,
)
from kibitz.live.agent.confidence import check_delta
from kibitz.live.monitor import Monitor
from kibitz.model.feedback import Feedback, Shows, graph
from kibitz.policies.check import check_promises
from kibitz.policies.kibitzer import kibitzer
from kibitz.policies.policy import check_own_rewards, check_policy, check_rewards
from kibitz.policies.spec import Spec, from_spec, to_spec

ConfigData = dict[str, Any]

UNIT_SCALE = 0.5  # every reward in [0, 1] is sub-Gaussian with this scale
DEFAULTS = {"silence": "forget", "bucket": 0.0, "bucket_is_free": False}
ARGUMENTS = {  # arguments of `agent` that the stored configuration contains
    "arms", "rewards", "policy", "shows", "scale", "seed", "patience", "silence", "bucket",
    "bucket_is_free", "alarms",
}  # fmt: skip
MAX_SCALES = 10_000  # a larger reward, in units of the scale, is accepted only with `force`
SCALE_LIMIT = 1e50  # limits scales and their inverses, so that no statistic overflows
MAX_EDGES = 10_000  # entries of a graph; every transaction compares the configuration
DECLARABLE = ("bernoulli", "bounded")  # kinds of rewards that `declare_rewards` accepts


class Config:
    """An agent's name, its stored configuration and its policy.

    `player` is the policy that chooses the arms: the policy's variant for graphs if the agent has a
    graph, and the policy itself otherwise. `shows` is the matrix of the graph, or None. `rewards` is
    the declared kind of rewards, or the kind with which the agent was created.
    """

    def __init__(self, name: str, stored: str, declared: str | None = None) -> None:
        self.name = name
        self.stored = stored  # identifies the agent, because it contains a random id
        self.data = _parse_stored(name, stored)
        self.rewards: str = declared or self.data["rewards"]
        self.shows = None if self.data["shows"] is None else to_matrix(self.data["shows"])
        self.policy = from_spec(self.data["policy"])
        self.player = self.policy if self.shows is None else self.policy.for_graph()
        self.params = self.policy.params
        # The policy gets rewards divided by this unit. A declaration does not change the unit.
        self.unit = self.policy.scale_for(self.data["scale"] or UNIT_SCALE)
        self.in_turn = self.policy.in_phases  # each request needs the report of the last decision
        self.in_order = self.policy.revise is not None  # the policy learns in the order of decisions
        self.stores_state = self.in_turn or self.in_order or self.policy.hold is not None
        self.patience: float | None = self.data["patience"]
        silence = self.data["silence"]
        self.silence: float | None = None if silence == "forget" else silence
        self.bucket: float = self.data["bucket"]
        self.bucket_is_free: bool = self.data["bucket_is_free"]
        self.monitor = _make_monitor(self.data)
        # Whether a decision settles when it is older than the patience.
        self.settles = self.silence is not None or self.monitor is not None

    @property
    def scale(self) -> float:
        """The sub-Gaussian scale of the rewards."""
        return float(self.data["scale"]) if self.rewards == "gaussian" else UNIT_SCALE


def _parse_stored(name: str, stored: str) -> ConfigData:
    """Return the stored configuration of an agent; raise StoreDamaged if it is not complete."""
    data = None
    with contextlib.suppress(TypeError, ValueError):
        data = json.loads(stored)
    if not isinstance(data, dict) or not data.keys() >= ARGUMENTS:
        raise StoreDamaged(
            f"the configuration of agent {name!r} is damaged, got {short_repr(stored)}; "
            "restore a backup"
        )
    return data


def _make_monitor(data: ConfigData) -> Monitor | None:
    """Return the monitor of an agent, or None if the agent has no monitor.

    A later declaration of the kind of rewards does not change the monitor.
    """
    if data["alarms"] is None:
        return None
    in_unit_interval = data["rewards"] != "gaussian"
    scale = 1.0 if in_unit_interval else float(data["scale"])
    monitor = Monitor(data["alarms"], len(data["arms"]), in_unit_interval, scale)
    return monitor._replace(unit=1.0) if data["rewards"] == "bernoulli" else monitor


def check_config(
    name: Any,
    arms: Any,
    rewards: Any,
    policy: Any,
    scale: Any,
    seed: Any,
    patience: Any,
    silence: Any,
    bucket: Any = 0.0,
    bucket_is_free: Any = False,
    shows: Any = None,
    alarms: Any = None,
) -> ConfigData:
    """Validate the arguments of `kibitz.agent`; return them as plain data."""
    text(name, "name")
    if policy is not None:
        check_policy(policy)
        _check_graph_policy(policy, shows is not None or arms is None)
        if policy.simulation_only:
            raise ValueError(
                f"{policy.name} is for simulations only; use a policy such as kibitzer() for an agent"
            )
    if scale is not None:
        scale = _check_scale(positive(scale, "scale"))
    if rewards is not None:
        check_rewards(rewards)
    if arms is not None:
        if isinstance(arms, str) or not isinstance(arms, Sequence) or len(arms) < 2:
            raise invalid("arms", "a list of at least 2 names", arms)
        arms = [text(arm, "arms") for arm in arms]
        if len(set(arms)) < len(arms):
            raise invalid("arms", "different names", arms)
        rewards = _choose_rewards(rewards, policy)
        _check_agreement(rewards, policy, scale)
    data = {
        "arms": arms,
        "rewards": rewards,
        "policy": None if policy is None else _check_policy(policy),
        "shows": None if shows is None else _check_shows(shows, arms, policy),
        "scale": scale,
        "seed": None if seed is None else seed_number(seed),
        "patience": None if patience is None else positive(patience, "patience"),
        "silence": _check_silence(silence, rewards, scale),
        "bucket": between(bucket, "bucket", 0, 1),
        "bucket_is_free": flag(bucket_is_free, "bucket_is_free"),
        "alarms": None if alarms is None else check_delta(alarms, "alarms"),
    }
    if data["bucket"] and policy is not None and policy.in_phases:
        raise ValueError(
            f"bucket must be 0 for {policy.name}, which must choose every arm itself, got {bucket!r}"
        )
    if data["bucket_is_free"] and not data["bucket"] and arms is not None:
        raise ValueError("bucket is required if bucket_is_free is True")
    if data["silence"] != "forget" and data["shows"] is not None:
        own = np.diagonal(to_matrix(data["shows"]))
        if own.min() < 1:
            arm_index = int(np.argmin(own))
            arm_text = f"{arm_index}" if arms is None else f"{arms[arm_index]!r}"
            raise ValueError(
                f"silence must be 'forget', because a pull of arm {arm_text} may hide its own "
                f"reward: a missing report then does not mean the reward {silence!r}"
            )
    if data["silence"] != "forget" and patience is None and arms is not None:
        raise ValueError("patience is required when silence is a reward")
    if data["alarms"] is not None and patience is None and arms is not None:
        raise ValueError(
            "patience is required for alarms: the monitor reads decisions in the order in which they "
            "were made, so it must know how long to wait for a report; set patience to the longest "
            "time that a report takes"
        )
    if policy is not None and policy.revise is not None and patience is None and arms is not None:
        raise ValueError(
            f"patience is required for {policy.name}: the policy learns from decisions in the order "
            "in which they were made, so it must know how long to wait for a report; set patience to "
            "the longest time that a report takes"
        )
    plain: ConfigData = json.loads(json.dumps(data))
    return plain


def _check_graph_policy(policy: Any, has_graph: bool) -> None:
    """Raise ValueError if the policy needs a graph that is missing, or would learn the graph."""
    knows_graph = "graph" in policy.constants
    if not knows_graph and (policy.on_graph is None or policy.on_graph.needs_loops):
        return
    if not has_graph:
        raise ValueError(
            f"policy={policy!r} is for graphs; pass the graph as shows=, or use a policy such as "
            "kibitzer()"
        )
    if not knows_graph:
        raise ValueError(
            f"policy={policy!r} learns the graph, but an agent is given its graph; use "
            "scout(informed=True)"
        )


def _check_shows(shows: Any, arms: Any, policy: Any) -> ConfigData:
    """Return a graph as plain data; raise ValueError if it is invalid for these arms and policy."""
    if isinstance(shows, Feedback):
        if shows.shows is None or shows.observer != "bandit":
            raise invalid("shows", "a matrix, or kibitz.graph(...) without looks", shows)
        record: Shows = shows.shows
    else:
        record = graph(shows).shows  # type: ignore[assignment]
    if record.function is not None:
        raise invalid("shows", "a matrix, because an agent's graph does not vary", shows)
    if arms is not None and record.n_arms != len(arms):
        raise ValueError(
            f"shows must have one row and one column for each of {len(arms)} arms, got "
            f"{record.n_arms}"
        )
    if record.arms.size > MAX_EDGES:
        raise ValueError(f"shows must have at most {MAX_EDGES:,} entries, got {record.arms.size:,}")
    chosen = kibitzer() if policy is None else policy
    check_own_rewards(chosen, record.own, f"policy {chosen.name}", "scout(informed=True)")
    columns = (record.pulled_arms, record.arms, record.probabilities)
    edges = [list(edge) for edge in zip(*(c.tolist() for c in columns), strict=True)]
    return {"arms": record.n_arms, "edges": edges}


def to_matrix(shows: ConfigData) -> NDArray[np.float64]:
    """Return the matrix of a graph: the probability that a pull of arm i shows arm j."""
    matrix = np.zeros((shows["arms"], shows["arms"]))
    for pulled, arm, probability in shows["edges"]:
        matrix[pulled, arm] = probability
    return matrix


def _choose_rewards(rewards: Any, policy: Any) -> str:
    """Return the kind of rewards of a new agent: `rewards`, or by default that of the policy."""
    if rewards is not None:
        return str(rewards)
    if policy is not None and policy.rewards != "gaussian":
        return str(policy.rewards)
    raise ValueError(
        "rewards is required to create an agent: use bernoulli if all rewards are 0 or 1 (such as "
        "clicks), bounded if they are in [0, 1], or gaussian with a scale"
    )


def _check_agreement(rewards: str, policy: Any, scale: float | None) -> None:
    """Raise ValueError if the kind of rewards contradicts the policy or the scale."""
    if rewards == "gaussian" and scale is None:
        raise ValueError(
            "scale is required for gaussian rewards: use the standard deviation of the rewards"
        )
    if rewards != "gaussian" and scale is not None:
        raise ValueError(f"{rewards} rewards take no scale, got scale={scale!r}; omit it")
    if policy is not None and policy.rewards not in ("gaussian", rewards):
        if policy.rewards == "bounded" and rewards == "bernoulli":
            return
        raise ValueError(
            f"{policy.name} is for {policy.rewards} rewards and cannot be the policy of an agent "
            f"with {rewards} rewards; choose another policy or rewards={policy.rewards!r}"
        )


def _check_policy(policy: Any) -> Spec:
    """Return a policy as plain data; raise ValueError if an agent cannot use it.

    An agent cannot use a policy whose horizon is missing, or whose index `simulate` would reject.
    """
    _check_scale(policy.scale_for(1.0))
    spec = to_spec(policy)
    if "function" in spec:
        check_promises(policy)
    if policy.constants.get("horizon") == 0:
        raise ValueError(f"an agent needs {policy.name} with a horizon: {policy.name}(horizon=...)")
    return spec


def _check_scale(scale: float) -> float:
    """Return `scale`; raise ValueError if a statistic of rewards of this scale may overflow."""
    if not 1 / SCALE_LIMIT <= scale <= SCALE_LIMIT:
        raise invalid("scale", f"between {1 / SCALE_LIMIT:g} and {SCALE_LIMIT:g}", scale)
    return scale


def _check_silence(silence: Any, rewards: str | None, scale: float | None) -> str | float:
    if isinstance(silence, str):
        if silence != "forget":
            raise invalid("silence", "'forget' or a reward", silence)
        return silence
    value = check_reward(finite(silence, "silence"), rewards or "gaussian", "silence")
    if scale is not None and abs(value) > MAX_SCALES * scale:
        raise invalid("silence", f"at most {MAX_SCALES:,} times the scale {scale!r}", silence)
    return value


def check_reward(reward: float, rewards: str, name: str = "reward") -> float:
    """Return `reward`; raise ValueError if rewards of the kind `rewards` cannot have this value."""
    if rewards == "bernoulli" and reward not in (0.0, 1.0):
        raise invalid(name, "0 or 1 for an agent with bernoulli rewards", reward)
    if rewards == "bounded" and not 0 <= reward <= 1:
        raise invalid(name, "in [0, 1] for an agent with bounded rewards", reward)
    return reward


def check_declaration(rewards: Any) -> str:
    """Return a kind of rewards; raise ValueError if `declare_rewards` does not accept it."""
    return str(one_of(rewards, "rewards", DECLARABLE))


def to_stored(data: ConfigData) -> str:
    """Return the configuration of a new agent as JSON.

    The default policy is kibitzer, and the default seed is random. A random id distinguishes the
    agent from another agent that is later created with the same arguments.
    """
    policy = to_spec(kibitzer(rewards=data["rewards"])) if data["policy"] is None else data["policy"]
    seed = secrets.randbits(62) if data["seed"] is None else data["seed"]
    return json.dumps({**data, "policy": policy, "seed": seed, "id": secrets.token_hex(8)})


def check_same(config: Config, arguments: ConfigData) -> None:
    """Raise ValueError if `arguments` contradict the stored configuration of an agent.

    If `arguments` has arms, all arguments are compared, except a policy or a seed of None. If it has
    no arms, only the arguments that differ from their defaults are compared. After a declaration,
    both the original and the declared kind of rewards are accepted.
    """
    stored_data = config.data
    if arguments["rewards"] == config.rewards != stored_data["rewards"]:
        stored_data = {**stored_data, "rewards": config.rewards, "scale": None}
    for key, value in arguments.items():
        is_default = value is None and (arguments["arms"] is None or key in ("policy", "seed"))
        is_default |= arguments["arms"] is None and value == DEFAULTS.get(key, ...)
        if is_default or value == stored_data[key]:
            continue
        raise ValueError(
            f"agent {config.name!r} was created with {key}={short_repr(_format(stored_data[key]))} "
            f"and cannot be opened with {key}={short_repr(_format(value))}"
        )


def _format(value: Any) -> Any:
    """Return a short text for a policy or a graph; return any other value unchanged."""
    if not isinstance(value, dict):
        return value
    if "edges" in value:
        return f"a graph of {value['arms']} arms with {len(value['edges'])} entries"
    return f"{value['name']}({', '.join(f'{k}={v!r}' for k, v in value['parameters'].items())})"
