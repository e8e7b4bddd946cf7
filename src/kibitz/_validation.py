"""What a user hands in, made sure of once, at the boundary: a value of the right kind or a sentence.

Each function returns its value as the plain type that is meant, or raises a ValueError that reads
`<name> must be <condition>, got <value>`.
"""

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 2**62 - 1  # the largest whole number that compiled code can still add to another
LONGEST = 60  # characters of a value that are quoted
EXECUTOR = "an Executor of concurrent.futures or a function that makes one"


def invalid(name: str, condition: str, value: object) -> ValueError:
    """Return the error that says so, with the value quoted."""
    return ValueError(f"{name} must be {condition}, got {short_repr(value)}")


def short_repr(value: object) -> str:
    """Return a value as Python writes it, shortened in the middle if it is long."""
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, np.ndarray):
        value = value.tolist() if value.size <= LONGEST else f"array of shape {value.shape}"
    try:
        text = repr(value)
    except Exception as error:  # whole numbers of thousands of digits, an object of the user's
        digits = isinstance(value, int) and int(value.bit_length() * math.log10(2)) + 1
        text = f"a number of {digits} digits" if digits else f"{type(value).__name__} ({error})"
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}...{text[-LONGEST // 4 :]}"
    return text


def number(value: Any, name: str, condition: str = "a number") -> float:
    """Return a number as a float, NaN and infinity included."""
    kinds = int | float | np.integer | np.floating
    if isinstance(value, np.ndarray) and value.ndim == 0 and value is not np.ma.masked:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, kinds):
        raise invalid(name, condition, value)
    try:
        return float(value)
    except OverflowError:
        raise invalid(name, condition, value) from None


def finite(value: Any, name: str) -> float:
    """Return a finite number."""
    condition = "a finite number"
    if not math.isfinite(x := number(value, name, condition)):
        raise invalid(name, condition, value)
    return x


def positive(value: Any, name: str) -> float:
    """Return a number that is positive and finite."""
    condition = "positive and finite"
    if not 0 < (x := number(value, name, condition)) < math.inf:
        raise invalid(name, condition, value)
    return x


def non_negative(value: Any, name: str) -> float:
    """Return a number that is not negative, and finite."""
    condition = "non-negative and finite"
    if not 0 <= (x := number(value, name, condition)) < math.inf:
        raise invalid(name, condition, value)
    return x


def between(value: Any, name: str, low: float, high: float) -> float:
    """Return a number in [low, high]."""
    condition = f"in [{low:g}, {high:g}]"
    if not low <= (x := number(value, name, condition)) <= high:
        raise invalid(name, condition, value)
    return x


def whole(value: Any, name: str, least: int = 0, most: int = MOST) -> int:
    """Return a whole number; floats such as 1e6 are fine."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        n = int(value)  # exact, however large
    else:
        x = number(value, name, "a whole number")
        if not (math.isfinite(x) and x == int(x)):
            raise invalid(name, "a whole number", value)
        n = int(x)
    if n < least:
        raise invalid(name, f"a whole number of at least {least}", value)
    if n > most:
        limit = "below 2^62" if most == MOST else f"of at most {most}"
        raise invalid(name, f"a whole number {limit}", value)
    return n


def flag(value: Any, name: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise invalid(name, "True or False", value)
    return bool(value)


def one_of(value: Any, name: str, choices: Collection[str]) -> str:
    """Return one of some words."""
    if not (isinstance(value, str) and value in choices):
        *first, last = map(repr, choices)
        raise invalid(name, f"{', '.join(first)} or {last}" if first else last, value)
    return value


def numbers(value: Any, name: str, least: int = 1) -> NDArray[np.float64]:
    """Return a list of at least so many finite numbers, as a new array."""
    condition = f"a list of at least {least} numbers" if least > 1 else "a list of numbers"
    given = array(value, name, condition)
    if given.ndim != 1 or given.size < least:
        raise invalid(name, condition, value)
    if not np.all(np.isfinite(given)):
        raise invalid(name, "finite", value)
    return given


def array(
    value: Any, name: str, condition: str = "a number or an array of numbers"
) -> NDArray[np.float64]:
    """Return one number or many, in any shape, as a new array; NaN and infinity included."""
    try:
        given = np.array(value)
        large = given.dtype == object and all(type(x) is int for x in given.flat)
        masked = isinstance(value, np.ma.MaskedArray)  # passes for the numbers behind the mask
        if (given.dtype.kind in "iuf" or large) and not masked:
            with np.errstate(over="ignore"):  # of numbers longer than a float
                return np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise invalid(name, condition, value)


def text(value: Any, name: str, most: int = 500) -> str:
    """Return a name or the like: some characters, none of them invisible."""
    if not (isinstance(value, str) and 1 <= len(value) <= most and value.isprintable()):
        raise invalid(name, f"a text of 1 to {most} printable characters", value)
    return value
