"""All SQL statements of agents and the service. Each function runs in the caller's transaction."""

import json
from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import Any, NamedTuple

from kibitz._errors import UnknownAgent
from kibitz._validation import short_repr
from kibitz.live.events import (
    DECISION_KINDS,
    REPORT_KINDS,
    Arm,
    DecisionRecord,
    Event,
    Projection,
    checkpoint_from_json,
    checkpoint_to_json,
    event_time,
    has_settled,
    project,
    settle_decision,
)
from kibitz.live.monitor import Alarm, Monitor
from kibitz.live.store.schema import Database, Row

PAGE_SIZE = 5_000  # events or decisions read at once
AGENT_TABLES = (  # tables with rows of an agent
    "events",
    "decisions",
    "arms",
    "alarms",
    "checkpoints",
    "agents",
)
MAX_VALUES = 512  # values in one `in (...)`
ARM_COLUMNS = ", ".join(Arm.__slots__)
ALARM_COLUMNS = ", ".join(Alarm._fields)
DECISION_COLUMNS = ", ".join(DecisionRecord.__slots__)
SET_ARM = ", ".join(f"{name} = ?" for name in Arm.__slots__)
IS_LOOK = "kind in ('look', 'observe')"
IS_ABOUT_DECISION = f"kind in {DECISION_KINDS + REPORT_KINDS}"
JSON_COLUMNS = ("remainders", "bucket_counts", "scan")  # the last columns of an arm
arm_numbers = attrgetter(*Arm.__slots__[: -len(JSON_COLUMNS)])
json_values = attrgetter(*JSON_COLUMNS)
record_values = attrgetter(*DecisionRecord.__slots__)

# --------------------------------------------------------------------------------------- agents


class AgentRow(NamedTuple):
    """The row of an agent: its number in the store, its counters and its policy's state.

    Decisions 1 to `n_settled` are older than the patience, if the agent counts silence as a reward or
    has a monitor; otherwise, `n_settled` is 0. `rewards` is the kind of rewards that was declared
    after the agent was created, or None.
    """

    number: int
    n_events: int
    n_decisions: int
    n_asks: int
    latest: float
    state: str | None
    n_settled: int
    rewards: str | None


def read_agent(
    database: Database, name: str, *, config: str | None = None, lock: bool = False
) -> AgentRow:
    """Return the row of an agent; with `lock`, lock the row until the transaction ends.

    With `config`, raise UnknownAgent if the agent with this configuration was deleted and another
    agent with its name was created.
    """
    statement = (
        "select agent, n_events, n_decisions, n_asks, latest, state, n_settled, rewards "
        f"from agents where name = ?{'' if config is None else ' and config = ?'}"
    )
    values = (name,) if config is None else (name, config)
    rows = database.execute(statement + (database.locking if lock else ""), *values)
    if not rows and name in read_names(database):
        raise UnknownAgent(f"agent {name!r} was deleted and created again; open it again")
    if not rows:
        raise unknown_agent(database, name)
    return AgentRow(*rows[0])


def read_config(database: Database, name: str) -> tuple[str, str | None]:
    """Return the configuration of an agent as JSON, and the declared kind of rewards or None."""
    rows = database.execute("select config, rewards from agents where name = ?", name)
    if not rows:
        raise unknown_agent(database, name)
    return rows[0][0], rows[0][1]


def read_names(database: Database) -> list[str]:
    """Return the names of all agents."""
    return [name for (name,) in database.execute("select name from agents order by name")]


def read_names_after(database: Database, after: str, limit: int, only: str | None) -> list[str]:
    """Return up to `limit` names of agents that come after the name `after` in alphabetical order.

    With `only`, return at most the name `only`.
    """
    condition, values = ("", ()) if only is None else (" and name = ?", (only,))
    rows = database.execute(
        f"select name from agents where name > ?{condition} order by name limit ?",
        after,
        *values,
        limit,
    )
    return [name for (name,) in rows]


