"""What follows from the log: the arms' counts and sums, and what became of each decision.

The log of events is the truth. Everything here can be thrown away and made anew from it; the store
keeps it so that nobody has to.

A decision is a `pull`, a `look`, or a `saw` (an observation that nobody asked for). It is `pending`,
then `told`; or `forgotten`, or `silent` where silence means a reward, and told all the same if the
report comes late.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MADE = ("pull", "look", "saw")  # the events that make a decision
STATUS = {"added": "active", "resumed": "active", "paused": "paused", "retired": "retired"}


class Event(NamedTuple):
    """A line of the log."""

    seq: int  # 1, 2, 3, ... for each agent
    at: float  # seconds since 1970
    kind: str  # one of MADE, told, corrected, forgotten, silent, or a change of an arm
    id: int | None  # of the decision
    arm: str
    reward: float | None
    key: str | None


@dataclass(slots=True)
class Arm:
    """What is known of an arm: pulls are told ones, pending and forgotten ones apart."""

    name: str
    status: str = "active"
    n_asked: int = 0
    n_pending: int = 0
    n_pulls: int = 0
    pull_sum: float = 0.0
    n_looks: int = 0
    look_sum: float = 0.0
    squares: float = 0.0  # the sum of the squares of all rewards
    looks_pending: int = 0
    n_forgotten: int = 0
    looks_forgotten: int = 0

    @property
    def n_seen(self) -> int:
        """The number of observations, O_i."""
        return self.n_pulls + self.n_looks

    @property
    def mean(self) -> float:
        """The mean of all observations; NaN without any."""
        return (self.pull_sum + self.look_sum) / self.n_seen if self.n_seen else float("nan")

    def decided(self, kind: str) -> None:
        """Count a decision for this arm."""
        if kind == "pull":
            self.n_asked += 1
            self.n_pending += 1
        elif kind == "look":
            self.looks_pending += 1

    def left(self, kind: str, status: str) -> None:
        """Take a decision out of those that are pending or forgotten."""
        if status == "pending" and kind == "pull":
            self.n_pending -= 1
        elif status == "pending" and kind == "look":
            self.looks_pending -= 1
        elif status == "forgotten" and kind == "pull":
            self.n_forgotten -= 1
        elif status == "forgotten":
            self.looks_forgotten -= 1

    def heard(self, kind: str, reward: float) -> None:
        """Count a reward."""
        if kind == "pull":
            self.n_pulls += 1
            self.pull_sum += reward
        else:
            self.n_looks += 1
            self.look_sum += reward
        self.squares += reward * reward

    def changed(self, kind: str, old: float, new: float) -> None:
        """Put a reward in place of another."""
        if kind == "pull":
            self.pull_sum += new - old
        else:
            self.look_sum += new - old
        self.squares += new * new - old * old

    def forgot(self, kind: str) -> None:
        """Count a decision that was given up."""
        if kind == "pull":
            self.n_forgotten += 1
        else:
            self.looks_forgotten += 1


@dataclass(slots=True)
class Decided:
    """What became of a decision."""

    kind: str
    arm: int
    key: str | None
    asked_at: float
    stage: int  # how many pulls had been asked for, this one included
    status: str = "pending"
    told: float | None = None  # as it was first told
    reward: float | None = None  # as it counts


def settle(arm: Arm, decided: Decided, kind: str, reward: float | None) -> None:
    """Let a told, corrected, forgotten or silent event have its effect."""
    before = decided.status
    if kind == "forgotten":
        arm.left(decided.kind, before)
        arm.forgot(decided.kind)
        decided.status = "forgotten"
        return
    assert reward is not None
    if decided.reward is None:
        arm.left(decided.kind, before)
        arm.heard(decided.kind, reward)
    else:
        arm.changed(decided.kind, decided.reward, reward)
    decided.reward = reward
    if kind == "told":
        decided.told = reward
    decided.status = "silent" if kind == "silent" else "told"


@dataclass(slots=True)
class Projection:
    """All that follows from a log."""

    arms: list[Arm] = field(default_factory=list)
    decisions: list[Decided] = field(default_factory=list)
    n_events: int = 0
    n_asks: int = 0
    latest: float = 0.0
    order: list[int] = field(default_factory=list)  # the decisions, as they were first heard of


def projected(events: Iterable[Event]) -> Projection:
    """Return what follows from a log; refuse one that contradicts itself, by a ValueError."""
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
        if event.kind in STATUS:
            arm.status = STATUS[event.kind]
        elif event.kind in MADE:
            _decide(p, event, arm, places[event.arm])
        else:
            if event.id is None or not 1 <= event.id <= len(p.decisions):
                raise ValueError(f"decision of event {event.seq} must be known, got {event.id}")
            decided = p.decisions[event.id - 1]
            if decided.reward is None and event.kind != "forgotten":
                p.order.append(event.id)
            settle(arm, decided, event.kind, event.reward)
    return p


def _decide(p: Projection, event: Event, arm: Arm, place: int) -> None:
    if event.id != len(p.decisions) + 1:
        raise ValueError(f"decision {len(p.decisions) + 1} must follow, got {event.id}")
    p.n_asks += event.kind == "pull"
    decided = Decided(event.kind, place, event.key, event.at, max(1, p.n_asks))
    p.decisions.append(decided)
    arm.decided(event.kind)
    if event.kind == "saw":
        p.order.append(event.id)
        settle(arm, decided, "told", event.reward)


def differences(kept: Any, made: Any, what: str) -> list[str]:
    """Return, in sentences, where what is kept differs from what follows from the log."""
    return [
        f"{what}: {name} is {getattr(kept, name)!r}, by the log {getattr(made, name)!r}"
        for name in made.__slots__
        if getattr(kept, name) != getattr(made, name)
    ]
