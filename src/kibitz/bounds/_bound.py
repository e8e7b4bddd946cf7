"""How every bound is called, described and returned.

A bound takes `(problem, feedback, horizon, ...)`, or bare arguments in the order `(gaps, rate,
weights, horizon, ...)`, without those that it does not depend on. `bound` turns the first form into
the second, and completes docstrings by the parameters that many bounds share.
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
from kibitz.model.feedback import Every, Feedback, check_feedback
from kibitz.model.problem import Problem, check_problem

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
F = TypeVar("F", bound=Callable[..., Any])

PARAMETERS = {  # of more than one function; a docstring that has its own description keeps it
    "gaps": "One per arm, 0 for optimal arms, in any order; from 1e-50 to 1e50 where not 0.",
    "rate": "ε in [0, 1], one or many.",
    "rate: Rate": "ε in [0, 1], one or many, or a schedule.",
    "weights": "p, one per arm, of sum at most 1, or a name: uniform (None), optimal, suboptimal.",
    "horizon": "T, whole numbers from 1 to 2⁵³, one or many.",
    "horizon=None": "T, one or many, up to which no more can be lost than\n"
    ":func:`~kibitz.bounds.upper.trivial`; the bound holds for all T if not given.",
    "log_horizon": "log T, from 0 to 1e50, one or many.",
    "stage": "t ≥ 1, whole or not, one or many.",
    "C, C_0": "Constants of the sub-logarithmic algorithm; those of UCB1 if not given.",
    "x": "How far arm i is raised above the best arm; one, or one per arm; Δ_i if not given.",
    "variant": '"clip" or "sharp", see `observation_constraint`; both are proved.',
    "form": "Which formula, see above and `kibitz.bounds`.",
    "details": "Whether to return a `Bound`: total, terms per arm, and stages.",
    "exploration": "The constant c of UCB's index, greater than 4 sd².",
    "sd": "σ, the sub-Gaussian scale of the rewards.",
    "c_eta": "OCUCB-n's constant C_η, which the literature does not give: the bound is only as good\n"
    "as this number.",
    "rho": "ρ of OCUCB-n, in [1/2, 1].",
    "alpha": "α of ETC, at least `variance`.",
    "variance": "The variance proxy c of the rewards.",
    "constant": "C_α of :func:`~kibitz.bounds.complexity.etc_constant`, positive.",
    "epoch": "m, from 0 to 63, one or many.",
    "base": "p > 1; 2 in the theorem.",
    "delta": "δ in (0, 1), one or many.",
    "n": "How many variables, at least 1, one or many.",
    "deviation": "α ≥ 0, one or many.",
}
FORMS = "Or a problem, then a feedback and a horizon; see `kibitz.bounds`."


class Bound(NamedTuple):
    """A bound, what each arm contributes to it, and where it is attained.

    The total is the sum of the terms, but for upper bounds: theirs is at most what can be lost at
    all (`kibitz.bounds.upper.trivial`), and that of `kibitz.bounds.upper.etc_ocucb` has a part that
    belongs to no arm.
    """

    total: float | FloatArray
    terms: FloatArray  # per arm, arms on the last axis
    stages: FloatArray | None  # the stage, or the stage of each arm, at which it is attained


Answer: TypeAlias = float | FloatArray | Bound


class BoundFunction(Protocol[P, R]):
    """A bound in its two forms."""

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


def documented(function: F, note: str = "") -> F:
    """Complete the docstring of a function by the parameters that it shares with others.

    The note comes after the description of the first parameter.
    """
    text, has_returns, returns = inspect.cleandoc(function.__doc__ or "").partition("\n\nReturns\n")
    head, _, own = text.partition("\n\nParameters\n----------\n")
    described = PARAMETERS | dict(re.findall(r"^(\S.*)\n((?: .*\n?)+)", own, re.MULTILINE))
    headings = {name: heading for heading in described for name in heading.split(", ")}
    parts: dict[str, str] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        heading = headings[name]
        if described[heading] is PARAMETERS.get(heading):
            takes_schedule = parameter.annotation == Rate
            variant = "rate: Rate" if takes_schedule else f"{name}={parameter.default}"
            described[heading] = PARAMETERS.get(variant, PARAMETERS[heading])
        parts[heading] = inspect.cleandoc(described[heading]) + ("" if parts else note)
    listed = [f"{heading}\n{textwrap.indent(part, '    ')}" for heading, part in parts.items()]
    text = "\n".join((head, "", "Parameters", "----------", *listed))
    function.__doc__ = f"{text}{has_returns}{returns}\n"
    return function


def bound(
    observer: str | None = None, *, arrivals: str = "random", paid: bool = False
) -> Callable[[Callable[P, R]], BoundFunction[P, R]]:
    """Return a decorator that lets a bound take a problem and a feedback.

    Parameters
    ----------
    observer
        "passive" or "active" if the bound holds for one of them only.
    arrivals
        "random": looks that arrive every n stages are a schedule, which not every bound takes.
        "periodic": looks must arrive every n stages and all show the same arm; the bound takes their
        rate 1/n. "any": both by their rate.
    paid
        Whether looks may have a cost.
    """

    def decorate(function: Callable[P, R]) -> BoundFunction[P, R]:
        names = set(inspect.signature(function).parameters)

        def with_problem(
            problem: Problem, feedback: object = None, horizon: Any = None, **options: Any
        ) -> Any:
            known, unit = _read_problem(problem, names)
            if names & {"rate", "schedule"}:
                given = _check_feedback(feedback, observer, paid)
                known |= _read_rate(given, arrivals)
                if arrivals == "periodic" and given.observer == "passive":
                    _check_one_arm(given, known["gaps"])
                known |= {
                    "weights": given.weights,
                    "looks": "looks" in names and _kind_of_looks(given),
                }
            if horizon is not None:
                known["horizon"] = horizon
            known = {name: value for name, value in known.items() if name in names} | options
            return _times(function(**known), unit)  # type: ignore[call-arg]

        @functools.wraps(documented(function, f"\n{FORMS}"))
        def call(*args: Any, **kwargs: Any) -> Any:
            has_problem = isinstance(args[0], Problem) if args else "problem" in kwargs
            return (with_problem if has_problem else function)(*args, **kwargs)

        return call

    return decorate


def _times(result: Any, unit: float) -> Any:
    if isinstance(result, Bound):
        return Bound(result.total * unit, result.terms * unit, result.stages)
    return result * unit if isinstance(result, float | np.ndarray) else result


def _read_problem(problem: Problem, names: set[str]) -> tuple[dict[str, Any], float]:
    """Return the arguments that a problem gives, in units of its scale, and this unit.

    Policies see rewards in these units too. Lower bounds (those with a constant C) are proved for
    Gaussian rewards of one standard deviation, one of them for Bernoulli rewards as well.
    """
    known: dict[str, Any] = {}
    unit = check_problem(problem).scale
    if "best_mean" in names and problem.kind == "bernoulli":
        known, unit = {"rewards": "bernoulli", "best_mean": float(problem.means.max())}, 1.0
    elif "C" in names and (problem.kind != "gaussian" or np.ptp(problem.sds) > 0):
        raise invalid("problem", "Gaussian with equal standard deviations for this bound", problem)
    gaps = problem.gaps / unit
    known |= {"gaps": gaps, "means": problem.means / unit}
    if "gap" in names:
        if np.unique(np.sort(gaps)[1:]).size > 1:
            raise invalid("problem", "one of equal gaps for this bound", problem)
        known |= {"n_arms": gaps.size, "gap": float(gaps.max())}
    return known, unit


def _check_feedback(feedback: object, observer: str | None, paid: bool) -> Feedback:
    given = check_feedback(feedback)
    if given.observer == "full" or given.looks > 1 or (given.paid and not paid):
        raise invalid("feedback", "one with one free look at each arrival for this bound", given)
    if observer and given.observer not in {observer, "bandit"}:
        raise invalid("feedback", f"{observer} for this bound", given)
    return given


def _read_rate(feedback: Feedback, arrivals: str) -> dict[str, Any]:
    rate = feedback.rate
    if arrivals == "random" and not (isinstance(rate, float) or callable(rate)):
        expected = _expect_periodic(rate) if isinstance(rate, Every) else schedule(rate)
        return {"rate": expected, "schedule": expected}
    if arrivals != "random" and isinstance(rate, Every) and rate.first == rate.n:
        return {"rate": 1 / rate.n}
    if isinstance(rate, float) and (arrivals != "periodic" or rate == 0):
        return {"rate": rate, "schedule": lambda t: rate * t}
    kinds = {"random": "a number, an array or every(n)", "any": "a number or every(n)"}
    kind = kinds.get(arrivals, "every(n)")
    raise invalid("feedback", f"one with {kind} as rate for this bound", feedback)


def _check_one_arm(feedback: Feedback, gaps: FloatArray) -> None:
    """Check that looks at fixed stages are looks at a fixed arm: else it is drawn at random."""
    if check_weights(feedback.weights, gaps).max() < 1:
        raise invalid("feedback", "one whose looks all show the same arm for this bound", feedback)


def _expect_periodic(arrivals: Every) -> Schedule:
    return lambda t: np.maximum(np.floor((t - arrivals.first) / arrivals.n) + 1, 0)


def _kind_of_looks(feedback: Feedback) -> str:
    """Return what kibitzer calls `looks`; of a passive observer it knows uniform random looks."""
    weights, periodic = feedback.weights, isinstance(feedback.rate, Every)
    if feedback.observer != "passive":
        return "periodic" if periodic else "active"
    uniform = weights == "uniform" if isinstance(weights, str) else np.ptp(weights) == 0
    if periodic or not uniform:
        raise invalid("feedback", "active, or passive with uniform random looks", feedback)
    return "uniform"


@documented
def schedule(rates: ArrayLike) -> Schedule:
    """Return the schedule of the rates ε_1, …, ε_n, to be used as `rate`; after n, ε_t = ε_n.

    Parameters
    ----------
    rates
        In [0, 1], one per stage from stage 1 on, at least one.
    """
    condition = "a list of at least one rate in [0, 1]"
    each = check_array("rates", rates, condition, lambda x: (x >= 0) & (x <= 1))
    if each.ndim != 1:
        raise invalid("rates", condition, rates)
    cumulative = np.concatenate(([0.0], np.cumsum(each)))

    def free(t: FloatArray) -> FloatArray:
        inside = np.minimum(t, len(each)).astype(np.int64)
        return np.asarray(cumulative[inside] + each[-1] * (t - inside))

    return free


def plain(array: ArrayLike) -> float | FloatArray:
    """Return a number if it is one, else the array."""
    array = np.asarray(array, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


def answer(total: ArrayLike, terms: FloatArray, stages: FloatArray | None, details: bool) -> Answer:
    """Return the total alone (a float if it is one number), or the whole record."""
    whole = flag(details, "details")
    return Bound(plain(total), terms, stages) if whole else plain(total)


def inverse(gaps: FloatArray) -> FloatArray:
    """Return 1/Δ_i, and 0 at optimal arms, which no sum over sub-optimal arms then sees."""
    return np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps > 0)


def times(scales: FloatArray, brackets: FloatArray) -> FloatArray:
    """Return their product, where 0 (an optimal arm) times infinity is 0."""
    return np.asarray(np.where(scales > 0, scales * np.where(scales > 0, brackets, 0.0), 0.0))
