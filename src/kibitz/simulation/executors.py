"""Parallel execution of jobs, by threads of this process or by an executor, for example of a cluster.

Jobs of Python policies are played after all other jobs, by other processes of this machine
(`simulation.processes`), or by one thread of this process if they are short.

At most four payloads per worker are in flight, so neither the executor's queue nor the waiting
results grow with the number of jobs. Sending a payload takes milliseconds; a payload therefore
bundles jobs that take a few seconds or return a few megabytes. A payload that is lost with its worker
is submitted again. Jobs are deterministic, so playing a job twice does no harm.
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
from functools import partial
from typing import Any

from numpy.typing import NDArray

from kibitz._validation import EXECUTOR, invalid, short_repr
from kibitz.engine.loop import RUN, STAGE, STOP
from kibitz.simulation.jobs import Job, Outcome, estimate_bytes, estimate_seconds, new_control, play
from kibitz.simulation.options import Executors
from kibitz.simulation.payload import Answer, Payload, check_answer, pack, play_payload
from kibitz.simulation.processes import LocalProcesses

MAX_PAYLOADS_PER_WORKER = 4  # largest number of payloads in flight
PAYLOAD_SECONDS = 2.0  # target duration of a payload
SHORT_SECONDS = 0.5  # Python policies play in this process up to this estimated duration
MAX_PAYLOAD_BYTES = 2**22  # size of the results of a payload with several jobs
MANY_WORKERS = 32  # with more workers, payloads are longer, to limit the number of answers
MAX_ATTEMPTS = 4  # a payload is played once, and up to three more times if it is lost
RECOUNT_SECONDS = 5.0  # shortest time between two counts of an executor's workers
#: Errors that executors raise for lost jobs, by name, because their libraries are not imported.
LOST_JOB_ERRORS = {"BrokenExecutor", "CancelledError", "KilledWorker", "TerminatedWorkerError"}


def play_all(
    jobs: list[Job],
    workers: int | None,
    progress: Callable[[float], None],
    executor: Executor | None = None,
) -> Generator[tuple[Job, Outcome], None, None]:
    """Play jobs in parallel; yield each job with its outcome as soon as it is done.

    `workers` is the number of threads, or of workers of the executor; None means all cores or all
    workers. `progress` is called about ten times a second with the share of all stages played so far.
    An exception, such as Ctrl-C, cancels waiting jobs and stops threads at once.
    """
    n_total, n_done = sum(map(count_stages, jobs)), 0
    for make_team, team_jobs in _assign_teams(jobs, workers, executor):
        team = make_team()
        bundles = team.make_bundles(team_jobs)
        pending_bundles: dict[Future[Any], list[Job]] = {}
        try:
            while True:
                while len(pending_bundles) < MAX_PAYLOADS_PER_WORKER * team.n_workers():
                    bundle = next(bundles, None)
                    if bundle is None:
                        break
                    pending_bundles[team.submit(bundle)] = bundle
                if not pending_bundles:
                    break
                done_futures, _ = wait(pending_bundles, timeout=0.1, return_when=FIRST_COMPLETED)
                for future in sorted(done_futures, key=_has_failed):  # successful futures first
                    bundle = pending_bundles.pop(future)
                    new_future = team.resubmit_if_lost(future)
                    if new_future is not None:
                        pending_bundles[new_future] = bundle
                        continue
                    for job, outcome in zip(bundle, team.results(future), strict=True):
                        n_done += count_stages(job)
                        yield job, outcome
                progress((n_done + team.stages_in_progress()) / n_total)
        finally:
            team.stop(pending_bundles)


def _assign_teams(
    jobs: list[Job], workers: int | None, executor: Executor | None
) -> Iterator[tuple[Callable[[], "_Threads | _Workers"], list[Job]]]:
    """Divide jobs among teams of workers.

    Yield a pair for each team: a function that creates the team, and the jobs of the team.
    """
    if not jobs:
        return
    if executor is not None:
        yield partial(_Workers, executor, workers), jobs
        return
    n = workers or count_cores()
    compiled_jobs = [job for job in jobs if not job.policy.is_python]
    if compiled_jobs:
        yield partial(_Threads, n), compiled_jobs
    python_jobs = [job for job in jobs if job.policy.is_python]
    if python_jobs:
        is_short = sum(map(estimate_seconds, python_jobs)) < SHORT_SECONDS
        yield partial(_Threads, 1) if is_short or n == 1 else partial(_Processes, n), python_jobs


def _has_failed(future: Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


def count_stages(job: Job) -> int:
    """Return the number of stages in all runs of a job."""
    return (job.end_run - job.first_run) * job.horizon


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# -------------------------------------------------------------------------------------- executors


@contextmanager
def open_executor(executor: Executors | None) -> Iterator[Executor | None]:
    """Yield the executor that plays the jobs, or None if threads of this process play them.

    If `executor` is a function, yield an executor that the function creates, and shut this executor
    down at the end.
    """
    if executor is None or isinstance(executor, Executor):
        yield executor
        return
    if not callable(executor):
        raise invalid("executor", EXECUTOR, executor)
    restarting_executor = RestartingExecutor(executor)
    try:
        yield restarting_executor
    finally:
        restarting_executor.shutdown()


class RestartingExecutor(Executor):
    """An executor that a function creates; if it breaks, the function creates another executor."""

    def __init__(self, make: Callable[[], Executor]) -> None:
        self.make = make
        self._executor: Executor | None = None

    @property
    def executor(self) -> Executor:
        """The executor that the function created; it is created at the first use."""
        if self._executor is None:
            new_executor = self.make()
            if not isinstance(new_executor, Executor):
                raise ValueError(
                    "the function given as executor must return a concurrent.futures Executor, "
                    f"got {short_repr(new_executor)}"
                )
            self._executor = new_executor
        return self._executor

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call; create a new executor if the current executor is broken."""
        try:
            return self.executor.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            self.executor.shutdown(wait=False)
            self._executor = None
            return self.executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut down the current executor."""
        if self._executor is not None:
            self._executor.shutdown(wait=wait)  # waiting calls are already cancelled


def count_workers(executor: Executor) -> int:
    """Return the number of workers of an executor; if unknown, the number of local cores."""
    if isinstance(executor, RestartingExecutor):
        return count_workers(executor.executor)
    client = getattr(executor, "_client", None)  # Dask, whose number of workers may change
    if client is not None:
        return max(1, sum(client.nthreads().values()))
    for name in ("num_workers", "_max_workers"):  # MPI and the standard library
        n_workers = getattr(executor, name, None)
        if isinstance(n_workers, int) and n_workers > 0:
            return n_workers
    return count_cores()


# ------------------------------------------------------------------------------------------ teams


class _Threads:
    """A team of threads of this process. They report progress and can be stopped."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.pool = ThreadPoolExecutor(n)
        self.running: dict[Future[Any], tuple[Job, NDArray[Any]]] = {}

    def n_workers(self) -> int:
        return self.n

    def make_bundles(self, jobs: list[Job]) -> Iterator[list[Job]]:
        yield from ([job] for job in jobs)

    def submit(self, bundle: list[Job]) -> Future[Any]:
        (job,), control = bundle, new_control()
        future = self.pool.submit(play, job, control)
        self.running[future] = (job, control)
        return future

    def resubmit_if_lost(self, future: Future[Any]) -> Future[Any] | None:
        return None  # threads cannot be lost

    def results(self, future: Future[Any]) -> tuple[Outcome, ...]:
        del self.running[future]
        return (future.result(),)

    def stages_in_progress(self) -> int:
        """Return the number of stages played so far in unfinished jobs."""
        stages = 0
        for job, control in self.running.values():
            stages += min(int(control[RUN]) * job.horizon + int(control[STAGE]), count_stages(job))
        return stages

    def stop(self, bundles: dict[Future[Any], list[Job]]) -> None:
        for _, control in self.running.values():
            control[STOP] = 1
        self.pool.shutdown(wait=True, cancel_futures=True)


