"""The calling convention, shared documentation and result type of all bounds.

A bound can be called in two ways: with `(problem, feedback, horizon, ...)`, or with plain numbers in
the order `(gaps, rate, weights, horizon, ...)`. A bound omits the arguments on which it does not
depend. A bound for a graph takes `(gaps, shows, horizon, ...)`; the rate and the weights of looks are
options. The decorator `bound` converts a call of the first kind into a call of the second kind, and
adds the descriptions of shared parameters to the docstring. `summary` also accepts a problem in place
of the means in a call of the second kind.
"""

import functools
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from kibitz._validation import flag, invalid
from kibitz.bounds._checks import FloatArray, Rate, Schedule, check_array, check_weights
from kibitz.bounds._graph import read_shows
from kibitz.model.feedback import Every, Feedback, check_feedback
from kibitz.model.problem import Problem, check_stationary

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
F = TypeVar("F", bound=Callable[..., Any])

# descriptions of parameters that several functions share; a docstring can override a description
PARAMETERS = {
    "gaps": "The gaps Δ_i, one per arm in any order; 0 for optimal arms, otherwise from 1e-50 to\n"
    "1e50.",
    "shows": "The matrix Q of the graph: a pull of arm i shows arm j with probability shows[i, j],\n"
    "which is 0 or from 1e-50 to 1. The matrix can be a SciPy sparse matrix.",
    "rate": "The rate ε of looks, in [0, 1]; a number or an array.",
    "rate: Rate": "The rate ε of looks, in [0, 1]; a number, an array or a schedule.",
    "weights": "The weights p, one per arm, with sum at most 1; or a name: uniform (the same as\n"
    "None), optimal or suboptimal.",
    "horizon": "The horizon T, a whole number from 1 to 2⁵³; a number or an array.",
    "horizon=None": "The horizon T, a number or an array. With a horizon the bound is at most\n"
    ":func:`~kibitz.bounds.upper.trivial`; without a horizon the bound holds for all T.",
    "log_horizon": "log T, from 0 to 1e50; a number or an array.",
    "stage": "The stage t ≥ 1, not necessarily whole; a number or an array.",
    "C, C_0": "The constants of the sub-logarithmic algorithm; the defaults are UCB1's constants.",
    "x": "The height x to which arm i is raised above the best arm: one number for all arms, or one\n"
    "number per arm; the default is Δ_i.",
    "variant": '"clip" or "sharp", see `observation_constraint`; both variants are proved.',
    "observer": '"passive" if the arm of a look is drawn with the weights; "active" if the\n'
    "algorithm chooses the arm.",
    "form": "The form of the bound; see above and `kibitz.bounds`.",
    "details": "Whether to return a `Bound` with the total, the terms per arm, and the stages.",
    "exploration": "The constant c of UCB's index, greater than 4 sd².",
    "sd": "The sub-Gaussian scale σ of the rewards.",
    "c_eta": "OCUCB-n's constant C_η. The literature gives no value. The bound holds only\n"
    "if this argument is at least the true constant.",
    "rho": "The parameter ρ of OCUCB-n, in [1/2, 1].",
    "alpha": "The parameter α of ETC, at least `variance`.",
    "variance": "The variance proxy c of the rewards.",
    "constant": "The constant C_α > 0 of :func:`~kibitz.bounds.complexity.etc_constant`.",
    "epoch": "The epoch m, from 0 to 63; a number or an array.",
    "base": "The base p > 1 of the epoch lengths; 2 in the theorem.",
    "delta": "The probability δ, in (0, 1); a number or an array.",
    "n": "The number of variables, at least 1; a number or an array.",
    "deviation": "The deviation α ≥ 0; a number or an array.",
}
ONE_LOOK = "a model with one free look per arrival for this bound"  # an error message
PROBLEM_NOTE = "Or pass a problem, followed by a feedback and a horizon; see `kibitz.bounds`."


class Bound(NamedTuple):
    """A bound, the contribution of each arm, and the stages at which the bound is attained.

    The total is the sum of the terms, with three exceptions: the total of an upper bound is at most
    the largest possible regret, the total of `kibitz.bounds.upper.etc_ocucb` includes a part that
    belongs to no arm, and the total of `kibitz.bounds.upper.ucb_graph` can be smaller than the sum,
    because one pull shows several arms.
    """

    total: float | FloatArray
    terms: FloatArray  # one term per arm, with arms on the last axis
    stages: FloatArray | None  # where the bound is attained: one stage, or one stage per arm

    def rescale(self, unit: float) -> "Bound":
        """Convert the bound from units of `unit` to units of the rewards."""
        return Bound(self.total * unit, self.terms * unit, self.stages)


Result: TypeAlias = float | FloatArray | Bound


class BoundFunction(Protocol[P, R]):
    """The type of a bound function, which accepts a problem or plain numbers."""

    __name__: str

    @overload
    def __call__(
        self,
        problem: Problem,
        feedback: Feedback | None = None,
        horizon: ArrayLike | None = None,
        **options: Any,
    ) -> R: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


