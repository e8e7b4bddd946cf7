"""Play policies against a problem, and over a grid of settings."""

import math
import os
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.files import checked_target
from kibitz.model.feedback import Every, Feedback, checked_feedback
from kibitz.model.problem import Problem, checked_problem
from kibitz.policies import POLICIES
from kibitz.policies.contract import check_monotonicity
from kibitz.policies.policy import Policy
from kibitz.simulator.identity import difference, setting_of
from kibitz.simulator.jobs import Job, no_runs, play, play_all
from kibitz.simulator.leap import can_leap
from kibitz.simulator.results import RECORDED, Cell, Key, dataset, load, save
from kibitz.simulator.world import looks_of
from kibitz.validate import between, one_of, quoted, refused, whole

if TYPE_CHECKING:
    import xarray

Policies = Policy | Iterable[Policy] | Mapping[str, Policy]
Progress = Callable[[str, float], None]

SAVE_SECONDS = 20.0  # how much work a crash of the machine may lose
N_STAGES = 200
LEAP_PAYS = 100_000  # the horizon from which on leaping is the faster way
PATIENCE_SECONDS = 2 * 86400.0
LEAST_STAGES = 20_000  # of a job, where there are as many: to begin one takes a millisecond
JOB_STAGES = 1_000_000  # of a job: worth a thread, and not long to wait for
MOST_RUNS = 2**32 - 1  # a run is one word of its seed
MEMORY = 2**34  # bytes that are taken to be there where the system does not tell

TAKEN = {"policy", "run", "stage", "arm", "final_regret", *RECORDED}  # names of a result

