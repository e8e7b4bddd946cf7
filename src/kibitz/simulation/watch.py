"""Somebody who looks on: the runs that all policies have so far, shown now and then."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kibitz.simulation.axes import Key
from kibitz.simulation.chunks import Chunks
from kibitz.simulation.results import Table

if TYPE_CHECKING:
    import xarray

Watch = Callable[["xarray.Dataset"], Any]

SECONDS = 0.5  # to wait before more is shown, at least
SHARE = 0.3  # of the time that showing may take, at most


class Watching:
    """A result while it is played; nobody may be there to see it."""

    def __init__(
        self, watch: Watch | None, table: Table | Chunks, keys: list[Key], runs: int
    ) -> None:
        self.watch, self.table, self.keys, self.runs = watch, table, keys, runs
        self.shown = 0  # runs
        self.next = 0.0  # when to show more

    def show(self, *, now: bool = False) -> None:
        """Show the runs that all policies have, if these are more and it is time, or `now`."""
        begun = time.monotonic()
        if self.watch is None or (begun < self.next and not now):
            return
        complete = min(self._complete(key) for key in self.keys)
        pause = 0.0
        if complete > self.shown:
            pause = SECONDS
            data = self.table.result(self.keys, complete)
            self.shown = complete
            self.watch(data)
        ended = time.monotonic()
        self.next = ended + max(pause, (ended - begun) * (1 / SHARE - 1))

    def _complete(self, key: Key) -> int:
        """Return how many runs of a cell are there before the first that is missing."""
        missing = self.table.missing(key, self.runs)
        return int(missing[0]) if missing.size else self.runs
