"""What the watchers of an agent share: one picture of it, drawn anew when the log has grown.

A picture is the report, the shares of pulls over the asks and the latest events, as one server-sent
event. It is drawn at most twice a second, in a fraction of the processor's time, and only while
somebody watches: fifty watchers cost what one costs.
"""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from fastapi.concurrency import run_in_threadpool

from kibitz.live.agent import Agent
from kibitz.live.projection import Event
from kibitz.live.pulse import Pulse
from kibitz.live.reading import read_events
from kibitz.live.report import looks_saved, plain, report
from kibitz.live.shares import Shares
from kibitz.live.store import Database

PAUSE = 0.5  # seconds between two pictures, at least
LOAD = 0.2  # the part of a processor's time that drawing them may take
QUIET = 10.0  # seconds without news after which a stream says that it is still there
GROWTH = 1.05  # how much more must have been seen before the planner is asked again
LAYERS = 7  # arms that are shown apart in the shares over time
RECENT = 20  # events that are shown


class State(NamedTuple):
    """How far an agent, and what is known of it here, has come."""

    n_events: int
    n_asks: int
    n_seen: int
    events: list[Event]  # the latest
    whole: bool  # whether all pulls have been counted


class Saved(NamedTuple):
    """What looks had saved by the planner's estimate, after so many observations."""

    n_seen: int
    amount: float


class Watched:
    """An agent, and its picture for as long as somebody watches."""

    def __init__(self, agent: Agent, pulse: Pulse) -> None:
        self.agent = agent
        self._pulse = pulse
        self._shares = Shares()  # only changed inside of a read, one at a time
        self._saved = Saved(0, math.nan)
        self._frame = b""
        self._news = asyncio.Event()
        self._n_watchers = 0
        self._task: asyncio.Task[None] | None = None

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the picture whenever it is a new one; a slow watcher misses some, never the last."""
        self._n_watchers += 1
        if self._task is None:
            self._frame = b""
            self._task = asyncio.create_task(self._follow())
        task, shown = self._task, b""
        try:
            while not self._pulse.stopping.is_set():
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
        """Wait for a new picture, but not for ever; end with who draws it."""
        news = asyncio.ensure_future(self._news.wait())
        await asyncio.wait({news, task}, timeout=QUIET, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()
        if task.done():
            task.result()

    async def _follow(self) -> None:
        """Draw a picture, wait for something to happen, and draw again."""
        planning: asyncio.Task[None] | None = None
        while not self._pulse.stopping.is_set():
            began, spent, n_events, saved = time.monotonic(), 0.0, 0, self._saved
            try:
                state = await run_in_threadpool(self.agent.store.read, self._read)
                content, spent = await run_in_threadpool(self._draw, state, saved.amount)
                self._publish("report", content)
                n_events = state.n_events if state.whole else 0
                if state.n_seen > GROWTH * saved.n_seen and (planning is None or planning.done()):
                    planning = asyncio.create_task(run_in_threadpool(self._plan, state))
            except OSError:
                self._publish("trouble", {"message": "the store cannot be used at the moment"})
            await asyncio.sleep(max(PAUSE, spent / LOAD) - (time.monotonic() - began))
            until = began + QUIET
            while (
                self._saved is saved
                and time.monotonic() < until
                and not self._pulse.stopping.is_set()
            ):
                if await self._pulse.beyond(self.agent.name, n_events, PAUSE):
                    break

    def _publish(self, kind: str, content: dict[str, Any]) -> None:
        self._frame = f"event: {kind}\ndata: {json.dumps(content)}\n\n".encode()
        self._news.set()
        self._news = asyncio.Event()

    def _read(self, database: Database) -> State:
        """Count the pulls that have come, and return how far everything is."""
        number = self.agent._number(database)
        [(n_events, n_asks, n_arms, n_seen)] = database.rows(
            "select a.n_events, a.n_asks, count(*), sum(r.n_pulls + r.n_looks) from agents a "
            "join arms r on r.agent = a.agent where a.agent = ? group by a.n_events, a.n_asks",
            number,
        )
        events = read_events(database, number, max(0, n_events - RECENT))
        whole = self._shares.read(database, number, n_arms)
        return State(n_events, n_asks, int(n_seen), events, whole)

    def _draw(self, state: State, saved: float) -> tuple[dict[str, Any], float]:
        """Return the picture as plain data, and how much of a processor's time it took."""
        began = time.thread_time()
        shown = plain(report(self.agent, saved=saved))
        names = [arm["arm"] for arm in shown["arms"]]
        content = {
            "at": max(time.time(), state.events[-1].at),
            "report": shown,
            "shares": {**self._shares.shown(names, LAYERS), "whole": state.whole},
            "events": [event._asdict() for event in reversed(state.events)],
        }
        return content, time.thread_time() - began

    def _plan(self, state: State) -> None:
        """Ask the planner what the looks have saved: that takes longer than all the rest."""
        amount = looks_saved(self.agent.arms(), state.n_asks, self.agent.scale)
        self._saved = Saved(state.n_seen, amount)
