"""Who plays jobs: threads of this process, or any executor, such as that of a cluster.

At most four payloads of work for each worker are under way, so that neither an engine's queue nor the
results that wait here grow with the work. A payload takes some seconds, for to send one takes
milliseconds, or brings some megabytes. One that is lost with its worker is played again: jobs are
deterministic, so that it does not matter whether it had been played.
"""

import os
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from kibitz._validation import EXECUTOR, invalid, short_repr
from kibitz.engine.loop import RUN, STAGE, STOP
from kibitz.simulation.jobs import Job, Played, expected_seconds, new_control, play, result_bytes
from kibitz.simulation.options import Executors
from kibitz.simulation.payload import Answer, Payload, check_answer, pack, play_payload

IN_FLIGHT = 4  # payloads of work for each worker
SECONDS = 2.0  # that a payload should take
LARGEST = 2**22  # bytes of what a payload brings, if it is not one job
MANY = 32  # workers: from more of them too many answers would come, so that theirs take longer
TRIES = 4  # of a payload: the first, and three more if it is lost
ASK_AGAIN = 5.0  # seconds after which an executor is asked again how many workers it has
#: What engines say of jobs that were lost, by the names of the errors: none of them is imported here.
LOST = {"BrokenExecutor", "CancelledError", "KilledWorker", "TerminatedWorkerError"}


def play_all(
    jobs: list[Job],
    workers: int | None,
    progress: Callable[[float], None],
    executor: Executor | None = None,
) -> Generator[tuple[Job, Played], None, None]:
    """Play jobs in parallel and yield each when it is done.

    `workers` is how many threads to use, or how many workers of an executor: all unless given.
    `progress` is told the share of all stages played so far, some ten times a second. An exception,
    Ctrl-C for one, cancels what waits and stops threads within moments.
    """
    if not jobs:
        return
    crew = _Threads(workers or cores()) if executor is None else _Workers(executor, workers)
    total, done = sum(map(n_stages, jobs)), 0
    bundles = crew.bundled(jobs)
    waiting: dict[Future[Any], list[Job]] = {}
    try:
        while True:
            while len(waiting) < IN_FLIGHT * crew.n_workers():
                bundle = next(bundles, None)
                if bundle is None:
                    break
                waiting[crew.hand_out(bundle)] = bundle
            if not waiting:
                return
            finished, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
            for future in sorted(finished, key=_failed):  # first what was played
                bundle = waiting.pop(future)
                again = crew.handed_out_again(future)
                if again is not None:
                    waiting[again] = bundle
                    continue
                for job, played in zip(bundle, crew.results(future), strict=True):
                    done += n_stages(job)
                    yield job, played
            progress((done + crew.under_way()) / total)
    finally:
        crew.leave(waiting)


