"""Validation of arguments, which happens once, at the boundary of the library.

Each function returns the value as a plain Python or NumPy type, or raises the ValueError
`<name> must be <condition>, got <value>`.
"""

import math
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_INT = 2**62 - 1  # compiled code can add two numbers of this size without overflow
MAX_REPR_LENGTH = 60  # largest number of characters of a value in an error message
EXECUTOR = "a concurrent.futures Executor or a function that returns an Executor"


def invalid(name: str, condition: str, value: object) -> ValueError:
    """Return (not raise) the error `<name> must be <condition>, got <value>`."""
    return ValueError(f"{name} must be {condition}, got {short_repr(value)}")


def short_repr(value: object) -> str:
    """Return the repr of a value, shortened in the middle if it is long."""
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, np.ndarray):
        value = value.tolist() if value.size <= MAX_REPR_LENGTH else f"array of shape {value.shape}"
    try:
        text = repr(value)
    except Exception as error:  # an int with thousands of digits, or a __repr__ that raises
        digits = isinstance(value, int) and int(value.bit_length() * math.log10(2)) + 1
        text = f"a number with {digits} digits" if digits else f"{type(value).__name__} ({error})"
    if len(text) > MAX_REPR_LENGTH:
        text = f"{text[: MAX_REPR_LENGTH // 2]}...{text[-MAX_REPR_LENGTH // 4 :]}"
    return text


def number(value: Any, name: str, condition: str = "a number") -> float:
    """Return `value` as a float; NaN and infinity are allowed."""
    number_types = int | float | np.integer | np.floating
    if isinstance(value, np.ndarray) and value.ndim == 0 and value is not np.ma.masked:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, number_types):
        raise invalid(name, condition, value)
    try:
        return float(value)
    except OverflowError:
        raise invalid(name, condition, value) from None


def finite(value: Any, name: str) -> float:
    """Return `value` as a finite float."""
    condition = "a finite number"
    if not math.isfinite(x := number(value, name, condition)):
        raise invalid(name, condition, value)
    return x


def positive(value: Any, name: str) -> float:
    """Return `value` as a positive, finite float."""
    condition = "positive and finite"
    if not 0 < (x := number(value, name, condition)) < math.inf:
        raise invalid(name, condition, value)
    return x


def non_negative(value: Any, name: str) -> float:
    """Return `value` as a non-negative, finite float."""
    condition = "non-negative and finite"
    if not 0 <= (x := number(value, name, condition)) < math.inf:
        raise invalid(name, condition, value)
    return x


def between(value: Any, name: str, low: float, high: float) -> float:
    """Return `value` as a float in [low, high]."""
    condition = f"in [{low:g}, {high:g}]"
    if not low <= (x := number(value, name, condition)) <= high:
        raise invalid(name, condition, value)
    return x


def whole(value: Any, name: str, minimum: int = 0, maximum: int = MAX_INT) -> int:
    """Return `value` as an int from `minimum` to `maximum`; floats such as 1e6 are accepted."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        n = int(value)  # exact for any size
    else:
        x = number(value, name, "a whole number")
        if not (math.isfinite(x) and x == int(x)):
            raise invalid(name, "a whole number", value)
        n = int(x)
    if n < minimum:
        raise invalid(name, f"a whole number of at least {minimum}", value)
    if n > maximum:
        limit = "below 2^62" if maximum == MAX_INT else f"of at most {maximum}"
        raise invalid(name, f"a whole number {limit}", value)
    return n


def seed_number(value: Any, name: str = "seed") -> int:
    """Return a seed as a whole number; `value` is a whole number or a NumPy `SeedSequence`.

    `SeedSequence(n)` gives n. A sequence with other entropy, or a spawned sequence, gives a number of
    62 bits that depends on its state; the sequence itself does not change.
    """
    if not isinstance(value, np.random.SeedSequence):
        return whole(value, name)
    entropy = value.entropy
    if not value.spawn_key and isinstance(entropy, int) and 0 <= entropy <= MAX_INT:
        return entropy
    return int(value.generate_state(1, np.uint64)[0] >> np.uint64(2))


def flag(value: Any, name: str) -> bool:
    """Return `value` as a bool; only True and False are accepted."""
    if not isinstance(value, bool | np.bool_):
        raise invalid(name, "True or False", value)
    return bool(value)


def one_of(value: Any, name: str, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`; the ValueError suggests the closest choice."""
    if not (isinstance(value, str) and value in choices):
        *earlier_choices, last_choice = map(repr, choices)
        condition = (
            f"{', '.join(earlier_choices)} or {last_choice}" if earlier_choices else last_choice
        )
        raise ValueError(f"{invalid(name, condition, value)}{suggest(value, choices)}")
    return value


def suggest(value: Any, choices: Collection[str]) -> str:
    """Return "; did you mean 'x'?" for the choice x closest to `value`; "" if no choice is close."""
    matches = get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    return f"; did you mean {matches[0]!r}?" if matches else ""


def numbers(value: Any, name: str, min_size: int = 1) -> NDArray[np.float64]:
    """Return a list of at least `min_size` finite numbers as a new array."""
    condition = f"a list of at least {min_size} numbers" if min_size > 1 else "a list of numbers"
    result = array(value, name, condition)
    if result.ndim != 1 or result.size < min_size:
        raise invalid(name, condition, value)
    if not np.all(np.isfinite(result)):
        raise invalid(name, "finite", value)
    return result


def array(
    value: Any, name: str, condition: str = "a number or an array of numbers"
) -> NDArray[np.float64]:
    """Return a number or array of numbers as a new array; NaN and infinity are allowed."""
    try:
        result = np.array(value)
        is_large_int = result.dtype == object and all(type(x) is int for x in result.flat)
        is_masked = isinstance(value, np.ma.MaskedArray)  # np.array would drop the mask
        if (result.dtype.kind in "iuf" or is_large_int) and not is_masked:
            with np.errstate(over="ignore"):  # a long double may exceed the range of a float
                return np.array(result, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise invalid(name, condition, value)


def text(value: Any, name: str, max_length: int = 500) -> str:
    """Return a string of 1 to `max_length` printable characters."""
    if not (isinstance(value, str) and 1 <= len(value) <= max_length and value.isprintable()):
        raise invalid(name, f"a text of 1 to {max_length} printable characters", value)
    return value
