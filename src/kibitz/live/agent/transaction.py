"""Run the operations of an agent in one transaction.

A decision is read when an operation needs it. `finish` writes all changes in a few SQL statements.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from kibitz._errors import Conflict, UnknownDecision
from kibitz._validation import short_repr
from kibitz.live.agent import pending, policy_state
from kibitz.live.agent.config import Config, check_reward
from kibitz.live.events import (
    ARM_STATUS,
    CLOCK_TOLERANCE,
    Arm,
    Decision,
    DecisionRecord,
    event_time,
    make_checkpoint,
    settle_decision,
)
from kibitz.live.monitor import Alarm
from kibitz.live.store import queries
from kibitz.live.store.schema import Database

Operation = tuple[str, tuple[Any, ...]]  # a method of `Transaction`, and its arguments
PAGE_SIZE = 100  # decisions that are read at once when the policy learns them in order
KnownArms = tuple[int, int, list[Arm]]  # number of events and of settled decisions, and the arms


def read_arms(database: Database, config: Config, now: float) -> tuple[list[Arm], list[Alarm]]:
    """Return the arms and alarms of an agent at time `now`.

    This function also updates `config.rewards`, which another process may have declared.
    """
    row = queries.read_agent(database, config.name, config=config.stored)
    config.rewards = row.rewards or config.data["rewards"]
    return queries.read_arms_at(database, row, now, config.patience, config.silence, config.monitor)


class Transaction:
    """One transaction of an agent; `finish` writes the changes."""

    _state: str | None
    _learned: Any  # the state of the policy after the latest rewards; None if it is in `_state`

    def __init__(
        self, config: Config, database: Database, now: float, known: KnownArms | None
    ) -> None:
        self.config = config
        self.database = database
        row = queries.read_agent(database, config.name, config=config.stored, lock=True)
        self.number, self.n_events, self.n_decisions, self.n_asks, latest = row[:5]
        self.state = row.state
        self.n_settled, self._declared = row.n_settled, row.rewards
        self.at, self._latest = event_time(self._check_clock(now, latest), latest), latest
        self._before = row.n_events
        is_known = known is not None and known[:2] == (row.n_events, row.n_settled)
        self._arms = known[2] if known is not None and is_known else None
        self._touched: set[int] = set()  # indices of changed arms
        self._events: list[tuple[Any, ...]] = []
        self._alarms: list[Alarm] = []
        self._decisions: dict[int, DecisionRecord] = {}  # read or made in this transaction, by id
        self._keys: dict[str, int | None] = {}  # decision id by key; None: no decision has the key
        self._shows: dict[int, dict[int, int]] = {}  # id of each show, by pull and arm
        self._new: list[int] = []
        self._changed: set[int] = set()

    @property
    def arms(self) -> list[Arm]:
        """The arms of the agent."""
        if self._arms is None:
            self._arms = queries.read_arms(self.database, self.number)
        return self._arms

    @property
    def known_arms(self) -> KnownArms | None:
        """The arms after this transaction; None if the transaction did not read them."""
        return None if self._arms is None else (self.n_events, self.n_settled, self._arms)

    @property
    def rewards(self) -> str:
        """The kind of rewards, which another process may have declared since the agent was opened."""
        return self._declared or str(self.config.data["rewards"])

    # ------------------------------------------------------------------------------ operations

    def ask(self, keys: list[str | None], among: list[str] | None, many: bool) -> Any:
        """Choose an arm to pull for each key.

        Return the list of decisions if `many` is True, and the only decision if it is False.
        """
        arm_indices = self._candidates(among)
        if len({*keys}) < len(keys) and any(keys):
            raise ValueError("key must be a list of different keys, but one occurs twice")
        earlier_decisions = [self._find_decision("pull", key) for key in keys]
        decisions = [
            earlier_decision or self._decide("pull", arm_indices, key)
            for key, earlier_decision in zip(keys, earlier_decisions, strict=True)
        ]
        return decisions if many else decisions[0]

    def look(self, key: str | None) -> Decision:
        """Choose an arm to look at; return the decision."""
        arm_indices = self._candidates(None)
        return self._find_decision("look", key) or self._decide("look", arm_indices, key)

    def tell(self, id: int, reward: float) -> str:
        """Count the reward of a decision; return "counted", or "duplicate" for a repeated report."""
        check_reward(reward, self.rewards)
        record = self._read_decision(id)
        if record.status == "told":
            if reward in (record.reward, record.told):
                return "duplicate"
            raise Conflict(
                f"decision {id} was already told reward {record.reward!r} and cannot be told "
                f"{reward!r}; use correct()"
            )
        self._apply(id, record, "told", reward)
        return "counted"

    def tell_key(self, key: str, reward: float) -> str:
        """Count the reward of the decision with this key; return "counted" or "duplicate"."""
        if key not in self._keys:
            self._read("key", [key])
        id = self._keys[key]
        if id is None:
            raise UnknownDecision(
                f"decision with key {key!r} of agent {self.config.name!r} does not exist"
            )
        return self.tell(id, reward)

    def observe(self, name: str, reward: float, key: str | None, shown_by: int | None = None) -> str:
        """Count an observation that was not asked for; return "counted" or "duplicate".

        `shown_by` is the id of the pull that showed the reward, or None.
        """
        check_reward(reward, self.rewards)
        arm_index = self._find_arm(name)
        if self.arms[arm_index].status == "retired":
            raise ValueError(f"arm {name!r} is retired and takes no new observations")
        if shown_by is not None:
            self._check_show(shown_by, arm_index)
        kind = "observe" if shown_by is None else "show"
        if (known_id := self._find_key(kind, key)) is not None:
            record = self._decisions[known_id]
            is_same = (record.arm, record.shown_by) == (arm_index, shown_by)
            if is_same and reward in (record.reward, record.told):
                return "duplicate"
            raise Conflict(
                f"key {key!r} was already used to report reward {record.reward!r} of arm "
                f"{self.arms[record.arm].name!r}; use a new key"
            )
        if shown_by is not None and (show_id := self._find_show(shown_by, arm_index)) is not None:
            record = self._decisions[show_id]
            if reward in (record.reward, record.told):
                return "duplicate"
            raise Conflict(
                f"decision {shown_by} already showed reward {record.reward!r} of arm {name!r}, which "
                f"is decision {show_id}; use correct()"
            )
        stage = max(1, self.n_asks)
        record = DecisionRecord(kind, arm_index, key, self.at, stage, shown_by=shown_by)
        id = self._insert(record)
        if shown_by is not None:
            self._shows[shown_by][arm_index] = id
        self._append(kind, id, arm_index, reward, key, shown_by=shown_by)
        self.arms[arm_index].apply(record, "told", reward, self.config.silence)
        self._learn(id, record, reward)
        return "counted"

    def observe_line(self, line: int, *observation: Any) -> str:
        """Count the observation in a line of a file; errors name the line."""
        try:
            return self.observe(*observation)
        except ValueError as error:
            raise type(error)(f"line {line}: {error}") from None

    def _check_show(self, id: int, arm_index: int) -> None:
        """Raise ValueError if decision `id` is not a pull that can show this arm."""
        record, name = self._read_decision(id), self.arms[arm_index].name
        if record.kind != "pull" and record.bucket is None:
            raise ValueError(f"shown_by must be the id of a pull, but decision {id} is not a pull")
        pulled, shows = self.arms[record.arm].name, self.config.shows
        if record.arm == arm_index:
            raise ValueError(
                f"decision {id} is a pull of arm {name!r} itself; report its own reward with tell()"
            )
        if shows is not None and shows[record.arm, arm_index] == 0:
            raise ValueError(
                f"a pull of arm {pulled!r} never shows arm {name!r} in the graph of agent "
                f"{self.config.name!r}; check shown_by and arm"
            )

    def _find_show(self, id: int, arm_index: int) -> int | None:
        """Return the id of the decision that records what pull `id` showed of an arm, or None."""
        if id not in self._shows:
            self._shows[id] = {}
            self._read("shown_by", [id])
        return self._shows[id].get(arm_index)

    def forget(self, id: int) -> str:
        """Stop waiting for the report of a decision; return "forgotten" or "duplicate"."""
        record = self._read_decision(id)
        if record.status == "forgotten":
            return "duplicate"
        if record.status != "pending":
            raise Conflict(
                f"decision {id} cannot be forgotten: it is not pending but {record.status}"
            )
        self._apply(id, record, "forgotten", None)
        return "forgotten"

    def correct(self, id: int, reward: float) -> str:
        """Replace the reward of a decision; return "corrected" or "duplicate"."""
        check_reward(reward, self.rewards)
        record = self._read_decision(id)
        if record.reward is None:
            raise ValueError(f"decision {id} has no reward to correct; use tell()")
        if reward == record.reward and record.status == "told":
            return "duplicate"
        self._apply(id, record, "corrected", reward)
        return "corrected"

    def change(self, kind: str, name: str) -> None:
        """Add, pause, resume or retire an arm."""
        if kind == "added":
            if self.config.shows is not None:
                raise ValueError(
                    f"arm {name!r} cannot be added: the graph of agent {self.config.name!r} has no "
                    "row for it; create a new agent"
                )
            if any(arm.name == name for arm in self.arms):
                raise ValueError(f"arm {name!r} already exists; use a new name")
            self.arms.append(Arm(name))
            arm_index = len(self.arms) - 1
            queries.insert_arm(self.database, self.number, arm_index, name)
            self._append(kind, None, arm_index, None, None)
            empty = policy_state.init(self.config, arm_index)
            if self.state is not None and not policy_state.is_outdated(self.state, empty):
                larger = policy_state.init(self.config, arm_index + 1)
                self.state = policy_state.add_arm(self.state, larger)
            return
        arm_index = self._find_arm(name)
        arm = self.arms[arm_index]
        if arm.status == ARM_STATUS[kind]:
            return
        if arm.status == "retired":
            raise ValueError(f"arm {name!r} is retired and cannot be {kind}")
        arm.status = ARM_STATUS[kind]
        self._append(kind, None, arm_index, None, None)

    def declare(self, rewards: str) -> str:
        """Declare the kind of rewards; return "declared" or "duplicate"."""
        name = self.config.name
        if rewards == self.rewards:
            return "duplicate"
        if self._declared is not None or self.rewards == "bernoulli":
            raise ValueError(
                f"agent {name!r} has {self.rewards} rewards, which cannot be declared {rewards}; "
                "create a new agent"
            )
        if self.config.silence is not None:
            check_reward(self.config.silence, rewards, "silence")
        if self._events:
            self._write()
        if queries.read_checkpoint(self.database, self.number) is not None:
            raise ValueError(
                f"rewards of agent {name!r} cannot be declared after a compaction, because the "
                "removed rewards cannot be checked; create a new agent"
            )
        contradiction = queries.find_reward_outside(self.database, self.number, rewards)
        if contradiction is not None:
            id, reward = contradiction
            raise ValueError(
                f"rewards of agent {name!r} are not {rewards}: decision {id} has reward {reward!r}; "
                "correct it first, or create a new agent"
            )
        self._declared = rewards
        self._append(f"declared_{rewards}", None, None, None, None)
        return "declared"

    def compact(self, before: float) -> int:
        """Replace the events before a time by a checkpoint; return the number of these events."""
        if self._events:
            self._write()
        last = queries.find_last_before(self.database, self.number, before)
        checkpoint = queries.read_checkpoint(self.database, self.number)
        first = 0 if checkpoint is None else checkpoint.n_events
        if last <= first:
            return 0
        config = self.config
        projection = queries.replay_log(
            self.database, self.number, config.patience, config.silence, last, config.monitor
        )
        used_ids = queries.read_used_ids(self.database, self.number, last)
        if config.in_order:
            n_learned = self._load_state().n_learned[0]
            used_ids |= {id for id in projection.decisions if id > n_learned}
        content = make_checkpoint(projection, used_ids, config.settles, config.stores_state)
        queries.replace_events(self.database, self.number, projection, content)
        self._append("compacted", None, None, None, None)
        return last - first

    def erase(self, keys: list[str]) -> list[str]:
        """Remove keys from the store; return "erased" or "unknown" for each key."""
        if self._events:
            self._write()
        self._read("key", [key for key in keys if key not in self._keys])
        ids = {key: id for key in keys if (id := self._keys[key]) is not None}
        if ids:
            queries.erase_keys(self.database, self.number, [*ids.values()])
        for key, id in ids.items():
            self._decisions[id].key = self._keys[key] = None
            self._append("erased", id, None, None, None)
        return ["erased" if key in ids else "unknown" for key in keys]

    def settle(self) -> None:
        """Settle the decisions that are older than the patience.

        Do nothing if the agent's decisions do not settle by age. The changes are written only if the
        transaction also appends an event.
        """
        patience, silence, monitor = self.config.patience, self.config.silence, self.config.monitor
        if patience is None or not self.config.settles:
            return
        for id, record in queries.read_unsettled(
            self.database, self.number, self.n_settled, self.at, patience
        ):
            self._decisions[id] = record
            self._alarms += settle_decision(self.arms, id, record, silence, monitor)
            self.n_settled = id
            self._touched.add(record.arm)
            self._changed.add(id)

    def expire(self) -> None:
        """Forget pending decisions that are older than the patience, or count them as silent."""
        patience, silence = self.config.patience, self.config.silence
        if patience is None:
            return
        for id, read in queries.read_overdue(self.database, self.number, self.at - patience):
            record = self._decisions.setdefault(id, read)
            kind = "forgotten" if silence is None else "silent"
            self._apply(id, record, kind, silence)

    # ----------------------------------------------------------------------------- choosing arms

    def _find_arm(self, name: str) -> int:
        """Return the index of the arm with this name; raise ValueError if there is no such arm."""
        for arm_index, arm in enumerate(self.arms):
            if arm.name == name:
                return arm_index
        names = ", ".join(short_repr(arm.name) for arm in self.arms)
        raise ValueError(f"arm must be one of {names}, got {name!r}")

    def _candidates(self, among: list[str] | None) -> list[int]:
        """Return the indices of the arms to choose from: the active arms, or the arms in `among`.

        Raise ValueError if an arm in `among` is not active, or if no arm is active.
        """
        active_indices = [
            arm_index for arm_index, arm in enumerate(self.arms) if arm.status == "active"
        ]
        if among is not None:
            among_indices = {self._find_arm(name) for name in among}
            if not among_indices <= set(active_indices):
                arm = next(self.arms[p] for p in sorted(among_indices) if p not in active_indices)
                raise ValueError(
                    f"among must contain active arms only, but {arm.name!r} is {arm.status}"
                )
            active_indices = sorted(among_indices)
        if not active_indices:
            raise ValueError("no active arms; add or resume one")
        return active_indices

    def _decide(self, kind: str, arm_indices: list[int], key: str | None) -> Decision:
        """Let the policy or the bucket choose an arm; record the decision and return it."""
        stage = self.n_asks + 1 if kind == "pull" else max(1, self.n_asks)
        rng = None if self.config.policy.index is not None else self._make_rng()
        before = None if rng is None else _read_state(rng)
        arm_index = self._choose(kind, arm_indices, stage, rng)
        is_random = rng is not None and _read_state(rng) != before
        probability, bucket = None if is_random else 1.0, None
        epsilon, n_arms = self.config.bucket, len(arm_indices)
        if kind == "pull" and epsilon > 0 and n_arms > 1:
            chosen_by_policy, bucket_rng = arm_index, self._make_rng(1)
            if bucket_rng.random() < epsilon:
                arm_index = arm_indices[int(bucket_rng.integers(n_arms))]
                bucket = " ".join(map(str, arm_indices))
            if not is_random:
                probability = epsilon / n_arms + (1 - epsilon) * (arm_index == chosen_by_policy)
            elif bucket is not None:  # the policy's part of the mixture is unknown
                probability = epsilon / n_arms
        if bucket is not None and self.config.bucket_is_free:
            kind, stage = "look", max(1, self.n_asks)
        self.n_asks += kind == "pull"
        record = DecisionRecord(
            kind, arm_index, key, self.at, stage, probability=probability, bucket=bucket
        )
        id = self._insert(record)
        self._append(kind, id, arm_index, None, key, probability, bucket)
        return self._to_decision(id, record)

    def _make_rng(self, *stream: int) -> Generator:
        """Return a random number generator for the next decision.

        `stream` is empty for the policy and 1 for the bucket. The random numbers depend only on
        `stream`, the agent's seed and the decision's id.
        """
        spawn_key = (self.n_decisions + 1, *stream)
        return Generator(SFC64(SeedSequence(self.config.data["seed"], spawn_key=spawn_key)))

    def _choose(self, kind: str, arm_indices: list[int], stage: int, rng: Any) -> int:
        """Return the index of the arm that the policy chooses among the arms at `arm_indices`."""
        config, policy = self.config, self.config.player
        if config.in_turn:
            self._check_turn(kind)
            choose = policy.pull if kind == "pull" else policy.look
            return int(choose(config.params, self._load_state(), stage, rng))
        arms = [self.arms[arm_index] for arm_index in arm_indices]
        shows = None if config.shows is None else config.shows[np.ix_(arm_indices, arm_indices)]
        stored_state = None
        if config.in_order:
            learned = self._load_state() if self._learned is None else self._learned
            if self._state is not None:  # an initial state is not stored
                self._learned = learned
            stored_state = pending.select_arms(
                policy, config.params, policy_state.count_ahead(config, learned), arm_indices
            )
        if kind == "pull":
            choice = pending.pull(
                policy,
                config.params,
                arms,
                stage,
                config.unit,
                rng,
                config.silence,
                shows,
                stored_state,
            )
            return arm_indices[choice]
        current = self._find_current_pull()
        current_position = arm_indices.index(current) if current in arm_indices else None
        if policy.hold is not None and len(arm_indices) == len(self.arms):
            stored_state = self._load_state()
        choice = pending.look(
            policy,
            config.params,
            arms,
            stage,
            config.unit,
            rng,
            current_position,
            stored_state,
            config.silence,
            shows,
        )
        return arm_indices[choice]

    def _find_current_pull(self) -> int | None:
        """Return the index of the arm whose pull in the current stage is pending, or None."""
        if not any(arm.n_pending for arm in self.arms):
            return None
        for id in reversed(self._new):
            record = self._decisions[id]
            if record.kind == "pull":
                return record.arm if record.status == "pending" else None
        if self._events:
            self._write()
        pull = queries.read_newest_pending_pull(self.database, self.number)
        return pull[0] if pull is not None and pull[1] == self.n_asks else None

    def _check_turn(self, kind: str) -> None:
        """Raise ValueError if a decision of this kind is pending."""
        if any(arm.n_pending if kind == "pull" else arm.looks_pending for arm in self.arms):
            raise ValueError(
                f"{self.config.policy.name} needs the report of each {kind} before the next one; "
                f"tell or forget the pending {kind} first"
            )

    # ------------------------------------------------------------------------------- decisions

    def prefetch(self, operations: Sequence[Operation | Exception]) -> None:
        """Read all decisions that the operations need, in a few SQL statements."""
        ids: set[int] = set()
        keys: set[str] = set()
        pulls: set[int] = set()  # to be read with the decisions that they showed
        for operation in operations:
            if isinstance(operation, Exception):
                continue
            name, values = operation
            if name in ("tell", "forget", "correct"):
                ids.add(values[0])
            elif name == "tell_key":
                keys.add(values[0])
            elif name in ("ask", "look", "observe", "observe_line"):
                operation_keys = {
                    "ask": values[0],
                    "look": values[:1],
                    "observe": values[2:3],
                    "observe_line": values[3:4],
                }[name]
                keys.update(key for key in operation_keys if key is not None)
                if name == "observe" and values[3] is not None:
                    pulls.add(values[3])
        self._read("id", sorted((ids | pulls) - self._decisions.keys()))
        self._shows.update({id: {} for id in pulls})
        self._read("shown_by", sorted(pulls))
        self._read("key", sorted(keys - self._keys.keys()))

    def _read(self, column: str, values: Sequence[Any]) -> None:
        if column == "key":
            self._keys.update(dict.fromkeys(values))
        for id, read in queries.read_decisions(self.database, self.number, column, values):
            record = self._decisions.setdefault(id, read)
            if record.key is not None:
                self._keys[record.key] = id
            if column == "shown_by" and record.shown_by is not None:
                self._shows[record.shown_by][record.arm] = id

    def _read_decision(self, id: int) -> DecisionRecord:
        """Return the decision with this id; raise UnknownDecision if it does not exist."""
        if id not in self._decisions and id <= self.n_decisions:
            self._read("id", [id])
        if id not in self._decisions:
            reason = (
                "was removed by a compaction" if 1 <= id <= self.n_decisions else "does not exist"
            )
            raise UnknownDecision(f"decision {id} of agent {self.config.name!r} {reason}")
        return self._decisions[id]

    def _find_key(self, kind: str, key: str | None) -> int | None:
        """Return the id of the decision with this key, or None if there is no such decision.

        Raise Conflict if the decision is not of the given kind.
        """
        if key is None:
            return None
        if key not in self._keys:
            self._read("key", [key])
        id = self._keys[key]
        if id is None:
            return None
        record = self._decisions[id]
        # A decision of the bucket answers an ask, even if it counts as a look.
        old = record.kind if record.bucket is None else "pull"
        if old != kind:
            raise Conflict(
                f"key {key!r} belongs to decision {id} of kind {old!r} and cannot be used for "
                f"{kind!r}; use a new key"
            )
        return id

    def _find_decision(self, kind: str, key: str | None) -> Decision | None:
        """Return the decision that was already made for this key, or None."""
        if (id := self._find_key(kind, key)) is None:
            return None
        return self._to_decision(id, self._decisions[id])

    def _to_decision(self, id: int, record: DecisionRecord) -> Decision:
        """Return a decision as the answer to a request."""
        return Decision(
            id,
            record.kind,
            self.arms[record.arm].name,
            record.key,
            record.asked_at,
            record.probability,
            record.bucket is not None,
        )

    def _insert(self, record: DecisionRecord) -> int:
        """Add a decision; return its id."""
        self.n_decisions += 1
        self._decisions[self.n_decisions] = record
        self._new.append(self.n_decisions)
        if record.key is not None:
            self._keys[record.key] = self.n_decisions
        self.arms[record.arm].count_decision(record.kind, self.config.silence)
        return self.n_decisions

    def _apply(self, id: int, record: DecisionRecord, kind: str, reward: float | None) -> None:
        """Apply a told, corrected, forgotten or silent event to a decision; append it to the log."""
        old_reward = record.reward
        silence, is_settled = self.config.silence, id <= self.n_settled
        arm, monitor = self.arms[record.arm], self.config.monitor
        arm.apply(record, kind, reward, silence, is_settled, monitor)
        self._append(kind, id, record.arm, reward, None)
        self._changed.add(id)
        if self.config.in_order or (old_reward is None and reward is not None):
            self._learn(id, record, reward, old_reward)
        elif reward is not None and self.config.in_turn:
            self._replay()
        elif reward is not None and self.config.stores_state:
            total = self.arms[record.arm].total
            state = policy_state.correct(self.config, self._load_state(), record.arm, total)
            self.state = policy_state.to_json(state)

    # ----------------------------------------------------------------------------- policy state

    @property
    def state(self) -> str | None:
        """The stored state of the policy as JSON; None if no state is stored.

        Rewards change the state in memory. This property converts it to JSON.
        """
        if self._learned is not None:
            self.state = policy_state.to_json(self._learned)
        return self._state

    @state.setter
    def state(self, text: str | None) -> None:
        self._state, self._learned = text, None

    def _load_state(self) -> Any:
        empty = policy_state.init(self.config, len(self.arms))
        if policy_state.is_outdated(self.state, empty):
            self._replay()
        return empty if self.state is None else policy_state.from_json(self.state, empty)

    def _learn(
        self, id: int, record: DecisionRecord, reward: float | None, old_reward: float | None = None
    ) -> None:
        """Update the stored state of the policy with a reward, whose event is already appended.

        `reward` is None if the decision was forgotten; `old_reward` is its reward before the event.
        Do nothing if the state of the policy follows from the counts and is not stored.
        """
        if not self.config.stores_state:
            return
        if self._learned is None:
            empty = policy_state.init(self.config, len(self.arms))
            if policy_state.is_outdated(self.state, empty):
                self._replay()  # the log already contains the reward
                return
            self._learned = self._load_state()
        if self.config.in_order:
            self._learned = policy_state.learn_in_order(
                self.config, self._learned, id, record, old_reward, self._find_reported
            )
        elif reward is not None:
            self._learned = policy_state.update(self.config, self._learned, record, reward)

    def _find_reported(self, id: int) -> DecisionRecord | None:
        """Return the decision with this id, or None if it is pending or does not exist."""
        if id not in self._decisions and id <= self.n_decisions:
            self._read("id", range(id, min(id + PAGE_SIZE, self.n_decisions + 1)))
        record = self._decisions.get(id)
        return None if record is None or record.status == "pending" else record

    def _replay(self) -> None:
        """Rebuild the stored state of the policy from the log."""
        self._write()
        projection = queries.replay_log(
            self.database, self.number, self.config.patience, self.config.silence
        )
        self.state = policy_state.replay(self.config, projection)

    # --------------------------------------------------------------------------------- writing

    def _append(
        self,
        kind: str,
        id: int | None,
        arm_index: int | None,
        reward: float | None,
        key: str | None,
        probability: float | None = None,
        bucket: str | None = None,
        shown_by: int | None = None,
    ) -> None:
        """Append an event to the log and mark its arm as changed."""
        self.n_events += 1
        if arm_index is not None:
            self._touched.add(arm_index)
        event = (self.n_events, self.at, kind, id, arm_index, reward, key, probability, bucket)
        self._events.append((self.number, *event, shown_by))

    def _write(self) -> None:
        """Write new decisions, changed decisions and new events to the database."""
        new = {id: self._decisions[id] for id in self._new}
        changed = {id: self._decisions[id] for id in self._changed.difference(self._new)}
        queries.write_decisions(self.database, self.number, new, changed)
        queries.append_events(self.database, self._events)
        self._new, self._changed, self._events = [], set(), []

    def _check_clock(self, now: float, latest: float) -> float:
        """Return the present time: `now`, or the server's time if this machine's clock is behind.

        If `now` is long before the last event, either this machine's clock is wrong, or the clock
        that timed the last event was wrong. The clock of the database server decides between these
        cases. Without a server, `now` is used.
        """
        earliest = latest - CLOCK_TOLERANCE
        if now >= earliest:
            return now
        server_time = queries.read_server_time(self.database)
        if server_time is None or server_time < earliest:
            return now
        warnings.warn(
            f"the clock of this machine is more than {CLOCK_TOLERANCE:.0f} s behind the clock of the "
            f"database server; agent {self.config.name!r} uses the server's time. Correct the clock "
            "of this machine",
            RuntimeWarning,
            stacklevel=2,
        )
        return server_time

    def _set_back(self) -> None:
        """Correct the times of decisions that a wrong clock has put into the future, and warn."""
        queries.set_back_decisions(self.database, self.number, self.at)
        warnings.warn(
            f"the last event of agent {self.config.name!r} is {self._latest - self.at:.0f} s in the "
            "future, so a clock was wrong; the agent goes on with the present time. Check the clocks "
            "of all machines that use the agent",
            RuntimeWarning,
            stacklevel=2,
        )

    def finish(self) -> None:
        """Write all changes of this transaction to the database."""
        if self.n_events == self._before:
            return
        self._write()
        if self.at < self._latest:
            self._set_back()
        arms = {arm_index: self.arms[arm_index] for arm_index in self._touched}
        queries.update_arms(self.database, self.number, arms)
        queries.insert_alarms(self.database, self.number, self._alarms)
        counts = (self.number, self.n_events, self.n_decisions, self.n_asks, self.at, self.state)
        row = queries.AgentRow(*counts, self.n_settled, self._declared)
        queries.update_agent(self.database, row)


def _read_state(rng: Generator) -> bytes:
    """Return the state of a generator, which changes with each random number."""
    state: bytes = rng.bit_generator.state["state"]["state"].tobytes()
    return state
