"""Split a requested simulation into jobs.

A point consists of a problem, a feedback, policies and a horizon. A cell consists of all runs of one
policy at one point. The missing runs of each cell are split into jobs of suitable size.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._hashing import content_hash
from kibitz._validation import invalid, short_repr
from kibitz.engine.environment import average_own, make_graph, make_looks
from kibitz.engine.leap import can_leap
from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.policies.check import check_promises
from kibitz.policies.policy import Policy, check_own_rewards, check_policy
from kibitz.policies.python_policy import with_label
from kibitz.policies.spec import make_label, named_spec
from kibitz.simulation.executors import MAX_PAYLOADS_PER_WORKER, PAYLOAD_SECONDS
from kibitz.simulation.fingerprint import fingerprint as make_fingerprint
from kibitz.simulation.jobs import MIN_LEAP_HORIZON, Job, estimate_seconds, estimate_stage_seconds
from kibitz.simulation.options import OPTIONS, Options
from kibitz.simulation.results.dataset import Fingerprint, Key, Results
from kibitz.simulation.results.summary import STATISTICS

Policies = Policy | Iterable[Policy] | Mapping[str, Policy]
Workers = Callable[[], int]

N_STAGES = 200  # stages to record by default
MAX_SECONDS = 2 * 86400.0  # longest simulation of a cell
MIN_JOB_STAGES = 20_000  # smallest job, if possible, because starting a job takes a millisecond
MAX_JOB_STAGES = 1_000_000  # a job of this size reports progress and stops soon enough
FEW_ARMS = 10  # up to this number of arms, more arms do not make a stage slower
MAX_CELL_SECONDS = 30.0  # longest job whose runs must stay together
MAX_SUMMARY_BYTES = 2**28  # largest size of the runs of a job that returns a summary
MAX_CHUNK_BYTES = 2**22
DEFAULT_MEMORY = 2**34  # bytes, if the system does not report its memory


class Point(NamedTuple):
    """The arguments of one point of a sweep, or of `simulate`."""

    problem: Problem
    feedback: Feedback
    policies: dict[str, Policy]  # by label
    horizon: int


# ----------------------------------------------------------------------------------- labels, stages


def label_policies(policies: Policies, by_name: bool = False) -> dict[str, Policy]:
    """Return a dict of policies, with their labels as keys.

    If `policies` is a dict, its keys are the labels. Otherwise, the label of a policy is its name,
    followed by the parameters that differ from their defaults unless `by_name` is true.
    """
    items: Any = [policies]
    is_single = isinstance(policies, str | bytes) or getattr(policies, "ndim", 1) == 0  # a 0-d array
    if isinstance(policies, Iterable) and not is_single:
        items = policies.values() if isinstance(policies, Mapping) else list(policies)
    for policy in items:
        check_policy(policy, "policies", "one or more policies such as ucb()")
    if isinstance(policies, Mapping):
        labels = list(map(str, policies))
        items = [
            with_label(policy, label) if policy.is_python else policy
            for policy, label in zip(items, labels, strict=True)
        ]
    else:
        labels = [policy.name if by_name else make_label(policy) for policy in items]
    if repeated_labels := {label for label in labels if labels.count(label) > 1}:
        raise ValueError(
            f"two policies have the label {min(repeated_labels)!r}; pass a dict with different labels"
        )
    if not labels:
        raise ValueError("no policies given; pass at least one policy, such as ucb()")
    return dict(zip(labels, items, strict=True))


def log_spaced(horizon: int, n: int = N_STAGES) -> NDArray[np.int64]:
    """Return about n log-spaced stages from 1 to the horizon."""
    stages = np.unique(np.geomspace(1, horizon, n).round().astype(np.int64))
    stages[-1] = horizon
    return stages


def resolve_stages(stages: ArrayLike | None, horizons: list[int]) -> NDArray[np.int64]:
    """Return the stages at which to record the regret: the requested stages and all horizons."""
    horizon = max(horizons)
    if stages is None:
        recorded_stages = log_spaced(horizon)
    else:
        try:
            requested_stages = np.array(stages)
            are_whole = requested_stages.dtype.kind in "iuf" and np.all(
                requested_stages == np.floor(requested_stages)
            )
        except (TypeError, ValueError, OverflowError):
            raise invalid("stages", "a list of whole numbers", stages) from None
        if requested_stages.ndim != 1 or requested_stages.size == 0 or not are_whole:
            raise invalid("stages", "a list of whole numbers", stages)
        if not np.all((requested_stages >= 1) & (requested_stages <= horizon)) or not np.all(
            np.diff(requested_stages) > 0
        ):
            raise ValueError(
                f"stages must be increasing numbers from 1 to {horizon}, got {short_repr(stages)}"
            )
        recorded_stages = requested_stages.astype(np.int64)
    return np.union1d(recorded_stages, np.array(horizons, np.int64))


# --------------------------------------------------------------------------------------------- cells


def make_cells(
    points: dict[tuple[Any, ...], Point],
    stages: NDArray[np.int64],
    options: Options,
    workers: Workers,
) -> dict[Key, Job]:
    """Return the cells of all points; each cell is a job with all runs of the cell."""
    shared_fields: Any = {name: value for name, value in options.items() if name in Job._fields}
    shared_fields |= {"first_run": 0, "end_run": options["runs"]}
    cells: dict[Key, Job] = {}
    for value, (problem, feedback, policies, horizon) in points.items():
        make_looks(
            feedback, problem.at(1).gaps, horizon
        )  # raises ValueError if the feedback does not fit the problem
        shows = feedback.shows
        make_graph(shows, problem.n_arms)  # raises ValueError if the graph does not fit
        own = None if shows is None else average_own(shows, problem.n_arms, horizon)
        shared_fields["horizon"] = horizon
        shared_fields["stages"] = stages[: np.searchsorted(stages, horizon) + 1]  # a view, not a copy
        for label, policy in policies.items():
            _check_combination(policy, problem, label)
            if shows is not None and own is not None:
                check_own_rewards(policy, own, label)
                if shows.function is not None and "graph" in policy.constants:
                    raise ValueError(
                        f"{label} needs the matrix of the graph, but this graph varies with the "
                        "stage; use a policy that does not know the graph, such as scout()"
                    )
            leap = uses_leaps(policy, problem, feedback, horizon, options["engine"])
            job = Job((value, label), policy, problem, feedback, leap=leap, **shared_fields)
            _check_duration(job, workers)
            cells[value, label] = job
    return cells


def uses_leaps(
    policy: Policy, problem: Problem, feedback: Feedback, horizon: int, engine: str = "auto"
) -> bool:
    """Return whether to play in leaps: leaps must be possible, and either requested or faster."""
    is_preferred = engine == "leap" or (engine == "auto" and horizon >= MIN_LEAP_HORIZON)
    return is_preferred and can_leap(policy, problem, feedback)


def fingerprint(job: Job) -> Fingerprint:
    """Return the fingerprint of a job."""
    names = [name for name, option in OPTIONS.items() if option.fingerprint and name != "engine"]
    values: Any = {name: getattr(job, name) for name in names}
    return make_fingerprint(job.problem, job.feedback, job.policy, leap=job.leap, **values)


def split_into_jobs(
    cell: Job,
    results: Results,
    missing_runs: NDArray[np.int64],
    n_cells: int,
    workers: Workers,
    on_executor: bool,
) -> Iterator[Job]:
    """Split the missing runs of a cell into jobs of consecutive runs."""
    if missing_runs.size == 0:
        return
    if results.keep == "summary" and _fits_a_job(cell, n_cells, workers):
        yield cell._replace(summary=True)
        return
    if results.block is not None and results.keep == "runs":
        size = results.block
    elif on_executor or cell.policy.is_python:
        size = math.ceil(cell.end_run * PAYLOAD_SECONDS / estimate_seconds(cell))
        if cell.policy.is_python:  # the object may be much slower than estimated
            size = min(size, math.ceil(missing_runs.size / (4 * workers())))
    else:
        stages = min(cell.horizon, MIN_LEAP_HORIZON) if cell.leap else cell.horizon
        fair_size = max(
            math.ceil(MIN_JOB_STAGES / stages), math.ceil(missing_runs.size / (4 * workers()))
        )
        slowdown = max(1, cell.problem.n_arms // FEW_ARMS)  # the factor by which a stage takes longer
        size = max(1, min(MAX_JOB_STAGES // (slowdown * stages), fair_size))
    for block in np.split(missing_runs, np.flatnonzero(np.diff(missing_runs) != 1) + 1):
        for start in range(0, block.size, size):
            job_runs = block[start : start + size]
            yield cell._replace(first_run=int(job_runs[0]), end_run=int(job_runs[-1]) + 1)


def _fits_a_job(cell: Job, n_cells: int, workers: Workers) -> bool:
    """Return whether one job should play the whole cell: it is short, and there are many cells.

    A worker that plays a whole cell returns a summary instead of the runs.
    """
    is_small = 8 * cell.end_run * cell.stages.size <= MAX_SUMMARY_BYTES
    is_short = estimate_seconds(cell) <= MAX_CELL_SECONDS
    return is_small and is_short and n_cells >= MAX_PAYLOADS_PER_WORKER * workers()


def chunk_size(cells: list[Job], workers: Workers) -> int:
    """Return the number of runs per chunk, limited by size, duration and the number of workers."""
    runs = cells[0].end_run
    longest_run_seconds = max(estimate_seconds(cell) for cell in cells) / runs
    return max(
        1,
        min(
            runs,
            MAX_CHUNK_BYTES // (8 * max(cell.stages.size for cell in cells)),
            math.ceil(MAX_CELL_SECONDS / longest_run_seconds),
            math.ceil(runs / math.ceil(MAX_PAYLOADS_PER_WORKER * workers() / len(cells))),
        ),
    )


# -------------------------------------------------------------------------------------------- checks


def check_memory(options: Options, n_cells: int, n_stages: int, n_arms: int) -> None:
    """Raise ValueError if a result would take more than half of the memory."""
    rows = options["runs"] if options["keep"] == "runs" else len(STATISTICS)
    size = 8 * n_cells * rows * (n_stages + 2 * n_arms + 2)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # the system does not report its memory
        memory = DEFAULT_MEMORY
    if size > memory / 2:
        raise ValueError(
            f"runs={options['runs']} would take {size / 2**30:.3g} GiB of {memory / 2**30:.3g} GiB "
            "memory; use fewer runs, or a file that ends in .zarr"
        )


def _check_duration(cell: Job, workers: Workers) -> None:
    """Raise ValueError, with an estimate, if a cell would take more than two days."""
    per_stage, horizon = estimate_stage_seconds(cell.feedback, cell.policy), cell.horizon
    seconds = per_stage * horizon
    if cell.leap:  # leaps take little time, unless a policy alternates between tied best arms
        has_ties = bool((cell.problem.optimal.sum(axis=-1) > 1).any())
        seconds = (
            1e-5 * horizon**0.7 if has_ties else 1.0 + per_stage * min(horizon, MIN_LEAP_HORIZON)
        )
    seconds *= cell.end_run
    if seconds > MAX_SECONDS and (seconds := seconds / workers()) > MAX_SECONDS:
        message = f"horizon={horizon} would take {cell.label[1]} about {seconds / 86400:.3g} days"
        if cell.leap:
            raise ValueError(f"{message} in leaps; use a shorter horizon or fewer runs")
        raise ValueError(
            f"{message} stage by stage; use a policy that can leap, or a shorter horizon"
        )


def _check_once(policy: Policy) -> None:
    """Raise ValueError if a policy of the user breaks its contract; check equal policies once."""
    key = (content_hash(policy.functions), str(policy.constants))
    if key not in _checked_policies:
        check_promises(policy)
        _checked_policies.add(key)


_checked_policies: set[tuple[str, str]] = set()


def _check_combination(policy: Policy, problem: Problem, label: str) -> None:
    if policy.is_python:
        policy.init(policy.params, problem.n_arms)  # raises ValueError if a method is missing
    elif named_spec(policy) is None:
        _check_once(policy)
    low, high = problem.support
    if policy.rewards != "gaussian" and not (low >= 0 and high <= 1):
        raise ValueError(
            f"{label} is for rewards in [0, 1], but the rewards of the {problem.kind} problem are "
            f'between {low:g} and {high:g}; give the policy rewards="gaussian"'
        )
    if policy.rewards == "bernoulli" and not problem.is_binary:
        raise ValueError(
            f"{label} is for rewards of 0 and 1, but the problem has other rewards; "
            'use rewards="bounded"'
        )
    if policy.max_arms is not None and problem.n_arms > policy.max_arms:
        raise ValueError(
            f"{label} plays with at most {policy.max_arms} arms, but the problem has "
            f"{problem.n_arms}; use another policy"
        )