def document_parameters(function: F, note: str = "") -> F:
    """Add the descriptions of shared parameters to the docstring of a function.

    `note` is added to the description of the first parameter.
    """
    text, has_returns, returns = inspect.cleandoc(function.__doc__ or "").partition("\n\nReturns\n")
    introduction, _, own_section = text.partition("\n\nParameters\n----------\n")
    descriptions = PARAMETERS | dict(re.findall(r"^(\S.*)\n((?: .*\n?)+)", own_section, re.MULTILINE))
    headings = {name: heading for heading in descriptions for name in heading.split(", ")}
    shared_descriptions: dict[str, str] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        heading = headings[name]
        if descriptions[heading] is PARAMETERS.get(heading):
            takes_schedule = parameter.annotation == Rate
            variant = "rate: Rate" if takes_schedule else f"{name}={parameter.default}"
            descriptions[heading] = PARAMETERS.get(variant, PARAMETERS[heading])
        shared_descriptions[heading] = inspect.cleandoc(descriptions[heading]) + (
            "" if shared_descriptions else note
        )
    entries = [
        f"{heading}\n{textwrap.indent(part, '    ')}" for heading, part in shared_descriptions.items()
    ]
    text = "\n".join((introduction, "", "Parameters", "----------", *entries))
    function.__doc__ = f"{text}{has_returns}{returns}\n"
    return function


