"""Compare a store with its event log, and find the readable part of a damaged file."""

import contextlib
import math
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

from kibitz.live.events import KIND_SUMS, Projection, list_discrepancies, list_terms
from kibitz.live.store.queries import (
    PAGE_SIZE,
    AgentRow,
    read_alarms,
    read_arms,
    read_decisions_after,
)
from kibitz.live.store.schema import Database, Store
from kibitz.live.store.sqlite import count_events, read_acknowledged

MAX_DISCREPANCIES = 20
SUMS = (*KIND_SUMS, "squares", "settled_sum", "settled_squares")


def compare(database: Database, row: AgentRow, replayed: Projection, state: str | None) -> list[str]:
    """Return up to `MAX_DISCREPANCIES` differences between the stored and the replayed projection.

    `row` is the stored row of the agent; `state` is the state of the policy after the replay.
    """
    pairs: dict[str, tuple[Any, Any]] = {
        "number of events": (row.n_events, replayed.n_events),
        "number of decisions": (row.n_decisions, replayed.n_decisions),
        "number of asks": (row.n_asks, replayed.n_asks),
        "number of settled decisions": (row.n_settled, replayed.n_settled),
        "declared rewards": (row.rewards, replayed.rewards),
        "time of the latest event": (row.latest, replayed.latest),
        "state of the policy": (row.state, state),
        "list of alarms": (read_alarms(database, row.number), replayed.alarms),
    }
    discrepancies = [
        f"{name} is {old!r}; the log gives {new!r}"
        for name, (old, new) in pairs.items()
        if old != new
    ]
    arms = read_arms(database, row.number)
    if len(arms) != len(replayed.arms):
        discrepancies.append(f"number of arms is {len(arms)}; the log gives {len(replayed.arms)}")
    for arm, new in zip(arms, replayed.arms, strict=False):
        discrepancies += list_discrepancies(arm, new, f"arm {new.name!r}")
    discrepancies += check_sums(replayed)
    last, ids = 0, iter(replayed.decisions)
    while len(discrepancies) < MAX_DISCREPANCIES and (
        page := read_decisions_after(database, row.number, last)
    ):
        for id, record in page:
            if id not in replayed.decisions:
                return [*discrepancies, f"decision {id} is not in the log"]
            if (expected_id := next(ids)) != id:
                missing = f"decision {expected_id} is missing; the next one is {id}"
                return [*discrepancies, missing]
            discrepancies += list_discrepancies(record, replayed.decisions[id], f"decision {id}")
            last = id
    if len(discrepancies) < MAX_DISCREPANCIES and (missing_id := next(ids, None)) is not None:
        discrepancies.append(f"last decision is {last}; the log also gives {missing_id}")
    return discrepancies[:MAX_DISCREPANCIES]


def check_sums(replayed: Projection) -> list[str]:
    """Return the differences between the sums of each arm and the exact sums of its rewards."""
    terms: list[dict[str, list[float]]] = [defaultdict(list) for _ in replayed.arms]
    for arm_terms, removed in zip(terms, replayed.removed, strict=False):
        arm_terms.update({name: list(floats) for name, floats in removed.items()})
    for record in replayed.decisions.values():
        for name, term in list_terms(record):
            terms[record.arm][name].append(term)
    return [
        f"arm {arm.name!r}: {name} is {getattr(arm, name)!r}; its rewards give {total!r}"
        for arm, arm_terms in zip(replayed.arms, terms, strict=True)
        for name in SUMS
        if getattr(arm, name) != (total := math.fsum(arm_terms[name]))
    ]


def check_file(store: Store, path: Path) -> list[str]:
    """Return the problems of a store's SQLite file: damage, and missing acknowledged events."""
    n_acknowledged = read_acknowledged(path)  # first, because more events may be committed
    lines = store.read(lambda database: database.execute("pragma integrity_check(5)"))
    n_lost = n_acknowledged - store.read(count_events)
    problems = [f"damaged: {' '.join(str(line).split())}" for (line,) in lines if line != "ok"]
    if n_lost > 0:
        problems.append(
            f"{n_lost} acknowledged events are missing: the write-ahead log was deleted or an older "
            "copy was restored"
        )
    return problems


def find_readable_events(path: Path) -> dict[str, int]:
    """Return, by agent, the number of the last event that can be read from a damaged file."""
    readable: dict[str, int] = {}
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_open_damaged(path)) as connection:
        agents = connection.execute("select agent, name from agents").fetchall()
        for number, name in agents:
            readable[name] = _find_last_readable(path, number)
    return readable


def _open_damaged(path: Path) -> sqlite3.Connection:
    """Open a connection that reads as much as possible, even from a truncated file."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("pragma writable_schema = on")
    except BaseException:
        connection.close()
        raise
    return connection


def _find_last_readable(path: Path, number: int) -> int:
    """Return the number of the last event before the first event that cannot be read."""
    seq, step = 0, PAGE_SIZE
    statement = "select seq, at, kind, id, arm, reward, key from events where agent = ? and seq > ? "
    with contextlib.closing(_open_damaged(path)) as connection:
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
