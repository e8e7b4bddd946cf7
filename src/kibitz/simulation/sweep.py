"""Play policies over values of what they, the problem or the feedback depend on."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from kibitz._validation import refused
from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.simulation.axes import POINT, Swept
from kibitz.simulation.executors import Executors
from kibitz.simulation.kernels import Progress
from kibitz.simulation.labels import Policies, labelled
from kibitz.simulation.results import RECORDED
from kibitz.simulation.task import Point, Task, computed

if TYPE_CHECKING:
    import xarray

TAKEN = {"policy", "run", "stage", "arm", "final_regret", *RECORDED}  # names of a result

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]


class Options(TypedDict, total=False):
    """The further options of a sweep, which are those of `simulate`."""

    stages: ArrayLike | None
    threads: int | None
    file: str | os.PathLike[str] | None
    progress: Progress | None
    engine: str
    error: float
    executor: Executors | None
    keep: str
    loop: str


@overload
def sweep(
    name: str,
    values: Sequence[Any],
    problem: Problem | Callable[..., Problem],
    feedback: Feedback | Callable[..., Feedback],
    policies: Policies | Callable[..., Policies],
    *,
    horizon: int | Callable[..., int],
    runs: int,
    seed: int,
    **options: Unpack[Options],
) -> "xarray.Dataset": ...


@overload
def sweep(
    name: Grid,
    problem: Problem | Callable[..., Problem],
    feedback: Feedback | Callable[..., Feedback],
    policies: Policies | Callable[..., Policies],
    /,
    *,
    horizon: int | Callable[..., int],
    runs: int,
    seed: int,
    **options: Unpack[Options],
) -> "xarray.Dataset": ...


def sweep(
    name: Any,
    values: Any,
    problem: Any,
    feedback: Any,
    policies: Any = None,
    *,
    horizon: int | Callable[..., int],
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
) -> "xarray.Dataset":
    """Do the same as `simulate` for each of some values, and add a dimension for them.

    Whatever depends on the value is given as a function of it::

        sweep("rate", [0.01, 0.1, 1], problem, passive, ucb(), horizon=10_000, runs=100, seed=1)
        sweep("p", [1.5, 2, 3], problem, active(0.1), lambda p: etc_ocucb(p=p), ...)
        sweep("horizon", [100, 1000], problem, bandit(), ucb(), horizon=int, ...)

    More than one dimension come as a dict, for all combinations, or as a list of points. Then a
    function is given the values of those that it has parameters for, by their names::

        sweep({"rate": [0.01, 0.1], "p": [1.5, 2, 3]}, problem, active, etc_ocucb, ...)
        sweep([{"rate": 0.01, "p": 2}, {"rate": 0.1, "p": 3}], problem, active, etc_ocucb, ...)

    A list of points adds the one dimension `point`, with the values as coordinates along it.
    Problems that are drawn from a law (`drawn`) are functions of the number of the `draw`::

        sweep("draw", range(100), drawn(law, seed=1), active(0.1), ucb(), ...)

    All points share seed and stages; beyond a point's own horizon `regret` is NaN, and
    `final_regret` is the regret at that horizon.

    Parameters
    ----------
    name, values
        The name of the dimension, and its coordinates: numbers or strings. Or, instead of the two,
        several names with their values, or a list of points; see above.
    problem, feedback, policies, horizon
        As in `simulate`, or functions of the value. Policies that depend on the value are labelled
        by their names, unless they come as a dict.
    runs, seed, stages, threads, file, progress, engine, error, executor, keep, loop
        As in `simulate`.
    """
    taken = TAKEN | ({"statistic"} if keep == "summary" else set())
    if isinstance(name, str) or not isinstance(name, Mapping | Sequence):
        swept, grid = Swept((_checked_name(name, taken),)), [(v,) for v in _checked_values(values)]
        things = (problem, feedback, policies, horizon)
        at = [_of_one(thing) for thing in things]
    else:
        if policies is not None:
            raise refused("values", "left out where the names come with their values", values)
        swept, grid = _points(name, taken)
        things = (values, problem, feedback, horizon)
        whats = ("problem", "feedback", "policies", "horizon")
        at = [_by_name(thing, what, swept) for thing, what in zip(things, whats, strict=True)]
    points: dict[Any, Point] = {}
    for value in grid:
        made, who, players, last = (made_at(value) for made_at in at)
        points[value] = (made, who, labelled(players, by_name=callable(things[2])), last)
    task = Task(swept, points, runs, seed, stages, threads, file, engine, error, executor, keep, loop)
    return computed(task, progress)


def _of_one(thing: Any) -> Callable[[tuple[Any, ...]], Any]:
    """Return what a thing is at a value: itself, unless it is a function."""
    return lambda value: thing(*value) if callable(thing) else thing


def _by_name(thing: Any, what: str, swept: Swept) -> Callable[[tuple[Any, ...]], Any]:
    """Return what a thing is at some values, of which it is given those that it has names for."""
    if not callable(thing):
        return lambda value: thing
    try:
        parameters = inspect.signature(thing).parameters
        names = [name for name in swept.names if name in parameters]
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            names = list(swept.names)
        inspect.signature(thing).bind(**dict.fromkeys(names))
    except (TypeError, ValueError):
        condition = f"a function of {' and '.join(swept.names)}, by name"
        raise refused(what, condition, thing) from None
    places = [swept.names.index(name) for name in names]
    return lambda value: thing(**{n: value[k] for n, k in zip(names, places, strict=True)})


def _points(grid: Any, taken: set[str]) -> tuple[Swept, list[tuple[Any, ...]]]:
    """Return what is swept, and the values of each point."""
    if isinstance(grid, Mapping) and grid:
        names = tuple(_checked_name(name, taken) for name in grid)
        lists = [_checked_values(values, name) for name, values in grid.items()]
        return Swept(names), list(product(*lists))
    condition = "a name, a dict of names and their values, or a list of points as dicts"
    if (
        not grid
        or isinstance(grid, Mapping | bytes)
        or not all(isinstance(point, Mapping) and point.keys() == grid[0].keys() for point in grid)
    ):
        raise refused("name", condition, grid)
    names = tuple(_checked_name(name, taken | {POINT}) for name in grid[0])
    if not names:
        raise refused("name", condition, grid)
    points = [tuple(_plain(point[name]) for name in names) for point in grid]
    for k, name in enumerate(names):
        _check_kinds([point[k] for point in points], name)
    if len(set(points)) < len(points):
        raise refused("name", "a list of different points", grid)
    return Swept(names, grid=False), points


def _checked_name(name: Any, taken: set[str]) -> str:
    if not (isinstance(name, str) and name.isidentifier() and name not in taken):
        raise refused("name", "a name for the dimension", name)
    return name


def _checked_values(values: Any, name: str = "values") -> list[Any]:
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise refused(name, "a list of numbers or strings", values)
    grid = [_plain(value) for value in values]
    _check_kinds(grid, name)
    if not grid or len(set(grid)) < len(grid):
        raise refused(name, "some different values", values)
    return grid


def _check_kinds(values: list[Any], name: str) -> None:
    if not all(isinstance(value, int | float | str) for value in values):
        raise refused(name, "a list of numbers or strings", values)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
