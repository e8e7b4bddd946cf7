"""The event log of an agent and its projection: arm counts, and the status of each decision.

The log is the source of truth. The store also holds the projection, which can be rebuilt from the
log at any time (`project`). Compaction replaces the first events of a log by a checkpoint, which is
the projection of these events without the decisions that can no longer change (`make_checkpoint`).

A decision is a `pull`, a `look`, an `observe` (an observation that was not asked for), or a `show`
(an observation of another arm that a pull showed; `shown_by` is the id of the pull). A pull or look
is `pending` until its reward is reported; then it is `told`. A decision without a report becomes
`forgotten`, or `silent` if the agent counts silence as a reward. A late report still makes the
decision `told`.

**Settled counts.** Means and confidence intervals use settled decisions only. If the agent forgets
decisions without a report, a decision settles when it is reported. If the agent counts silence as a
reward, a decision settles when it is older than the patience, with the reward known then: the
reported reward, or the reward of silence. The settled decisions are then the first decisions of the
log, so the settled counts do not depend on whether clicks are reported sooner than missing clicks.
A report that arrives later does not change the settled counts; a correction does. No event records a
settlement: the time of each event determines which decisions have settled before it.

**Alarms.** An agent with a monitor (`kibitz.live.monitor`) gives the settled rewards to a change
detector, in the order of the decisions. `Projection.n_settled` then counts the decisions that are
older than the patience, even if the agent forgets decisions. An alarm is not an event, because the
log determines it.

**Time.** An event gets the time of the clock, or the time of the previous event if that is later. If
the clock is more than `CLOCK_TOLERANCE` behind the previous event, a wrong clock must have timed
the earlier events. The new event then gets the time of the clock, and decisions with a later time are
set back to this time, so their patience can end (`Projection.set_back`).

**Bucket.** An agent with a bucket chooses some arms uniformly at random. `probability` is the
probability with which the arm of a decision was chosen, given everything before it, or None if it is
unknown. `bucket` lists the arms from which the arm was drawn, by their numbers, and is None if the
policy chose the arm. `Arm.bucket_counts` counts the settled bucket decisions.

**Exact sums.** The sums of an arm are exact. Each sum is stored as the nearest float and a list of
remainders (`expand`), so the correction of a reward causes no rounding error.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kibitz.live.monitor import Alarm, Monitor, add_observation, correct_observation

DECISION_KINDS = ("pull", "look", "observe", "show")  # the events that create a decision
ARM_STATUS = {"added": "active", "resumed": "active", "paused": "paused", "retired": "retired"}
CLOCK_TOLERANCE = 3600.0  # seconds; if clocks differ by more, the clock that is ahead is wrong
DECLARATIONS = {"declared_bernoulli": "bernoulli", "declared_bounded": "bounded"}
REPORT_KINDS = ("told", "corrected", "forgotten", "silent")  # the events that change a decision
KIND_SUMS = ("pull_sum", "look_sum", "show_sum")  # the sums of an arm by kind of decision
NOTES = ("checkpoint", "compacted", "erased")  # events that do not change the projection


class Event(NamedTuple):
    """An event of the log.

    Its fields are `seq`, `at`, `kind`, `id`, `arm`, `reward`, `key`, `probability`, `bucket` and
    `shown_by`.
    """

    seq: int  # 1, 2, 3, ... for each agent
    at: float  # seconds since 1970
    kind: str  # in DECISION_KINDS, REPORT_KINDS, ARM_STATUS, DECLARATIONS or NOTES
    id: int | None  # id of the decision; None if the event is not about a decision
    arm: str | None  # None if the event is not about an arm
    reward: float | None
    key: str | None
    probability: float | None = None  # with which the arm was chosen; None if it is unknown
    bucket: str | None = None  # numbers of the arms of the bucket, such as "0 1 2"
    shown_by: int | None = None  # id of the pull that showed this reward


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
    probability
        The probability with which the arm was chosen, given everything before the request. It is 1
        for a deterministic policy without a bucket. With a bucket, it is the probability of the
        mixture of policy and bucket. If the policy itself is random, such as Thompson sampling, the
        probability of a bucket decision is the probability that the bucket chooses this arm. The
        probability of every other decision is then None.
    bucket
        Whether the bucket chose the arm, uniformly at random.
    """

    id: int
    kind: str
    arm: str
    key: str | None
    asked_at: float
    probability: float | None = None
    bucket: bool = False


