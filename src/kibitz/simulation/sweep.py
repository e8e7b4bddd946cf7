"""Play policies over values of what they, the problem or the feedback depend on."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from kibitz._validation import invalid
from kibitz.model.feedback import Feedback, check_feedback
from kibitz.model.problem import Problem, check_problem
from kibitz.simulation.options import OPTIONS, check_option, check_options, show_options
from kibitz.simulation.results.dataset import POINT, RECORDED, Swept
from kibitz.simulation.schedule import Point, Policies, label_policies
from kibitz.simulation.simulate import play_points

if TYPE_CHECKING:
    import xarray

#: Names of a result, which no dimension of a sweep can have.
TAKEN = {"policy", "run", "statistic", "stage", "arm", "final_regret", POINT, *RECORDED}
NOT_OPTIONS = ("horizon", "watch")  # of `simulate`: each point has its own horizon
VALUES = "a list of numbers or strings"


@show_options(without=NOT_OPTIONS)
def sweep(
    problem: Problem | Callable[..., Problem],
    feedback: Feedback | Callable[..., Feedback],
    policies: Policies | Callable[..., Policies],
    *,
    horizon: int | Iterable[int] | Callable[..., int],
    runs: int,
    seed: int,
    **grid: Any,
) -> "xarray.Dataset":
    """Do the same as `simulate` for each of some values, and add a dimension for them.

    Each keyword that is a list (or a range, or an array) is swept: a dimension of the result. Two
    lists make a grid of all combinations. `problem`, `feedback` and `policies` are functions
    where they depend on a value; each gets the keywords that it has parameters for::

        sweep(problem, passive, ucb(), rate=[0.01, 0.1, 1], horizon=10_000, runs=100, seed=1)
        sweep(problem, active(0.1), ucb(), horizon=[100, 1000], runs=100, seed=1)
        sweep(problem, active, etc_ocucb, rate=[0.01, 0.1], p=[1.5, 2, 3], ...)

    A keyword with a single value goes to the same functions and is not swept::

        sweep(problem, passive, ucb(), rate=[0.01, 0.1], weights="optimal", ...)

    For a parameter that is itself a list, write a function: `lambda rate: passive(rate, [0.1, 0.9])`.

    `points` are combinations that are no grid. They add one dimension, `point`, with the values as
    coordinates along it::

        sweep(problem, active, etc_ocucb, points=[{"rate": 0.01, "p": 2}, {"rate": 0.1, "p": 3}], ...)

    Random problems (`random_problems`) are functions of the number of the `draw`::

        sweep(random_problems(make, seed=1), active(0.1), ucb(), draw=range(100), ...)

    All points share seed and stages; beyond a point's own horizon `regret` is NaN, and
    `final_regret` is the regret at that horizon.

    Parameters
    ----------
    problem, feedback, policies
        As in `simulate`, or functions that return them. Policies that a function returns are
        labelled by their names, unless they come as a dict.
    horizon
        As in `simulate`, or a list, which is swept as the last dimension, or a function.
    grid
        Lists to sweep, and single values; or `points`, a list of dicts with the same keys. See above.
    {names}
        As in `simulate`.
    """
    options = {name: grid.pop(name) for name in grid.keys() & OPTIONS.keys()}
    options |= {"runs": runs, "seed": seed}
    checked = check_options(options, NOT_OPTIONS)
    points = grid.pop("points", None)
    if _is_list(horizon):
        grid["horizon"], horizon = horizon, lambda horizon: horizon
    lists = {name: value for name, value in grid.items() if _is_list(value)}
    single = {name: value for name, value in grid.items() if name not in lists}
    swept, rows = _grid(lists, single) if points is None else _points(points, lists)
    for name in swept.names:
        if name in single:
            raise ValueError(f"{name} must be given once, got {single[name]!r} and points")
        if name in TAKEN or (name in OPTIONS and name not in lists):
            raise ValueError(f"{name!r} must be swept under another name: results have their own")
    names = [*swept.names, *single]
    label = partial(label_policies, by_name=callable(policies))
    parts: dict[str, tuple[list[str], Callable[[dict[str, Any]], Any]]] = {
        "problem": _by_name("problem", problem, names, check_problem),
        "feedback": _by_name("feedback", feedback, names, check_feedback),
        "policies": _by_name("policies", policies, names, label),
        "horizon": _by_name("horizon", horizon, names, partial(check_option, "horizon")),
    }
    unused = set(names).difference(*(used for used, _ in parts.values()))
    if unused:
        raise TypeError(
            f"sweep() got an unexpected keyword argument {min(unused)!r}: it is not an option of "
            "simulate, and none of problem, feedback, policies and horizon is a function with "
            "such a parameter"
        )
    played: dict[tuple[Any, ...], Point] = {}
    for row in rows:
        values = {**single, **dict(zip(swept.names, row, strict=True))}
        played[row] = Point(**{part: make(values) for part, (_, make) in parts.items()})
    numbers = {point.problem.n_arms for point in played.values()}
    if len(numbers) > 1:
        raise invalid("problem", "one with the same number of arms at each value", numbers)
    return play_points(swept, played, checked)


def _is_list(value: Any) -> bool:
    """Return whether a value is several: a list, a range, an array, but no text, dict or record."""
    one = isinstance(value, str | bytes | Mapping | Set) or hasattr(value, "_fields")
    return isinstance(value, Iterable) and not one and getattr(value, "ndim", 1) > 0


def _grid(lists: dict[str, Any], single: dict[str, Any]) -> tuple[Swept, list[tuple[Any, ...]]]:
    """Return the dimensions of a grid, and the values of each of its points."""
    if not lists:
        name, value = next(iter(single.items()), ("a keyword", None))
        raise invalid(name, f"{VALUES}, for nothing else is swept", value)
    columns = {name: [_plain(value) for value in values] for name, values in lists.items()}
    for name, values in columns.items():
        _check_values(values, name)
        if not values or len(set(values)) < len(values):
            raise invalid(name, "some different values", lists[name])
    return Swept(tuple(columns)), list(product(*columns.values()))


def _points(points: Any, lists: dict[str, Any]) -> tuple[Swept, list[tuple[Any, ...]]]:
    """Return the names of a list of points, and the values of each."""
    condition = "a list of dicts that have the same keys"
    if lists:
        raise invalid("points", f"given without other lists ({', '.join(lists)})", points)
    if not isinstance(points, Sequence) or not all(isinstance(point, Mapping) for point in points):
        raise invalid("points", condition, points)
    names = tuple(points[0]) if points else ()
    if not names or any(point.keys() != points[0].keys() for point in points):
        raise invalid("points", condition, points)
    rows = [tuple(_plain(point[name]) for name in names) for point in points]
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        _check_values(values, name)
    if len(set(rows)) < len(rows):
        raise invalid("points", "a list of different points", points)
    return Swept(names, grid=False), rows


def _check_values(values: Iterable[Any], name: str) -> None:
    if not (isinstance(name, str) and name.isidentifier()):
        raise invalid("points", "dicts whose keys are names", name)
    if not all(isinstance(value, int | float | str) for value in values):
        raise invalid(name, VALUES, values)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _by_name(
    part: str, thing: Any, names: list[str], check: Callable[[Any], Any]
) -> tuple[list[str], Callable[[dict[str, Any]], Any]]:
    """Return the names of the values that a part depends on, and the part as a function of them."""
    if not callable(thing):
        fixed = check(thing)
        return [], lambda values: fixed
    condition = f"a function of {' and '.join(names)}, by name"
    try:
        signature = inspect.signature(thing)
        if not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            names = [name for name in names if name in signature.parameters]
        signature.bind(**dict.fromkeys(names))
    except (TypeError, ValueError):
        raise invalid(part, condition, thing) from None
    return names, lambda values: check(thing(**{name: values[name] for name in names}))
