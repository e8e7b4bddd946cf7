"""The types of the bodies, queries and answers of the HTTP operations, with examples."""

from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, json

from kibitz.live.service.http import MAX_BATCH
from kibitz.live.store.queries import PAGE_SIZE
from kibitz.model.problem import MAX_REWARD

Text = Annotated[str, Meta(min_length=1, max_length=500, description="Printable characters.")]
Id = Annotated[int, Meta(ge=1, le=2**62 - 1, description="The id of a decision.")]
Reward = Annotated[float, Meta(ge=-MAX_REWARD, le=MAX_REWARD, description="A finite number.")]
Force = Annotated[bool, Meta(description="Accept a reward beyond 10,000 times the agent's scale.")]
ShownBy = Annotated[int, Meta(ge=1, le=2**62 - 1, description="The id of the pull that showed it.")]
Probability = Annotated[float, Meta(ge=0, le=1)]
Matrix = Annotated[
    list[list[Probability]],
    Meta(description="The probability that a pull of each arm (row) shows each arm (column)."),
]
State = Literal["active", "paused", "retired"]
Extended = float | Literal["inf", "-inf"] | None  # JSON has no infinite numbers and no NaN


class Ask(Struct, forbid_unknown_fields=True):
    key: Text | Annotated[list[Text], Meta(max_length=MAX_BATCH)] | None = None
    among: Annotated[list[Text], Meta(min_length=1, max_length=MAX_BATCH)] | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_BATCH)] | None = None


class Look(Struct, forbid_unknown_fields=True):
    key: Text | None = None


class Tell(Struct, forbid_unknown_fields=True, kw_only=True):
    id: Id | None = None
    key: Text | None = None
    reward: Reward
    force: Force | None = None


class Correction(Struct, forbid_unknown_fields=True):
    id: Id
    reward: Reward
    force: Force | None = None


Tells = Annotated[list[Tell], Meta(max_length=MAX_BATCH)]


class Observe(Struct, forbid_unknown_fields=True):
    arm: Text
    reward: Reward
    key: Text | None = None
    force: Force | None = None
    shown_by: ShownBy | None = None


Observations = Annotated[list[Observe], Meta(max_length=MAX_BATCH)]


class PolicySpec(Struct, forbid_unknown_fields=True):
    name: Text
    parameters: dict[str, float | int | bool | str | None] = {}


class NewAgent(Struct, forbid_unknown_fields=True):
    name: Text
    arms: Annotated[list[Text], Meta(max_length=MAX_BATCH)]
    rewards: Literal["gaussian", "bernoulli", "bounded"] | None = None
    policy: PolicySpec | None = None
    scale: float | None = None
    seed: Annotated[int, Meta(ge=0, le=2**62 - 1)] | None = None
    patience: float | None = None
    silence: float | Literal["forget"] = "forget"
    bucket: float = 0.0
    bucket_is_free: bool = False
    shows: Matrix | None = None
    alarms: float | None = None


class Forget(Struct, forbid_unknown_fields=True):
    id: Id


class NewArm(Struct, forbid_unknown_fields=True):
    arm: Text


class ArmChange(Struct, forbid_unknown_fields=True):
    state: State


class Declaration(Struct, forbid_unknown_fields=True):
    rewards: Literal["bernoulli", "bounded"]


class Arm(Struct):
    arm: str
    state: State


class Decision(Struct):
    id: int
    kind: Literal["pull", "look"]
    arm: str
    key: str | None
    asked_at: float
    probability: float | None
    bucket: bool


class Result(Struct):
    result: Literal["counted", "corrected", "forgotten", "declared", "duplicate"]


class Erasure(Struct, forbid_unknown_fields=True):
    key: Text | Annotated[list[Text], Meta(min_length=1, max_length=MAX_BATCH)]


class Erased(Struct):
    results: list[Literal["erased", "unknown"]]


class Compaction(Struct, forbid_unknown_fields=True):
    before: Text | Annotated[float, Meta(description="Seconds since 1970.")]


