"""Play policies against a problem: open the results, play the runs that are missing, store them."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from kibitz._validation import invalid
from kibitz.model.feedback import Feedback, check_feedback
from kibitz.model.problem import Problem, check_problem
from kibitz.simulation import schedule
from kibitz.simulation.executors import cores, opened, play_all, workers_of
from kibitz.simulation.jobs import Job, Played, no_runs
from kibitz.simulation.kernels import compile_ahead, compiled
from kibitz.simulation.options import ZARR, Options, Progress, Watch, check_options, show_options
from kibitz.simulation.results.dataset import Key, Results, Swept
from kibitz.simulation.results.netcdf import NetcdfResults
from kibitz.simulation.results.summary import summarise
from kibitz.simulation.schedule import Point, Policies, Workers, label_policies

if TYPE_CHECKING:
    import xarray

SAVE_SECONDS = 20.0  # how much work a crash of the machine may lose
WATCH_SECONDS = 0.5  # between two calls of `watch`, at least
WATCH_SHARE = 0.3  # of the time that `watch` may take, at most


@show_options()
def simulate(
    problem: Problem, feedback: Feedback, policies: Policies, **options: Unpack[Options]
) -> "xarray.Dataset":
    r"""Play policies against a problem and return their regret.

    Parameters
    ----------
    problem, feedback
        What the arms pay, and who sees what.
    policies
        A policy, several, or a dict from labels to policies.
    {options}

    Returns
    -------
    xarray.Dataset
        `regret` (policy, run, stage): \sum_i \Delta_i N_i at the end of a stage; `final_regret`
        (policy, run); `n_pulls` and `n_looks` (policy, run, arm) at the horizon; `error`
        (policy, run), 0 stage by stage; and in its attributes, as JSON, the setting, the seed, the
        engine of each policy and the versions that made it.
    """
    players = label_policies(policies)
    checked = check_options(options)
    point = Point(check_problem(problem), check_feedback(feedback), players, checked["horizon"])
    return play_points(Swept(), {(): point}, checked)


def play_points(
    swept: Swept, points: dict[tuple[Any, ...], Point], options: Options
) -> "xarray.Dataset":
    """Play the runs that are missing, and return all that was asked for."""
    watch, runs = options.get("watch"), options["runs"]
    if watch is not None and options["keep"] != "runs":
        raise invalid("keep", "'runs' where somebody watches", options["keep"])
    tell: Progress = options["progress"] or (lambda what, share: None)
    stages = schedule.resolve_stages(options["stages"], [point.horizon for point in points.values()])
    with opened(options["executor"]) as executor:
        workers = partial(_n_workers, options["threads"], executor)
        cells = schedule.make_cells(points, stages, options, workers)
        if (collected := _collected.get()) is not None:
            collected.extend(cells.values())
            dataset: xarray.Dataset = import_module("xarray").Dataset()
            return dataset
        results = _open_results(swept, cells, options, workers)
        results.ask({key: schedule.fingerprint(cell) for key, cell in cells.items()}, runs)
        jobs = [
            job
            for key, cell in cells.items()
            for job in schedule.cut_into_jobs(
                cell, results, results.missing(key, runs), len(cells), workers, executor is not None
            )
        ]
        if watch is not None:
            jobs.sort(key=lambda job: job.first)  # so that all policies get on together
        watching = Watching(watch, results, list(cells), runs)
        with compiled(jobs, executor is not None, workers, tell) as (jobs, kernels):
            _play(jobs, results, executor, options, tell, watching)
    data = results.result(list(cells), runs)
    data.encoding["kernel"] = kernels
    return data


def _n_workers(threads: int | None, executor: Executor | None) -> int:
    """Return how many jobs are played at a time; a function that makes an executor is called."""
    return threads or (cores() if executor is None else workers_of(executor))


def _open_results(swept: Swept, cells: dict[Key, Job], options: Options, workers: Workers) -> Results:
    """Open the results that are saved, or new ones."""
    path: Any = options["file"]
    longest = max(cells.values(), key=lambda cell: cell.horizon)
    stages, n_arms = longest.stages, longest.problem.n_arms
    if path is not None and path.suffix == ZARR:
        from kibitz.simulation.results.zarr import ZarrResults

        size = partial(schedule.chunk_size, list(cells.values()), workers)
        return ZarrResults(path, swept, options["keep"], stages, n_arms, size)
    schedule.check_memory(options, len(cells), stages.size, n_arms)
    return NetcdfResults(path, swept, options["keep"], stages, n_arms)


def _play(
    jobs: list[Job],
    results: Results,
    executor: Executor | None,
    options: Options,
    tell: Progress,
    watching: "Watching",
) -> None:
    """Play jobs and store what comes of them."""
    saved = time.monotonic()
    unfinished: dict[Key, Played] = {}  # cells to be summarised when all their runs are there
    try:
        with closing(
            play_all(jobs, options["threads"], lambda share: tell("simulating", share), executor)
        ) as all_played:
            for job, played in all_played:
                if options["keep"] == "runs" or job.summary:
                    results.put(job.label, job.first, played)
                else:
                    if job.label not in unfinished:
                        size = (options["runs"], job.stages.size, job.problem.n_arms)
                        unfinished[job.label] = no_runs(*size)
                    for room, new in zip(unfinished[job.label], played, strict=True):
                        room[job.first : job.last] = new
                    if not np.isnan(unfinished[job.label].error).any():
                        results.put(job.label, 0, summarise(unfinished.pop(job.label)))
                watching.show()
                if time.monotonic() - saved > SAVE_SECONDS:
                    results.save()
                    saved = time.monotonic()
    except KeyboardInterrupt:
        watching.show(now=True)
        raise
    finally:
        results.save()


class Watching:
    """Shows `watch` the runs that all policies have so far, now and then."""

    def __init__(self, watch: Watch | None, results: Results, keys: list[Key], runs: int) -> None:
        self.watch, self.results, self.keys, self.runs = watch, results, keys, runs
        self.shown = 0  # runs
        self.next = 0.0  # when to show more

    def show(self, *, now: bool = False) -> None:
        """Show the runs that all policies have, if these are more and it is time, or `now`."""
        begun = time.monotonic()
        if self.watch is None or (begun < self.next and not now):
            return
        complete = min(self._complete(key) for key in self.keys)
        pause = 0.0
        if complete > self.shown:
            pause = WATCH_SECONDS
            data = self.results.result(self.keys, complete)
            self.shown = complete
            self.watch(data)
        ended = time.monotonic()
        self.next = ended + max(pause, (ended - begun) * (1 / WATCH_SHARE - 1))

    def _complete(self, key: Key) -> int:
        """Return how many runs of a cell are there before the first that is missing."""
        missing = self.results.missing(key, self.runs)
        return int(missing[0]) if missing.size else self.runs


# --------------------------------------------------------------------------------------- compilation


_collected: ContextVar[list[Job] | None] = ContextVar("collected", default=None)


@contextmanager
def rehearsal() -> Iterator[list[Job]]:
    """Collect the cells of what is simulated in the block, as jobs, instead of playing them."""
    jobs: list[Job] = []
    token = _collected.set(jobs)
    try:
        yield jobs
    finally:
        _collected.reset(token)


@contextmanager
def compiling_ahead(simulations: Callable[[], Any]) -> Iterator[None]:
    """Compile in the background, while the block runs, what some simulations will need."""
    with rehearsal() as jobs:
        simulations()
    with compile_ahead(jobs):
        yield
