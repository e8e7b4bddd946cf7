"""A task: what `simulate` and `sweep` are asked for, checked, cut into jobs, and computed."""

import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._files import checked_folder, checked_target
from kibitz._validation import between, one_of, refused, whole
from kibitz.engine.background import CAN_COMPILE
from kibitz.engine.environment import looks_of
from kibitz.engine.leap import can_leap
from kibitz.model.feedback import Feedback, checked_feedback
from kibitz.model.problem import Problem, checked_problem
from kibitz.policies.check import check_promises
from kibitz.policies.policy import Policy
from kibitz.policies.spec import named_spec
from kibitz.simulation.axes import Key, Swept
from kibitz.simulation.chunks import LARGEST, Chunks
from kibitz.simulation.executors import (
    IN_FLIGHT,
    SECONDS,
    Executors,
    cores,
    opened,
    play_all,
    workers_of,
)
from kibitz.simulation.identity import setting_of
from kibitz.simulation.jobs import (
    LEAP_PAYS,
    Job,
    expected_seconds,
    stage_seconds,
)
from kibitz.simulation.kernels import (
    Progress,
    kernels_used,
    prepare,
    specialise_in_background,
    worth_specialising,
)
from kibitz.simulation.results import Gathering, Table
from kibitz.simulation.stages import checked_stages
from kibitz.simulation.summary import STATISTICS, summarised
from kibitz.simulation.watch import Watch, Watching

if TYPE_CHECKING:
    import xarray

Workers = Callable[[], int]
Point = tuple[Problem, Feedback, dict[str, Policy], int]  # what is played, and its horizon

SAVE_SECONDS = 20.0  # how much work a crash of the machine may lose
PATIENCE_SECONDS = 2 * 86400.0
LEAST_STAGES = 20_000  # of a job, where there are as many: to begin one takes a millisecond
JOB_STAGES = 1_000_000  # of a job: worth a thread, and not long to wait for
FEW_ARMS = 10
LONGEST_SECONDS = 30.0  # of a job whose runs must stay together
MOST_BYTES = 2**28  # of the runs of such a job, to be summarised
MOST_RUNS = 2**32 - 1  # a run is one word of its seed
MEMORY = 2**34  # bytes that are taken to be there where the system does not tell
IN_CHUNKS = ".zarr"  # how the name of a file ends that is a folder of chunks


class Task(NamedTuple):
    """What is to be computed, as the user gave it."""

    swept: Swept
    points: dict[tuple[Any, ...], Point]  # by the values of what is swept
    runs: int
    seed: int
    stages: ArrayLike | None
    threads: int | None
    file: str | os.PathLike[str] | None
    engine: str
    error: float
    executor: Executors | None
    keep: str
    loop: str


@contextmanager
def rehearsal() -> Iterator[list[Job]]:
    """Have what is simulated in the block not played but collected: a job of each cell."""
    jobs: list[Job] = []
    token = _collected.set(jobs)
    try:
        yield jobs
    finally:
        _collected.reset(token)


_collected: ContextVar[list[Job] | None] = ContextVar("collected", default=None)


def computed(task: Task, progress: Progress | None, watch: Watch | None = None) -> "xarray.Dataset":
    """Play what is missing, and return all that was asked for."""
    task = _checked(task)
    for name, function in {"progress": progress, "watch": watch}.items():
        if not (function is None or callable(function)):
            raise refused(name, "a function", function)
    if watch is not None and task.keep != "runs":
        raise refused("keep", "'runs' where somebody watches", task.keep)
    tell: Progress = progress if progress is not None else lambda what, share: None
    stages = checked_stages(task.stages, [point[3] for point in task.points.values()])
    path = _checked_path(task.file)
    with opened(task.executor) as executor:
        workers = partial(_workers, task.threads, executor)
        wanted = _cells(task, stages, workers)
        if (collected := _collected.get()) is not None:
            collected.extend(wanted.values())
            return import_module("xarray").Dataset()
        n_arms = next(iter(task.points.values()))[0].n_arms
        table: Table | Chunks
        if path is not None and path.suffix == IN_CHUNKS:
            block = partial(_block, task.runs, list(wanted.values()), workers)
            table = Chunks(path, task.swept, task.keep, stages, n_arms, block)
        else:
            _check_memory(task, len(wanted), stages.size, n_arms)
            table = Table(path, task.swept, task.keep, stages, n_arms)
        table.ask({key: _setting(job) for key, job in wanted.items()}, task.runs)
        jobs = [
            job
            for key, whole_cell in wanted.items()
            for job in _cut(
                whole_cell, table, table.missing(key, task.runs), len(wanted), workers, executor
            )
        ]
        generic = prepare(jobs, tell)
        n_compilers = workers() if generic and executor is not None else 1
        worth = worth_specialising(generic, jobs, n_compilers)
        if executor is not None or not CAN_COMPILE:  # the process that plays compiles
            policies = {id(job.policy) for job in worth.values()}
            jobs = [j._replace(loop="final") if id(j.policy) in policies else j for j in jobs]
            worth = {}
        if watch is not None:
            jobs.sort(key=lambda job: job.first)  # so that all policies get on together
        watching = Watching(watch, table, list(wanted), task.runs)
        with specialise_in_background(list(worth.values())):
            _play(task, jobs, table, executor, tell, watching)
    data = table.result(list(wanted), task.runs)
    data.encoding["loop"] = kernels_used(jobs, generic, worth)
    return data