class Compacted(Struct):
    n_events: int


class Health(Struct):
    status: Literal["ok"]


class Agents(Struct):
    agents: list[str]
    more: bool


class AgentDescription(Struct):
    name: str
    arms: list[Arm]
    rewards: Literal["gaussian", "bernoulli", "bounded"]
    policy: PolicySpec
    scale: float | None
    patience: float | None
    silence: float | Literal["forget"]
    bucket: float
    bucket_is_free: bool
    shows: Matrix | None
    alarms: float | None


class Deleted(Struct):
    result: Literal["deleted"]


class Imported(Struct):
    counted: int
    duplicates: int


class ArmReport(Struct):
    arm: str
    status: State
    n_asked: int
    n_pulls: int
    n_pending: int
    n_forgotten: int
    n_looks: int
    n_shows: int
    n_settled: int
    n_unsettled: int
    n_late: int
    oldest: float | None
    mean: float | None
    low: Extended
    high: Extended
    best: float
    since: float | None


class Alarm(Struct):
    arm: str
    since_id: int
    since_at: float
    at_id: int
    at: float
    n_before: int
    mean_before: float
    n_after: int
    mean_after: float
    low_before: Extended
    high_before: Extended
    low_after: Extended
    high_after: Extended
    sentence: str


class Report(Struct):
    agent: str
    policy: str
    rewards: Literal["gaussian", "bernoulli", "bounded"]
    scale: float
    n_asks: int
    delta: float
    inequality: str
    verdict: str
    loss_high: Extended
    loss_likely: Extended
    remaining: Extended
    regret_low: Extended
    regret_high: Extended
    looks_saved: Extended
    warnings: list[str]
    alarms: list[Alarm]
    promise: str
    arms: list[ArmReport]


class Verdict(Struct):
    winner: str | None
    may_stop: bool
    out: list[str]
    loss_high: Extended
    loss_likely: Extended
    remaining: int | None
    sentence: str
    delta: float
    tolerance: float


class LogEvent(Struct):
    seq: int
    at: float
    kind: str
    id: int | None
    arm: str | None
    reward: float | None
    key: str | None
    probability: float | None
    bucket: str | None
    shown_by: int | None


class Events(Struct):
    events: list[LogEvent]
    last: int
    more: bool


class AgentsQuery(Struct):
    after: Annotated[str, Meta(max_length=500)] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_BATCH)] = MAX_BATCH


class ReportQuery(Struct):
    delta: float = 0.05


class VerdictQuery(Struct):
    delta: float = 0.05
    tolerance: float = 0.0


class EventsQuery(Struct):
    after: Annotated[int, Meta(ge=0, le=2**62 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=PAGE_SIZE)] = MAX_BATCH


class ExportQuery(Struct):
    format: Literal["csv", "jsonl", "nc"] = "csv"


class Example(NamedTuple):
    """A request body and its answer; `media` has the answers that are not JSON, by media type.

    The body of an operation that reads text is a dict of examples by media type.
    """

    body: Any
    answer: Any
    media: dict[str, str | None] = {}  # noqa: RUF012


DECISION = {
    "id": 1, "kind": "pull", "arm": "blue", "key": "visit-4711", "asked_at": 1790000000.0,
    "probability": 1.0, "bucket": False,
}  # fmt: skip
LOOK_DECISION = {**DECISION, "id": 2, "kind": "look", "key": "probe-1"}
EVENT = {
    "seq": 3, "at": 1790000000.0, "kind": "pull", "id": 1, "arm": "blue", "reward": None,
    "key": "visit-4711", "probability": 1.0, "bucket": None, "shown_by": None,
}  # fmt: skip
ARM_REPORT = {
    "arm": "blue", "status": "active", "n_asked": 1, "n_pulls": 1, "n_pending": 0, "n_forgotten": 0,
    "n_looks": 0, "n_shows": 0, "n_settled": 1, "n_unsettled": 0, "n_late": 0, "oldest": None,
    "mean": 1.0, "low": 0.0, "high": 1.0, "best": 1.0, "since": None,
}  # fmt: skip

