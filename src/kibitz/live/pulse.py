"""Who follows the log: told of new events, whoever in the world has written them.

The store is asked how many events each agent has, four times a second and only while somebody waits,
for all who wait at once: other processes and machines may write to it, too.
"""

import asyncio
import contextlib

from fastapi.concurrency import run_in_threadpool

from kibitz.live.store import Database, Store, Unavailable

BEAT = 0.25  # seconds


class Pulse:
    """How many events the agents of a store have, for those who wait for more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: dict[str, int] = {}
        self._beaten = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None
        self._n_waiting = 0
        self.stopping = asyncio.Event()

    async def beyond(self, name: str, seq: int, seconds: float) -> bool:
        """Wait until an agent has more than `seq` events; False if it takes longer, or at the end."""
        self._n_waiting += 1
        try:
            async with asyncio.timeout(seconds):
                while not self.stopping.is_set():
                    if self._counts.get(name, 0) > seq:
                        return True
                    if self._beating is None or self._beating.done():
                        self._beating = asyncio.create_task(self._beat())
                    await self._beaten.wait()
        except TimeoutError:
            pass
        finally:
            self._n_waiting -= 1
        return False

    def stop(self) -> None:
        """Let nobody wait any longer."""
        self.stopping.set()
        self._beaten.set()

    async def _beat(self) -> None:
        while self._n_waiting and not self.stopping.is_set():
            with contextlib.suppress(Unavailable):
                self._counts = await run_in_threadpool(self._store.read, _counts)
            self._beaten.set()
            self._beaten = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT):
                    await self.stopping.wait()


def _counts(database: Database) -> dict[str, int]:
    return dict(database.rows("select name, n_events from agents"))