def delete_agent(database: Database, name: str, at: float) -> None:
    """Delete an agent with its log, and revoke the tokens that are limited to it."""
    agent = read_agent(database, name, lock=True)
    for table in AGENT_TABLES:
        database.execute(f"delete from {table} where agent = ?", agent.number)
    database.execute("update kibitz set n_deleted_events = n_deleted_events + ?", agent.n_events)
    database.execute(
        "update tokens set revoked_at = ? where agent = ? and revoked_at is null", at, name
    )


def unknown_agent(database: Database, name: str) -> UnknownAgent:
    """Return the error for the name of an agent that does not exist."""
    agent_names = ", ".join(map(short_repr, read_names(database)))
    hint = f"the store has {agent_names}" if agent_names else "the store has no agents"
    return UnknownAgent(f"agent {name!r} does not exist; {hint}")


def insert_agent(database: Database, name: str, config: str, arms: Sequence[str], at: float) -> bool:
    """Create an agent and return True; return False if the name is taken."""
    select = "select agent from agents where name = ?"
    if database.execute(select, name):
        return False
    lock_numbers(database)
    if database.execute(select, name):  # created while this transaction waited for the lock
        return False
    [(number,)] = database.execute("select coalesce(max(agent), 0) + 1 from agents")
    database.execute_many(
        "insert into agents (agent, name, config, n_events, n_decisions, n_asks, latest) "
        "values (?, ?, ?, ?, 0, 0, ?)",
        [(number, name, config, len(arms), at)],
    )
    for arm_index, arm in enumerate(arms):
        insert_arm(database, number, arm_index, arm)
    append_events(
        database,
        [
            (number, arm_index + 1, at, "added", None, arm_index, None, None, None, None, None)
            for arm_index in range(len(arms))
        ],
    )
    return True


def lock_numbers(database: Database) -> None:
    """Lock the numbering of new agents and tokens until this transaction ends."""
    database.execute(f"select version from kibitz{database.locking}")


def update_agent(database: Database, row: AgentRow) -> None:
    """Update the counters and the policy state of an agent."""
    database.execute_many(
        "update agents set n_events = ?, n_decisions = ?, n_asks = ?, latest = ?, state = ?, "
        "n_settled = ?, rewards = ? where agent = ?",
        [(*row[1:], row.number)],
    )


# ----------------------------------------------------------------------------- arms and events


def read_arms(database: Database, number: int) -> list[Arm]:
    """Return the arms of an agent in the order in which they were added."""
    rows = database.execute(f"select {ARM_COLUMNS} from arms where agent = ? order by arm", number)
    n_plain = len(Arm.__slots__) - len(JSON_COLUMNS)
    return [Arm(*row[:n_plain], *map(json.loads, row[n_plain:])) for row in rows]


def read_server_time(database: Database) -> float | None:
    """Return the time of the database server; None for SQLite, which has no server."""
    return float(database.execute(database.clock)[0][0]) if database.clock else None


def read_arms_at(
    database: Database,
    row: AgentRow,
    now: float,
    patience: float | None,
    silence: float | None,
    monitor: Monitor | None = None,
) -> tuple[list[Arm], list[Alarm]]:
    """Return the arms and alarms of an agent at time `now`, without writing.

    The stored counts include the decisions that had settled at the time of the latest event. The
    decisions that have settled since then are counted here.
    """
    arms, alarms = read_arms(database, row.number), []
    if monitor is not None:
        alarms = read_alarms(database, row.number)
    if patience is not None and (silence is not None or monitor is not None):
        at = event_time(now, row.latest)
        for id, record in read_unsettled(database, row.number, row.n_settled, at, patience):
            alarms += settle_decision(arms, id, record, silence, monitor)
    return arms, alarms


