"""All SQL statements of agents and the service. Each function runs in the caller's transaction."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from kibitz._errors import UnknownAgent
from kibitz._validation import short_repr
from kibitz.live.events import Arm, DecisionRecord, Event
from kibitz.live.store.schema import Database, Row

PAGE_SIZE = 5_000  # events or decisions read at once
MAX_VALUES = 512  # values in one `in (...)`
ARM_COLUMNS = ", ".join(Arm.__slots__)
DECISION_COLUMNS = ", ".join(DecisionRecord.__slots__)
SET_ARM = ", ".join(f"{name} = ?" for name in Arm.__slots__)
arm_values = attrgetter(*Arm.__slots__)
record_values = attrgetter(*DecisionRecord.__slots__)

# --------------------------------------------------------------------------------------- agents


class AgentRow(NamedTuple):
    """The row of an agent: its number in the store, its counters and its policy's state."""

    number: int
    n_events: int
    n_decisions: int
    n_asks: int
    latest: float
    state: str | None


def read_agent(database: Database, name: str, *, lock: bool = False) -> AgentRow:
    """Return the row of an agent; with `lock`, lock the row until the transaction ends."""
    statement = (
        "select agent, n_events, n_decisions, n_asks, latest, state from agents where name = ?"
    )
    rows = database.rows(statement + (database.locking if lock else ""), name)
    if not rows:
        raise unknown_agent(database, name)
    return AgentRow(*rows[0])


def read_config(database: Database, name: str) -> str:
    """Return the configuration of an agent as JSON."""
    rows = database.rows("select config from agents where name = ?", name)
    if not rows:
        raise unknown_agent(database, name)
    return str(rows[0][0])


def read_names(database: Database) -> list[str]:
    """Return the names of all agents."""
    return [name for (name,) in database.rows("select name from agents order by name")]


def unknown_agent(database: Database, name: str) -> UnknownAgent:
    """Return the error for the name of an agent that does not exist."""
    known = ", ".join(map(short_repr, read_names(database)))
    hint = f"the store has {known}" if known else "the store has no agents"
    return UnknownAgent(f"agent {name!r} does not exist; {hint}")


def insert_agent(database: Database, name: str, config: str, arms: Sequence[str], at: float) -> bool:
    """Create an agent and return True; return False if the name is taken."""
    if database.rows("select agent from agents where name = ?", name):
        return False
    [(number,)] = database.rows("select coalesce(max(agent), 0) + 1 from agents")
    database.many(
        "insert into agents (agent, name, config, n_events, n_decisions, n_asks, latest) "
        "values (?, ?, ?, ?, 0, 0, ?)",
        [(number, name, config, len(arms), at)],
    )
    for place, arm in enumerate(arms):
        insert_arm(database, number, place, arm)
    append_events(
        database,
        [(number, place + 1, at, "added", None, place, None, None) for place in range(len(arms))],
    )
    return True


def update_agent(database: Database, row: AgentRow) -> None:
    """Update the counters and the policy state of an agent."""
    database.many(
        "update agents set n_events = ?, n_decisions = ?, n_asks = ?, latest = ?, state = ? "
        "where agent = ?",
        [(*row[1:], row.number)],
    )


# ----------------------------------------------------------------------------- arms and events


def read_arms(database: Database, number: int) -> list[Arm]:
    """Return the arms of an agent in the order in which they were added."""
    rows = database.rows(f"select {ARM_COLUMNS} from arms where agent = ? order by arm", number)
    return [Arm(*row) for row in rows]


def read_arms_of(database: Database, name: str) -> list[Arm]:
    """Return the arms of the agent with this name, in the order in which they were added."""
    return read_arms(database, read_agent(database, name).number)


def insert_arm(database: Database, number: int, place: int, name: str) -> None:
    """Insert an active arm at index `place` of the arms of an agent."""
    database.many(
        "insert into arms (agent, arm, name, status) values (?, ?, ?, 'active')",
        [(number, place, name)],
    )


def update_arms(database: Database, number: int, arms: dict[int, Arm]) -> None:
    """Update the rows of arms, which are given by their index."""
    database.many(
        f"update arms set {SET_ARM} where agent = ? and arm = ?",
        [(*arm_values(arms[place]), number, place) for place in sorted(arms)],
    )


def read_events(database: Database, number: int, after: int, limit: int = 0) -> list[Event]:
    """Return up to `limit` events (default: one page) with numbers greater than `after`."""
    statement = (
        "select e.seq, e.at, e.kind, e.id, a.name, e.reward, e.key from events e "
        "join arms a on a.agent = e.agent and a.arm = e.arm "
        "where e.agent = ? and e.seq > ? order by e.seq limit ?"
    )
    return [Event(*row) for row in database.rows(statement, number, after, limit or PAGE_SIZE)]


def read_page(database: Database, name: str, after: int, limit: int = 0) -> list[Event]:
    """Return the events that `read_events` returns, for the agent with this name."""
    return read_events(database, read_agent(database, name).number, after, limit)


def read_log(database: Database, number: int) -> Iterator[Event]:
    """Yield all events of an agent."""
    seq = 0
    while page := read_events(database, number, seq):
        yield from page
        seq = page[-1].seq


