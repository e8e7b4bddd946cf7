"""All SQL of the agents and their service; each function runs in the caller's transaction."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from kibitz._errors import UnknownAgent
from kibitz._validation import short_repr
from kibitz.live.events import Arm, Decided, Event
from kibitz.live.store.schema import Database, Row

PAGE = 5_000  # events or decisions that are read at a time
MAX_VALUES = 512  # of one `in (...)`
ARM = ", ".join(Arm.__slots__)
DECIDED = ", ".join(Decided.__slots__)
SET_ARM = ", ".join(f"{name} = ?" for name in Arm.__slots__)
arm_values = attrgetter(*Arm.__slots__)
decided_values = attrgetter(*Decided.__slots__)

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
    """Return the row of an agent; with `lock`, nobody else changes it in this transaction."""
    statement = (
        "select agent, n_events, n_decisions, n_asks, latest, state from agents where name = ?"
    )
    rows = database.rows(statement + (database.locking if lock else ""), name)
    if not rows:
        raise unknown_agent(database, name)
    return AgentRow(*rows[0])


def read_config(database: Database, name: str) -> str:
    """Return what an agent was created with, as JSON."""
    rows = database.rows("select config from agents where name = ?", name)
    if not rows:
        raise unknown_agent(database, name)
    return str(rows[0][0])


def read_names(database: Database) -> list[str]:
    """Return the names of all agents."""
    return [name for (name,) in database.rows("select name from agents order by name")]


def unknown_agent(database: Database, name: str) -> UnknownAgent:
    """Return the error for a name that no agent has."""
    known = ", ".join(map(short_repr, read_names(database)))
    return UnknownAgent(f"agent must be one of {known or 'none'}, got {name!r}")


def insert_agent(database: Database, name: str, config: str, arms: Sequence[str], at: float) -> bool:
    """Create an agent and return True, or return False if the name is taken."""
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
    """Write the counters and the state of an agent."""
    database.many(
        "update agents set n_events = ?, n_decisions = ?, n_asks = ?, latest = ?, state = ? "
        "where agent = ?",
        [(*row[1:], row.number)],
    )


# ----------------------------------------------------------------------------- arms and events


def read_arms(database: Database, number: int) -> list[Arm]:
    """Return the arms of an agent, in the order in which they were added."""
    rows = database.rows(f"select {ARM} from arms where agent = ? order by arm", number)
    return [Arm(*row) for row in rows]


def read_arms_of(database: Database, name: str) -> list[Arm]:
    """Return the arms of an agent, by its name."""
    return read_arms(database, read_agent(database, name).number)


def insert_arm(database: Database, number: int, place: int, name: str) -> None:
    """Add an arm."""
    database.many(
        "insert into arms (agent, arm, name, status) values (?, ?, ?, 'active')",
        [(number, place, name)],
    )


def update_arms(database: Database, number: int, arms: dict[int, Arm]) -> None:
    """Write arms, by their place."""
    database.many(
        f"update arms set {SET_ARM} where agent = ? and arm = ?",
        [(*arm_values(arms[place]), number, place) for place in sorted(arms)],
    )


def read_events(database: Database, number: int, after: int, limit: int = 0) -> list[Event]:
    """Return the events that follow number `after`, at most `limit` of them (a page by default)."""
    statement = (
        "select e.seq, e.at, e.kind, e.id, a.name, e.reward, e.key from events e "
        "join arms a on a.agent = e.agent and a.arm = e.arm "
        "where e.agent = ? and e.seq > ? order by e.seq limit ?"
    )
    return [Event(*row) for row in database.rows(statement, number, after, limit or PAGE)]


def read_page(database: Database, name: str, after: int, limit: int = 0) -> list[Event]:
    """Return a page of the log of an agent, by its name."""
    return read_events(database, read_agent(database, name).number, after, limit)


def read_log(database: Database, number: int) -> Iterator[Event]:
    """Yield all events, read page by page."""
    seq = 0
    while page := read_events(database, number, seq):
        yield from page
        seq = page[-1].seq


def append_events(database: Database, events: Sequence[Row]) -> None:
    """Append (agent, seq, at, kind, id, arm, reward, key) to the log."""
    database.many(
        "insert into events (agent, seq, at, kind, id, arm, reward, key) "
        "values (?, ?, ?, ?, ?, ?, ?, ?)",
        events,
    )


# ------------------------------------------------------------------------------------ decisions


def read_decisions(
    database: Database, number: int, column: str, values: Sequence[Any]
) -> Iterator[tuple[int, Decided]]:
    """Yield the decisions with these values of `id` or `key`."""
    for start in range(0, len(values), MAX_VALUES):
        some = list(values[start : start + MAX_VALUES])
        some += some[-1:] * (2 ** (len(some) - 1).bit_length() - len(some))  # few statements
        yield from _decisions(database, f"{column} in ({', '.join('?' * len(some))})", number, *some)


def read_decisions_after(database: Database, number: int, id: int) -> list[tuple[int, Decided]]:
    """Return the next page of decisions."""
    return _decisions(database, f"id > ? order by id limit {PAGE}", number, id)


def read_overdue(database: Database, number: int, before: float) -> list[tuple[int, Decided]]:
    """Return the decisions that have been pending since `before` or longer."""
    where = "status = 'pending' and asked_at <= ? order by id"
    return _decisions(database, where, number, before)


def _decisions(database: Database, where: str, *values: Any) -> list[tuple[int, Decided]]:
    statement = f"select id, {DECIDED} from decisions where agent = ? and {where}"
    return [(id, Decided(*rest)) for id, *rest in database.rows(statement, *values)]


def read_newest_pending_pull(database: Database, number: int) -> tuple[int, int] | None:
    """Return the arm and the stage of the newest pull that is pending."""
    where = "agent = ? and status = 'pending' and kind = 'pull' order by id desc limit 1"
    rows = database.rows(f"select arm, stage from decisions where {where}", number)
    return (rows[0][0], rows[0][1]) if rows else None


def write_decisions(
    database: Database, number: int, new: dict[int, Decided], changed: dict[int, Decided]
) -> None:
    """Insert new decisions and update changed ones, by id."""
    database.many(
        f"insert into decisions (agent, id, {DECIDED}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(number, id, *decided_values(one)) for id, one in new.items()],
    )
    database.many(
        "update decisions set status = ?, told = ?, reward = ? where agent = ? and id = ?",
        [(one.status, one.told, one.reward, number, id) for id, one in sorted(changed.items())],
    )


# ---------------------------------------------------------------------- reports and the dashboard


def read_oldest_pending(database: Database, number: int) -> dict[int, float]:
    """Return since when the oldest pending decision of each arm has been pending, by place."""
    where = "agent = ? and status = 'pending' group by arm"
    return dict(database.rows(f"select arm, min(asked_at) from decisions where {where}", number))


def read_last_look(database: Database, number: int) -> int:
    """Return the stage of the last look; there must be one, or all decisions are searched."""
    where = "agent = ? and kind <> 'pull' order by id desc limit 1"
    rows = database.rows(f"select stage from decisions where {where}", number)
    return int(rows[0][0]) if rows else 0


def count_pulls(database: Database, number: int, width: int, after: int, last: int) -> list[Row]:
    """Return (arm, interval, pulls, earliest time) of decisions after .. last, by `width` stages."""
    statement = (
        "select arm, (stage - 1) / ?, count(*), min(asked_at) from decisions "
        "where agent = ? and id > ? and id <= ? and kind = 'pull' group by 1, 2"
    )
    return database.rows(statement, width, number, after, last)


def count_events(database: Database) -> dict[str, int]:
    """Return the number of events of each agent, by name."""
    return dict(database.rows("select name, n_events from agents"))


def read_overview(database: Database) -> list[Row]:
    """Return (name, config, asks, latest, arms, looks, pending) of each agent."""
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
    """Return (number, hash, role, agent, created_at, revoked_at) of each token."""
    return database.rows(
        "select token, hash, role, agent, created_at, revoked_at from tokens order by token"
    )


def revoke_token(database: Database, number: int, at: float) -> bool | None:
    """Revoke a token; return False if it was revoked before, None if there is none."""
    rows = database.rows("select revoked_at from tokens where token = ?", number)
    if not rows:
        return None
    if rows[0][0] is not None:
        return False
    database.rows("update tokens set revoked_at = ? where token = ?", at, number)
    return True
