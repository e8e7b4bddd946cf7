"""Group commit: one thread that does whatever has come, together, and answers when it is committed.

Requests that come while a transaction is being committed wait for the next one and share it: under
load a disk that can commit a thousand times a second carries ten thousand requests.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from kibitz.live.agent import Agent
from kibitz.live.answers import Refused
from kibitz.live.store import Damaged, Unavailable

MOST_WAITING = 5_000  # requests; more are refused
MOST_TOGETHER = 250  # in one transaction

Operation = tuple[str, tuple[Any, ...]]  # as `Agent.together` takes it


class Request(NamedTuple):
    """What is to be done: an operation of an agent, or some work that stands alone."""

    agent: Agent | None
    operation: Any
    future: "asyncio.Future[Any]"


class Writer:
    """The only one in a process who writes to the store."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[list[Request] | None] = SimpleQueue()
        self._coming: list[Request] = []  # in this round of the event loop
        self._thread: threading.Thread | None = None
        self.n_waiting = 0
        self.stopping = False  # then everything that comes is refused

    async def do(self, agent: Agent, operation: Operation) -> Any:
        """Do an operation, in one transaction with others; return its answer once committed."""
        return await self._wait(agent, operation)

    async def alone(self, work: Callable[[], Any]) -> Any:
        """Do what makes a transaction of its own; return its answer once committed."""
        return await self._wait(None, work)

    async def finish(self) -> None:
        """Do what has been accepted, and refuse the rest."""
        self.stopping = True
        if self._thread is not None:
            await asyncio.sleep(0)  # what has come in this round is handed over
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)

    def _wait(self, agent: Agent | None, operation: Any) -> "asyncio.Future[Any]":
        if self.stopping:
            raise Refused(503, "the service is being stopped")
        if self.n_waiting >= MOST_WAITING:
            raise Refused(503, f"the service must have less than {MOST_WAITING} requests waiting")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kibitz-writer", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self.n_waiting += 1
        if not self._coming:
            loop.call_soon(self._hand_over)  # after all that are ready in this round
        self._coming.append(Request(agent, operation, future))
        return future

    def _hand_over(self) -> None:
        coming, self._coming = self._coming, []
        self._queue.put(coming)

    def _run(self) -> None:
        while (requests := self._queue.get()) is not None:
            with contextlib.suppress(Empty):
                while len(requests) < MOST_TOGETHER:
                    more = self._queue.get_nowait()
                    if more is None:
                        self._queue.put(None)  # for the next round
                        break
                    requests += more
            answers = committed(requests)
            with contextlib.suppress(RuntimeError):  # the loop is gone, and who asked with it
                loop = requests[0].future.get_loop()
                loop.call_soon_threadsafe(self._deliver, requests, answers)

    def _deliver(self, requests: Sequence[Request], answers: Sequence[Any]) -> None:
        self.n_waiting -= len(requests)
        for request, answer in zip(requests, answers, strict=True):
            if request.future.done():
                continue
            if isinstance(answer, Exception):
                request.future.set_exception(answer)
            else:
                request.future.set_result(answer)


def committed(requests: Sequence[Request]) -> list[Any]:
    """Do all of it, the operations of one agent in one transaction; return answers or errors."""
    answers: list[Any] = [None] * len(requests)
    together: dict[Agent, list[int]] = {}
    for place, request in enumerate(requests):
        if request.agent is None:
            answers[place] = _tried(request.operation)
        else:
            together.setdefault(request.agent, []).append(place)
    for agent, places in together.items():
        operations = [requests[place].operation for place in places]
        found = _tried(agent.together, operations, each=True)
        if isinstance(found, Unavailable | Damaged):
            found = [found] * len(places)
        elif isinstance(found, Exception):  # of one of them, which took the others with it
            found = [_tried(_alone, agent, operation) for operation in operations]
        for place, answer in zip(places, found, strict=True):
            answers[place] = answer
    return answers


def _alone(agent: Agent, operation: Operation) -> Any:
    return agent.together([operation])[0]


def _tried(work: Callable[..., Any], *values: Any, **options: Any) -> Any:
    try:
        return work(*values, **options)
    except Exception as error:
        return error