Point = tuple[Problem, Feedback, dict[str, Policy], int]  # what is played, and its horizon


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
        How many runs to play at a time; all cores unless given. Results do not depend on it.
    file
        A netCDF file to save to. What it already holds of the same setting is not computed again;
        an interrupted simulation leaves there what was done.
    progress
        Called as `progress(what, share)` now and then, with the share of the work that is done.
    engine
        "step" plays stage by stage; "leap" skips ahead where that is sound (`simulator.leap`) and
        else plays stage by stage; "auto" leaps where it also pays. The attribute `engine` says which.
    error
        How much the law of a run may differ from that of stage-by-stage play, in total variation,
        when leaping.

    Returns
    -------
    xarray.Dataset
        `regret` (policy, run, stage): \sum_i \Delta_i N_i at the end of a stage; `final_regret`
        (policy, run); `n_pulls` and `n_free` (policy, run, arm) at the horizon; `error`
        (policy, run), 0 stage by stage; and in its attributes, as JSON, the setting, the seed, the
        engine of each policy and the versions that made it.
    """
    points = {None: (problem, feedback, labelled(policies), horizon)}
    task = _Task(None, points, runs, seed, stages, threads, file, engine, error)
    return _computed(task, progress)


def sweep(
    name: str,
    values: Sequence[Any],
    problem: Problem | Callable[[Any], Problem],
    feedback: Feedback | Callable[[Any], Feedback],
    policies: Policies | Callable[[Any], Policies],
    *,
    horizon: int | Callable[[Any], int],
    runs: int,
    seed: int,
    stages: ArrayLike | None = None,
    threads: int | None = None,
    file: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    engine: str = "auto",
    error: float = 1e-9,
) -> "xarray.Dataset":
    """Do the same as `simulate` for each of some values, and add a dimension for them.

    Whatever depends on the value is given as a function of it::

        sweep("rate", [0.01, 0.1, 1], problem, passive, ucb(), horizon=10_000, runs=100, seed=1)
        sweep("p", [1.5, 2, 3], problem, active(0.1), lambda p: etc_ocucb(p=p), ...)
        sweep("horizon", [100, 1000], problem, bandit(), ucb(), horizon=int, ...)

    All points share seed and stages; beyond a point's own horizon `regret` is NaN, and
    `final_regret` is the regret at that horizon.

    Parameters
    ----------
    name, values
        The name of the dimension, and its coordinates: numbers or strings.
    problem, feedback, policies, horizon
        As in `simulate`, or functions of the value. Policies that depend on the value are labelled
        by their names, unless they come as a dict.
    """
    if not (isinstance(name, str) and name.isidentifier() and name not in TAKEN):
        raise refused("name", "a name for the dimension", name)
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise refused("values", "a list of numbers or strings", values)
    grid = [v.item() if isinstance(v, np.generic) else v for v in values]
    if not all(isinstance(v, int | float | str) for v in grid):
        raise refused("values", "a list of numbers or strings", values)
    if not grid or len(set(grid)) < len(grid):
        raise refused("values", "some different values", values)

    def at(thing: Any, value: Any) -> Any:
        return thing(value) if callable(thing) else thing

    points = {
        value: (
            at(problem, value),
            at(feedback, value),
            labelled(at(policies, value), by_name=callable(policies)),
            at(horizon, value),
        )
        for value in grid
    }
    task = _Task(name, points, runs, seed, stages, threads, file, engine, error)
    return _computed(task, progress)


def labelled(policies: Policies, by_name: bool = False) -> dict[str, Policy]:
    """Return policies by label: the name, with the parameters that are not the default ones."""
    if isinstance(policies, Policy):
        policies = [policies]
    try:
        given = policies if isinstance(policies, Mapping) else dict(enumerate(policies))
    except TypeError:  # nothing to go through
        raise refused("policies", "policies such as ucb()", policies) from None
    for policy in given.values():
        if not isinstance(policy, Policy):
            raise refused("policies", "policies such as ucb()", policy)
    if isinstance(policies, Mapping):
        named = {str(label): policy for label, policy in policies.items()}
    else:
        named = {}
        for policy in given.values():
            label = policy.name if by_name else label_of(policy)
            if label in named:
                raise ValueError(
                    f"policies must have different labels (give them as a dict), got {label!r} twice"
                )
            named[label] = policy
    if not named:
        raise ValueError("policies must be at least one policy, got none")
    return named


def label_of(policy: Policy) -> str:
    """Return `name` or `name:parameter=value,...`, with the parameters that are not the default."""
    default = POLICIES[policy.name]().setting if policy.name in POLICIES else policy.setting
    given = [f"{k}={_short(v)}" for k, v in policy.setting.items() if default.get(k) != v]
    if policy.scale is not None:
        given.append(f"scale={_short(policy.scale)}")
    return f"{policy.name}:{','.join(given)}" if given else policy.name


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def log_spaced(horizon: int, n: int = N_STAGES) -> NDArray[np.int64]:
    """Return about n stages from 1 to the horizon, log-spaced."""
    spaced = np.unique(np.geomspace(1, horizon, n).round().astype(np.int64))
    spaced[-1] = horizon
    return spaced


class _Task(NamedTuple):
    """What is to be computed, as the user gave it."""

    swept: str | None
    points: dict[Any, Point]  # by the swept value
    runs: int
    seed: int
    stages: ArrayLike | None
    threads: int | None
    file: str | os.PathLike[str] | None
    engine: str
    error: float


def _computed(task: _Task, progress: Progress | None) -> "xarray.Dataset":
    """Play what is missing, and return all that was asked for."""
    task = _checked(task)
    if not (progress is None or callable(progress)):
        raise refused("progress", "a function", progress)
    tell: Progress = progress if progress is not None else lambda what, share: None
    assert task.threads is not None
    stages = _checked_stages(task.stages, [point[3] for point in task.points.values()])
    path = None if task.file is None else checked_target(task.file, "file")
    table = _loaded(path, task.swept, stages)
    asked, jobs = _missing_jobs(task, stages, table, path)
    for job in {_loop_of(job): job for job in jobs}.values():
        _prepare(job, tell)

    def snapshot() -> None:
        if path is not None:
            most = max(len(cell.runs.regret) for cell in table.values())
            whole_table = {key: cell.extended(most) for key, cell in table.items()}
            save(dataset(whole_table, stages, most, task.swept), path)

    saved = time.monotonic()
    unsaved = path is not None and not path.exists()
    try:
        for job, played in play_all(jobs, task.threads, lambda share: tell("simulating", share)):
            for room, new in zip(table[job.label].runs, played, strict=True):
                room[(slice(job.first, job.last), *map(slice, new.shape[1:]))] = new
            unsaved = True
            if time.monotonic() - saved > SAVE_SECONDS:
                snapshot()
                saved, unsaved = time.monotonic(), False
    finally:
        if unsaved:
            snapshot()
    return dataset({key: table[key] for key in asked}, stages, task.runs, task.swept)


def _checked(task: _Task) -> _Task:
    """Return a task whose numbers are what they must be."""
    points = {
        value: (checked_problem(p), checked_feedback(f), policies, whole(horizon, "horizon", 1))
        for value, (p, f, policies, horizon) in task.points.items()
    }
    numbers = {point[0].n_arms for point in points.values()}
    if len(numbers) > 1:
        raise refused("problem", "one with the same number of arms at each value", numbers)
    return task._replace(
        points=points,
        runs=whole(task.runs, "runs", 1, MOST_RUNS),
        seed=whole(task.seed, "seed"),
        threads=_cores() if task.threads is None else whole(task.threads, "threads", 1, 2**16),
        engine=one_of(task.engine, "engine", ("auto", "step", "leap")),
        error=between(task.error, "error", 1e-12, 1e-3),
    )


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _loaded(path: Path | None, swept: str | None, stages: NDArray[np.int64]) -> dict[Key, Cell]:
    """Return what a file already holds."""
    if path is None or not path.exists():
        return {}
    table, there = load(path, swept)
    if not np.array_equal(there, stages):
        raise _other_setting(path, f"stages up to {there[-1]} that differ from those asked for")
    return table


def _missing_jobs(
    task: _Task, stages: NDArray[np.int64], table: dict[Key, Cell], path: Path | None
) -> tuple[list[Key], list[Job]]:
    """Return which cells are asked for, and the jobs for what the table does not hold of them.

    The table gets room for them.
    """
    assert task.threads is not None
    asked: list[Key] = []
    jobs: list[Job] = []
    n_cells = sum(len(policies) for _, _, policies, _ in task.points.values())
    for value, (problem, feedback, policies, horizon) in task.points.items():
        looks_of(feedback, problem.gaps, horizon)  # refuses what does not fit the problem
        _check_memory(task.runs, n_cells, stages.size, problem.n_arms)
        for label, policy in policies.items():
            _check_combination(policy, problem, label, horizon)
            key = (value, label)
            asked.append(key)
            leap = task.engine != "step" and can_leap(policy, problem, feedback)
            leap = leap and (task.engine == "leap" or horizon >= LEAP_PAYS)
            _check_patience(label, problem, feedback, horizon, task.runs / task.threads, leap)
            setting = setting_of(problem, feedback, policy, horizon, task.seed, leap, task.error)
            if key in table:
                differs = difference(table[key].setting, setting)
                if differs:
                    raise _other_setting(path, f"{differs} for {label}")
                table[key] = Cell(setting, table[key].extended(task.runs).runs)
            else:
                room = max([task.runs, *(len(cell.runs.regret) for cell in table.values())])
                table[key] = Cell(setting, no_runs(room, stages.size, problem.n_arms))
            own = stages[stages <= horizon]
            cost = min(horizon, LEAP_PAYS) if leap else horizon
            for first, last in _chunks(table[key].missing(task.runs), cost, task.threads):
                what = (key, policy, problem, feedback, horizon, own, task.seed)
                jobs.append(Job(*what, first, last, leap, task.error))
    return asked, jobs


def _loop_of(job: Job) -> Hashable:
    """Return what tells jobs apart that need loops of their own."""
    varying = tuple(f if callable(f) else None for f in (job.feedback.rate, job.feedback.weights))
    return job.policy.functions, tuple(job.policy.numbers), varying, job.leap


def _prepare(job: Job, tell: Progress) -> None:
    """Find or compile the loop of a job, by a job without runs."""
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    name = job.policy.name
    nothing = job._replace(horizon=1, stages=np.ones(1, np.int64), first=0, last=0)
    try:
        play(nothing, announce=lambda: tell(f"compiling {name}", 0.0))
    except (NumbaError, UnsupportedBytecodeError) as error:
        raise ValueError(
            f"{name} must be made of functions that numba can compile, got: {_reason(str(error))}"
        ) from error


def _reason(message: str) -> str:
    """Return the line of numba's message that says what is wrong, below those that say where."""
    where = (
        "Failed in", "No implementation", ">>>", "There are", "- Of which", "Overload in",
        "With argument", "Rejected as", "During", "File ", "raised from", "TypingError: Failed",
    )  # fmt: skip
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith(where)), lines[0] if lines else "")