@dataclass(slots=True)
class Arm:
    """The counts of an arm. `n_pulls`, `n_looks` and `n_shows` count reports, not requests.

    `n_shows` counts the rewards of this arm that pulls of other arms showed. `n_settled`,
    `settled_sum` and `settled_squares` are the number, the sum and the sum of squares of all settled
    rewards. `n_unsettled` and `n_late` stay 0 unless the agent counts silence as a reward.

    Each sum is the float nearest to the exact sum. `remainders` maps the name of a sum to the floats
    that must be added to it to get the exact sum; most sums of clicks have no remainders.
    `bucket_counts` maps each set of arms from which the bucket drew to the number of settled bucket
    decisions of this arm. `scan` is the state of the change detector, or [] if there is none.
    """

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
    n_settled: int = 0
    settled_sum: float = 0.0
    settled_squares: float = 0.0
    n_unsettled: int = 0  # decisions whose reward may still change
    n_late: int = 0  # reports that arrived after their decision had settled
    n_shows: int = 0
    show_sum: float = 0.0
    remainders: dict[str, list[float]] = field(default_factory=dict)
    bucket_counts: dict[str, int] = field(default_factory=dict)
    scan: list[Any] = field(default_factory=list)

    @property
    def n_observed(self) -> int:
        """The number of observed rewards: from pulls, from looks and from pulls of other arms."""
        return self.n_pulls + self.n_looks + self.n_shows

    @property
    def total(self) -> float:
        """The float nearest to the exact sum of all observed rewards."""
        return math.fsum([part for name in KIND_SUMS for part in self._parts(name)])

    @property
    def mean(self) -> float:
        """The mean of all observed rewards; NaN if the arm has no observations."""
        return self.total / self.n_observed if self.n_observed else float("nan")

    @property
    def settled_mean(self) -> float:
        """The mean of the settled rewards; NaN if the arm has no settled rewards."""
        return self.settled_sum / self.n_settled if self.n_settled else float("nan")

    def count_decision(self, kind: str, silence: float | None) -> None:
        """Count a new decision. An `observe` or a `show` is never pending."""
        self.n_unsettled += silence is not None
        if kind == "pull":
            self.n_asked += 1
            self.n_pending += 1
        elif kind == "look":
            self.looks_pending += 1

    def apply(
        self,
        record: "DecisionRecord",
        kind: str,
        reward: float | None,
        silence: float | None,
        is_settled: bool = False,
        monitor: Monitor | None = None,
    ) -> None:
        """Apply a told, corrected, forgotten or silent event to a decision and to this arm.

        `silence` is the reward that silence counts as, or None if the agent forgets decisions.
        `is_settled` says whether the decision has settled; it is used only if `silence` is a number.
        """
        old_reward = record.settled_reward
        self._count(record, kind, reward)
        if reward is None:
            return
        if silence is None or (kind == "corrected" and record.settled_reward is not None):
            self._count_settled(record, reward)
            if monitor is not None and record.place is not None and old_reward is not None:
                correct_observation(self.scan, monitor, record.place, old_reward, reward)
        elif kind == "told" and is_settled:
            self.n_late += 1

    def settle(self, record: "DecisionRecord", silence: float) -> None:
        """Settle a decision with its present reward, or with `silence` if it is pending.

        A forgotten decision has no reward, so it does not change the settled counts.
        """
        self.n_unsettled -= 1
        if record.reward is not None:
            self._count_settled(record, record.reward)
        elif record.status == "pending":
            self._count_settled(record, silence)

    def _parts(self, name: str) -> list[float]:
        """Return floats that add up exactly to the arm's sum with this name."""
        return [getattr(self, name), *self.remainders.get(name, ())]

    def _replace(self, name: str, old: float, new: float) -> None:
        """Replace the term `old` of a sum by `new`, exactly; if `old` is 0, add the term `new`."""
        nearest, *rest = expand([*self._parts(name), new, -old]) or [0.0]
        setattr(self, name, nearest)
        if rest:
            self.remainders[name] = rest
        else:
            self.remainders.pop(name, None)

    def _count_settled(self, record: "DecisionRecord", reward: float) -> None:
        """Add a reward to the settled counts, or replace the settled reward of the decision."""
        old = record.settled_reward or 0.0
        if record.settled_reward is None:
            self.n_settled += 1
            if record.bucket is not None:
                self.bucket_counts[record.bucket] = self.bucket_counts.get(record.bucket, 0) + 1
        self._replace("settled_sum", old, reward)
        self._replace("settled_squares", old * old, reward * reward)
        record.settled_reward = reward

    def _count(self, record: "DecisionRecord", kind: str, reward: float | None) -> None:
        """Update the status of a decision and all counts except the settled counts."""
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
        elif record.kind == "show":
            self.n_shows += is_first
        else:
            self.n_looks += is_first
        self._replace(name_sum(record.kind), old, reward)
        self._replace("squares", old * old, reward * reward)
        record.reward = reward
        if kind == "told":
            record.told = reward
        record.status = "silent" if kind == "silent" else "told"

    def _uncount(self, is_pull: bool, record: "DecisionRecord") -> None:
        """Subtract a decision from the count of pending or forgotten decisions."""
        if record.status == "forgotten":
            self.n_forgotten -= is_pull
            self.looks_forgotten -= not is_pull
        elif record.kind in ("pull", "look"):
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
    settled_reward: float | None = None  # the reward in the settled counts
    probability: float | None = None
    bucket: str | None = None
    shown_by: int | None = None  # id of the pull that showed the reward
    place: int | None = None  # position in the change detector of its arm, counted from 1