def append_events(database: Database, events: Sequence[Row]) -> None:
    """Append events, given as (agent, seq, at, kind, id, arm, reward, key), to the log."""
    database.many(
        "insert into events (agent, seq, at, kind, id, arm, reward, key) "
        "values (?, ?, ?, ?, ?, ?, ?, ?)",
        events,
    )


# ------------------------------------------------------------------------------------ decisions


def read_decisions(
    database: Database, number: int, column: str, values: Sequence[Any]
) -> Iterator[tuple[int, DecisionRecord]]:
    """Yield the decisions whose `column` ("id" or "key") has one of the values."""
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


def read_overdue(database: Database, number: int, before: float) -> list[tuple[int, DecisionRecord]]:
    """Return the pending decisions that were made at time `before` or earlier."""
    where = "status = 'pending' and asked_at <= ? order by id"
    return _select_decisions(database, where, number, before)


def _select_decisions(
    database: Database, where: str, *values: Any
) -> list[tuple[int, DecisionRecord]]:
    statement = f"select id, {DECISION_COLUMNS} from decisions where agent = ? and {where}"
    return [(id, DecisionRecord(*rest)) for id, *rest in database.rows(statement, *values)]


def read_newest_pending_pull(database: Database, number: int) -> tuple[int, int] | None:
    """Return the arm and the stage of the newest pending pull, or None if no pull is pending."""
    where = "agent = ? and status = 'pending' and kind = 'pull' order by id desc limit 1"
    rows = database.rows(f"select arm, stage from decisions where {where}", number)
    return (rows[0][0], rows[0][1]) if rows else None


def write_decisions(
    database: Database,
    number: int,
    new: dict[int, DecisionRecord],
    changed: dict[int, DecisionRecord],
) -> None:
    """Insert new decisions and update changed decisions; both are given by id."""
    database.many(
        f"insert into decisions (agent, id, {DECISION_COLUMNS}) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(number, id, *record_values(record)) for id, record in new.items()],
    )
    database.many(
        "update decisions set status = ?, told = ?, reward = ? where agent = ? and id = ?",
        [(r.status, r.told, r.reward, number, id) for id, r in sorted(changed.items())],
    )


# ---------------------------------------------------------------------- reports and the dashboard


def read_oldest_pending(database: Database, number: int) -> dict[int, float]:
    """Return the time of the oldest pending decision of each arm, by the index of the arm."""
    where = "agent = ? and status = 'pending' group by arm"
    return dict(database.rows(f"select arm, min(asked_at) from decisions where {where}", number))


def read_last_look(database: Database, number: int) -> int:
    """Return the stage of the last look or unrequested observation; 0 if there is none.

    Call this function only if the agent has a look: without a look, the query scans all decisions of
    the agent.
    """
    where = "agent = ? and kind <> 'pull' order by id desc limit 1"
    rows = database.rows(f"select stage from decisions where {where}", number)
    return int(rows[0][0]) if rows else 0


def count_pulls(database: Database, number: int, width: int, after: int, last: int) -> list[Row]:
    """Count the pulls among decisions `after` + 1 to `last`, by arm and interval of `width` stages.

    Return rows (arm, interval, pulls, earliest time).
    """
    statement = (
        "select arm, (stage - 1) / ?, count(*), min(asked_at) from decisions "
        "where agent = ? and id > ? and id <= ? and kind = 'pull' group by 1, 2"
    )
    return database.rows(statement, width, number, after, last)


def count_events(database: Database) -> dict[str, int]:
    """Return the number of events of each agent, by name."""
    return dict(database.rows("select name, n_events from agents"))


def read_overview(database: Database) -> list[Row]:
    """Return rows (name, config, asks, latest, arms, looks, pending), one for each agent."""
    return database.rows(
        "select a.name, a.config, a.n_asks, a.latest, count(*), sum(r.n_looks), "
        "sum(r.n_pending + r.looks_pending) from agents a join arms r on r.agent = a.agent "
        "group by a.name, a.config, a.n_asks, a.latest order by a.name"
    )


# --------------------------------------------------------------------------------------- tokens


def insert_token(database: Database, hash: str, role: str, agent: str | None, at: float) -> int:
    """Add a token; return its number."""
    [(number,)] = database.rows("select coalesce(max(token), 0) + 1 from tokens")
    statement = "insert into tokens (token, hash, role, agent, created_at) values (?, ?, ?, ?, ?)"
    database.many(statement, [(number, hash, role, agent, at)])
    return int(number)


def read_tokens(database: Database) -> list[Row]:
    """Return rows (number, hash, role, agent, created_at, revoked_at), one for each token."""
    return database.rows(
        "select token, hash, role, agent, created_at, revoked_at from tokens order by token"
    )


def revoke_token(database: Database, number: int, at: float) -> bool | None:
    """Revoke a token and return True; False if it was already revoked, None if it does not exist."""
    rows = database.rows("select revoked_at from tokens where token = ?", number)
    if not rows:
        return None
    if rows[0][0] is not None:
        return False
    database.rows("update tokens set revoked_at = ? where token = ?", at, number)
    return True
