"""Extreme numbers give an error message or complete JSON, and no warnings."""

import json
import re

import pytest

pytestmark = pytest.mark.slow

PLAN = ("plan", "--horizon", "1e4", "--arms", "3", "--gap")
BOUNDS = ("bounds", "--rate", "0.1", "--means")
SIMULATE = ("simulate", "--policy", "ucb", "--horizon", "100", "--runs", "3", "--means")


def is_complete(data):
    if isinstance(data, dict):
        return all(is_complete(value) for key, value in data.items() if key != "cost")
    if isinstance(data, list):
        return all(map(is_complete, data))
    return data is not None


@pytest.mark.parametrize(
    "args",
    [
        [*PLAN, "1e300"],
        [*PLAN, "5e-324"],
        [*PLAN, "1e-160"],
        [*BOUNDS, "1e-320,0"],
        [*BOUNDS, "1e200,0"],
        [*BOUNDS, "1e308,-1e308"],
        [*SIMULATE, "1e308,-1e308"],
        [*SIMULATE, "1e300,0"],
        [*SIMULATE, "5e-324,0"],
        [*SIMULATE, "1e308,0", "--sd", "1e308"],
    ],
    ids=" ".join,
)
def test_extreme_numbers_give_complete_json_or_one_error(kibitz, args):
    code, output, errors = kibitz(*args, "--json")
    if code == 2:
        assert output == ""
        assert re.match(r"kibitz: --(means|gap|sd)\b.* must ", errors)
        assert errors.count("\n") == 1
    else:
        assert (code, errors) == (0, "")
        assert is_complete(json.loads(output))
    assert kibitz(*args)[0] == code  # the exit code does not depend on --json
