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
RESERVED_NAMES = {"policy", "run", "statistic", "stage", "arm", "final_regret", POINT, *RECORDED}
EXCLUDED_OPTIONS = ("horizon", "watch")  # options of `simulate` only: each point has its own horizon
VALUES_CONDITION = "a list of numbers or strings"


@show_options(without=EXCLUDED_OPTIONS)
def sweep(
    problem: Problem | Callable[..., Problem],
    feedback: Feedback | Callable[..., Feedback],
    policies: Policies | Callable[..., Policies],
    *,
    horizon: int | Iterable[int] | Callable[..., int],
    runs: int,
    seed: "int | np.random.SeedSequence",
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
    checked_options = check_options(options, EXCLUDED_OPTIONS)
    points = grid.pop("points", None)
    if _is_list(horizon):
        grid["horizon"], horizon = horizon, lambda horizon: horizon
    value_lists = {name: value for name, value in grid.items() if _is_list(value)}
    fixed_values = {name: value for name, value in grid.items() if name not in value_lists}
    dimensions, rows = (
        _make_grid(value_lists, fixed_values) if points is None else _read_points(points, value_lists)
    )
    for name in dimensions.names:
        if name in fixed_values:
            raise ValueError(
                f"{name} is given both in points and as a keyword ({fixed_values[name]!r}); "
                "remove one of the two"
            )
        if name in RESERVED_NAMES:
            raise ValueError(
                f"a swept parameter cannot be called {name!r}: results use that name; rename it"
            )
        if name in OPTIONS and name not in value_lists:
            raise ValueError(f"{name!r} is an option and cannot vary in points; pass it as a keyword")
    names = [*dimensions.names, *fixed_values]
    label_by_name = partial(label_policies, by_name=callable(policies))
    bindings: dict[str, tuple[list[str], Callable[[dict[str, Any]], Any]]] = {
        "problem": _bind("problem", problem, names, check_problem),
        "feedback": _bind("feedback", feedback, names, check_feedback),
        "policies": _bind("policies", policies, names, label_by_name),
        "horizon": _bind("horizon", horizon, names, partial(check_option, "horizon")),
    }
    unused_names = set(names).difference(*(used_names for used_names, _ in bindings.values()))
    if unused_names:
        functions = [
            argument for argument in (problem, feedback, policies, horizon) if callable(argument)
        ]
        parameters = {
            name for argument in functions for name in inspect.signature(argument).parameters
        }
        raise TypeError(
            f"sweep() got an unexpected keyword argument {min(unused_names)!r}: it is not an option "
            "of simulate, nor a parameter of a function passed as problem, feedback, policies or "
            "horizon"
            f"{suggest(min(unused_names), [*OPTIONS, *parameters])}"
        )
    points_by_row: dict[tuple[Any, ...], Point] = {}
    for row in rows:
        values = {**fixed_values, **dict(zip(dimensions.names, row, strict=True))}
        points_by_row[row] = Point(
            **{name: make_argument(values) for name, (_, make_argument) in bindings.items()}
        )
    arm_counts = {point.problem.n_arms for point in points_by_row.values()}
    if len(arm_counts) > 1:
        raise ValueError(f"all problems must have the same number of arms, got {sorted(arm_counts)}")
    return play_points(dimensions, points_by_row, checked_options)


def _is_list(value: Any) -> bool:
    """Return whether a value is a list, range or array, and not a string, dict or NamedTuple."""
    is_single = isinstance(value, str | bytes | Mapping | Set) or hasattr(value, "_fields")
    return isinstance(value, Iterable) and not is_single and getattr(value, "ndim", 1) > 0


def _make_grid(
    value_lists: dict[str, Any], fixed_values: dict[str, Any]
) -> tuple[Sweep, list[tuple[Any, ...]]]:
    """Return the swept parameters, and the values of these parameters at each point of the grid."""
    if not value_lists:
        received_texts = [f", got {name}={short_repr(value)}" for name, value in fixed_values.items()]
        raise ValueError(
            f"nothing to sweep: pass {VALUES_CONDITION} for at least one parameter"
            f"{''.join(received_texts[:1])}"
        )
    columns = {
        name: [_to_plain_data(value) for value in values] for name, values in value_lists.items()
    }
    for name, values in columns.items():
        _check_values(values, name)
        if not values or len(set(values)) < len(values):
            raise invalid(name, "a non-empty list without duplicates", value_lists[name])
    return Sweep(tuple(columns)), list(product(*columns.values()))


def _read_points(points: Any, value_lists: dict[str, Any]) -> tuple[Sweep, list[tuple[Any, ...]]]:
    """Return the swept parameters, and the values of these parameters at each point of the list."""
    condition = "a non-empty list of non-empty dicts with the same keys"
    if value_lists:
        raise ValueError(
            f"points={short_repr(points)} cannot be combined with the lists "
            f"{', '.join(value_lists)}; put all values into points"
        )
    if not isinstance(points, Sequence) or not all(isinstance(point, Mapping) for point in points):
        raise invalid("points", condition, points)
    names = tuple(points[0]) if points else ()
    if not names or any(point.keys() != points[0].keys() for point in points):
        raise invalid("points", condition, points)
    rows = [tuple(_to_plain_data(point[name]) for name in names) for point in points]
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        _check_values(values, name)
    if len(set(rows)) < len(rows):
        raise invalid("points", "a list without duplicates", points)
    return Sweep(names, grid=False), rows


def _check_values(values: Iterable[Any], name: str) -> None:
    if not (isinstance(name, str) and name.isidentifier()):
        raise invalid("points", "dicts whose keys are Python names", name)
    if not all(isinstance(value, int | float | str) for value in values):
        raise invalid(name, VALUES_CONDITION, values)


def _to_plain_data(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _bind(
    argument_name: str, argument: Any, names: list[str], check: Callable[[Any], Any]
) -> tuple[list[str], Callable[[dict[str, Any]], Any]]:
    """Return the swept names that `argument` depends on, and a function that computes its value.

    The function takes a dict of values by name, and returns the checked problem, feedback, policies
    or horizon.
    """
    if not callable(argument):
        fixed_value = check(argument)
        return [], lambda values: fixed_value
    condition = f"a function with parameters {' and '.join(names)}"
    try:
        signature = inspect.signature(argument)
        if not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            names = [name for name in names if name in signature.parameters]
        signature.bind(**dict.fromkeys(names))
    except (TypeError, ValueError):
        raise invalid(argument_name, condition, argument) from None
    return names, lambda values: check(argument(**{name: values[name] for name in names}))