def _play(
    task: Task,
    jobs: list[Job],
    table: Table | Chunks,
    executor: Executor | None,
    tell: Progress,
    watching: Watching,
) -> None:
    """Play jobs and put what comes of them where it belongs."""
    saved = time.monotonic()
    gathering = Gathering(task.runs)
    try:
        with closing(
            play_all(jobs, task.threads, lambda share: tell("simulating", share), executor)
        ) as all_played:
            for job, played in all_played:
                if task.keep == "runs" or job.summary:
                    table.put(job.label, job.first, played)
                elif (runs := gathering.add(job, played)) is not None:
                    table.put(job.label, 0, summarised(runs))
                watching.show()
                if time.monotonic() - saved > SAVE_SECONDS:
                    table.save()
                    saved = time.monotonic()
    except KeyboardInterrupt:
        watching.show(now=True)
        raise
    finally:
        table.save()


# --------------------------------------------------------------------------------------- the cells


def _workers(threads: int | None, executor: Executor | None) -> int:
    """Return how many jobs are played at a time. To ask makes an executor that can be made."""
    return threads or (cores() if executor is None else workers_of(executor))


def _cells(task: Task, stages: NDArray[np.int64], workers: Workers) -> dict[Key, Job]:
    """Return the cells that are asked for, as jobs of all their runs."""
    cells: dict[Key, Job] = {}
    for value, (problem, feedback, policies, horizon) in task.points.items():
        looks_of(feedback, problem.gaps, horizon)  # refuses what does not fit the problem
        own = stages[: np.searchsorted(stages, horizon) + 1]  # not a copy: there may be many
        for label, policy in policies.items():
            _check_combination(policy, problem, label, horizon)
            leap = task.engine != "step" and can_leap(policy, problem, feedback)
            leap = leap and (task.engine == "leap" or horizon >= LEAP_PAYS)
            what = (policy, problem, feedback, horizon, own, task.seed, 0, task.runs)
            cells[value, label] = Job((value, label), *what, leap, task.error, loop=task.loop)
            _check_patience(cells[value, label], workers)
    return cells


def _setting(job: Job) -> dict[str, Any]:
    return setting_of(
        job.problem, job.feedback, job.policy, job.horizon, job.seed, job.leap, job.error
    )