class Reward(NamedTuple):
    """The reward that an event reported or corrected, with its decision.

    The reward is None if the event forgot the decision. A new arm also has an entry, with the kind
    "added" and the id 0.
    """

    id: int
    kind: str
    arm: int
    stage: int
    reward: float | None


@dataclass(slots=True)
class Projection:
    """The state of an agent that follows from its log.

    After a compaction, `decisions` lacks the decisions that the checkpoint left out. `removed` has,
    for each arm and each of its sums, floats that add up exactly to the terms of these decisions.
    """

    arms: list[Arm] = field(default_factory=list)
    decisions: dict[int, DecisionRecord] = field(default_factory=dict)
    n_decisions: int = 0
    n_events: int = 0
    n_asks: int = 0
    n_settled: int = 0  # decisions older than the patience; 0 if decisions do not settle by age
    rewards: str | None = None  # the declared kind of rewards
    latest: float = 0.0
    order: list[Reward] = field(default_factory=list)  # in the order of the events
    removed: list[dict[str, list[float]]] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)

    def set_back(self, at: float) -> None:
        """Give the time `at` to all decisions with a later time, which came from a wrong clock."""
        for record in reversed(self.decisions.values()):
            if record.asked_at <= at:
                return
            record.asked_at = at


def event_time(now: float, latest: float) -> float:
    """Return the time of a new event from the clock's time `now` and the last event's time."""
    return now if now < latest - CLOCK_TOLERANCE else max(now, latest)


def expand(terms: list[float]) -> list[float]:
    """Return floats that add up exactly to the sum of `terms`.

    The first float is the float nearest to the sum, the second is the float nearest to the rest, and
    so on. The floats depend only on the exact sum. The list is empty if the sum is 0.
    """
    floats: list[float] = []
    while nearest := math.fsum(terms):
        floats.append(nearest)
        terms = [*terms, -nearest]
    return floats


