"""Jobs: runs of one policy on one problem, as plain data, and the function that plays them.

A job holds everything that its numbers depend on, and `play` loads or compiles the kernel of the job.
A job therefore gives the same numbers in any thread, in any process and on any machine.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz.engine.environment import make_arms, make_graph, make_looks, make_pieces
from kibitz.engine.kernel import Kernel, make_generic_kernel, make_kernel
from kibitz.engine.loop import STOP, Environment, Record
from kibitz.engine.rng import make_seeds, new_streams
from kibitz.model.feedback import Every, Feedback
from kibitz.model.problem import Problem
from kibitz.policies.policy import Policy
from kibitz.simulation.results.summary import STATISTICS, summarise

MIN_LEAP_HORIZON = 100_000  # from this horizon on, leaping is faster
PYTHON_SLOWDOWN = 300  # how much longer a stage takes in plain Python, with a fast object


class Job(NamedTuple):
    """Runs of one policy on one problem."""

    label: Any  # identifies the job for the caller
    policy: Policy
    problem: Problem
    feedback: Feedback
    horizon: int
    stages: NDArray[np.int64]  # the stages at which the regret is recorded
    seed: int
    first_run: int  # the number of the first run
    end_run: int  # one past the last run
    leap: bool = False
    error: float = 1e-9  # the largest error that leaps may cause in each run
    summary: bool = False  # whether to return statistics instead of the runs
    kernel: str = "auto"  # "generic", "specialised" or "auto"


class Outcome(NamedTuple):
    """The recorded quantities of a job: one row per run, or one row per statistic in a summary."""

    regret: NDArray[np.float64]  # (run, stage)
    n_pulls: NDArray[np.int64]  # (run, arm)
    n_looks: NDArray[np.int64]  # (run, arm)
    error: NDArray[np.float64]  # (run,); in total variation, 0 without leaps


def empty_outcome(n_runs: int, n_stages: int, n_arms: int) -> Outcome:
    """Return an outcome for runs that are not played yet: counts are -1, other values are NaN."""
    counts = np.full((n_runs, n_arms), -1, np.int64)
    regret = np.full((n_runs, n_stages), np.nan)
    return Outcome(regret, counts, counts.copy(), np.full(n_runs, np.nan))


def new_control() -> NDArray[np.int64]:
    """Return a control array, with which the caller can stop a job and read its progress."""
    return np.zeros(3, np.int64)


def play(
    job: Job, control: NDArray[np.int64] | None = None, announce: Callable[[], None] | None = None
) -> Outcome | None:
    """Play a job and return its outcome; return None if `control[STOP]` stopped the job.

    `announce` is called before a kernel is compiled.
    """
    control = new_control() if control is None else control
    outcome = empty_outcome(job.end_run - job.first_run, job.stages.size, job.problem.n_arms)
    outcome.n_pulls[:], outcome.n_looks[:] = 0, 0
    environment = make_environment(job, outcome, control)
    kernel = choose_kernel(job)
    if announce is not None:
        kernel.compile(announce)
    kernel.play(environment, job.error, make_seeds(job.seed, job.first_run, job.end_run))
    if control[STOP]:
        return None
    return summarise(outcome) if job.summary else outcome


def make_environment(job: Job, outcome: Outcome, control: NDArray[np.int64]) -> Environment:
    """Return everything that the loop needs besides the policy. The loop fills `outcome`."""
    problem, has_graph = job.problem, job.feedback.shows is not None
    first_piece, pieces = problem.at(1), None
    arms = make_arms(first_piece, job.policy.scale_for(problem.scale))
    if problem.pieces:
        arms, pieces = make_pieces(problem, job.feedback, arms)
    return Environment(
        arms,
        make_looks(job.feedback, first_piece.gaps, job.horizon),
        job.horizon,
        new_streams(has_graph),
        Record(job.stages, first_piece.gaps, job.feedback.paid, *outcome),
        control,
        make_graph(job.feedback.shows, problem.n_arms) if has_graph else None,
        pieces,
    )


def specialised_kernel(job: Job) -> Kernel:
    """Return the specialised kernel of a job."""
    return make_kernel(job.policy, job.feedback, job.leap, job.horizon, bool(job.problem.pieces))


def generic_kernel(job: Job) -> Kernel | None:
    """Return the generic kernel of a job, or None if the policy has no generic kernel."""
    return make_generic_kernel(job.policy, job.feedback, job.leap, bool(job.problem.pieces))


def choose_kernel(job: Job) -> Kernel:
    """Return the specialised kernel of a job if it is compiled, or else the generic kernel.

    `job.kernel` can require one of the two kernels. A policy without a generic kernel always gets the
    specialised kernel.
    """
    specialised, generic = specialised_kernel(job), generic_kernel(job)
    if (
        generic is None
        or job.kernel == "specialised"
        or (job.kernel == "auto" and specialised.is_ready())
    ):
        return specialised
    return generic


def estimate_seconds(job: Job) -> float:
    """Return the approximate duration of a job, in seconds."""
    stages = job.horizon
    if job.leap:
        stages = min(stages, MIN_LEAP_HORIZON * len(job.problem.starts))
    return (job.end_run - job.first_run) * stages * estimate_stage_seconds(job.feedback, job.policy)


def estimate_bytes(job: Job) -> int:
    """Return the approximate size of the outcome of a job, in bytes."""
    rows = len(STATISTICS) if job.summary else job.end_run - job.first_run
    return 8 * rows * (job.stages.size + 2 * job.problem.n_arms + 1)


def estimate_stage_seconds(feedback: Feedback, policy: Policy) -> float:
    """Return the approximate duration of a stage, in seconds."""
    rate = feedback.rate
    looks_per_stage = (
        1 / rate.n if isinstance(rate, Every) else rate if isinstance(rate, float) else 1.0
    )
    shows_per_stage = 0.0 if feedback.shows is None else feedback.shows.mean_row_size
    slowdown = PYTHON_SLOWDOWN if policy.is_python else 1
    return slowdown * (5e-8 + 1e-7 * looks_per_stage * feedback.looks + 2e-8 * shows_per_stage)