def arm_values(arm: Arm) -> Row:
    """Return the values of the columns `ARM_COLUMNS`."""
    return (*arm_numbers(arm), *(json.dumps(column, sort_keys=True) for column in json_values(arm)))


def insert_arm(database: Database, number: int, arm_index: int, name: str) -> None:
    """Insert an active arm at index `arm_index` of the arms of an agent."""
    database.execute_many(
        "insert into arms (agent, arm, name, status) values (?, ?, ?, 'active')",
        [(number, arm_index, name)],
    )


def update_arms(database: Database, number: int, arms: dict[int, Arm]) -> None:
    """Update the rows of arms; `arms` maps indices to arms."""
    database.execute_many(
        f"update arms set {SET_ARM} where agent = ? and arm = ?",
        [(*arm_values(arms[arm_index]), number, arm_index) for arm_index in sorted(arms)],
    )


def read_events(database: Database, number: int, after: int, limit: int = 0) -> list[Event]:
    """Return up to `limit` events (default: one page) with numbers greater than `after`."""
    statement = (
        "select e.seq, e.at, e.kind, e.id, a.name, e.reward, e.key, e.probability, e.bucket, "
        "e.shown_by from events e "
        "left join arms a on a.agent = e.agent and a.arm = e.arm "
        "where e.agent = ? and e.seq > ? order by e.seq limit ?"
    )
    return [Event(*row) for row in database.execute(statement, number, after, limit or PAGE_SIZE)]


def read_page(database: Database, name: str, config: str, after: int, limit: int = 0) -> list[Event]:
    """Return up to `limit` events of the agent with this name (default: one page) after `after`.

    Raise UnknownAgent if the agent with the configuration `config` was deleted.
    """
    return read_events(database, read_agent(database, name, config=config).number, after, limit)


def read_log(database: Database, number: int) -> Iterator[Event]:
    """Yield all events of an agent."""
    seq = 0
    while page := read_events(database, number, seq):
        yield from page
        seq = page[-1].seq


def read_checkpoint(database: Database, number: int) -> Projection | None:
    """Return the projection with which a compacted log begins; None if the log is complete."""
    rows = database.execute("select content from checkpoints where agent = ?", number)
    return checkpoint_from_json(rows[0][0]) if rows else None


def replay_log(
    database: Database,
    number: int,
    patience: float | None,
    silence: float | None,
    last: int | None = None,
    monitor: Monitor | None = None,
) -> Projection:
    """Return the projection of the log of an agent, or of its events up to number `last`.

    Raise ValueError if the log is inconsistent.
    """
    log = takewhile(lambda event: last is None or event.seq <= last, read_log(database, number))
    return project(log, patience, silence, read_checkpoint(database, number), monitor)


def find_last_before(database: Database, number: int, before: float) -> int:
    """Return the number of the last event about a decision before time `before`; 0 if there is none.

    Events after the first event at time `before` or later are ignored.
    """
    first = "select min(seq) from events where agent = ? and at >= ?"
    statement = f"select max(seq) from events where agent = ? and seq < coalesce(({first}), ?)"
    values = (number, number, before, 2**62)
    [(seq,)] = database.execute(f"{statement} and {IS_ABOUT_DECISION}", *values)
    return int(seq or 0)


def read_used_ids(database: Database, number: int, after: int) -> set[int]:
    """Return the ids of the decisions in the events after `after`, and the id of the last look."""
    rows = database.execute(
        "select distinct id from events where agent = ? and seq > ? and id is not null", number, after
    )
    rows += database.execute(f"select max(id) from decisions where agent = ? and {IS_LOOK}", number)
    return {id for (id,) in rows if id is not None}