def has_settled(asked_at: float, at: float, patience: float) -> bool:
    """Return whether a decision is older than the patience at time `at`."""
    return asked_at < at and asked_at <= at - patience


def project(
    events: Iterable[Event],
    patience: float | None = None,
    silence: float | None = None,
    checkpoint: Projection | None = None,
    monitor: Monitor | None = None,
) -> Projection:
    """Replay a log and return its projection; raise ValueError if the log is inconsistent.

    `silence` is the reward that silence counts as after `patience` seconds, or None if the agent
    forgets decisions. `checkpoint` is the projection with which a compacted log begins; this function
    changes it.
    """
    p = Projection() if checkpoint is None else checkpoint
    n_compacted = p.n_events
    arm_indices = {arm.name: arm_index for arm_index, arm in enumerate(p.arms)}
    for event in events:
        if event.kind == "checkpoint" and event.seq != n_compacted:
            raise ValueError(f"the checkpoint of events 1 to {event.seq} is missing")
        if event.seq <= n_compacted:  # a change of an arm, which the checkpoint contains
            continue
        if event.seq != p.n_events + 1:
            raise ValueError(f"event {p.n_events + 1} is missing; the next one is {event.seq}")
        if event.at < p.latest:
            p.set_back(event.at)
        p.n_events, p.latest = event.seq, event.at
        if patience is not None and (silence is not None or monitor is not None):
            _settle_decisions(p, event.at, patience, silence, monitor)
        if event.kind in NOTES:
            continue
        if event.kind in DECLARATIONS:
            p.rewards = DECLARATIONS[event.kind]
            continue
        if event.arm is None:
            raise ValueError(f"event {event.seq} names no arm")
        if event.kind == "added":
            arm_indices[event.arm] = len(p.arms)
            p.arms.append(Arm(event.arm))
            p.order.append(Reward(0, "added", arm_indices[event.arm], 0, None))
            continue
        if event.arm not in arm_indices:
            raise ValueError(f"event {event.seq} names an unknown arm: {event.arm!r}")
        arm = p.arms[arm_indices[event.arm]]
        if event.kind in ARM_STATUS:
            arm.status = ARM_STATUS[event.kind]
        elif event.kind in DECISION_KINDS:
            _add_decision(p, event, arm, arm_indices[event.arm], silence)
        else:
            record = p.decisions.get(event.id or 0)
            if event.id is None or record is None:
                raise ValueError(f"event {event.seq} names an unknown decision: {event.id}")
            p.order.append(Reward(event.id, record.kind, record.arm, record.stage, event.reward))
            arm.apply(record, event.kind, event.reward, silence, event.id <= p.n_settled, monitor)
    return p


def _settle_decisions(
    p: Projection, at: float, patience: float, silence: float | None, monitor: Monitor | None
) -> None:
    """Settle the decisions that are older than the patience at time `at`, in order."""
    while p.n_settled < p.n_decisions:
        record = p.decisions[p.n_settled + 1]
        if not has_settled(record.asked_at, at, patience):
            return
        p.n_settled += 1
        p.alarms += settle_decision(p.arms, p.n_settled, record, silence, monitor)


def settle_decision(
    arms: list[Arm], id: int, record: DecisionRecord, silence: float | None, monitor: Monitor | None
) -> list[Alarm]:
    """Settle a decision that is older than the patience; return the alarm that it raises, or []."""
    arm = arms[record.arm]
    if silence is not None:
        arm.settle(record, silence)
    if monitor is None or record.settled_reward is None:
        return []
    reward, asked_at = record.settled_reward, record.asked_at
    alarm = add_observation(arm.scan, monitor, record.arm, id, asked_at, reward)
    record.place = arm.scan[0]
    return [] if alarm is None else [alarm]


