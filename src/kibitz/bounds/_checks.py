"""Argument checks shared by all bounds.

Gaps and constants must be 0 or from 1e-50 to 1e50, in units in which rewards have variance 1. Within
these limits, products of a few gaps and constants neither overflow nor underflow.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._validation import array, invalid, number, positive
from kibitz.model.feedback import WEIGHTS, named_weights

FloatArray = NDArray[np.float64]
Weights: TypeAlias = str | ArrayLike | None
Schedule: TypeAlias = Callable[[FloatArray], FloatArray]
Rate: TypeAlias = ArrayLike | Schedule

MAX_HORIZON = 2**53  # floats represent every whole number up to this stage exactly
MIN_VALUE, MAX_VALUE = 1e-50, 1e50  # limits of positive gaps and constants


def check_array(
    name: str,
    value: ArrayLike,
    condition: str,
    is_valid: Callable[[FloatArray], NDArray[np.bool_]],
    *,
    min_size: int = 1,
) -> FloatArray:
    """Return the value as an array; raise ValueError unless all numbers satisfy the condition.

    `is_valid` tests the condition, and `condition` describes it in the error.
    """
    values = array(value, name, condition)
    if values.size < min_size or not is_valid(values).all():
        raise invalid(name, condition, value)
    return values


def check_gaps(gaps: ArrayLike) -> FloatArray:
    """Return the gaps as an array; raise ValueError unless each gap is 0 or from 1e-50 to 1e50.

    At least one gap must be 0.
    """
    values = check_any_gaps(gaps)
    if not ((values == 0) | (values >= MIN_VALUE) & (values <= MAX_VALUE)).all():
        raise invalid("gaps", "0 or from 1e-50 to 1e50", gaps)
    return values


def check_any_gaps(gaps: ArrayLike) -> FloatArray:
    """Return the gaps as an array; raise ValueError unless all gaps are finite and ≥ 0.

    At least one gap must be 0.
    """
    condition = "a list of finite numbers ≥ 0"
    values = check_array("gaps", gaps, condition, lambda x: (x >= 0) & np.isfinite(x), min_size=0)
    if values.ndim != 1:
        raise invalid("gaps", condition, gaps)
    if not (values == 0).any():
        raise invalid("gaps", "0 for at least one arm", gaps)
    return values


def check_weights(weights: Weights, gaps: FloatArray) -> FloatArray:
    """Return the weights p, one per arm: non-negative with sum at most 1. None means uniform.

    `kibitz.model.feedback.WEIGHTS` lists the names that weights can have. If every arm is optimal,
    "optimal" and "suboptimal" weights are all 0.
    """
    if weights is None:
        weights = "uniform"
    if isinstance(weights, str):
        check_choice("weights", weights, *WEIGHTS)
        return named_weights(weights, gaps) if gaps.any() or weights == "uniform" else gaps.copy()
    condition = f"{gaps.size} numbers ≥ 0 with sum at most 1"
    values = check_array("weights", weights, condition, lambda x: (x >= 0) & (x <= 1 + 1e-9))
    if values.shape != gaps.shape or not values.sum() <= 1 + 1e-9:
        raise invalid("weights", condition, weights)
    return values


def check_rate(rate: Rate) -> FloatArray:
    """Return the rates ε of looks as an array of numbers in [0, 1]."""
    if callable(rate):
        raise invalid("rate", "one or more numbers in [0, 1], not a function", rate)
    return check_array("rate", rate, "in [0, 1]", lambda x: (x >= 0) & (x <= 1))


def check_horizon(
    horizon: ArrayLike, name: str = "horizon", *, rate: FloatArray | None = None
) -> FloatArray:
    """Return the horizons as floats: whole numbers from 1 to 2⁵³.

    Raise ValueError if the horizons and the rates have shapes that cannot be broadcast.
    """

    def is_valid(t: FloatArray) -> NDArray[np.bool_]:
        return np.asarray((t >= 1) & (t <= MAX_HORIZON) & (t == np.floor(t)))

    horizons = check_array(name, horizon, "a whole number from 1 to 2**53", is_valid)
    if rate is not None:
        check_shapes(rate=rate, horizon=horizons)
    return horizons


def check_one(name: str, values: FloatArray) -> float:
    """Return the number in a 0-dimensional array; raise ValueError for other shapes."""
    if values.ndim:
        raise invalid(name, "one number", values)
    return float(values)


def check_scale(name: str, value: float) -> float:
    """Return the value as a float; raise ValueError unless it is from 1e-50 to 1e50."""
    x = positive(value, name)
    if not MIN_VALUE <= x <= MAX_VALUE:
        raise invalid(name, "from 1e-50 to 1e50", value)
    return x


def check_nonnegative(name: str, value: float) -> float:
    """Return the value as a float; raise ValueError unless it is from 0 to 1e50."""
    condition = "finite and ≥ 0"
    if not 0 <= (x := number(value, name, condition)) < np.inf:
        raise invalid(name, condition, value)
    if x > MAX_VALUE:
        raise invalid(name, "at most 1e50", value)
    return x


def check_log_horizon(log_horizon: ArrayLike) -> FloatArray:
    """Return log T as an array of numbers from 0 to 1e50; T itself may overflow a float."""
    condition = "finite and ≥ 0, at most 1e50"
    return check_array("log_horizon", log_horizon, condition, lambda x: (x >= 0) & (x <= MAX_VALUE))


def check_rho(rho: float) -> float:
    """Return OCUCB-n's ρ, a number in [1/2, 1]."""
    if not 0.5 <= (x := number(rho, "rho", "in [1/2, 1]")) <= 1:
        raise invalid("rho", "in [1/2, 1]", rho)
    return x


