"""Run slow reads of the store, such as reports and pages of the log, in threads of their own.

Each kind of read has one thread, which pauses between reads. The threads that authorize requests and
commit operations therefore never wait for a read, however many clients read. Several requests for the
same result share one read if this read has not begun.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from msgspec import json

from kibitz.live.agent.agent import Agent
from kibitz.live.agent.report import to_plain, verdict_to_plain
from kibitz.live.service.auth import RequestError
from kibitz.live.store import queries

MAX_WAITING = 200  # different reads that wait for a thread; further reads are rejected
MAX_LOAD = 0.25  # largest share of a processor's time for the reads of one thread
MAX_REPORT_LOAD = 0.5  # largest share for reports, because one may take a second
MAX_REPORTS = 32  # reports and verdicts in the cache
MAX_AGE_SECONDS = 5.0  # a report contains ages, so it is computed again even without a change


class Reads:
    """A thread that reads the store for many requests."""

    def __init__(self, name: str, max_load: float = MAX_LOAD) -> None:
        self._executor = ThreadPoolExecutor(1, name)
        self._max_load = max_load
        self._waiting: dict[Hashable, asyncio.Future[Any]] = {}  # reads that have not begun
        self._lock = threading.Lock()
        self._results: dict[Hashable, list[Any]] = {}  # latest result and number of requests, by key
        self._turn = asyncio.Lock()
        self._next_start = 0.0

    async def get(self, key: Hashable, work: Callable[[], Any]) -> Any:
        """Return the result of `work()`; requests with the same key share a read that has not begun.

        A read begins after all requests that share it, so its result includes everything that was
        committed before any of these requests. A request may then wait for its turn to answer. It
        returns the latest result of its key, so only one result of each key is in memory.
        """
        future = self._waiting.get(key)
        if future is None:
            if len(self._waiting) >= MAX_WAITING:
                raise RequestError(503, f"{MAX_WAITING} reads are already waiting; retry")
            loop = asyncio.get_running_loop()
            with self._lock:
                future = loop.run_in_executor(self._executor, self._run, key, work)
                self._waiting[key] = future
            future.add_done_callback(_retrieve_error)
        latest = self._results.setdefault(key, [None, 0])
        latest[1] += 1
        try:
            latest[0] = await asyncio.shield(future)  # the read continues if this client leaves
            del future  # it refers to the result
            async with self._turn:  # other requests get their turn between two answers
                await asyncio.sleep(0)
            return latest[0]
        finally:
            latest[1] -= 1
            if not latest[1]:
                del self._results[key]

    def stop(self) -> None:
        """Cancel all reads that have not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _run(self, key: Hashable, work: Callable[[], Any]) -> Any:
        time.sleep(max(0.0, self._next_start - time.monotonic()))
        with self._lock:
            del self._waiting[key]
        start_time = time.thread_time()
        try:
            return work()
        finally:
            used_seconds = time.thread_time() - start_time
            self._next_start = time.monotonic() + used_seconds * (1 / self._max_load - 1)


def _retrieve_error(future: "asyncio.Future[Any]") -> None:
    """Mark the error of a read as retrieved, so asyncio does not log it if all clients have left."""
    if not future.cancelled():
        future.exception()


class CachedReport(NamedTuple):
    """A report or verdict in JSON, computed at time `at` from the first `n_events` events."""

    n_events: int
    at: float
    content: bytes


class Reports(Reads):
    """Reports and verdicts of agents, computed once after each change."""

    def __init__(self) -> None:
        super().__init__("kibitz-reports", MAX_REPORT_LOAD)
        self._cache: dict[Hashable, CachedReport] = {}  # used only in the thread

    async def report(self, agent: Agent, delta: float) -> bytes:
        """Return the report of an agent in JSON."""
        return await self._get(agent, "report", lambda: to_plain(agent.report(delta)), delta)

    async def verdict(self, agent: Agent, delta: float, tolerance: float) -> bytes:
        """Return the verdict on an agent in JSON."""
        values = delta, tolerance
        work = lambda: verdict_to_plain(agent.verdict(*values))  # noqa: E731
        return await self._get(agent, "verdict", work, *values)

    async def _get(self, agent: Agent, kind: str, work: Callable[[], Any], *values: float) -> bytes:
        key = agent.config.stored, kind, *values
        content: bytes = await self.get(key, lambda: self._compute(agent, key, work))
        return content

    def _compute(self, agent: Agent, key: Hashable, work: Callable[[], Any]) -> bytes:
        """Return the cached result, or compute it if the agent has changed."""
        stored = agent.config.stored
        n_events = agent.store.read(
            lambda database: queries.read_agent(database, agent.name, config=stored).n_events
        )
        now, cached = agent.now(), self._cache.pop(key, None)
        is_current = (
            cached is not None
            and cached.n_events == n_events
            and 0 <= now - cached.at < MAX_AGE_SECONDS
        )
        if cached is None or not is_current:
            cached = CachedReport(n_events, now, json.encode(work()))
        self._cache[key] = cached
        if len(self._cache) > MAX_REPORTS:
            del self._cache[next(iter(self._cache))]  # the least recently used
        return cached.content