def _failed(future: Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


def n_stages(job: Job) -> int:
    """Return how many stages a job plays."""
    return (job.last - job.first) * job.horizon


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# -------------------------------------------------------------------------------------- executors


@contextmanager
def opened(executor: Executors | None) -> Iterator[Executor | None]:
    """Give an executor as it is, or one that a function makes, which is shut down in the end."""
    if executor is None or isinstance(executor, Executor):
        yield executor
        return
    if not callable(executor):
        raise invalid("executor", EXECUTOR, executor)
    made = Remade(executor)
    try:
        yield made
    finally:
        made.shutdown()


class Remade(Executor):
    """An executor that is made by a function, and made anew if it has lost its workers."""

    def __init__(self, make: Callable[[], Executor]) -> None:
        self.make = make
        self.made: Executor | None = None

    @property
    def inner(self) -> Executor:
        """The executor that is used now, made when there is first something to play."""
        if self.made is None:
            made = self.make()
            if not isinstance(made, Executor):
                raise invalid("executor", EXECUTOR, made)
            self.made = made
        return self.made

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand something out."""
        try:
            return self.inner.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            self.inner.shutdown(wait=False)
            self.made = None
            return self.inner.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Free the workers."""
        if self.made is not None:
            self.made.shutdown(wait=wait)  # what waits was cancelled; not all could do that here


def workers_of(executor: Executor) -> int:
    """Return how many jobs an executor plays at a time; the cores of this machine if it is silent."""
    if isinstance(executor, Remade):
        return workers_of(executor.inner)
    client = getattr(executor, "_client", None)  # of Dask, whose workers come and go
    if client is not None:
        return max(1, sum(client.nthreads().values()))
    for name in ("num_workers", "_max_workers"):  # of MPI, and of all others
        n = getattr(executor, name, None)
        if isinstance(n, int) and n > 0:
            return n
    return cores()


# ------------------------------------------------------------------------------------------ crews


class _Threads:
    """Threads of this process: they can be watched, and stopped."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.pool = ThreadPoolExecutor(n)
        self.playing: dict[Future[Any], tuple[Job, NDArray[Any]]] = {}

    def n_workers(self) -> int:
        return self.n

    def bundled(self, jobs: list[Job]) -> Iterator[list[Job]]:
        yield from ([job] for job in jobs)

    def hand_out(self, bundle: list[Job]) -> Future[Any]:
        (job,), control = bundle, new_control()
        future = self.pool.submit(play, job, control)
        self.playing[future] = (job, control)
        return future

    def handed_out_again(self, future: Future[Any]) -> Future[Any] | None:
        return None  # threads are not lost

    def results(self, future: Future[Any]) -> tuple[Played, ...]:
        del self.playing[future]
        return (future.result(),)

    def under_way(self) -> int:
        """Return how many stages are played of the jobs that are not done."""
        stages = 0
        for job, control in self.playing.values():
            stages += min(int(control[RUN]) * job.horizon + int(control[STAGE]), n_stages(job))
        return stages

    def leave(self, waiting: dict[Future[Any], list[Job]]) -> None:
        for _, control in self.playing.values():
            control[STOP] = 1
        self.pool.shutdown(wait=True, cancel_futures=True)


class _Workers:
    """The workers of an executor: they get payloads, may be lost, and answer."""

    def __init__(self, executor: Executor, workers: int | None) -> None:
        self.executor, self.given = executor, workers
        self.asked, self.known = -ASK_AGAIN, 1
        self.pace = 1.0  # what payloads take, over what was expected
        self.sent: dict[Future[Any], tuple[Payload, int, float]] = {}

    def n_workers(self) -> int:
        if self.given is not None:
            return self.given
        if time.monotonic() - self.asked >= ASK_AGAIN:
            self.known, self.asked = workers_of(self.executor), time.monotonic()
        return self.known

    def bundled(self, jobs: list[Job]) -> Iterator[list[Job]]:
        """Yield neighbours together, until they take long enough or bring enough."""
        bundle: list[Job] = []
        seconds = size = 0.0
        for job in jobs:
            bundle.append(job)
            seconds, size = seconds + expected_seconds(job), size + result_bytes(job)
            aim = SECONDS * max(1.0, self.n_workers() / MANY)
            if self.pace * seconds >= aim or size >= LARGEST:
                yield bundle
                bundle, seconds, size = [], 0.0, 0.0
        if bundle:
            yield bundle

    def hand_out(self, bundle: list[Job]) -> Future[Any]:
        return self._submit(pack(bundle), 1, sum(map(expected_seconds, bundle)))

    def handed_out_again(self, future: Future[Any]) -> Future[Any] | None:
        """Hand out once more what was lost; None if it was not."""
        error = CancelledError("cancelled") if future.cancelled() else future.exception()
        if not LOST & {kind.__name__ for kind in type(error).__mro__}:
            return None
        payload, attempt, expected = self.sent.pop(future)
        if attempt == TRIES:
            raise ValueError(
                f"workers must stay alive while they play, got a job that was lost {TRIES} times "
                f"({type(error).__name__}: {short_repr(str(error))})"
            ) from error
        return self._submit(payload, attempt + 1, expected)

    def _submit(self, payload: Payload, attempt: int, expected: float) -> Future[Any]:
        try:
            future = self.executor.submit(play_payload, payload, attempt)
        except (BrokenExecutor, RuntimeError) as error:
            raise ValueError(
                "executor must be one that takes jobs, or a function that makes one, got "
                f"{type(self.executor).__name__} ({error})"
            ) from error
        self.sent[future] = (payload, attempt, expected)
        return future

    def results(self, future: Future[Any]) -> tuple[Played, ...]:
        payload, _, expected = self.sent.pop(future)
        try:
            answer = future.result()
        except (ImportError, AttributeError) as error:
            raise ValueError(
                "workers must be able to import kibitz and what is played, got "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(answer, Answer):
            raise invalid("executor", "one that returns what a function returned", answer)
        played = check_answer(payload, answer)
        self.pace += 0.3 * (max(answer.seconds / expected, 1e-3) - self.pace)
        return played

    def under_way(self) -> int:
        return 0

    def leave(self, waiting: dict[Future[Any], list[Job]]) -> None:
        for future in waiting:
            future.cancel()
