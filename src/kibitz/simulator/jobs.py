"""Jobs: some runs of one policy in one setting, as plain data, and how they are played.

A job names all that its numbers depend on; `play` finds or compiles the loop where it runs. So
threads, processes and machines can be given the same jobs, and the numbers do not depend on who
played them.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.policies.policy import Policy
from kibitz.simulator.loop import RUN, STAGE, STOP, Game, Record, loop_for
from kibitz.simulator.streams import seed_words, streams
from kibitz.simulator.world import law_of, looks_of


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
    return np.zeros(3, np.int64)


def play(
    job: Job,
    control: NDArray[np.int64] | None = None,
    announce: Callable[[], None] | None = None,
) -> Played | None:
    """Play a job; None if `control[STOP]` has stopped it. `announce` is called if it must compile."""
    control = new_control() if control is None else control
    problem = job.problem
    loop = loop_for(job.policy, job.feedback, job.leap, announce)
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
    loop(tuple(job.policy.params_for(job.horizon)), game, job.error, words)
    return None if control[STOP] else played


def play_all(
    jobs: list[Job], threads: int, progress: Callable[[float], None]
) -> Iterator[tuple[Job, Played]]:
    """Play jobs in parallel and yield each when it is done.

    `progress` is told the share of all stages played so far, some ten times a second. An exception,
    Ctrl-C for one, stops the others within moments.
    """
    controls = [new_control() for _ in jobs]
    sizes = [(job.last - job.first) * job.horizon for job in jobs]

    def stages_of(n: int) -> int:
        return min(int(controls[n][RUN]) * jobs[n].horizon + int(controls[n][STAGE]), sizes[n])

    pool = ThreadPoolExecutor(threads)
    try:
        waiting = {pool.submit(play, job, controls[n]): n for n, job in enumerate(jobs)}
        done = 0
        while waiting:
            finished, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
            for future in finished:
                n = waiting.pop(future)
                played = future.result()
                done += sizes[n]
                if played is not None:
                    yield jobs[n], played
            progress((done + sum(stages_of(n) for n in waiting.values())) / sum(sizes))
    finally:
        for control in controls:
            control[STOP] = 1
        pool.shutdown(wait=True, cancel_futures=True)