def _add_decision(
    p: Projection, event: Event, arm: Arm, arm_index: int, silence: float | None
) -> None:
    if event.id is None or event.id != p.n_decisions + 1:
        raise ValueError(f"decision {p.n_decisions + 1} is missing; the next one is {event.id}")
    p.n_asks += event.kind == "pull"
    record = DecisionRecord(
        event.kind,
        arm_index,
        event.key,
        event.at,
        max(1, p.n_asks),
        probability=event.probability,
        bucket=event.bucket,
        shown_by=event.shown_by,
    )
    p.n_decisions = event.id
    p.decisions[event.id] = record
    arm.count_decision(event.kind, silence)
    if event.kind in ("observe", "show"):
        assert event.reward is not None
        p.order.append(Reward(event.id, record.kind, record.arm, record.stage, event.reward))
        arm.apply(record, "told", event.reward, silence)


def name_sum(kind: str) -> str:
    """Return the name of the sum in `Arm` that contains the rewards of decisions of a kind."""
    return f"{kind}_sum" if kind in ("pull", "show") else "look_sum"


def list_terms(record: DecisionRecord) -> Iterator[tuple[str, float]]:
    """Yield the terms of a decision in the sums of its arm, each with the name of the sum."""
    if (reward := record.reward) is not None:
        yield name_sum(record.kind), reward
        yield "squares", reward * reward
    if (reward := record.settled_reward) is not None:
        yield "settled_sum", reward
        yield "settled_squares", reward * reward


def make_checkpoint(p: Projection, used_ids: set[int], settles: bool, in_order: bool) -> str:
    """Remove the decisions that can no longer change from a projection; return the rest as JSON.

    All counts and sums stay the same. Decisions stay if they are pending or not settled, or if their
    id is in `used_ids`. A show stays if its pull stays, so a repeated report is recognised. `settles`
    says whether decisions settle by their age. `in_order` says whether the policy's state depends on
    the order of the rewards; if it does not, `order` is removed.
    """
    p.removed += [{} for _ in p.arms[len(p.removed) :]]
    terms: list[dict[str, list[float]]] = [defaultdict(list) for _ in p.arms]
    removed: dict[int, DecisionRecord] = {}
    for id, record in p.decisions.items():
        is_open = record.status == "pending" or (settles and id > p.n_settled)
        is_shown = record.shown_by in p.decisions and record.shown_by not in removed
        if not (is_open or is_shown or id in used_ids):
            removed[id] = record
            for name, term in list_terms(record):
                terms[record.arm][name].append(term)
    for arm_removed, arm_terms in zip(p.removed, terms, strict=True):
        for name, floats in arm_terms.items():
            arm_removed[name] = expand([*arm_removed.get(name, ()), *floats])
    if not in_order:
        p.order = []
    p.decisions = {id: record for id, record in p.decisions.items() if id not in removed}
    return checkpoint_to_json(p)


def checkpoint_to_json(p: Projection) -> str:
    """Convert a projection to JSON. `checkpoint_from_json` restores it exactly."""
    content = {name: getattr(p, name) for name in p.__slots__}
    content["arms"] = [[getattr(arm, name) for name in Arm.__slots__] for arm in p.arms]
    content["decisions"] = [
        [id, *(getattr(record, name) for name in DecisionRecord.__slots__)]
        for id, record in p.decisions.items()
    ]
    return json.dumps(content, sort_keys=True)


def checkpoint_from_json(text: str) -> Projection:
    """Return the projection that `checkpoint_to_json` converted to JSON."""
    content = json.loads(text)
    content["arms"] = [Arm(*values) for values in content["arms"]]
    content["decisions"] = {id: DecisionRecord(*values) for id, *values in content["decisions"]}
    content["order"] = [Reward(*values) for values in content["order"]]
    content["alarms"] = [Alarm(*values) for values in content.get("alarms", ())]
    return Projection(**content)


def list_discrepancies(stored: Any, replayed: Any, subject: str) -> list[str]:
    """Describe each field in which a stored record differs from the replayed record."""
    return [
        f"{subject}: {name} is {getattr(stored, name)!r}; the log gives {getattr(replayed, name)!r}"
        for name in replayed.__slots__
        if getattr(stored, name) != getattr(replayed, name)
    ]
