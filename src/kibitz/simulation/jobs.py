"""Jobs: some runs of one policy in one setting, as plain data, and how they are played.

A job names all that its numbers depend on; `play` finds or compiles the loop where it runs. So
threads, processes and machines can be given the same jobs, and the numbers do not depend on who
played them.
"""

import math
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz.engine.draft import draft_of, formula_numbers
from kibitz.engine.environment import law_of, looks_of
from kibitz.engine.jit import collecting_nothing, hearing_interrupts
from kibitz.engine.loop import DRAFT, STOP, Game, Record, loop_for, loop_key
from kibitz.engine.numba_compat import is_there
from kibitz.engine.rng import seed_words, streams
from kibitz.engine.tables import table_numbers, tabled
from kibitz.model.feedback import Every, Feedback
from kibitz.model.problem import Problem
from kibitz.policies.policy import Policy
from kibitz.simulation.results.summary import STATISTICS, summarised

AGAIN_SECONDS = 0.5  # after which a final loop may be there that was not
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
    played = no_runs(job.last - job.first, job.stages.size, job.problem.n_arms)
    played.n_pulls[:], played.n_free[:] = 0, 0
    params, *rest = _arguments(job, control, played)
    if job.loop != "final" and is_drafted(job.policy) and not (job.loop == "auto" and is_final(job)):
        control[DRAFT] = 1
        draft = loop_for(job.policy, job.feedback, job.leap, announce, draft=True)
        draft(formula_numbers(job.policy, params), *rest)
    else:
        loop = loop_for(final_policy(job), job.feedback, job.leap, announce)
        loop(_final_numbers(job, params), *rest)
    if control[STOP]:
        return None
    return summarised(played) if job.summary else played


def _arguments(job: Job, control: NDArray[np.int64], played: Played) -> tuple[Any, ...]:
    """Return what a loop is called with: parameters, game, error and words to seed runs with."""
    problem = job.problem
    game = Game(
        law_of(problem, job.policy.scale_for(problem.scale)),
        looks_of(job.feedback, problem.gaps, job.horizon),
        job.horizon,
        streams(),
        Record(job.stages, problem.gaps, job.feedback.paid, *played),
        control,
    )
    params = tuple(job.policy.params_for(job.horizon))
    return params, game, job.error, seed_words(job.seed, job.first, job.last)


def final_policy(job: Job) -> Policy:
    """Return the policy that a final loop is compiled of: it looks up its index, if it can."""
    return (None if job.leap else tabled(job.policy, job.horizon, job.feedback.looks)) or job.policy


def _final_numbers(job: Job, params: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the numbers of a final loop: the parameters, and tables where it looks up an index."""
    if final_policy(job) is job.policy:
        return params
    return table_numbers(job.policy, params, job.horizon, job.feedback.looks)


def loop_of(job: Job) -> Hashable:
    """Return what tells the final loop of a job from others, in this process."""
    return loop_key(final_policy(job), job.feedback, job.leap)


def draft_loop_of(job: Job) -> Hashable:
    """Return what tells the draft of a job from others, in this process."""
    return loop_key(draft_of(job.policy) or job.policy, job.feedback, job.leap)


def is_drafted(policy: Policy) -> bool:
    """Return whether a policy can be played by a draft."""
    return draft_of(policy) is not None


def is_final(job: Job) -> bool:
    """Return whether the final loop of a job is compiled, here or among what is kept.

    To find out takes as long as ten thousand stages: one that is not there is looked for twice a
    second at most.
    """
    key, now = loop_of(job), time.monotonic()
    if _looked_for.get(key, 0.0) <= now:
        _looked_for[key] = math.inf if is_compiled(job) else now + AGAIN_SECONDS
    return _looked_for[key] == math.inf


_looked_for: dict[Hashable, float] = {}  # when to look for a final loop again; never, if it is there


def is_compiled(job: Job, draft: bool = False) -> bool:
    """Return whether the final loop of a job, or its draft, is compiled, here or kept."""
    params, *rest = _arguments(job, new_control(), no_runs(0, 1, job.problem.n_arms))
    if draft:
        loop = loop_for(job.policy, job.feedback, job.leap, draft=True)
        return is_there(loop, (0, np.zeros(0)), *rest)
    loop = loop_for(final_policy(job), job.feedback, job.leap)
    return is_there(loop, _final_numbers(job, params), *rest)


def without_runs(job: Job) -> Job:
    """Return a job that only finds or compiles the loop."""
    return job._replace(first=0, last=0, summary=False)


def find_loop(
    job: Job,
    control: NDArray[np.int64] | None = None,
    announce: Callable[[], None] | None = None,
) -> None:
    """Find or compile the loop of a job, and play nothing."""
    with hearing_interrupts(), collecting_nothing():
        play(without_runs(job), control, announce)


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
