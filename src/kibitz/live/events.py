"""The event log of an agent and its projection: arm counts, and the status of each decision.

The log is the source of truth. The store also holds the projection, which can be rebuilt from the
log at any time (`project`).

A decision is a `pull`, a `look`, or an `observe` (an observation that was not asked for). It is
`pending`, then `told`; or `forgotten`, or `silent` where silence means a reward. A late report still
makes a forgotten or silent decision `told`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

DECISION_KINDS = ("pull", "look", "observe")  # the events that create a decision
ARM_STATUS = {"added": "active", "resumed": "active", "paused": "paused", "retired": "retired"}


class Event(NamedTuple):
    """A line of the log: (`seq`, `at`, `kind`, `id`, `arm`, `reward`, `key`)."""

    seq: int  # 1, 2, 3, ... for each agent
    at: float  # seconds since 1970
    kind: str  # one of DECISION_KINDS, told, corrected, forgotten, silent, or a change of an arm
    id: int | None  # of the decision
    arm: str
    reward: float | None
    key: str | None


class Decision(NamedTuple):
    """The answer to an ask or a look.

    Attributes
    ----------
    id
        1, 2, 3, ... for each agent.
    kind
        "pull" or "look".
    arm
        The name of the arm.
    key
        As it was asked with, or None.
    asked_at
        When, in seconds since 1970.
    """

    id: int
    kind: str
    arm: str
    key: str | None
    asked_at: float


@dataclass(slots=True)
class Arm:
    """The counts of an arm. `n_pulls` and `n_looks` count reports, not questions."""

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
        """The number of observations, O_i."""
        return self.n_pulls + self.n_looks

    @property
    def mean(self) -> float:
        """The mean of all observations; NaN without any."""
        return (self.pull_sum + self.look_sum) / self.n_observed if self.n_observed else float("nan")

    def count_decision(self, kind: str) -> None:
        """Count a new decision; an `observe` is never pending."""
        if kind == "pull":
            self.n_asked += 1
            self.n_pending += 1
        elif kind == "look":
            self.looks_pending += 1

    def settle(self, decided: "Decided", kind: str, reward: float | None) -> None:
        """Apply a told, corrected, forgotten or silent event to a decision and to this arm."""
        is_pull, is_first = decided.kind == "pull", decided.reward is None
        if is_first:
            self._discount(is_pull, decided)
        if kind == "forgotten":
            self.n_forgotten += is_pull
            self.looks_forgotten += not is_pull
            decided.status = "forgotten"
            return
        assert reward is not None
        old = decided.reward or 0.0
        if is_pull:
            self.n_pulls += is_first
            self.pull_sum += reward - old
        else:
            self.n_looks += is_first
            self.look_sum += reward - old
        self.squares += reward * reward - old * old
        decided.reward = reward
        if kind == "told":
            decided.told = reward
        decided.status = "silent" if kind == "silent" else "told"

    def _discount(self, is_pull: bool, decided: "Decided") -> None:
        """Take a decision out of those that are pending or forgotten."""
        if decided.status == "forgotten":
            self.n_forgotten -= is_pull
            self.looks_forgotten -= not is_pull
        elif decided.kind != "observe":
            self.n_pending -= is_pull
            self.looks_pending -= not is_pull


@dataclass(slots=True)
class Decided:
    """The status of a decision."""

    kind: str
    arm: int
    key: str | None
    asked_at: float
    stage: int  # the number of pulls asked for so far, this one included
    status: str = "pending"
    told: float | None = None  # as first reported
    reward: float | None = None  # as it counts


@dataclass(slots=True)
class Projection:
    """The state that follows from a log."""

    arms: list[Arm] = field(default_factory=list)
    decisions: list[Decided] = field(default_factory=list)
    n_events: int = 0
    n_asks: int = 0
    latest: float = 0.0
    order: list[int] = field(default_factory=list)  # ids, in the order of their first rewards


def project(events: Iterable[Event]) -> Projection:
    """Replay a log; raise ValueError if it contradicts itself."""
    p = Projection()
    places: dict[str, int] = {}
    for event in events:
        if event.seq != p.n_events + 1:
            raise ValueError(f"event {p.n_events + 1} must follow, got {event.seq}")
        p.n_events, p.latest = event.seq, event.at
        if event.kind == "added":
            places[event.arm] = len(p.arms)
            p.arms.append(Arm(event.arm))
            continue
        if event.arm not in places:
            raise ValueError(f"arm of event {event.seq} must be known, got {event.arm!r}")
        arm = p.arms[places[event.arm]]
        if event.kind in ARM_STATUS:
            arm.status = ARM_STATUS[event.kind]
        elif event.kind in DECISION_KINDS:
            _decide(p, event, arm, places[event.arm])
        else:
            if event.id is None or not 1 <= event.id <= len(p.decisions):
                raise ValueError(f"decision of event {event.seq} must be known, got {event.id}")
            decided = p.decisions[event.id - 1]
            if decided.reward is None and event.kind != "forgotten":
                p.order.append(event.id)
            arm.settle(decided, event.kind, event.reward)
    return p


def _decide(p: Projection, event: Event, arm: Arm, place: int) -> None:
    if event.id != len(p.decisions) + 1:
        raise ValueError(f"decision {len(p.decisions) + 1} must follow, got {event.id}")
    p.n_asks += event.kind == "pull"
    decided = Decided(event.kind, place, event.key, event.at, max(1, p.n_asks))
    p.decisions.append(decided)
    arm.count_decision(event.kind)
    if event.kind == "observe":
        p.order.append(event.id)
        arm.settle(decided, "told", event.reward)


def differences(stored: Any, replayed: Any, subject: str) -> list[str]:
    """Return, in sentences, the fields in which a stored record differs from the replayed one."""
    return [
        f"{subject}: {name} is {getattr(stored, name)!r}, by the log {getattr(replayed, name)!r}"
        for name in replayed.__slots__
        if getattr(stored, name) != getattr(replayed, name)
    ]
