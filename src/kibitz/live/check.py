"""Make everything anew from the log, and compare."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kibitz._validation import refused
from kibitz.live.phases import as_json, replayed
from kibitz.live.projection import Decided, Event, Projection, differences, projected
from kibitz.live.reading import DECIDED, PAGE, read_arms, read_events
from kibitz.live.store import Damaged, Database, connect, sqlite_path

if TYPE_CHECKING:
    from kibitz.live.agent import Agent

MOST = 20  # differences that are told


def check(agent: "Agent") -> list[str]:
    """Return, in sentences, where what the store keeps of an agent contradicts its log."""

    def work(database: Database) -> list[str]:
        number = agent._number(database)
        try:
            made = projected(log(database, number))
        except ValueError as error:
            return [f"log of {agent.name}: {error}"]
        return compared(agent, database, number, made)

    return agent.store.read(work)


def check_store(url: str, name: str | None = None) -> dict[str, list[str]]:
    """Return what is wrong with the agents of a store, by name; of a damaged file, what is whole."""
    from kibitz.live.agent import agent, names

    found: dict[str, list[str]] = {}
    path = sqlite_path(url)
    try:
        store = connect(url, create=False)
        try:
            if path is not None:
                damage = store.read(lambda database: database.rows("pragma integrity_check(5)"))
                found["file"] = [f"damaged: {' '.join(str(line).split())}" for (line,) in damage]
                if damage == [("ok",)]:
                    del found["file"]
            known = names(store)
        finally:
            store.close()
        if name is not None and name not in known:
            raise refused("agent", f"one of {', '.join(map(repr, known)) or 'none'}", name)
        for one in known if name is None else [name]:
            with agent(url, one) as opened:
                found[one] = opened.check()
    except Damaged as error:
        whole = {} if path is None else readable(path)
        if not whole:
            raise
        found.setdefault("file", [f"damaged: {error}"])
        for one, last in whole.items():
            if name in (None, one):
                found[one] = [f"events 1 to {last} of the log can be read"]
    return found


def readable(path: Path) -> dict[str, int]:
    """Return up to which event the log of each agent can be read in a damaged file."""
    found: dict[str, int] = {}
    with contextlib.suppress(sqlite3.Error), contextlib.closing(salvaged(path)) as connection:
        agents = connection.execute("select agent, name from agents").fetchall()
        for number, name in agents:
            found[name] = last_readable(path, number)
    return found


def salvaged(path: Path) -> sqlite3.Connection:
    """Return a connection that reads what it can, also of a file that is too short."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("pragma writable_schema = on")
    except BaseException:
        connection.close()
        raise
    return connection


def last_readable(path: Path, number: int) -> int:
    """Return the last event before the first that cannot be read."""
    seq, step = 0, PAGE
    statement = "select seq, at, kind, id, arm, reward, key from events where agent = ? and seq > ? "
    with contextlib.closing(salvaged(path)) as connection:
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


def log(database: Database, number: int) -> Iterator[Event]:
    """Yield the log, page by page."""
    seq = 0
    while True:
        page = read_events(database, number, seq)
        yield from page
        if len(page) < PAGE:
            return
        seq = page[-1].seq


def compared(agent: "Agent", database: Database, number: int, made: Projection) -> list[str]:
    """Return the differences between what is kept and what was made anew."""
    wrong: list[str] = []
    [kept] = database.rows(
        "select n_events, n_decisions, n_asks, latest, state from agents where agent = ?", number
    )
    named: dict[str, tuple[Any, Any]] = {
        "number of events": (kept[0], made.n_events),
        "number of decisions": (kept[1], len(made.decisions)),
        "number of asks": (kept[2], made.n_asks),
        "time of the latest event": (kept[3], made.latest),
    }
    if agent.keeps_state:
        named["state of the policy"] = (kept[4], as_json(replayed(agent, made)))
        if not made.order:
            named["state of the policy"] = (kept[4], None)
    wrong += [
        f"{what} is {old!r}, by the log {new!r}" for what, (old, new) in named.items() if old != new
    ]
    arms = read_arms(database, number)
    if len(arms) != len(made.arms):
        wrong.append(f"number of arms is {len(arms)}, by the log {len(made.arms)}")
    for arm, new in zip(arms, made.arms, strict=False):
        wrong += differences(arm, new, f"arm {new.name!r}")
    last = 0
    while len(wrong) < MOST:
        rows = database.rows(
            f"select id, {DECIDED} from decisions where agent = ? and id > ? "
            f"order by id limit {PAGE}",
            number,
            last,
        )
        for id, *values in rows:
            if id != last + 1 or id > len(made.decisions):
                return [*wrong, f"decision {last + 1} must follow, got {id}"]
            wrong += differences(Decided(*values), made.decisions[id - 1], f"decision {id}")
            last = id
        if len(rows) < PAGE:
            if last != len(made.decisions):
                wrong.append(f"decisions are {last}, by the log {len(made.decisions)}")
            break
    return wrong[:MOST]