ASK = Example({"key": "visit-4711", "among": ["blue", "green"]}, DECISION)
LOOK = Example({"key": "probe-1"}, LOOK_DECISION)
TELL = Example({"id": 1, "reward": 1.0}, {"result": "counted"})
OBSERVE = Example({"arm": "green", "reward": 1.0, "key": "panel-17"}, {"result": "counted"})
CORRECT = Example({"id": 1, "reward": 0.0}, {"result": "corrected"})
FORGET = Example({"id": 2}, {"result": "forgotten"})
ADD_ARM = Example({"arm": "red"}, {"arm": "red", "state": "active"})
CHANGE_ARM = Example({"state": "paused"}, {"arm": "red", "state": "paused"})
DECLARE_REWARDS = Example({"rewards": "bernoulli"}, {"result": "declared"})
ERASE = Example({"key": "visit-4711"}, {"results": ["erased"]})
COMPACT = Example({"before": "2026-01-31"}, {"n_events": 2400})
HEALTH = Example(None, {"status": "ok"})
AGENTS = Example(None, {"agents": ["checkout"], "more": False})
AGENT = {
    "name": "banner", "arms": [{"arm": "old", "state": "active"}, {"arm": "new", "state": "active"}],
    "rewards": "bernoulli",
    "policy": {"name": "ucb", "parameters": {"exploration": 2.0, "ignore_looks": False}},
    "scale": None, "patience": 3600.0, "silence": 0.0, "bucket": 0.0, "bucket_is_free": False,
    "shows": None,
    "alarms": 0.1,
}  # fmt: skip
CREATE_AGENT = Example(
    {
        "name": "banner", "arms": ["old", "new"], "rewards": "bernoulli",
        "policy": {"name": "ucb", "parameters": {"exploration": 2.0}}, "patience": 3600, "silence": 0,
        "alarms": 0.1,
    },
    AGENT,
)  # fmt: skip
CONFIG = Example(None, AGENT)
DELETE_AGENT = Example(None, {"result": "deleted"})
IMPORT = Example(
    {
        "text/csv": "arm,reward,key\nblue,1,visitor-1\ngreen,0,visitor-2\n",
        "application/x-ndjson": '{"arm": "blue", "reward": 1, "key": "visitor-3"}\n',
    },
    {"counted": 2, "duplicates": 0},
)
REPORT = Example(None, {
    "agent": "checkout", "policy": "kibitzer(b=8.0, beta=1.0, rewards='bernoulli')",
    "rewards": "bernoulli", "scale": 0.5,
    "n_asks": 1, "delta": 0.05, "inequality": "M(mu)/2 + E(mu)/4 < ...",
    "verdict": "No verdict yet. ...", "loss_high": 1.0, "loss_likely": 0.04, "remaining": None,
    "regret_low": 0.0, "regret_high": 1.0, "looks_saved": None, "warnings": [],
    "alarms": [], "promise": "",
    "arms": [ARM_REPORT],
})  # fmt: skip
VERDICT = Example(None, {
    "winner": None, "may_stop": False, "out": ["red"], "loss_high": 0.014, "loss_likely": 0.001,
    "remaining": 20000, "sentence": "No verdict yet. ...", "delta": 0.05, "tolerance": 0.0,
})  # fmt: skip
STREAM = 'id: 3\nevent: pull\ndata: {"seq": 3, "kind": "pull", ...}\n\n'
EVENTS = Example(None, {"events": [EVENT], "last": 3, "more": False}, {"text/event-stream": STREAM})
EXPORT = Example(None, None, {
    "text/csv": "seq,at,kind,id,arm,reward,key,probability,bucket,shown_by\n"
    "1,1790000000.0,added,,blue,,,,,\n",
    "application/x-ndjson": f"{json.encode(EVENT).decode()}\n",
    "application/x-netcdf": None,
})  # fmt: skip