def replace_events(database: Database, number: int, last: Projection, content: str) -> None:
    """Replace the events up to the last event of a projection by a checkpoint.

    `content` is the projection as JSON. Changes of arms stay in the log. The decisions that the
    projection no longer contains are deleted.
    """
    seq = last.n_events
    is_replaced = f"(kind = 'checkpoint' or {IS_ABOUT_DECISION})"
    database.execute(
        f"delete from events where agent = ? and seq <= ? and {is_replaced}", number, seq
    )
    append_events(
        database, [(number, seq, last.latest, "checkpoint", None, None, None, None, None, None, None)]
    )
    database.execute("delete from checkpoints where agent = ?", number)
    database.execute_many(
        "insert into checkpoints (agent, seq, content) values (?, ?, ?)", [(number, seq, content)]
    )
    start = 0
    for id in [*last.decisions, last.n_decisions + 1]:  # delete the decisions between kept decisions
        if id > start + 1:
            database.execute(
                "delete from decisions where agent = ? and id > ? and id < ?", number, start, id
            )
        start = id
    request_purge(database)


def erase_keys(database: Database, number: int, ids: Sequence[int]) -> None:
    """Remove the keys of decisions from all tables, and record that the store must be purged."""
    for start in range(0, len(ids), MAX_VALUES):  # each statement scans the log
        chunk = ids[start : start + MAX_VALUES]
        where = f"where agent = ? and id in ({', '.join('?' * len(chunk))})"
        for table in ("decisions", "events"):
            database.execute(f"update {table} set key = null {where}", number, *chunk)
    checkpoint = read_checkpoint(database, number)
    if checkpoint is not None:
        for id in checkpoint.decisions.keys() & {*ids}:
            checkpoint.decisions[id].key = None
        content = checkpoint_to_json(checkpoint)
        database.execute("update checkpoints set content = ? where agent = ?", content, number)
    request_purge(database)


def request_purge(database: Database) -> None:
    """Record that deleted data may still be in the files of the store."""
    database.execute("update kibitz set needs_purge = 1")


def needs_purge(database: Database) -> bool:
    """Return whether deleted data may still be in the files of the store."""
    return database.execute("select needs_purge from kibitz") == [(1,)]


def finish_purge(database: Database) -> None:
    """Record that no deleted data is left in the files of the store."""
    database.execute("update kibitz set needs_purge = 0")


def append_events(database: Database, events: Sequence[Row]) -> None:
    """Append events to the log; each row begins with the number of the agent."""
    database.execute_many(
        "insert into events (agent, seq, at, kind, id, arm, reward, key, probability, bucket, "
        "shown_by) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        events,
    )


# ------------------------------------------------------------------------------------ decisions


def read_decisions(
    database: Database, number: int, column: str, values: Sequence[Any]
) -> Iterator[tuple[int, DecisionRecord]]:
    """Yield the decisions whose `column` ("id", "key" or "shown_by") has one of the values."""
    for start in range(0, len(values), MAX_VALUES):
        chunk = list(values[start : start + MAX_VALUES])
        # Pad to a power of two, so the database prepares few different statements.
        chunk += chunk[-1:] * (2 ** (len(chunk) - 1).bit_length() - len(chunk))
        where = f"{column} in ({', '.join('?' * len(chunk))})"
        yield from _select_decisions(database, where, number, *chunk)


def read_decisions_after(
    database: Database, number: int, id: int
) -> list[tuple[int, DecisionRecord]]:
    """Return a page of decisions with ids greater than `id`."""
    return _select_decisions(database, f"id > ? order by id limit {PAGE_SIZE}", number, id)


def read_overdue(
    database: Database, number: int, before: float
) -> Iterator[tuple[int, DecisionRecord]]:
    """Yield the pending decisions that were made at time `before` or earlier."""
    for id, record in _scan_decisions(database, number, 0, "and status = 'pending'"):
        if record.asked_at > before:
            return
        yield id, record


def read_unsettled(
    database: Database, number: int, n_settled: int, at: float, patience: float
) -> Iterator[tuple[int, DecisionRecord]]:
    """Yield the decisions after `n_settled` that are older than the patience at time `at`."""
    for id, record in _scan_decisions(database, number, n_settled):
        if not has_settled(record.asked_at, at, patience):
            return
        yield id, record


