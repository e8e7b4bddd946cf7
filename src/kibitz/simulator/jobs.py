"""Jobs: some runs of one policy in one setting, as plain data, and how they are played.

A job names all that its numbers depend on; `play` finds or compiles the loop where it runs. So
threads, processes and machines can be given the same jobs, and the numbers do not depend on who
played them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz.compiling.private import is_there
from kibitz.model.feedback import Every, Feedback
from kibitz.model.problem import Problem
from kibitz.policies.policy import Policy
from kibitz.simulator.draft import draft_of, formula_numbers
from kibitz.simulator.loop import DRAFT, STOP, Game, Record, loop_for
from kibitz.simulator.streams import seed_words, streams
from kibitz.simulator.summary import STATISTICS, summarised
from kibitz.simulator.world import law_of, looks_of

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
    loop: str = "auto"  # "draft", "final", or "auto": the final one if it is compiled already


class Played(NamedTuple):
    """What came of a job; one row for each run. A new recorded quantity is a field here."""

    regret: NDArray[np.float64]  # run, stage
    n_pulls: NDArray[np.int64]  # run, arm
    n_free: NDArray[np.int64]
    error: NDArray[np.float64]  # in total variation; 0 stage by stage


def no_runs(runs: int, n_stages: int, n_arms: int) -> Played:
    """Return room for runs that are not there yet: NaN, and -1 in the counts."""
    counts = np.full((runs, n_arms), -1, np.int64)
    regret = np.full((runs, n_stages), np.nan)
    return Played(regret, counts, counts.copy(), np.full(runs, np.nan))


def new_control() -> NDArray[np.int64]:
    """Return what a job tells and is told while it is played."""
    return np.zeros(4, np.int64)


def play(
    job: Job,
    control: NDArray[np.int64] | None = None,
    announce: Callable[[], None] | None = None,
) -> Played | None:
    """Play a job; None if `control[STOP]` has stopped it. `announce` is called if it must compile."""
    control = new_control() if control is None else control
    problem = job.problem
    words = seed_words(job.seed, job.first, job.last)
    played = no_runs(len(words), job.stages.size, problem.n_arms)
    played.n_pulls[:], played.n_free[:] = 0, 0
    game = Game(
        law_of(problem, job.policy.scale_for(problem.scale)),
        looks_of(job.feedback, problem.gaps, job.horizon),
        job.horizon,
        streams(),
        Record(job.stages, problem.gaps, job.feedback.paid, *played),
        control,
    )
    params = job.policy.params_for(job.horizon)
    arguments: Any = tuple(params), game, job.error, words
    final = loop_for(job.policy, job.feedback, job.leap, announce)
    if is_drafted(job) and not (job.loop == "auto" and is_there(final, *arguments)):
        draft = loop_for(job.policy, job.feedback, job.leap, announce, draft=True)
        control[DRAFT] = 1
        draft(formula_numbers(job.policy, params), *arguments[1:])
    else:
        final(*arguments)
    if control[STOP]:
        return None
    return summarised(played) if job.summary else played


def is_drafted(job: Job) -> bool:
    """Return whether a job is played by a draft as long as there is no other loop."""
    return job.loop != "final" and draft_of(job.policy) is not None


def without_runs(job: Job) -> Job:
    """Return a job that only finds or compiles the loop."""
    return job._replace(horizon=1, stages=np.ones(1, np.int64), first=0, last=0, summary=False)


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
