"""Make everything anew from the log, and compare."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kibitz.live.projection import Decided, Event, Projection, differences, projected
from kibitz.live.store import Database
from kibitz.live.turn import DECIDED, PAGE, as_json, read_arms, read_events, replayed

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
    named = {
        "number of events": (kept[0], made.n_events),
        "number of decisions": (kept[1], len(made.decisions)),
        "number of asks": (kept[2], made.n_asks),
        "time of the latest event": (kept[3], made.latest),
    }
    if agent.in_turn:
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
