"""What a store holds of an agent: the arms, and the log a page at a time."""

from kibitz.live.projection import Arm, Decided, Event
from kibitz.live.store import Database

PAGE = 5_000  # events that are read at a time
COLUMNS = ", ".join(Arm.__slots__)
DECIDED = ", ".join(Decided.__slots__)


def read_arms(database: Database, number: int) -> list[Arm]:
    """Return what a store knows of an agent's arms."""
    rows = database.rows(f"select {COLUMNS} from arms where agent = ? order by arm", number)
    return [Arm(*row) for row in rows]


def read_events(database: Database, number: int, after: int, most: int = PAGE) -> list[Event]:
    """Return a page of the log."""
    rows = database.rows(
        "select e.seq, e.at, e.kind, e.id, a.name, e.reward, e.key from events e "
        "join arms a on a.agent = e.agent and a.arm = e.arm "
        "where e.agent = ? and e.seq > ? order by e.seq limit ?",
        number,
        after,
        most,
    )
    return [Event(*row) for row in rows]
