"""Play policies against a problem."""

import os
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.simulation.axes import Swept
from kibitz.simulation.executors import Executors
from kibitz.simulation.kernels import Progress
from kibitz.simulation.labels import Policies, labelled
from kibitz.simulation.task import Point, Task, computed
from kibitz.simulation.watch import Watch

if TYPE_CHECKING:
    import xarray


def simulate(
    problem: Problem,
    feedback: Feedback,
    policies: Policies,
    *,
    horizon: int,
    runs: int,
    seed: int,
    stages: ArrayLike | None = None,
    threads: int | None = None,
    file: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    engine: str = "auto",
    error: float = 1e-9,
    executor: Executors | None = None,
    keep: str = "runs",
    loop: str = "auto",
    watch: Watch | None = None,
) -> "xarray.Dataset":
    r"""Play policies against a problem and return their regret.

    Parameters
    ----------
    problem, feedback
        What the arms pay, and who sees what.
    policies
        A policy, several, or a dict from labels to policies.
    horizon
        The number of stages, T.
    runs
        How often each policy is played. Run r depends on (seed, r) alone.
    seed
        A whole number; the same seed gives the same numbers.
    stages
        The stages at which the regret is kept: about 200, log-spaced, unless given. The horizon is
        always among them.
    threads
        How many runs to play at a time; all cores, or all workers of the executor, unless given.
        Results do not depend on it.
    file
        A netCDF file to save to, or a folder whose name ends in ".zarr" for what does not fit in
        memory, which is then read when it is used. What it already holds of the same setting is not
        computed again; an interrupted simulation leaves there what was done.
    progress
        Called as `progress(what, share)` now and then, with the share of the work that is done.
    engine
        "step" plays stage by stage; "leap" skips ahead where that is sound (`simulator.leap`) and
        else plays stage by stage; "auto" leaps where it also pays. The attribute `engine` says which.
    error
        How much the law of a run may differ from that of stage-by-stage play, in total variation,
        when leaping.
    executor
        Who plays: an Executor of concurrent.futures, such as Dask's `Client.get_executor()`, or a
        function that makes one, which is asked for another if workers are lost, and shut down in the
        end. Threads unless given. Results do not depend on it.
    keep
        "runs", or "summary": of each policy, instead of its runs, statistics of them, along a
        dimension `statistic` ("count", "mean", "variance" and the quantiles "q1", "q10", "q25",
        "q50", "q75", "q90" and "q99").
    loop
        "final" compiles each policy into a loop of its own, which takes some seconds unless it was
        done before; "draft" plays a new index at once, at two to three times the price of a stage
        (policies that have no draft are compiled all the same). "auto" drafts what is not compiled
        yet and, where there is work for many seconds, compiles meanwhile. Results do not depend on
        it; `encoding["loop"]` says which were used this time.
    watch
        Called as `watch(data)` when there are more runs, at most twice a second, with the result as
        it would be of `runs=n`, where n is how many all policies have; and once more, if so, when
        Ctrl-C has come. The policies are then played in turn. An error of it ends the simulation.
        `kibitz.race` draws what it is given.

    Returns
    -------
    xarray.Dataset
        `regret` (policy, run, stage): \sum_i \Delta_i N_i at the end of a stage; `final_regret`
        (policy, run); `n_pulls` and `n_free` (policy, run, arm) at the horizon; `error`
        (policy, run), 0 stage by stage; and in its attributes, as JSON, the setting, the seed, the
        engine of each policy and the versions that made it.
    """
    points: dict[Any, Point] = {(): (problem, feedback, labelled(policies), horizon)}
    task = Task(
        Swept(), points, runs, seed, stages, threads, file, engine, error, executor, keep, loop
    )
    return computed(task, progress, watch)
