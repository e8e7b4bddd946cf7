"""The decisions of an agent during one transaction: read when they are needed, written at its end."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from kibitz.live.projection import Decided
from kibitz.live.reading import DECIDED
from kibitz.live.store import Database

MOST_READ = 512  # in one statement
decided_values = attrgetter(*Decided.__slots__)


class Decisions:
    """Those that were read or made, by their ids and keys."""

    def __init__(self, database: Database, number: int, count: int) -> None:
        self.count = count  # of all there are, and the id of the last
        self._database = database
        self._number = number  # of the agent
        self._known: dict[int, Decided] = {}
        self._keys: dict[str, int | None] = {}  # that were looked for, or made
        self._made: list[int] = []
        self._changed: set[int] = set()

    def make(self, decided: Decided) -> int:
        """Add a new one; return its id."""
        self.count += 1
        self._known[self.count] = decided
        self._made.append(self.count)
        if decided.key is not None:
            self._keys[decided.key] = self.count
        return self.count

    def made(self) -> list[Decided]:
        """Return those that were made and are not written yet."""
        return [self._known[id] for id in self._made]

    def get(self, id: int) -> Decided | None:
        """Return one by its id."""
        if id not in self._known and id <= self.count:
            self._read("id", [id])
        return self._known.get(id)

    def with_key(self, key: str) -> tuple[int, Decided] | None:
        """Return the one with a key, and its id."""
        if key not in self._keys:
            self._read("key", [key])
        id = self._keys[key]
        return None if id is None else (id, self._known[id])

    def changed(self, id: int) -> None:
        """Note that one is to be written, as it is at the end."""
        self._changed.add(id)

    def overdue(self, latest: float) -> list[tuple[int, Decided]]:
        """Return those that have been pending since some time or longer."""
        rows = self._database.rows(
            f"select id, {DECIDED} from decisions "
            "where agent = ? and status = 'pending' and asked_at <= ? order by id",
            self._number,
            latest,
        )
        return [(id, self._known.setdefault(id, Decided(*values))) for id, *values in rows]

    def read_ahead(self, operations: Sequence[Any]) -> None:
        """Read at once what several operations are going to look for."""
        ids: set[int] = set()
        keys: set[str] = set()
        for operation in operations:
            if isinstance(operation, Exception):
                continue
            name, values = operation
            if name in ("tell", "forget", "correct"):
                ids.add(values[0])
            else:
                given = values[0] if name == "ask" else values[-1:]
                keys.update(key for key in given if key is not None)
        self._read("id", sorted(ids - self._known.keys()))
        self._read("key", sorted(keys - self._keys.keys()))

    def _read(self, column: str, values: Sequence[Any]) -> None:
        if column == "key":
            self._keys.update(dict.fromkeys(values))
        for start in range(0, len(values), MOST_READ):
            some = list(values[start : start + MOST_READ])
            some += some[-1:] * (2 ** (len(some) - 1).bit_length() - len(some))  # few statements
            marks = ", ".join("?" * len(some))
            for id, *rest in self._database.rows(
                f"select id, {DECIDED} from decisions where agent = ? and {column} in ({marks})",
                self._number,
                *some,
            ):
                decided = self._known.setdefault(id, Decided(*rest))
                if decided.key is not None:
                    self._keys[decided.key] = id

    def write(self) -> None:
        """Write those that were made or have changed."""
        self._database.many(
            f"insert into decisions (agent, id, {DECIDED}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(self._number, id, *decided_values(self._known[id])) for id in self._made],
        )
        self._database.many(
            "update decisions set status = ?, told = ?, reward = ? where agent = ? and id = ?",
            [
                ((one := self._known[id]).status, one.told, one.reward, self._number, id)
                for id in sorted(self._changed.difference(self._made))
            ],
        )
        self._made, self._changed = [], set()
