"""Group commit: one thread commits all queued requests in one transaction, then answers them.

Requests that arrive during a commit share the next one: under load, a disk that can commit a thousand
times a second carries ten thousand requests.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from kibitz._errors import StoreDamaged, StoreUnavailable
from kibitz.live.agent.agent import Agent
from kibitz.live.agent.transaction import Operation
from kibitz.live.service.auth import Rejected

MAX_WAITING = 5_000  # requests; more are rejected
MAX_TOGETHER = 250  # requests in one transaction


class Request(NamedTuple):
    """An operation of an agent, or a function that makes a transaction of its own."""

    agent: Agent | None
    operation: Any
    future: "asyncio.Future[Any]"


class Writer:
    """The only writer to the store in a process."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[list[Request] | None] = SimpleQueue()
        self._coming: list[Request] = []  # in this iteration of the event loop
        self._thread: threading.Thread | None = None
        self.n_waiting = 0
        self.stopping = False  # then new requests are rejected

    def do(self, agent: Agent, name: str, *values: Any) -> "asyncio.Future[Any]":
        """Do an operation in one transaction with others; the answer comes after the commit."""
        return self._enqueue(agent, (name, values))

    def alone(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Call a function that makes a transaction of its own; the answer comes after the commit."""
        return self._enqueue(None, work)

    async def finish(self) -> None:
        """Do what was accepted, and reject the rest."""
        self.stopping = True
        if self._thread is not None:
            await asyncio.sleep(0)  # requests of this iteration are handed over
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)

    def _enqueue(self, agent: Agent | None, operation: Any) -> "asyncio.Future[Any]":
        if self.stopping:
            raise Rejected(503, "the service is being stopped")
        if self.n_waiting >= MAX_WAITING:
            raise Rejected(503, f"the service must have less than {MAX_WAITING} requests waiting")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kibitz-writer", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self.n_waiting += 1
        if not self._coming:
            loop.call_soon(self._hand_over)  # after all that are ready in this iteration
        self._coming.append(Request(agent, operation, future))
        return future

    def _hand_over(self) -> None:
        coming, self._coming = self._coming, []
        self._queue.put(coming)

    def _run(self) -> None:
        while (requests := self._queue.get()) is not None:
            with contextlib.suppress(Empty):
                while len(requests) < MAX_TOGETHER:
                    more = self._queue.get_nowait()
                    if more is None:
                        self._queue.put(None)  # for the next iteration
                        break
                    requests += more
            answers = commit(requests)
            with contextlib.suppress(RuntimeError):  # the event loop is closed
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


def commit(requests: Sequence[Request]) -> list[Any]:
    """Do all requests, those of one agent in one transaction; return answers or errors."""
    answers: list[Any] = [None] * len(requests)
    by_agent: dict[Agent, list[int]] = {}
    for place, request in enumerate(requests):
        if request.agent is None:
            answers[place] = _try(request.operation)
        else:
            by_agent.setdefault(request.agent, []).append(place)
    for agent, places in by_agent.items():
        operations: list[Operation] = [requests[place].operation for place in places]
        found = _try(agent.batch, operations, return_errors=True)
        if isinstance(found, StoreUnavailable | StoreDamaged):
            found = [found] * len(places)
        elif isinstance(found, Exception):  # of one of them; its transaction was rolled back
            found = [_try(_do_one, agent, operation) for operation in operations]
        for place, answer in zip(places, found, strict=True):
            answers[place] = answer
    return answers


def _do_one(agent: Agent, operation: Operation) -> Any:
    return agent.batch([operation])[0]


def _try(work: Callable[..., Any], *values: Any, **options: Any) -> Any:
    try:
        return work(*values, **options)
    except Exception as error:
        return error
