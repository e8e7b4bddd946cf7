"""Invalid values of every kind, to call public functions with."""

import math
import re

import numpy as np


class BrokenRepr:
    def __repr__(self):
        raise RuntimeError("no repr")


JUNK = [
    None, "", "junk", "1", b"1", math.nan, math.inf, -math.inf, -1, 0, 1, 0.5, 1.5, 1e300, 5e-324,
    2**62, 10**400, -(10**400), True, False, 1j, [], [[]], [1], [1, "a"], [[1, 2], [3]], [math.nan],
    [1e308, -1e308], (), {}, {"a": 1}, {1, 2}, object(), BrokenRepr(), np.float64(2), np.array(3.0),
    np.array([1.0, 2.0]), np.array([[1.0]]), np.array(["a"]), np.array([None]), np.zeros(0), 10**5000,
]  # fmt: skip

#: Matches the part of an error that shows the rejected value, or says that a value is missing.
VALUE_PATTERN = re.compile(
    r"\bgot .+|\b\w+=.+|\bno policies given\b|\bis required\b"
    r"|\b(agent|arm|decision|file|store) ('.+'|\d+)",
    re.DOTALL,
)
#: Argument name: the word that error messages use for this argument.
ALIASES = {"id": "decision", "name": "agent", "source": "log", "url": "store"}


def call_or_reject(function, **arguments):
    """Call a function. If it raises, check that the message names an argument and shows its value."""
    try:
        return function(**arguments)
    except (ValueError, TypeError) as error:
        message = str(error)
    names = "|".join(
        re.escape(word) for name in arguments for word in (name, ALIASES.get(name, name))
    )
    assert re.search(rf"\b({names})\b", message), f"{function.__name__}: {message}"
    assert VALUE_PATTERN.search(message), f"{function.__name__}: {message}"
    assert len(message) < 400
    return None
