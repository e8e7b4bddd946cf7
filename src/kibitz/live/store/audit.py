"""Compare a store with its log, and read what is left of a damaged file."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

from kibitz.live.events import Projection, differences
from kibitz.live.store.queries import PAGE, AgentRow, read_arms, read_decisions_after
from kibitz.live.store.schema import Database, Store

MAX_DIFFERENCES = 20  # that are reported


def compare(database: Database, row: AgentRow, replayed: Projection, state: str | None) -> list[str]:
    """Return, in sentences, where the stored projection of an agent differs from the replayed one.

    `state` is the state of the policy after the replay.
    """
    pairs: dict[str, tuple[Any, Any]] = {
        "number of events": (row.n_events, replayed.n_events),
        "number of decisions": (row.n_decisions, len(replayed.decisions)),
        "number of asks": (row.n_asks, replayed.n_asks),
        "time of the latest event": (row.latest, replayed.latest),
        "state of the policy": (row.state, state),
    }
    wrong = [
        f"{what} is {old!r}, by the log {new!r}" for what, (old, new) in pairs.items() if old != new
    ]
    arms = read_arms(database, row.number)
    if len(arms) != len(replayed.arms):
        wrong.append(f"number of arms is {len(arms)}, by the log {len(replayed.arms)}")
    for arm, new in zip(arms, replayed.arms, strict=False):
        wrong += differences(arm, new, f"arm {new.name!r}")
    last = 0
    while len(wrong) < MAX_DIFFERENCES and (page := read_decisions_after(database, row.number, last)):
        for id, decided in page:
            if id != last + 1 or id > len(replayed.decisions):
                return [*wrong, f"decision {last + 1} must follow, got {id}"]
            wrong += differences(decided, replayed.decisions[id - 1], f"decision {id}")
            last = id
    if len(wrong) < MAX_DIFFERENCES and last != len(replayed.decisions):
        wrong.append(f"decisions are {last}, by the log {len(replayed.decisions)}")
    return wrong[:MAX_DIFFERENCES]


def check_file(store: Store) -> list[str]:
    """Return what SQLite finds wrong with its file."""
    damage = store.read(lambda database: database.rows("pragma integrity_check(5)"))
    if damage == [("ok",)]:
        return []
    return [f"damaged: {' '.join(str(line).split())}" for (line,) in damage]


def readable_events(path: Path) -> dict[str, int]:
    """Return the last event of each agent's log that can be read in a damaged file."""
    found: dict[str, int] = {}
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_salvage(path)) as connection:
        agents = connection.execute("select agent, name from agents").fetchall()
        for number, name in agents:
            found[name] = _last_readable(path, number)
    return found


def _salvage(path: Path) -> sqlite3.Connection:
    """Return a connection that reads as much as it can, even of a truncated file."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("pragma writable_schema = on")
    except BaseException:
        connection.close()
        raise
    return connection


def _last_readable(path: Path, number: int) -> int:
    """Return the last event before the first one that cannot be read."""
    seq, step = 0, PAGE
    statement = "select seq, at, kind, id, arm, reward, key from events where agent = ? and seq > ? "
    with contextlib.closing(_salvage(path)) as connection:
        while step:
            try:
                rows = connection.execute(
                    f"{statement} order by seq limit {step}", (number, seq)
                ).fetchall()
            except sqlite3.Error:
                step //= 2
                continue
            if not rows:
                break
            for row in rows:
                if row[0] != seq + 1:
                    return seq
                seq += 1
    return seq