def _cut(
    cell: Job,
    table: Table | Chunks,
    missing: NDArray[np.int64],
    n_cells: int,
    workers: Workers,
    executor: Executor | None,
) -> Iterator[Job]:
    """Cut the runs of a cell that are missing into jobs of neighbours, each a fair piece of work."""
    if missing.size == 0:
        return
    if table.keep == "summary" and _fits_a_job(cell, n_cells, workers):
        yield cell._replace(summary=True)
        return
    if isinstance(table, Chunks) and table.keep == "runs":
        size = table.block
    elif executor is not None:
        size = math.ceil(cell.last * SECONDS / expected_seconds(cell))
    else:
        stages = min(cell.horizon, LEAP_PAYS) if cell.leap else cell.horizon
        fair = max(math.ceil(LEAST_STAGES / stages), math.ceil(missing.size / (4 * workers())))
        arms = max(1, cell.problem.n_arms // FEW_ARMS)  # a stage takes as many times longer
        size = max(1, min(JOB_STAGES // (arms * stages), fair))
    for block in np.split(missing, np.flatnonzero(np.diff(missing) != 1) + 1):
        for start in range(0, block.size, size):
            part = block[start : start + size]
            yield cell._replace(first=int(part[0]), last=int(part[-1]) + 1)


def _fits_a_job(cell: Job, n_cells: int, workers: Workers) -> bool:
    """Return whether whoever plays a cell can summarise it: it is short, and others have theirs."""
    small = 8 * cell.last * cell.stages.size <= MOST_BYTES
    short = expected_seconds(cell) <= LONGEST_SECONDS
    return small and short and n_cells >= IN_FLIGHT * workers()


def _block(runs: int, cells: list[Job], workers: Workers) -> int:
    """Return how many runs make a chunk: of a fair size and time, and enough for all workers."""
    slowest = max(expected_seconds(cell) for cell in cells) / runs
    return max(
        1,
        min(
            runs,
            LARGEST // (8 * max(cell.stages.size for cell in cells)),
            math.ceil(LONGEST_SECONDS / slowest),
            math.ceil(runs / math.ceil(IN_FLIGHT * workers() / len(cells))),
        ),
    )


# -------------------------------------------------------------------------------- what is refused


def _checked(task: Task) -> Task:
    """Return a task whose numbers are what they must be."""
    points = {
        value: (checked_problem(p), checked_feedback(f), policies, whole(horizon, "horizon", 1))
        for value, (p, f, policies, horizon) in task.points.items()
    }
    numbers = {point[0].n_arms for point in points.values()}
    if len(numbers) > 1:
        raise refused("problem", "one with the same number of arms at each value", numbers)
    return task._replace(
        points=points,
        runs=whole(task.runs, "runs", 1, MOST_RUNS),
        seed=whole(task.seed, "seed"),
        threads=None if task.threads is None else whole(task.threads, "threads", 1, 2**16),
        engine=one_of(task.engine, "engine", ("auto", "step", "leap")),
        error=between(task.error, "error", 1e-12, 1e-3),
        keep=one_of(task.keep, "keep", ("runs", "summary")),
        loop=one_of(task.loop, "loop", ("auto", "draft", "final")),
    )


def _checked_path(file: str | os.PathLike[str] | None) -> Path | None:
    if file is None:
        return None
    if not (isinstance(file, str | os.PathLike) and str(file).endswith(IN_CHUNKS)):
        return checked_target(file, "file")
    if find_spec("zarr") is None:
        raise ValueError("zarr must be installed (pip install 'kibitz[zarr]'), got nothing")
    path = checked_folder(file, "file")
    if not path.parent.is_dir():
        raise refused("file", "in a folder that exists", str(file))
    return path


def _check_memory(task: Task, n_cells: int, n_stages: int, n_arms: int) -> None:
    """Refuse a result that does not fit in memory."""
    rows = task.runs if task.keep == "runs" else len(STATISTICS)
    size = 8 * n_cells * rows * (n_stages + 2 * n_arms + 2)
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        there = MEMORY
    if size > there / 2:
        raise ValueError(
            f"runs must be so few that the result fits in memory, got {task.runs}: it would take "
            f"{size / 2**30:.3g} GiB of {there / 2**30:.3g} (a file that ends in .zarr need not fit)"
        )


def _check_patience(cell: Job, workers: Workers) -> None:
    """Refuse what would take for ever, with an estimate of the time."""
    each, horizon = stage_seconds(cell.feedback), cell.horizon
    seconds = each * horizon
    if cell.leap:  # hardly anything, but for tied best arms, between which a policy keeps alternating
        ties = cell.problem.optimal.sum() > 1
        seconds = 1e-5 * horizon**0.7 if ties else 1.0 + each * min(horizon, LEAP_PAYS)
    seconds *= cell.last
    if seconds > PATIENCE_SECONDS and (seconds := seconds / workers()) > PATIENCE_SECONDS:
        raise ValueError(
            f"horizon must be one that can be played, got {horizon}: the runs of {cell.label[1]} "
            f"would take about {seconds / 86400:.2g} days, "
            f"{'leaping' if cell.leap else 'stage by stage'}"
        )


def _check_combination(policy: Policy, problem: Problem, label: str, horizon: int) -> None:
    if named_spec(policy) is None:
        check_promises(policy)
    low, high = problem.support
    if policy.unit_rewards and not (low >= 0 and high <= 1):
        raise ValueError(
            f"{label} must be played with rewards in [0, 1], got {problem.law} rewards "
            f"between {low:g} and {high:g}"
        )