def check_alpha(alpha: float, variance: float) -> tuple[float, float]:
    """Return ETC's α and the variance proxy c of the rewards; raise ValueError if α < c."""
    variance = check_scale("variance", variance)
    condition = f"finite and at least variance={variance}"
    if not variance <= (x := number(alpha, "alpha", condition)) < np.inf:
        raise invalid("alpha", condition, alpha)
    return check_scale("alpha", x), variance


def check_best_mean(best_mean: float | None, gaps: FloatArray) -> float:
    """Return the largest mean of Bernoulli rewards; raise ValueError if a mean is not in [0, 1]."""
    condition = "at most 1 and at least the largest gap for Bernoulli rewards"
    x = number(best_mean, "best_mean", condition)
    if not gaps.max() <= x * (1 + 1e-12) <= 1 + 1e-12:
        raise invalid("best_mean", condition, best_mean)
    return x


def check_choice(name: str, value: str, *choices: str) -> str:
    """Return the value; raise ValueError if it is not one of the choices."""
    if not (isinstance(value, str) and value in choices):
        raise invalid(name, f"one of {', '.join(choices)}", value)
    return value


def check_shapes(**arrays: FloatArray) -> tuple[int, ...]:
    """Return the broadcast shape of the arrays; raise ValueError if they cannot be broadcast."""
    shapes = [array.shape for array in arrays.values()]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        names, shapes_text = " and ".join(arrays), " and ".join(map(str, shapes))
        raise ValueError(
            f"{names} must have shapes that can be broadcast, got {shapes_text}"
        ) from None


class Setting(NamedTuple):
    """The checked arguments of a bound. `shape` is the broadcast shape of rate and horizon."""

    gaps: FloatArray
    rate: FloatArray | Schedule
    weights: FloatArray
    horizon: FloatArray
    shape: tuple[int, ...]


def check_setting(
    gaps: ArrayLike,
    rate: Rate,
    weights: Weights,
    horizon: ArrayLike,
    *,
    reject_schedule: bool = False,
) -> Setting:
    """Return the arguments of a bound as arrays.

    Raise ValueError if an argument is invalid, or if `reject_schedule` is true and `rate` is a
    schedule.
    """
    delta, horizons = check_gaps(gaps), check_horizon(horizon)
    p = check_weights(weights, delta)
    if callable(rate) and not reject_schedule:
        return Setting(delta, rate, p, horizons, horizons.shape)
    eps = check_rate(rate)
    return Setting(delta, eps, p, horizons, check_shapes(rate=eps, horizon=horizons))
