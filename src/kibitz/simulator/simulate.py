"""Play policies against a problem, and over a grid of settings."""

import json
import math
import os
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.compiling.jit import content_hash
from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.policies import POLICIES
from kibitz.policies.contract import check_monotonicity
from kibitz.policies.policy import Policy
from kibitz.simulator import results
from kibitz.simulator.engine import Piece, loop, planned, play_all, play_piece
from kibitz.simulator.leap import can_leap

if TYPE_CHECKING:
    import xarray

Policies = Policy | Iterable[Policy] | Mapping[str, Policy]
Progress = Callable[[str, float], None]

SAVE_SECONDS = 20.0  # how much work a crash of the machine may lose
N_STAGES = 200
LEAP_PAYS = 100_000  # the horizon from which on leaping is the faster way
PATIENCE_SECONDS = 2 * 86400.0
PIECE_STAGES = 1_000_000  # of a piece of work: worth a thread, and not long to wait for


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
        "step" plays stage by stage; "leap" skips ahead where that is sound (`kibitz.simulator.leap`) and else
        plays stage by stage; "auto" leaps where it also pays. The attribute `engine` says which.
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
    point = (problem, feedback, labelled(policies), horizon)
    how = (runs, seed, stages, threads, file, progress, engine, error)
    return _compute(None, {None: point}, *how)


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
    if not (name.isidentifier() and name not in {"policy", "run", "stage", "arm", "regret"}):
        raise ValueError(f"name must be a name for the dimension, got {name!r}")
    grid = [v.item() if isinstance(v, np.generic) else v for v in values]
    if not grid or len(set(grid)) < len(grid):
        raise ValueError(f"values must be some different values, got {list(values)!r}")

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
    return _compute(name, points, runs, seed, stages, threads, file, progress, engine, error)


def labelled(policies: Policies, by_name: bool = False) -> dict[str, Policy]:
    """Return policies by label: the name, with the parameters that are not the default ones."""
    if isinstance(policies, Policy):
        policies = [policies]
    given = policies if isinstance(policies, Mapping) else dict(enumerate(policies))
    for policy in given.values():
        if not isinstance(policy, Policy):
            raise ValueError(f"policies must be policies such as ucb(), got {policy!r}")
    if isinstance(policies, Mapping):
        named = dict(policies)
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
    return f"{policy.name}:{','.join(given)}" if given else policy.name


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def log_spaced(horizon: int, n: int = N_STAGES) -> NDArray[np.int64]:
    """Return about n stages from 1 to the horizon, log-spaced."""
    spaced = np.unique(np.geomspace(1, horizon, n).round().astype(np.int64))
    spaced[-1] = horizon
    return spaced


def _compute(
    swept: str | None,
    points: dict[Hashable, tuple[Problem, Feedback, dict[str, Policy], int]],
    runs: int,
    seed: int,
    stages: ArrayLike | None,
    threads: int | None,
    file: str | os.PathLike[str] | None,
    progress: Progress | None,
    engine: str,
    error: float,
) -> "xarray.Dataset":
    runs = _whole(runs, "runs", 1)
    seed = _whole(seed, "seed", 0)
    threads = len(os.sched_getaffinity(0)) if threads is None else _whole(threads, "threads", 1)
    if engine not in {"auto", "step", "leap"}:
        raise ValueError(f"engine must be 'auto', 'step' or 'leap', got {engine!r}")
    if not 1e-12 <= error <= 1e-3:
        raise ValueError(f"error must be between 1e-12 and 1e-3, got {error!r}")
    tell: Progress = progress if progress is not None else lambda what, share: None
    horizons = [_whole(horizon, "horizon", 1) for _, _, _, horizon in points.values()]
    kept = _checked_stages(stages, horizons)
    n_arms = _same_number_of_arms(problem for problem, _, _, _ in points.values())

    path = None if file is None else Path(file)
    table: dict[results.Key, results.Rows] = {}
    if path is not None:
        results.check_writable(path)
        if path.exists():
            table, there = results.load(path, swept)
            if not np.array_equal(there, kept):
                raise _other_setting(
                    path, f"stages up to {there[-1]} that differ from those asked for"
                )

    asked: list[results.Key] = []
    pieces: list[Piece] = []
    loops: dict[Any, Any] = {}
    for value, (problem, feedback, policies, horizon) in points.items():
        feedback.compiled(problem.gaps, horizon)  # refuses what does not fit the problem
        for label, policy in policies.items():
            _check_combination(policy, problem, label, horizon)
            key = (value, label)
            asked.append(key)
            leap = engine != "step" and can_leap(policy, problem, feedback)
            leap = leap and (engine == "leap" or horizon >= LEAP_PAYS)
            _check_patience(label, problem, horizon, runs, threads, leap)
            setting = setting_of(problem, feedback, policy, horizon, seed)
            setting |= {"engine": "leap", "error": error} if leap else {"engine": "step"}
            if key in table:
                differs = results.difference(table[key].setting, setting)
                if differs:
                    raise _other_setting(path, f"{differs} for {label}")
                table[key] = table[key].extended(runs)
            else:
                room = max([runs, *(len(rows.regret) for rows in table.values())])
                table[key] = results.Rows.empty(setting, room, kept.size, n_arms)
            missing = table[key].missing(runs)
            if missing.size:
                play = _prepared(policy, feedback, problem, leap, loops, tell)
                own = kept[kept <= horizon]
                what = (key, play, policy, problem, feedback, horizon, own, seed)
                cost = min(horizon, LEAP_PAYS) if leap else horizon
                for first, last in _chunks(missing, cost, threads):
                    pieces.append(Piece(*what, first, last, error))

    def snapshot() -> None:
        if path is not None:
            most = max(len(rows.regret) for rows in table.values())
            whole = {key: rows.extended(most) for key, rows in table.items()}
            results.save(results.dataset(whole, kept, most, swept), path)

    saved = time.monotonic()
    unsaved = path is not None and not path.exists()
    try:
        for piece, played in play_all(pieces, threads, lambda share: tell("simulating", share)):
            rows = table[piece.label]
            here = slice(piece.first, piece.last)
            rows.regret[here, : piece.stages.size] = played.regret
            rows.n_pulls[here], rows.n_free[here] = played.n_pulls, played.n_free
            rows.error[here] = played.error
            unsaved = True
            if time.monotonic() - saved > SAVE_SECONDS:
                snapshot()
                saved, unsaved = time.monotonic(), False
    finally:
        if unsaved:
            snapshot()
    return results.dataset({key: table[key] for key in asked}, kept, runs, swept)


