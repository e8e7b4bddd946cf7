"""The record that a bound returns, and the checks at the door that all bounds share.

Arms keep the caller's order everywhere, and stand on the last axis of every array of terms.
"""

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

LARGEST_HORIZON = 2**53  # every stage up to here is exact in a float


class Bound(NamedTuple):
    """A bound, what each arm contributes to it, and where it is attained."""

    total: float | FloatArray
    terms: FloatArray  # per arm, arms on the last axis
    stages: FloatArray | None  # the stage, or the stage of each arm, at which it is attained


Answer: TypeAlias = float | FloatArray | Bound


def check_gaps(gaps: ArrayLike) -> FloatArray:
    """The gaps as an array: finite, non-negative, at least one of them 0."""
    array = np.asarray(gaps, dtype=np.float64)
    if array.ndim != 1 or not (np.isfinite(array).all() and (array >= 0).all()):
        raise ValueError(f"gaps must be a list of finite numbers ≥ 0, got {gaps!r}")
    if not (array == 0).any():
        raise ValueError(f"gaps must be 0 for at least one arm, got {gaps!r}")
    return array


def check_weights(weights: ArrayLike | None, n_arms: int) -> FloatArray:
    """The weights p, one per arm, non-negative, of sum at most 1; None stands for uniform."""
    if weights is None:
        return np.full(n_arms, 1.0 / n_arms)
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n_arms,) or not (array >= 0).all() or not array.sum() <= 1 + 1e-9:
        raise ValueError(f"weights must be {n_arms} numbers ≥ 0 of sum at most 1, got {weights!r}")
    return array


def check_rate(rate: ArrayLike) -> FloatArray:
    """The rate ε of free observations, one or many, in [0, 1]."""
    array = np.asarray(rate, dtype=np.float64)
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"rate must be in [0, 1], got {rate!r}")
    return array


def check_horizon(horizon: ArrayLike) -> FloatArray:
    """The horizon T, one or many: whole numbers from 1 to 2⁵³, returned as floats."""
    array = np.asarray(horizon, dtype=np.float64)
    if not ((array >= 1) & (array <= LARGEST_HORIZON) & (array == np.floor(array))).all():
        raise ValueError(f"horizon must be a whole number from 1 to 2**53, got {horizon!r}")
    return array


def check_positive(name: str, value: float) -> float:
    """A number in (0, ∞)."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return float(value)


def check_nonnegative(name: str, value: float) -> float:
    """A number in [0, ∞)."""
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be finite and ≥ 0, got {value!r}")
    return float(value)


def check_choice(name: str, value: str, *choices: str) -> None:
    """One of a few words: the form of a bound, for instance."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def plain(array: ArrayLike) -> float | FloatArray:
    """A number if it is one, else the array."""
    array = np.asarray(array, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


def answer(total: ArrayLike, terms: FloatArray, stages: FloatArray | None, details: bool) -> Answer:
    """The total alone (a float if it is one number), or the whole record."""
    return Bound(plain(total), terms, stages) if details else plain(total)
