"""Group commit: one thread commits all queued requests of an agent in one transaction.

A request is answered after its commit. Requests that arrive during a commit share the next commit.
Under load, a disk that makes a thousand commits per second therefore handles ten thousand requests
per second.

A request for many decisions, or with many reports, takes long. Such requests are committed after the
small requests, about `MAX_GROUP` decisions at a time, so a small request waits for one large request
at most.
"""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from kibitz._errors import StoreDamaged, StoreUnavailable
from kibitz.live.agent.agent import Agent
from kibitz.live.agent.transaction import Operation
from kibitz.live.service.auth import RequestError
from kibitz.live.service.metrics import Metrics

MAX_WAITING = 5_000  # queued decisions and reports, separately for small and large requests
MAX_GROUP = 250  # decisions and reports after which a transaction takes no further request
MAX_SMALL = 10  # decisions or reports in a small request
STOPPING = "the service is stopping; retry"


class Request(NamedTuple):
    """An operation of `agent` or, if `agent` is None, a function that runs its own transaction.

    `size` is the number of its decisions or reports.
    """

    agent: Agent | None
    operation: Any
    future: "asyncio.Future[Any]"
    size: int = 1


class Writer:
    """A queue of requests, and the only thread of the process that writes to the store."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._queue: SimpleQueue[list[Request] | None] = SimpleQueue()
        self._incoming: list[Request] = []  # requests of this iteration of the event loop
        self._thread: threading.Thread | None = None
        self.n_waiting = 0  # queued decisions and reports
        self._n_large = 0  # queued decisions and reports of large requests
        self.stopping = False  # whether new requests are rejected

    def submit(self, agent: Agent, name: str, *values: Any, size: int = 1) -> "asyncio.Future[Any]":
        """Queue an operation; the future gets its answer after the commit of the group."""
        return self._enqueue(agent, (name, values), size)

    def submit_function(self, work: Callable[[], Any], size: int = 1) -> "asyncio.Future[Any]":
        """Queue a function that runs its own transaction; the future gets its result."""
        return self._enqueue(None, work, size)

    async def finish(self) -> None:
        """Reject new requests and finish all accepted requests."""
        self.stopping = True
        if self._thread is not None:
            await asyncio.sleep(0)  # let this iteration's requests reach the queue
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)

    def _enqueue(self, agent: Agent | None, operation: Any, size: int) -> "asyncio.Future[Any]":
        if self.stopping:
            raise RequestError(503, STOPPING)
        # Small requests overtake large requests, so each kind has its own limit.
        is_large = size > MAX_SMALL
        n_before = self._n_large if is_large else self.n_waiting - self._n_large
        if n_before and n_before + size > MAX_WAITING:
            raise RequestError(503, f"{n_before} decisions and reports are already waiting; retry")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kibitz-writer", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self.n_waiting += size
        self._n_large += size if is_large else 0
        self._metrics.queue.set(self.n_waiting)
        if not self._incoming:
            loop.call_soon(self._flush)  # after all requests of this iteration
        self._incoming.append(Request(agent, operation, future, size))
        return future

    def _flush(self) -> None:
        incoming, self._incoming = self._incoming, []
        self._queue.put(incoming)

    def _run(self) -> None:
        large_requests: deque[Request] = deque()
        is_finished = False
        while large_requests or not is_finished:
            small_requests: list[Request] = []
            while len(small_requests) < MAX_GROUP and not is_finished:
                try:
                    incoming = self._queue.get(block=not (small_requests or large_requests))
                except Empty:
                    break
                is_finished = incoming is None
                for request in incoming or ():
                    is_small = request.size <= MAX_SMALL
                    (small_requests if is_small else large_requests).append(request)
            self._commit(small_requests)
            group: list[Request] = []
            while large_requests and sum(request.size for request in group) < MAX_GROUP:
                group.append(large_requests.popleft())
            self._commit(group)

    def _commit(self, requests: Sequence[Request]) -> None:
        if requests:
            start_time = time.perf_counter()
            answers = commit(requests)
            self._metrics.count_commit(len(requests), time.perf_counter() - start_time)
            with contextlib.suppress(RuntimeError):  # the event loop may be closed
                loop = requests[0].future.get_loop()
                loop.call_soon_threadsafe(self._deliver, requests, answers)

    def _deliver(self, requests: Sequence[Request], answers: Sequence[Any]) -> None:
        self.n_waiting -= sum(request.size for request in requests)
        self._n_large -= sum(request.size for request in requests if request.size > MAX_SMALL)
        self._metrics.queue.set(self.n_waiting)
        for request, answer in zip(requests, answers, strict=True):
            if request.future.done():
                continue
            if isinstance(answer, Exception):
                request.future.set_exception(answer)
            else:
                request.future.set_result(answer)


def commit(requests: Sequence[Request]) -> list[Any]:
    """Run all requests, with one transaction for each agent; return an answer or error for each."""
    answers: list[Any] = [None] * len(requests)
    positions_by_agent: dict[Agent, list[int]] = {}
    for position, request in enumerate(requests):
        if request.agent is None:
            answers[position] = _try(request.operation)
        else:
            positions_by_agent.setdefault(request.agent, []).append(position)
    for agent, positions in positions_by_agent.items():
        operations: list[Operation] = [requests[position].operation for position in positions]
        results = _try(agent.batch, operations, return_errors=True)
        if isinstance(results, StoreUnavailable | StoreDamaged):
            results = [results] * len(positions)
        elif isinstance(results, Exception):  # one operation failed, and all were rolled back
            results = [_try(_run_one, agent, operation) for operation in operations]
        for position, result in zip(positions, results, strict=True):
            answers[position] = result
    return answers


def _run_one(agent: Agent, operation: Operation) -> Any:
    return agent.batch([operation])[0]


def _try(work: Callable[..., Any], *values: Any, **options: Any) -> Any:
    try:
        return work(*values, **options)
    except Exception as error:
        return error
