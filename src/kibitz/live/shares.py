"""Which share of the pulls each arm had, as the asks went by: counted as they come, read only once.

The asks are cut into stretches of equal width, a power of two, so that there are at most `STRETCHES`
of them: when there would be more, each two become one. What is kept is a small table, whatever the
length of the log, and a long log is read a piece at a time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kibitz.live.store import Database

STRETCHES = 64
NARROWEST = 8  # asks; shares of fewer say little
PIECE = 50_000  # decisions that are read at a time


class Shares:
    """How many pulls of each arm fell into each stretch of asks, and when it began."""

    def __init__(self) -> None:
        self.width = NARROWEST
        self.n_read = 0  # decisions
        self.counts: NDArray[np.int64] = np.zeros((STRETCHES, 0), dtype=np.int64)
        self.since = np.full(STRETCHES, np.inf)

    def read(self, database: Database, number: int, n_arms: int) -> bool:
        """Count the next piece of the decisions of an agent; return whether that was all."""
        [(n_decisions, n_asks)] = database.rows(
            "select n_decisions, n_asks from agents where agent = ?", number
        )
        self._widen(n_asks, n_arms)
        last = min(n_decisions, self.n_read + PIECE)
        rows = database.rows(
            "select arm, (stage - 1) / ?, count(*), min(asked_at) from decisions "
            "where agent = ? and id > ? and id <= ? and kind = 'pull' group by 1, 2",
            self.width,
            number,
            self.n_read,
            last,
        )
        for arm, stretch, count, since in rows:
            self.counts[stretch, arm] += count
            self.since[stretch] = min(self.since[stretch], since)
        self.n_read = last
        return bool(last == n_decisions)

    def _widen(self, n_asks: int, n_arms: int) -> None:
        """Make room for so many asks and arms."""
        new = n_arms - self.counts.shape[1]
        self.counts = np.pad(self.counts, ((0, 0), (0, max(0, new))))
        while n_asks > STRETCHES * self.width:
            empty = np.zeros((STRETCHES // 2, self.counts.shape[1]), dtype=np.int64)
            self.counts = np.concatenate([self.counts[::2] + self.counts[1::2], empty])
            pairs = np.minimum(self.since[::2], self.since[1::2])
            self.since = np.concatenate([pairs, np.full(STRETCHES // 2, np.inf)])
            self.width *= 2

    def shown(self, names: list[str], most: int) -> dict[str, Any]:
        """Return the counts of the arms that were pulled most, and of all, as plain data."""
        totals = self.counts.sum(axis=1)
        used = int(np.flatnonzero(totals).max(initial=-1)) + 1
        pulls = self.counts.sum(axis=0)
        ranked = np.argsort(-pulls, kind="stable")[:most]
        chosen = sorted(int(arm) for arm in ranked if pulls[arm] > 0)
        return {
            "width": self.width,
            "arms": [names[arm] for arm in chosen],
            "counts": [self.counts[:used, arm].tolist() for arm in chosen],
            "totals": totals[:used].tolist(),
            "since": [float(at) if np.isfinite(at) else None for at in self.since[:used]],
        }
