"""Wait for new events in the store.

Other processes and machines may write to the store, so `Changes` polls the store for the number of
events of each agent. One query, four times a second, serves all waiting tasks. `Changes` stops
polling when no task waits.
"""

import asyncio
import contextlib

from kibitz._errors import StoreUnavailable
from kibitz.live.store import queries
from kibitz.live.store.schema import Store

POLL_SECONDS = 0.25


class Changes:
    """The number of events of each agent, for tasks that wait for new events."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: dict[str, int] = {}
        self._poll_finished = asyncio.Event()
        self._poll_task: asyncio.Task[None] | None = None
        self._n_waiting = 0
        self.stopping = asyncio.Event()

    async def wait(self, name: str, seq: int, seconds: float) -> bool:
        """Wait until an agent has more than `seq` events; return False on timeout or shutdown."""
        self._n_waiting += 1
        try:
            async with asyncio.timeout(seconds):
                while not self.stopping.is_set():
                    if self._counts.get(name, 0) > seq:
                        return True
                    if self._poll_task is None or self._poll_task.done():
                        self._poll_task = asyncio.create_task(self._poll())
                    await self._poll_finished.wait()
        except TimeoutError:
            pass
        finally:
            self._n_waiting -= 1
        return False

    def stop(self) -> None:
        """Set `stopping`, and wake all waiting tasks."""
        self.stopping.set()
        self._poll_finished.set()

    async def _poll(self) -> None:
        while self._n_waiting and not self.stopping.is_set():
            with contextlib.suppress(StoreUnavailable):
                self._counts = await asyncio.to_thread(self._store.read, queries.count_events)
            self._poll_finished.set()
            self._poll_finished = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self.stopping.wait()