def _scan_decisions(
    database: Database, number: int, id: int, condition: str = ""
) -> Iterator[tuple[int, DecisionRecord]]:
    """Yield decisions with ids greater than `id`, in pages that begin small and grow.

    Decisions are in the order of their times. A caller that stops at a certain time therefore reads
    only few unnecessary decisions, however many there are in total.
    """
    size = 4
    while page := _select_decisions(
        database, f"id > ? {condition} order by id limit {size}", number, id
    ):
        yield from page
        if len(page) < size:
            return
        id, size = page[-1][0], min(4 * size, PAGE_SIZE)


def _select_decisions(
    database: Database, where: str, *values: Any
) -> list[tuple[int, DecisionRecord]]:
    statement = f"select id, {DECISION_COLUMNS} from decisions where agent = ? and {where}"
    return [(id, DecisionRecord(*rest)) for id, *rest in database.execute(statement, *values)]


def read_newest_pending_pull(database: Database, number: int) -> tuple[int, int] | None:
    """Return the arm and the stage of the newest pending pull, or None if no pull is pending."""
    where = "agent = ? and status = 'pending' and kind = 'pull' order by id desc limit 1"
    rows = database.execute(f"select arm, stage from decisions where {where}", number)
    return (rows[0][0], rows[0][1]) if rows else None


def find_reward_outside(database: Database, number: int, rewards: str) -> tuple[int, float] | None:
    """Return the id and reward of a decision whose reward contradicts `rewards`, or None."""
    condition = "reward not in (0, 1)" if rewards == "bernoulli" else "not reward between 0 and 1"
    rows = database.execute(
        f"select id, reward from decisions where agent = ? and {condition} order by id limit 1",
        number,
    )
    return (rows[0][0], rows[0][1]) if rows else None


def write_decisions(
    database: Database,
    number: int,
    new: dict[int, DecisionRecord],
    changed: dict[int, DecisionRecord],
) -> None:
    """Insert the `new` decisions and update the `changed` decisions; the dicts map ids to records."""
    database.execute_many(
        f"insert into decisions (agent, id, {DECISION_COLUMNS}) "
        f"values (?, ?{', ?' * len(DecisionRecord.__slots__)})",
        [(number, id, *record_values(record)) for id, record in new.items()],
    )
    database.execute_many(
        "update decisions set status = ?, told = ?, reward = ?, settled_reward = ?, place = ? "
        "where agent = ? and id = ?",
        [
            (r.status, r.told, r.reward, r.settled_reward, r.place, number, id)
            for id, r in sorted(changed.items())
        ],
    )


def set_back_decisions(database: Database, number: int, at: float) -> None:
    """Give the time `at` to all decisions with a later time."""
    database.execute(
        "update decisions set asked_at = ? where agent = ? and asked_at > ?", at, number, at
    )


# --------------------------------------------------------------------------------------- alarms


def read_alarms(database: Database, number: int) -> list[Alarm]:
    """Return the alarms of an agent in the order in which they were raised."""
    statement = f"select {ALARM_COLUMNS} from alarms where agent = ? order by at_id"
    return [Alarm(*row) for row in database.execute(statement, number)]


def insert_alarms(database: Database, number: int, alarms: Sequence[Alarm]) -> None:
    """Insert alarms of an agent."""
    values = ", ".join("?" * len(Alarm._fields))
    database.execute_many(
        f"insert into alarms (agent, {ALARM_COLUMNS}) values (?, {values})",
        [(number, *alarm) for alarm in alarms],
    )


# ---------------------------------------------------------------------- reports and the dashboard


def read_oldest_pending(database: Database, number: int) -> dict[int, float]:
    """Return the time of the oldest pending decision of each arm, by the index of the arm."""
    where = "agent = ? and status = 'pending' group by arm"
    return dict(database.execute(f"select arm, min(asked_at) from decisions where {where}", number))