def bound(
    observer: str | None = None, *, arrivals: str = "random", paid: bool = False
) -> Callable[[Callable[P, R]], BoundFunction[P, R]]:
    """Return a decorator that lets a bound accept a problem and a feedback.

    Parameters
    ----------
    observer
        "passive" or "active" if the bound holds only for this observer; None if it holds for both.
    arrivals
        "random": the bound is for random arrivals. Periodic arrivals are converted to a schedule,
        which not every bound accepts. "periodic": looks must arrive every n stages, and all looks
        must show the same arm; the bound gets the rate 1/n. "any": the bound gets the rate of random
        or periodic arrivals.
    paid
        Whether the bound accepts feedback in which looks have a cost.
    """

    def decorate(function: Callable[P, R]) -> BoundFunction[P, R]:
        parameters = inspect.signature(function).parameters
        needs_graph = "shows" in parameters and parameters["shows"].default is inspect.Parameter.empty
        parameter_names, first_name = set(parameters), next(iter(parameters))

        def call_with_problem(
            problem: Problem, feedback: object = None, horizon: Any = None, **options: Any
        ) -> Any:
            arguments, unit = _read_problem(problem, parameter_names)
            if parameter_names & {"rate", "schedule"}:
                feedback_model = _check_feedback(feedback, observer, paid)
                has_graph = needs_graph or feedback_model.shows is not None
                if has_graph and "shows" not in parameter_names:
                    raise invalid("feedback", "a model without a graph for this bound", feedback)
                if not has_graph and feedback_model.observer == "full":
                    raise invalid("feedback", ONE_LOOK, feedback)
                arguments |= _read_rate(feedback_model, arrivals)
                if has_graph:
                    arguments["shows"] = read_shows(feedback_model, problem.means.size)
                    is_active = feedback_model.observer == "active"
                    arguments["observer"] = "active" if is_active else "passive"
                if arrivals == "periodic" and feedback_model.observer == "passive":
                    _check_one_arm(feedback_model, arguments["gaps"])
                arguments |= {
                    "weights": feedback_model.weights,
                    "looks": "looks" in parameter_names and _classify_looks(feedback_model),
                }
            if horizon is not None:
                arguments["horizon"] = horizon
            arguments = {
                name: value for name, value in arguments.items() if name in parameter_names
            } | options
            return _rescale(function(**arguments), unit)  # type: ignore[call-arg]

        @functools.wraps(document_parameters(function, f"\n{PROBLEM_NOTE}"))
        def call(*args: Any, **kwargs: Any) -> Any:
            has_problem = isinstance(args[0], Problem) if args else "problem" in kwargs
            if has_problem and args and first_name == "means" and has_rate(args, kwargs):
                arguments, unit = _read_problem(args[0], parameter_names)
                return _rescale(function(arguments["means"], *args[1:], **kwargs), unit)
            return (call_with_problem if has_problem else function)(*args, **kwargs)

        def has_rate(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
            """Return whether the problem is followed by plain numbers instead of a feedback."""
            return "rate" in kwargs or (len(args) > 1 and isinstance(args[1], int | float))

        return call

    return decorate


def _rescale(result: Any, unit: float) -> Any:
    if hasattr(result, "rescale"):
        return result.rescale(unit)
    return result * unit if isinstance(result, float | np.ndarray) else result


def _read_problem(problem: Problem, parameter_names: set[str]) -> tuple[dict[str, Any], float]:
    """Return the arguments that a problem determines, in units of its scale, and the scale.

    Lower bounds (the bounds with a parameter C) are proved for Gaussian rewards with equal standard
    deviations. Functions with a parameter `best_mean` are for Gaussian and for Bernoulli rewards.
    """
    arguments: dict[str, Any] = {}
    unit = check_stationary(problem).scale
    if "best_mean" in parameter_names and problem.kind == "bernoulli":
        arguments, unit = {"rewards": "bernoulli", "best_mean": float(problem.means.max())}, 1.0
    elif parameter_names & {"C", "best_mean"} and (
        problem.kind != "gaussian" or np.ptp(problem.sds) > 0
    ):
        raise invalid("problem", "Gaussian with equal standard deviations for this bound", problem)
    gaps = problem.gaps / unit
    arguments |= {"gaps": gaps, "means": problem.means / unit}
    if "gap" in parameter_names:
        if np.unique(np.sort(gaps)[1:]).size > 1:
            raise invalid("problem", "a problem with equal gaps for this bound", problem)
        arguments |= {"n_arms": gaps.size, "gap": float(gaps.max())}
    return arguments, unit


def _check_feedback(feedback: object, observer: str | None, paid: bool) -> Feedback:
    model = check_feedback(feedback)
    if model.looks > 1 or (model.paid and not paid):
        raise invalid("feedback", ONE_LOOK, model)
    if observer and model.observer not in {observer, "bandit", "full"}:
        raise invalid("feedback", f"{observer} for this bound", model)
    return model


def _read_rate(feedback: Feedback, arrivals: str) -> dict[str, Any]:
    rate = feedback.rate
    if arrivals == "random" and not (isinstance(rate, float) or callable(rate)):
        expected_looks = _count_periodic(rate) if isinstance(rate, Every) else schedule(rate)
        return {"rate": expected_looks, "schedule": expected_looks}
    if arrivals != "random" and isinstance(rate, Every) and rate.first == rate.n:
        return {"rate": 1 / rate.n}
    if isinstance(rate, float) and (arrivals != "periodic" or rate == 0):
        return {"rate": rate, "schedule": lambda t: rate * t}
    allowed_rates = {"random": "a number, an array or every(n)", "any": "a number or every(n)"}
    allowed_rate = allowed_rates.get(arrivals, "every(n)")
    raise invalid("feedback", f"a model with {allowed_rate} as rate for this bound", feedback)


def _check_one_arm(feedback: Feedback, gaps: FloatArray) -> None:
    """Raise ValueError unless all looks show the same arm.

    Bounds for periodic looks need a deterministic number of looks at each arm.
    """
    if check_weights(feedback.weights, gaps).max() < 1:
        raise invalid("feedback", "a model whose looks all show the same arm", feedback)


def _count_periodic(arrivals: Every) -> Schedule:
    return lambda t: np.maximum(np.floor((t - arrivals.first) / arrivals.n) + 1, 0)


def _classify_looks(feedback: Feedback) -> str:
    """Return the argument `looks` of `kibitz.bounds.upper.kibitzer` for this feedback."""
    is_periodic = isinstance(feedback.rate, Every)
    if feedback.observer != "passive":
        return "periodic" if is_periodic else "active"
    has_fixed_weights = isinstance(feedback.weights, str) or np.ndim(feedback.weights) == 1
    if is_periodic or not has_fixed_weights:
        raise invalid("feedback", "active, or passive with random looks and fixed weights", feedback)
    return "passive"


@document_parameters
def schedule(rates: ArrayLike) -> Schedule:
    """Return a schedule with rates ε_1, …, ε_n, for use as argument `rate` of a bound.

    A schedule is a function that maps an array of stages t to the expected numbers of looks
    Σ_{s ≤ t} ε_s. After stage n the rate stays ε_n.

    Parameters
    ----------
    rates
        The rates, each in [0, 1], one per stage from stage 1 on; at least one rate.
    """
    condition = "a list of at least one rate in [0, 1]"
    values = check_array("rates", rates, condition, lambda x: (x >= 0) & (x <= 1))
    if values.ndim != 1:
        raise invalid("rates", condition, rates)
    cumulative_rates = np.concatenate(([0.0], np.cumsum(values)))

    def count_looks(t: FloatArray) -> FloatArray:
        listed_stages = np.minimum(t, len(values)).astype(np.int64)
        return np.asarray(cumulative_rates[listed_stages] + values[-1] * (t - listed_stages))

    return count_looks


def to_scalar(array: ArrayLike) -> float | FloatArray:
    """Return `array` unchanged, or as a float if it has no dimensions."""
    array = np.asarray(array, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


def make_result(
    total: ArrayLike, terms: FloatArray, stages: FloatArray | None, details: bool
) -> Result:
    """Return the total (a float if it is a single number), or a `Bound` if `details` is true."""
    if flag(details, "details"):
        return Bound(to_scalar(total), terms, stages)
    return to_scalar(total)


def invert(gaps: FloatArray) -> FloatArray:
    """Return 1/Δ_i for each sub-optimal arm i, and 0 for optimal arms."""
    return np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps > 0)


def multiply(scales: FloatArray, brackets: FloatArray) -> FloatArray:
    """Return scales * brackets; where the scale is 0, the product is 0 even for infinite brackets."""
    return np.asarray(np.where(scales > 0, scales * np.where(scales > 0, brackets, 0.0), 0.0))
