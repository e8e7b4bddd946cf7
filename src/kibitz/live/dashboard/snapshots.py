"""Snapshots of an agent for the dashboard: the report, pulls over time, and the latest events.

All clients of an agent share its snapshots, so fifty clients cost as much as one client. Snapshots
are made only while a client is connected, at most twice a second, and use at most a fixed share of
processor time (`MAX_LOAD`).
"""

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz.live.agent.agent import Agent
from kibitz.live.agent.report import looks_saved, report, to_plain
from kibitz.live.events import Event
from kibitz.live.service.changes import Changes
from kibitz.live.store import queries
from kibitz.live.store.schema import Database

MIN_SNAPSHOT_SECONDS = 0.5  # shortest time between two snapshots
MAX_LOAD = 0.2  # largest share of a processor's time for snapshots
KEEPALIVE_SECONDS = 10.0  # time between the comments that an idle stream sends
MIN_PLAN_GROWTH = 1.05  # the planner runs again when the observations have grown by this factor
MAX_LAYERS = 7  # number of arms with their own layer in the chart of shares
MAX_EVENTS = 20  # events in a snapshot
N_INTERVALS = 64  # intervals on the time axis of the chart
MIN_WIDTH = 8  # smallest width of an interval, in pulls
MAX_DECISIONS = 50_000  # decisions read in one transaction


# Snapshots have their own threads, so that other requests never wait for them.
THREADS = ThreadPoolExecutor(2, "kibitz-snapshots")