def read_last_look(database: Database, number: int) -> int:
    """Return the stage of the last look or unrequested observation; 0 if there is none.

    Call this function only if the agent has a look. Otherwise, the query scans all decisions of the
    agent.
    """
    where = f"agent = ? and {IS_LOOK} order by id desc limit 1"
    rows = database.execute(f"select stage from decisions where {where}", number)
    return int(rows[0][0]) if rows else 0


def count_pulls(database: Database, number: int, width: int, after: int, last: int) -> list[Row]:
    """Count the pulls among decisions `after` + 1 to `last`, by arm and interval of `width` stages.

    Return rows (arm, interval, pulls, earliest time).
    """
    statement = (
        "select arm, (stage - 1) / ?, count(*), min(asked_at) from decisions "
        "where agent = ? and id > ? and id <= ? and kind = 'pull' group by 1, 2"
    )
    return database.execute(statement, width, number, after, last)


def sum_settled(database: Database, number: int, width: int, after: int, last: int) -> list[Row]:
    """Sum the settled rewards of decisions `after` + 1 to `last`, grouped as in `count_pulls`.

    Return rows (arm, interval, rewards, sum).
    """
    statement = (
        "select arm, (stage - 1) / ?, count(*), sum(settled_reward) from decisions "
        "where agent = ? and id > ? and id <= ? and place is not null group by 1, 2"
    )
    return database.execute(statement, width, number, after, last)


def count_events(database: Database) -> dict[str, int]:
    """Return the number of events of each agent, by name."""
    return dict(database.execute("select name, n_events from agents"))


def read_totals(database: Database) -> list[Row]:
    """Return rows (name, asks, pulls, looks, shows, pending, forgotten, events, alarms)."""
    return database.execute(
        "select a.name, a.n_asks, sum(r.n_pulls), sum(r.n_looks), sum(r.n_shows), "
        "sum(r.n_pending + r.looks_pending), sum(r.n_forgotten + r.looks_forgotten), a.n_events, "
        "(select count(*) from alarms where alarms.agent = a.agent) "
        "from agents a join arms r on r.agent = a.agent "
        "group by a.agent, a.name, a.n_asks, a.n_events order by a.name"
    )


def read_overview(database: Database) -> list[Row]:
    """Return rows (name, config, asks, latest, arms, looks, pending), one for each agent."""
    return database.execute(
        "select a.name, a.config, a.n_asks, a.latest, count(*), sum(r.n_looks), "
        "sum(r.n_pending + r.looks_pending) from agents a join arms r on r.agent = a.agent "
        "group by a.name, a.config, a.n_asks, a.latest order by a.name"
    )


# --------------------------------------------------------------------------------------- tokens


def insert_token(database: Database, hash: str, role: str, agent: str | None, at: float) -> int:
    """Add a token; return its number."""
    lock_numbers(database)
    [(number,)] = database.execute("select coalesce(max(token), 0) + 1 from tokens")
    statement = "insert into tokens (token, hash, role, agent, created_at) values (?, ?, ?, ?, ?)"
    database.execute_many(statement, [(number, hash, role, agent, at)])
    return int(number)


def read_tokens(database: Database) -> list[Row]:
    """Return rows (number, hash, role, agent, created_at, revoked_at), one for each token."""
    return database.execute(
        "select token, hash, role, agent, created_at, revoked_at from tokens order by token"
    )


def revoke_token(database: Database, number: int, at: float) -> bool | None:
    """Revoke a token and return True; False if it was already revoked, None if it does not exist."""
    rows = database.execute("select revoked_at from tokens where token = ?", number)
    if not rows:
        return None
    if rows[0][0] is not None:
        return False
    database.execute("update tokens set revoked_at = ? where token = ?", at, number)
    return True