def _chunks(missing: NDArray[np.int64], horizon: int, threads: int) -> Iterable[tuple[int, int]]:
    """Cut runs into ranges of neighbours, each a fair piece of work."""
    if missing.size == 0:
        return
    fair = max(math.ceil(LEAST_STAGES / horizon), math.ceil(missing.size / (4 * threads)))
    size = max(1, min(JOB_STAGES // horizon, fair))
    for block in np.split(missing, np.flatnonzero(np.diff(missing) != 1) + 1):
        for start in range(0, block.size, size):
            part = block[start : start + size]
            yield int(part[0]), int(part[-1]) + 1


def _check_memory(runs: int, n_cells: int, n_stages: int, n_arms: int) -> None:
    """Refuse a result that does not fit in memory."""
    size = 8 * n_cells * runs * (n_stages + 2 * n_arms + 2)
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        there = MEMORY
    if size > there / 2:
        raise ValueError(
            f"runs must be so few that the result fits in memory, got {runs}: it would take "
            f"{size / 2**30:.3g} GiB of {there / 2**30:.3g}"
        )


def _check_patience(
    label: str, problem: Problem, feedback: Feedback, horizon: int, runs: float, leap: bool
) -> None:
    """Refuse what would take for ever, with an estimate of the time."""
    rate = feedback.rate
    often = 1 / rate.n if isinstance(rate, Every) else rate if isinstance(rate, float) else 1.0
    each = 5e-8 + 1e-7 * often * feedback.looks
    seconds = each * horizon
    if leap:  # hardly anything, but for tied best arms, between which a policy keeps alternating
        ties = problem.optimal.sum() > 1
        seconds = 1e-5 * horizon**0.7 if ties else 1.0 + each * min(horizon, LEAP_PAYS)
    if seconds * runs > PATIENCE_SECONDS:
        raise ValueError(
            f"horizon must be one that can be played, got {horizon}: the runs of {label} would take "
            f"about {seconds * runs / 86400:.2g} days, {'leaping' if leap else 'stage by stage'}"
        )


def _check_combination(policy: Policy, problem: Problem, label: str, horizon: int) -> None:
    if policy.index is not None and policy.name not in POLICIES:  # a promise of the user's
        check_monotonicity(policy, policy.params_for(horizon))
    low, high = problem.support
    if policy.unit_rewards and not (low >= 0 and high <= 1):
        raise ValueError(
            f"{label} must be played with rewards in [0, 1], got {problem.law} rewards "
            f"between {low:g} and {high:g}"
        )


def _checked_stages(stages: ArrayLike | None, horizons: list[int]) -> NDArray[np.int64]:
    horizon = max(horizons)
    if stages is None:
        spaced = log_spaced(horizon)
    else:
        try:
            given = np.array(stages)
            whole_numbers = given.dtype.kind in "iuf" and np.all(given == np.floor(given))
        except (TypeError, ValueError, OverflowError):
            raise refused("stages", "a list of whole numbers", stages) from None
        if given.ndim != 1 or given.size == 0 or not whole_numbers:
            raise refused("stages", "a list of whole numbers", stages)
        if not np.all((given >= 1) & (given <= horizon)) or not np.all(np.diff(given) > 0):
            raise ValueError(
                f"stages must increase from 1 to at most {horizon}, got {quoted(stages)}"
            )
        spaced = given.astype(np.int64)
    return np.union1d(spaced, np.array(horizons, np.int64))


def _other_setting(path: Path | None, differs: str) -> ValueError:
    return ValueError(f"file must be of the same setting, got {quoted(str(path))} with {differs}")