async def _run(work: Callable[..., Any], *values: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(THREADS, work, *values)


class State(NamedTuple):
    """The counts of an agent, read in one transaction."""

    n_events: int
    n_asks: int
    n_observed: int
    events: list[Event]  # the latest events
    is_complete: bool  # whether all pulls have been counted


class Saving(NamedTuple):
    """The planner's estimate of the regret saved by looks, after `n_observed` observations."""

    n_observed: int
    amount: float


class Feed:
    """The snapshots of an agent, shared by all clients that watch it."""

    def __init__(self, agent: Agent, changes: Changes) -> None:
        self.agent = agent
        self._changes = changes
        # Only `_read` changes the shares, and the store runs one read at a time.
        self._shares = Shares(agent.config.monitor is not None)
        self._saving = Saving(0, math.nan)
        self._frame = b""
        self._new_frame = asyncio.Event()
        self._n_clients = 0
        self._task: asyncio.Task[None] | None = None

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Yield new snapshots.

        A slow client may miss snapshots, but always gets the latest snapshot.
        """
        self._n_clients += 1
        if self._task is None:
            self._frame = b""
            self._task = asyncio.create_task(self._run())
        task, last_frame = self._task, b""
        try:
            while not self._changes.stopping.is_set():
                if self._frame is last_frame:
                    await self._wait(task)
                if self._frame is last_frame:
                    yield b": keep-alive\n\n"
                else:
                    last_frame = self._frame
                    yield last_frame
        finally:
            self._n_clients -= 1
            if not self._n_clients:
                task.cancel()
                self._task = None

    async def _wait(self, task: asyncio.Task[None]) -> None:
        """Wait up to `KEEPALIVE_SECONDS` for a new snapshot; raise the error of a failed `task`."""
        published_wait = asyncio.ensure_future(self._new_frame.wait())
        await asyncio.wait(
            {published_wait, task}, timeout=KEEPALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        published_wait.cancel()
        if task.done():
            task.result()

    async def _run(self) -> None:
        """Publish a snapshot after each change, or a message while the store is unavailable."""
        planning_task: asyncio.Task[None] | None = None
        while not self._changes.stopping.is_set():
            start_time, build_seconds, n_events, saving = time.monotonic(), 0.0, 0, self._saving
            try:
                state = await _run(self.agent.store.read, self._read)
                content, build_seconds = await _run(self._build, state, saving.amount)
                self._publish("report", content)
                n_events = state.n_events if state.is_complete else 0
                if state.n_observed > MIN_PLAN_GROWTH * saving.n_observed and (
                    planning_task is None or planning_task.done()
                ):
                    planning_task = asyncio.create_task(_run(self._plan, state))
            except OSError:
                self._publish("trouble", {"message": "the store is unavailable"})
            await asyncio.sleep(
                max(MIN_SNAPSHOT_SECONDS, build_seconds / MAX_LOAD) - (time.monotonic() - start_time)
            )
            deadline = start_time + KEEPALIVE_SECONDS
            while (
                self._saving is saving
                and time.monotonic() < deadline
                and not self._changes.stopping.is_set()
            ):
                if await self._changes.wait(self.agent.name, n_events, MIN_SNAPSHOT_SECONDS):
                    break

    def _publish(self, kind: str, content: dict[str, Any]) -> None:
        self._frame = f"event: {kind}\ndata: {json.dumps(content)}\n\n".encode()
        self._new_frame.set()
        self._new_frame = asyncio.Event()

    def _read(self, database: Database) -> State:
        """Count the new pulls of each arm; return the agent's counts and latest events."""
        row = queries.read_agent(database, self.agent.name, config=self.agent.config.stored)
        arms = queries.read_arms(database, row.number)
        events = queries.read_events(database, row.number, max(0, row.n_events - MAX_EVENTS))
        is_complete = self._shares.read(database, row, len(arms))
        return State(
            row.n_events, row.n_asks, sum(arm.n_observed for arm in arms), events, is_complete
        )

    def _build(self, state: State, saved_regret: float) -> tuple[dict[str, Any], float]:
        """Return a snapshot as plain data, and the processor time in seconds that it took."""
        start_time = time.thread_time()
        agent = self.agent
        arms_report = to_plain(report(agent.store, agent.config, agent.now(), saved=saved_regret))
        names = [arm["arm"] for arm in arms_report["arms"]]
        shares = self._shares.to_plain(names, MAX_LAYERS)
        content = {
            "at": max(time.time(), state.events[-1].at),
            "report": arms_report,
            "shares": {**shares, "whole": state.is_complete},
            "events": [event._asdict() for event in reversed(state.events)],
        }
        return content, time.thread_time() - start_time

    def _plan(self, state: State) -> None:
        """Update the planner's estimate of the regret saved by looks.

        This estimate is the slowest part of a snapshot.
        """
        amount = looks_saved(self.agent.arms(), state.n_asks, self.agent.config.scale)
        self._saving = Saving(state.n_observed, amount)


class Shares:
    """The number of pulls of each arm in intervals of stages, with the start time of each interval.

    All intervals have the same width, a power of two. When more than `N_INTERVALS` intervals would be
    needed, adjacent intervals are merged. The table therefore stays small for any log, and each
    decision is read only once. With `has_means`, the table also has the mean of the settled rewards
    of each arm in each interval, without later corrections; the agent must have a monitor.
    """

    def __init__(self, has_means: bool = False) -> None:
        self.has_means = has_means
        self.width = MIN_WIDTH
        self.n_read = 0  # number of decisions read so far
        self.n_settled_read = 0  # number of decisions whose settled rewards have been read
        self.counts: NDArray[np.int64] = np.zeros((N_INTERVALS, 0), dtype=np.int64)
        self.n_settled = np.zeros((N_INTERVALS, 0))
        self.sums = np.zeros((N_INTERVALS, 0))
        self.since = np.full(N_INTERVALS, np.inf)

    def read(self, database: Database, row: queries.AgentRow, n_arms: int) -> bool:
        """Count up to `MAX_DECISIONS` new decisions; return whether all decisions are now counted."""
        self._widen(row.n_asks, n_arms)
        last_decision = min(row.n_decisions, self.n_read + MAX_DECISIONS)
        for arm, interval, count, start_time in queries.count_pulls(
            database, row.number, self.width, self.n_read, last_decision
        ):
            self.counts[interval, arm] += count
            self.since[interval] = min(self.since[interval], start_time)
        self.n_read = last_decision
        if not self.has_means:
            return last_decision == row.n_decisions
        last_settled = min(row.n_settled, self.n_settled_read + MAX_DECISIONS)
        for arm, interval, count, total in queries.sum_settled(
            database, row.number, self.width, self.n_settled_read, last_settled
        ):
            self.n_settled[interval, arm] += count
            self.sums[interval, arm] += total
        self.n_settled_read = last_settled
        return last_decision == row.n_decisions and last_settled == row.n_settled

    def _widen(self, n_asks: int, n_arms: int) -> None:
        """Make room for `n_asks` stages and `n_arms` arms; merge adjacent intervals if necessary."""
        new_arms = ((0, 0), (0, max(0, n_arms - self.counts.shape[1])))
        tables: list[NDArray[Any]] = [
            np.pad(table, new_arms) for table in (self.counts, self.n_settled, self.sums)
        ]
        while n_asks > N_INTERVALS * self.width:
            tables = [
                np.concatenate([table[::2] + table[1::2], np.zeros_like(table[::2])])
                for table in tables
            ]
            merged_times = np.minimum(self.since[::2], self.since[1::2])
            self.since = np.concatenate([merged_times, np.full(N_INTERVALS // 2, np.inf)])
            self.width *= 2
        self.counts, self.n_settled, self.sums = tables

    def to_plain(self, names: list[str], max_arms: int) -> dict[str, Any]:
        """Return the counts of the `max_arms` most pulled arms as plain data.

        `totals` are the counts of all arms together. `means` is [] if the table has no means. The
        mean of an interval without rewards is None.
        """
        totals = self.counts.sum(axis=1)
        n_used = int(np.flatnonzero(totals).max(initial=-1)) + 1
        pulls = self.counts.sum(axis=0)
        ranked_arms = np.argsort(-pulls, kind="stable")[:max_arms]
        arms = sorted(int(arm) for arm in ranked_arms if pulls[arm] > 0)
        return {
            "width": self.width,
            "arms": [names[arm] for arm in arms],
            "counts": [self.counts[:n_used, arm].tolist() for arm in arms],
            "totals": totals[:n_used].tolist(),
            "since": [
                float(start_time) if np.isfinite(start_time) else None
                for start_time in self.since[:n_used]
            ],
            "means": [
                [float(total / n) if n else None for n, total in zip(*columns, strict=True)]
                for columns in (
                    (self.n_settled[:n_used, arm], self.sums[:n_used, arm]) for arm in arms
                )
            ]
            if self.has_means
            else [],
        }
