"""`sweep`: simulate over the values of parameters of the problem, feedback or policies."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from kibitz._validation import invalid, short_repr, suggest
from kibitz.model.feedback import Feedback, check_feedback
from kibitz.model.problem import Problem, check_problem
from kibitz.simulation.options import OPTIONS, check_option, check_options, show_options
from kibitz.simulation.results.dataset import POINT, RECORDED, Sweep
from kibitz.simulation.schedule import Point, Policies, label_policies
from kibitz.simulation.simulate import play_points

if TYPE_CHECKING:
    import xarray

#: The names that a result uses; a swept parameter cannot have one of these names.
TAKEN = {"policy", "run", "statistic", "stage", "arm", "final_regret", POINT, *RECORDED}
NOT_OPTIONS = ("horizon", "watch")  # options of `simulate` only: each point has its own horizon
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
    """Simulate for every value of one or more parameters; each parameter adds a dimension.

    Each keyword that is a list, range or array is swept and becomes a dimension of the result.
    Several lists are swept over all combinations of their values. If `problem`, `feedback` or
    `policies` depends on a swept value, pass a function; it receives the keywords that match its
    parameters::

        sweep(problem, passive, ucb(), rate=[0.01, 0.1, 1], horizon=10_000, runs=100, seed=1)
        sweep(problem, active(0.1), ucb(), horizon=[100, 1000], runs=100, seed=1)
        sweep(problem, active, etc_ocucb, rate=[0.01, 0.1], p=[1.5, 2, 3], ...)

    A keyword with a single value is passed to the same functions and is not swept::

        sweep(problem, passive, ucb(), rate=[0.01, 0.1], weights="optimal", ...)

    If a single value is itself a list, wrap the function: `lambda rate: passive(rate, [0.1, 0.9])`.

    `points` lists combinations of values that do not form a grid. The points add one dimension,
    `point`, with the values as coordinates::

        sweep(problem, active, etc_ocucb, points=[{"rate": 0.01, "p": 2}, {"rate": 0.1, "p": 3}], ...)

    Random problems (`random_problems`) are functions of the number `draw`::

        sweep(random_problems(make, seed=1), active(0.1), ucb(), draw=range(100), ...)

    All points share the seed and the stages. Beyond the horizon of a point, `regret` is NaN;
    `final_regret` is the regret at the point's horizon.

    Parameters
    ----------
    problem, feedback, policies
        As in `simulate`, or functions that return them. Policies returned by a function are
        labelled by name, unless the function returns a dict.
    horizon
        As in `simulate`; or a list, which is swept and becomes the last dimension; or a function.
    grid
        Lists to sweep and single values, as described above; or `points`, a list of dicts with equal
        keys.
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
            raise ValueError(
                f"{name} is given both in points and as a keyword ({single[name]!r}); drop one"
            )
        if name in TAKEN:
            raise ValueError(
                f"a swept parameter cannot be called {name!r}: results use that name; rename it"
            )
        if name in OPTIONS and name not in lists:
            raise ValueError(f"{name!r} is an option and cannot vary in points; pass it as a keyword")
    names = [*swept.names, *single]
    label = partial(label_policies, by_name=callable(policies))
    parts: dict[str, tuple[list[str], Callable[[dict[str, Any]], Any]]] = {
        "problem": _bind("problem", problem, names, check_problem),
        "feedback": _bind("feedback", feedback, names, check_feedback),
        "policies": _bind("policies", policies, names, label),
        "horizon": _bind("horizon", horizon, names, partial(check_option, "horizon")),
    }
    unused = set(names).difference(*(used for used, _ in parts.values()))
    if unused:
        functions = [part for part in (problem, feedback, policies, horizon) if callable(part)]
        parameters = {name for part in functions for name in inspect.signature(part).parameters}
        raise TypeError(
            f"sweep() got an unexpected keyword argument {min(unused)!r}: it is not an option of "
            "simulate, nor a parameter of a function given as problem, feedback, policies or horizon"
            f"{suggest(min(unused), [*OPTIONS, *parameters])}"
        )
    point_of_row: dict[tuple[Any, ...], Point] = {}
    for row in rows:
        values = {**single, **dict(zip(swept.names, row, strict=True))}
        point_of_row[row] = Point(**{part: make(values) for part, (_, make) in parts.items()})
    numbers = {point.problem.n_arms for point in point_of_row.values()}
    if len(numbers) > 1:
        raise ValueError(f"all problems must have the same number of arms, got {sorted(numbers)}")
    return play_points(swept, point_of_row, checked)


def _is_list(value: Any) -> bool:
    """Return whether a value is a list, range or array, and not a string, dict or NamedTuple."""
    one = isinstance(value, str | bytes | Mapping | Set) or hasattr(value, "_fields")
    return isinstance(value, Iterable) and not one and getattr(value, "ndim", 1) > 0


def _grid(lists: dict[str, Any], single: dict[str, Any]) -> tuple[Sweep, list[tuple[Any, ...]]]:
    """Return the dimensions of a grid and the values at each of its points."""
    if not lists:
        name, value = next(iter(single.items()), ("a keyword", None))
        raise ValueError(f"nothing to sweep: pass {VALUES}, got {name}={short_repr(value)}")
    columns = {name: [_plain(value) for value in values] for name, values in lists.items()}
    for name, values in columns.items():
        _check_values(values, name)
        if not values or len(set(values)) < len(values):
            raise invalid(name, "a non-empty list without duplicates", lists[name])
    return Sweep(tuple(columns)), list(product(*columns.values()))


def _points(points: Any, lists: dict[str, Any]) -> tuple[Sweep, list[tuple[Any, ...]]]:
    """Return the names in a list of points and the values at each point."""
    condition = "a list of dicts with the same keys"
    if lists:
        raise ValueError(
            f"points={short_repr(points)} cannot be combined with the lists {', '.join(lists)}"
        )
    if not isinstance(points, Sequence) or not all(isinstance(point, Mapping) for point in points):
        raise invalid("points", condition, points)
    names = tuple(points[0]) if points else ()
    if not names or any(point.keys() != points[0].keys() for point in points):
        raise invalid("points", condition, points)
    rows = [tuple(_plain(point[name]) for name in names) for point in points]
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        _check_values(values, name)
    if len(set(rows)) < len(rows):
        raise invalid("points", "a list without duplicates", points)
    return Sweep(names, grid=False), rows


def _check_values(values: Iterable[Any], name: str) -> None:
    if not (isinstance(name, str) and name.isidentifier()):
        raise invalid("points", "dicts whose keys are Python names", name)
    if not all(isinstance(value, int | float | str) for value in values):
        raise invalid(name, VALUES, values)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _bind(
    part: str, argument: Any, names: list[str], check: Callable[[Any], Any]
) -> tuple[list[str], Callable[[dict[str, Any]], Any]]:
    """Return the names that an argument depends on, and a function that computes its value."""
    if not callable(argument):
        fixed = check(argument)
        return [], lambda values: fixed
    condition = f"a function with parameters {' and '.join(names)}"
    try:
        signature = inspect.signature(argument)
        if not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            names = [name for name in names if name in signature.parameters]
        signature.bind(**dict.fromkeys(names))
    except (TypeError, ValueError):
        raise invalid(part, condition, argument) from None
    return names, lambda values: check(argument(**{name: values[name] for name in names}))
