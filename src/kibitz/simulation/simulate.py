"""`simulate`: open the results, play the missing runs and store them."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from kibitz._progress import Progress, show_progress
from kibitz._validation import invalid
from kibitz.model.feedback import Feedback, check_feedback
from kibitz.model.problem import Problem, check_problem
from kibitz.simulation import schedule
from kibitz.simulation.executors import count_cores, count_workers, open_executor, play_all
from kibitz.simulation.jobs import Job, Outcome, empty_outcome
from kibitz.simulation.kernels import compile_kernels_for, prepare_kernels
from kibitz.simulation.options import ZARR_SUFFIX, Options, Watch, check_options, show_options
from kibitz.simulation.results.dataset import Key, Results, Sweep
from kibitz.simulation.results.netcdf import NetcdfResults
from kibitz.simulation.results.summary import summarise
from kibitz.simulation.schedule import Point, Policies, Workers, label_policies

if TYPE_CHECKING:
    import xarray

SAVE_SECONDS = 20.0  # between two saves; a crash of the machine may lose this much work
WATCH_SECONDS = 0.5  # shortest time between two calls of `watch`
WATCH_SHARE = 0.3  # largest share of the time spent in `watch`


@show_options()
def simulate(
    problem: Problem, feedback: Feedback, policies: Policies, **options: Unpack[Options]
) -> "xarray.Dataset":
    r"""Simulate policies on a problem and return their regret.

    Parameters
    ----------
    problem, feedback
        The reward distributions of the arms, and the observations that policies receive.
    policies
        A policy, a list of policies, or a dict from labels to policies.
    {options}

    Returns
    -------
    xarray.Dataset
        `regret` (policy, run, stage), the cumulative regret \sum_i \Delta_i N_i at the end of a
        stage, where N_i is the number of pulls of arm i (with paid looks: of pulls and looks);
        `final_regret` (policy, run), the regret at the horizon; `n_pulls` and `n_looks` (policy, run,
        arm), the counts at the horizon; `error` (policy, run), the error of the leaps in total
        variation. The attributes hold, as JSON, the fingerprint, the engine of each policy and the
        versions of the libraries.
    """
    policies_by_label = label_policies(policies)
    checked_options = check_options(options)
    point = Point(
        check_problem(problem),
        check_feedback(feedback),
        policies_by_label,
        checked_options["horizon"],
    )
    return play_points(Sweep(), {(): point}, checked_options)


def play_points(
    sweep: Sweep, points: dict[tuple[Any, ...], Point], options: Options
) -> "xarray.Dataset":
    """Play the missing runs of all points and return the requested result."""
    with show_progress(options["progress"]) as report_progress:
        return _play_points(sweep, points, options, report_progress)


def _play_points(
    sweep: Sweep, points: dict[tuple[Any, ...], Point], options: Options, report_progress: Progress
) -> "xarray.Dataset":
    watch, runs = options.get("watch"), options["runs"]
    if watch is not None and options["keep"] != "runs":
        raise invalid("keep", "'runs' if watch is given", options["keep"])
    stages = schedule.resolve_stages(options["stages"], [point.horizon for point in points.values()])
    with open_executor(options["executor"]) as executor:
        workers = partial(_n_workers, options["threads"], executor)
        cells = schedule.make_cells(points, stages, options, workers)
        if (collected_jobs := _collected_jobs.get()) is not None:
            collected_jobs.extend(cells.values())
            dataset: xarray.Dataset = import_module("xarray").Dataset()
            return dataset
        results = _open_results(sweep, cells, options, workers)
        results.prepare({key: schedule.fingerprint(cell) for key, cell in cells.items()}, runs)
        jobs = [
            job
            for key, cell in cells.items()
            for job in schedule.split_into_jobs(
                cell,
                results,
                results.missing_runs(key, runs),
                len(cells),
                workers,
                executor is not None,
            )
        ]
        if watch is not None:
            jobs.sort(key=lambda job: job.first_run)  # all policies advance together
        watcher = Watcher(watch, results, list(cells), runs)
        with prepare_kernels(jobs, executor is not None, workers, report_progress) as (jobs, kernels):
            _play(jobs, results, executor, options, report_progress, watcher)
    data = results.result(list(cells), runs)
    data.encoding["kernel"] = kernels
    return data


def _n_workers(threads: int | None, executor: Executor | None) -> int:
    """Return the number of jobs to play in parallel.

    To count the workers of an executor, this function may create the executor.
    """
    return threads or (count_cores() if executor is None else count_workers(executor))


def _open_results(sweep: Sweep, cells: dict[Key, Job], options: Options, workers: Workers) -> Results:
    """Return saved results, or new results if nothing is saved yet."""
    path: Any = options["file"]
    longest_cell = max(cells.values(), key=lambda cell: cell.horizon)
    stages, n_arms = longest_cell.stages, longest_cell.problem.n_arms
    if path is not None and path.suffix == ZARR_SUFFIX:
        from kibitz.simulation.results.zarr import ZarrResults

        make_chunk_size = partial(schedule.chunk_size, list(cells.values()), workers)
        return ZarrResults(path, sweep, options["keep"], stages, n_arms, make_chunk_size)
    schedule.check_memory(options, len(cells), stages.size, n_arms)
    return NetcdfResults(path, sweep, options["keep"], stages, n_arms)


def _play(
    jobs: list[Job],
    results: Results,
    executor: Executor | None,
    options: Options,
    report_progress: Progress,
    watcher: "Watcher",
) -> None:
    """Play jobs and store their outcomes."""
    last_save = time.monotonic()
    unfinished_cells: dict[Key, Outcome] = {}  # cells to summarise once all their runs are played
    try:
        with closing(
            play_all(
                jobs, options["threads"], lambda share: report_progress("simulating", share), executor
            )
        ) as outcomes:
            for job, outcome in outcomes:
                if options["keep"] == "runs" or job.summary:
                    results.write(job.label, job.first_run, outcome)
                else:
                    if job.label not in unfinished_cells:
                        size = (options["runs"], job.stages.size, job.problem.n_arms)
                        unfinished_cells[job.label] = empty_outcome(*size)
                    for rows, new_rows in zip(unfinished_cells[job.label], outcome, strict=True):
                        rows[job.first_run : job.end_run] = new_rows
                    if not np.isnan(unfinished_cells[job.label].error).any():
                        results.write(job.label, 0, summarise(unfinished_cells.pop(job.label)))
                watcher.show()
                if time.monotonic() - last_save > SAVE_SECONDS:
                    results.save()
                    last_save = time.monotonic()
    except KeyboardInterrupt:
        watcher.show(immediately=True)
        raise
    finally:
        results.save()


class Watcher:
    """Calls `watch` from time to time with the runs that all policies have completed."""

    def __init__(self, watch: Watch | None, results: Results, keys: list[Key], runs: int) -> None:
        self.watch, self.results, self.keys, self.runs = watch, results, keys, runs
        self.n_shown = 0  # number of runs at the last call of `watch`
        self.next_time = 0.0

    def show(self, *, immediately: bool = False) -> None:
        """Call `watch` if more runs are complete than at its last call.

        Unless `immediately` is true, do nothing if the last call was a short time ago.
        """
        start_time = time.monotonic()
        if self.watch is None or (start_time < self.next_time and not immediately):
            return
        n_complete = min(self._count_complete(key) for key in self.keys)
        min_pause = 0.0
        if n_complete > self.n_shown:
            min_pause = WATCH_SECONDS
            data = self.results.result(self.keys, n_complete)
            self.n_shown = n_complete
            self.watch(data)
        end_time = time.monotonic()
        self.next_time = end_time + max(min_pause, (end_time - start_time) * (1 / WATCH_SHARE - 1))

    def _count_complete(self, key: Key) -> int:
        """Return the number of runs of a cell before the first missing run."""
        missing_runs = self.results.missing_runs(key, self.runs)
        return int(missing_runs[0]) if missing_runs.size else self.runs


# --------------------------------------------------------------------------------------- compilation


_collected_jobs: ContextVar[list[Job] | None] = ContextVar("collected", default=None)


@contextmanager
def collect_jobs() -> Iterator[list[Job]]:
    """Collect the jobs of all simulations in the `with` block instead of playing them."""
    jobs: list[Job] = []
    token = _collected_jobs.set(jobs)
    try:
        yield jobs
    finally:
        _collected_jobs.reset(token)


@contextmanager
def compile_for(simulations: Callable[[], Any]) -> Iterator[None]:
    """Compile the kernels of simulations in the background while the `with` block runs.

    `simulations` is a function that calls `simulate`. It is called only to find out which kernels are
    needed; nothing is played.
    """
    with collect_jobs() as jobs:
        simulations()
    with compile_kernels_for(jobs):
        yield
