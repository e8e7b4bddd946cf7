"""The schedule: from what is asked to jobs.

A point is a problem, a feedback, policies and a horizon. Each policy at a point is a cell, a job of
all its runs; the runs that are still missing are cut into jobs of a fair size.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._hashing import content_hash
from kibitz._validation import invalid, short_repr
from kibitz.engine.environment import make_looks
from kibitz.engine.leap import can_leap
from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.policies.check import check_promises
from kibitz.policies.policy import Policy
from kibitz.policies.spec import make_label, named_spec
from kibitz.simulation.executors import IN_FLIGHT, SECONDS
from kibitz.simulation.fingerprint import fingerprint as make_fingerprint
from kibitz.simulation.jobs import LEAP_PAYS, Job, expected_seconds, stage_seconds
from kibitz.simulation.options import OPTIONS, Options
from kibitz.simulation.results.dataset import Fingerprint, Key, Results
from kibitz.simulation.results.summary import STATISTICS

Policies = Policy | Iterable[Policy] | Mapping[str, Policy]
Workers = Callable[[], int]

N_STAGES = 200  # recorded by default
MAX_SECONDS = 2 * 86400.0  # of a simulation
MIN_JOB_STAGES = 20_000  # of a job, where there are as many: starting one takes a millisecond
MAX_JOB_STAGES = 1_000_000  # of a job: worth a thread, and not long to wait for
FEW_ARMS = 10  # up to which a stage takes as long as with two
MAX_CELL_SECONDS = 30.0  # of a job whose runs must stay together
MAX_SUMMARY_BYTES = 2**28  # of the runs of such a job
MAX_CHUNK_BYTES = 2**22
DEFAULT_MEMORY = 2**34  # bytes, where the system does not tell


class Point(NamedTuple):
    """What is played at one point of a sweep, or by `simulate`."""

    problem: Problem
    feedback: Feedback
    policies: dict[str, Policy]  # by label
    horizon: int


# ----------------------------------------------------------------------------------- labels, stages


def label_policies(policies: Policies, by_name: bool = False) -> dict[str, Policy]:
    """Return policies by label: the name, with the parameters that are not the default ones."""
    given: Any = [policies]
    if isinstance(policies, Iterable) and not isinstance(policies, str | bytes):
        given = policies.values() if isinstance(policies, Mapping) else list(policies)
    for policy in given:
        if not isinstance(policy, Policy):
            raise invalid("policies", "policies such as ucb()", policy)
    if isinstance(policies, Mapping):
        labels = list(map(str, policies))
    else:
        labels = [policy.name if by_name else make_label(policy) for policy in given]
    if repeated := {label for label in labels if labels.count(label) > 1}:
        raise ValueError(
            f"policies must have different labels (give them as a dict), got {min(repeated)!r} twice"
        )
    if not labels:
        raise ValueError("policies must be at least one policy, got none")
    return dict(zip(labels, given, strict=True))


def log_spaced(horizon: int, n: int = N_STAGES) -> NDArray[np.int64]:
    """Return about n stages from 1 to the horizon, log-spaced."""
    spaced = np.unique(np.geomspace(1, horizon, n).round().astype(np.int64))
    spaced[-1] = horizon
    return spaced


def resolve_stages(stages: ArrayLike | None, horizons: list[int]) -> NDArray[np.int64]:
    """Return the stages at which regret is recorded: those that are given, and all horizons."""
    horizon = max(horizons)
    if stages is None:
        spaced = log_spaced(horizon)
    else:
        try:
            given = np.array(stages)
            whole_numbers = given.dtype.kind in "iuf" and np.all(given == np.floor(given))
        except (TypeError, ValueError, OverflowError):
            raise invalid("stages", "a list of whole numbers", stages) from None
        if given.ndim != 1 or given.size == 0 or not whole_numbers:
            raise invalid("stages", "a list of whole numbers", stages)
        if not np.all((given >= 1) & (given <= horizon)) or not np.all(np.diff(given) > 0):
            raise ValueError(
                f"stages must increase from 1 to at most {horizon}, got {short_repr(stages)}"
            )
        spaced = given.astype(np.int64)
    return np.union1d(spaced, np.array(horizons, np.int64))


# --------------------------------------------------------------------------------------------- cells


def make_cells(
    points: dict[tuple[Any, ...], Point],
    stages: NDArray[np.int64],
    options: Options,
    workers: Workers,
) -> dict[Key, Job]:
    """Return the cells of some points, each a job of all its runs."""
    shared: Any = {name: value for name, value in options.items() if name in Job._fields}
    shared |= {"first": 0, "last": options["runs"]}
    cells: dict[Key, Job] = {}
    for value, (problem, feedback, policies, horizon) in points.items():
        make_looks(feedback, problem.gaps, horizon)  # raises if it does not fit the problem
        shared["horizon"] = horizon
        shared["stages"] = stages[: np.searchsorted(stages, horizon) + 1]  # not a copy
        for label, policy in policies.items():
            _check_combination(policy, problem, label, horizon)
            leap = is_played_by_leaps(policy, problem, feedback, horizon, options["engine"])
            job = Job((value, label), policy, problem, feedback, leap=leap, **shared)
            _check_duration(job, workers)
            cells[value, label] = job
    return cells


def is_played_by_leaps(
    policy: Policy, problem: Problem, feedback: Feedback, horizon: int, engine: str = "auto"
) -> bool:
    """Return whether a policy is played by leaps: where that is sound, and pays or is asked for."""
    wanted = engine == "leap" or (engine == "auto" and horizon >= LEAP_PAYS)
    return wanted and can_leap(policy, problem, feedback)


def fingerprint(job: Job) -> Fingerprint:
    """Return all that the numbers of a job depend on, as plain data; `leap` is the engine."""
    names = [name for name, option in OPTIONS.items() if option.fingerprint and name != "engine"]
    numbers: Any = {name: getattr(job, name) for name in names}
    return make_fingerprint(job.problem, job.feedback, job.policy, leap=job.leap, **numbers)


def cut_into_jobs(
    cell: Job,
    results: Results,
    missing: NDArray[np.int64],
    n_cells: int,
    workers: Workers,
    on_executor: bool,
) -> Iterator[Job]:
    """Cut the missing runs of a cell into jobs of neighbours, each a fair piece of work."""
    if missing.size == 0:
        return
    if results.keep == "summary" and _fits_a_job(cell, n_cells, workers):
        yield cell._replace(summary=True)
        return
    if results.block is not None and results.keep == "runs":
        size = results.block
    elif on_executor:
        size = math.ceil(cell.last * SECONDS / expected_seconds(cell))
    else:
        stages = min(cell.horizon, LEAP_PAYS) if cell.leap else cell.horizon
        fair = max(math.ceil(MIN_JOB_STAGES / stages), math.ceil(missing.size / (4 * workers())))
        arms = max(1, cell.problem.n_arms // FEW_ARMS)  # a stage takes as many times longer
        size = max(1, min(MAX_JOB_STAGES // (arms * stages), fair))
    for block in np.split(missing, np.flatnonzero(np.diff(missing) != 1) + 1):
        for start in range(0, block.size, size):
            part = block[start : start + size]
            yield cell._replace(first=int(part[0]), last=int(part[-1]) + 1)


def _fits_a_job(cell: Job, n_cells: int, workers: Workers) -> bool:
    """Return whether a worker can summarise a cell: it is short, and there is one for everybody."""
    small = 8 * cell.last * cell.stages.size <= MAX_SUMMARY_BYTES
    short = expected_seconds(cell) <= MAX_CELL_SECONDS
    return small and short and n_cells >= IN_FLIGHT * workers()


def chunk_size(cells: list[Job], workers: Workers) -> int:
    """Return how many runs make a chunk: of a fair size and time, and enough for all workers."""
    runs = cells[0].last
    slowest = max(expected_seconds(cell) for cell in cells) / runs
    return max(
        1,
        min(
            runs,
            MAX_CHUNK_BYTES // (8 * max(cell.stages.size for cell in cells)),
            math.ceil(MAX_CELL_SECONDS / slowest),
            math.ceil(runs / math.ceil(IN_FLIGHT * workers() / len(cells))),
        ),
    )


# -------------------------------------------------------------------------------------------- checks


def check_memory(options: Options, n_cells: int, n_stages: int, n_arms: int) -> None:
    """Raise a ValueError if a result does not fit in memory."""
    rows = options["runs"] if options["keep"] == "runs" else len(STATISTICS)
    size = 8 * n_cells * rows * (n_stages + 2 * n_arms + 2)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        memory = DEFAULT_MEMORY
    if size > memory / 2:
        raise ValueError(
            f"runs must be so few that the result fits in memory, got {options['runs']}: it would "
            f"take {size / 2**30:.3g} GiB of {memory / 2**30:.3g} (a file that ends in .zarr need "
            "not fit)"
        )


def _check_duration(cell: Job, workers: Workers) -> None:
    """Raise a ValueError, with an estimate of the time, if a cell takes more than some days."""
    each, horizon = stage_seconds(cell.feedback), cell.horizon
    seconds = each * horizon
    if cell.leap:  # hardly anything, but for tied best arms, between which a policy keeps alternating
        ties = cell.problem.optimal.sum() > 1
        seconds = 1e-5 * horizon**0.7 if ties else 1.0 + each * min(horizon, LEAP_PAYS)
    seconds *= cell.last
    if seconds > MAX_SECONDS and (seconds := seconds / workers()) > MAX_SECONDS:
        raise ValueError(
            f"horizon must be one that can be played, got {horizon}: the runs of {cell.label[1]} "
            f"would take about {seconds / 86400:.2g} days, "
            f"{'leaping' if cell.leap else 'stage by stage'}"
        )


def _check_once(policy: Policy) -> None:
    """Check a policy of the user's, unless one with the same functions and parameters has passed."""
    key = (content_hash(policy.functions), str(policy.constants))
    if key not in _passed:
        check_promises(policy)
        _passed.add(key)


_passed: set[tuple[str, str]] = set()


def _check_combination(policy: Policy, problem: Problem, label: str, horizon: int) -> None:
    if named_spec(policy) is None:
        _check_once(policy)
    low, high = problem.support
    if policy.rewards != "gaussian" and not (low >= 0 and high <= 1):
        raise ValueError(
            f"{label} is made for rewards in [0, 1], but those of the problem ({problem.kind}) are "
            f'between {low:g} and {high:g}; use rewards="gaussian"'
        )
    if policy.rewards == "bernoulli" and not problem.is_binary:
        raise ValueError(
            f"{label} is made for rewards of 0 and 1, but the problem has others; "
            'use rewards="bounded"'
        )
