"""Jobs: some runs of one policy in one setting, as plain data, and how they are played.

A job names all that its numbers depend on; `play` finds or compiles the loop where it runs. So
threads, processes and machines can be given the same jobs, and the numbers do not depend on who
played them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz.engine.environment import make_arms, make_looks
from kibitz.engine.kernel import Kernel, make_generic_kernel, make_kernel
from kibitz.engine.loop import STOP, Environment, Record
from kibitz.engine.rng import make_seeds, new_streams
from kibitz.model.feedback import Every, Feedback
from kibitz.model.problem import Problem
from kibitz.policies.policy import Policy
from kibitz.simulation.results.summary import STATISTICS, summarise

LEAP_PAYS = 100_000  # the horizon from which on leaping is the faster way


class Job(NamedTuple):
    """Some runs of one policy in one setting."""

    label: Any  # whatever the caller knows it by
    policy: Policy
    problem: Problem
    feedback: Feedback
    horizon: int
    stages: NDArray[np.int64]  # at which the regret is noted
    seed: int
    first: int  # the first run
    last: int  # and the one after the last
    leap: bool = False
    error: float = 1e-9  # allowed to leaps, of each run
    summary: bool = False  # whether statistics of the runs are asked for, instead of them
    kernel: str = "auto"  # "generic", "specialised" or "auto"


class Played(NamedTuple):
    """What came of a job; one row for each run. A new recorded quantity is a field here."""

    regret: NDArray[np.float64]  # run, stage
    n_pulls: NDArray[np.int64]  # run, arm
    n_looks: NDArray[np.int64]
    error: NDArray[np.float64]  # in total variation; 0 stage by stage


def no_runs(runs: int, n_stages: int, n_arms: int) -> Played:
    """Return room for runs that are not there yet: NaN, and -1 in the counts."""
    counts = np.full((runs, n_arms), -1, np.int64)
    regret = np.full((runs, n_stages), np.nan)
    return Played(regret, counts, counts.copy(), np.full(runs, np.nan))


def new_control() -> NDArray[np.int64]:
    """Return the array through which a job is stopped and reports how far it is."""
    return np.zeros(3, np.int64)


def play(
    job: Job, control: NDArray[np.int64] | None = None, announce: Callable[[], None] | None = None
) -> Played | None:
    """Play a job; return None if `control[STOP]` has stopped it.

    `announce` is called if a kernel must be compiled.
    """
    control = new_control() if control is None else control
    played = no_runs(job.last - job.first, job.stages.size, job.problem.n_arms)
    played.n_pulls[:], played.n_looks[:] = 0, 0
    problem = job.problem
    environment = Environment(
        make_arms(problem, job.policy.scale_for(problem.scale)),
        make_looks(job.feedback, problem.gaps, job.horizon),
        job.horizon,
        new_streams(),
        Record(job.stages, problem.gaps, job.feedback.paid, *played),
        control,
    )
    kernel = kernel_of(job)
    if announce is not None:
        kernel.compile(announce)
    kernel.play(environment, job.error, make_seeds(job.seed, job.first, job.last))
    if control[STOP]:
        return None
    return summarise(played) if job.summary else played


def specialised_kernel(job: Job) -> Kernel:
    """Return the kernel that is compiled around the policy of a job."""
    return make_kernel(job.policy, job.feedback, job.leap, job.horizon)


def generic_kernel(job: Job) -> Kernel | None:
    """Return the generic kernel that can play a job, or None if its policy has none."""
    return make_generic_kernel(job.policy, job.feedback, job.leap)


def kernel_of(job: Job) -> Kernel:
    """Return the kernel that plays a job now: the specialised one as soon as it is compiled."""
    specialised, generic = specialised_kernel(job), generic_kernel(job)
    if (
        generic is None
        or job.kernel == "specialised"
        or (job.kernel == "auto" and specialised.is_ready())
    ):
        return specialised
    return generic


def expected_seconds(job: Job) -> float:
    """Return about how long a job takes."""
    stages = min(job.horizon, LEAP_PAYS) if job.leap else job.horizon
    return (job.last - job.first) * stages * stage_seconds(job.feedback)


def result_bytes(job: Job) -> int:
    """Return about how large what comes of a job is."""
    rows = len(STATISTICS) if job.summary else job.last - job.first
    return 8 * rows * (job.stages.size + 2 * job.problem.n_arms + 1)


def stage_seconds(feedback: Feedback) -> float:
    """Return about how long a stage takes."""
    rate = feedback.rate
    often = 1 / rate.n if isinstance(rate, Every) else rate if isinstance(rate, float) else 1.0
    return 5e-8 + 1e-7 * often * feedback.looks