class _Workers:
    """The team of an executor's workers. They receive payloads and may be lost."""

    def __init__(self, executor: Executor, workers: int | None) -> None:
        self.executor, self.n_limit = executor, workers
        self.counted_at, self.n_counted = -RECOUNT_SECONDS, 1
        self.pace = 1.0  # the actual duration of payloads divided by the estimated duration
        self.pending: dict[Future[Any], tuple[Payload, int, float]] = {}

    def n_workers(self) -> int:
        if self.n_limit is not None:
            return self.n_limit
        if time.monotonic() - self.counted_at >= RECOUNT_SECONDS:
            self.n_counted, self.counted_at = count_workers(self.executor), time.monotonic()
        return self.n_counted

    def make_bundles(self, jobs: list[Job]) -> Iterator[list[Job]]:
        """Yield lists of consecutive jobs, each up to the target duration or size of a payload."""
        bundle: list[Job] = []
        seconds = size = 0.0
        for job in jobs:
            bundle.append(job)
            seconds, size = seconds + estimate_seconds(job), size + estimate_bytes(job)
            target = PAYLOAD_SECONDS * max(1.0, self.n_workers() / MANY_WORKERS)
            if self.pace * seconds >= target or size >= MAX_PAYLOAD_BYTES:
                yield bundle
                bundle, seconds, size = [], 0.0, 0.0
        if bundle:
            yield bundle

    def submit(self, bundle: list[Job]) -> Future[Any]:
        return self._submit(pack(bundle), 1, sum(map(estimate_seconds, bundle)))

    def resubmit_if_lost(self, future: Future[Any]) -> Future[Any] | None:
        """Submit a lost payload again and return its future; return None for other payloads."""
        error = CancelledError("cancelled") if future.cancelled() else future.exception()
        if not LOST_JOB_ERRORS & {kind.__name__ for kind in type(error).__mro__}:
            return None
        payload, attempt, estimate = self.pending.pop(future)
        if attempt == MAX_ATTEMPTS:
            raise ValueError(
                f"a job was lost {MAX_ATTEMPTS} times because its worker died "
                f"({type(error).__name__}: {short_repr(str(error))}); check the worker's log"
            ) from error
        return self._submit(payload, attempt + 1, estimate)

    def _submit(self, payload: Payload, attempt: int, estimate: float) -> Future[Any]:
        try:
            future = self.executor.submit(play_payload, payload, attempt)
        except (BrokenExecutor, RuntimeError) as error:
            raise ValueError(
                f"the executor {type(self.executor).__name__} does not accept jobs ({error}); pass "
                "a working executor, or a function that returns an executor"
            ) from error
        self.pending[future] = (payload, attempt, estimate)
        return future

    def results(self, future: Future[Any]) -> tuple[Outcome, ...]:
        payload, _, estimate = self.pending.pop(future)
        try:
            answer = future.result()
        except (ImportError, AttributeError) as error:
            raise ValueError(
                "a worker cannot import kibitz or the policy; install both on it "
                f"({type(error).__name__}: {error})"
            ) from error
        if not isinstance(answer, Answer):
            raise ValueError(
                f"the executor returned {short_repr(answer)} instead of the result of the call; "
                "use another executor"
            )
        outcomes = check_answer(payload, answer)
        self.pace += 0.3 * (max(answer.seconds / estimate, 1e-3) - self.pace)
        return outcomes

    def stages_in_progress(self) -> int:
        return 0

    def stop(self, bundles: dict[Future[Any], list[Job]]) -> None:
        for future in bundles:
            future.cancel()


class _Processes(_Workers):
    """A team of processes of this machine, which play Python policies."""

    def __init__(self, n: int) -> None:
        super().__init__(LocalProcesses(n), n)

    def make_bundles(self, jobs: list[Job]) -> Iterator[list[Job]]:
        yield from ([job] for job in jobs)  # an object may be much slower than estimated

    def stop(self, bundles: dict[Future[Any], list[Job]]) -> None:
        super().stop(bundles)
        self.executor.shutdown(cancel_futures=True)
