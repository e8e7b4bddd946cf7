"""The event log of an agent and its projection: arm counts, and the status of each decision.

The log is the source of truth. The store also holds the projection, which can be rebuilt from the
log at any time (`project`).

A decision is a `pull`, a `look`, or an `observe` (an observation that was not asked for). A pull or
look is `pending` until its reward is reported; then it is `told`. A decision without a report
becomes `forgotten`, or `silent` if the agent counts silence as a reward. A late report still makes
the decision `told`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

DECISION_KINDS = ("pull", "look", "observe")  # the events that create a decision
ARM_STATUS = {"added": "active", "resumed": "active", "paused": "paused", "retired": "retired"}


class Event(NamedTuple):
    """An event of the log: (`seq`, `at`, `kind`, `id`, `arm`, `reward`, `key`)."""

    seq: int  # 1, 2, 3, ... for each agent
    at: float  # seconds since 1970
    kind: str  # in DECISION_KINDS or ARM_STATUS, or told, corrected, forgotten or silent
    id: int | None  # id of the decision; None if the event changes an arm
    arm: str
    reward: float | None
    key: str | None


class Decision(NamedTuple):
    """The answer to an ask or a look.

    Attributes
    ----------
    id
        The number of the decision; the decisions of each agent are numbered 1, 2, 3, ...
    kind
        "pull" or "look".
    arm
        The name of the arm.
    key
        The key of the request, or None.
    asked_at
        Time of the request, in seconds since 1970.
    """

    id: int
    kind: str
    arm: str
    key: str | None
    asked_at: float


@dataclass(slots=True)
class Arm:
    """The counts of an arm. `n_pulls` and `n_looks` count reports, not requests."""

    name: str
    status: str = "active"
    n_asked: int = 0
    n_pending: int = 0
    n_pulls: int = 0
    pull_sum: float = 0.0
    n_looks: int = 0
    look_sum: float = 0.0
    squares: float = 0.0  # sum of the squares of all rewards
    looks_pending: int = 0
    n_forgotten: int = 0
    looks_forgotten: int = 0

    @property
    def n_observed(self) -> int:
        """The number of observed rewards, from pulls and from looks."""
        return self.n_pulls + self.n_looks

    @property
    def mean(self) -> float:
        """The mean of all observed rewards; NaN if the arm has no observations."""
        return (self.pull_sum + self.look_sum) / self.n_observed if self.n_observed else float("nan")

    def count_decision(self, kind: str) -> None:
        """Count a new decision. An `observe` is never pending."""
        if kind == "pull":
            self.n_asked += 1
            self.n_pending += 1
        elif kind == "look":
            self.looks_pending += 1

    def settle(self, record: "DecisionRecord", kind: str, reward: float | None) -> None:
        """Apply a told, corrected, forgotten or silent event to a decision and to this arm."""
        is_pull, is_first = record.kind == "pull", record.reward is None
        if is_first:
            self._uncount(is_pull, record)
        if kind == "forgotten":
            self.n_forgotten += is_pull
            self.looks_forgotten += not is_pull
            record.status = "forgotten"
            return
        assert reward is not None
        old = record.reward or 0.0
        if is_pull:
            self.n_pulls += is_first
            self.pull_sum += reward - old
        else:
            self.n_looks += is_first
            self.look_sum += reward - old
        self.squares += reward * reward - old * old
        record.reward = reward
        if kind == "told":
            record.told = reward
        record.status = "silent" if kind == "silent" else "told"

    def _uncount(self, is_pull: bool, record: "DecisionRecord") -> None:
        """Subtract a decision from the count of pending or forgotten decisions."""
        if record.status == "forgotten":
            self.n_forgotten -= is_pull
            self.looks_forgotten -= not is_pull
        elif record.kind != "observe":
            self.n_pending -= is_pull
            self.looks_pending -= not is_pull


@dataclass(slots=True)
class DecisionRecord:
    """A decision with its status and reward."""

    kind: str
    arm: int
    key: str | None
    asked_at: float
    stage: int  # number of pulls requested up to and including this decision; at least 1
    status: str = "pending"
    told: float | None = None  # the reward that was reported
    reward: float | None = None  # the reward that counts, after corrections


@dataclass(slots=True)
class Projection:
    """The state of an agent that follows from its log."""

    arms: list[Arm] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    n_events: int = 0
    n_asks: int = 0
    latest: float = 0.0
    order: list[int] = field(default_factory=list)  # decision ids in the order of their rewards


def project(events: Iterable[Event]) -> Projection:
    """Replay a log and return its projection; raise ValueError if the log is inconsistent."""
    p = Projection()
    places: dict[str, int] = {}
    for event in events:
        if event.seq != p.n_events + 1:
            raise ValueError(f"event {p.n_events + 1} is missing; the next one is {event.seq}")
        p.n_events, p.latest = event.seq, event.at
        if event.kind == "added":
            places[event.arm] = len(p.arms)
            p.arms.append(Arm(event.arm))
            continue
        if event.arm not in places:
            raise ValueError(f"event {event.seq} names an unknown arm: {event.arm!r}")
        arm = p.arms[places[event.arm]]
        if event.kind in ARM_STATUS:
            arm.status = ARM_STATUS[event.kind]
        elif event.kind in DECISION_KINDS:
            _add_decision(p, event, arm, places[event.arm])
        else:
            if event.id is None or not 1 <= event.id <= len(p.decisions):
                raise ValueError(f"event {event.seq} names an unknown decision: {event.id}")
            record = p.decisions[event.id - 1]
            if record.reward is None and event.kind != "forgotten":
                p.order.append(event.id)
            arm.settle(record, event.kind, event.reward)
    return p


def _add_decision(p: Projection, event: Event, arm: Arm, place: int) -> None:
    if event.id != len(p.decisions) + 1:
        raise ValueError(f"decision {len(p.decisions) + 1} is missing; the next one is {event.id}")
    p.n_asks += event.kind == "pull"
    record = DecisionRecord(event.kind, place, event.key, event.at, max(1, p.n_asks))
    p.decisions.append(record)
    arm.count_decision(event.kind)
    if event.kind == "observe":
        p.order.append(event.id)
        arm.settle(record, "told", event.reward)


def list_discrepancies(stored: Any, replayed: Any, subject: str) -> list[str]:
    """Describe each field in which a stored record differs from the replayed record."""
    return [
        f"{subject}: {name} is {getattr(stored, name)!r}; the log gives {getattr(replayed, name)!r}"
        for name in replayed.__slots__
        if getattr(stored, name) != getattr(replayed, name)
    ]
