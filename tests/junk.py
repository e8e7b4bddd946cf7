"""Junk of every kind, for tests that call what is public with it."""

import math
import re

import numpy as np

SENTENCE = re.compile(r"[\w\[\] ,']+ must .+, got .+|[\w ]+ must be at least one policy", re.S)


class Unspeakable:
    def __repr__(self):
        raise RuntimeError("no words")


JUNK = [
    None, "", "junk", "1", b"1", math.nan, math.inf, -math.inf, -1, 0, 1, 0.5, 1.5, 1e300, 5e-324,
    2**62, 10**400, -(10**400), True, False, 1j, [], [[]], [1], [1, "a"], [[1, 2], [3]], [math.nan],
    [1e308, -1e308], (), {}, {"a": 1}, {1, 2}, object(), Unspeakable(), np.float64(2), np.array(3.0),
    np.array([1.0, 2.0]), np.array([[1.0]]), np.array(["a"]), np.array([None]), np.zeros(0), 10**5000,
]  # fmt: skip


def refused_or_right(function, **arguments):
    try:
        return function(**arguments)
    except (ValueError, TypeError) as error:
        said = str(error)
    assert SENTENCE.match(said), f"{function.__name__}: {said}"
    assert len(said) < 400
    return None
