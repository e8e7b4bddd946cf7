"""Snapshots of an agent for the dashboard: the report, pulls over time, and the latest events.

All watchers of an agent share its snapshots, which are made at most twice a second, in a fraction of
the processor's time, and only while somebody watches: fifty watchers cost as much as one.
"""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz.live.agent.agent import Agent
from kibitz.live.agent.report import looks_saved, report, to_plain
from kibitz.live.events import Event
from kibitz.live.service.changes import Changes
from kibitz.live.store import queries
from kibitz.live.store.schema import Database

PAUSE_SECONDS = 0.5  # between two snapshots, at least
MAX_LOAD = 0.2  # the part of a processor's time that snapshots may take
QUIET_SECONDS = 10.0  # without news, after which a stream sends a comment
PLAN_GROWTH = 1.05  # how much more must have been seen before the planner is asked again
MAX_LAYERS = 7  # arms that are shown apart in the shares over time
MAX_EVENTS = 20  # events that are shown
N_INTERVALS = 64
MIN_WIDTH = 8  # asks; shares of fewer say little
MAX_READ = 50_000  # decisions in one transaction


class State(NamedTuple):
    """The counts of an agent in one transaction."""

    n_events: int
    n_asks: int
    n_observed: int
    events: list[Event]  # the latest
    whole: bool  # whether all pulls have been counted


class Saved(NamedTuple):
    """The planner's estimate of what looks had saved, after so many observations."""

    n_observed: int
    amount: float


class Watched:
    """An agent that is watched, and its latest snapshot."""

    def __init__(self, agent: Agent, changes: Changes) -> None:
        self.agent = agent
        self._changes = changes
        self._shares = Shares()  # only changed inside of a read, one at a time
        self._saved = Saved(0, math.nan)
        self._frame = b""
        self._news = asyncio.Event()
        self._n_watchers = 0
        self._task: asyncio.Task[None] | None = None

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield each new snapshot; a slow watcher misses some, never the last."""
        self._n_watchers += 1
        if self._task is None:
            self._frame = b""
            self._task = asyncio.create_task(self._follow())
        task, shown = self._task, b""
        try:
            while not self._changes.stopping.is_set():
                if self._frame is shown:
                    await self._wait(task)
                if self._frame is shown:
                    yield b": still here\n\n"
                else:
                    shown = self._frame
                    yield shown
        finally:
            self._n_watchers -= 1
            if not self._n_watchers:
                task.cancel()
                self._task = None

    async def _wait(self, task: asyncio.Task[None]) -> None:
        """Wait for a new snapshot, up to `QUIET_SECONDS`; raise the error of the task."""
        news = asyncio.ensure_future(self._news.wait())
        await asyncio.wait({news, task}, timeout=QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()
        if task.done():
            task.result()

    async def _follow(self) -> None:
        """Make a snapshot, wait for a change, and repeat."""
        planning: asyncio.Task[None] | None = None
        while not self._changes.stopping.is_set():
            began, spent, n_events, saved = time.monotonic(), 0.0, 0, self._saved
            try:
                state = await asyncio.to_thread(self.agent.store.read, self._read)
                content, spent = await asyncio.to_thread(self._draw, state, saved.amount)
                self._publish("report", content)
                n_events = state.n_events if state.whole else 0
                if state.n_observed > PLAN_GROWTH * saved.n_observed and (
                    planning is None or planning.done()
                ):
                    planning = asyncio.create_task(asyncio.to_thread(self._plan, state))
            except OSError:
                self._publish("trouble", {"message": "the store cannot be used at the moment"})
            await asyncio.sleep(max(PAUSE_SECONDS, spent / MAX_LOAD) - (time.monotonic() - began))
            until = began + QUIET_SECONDS
            while (
                self._saved is saved
                and time.monotonic() < until
                and not self._changes.stopping.is_set()
            ):
                if await self._changes.wait(self.agent.name, n_events, PAUSE_SECONDS):
                    break

    def _publish(self, kind: str, content: dict[str, Any]) -> None:
        self._frame = f"event: {kind}\ndata: {json.dumps(content)}\n\n".encode()
        self._news.set()
        self._news = asyncio.Event()

    def _read(self, database: Database) -> State:
        """Count the pulls that have come, and return how far everything is."""
        row = queries.read_agent(database, self.agent.name)
        arms = queries.read_arms(database, row.number)
        events = queries.read_events(database, row.number, max(0, row.n_events - MAX_EVENTS))
        whole = self._shares.read(database, row, len(arms))
        return State(row.n_events, row.n_asks, sum(arm.n_observed for arm in arms), events, whole)

    def _draw(self, state: State, saved: float) -> tuple[dict[str, Any], float]:
        """Return a snapshot as plain data, and the processor time that it took."""
        began = time.thread_time()
        agent = self.agent
        shown = to_plain(report(agent.store, agent.config, agent.now(), saved=saved))
        names = [arm["arm"] for arm in shown["arms"]]
        content = {
            "at": max(time.time(), state.events[-1].at),
            "report": shown,
            "shares": {**self._shares.as_data(names, MAX_LAYERS), "whole": state.whole},
            "events": [event._asdict() for event in reversed(state.events)],
        }
        return content, time.thread_time() - began

    def _plan(self, state: State) -> None:
        """Ask the planner what the looks have saved: that takes longer than all the rest."""
        amount = looks_saved(self.agent.arms(), state.n_asks, self.agent.config.scale)
        self._saved = Saved(state.n_observed, amount)


class Shares:
    """The pulls of each arm in each interval of asks, and when the interval began.

    All intervals have the same width, a power of two; when there would be more than `N_INTERVALS`,
    two become one. The table stays small for any log, and each decision is read once.
    """

    def __init__(self) -> None:
        self.width = MIN_WIDTH
        self.n_read = 0  # decisions
        self.counts: NDArray[np.int64] = np.zeros((N_INTERVALS, 0), dtype=np.int64)
        self.since = np.full(N_INTERVALS, np.inf)

    def read(self, database: Database, row: queries.AgentRow, n_arms: int) -> bool:
        """Count the next decisions of an agent; return whether those were all."""
        self._widen(row.n_asks, n_arms)
        last = min(row.n_decisions, self.n_read + MAX_READ)
        for arm, interval, count, since in queries.count_pulls(
            database, row.number, self.width, self.n_read, last
        ):
            self.counts[interval, arm] += count
            self.since[interval] = min(self.since[interval], since)
        self.n_read = last
        return last == row.n_decisions

    def _widen(self, n_asks: int, n_arms: int) -> None:
        """Make room for this many asks and arms."""
        new = n_arms - self.counts.shape[1]
        self.counts = np.pad(self.counts, ((0, 0), (0, max(0, new))))
        while n_asks > N_INTERVALS * self.width:
            empty = np.zeros((N_INTERVALS // 2, self.counts.shape[1]), dtype=np.int64)
            self.counts = np.concatenate([self.counts[::2] + self.counts[1::2], empty])
            pairs = np.minimum(self.since[::2], self.since[1::2])
            self.since = np.concatenate([pairs, np.full(N_INTERVALS // 2, np.inf)])
            self.width *= 2

    def as_data(self, names: list[str], most: int) -> dict[str, Any]:
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