def setting_of(
    problem: Problem, feedback: Feedback, policy: Policy, horizon: int, seed: int
) -> dict[str, Any]:
    """Return all that the numbers depend on, as plain data."""
    functions = (policy.init, policy.pull, policy.observe, policy.update, policy.index, policy.view)
    setting = {
        "problem": problem.setting,
        "feedback": feedback.setting,
        "policy": {
            "name": policy.name,
            "parameters": policy.setting,
            "functions": content_hash(functions)[:16],
        },
        "horizon": horizon,
        "seed": seed,
    }
    plain: dict[str, Any] = json.loads(json.dumps(setting))
    return plain


def _prepared(
    policy: Policy,
    feedback: Feedback,
    problem: Problem,
    leap: bool,
    loops: dict[Any, Any],
    tell: Progress,
) -> Any:
    """Return the compiled loop, from this call's others if it is the same one."""
    parts = (policy.init, policy.pull, policy.observe, policy.update, policy.index, policy.view)
    functions = (feedback.rate, feedback.weights)
    varying = tuple(f if callable(f) else None for f in functions)
    key = (parts, type(policy.params)._fields, varying, leap)
    if key not in loops:
        from numba.core.errors import NumbaError, UnsupportedBytecodeError

        play = loop(policy, feedback, lambda: tell(f"compiling {policy.name}", 0.0), leap)
        short = Piece(None, play, policy, problem, feedback, 1, np.ones(1, np.int64), 0, 0, 1)
        try:
            play_piece(short, np.zeros(2, np.int64))
        except (NumbaError, UnsupportedBytecodeError) as error:
            reason = next((line for line in str(error).splitlines() if line.strip()), "")
            raise ValueError(
                f"{policy.name} must be made of functions that numba can compile, got: {reason}"
            ) from error
        loops[key] = play
    return loops[key]


def _chunks(missing: NDArray[np.int64], horizon: int, threads: int) -> Iterable[tuple[int, int]]:
    """Cut runs into ranges of neighbours, each a fair piece of work."""
    size = max(1, min(PIECE_STAGES // horizon, math.ceil(missing.size / (4 * threads))))
    for block in np.split(missing, np.flatnonzero(np.diff(missing) != 1) + 1):
        for start in range(0, block.size, size):
            part = block[start : start + size]
            yield int(part[0]), int(part[-1]) + 1


def _check_patience(
    label: str, problem: Problem, horizon: int, runs: int, threads: int, leap: bool
) -> None:
    """Refuse what would take for ever, with an estimate of the time."""
    seconds = 5e-8 * horizon
    if leap:  # hardly anything, but for tied best arms, between which a policy keeps alternating
        seconds = 1e-5 * horizon**0.7 if problem.optimal.sum() > 1 else 1.0
    total = seconds * runs / threads
    if total > PATIENCE_SECONDS:
        raise ValueError(
            f"horizon must be one that can be played, got {horizon}: {runs} runs of {label} would "
            f"take about {total / 86400:.2g} days, {'leaping' if leap else 'stage by stage'}"
        )


def _check_combination(policy: Policy, problem: Problem, label: str, horizon: int) -> None:
    if policy.index is not None and policy.name not in POLICIES:  # a promise of the user's
        check_monotonicity(policy, planned(policy, horizon))
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
        given = np.asarray(stages)
        if given.ndim != 1 or given.size == 0 or not np.all(given == np.floor(given)):
            raise ValueError(f"stages must be a list of whole numbers, got {stages!r}")
        if not np.all((given >= 1) & (given <= horizon)) or not np.all(np.diff(given) > 0):
            raise ValueError(f"stages must increase from 1 to at most {horizon}, got {stages!r}")
        spaced = given.astype(np.int64)
    return np.union1d(spaced, np.array(horizons, np.int64))


def _same_number_of_arms(problems: Iterable[Problem]) -> int:
    numbers = {problem.n_arms for problem in problems}
    if len(numbers) > 1:
        raise ValueError(f"problem must have the same number of arms at each value, got {numbers}")
    return numbers.pop()


def _other_setting(path: Path | None, differs: str) -> ValueError:
    return ValueError(f"file must be of the same setting, got {str(path)!r} with {differs}")


def _whole(number: Any, name: str, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
        raise ValueError(f"{name} must be a whole number, got {number!r}")
    if not (math.isfinite(number) and number == int(number) and least <= number < 2**62):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {number!r}")
    return int(number)
