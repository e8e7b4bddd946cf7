"""The record that a bound returns, and the checks at the door that all bounds share.

Arms keep the caller's order everywhere, and stand on the last axis of every array of terms.

Gaps and constants are 0 or from 1e-50 to 1e50 (in units in which rewards have variance 1, no
problem is outside): no product of a few of them then overflows, and no bound is lost to rounding
without a word.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz import _validation as validate
from kibitz.model.feedback import WEIGHTS, named_weights

FloatArray = NDArray[np.float64]
Weights: TypeAlias = str | ArrayLike | None

LARGEST_HORIZON = 2**53  # every stage up to here is exact in a float
LEAST, MOST = 1e-50, 1e50  # of gaps and constants


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


def check_array(
    name: str,
    value: ArrayLike,
    condition: str,
    holds: Callable[[FloatArray], NDArray[np.bool_]],
    *,
    least: int = 1,
) -> FloatArray:
    """One or many numbers, at least so many, for all of which a condition holds (NaN: never)."""
    array = validate.array(value, name, condition)
    if array.size < least or not holds(array).all():
        raise validate.refused(name, condition, value)
    return array


def check_gaps(gaps: ArrayLike) -> FloatArray:
    """The gaps as an array: 0 for at least one of them, else from 1e-50 to 1e50."""
    array = check_any_gaps(gaps)
    positive = array[array > 0]
    if not ((positive >= LEAST) & (positive <= MOST)).all():
        raise validate.refused("gaps", "0 or from 1e-50 to 1e50", gaps)
    return array


def check_any_gaps(gaps: ArrayLike) -> FloatArray:
    """The gaps as an array: finite, non-negative, at least one of them 0."""
    condition = "a list of finite numbers ≥ 0"
    array = validate.array(gaps, "gaps", condition)
    if array.ndim != 1 or not (np.isfinite(array) & (array >= 0)).all():
        raise validate.refused("gaps", condition, gaps)
    if not (array == 0).any():
        raise validate.refused("gaps", "0 for at least one arm", gaps)
    return array


def check_weights(weights: Weights, gaps: FloatArray) -> FloatArray:
    """The weights p, one per arm: non-negative, of sum at most 1; or a name; None is uniform.

    Names are those of `kibitz.model.feedback`, but for no weight at all if every arm is optimal.
    """
    if weights is None:
        weights = "uniform"
    if isinstance(weights, str):
        check_choice("weights", weights, *WEIGHTS)
        return named_weights(weights, gaps) if gaps.any() or weights == "uniform" else gaps.copy()
    condition = f"{gaps.size} numbers ≥ 0 of sum at most 1"
    array = validate.array(weights, "weights", condition)
    if array.shape != gaps.shape or not ((array >= 0) & (array <= 1 + 1e-9)).all():
        raise validate.refused("weights", condition, weights)
    if not array.sum() <= 1 + 1e-9:
        raise validate.refused("weights", condition, weights)
    return array


def check_rate(rate: ArrayLike) -> FloatArray:
    """The rate ε of free observations, one or many, in [0, 1]."""
    return check_array("rate", rate, "in [0, 1]", lambda x: (x >= 0) & (x <= 1))


def check_horizon(horizon: ArrayLike, name: str = "horizon") -> FloatArray:
    """The horizon T, one or many: whole numbers from 1 to 2⁵³, returned as floats."""

    def holds(t: FloatArray) -> NDArray[np.bool_]:
        return np.asarray((t >= 1) & (t <= LARGEST_HORIZON) & (t == np.floor(t)))

    return check_array(name, horizon, "a whole number from 1 to 2**53", holds)


def check_one(name: str, array: FloatArray) -> float:
    """The one number of an array that must hold no more."""
    if array.ndim:
        raise validate.refused(name, "one number", array)
    return float(array)


def check_scale(name: str, value: float) -> float:
    """A number in (0, ∞), from 1e-50 to 1e50."""
    x = validate.positive(value, name)
    if not LEAST <= x <= MOST:
        raise validate.refused(name, "from 1e-50 to 1e50", value)
    return x


def check_nonnegative(name: str, value: float) -> float:
    """A number in [0, ∞), at most 1e50."""
    condition = "finite and ≥ 0"
    if not 0 <= (x := validate.number(value, name, condition)) < np.inf:
        raise validate.refused(name, condition, value)
    if x > MOST:
        raise validate.refused(name, "at most 1e50", value)
    return x


def check_log_horizon(log_horizon: ArrayLike) -> FloatArray:
    """log T, one or many, from 0 to 1e50: T itself may be far beyond a float."""
    condition = "finite and ≥ 0, at most 1e50"
    return check_array("log_horizon", log_horizon, condition, lambda x: (x >= 0) & (x <= MOST))


def check_rho(rho: float) -> float:
    """OCUCB-n's ρ, in [1/2, 1]."""
    if not 0.5 <= (x := validate.number(rho, "rho", "in [1/2, 1]")) <= 1:
        raise validate.refused("rho", "in [1/2, 1]", rho)
    return x


def check_alpha(alpha: float, variance: float) -> tuple[float, float]:
    """ETC's α, which must be at least the variance proxy c of the rewards."""
    variance = check_scale("variance", variance)
    condition = f"finite and at least variance={variance}"
    if not variance <= (x := validate.number(alpha, "alpha", condition)) < np.inf:
        raise validate.refused("alpha", condition, alpha)
    return check_scale("alpha", x), variance


def check_choice(name: str, value: str, *choices: str) -> str:
    """One of a few words: the form of a bound, for instance."""
    if not (isinstance(value, str) and value in choices):
        raise validate.refused(name, f"one of {', '.join(choices)}", value)
    return value


def check_shapes(**arrays: FloatArray) -> tuple[int, ...]:
    """The shape of the answer, if the shapes of what is given can be broadcast."""
    shapes = [array.shape for array in arrays.values()]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        names, sizes = " and ".join(arrays), " and ".join(map(str, shapes))
        raise ValueError(f"{names} must be of shapes that can be broadcast, got {sizes}") from None


def inverse(gaps: FloatArray) -> FloatArray:
    """1/Δ_i, and 0 at optimal arms, which no sum over sub-optimal arms then sees."""
    return np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps > 0)


def times(scales: FloatArray, brackets: FloatArray) -> FloatArray:
    """Their product, where 0 (an optimal arm) times infinity is 0."""
    return np.asarray(np.where(scales > 0, scales * np.where(scales > 0, brackets, 0.0), 0.0))


def plain(array: ArrayLike) -> float | FloatArray:
    """A number if it is one, else the array."""
    array = np.asarray(array, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


def answer(total: ArrayLike, terms: FloatArray, stages: FloatArray | None, details: bool) -> Answer:
    """The total alone (a float if it is one number), or the whole record."""
    whole = validate.flag(details, "details")
    return Bound(plain(total), terms, stages) if whole else plain(total)
