"""Call every public function of `kibitz.bounds` and `kibitz.planning` with invalid arguments.

A call must return numbers other than NaN, or raise an error that names an argument and shows its
value. No call may issue a warning. The functions are collected automatically. In each call, a few
arguments are replaced by invalid values; the others have the valid value listed for their name.
"""

import inspect
import math
import re
from importlib import import_module
from pkgutil import walk_packages

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import kibitz.bounds
import kibitz.planning
from kibitz.bounds import Bound
from kibitz.planning.result import Plan

pytestmark = pytest.mark.slow

INTERNAL_MODULES = {"_bound", "_checks"}


def list_functions(module):
    for name, function in vars(module).items():
        is_defined_here = inspect.isfunction(function) and function.__module__ == module.__name__
        if is_defined_here and not name.startswith("_"):
            yield name, function


def list_public_functions():
    """Return a dict from the full name of each public function to the function."""
    functions = {}
    for name in kibitz.bounds.__all__:
        value = getattr(kibitz.bounds, name)
        if inspect.isfunction(value):
            functions[f"bounds.{name}"] = value
        elif inspect.ismodule(value):
            public_names = getattr(value, "__all__", None)
            names = [n for n, _ in list_functions(value)] if public_names is None else public_names
            for public_name in names:
                if inspect.isfunction(getattr(value, public_name)):
                    functions[f"bounds.{name}.{public_name}"] = getattr(value, public_name)
    from kibitz.evaluation import bayes_optimal
    from kibitz.planning import planner, prediction

    functions["plan"] = planner.plan
    functions["bayes_optimal"] = bayes_optimal.bayes_optimal
    functions["predict"] = prediction.predict
    functions["early_scale"] = prediction.early_scale
    return functions


FUNCTIONS = list_public_functions()

# A valid value for each parameter name; small values keep the calls fast.
VALID_VALUES = {
    "gaps": [0.0, 0.5, 1.0],
    "means": [1.0, 0.7, 0.4],
    "rate": 0.1,
    "shows": [[1, 0.5, 0], [0, 1, 1], [0, 1, 1]],
    "counts": [5, 7, 9],
    "shares": None,
    "looks": "active",
    "beta": 1.0,
    "b": 8.0,
    "scale": 1.0,
    "rates": [0.1, 0.2],
    "horizon": 20,
    "weights": None,
    "C": 2.0,
    "C_0": 0.5,
    "form": "proved",
    "text": "main",
    "variant": "clip",
    "rewards": "gaussian",
    "sd": 1.0,
    "best_mean": None,
    "details": False,
    "exact": False,
    "gaussian": False,
    "exploration": 6.0,
    "schedule": lambda t: 0.1 * t,
    "c_eta": 1.0,
    "rho": 0.5,
    "alpha": 1.0,
    "variance": 1.0,
    "log_horizon": 5.0,
    "needs": [0.0, 3.0, 2.0],
    "n_looks": 2.0,
    "n_arms": 3,
    "gap": 0.5,
    "gap_range": None,
    "stages": None,
    "stage": 10,
    "x": 3.0,
    "power": 1.0,
    "below": 2,
    "epoch": 2,
    "base": 2.0,
    "constant": 32.0,
    "t": 5,
    "start": 1.0,
    "stop": 10.0,
    "delta": 0.1,
    "n": 10,
    "p": 0.3,
    "deviation": 0.1,
    "excesses": [1.0, 2.0],
    "u": 1,
    "a": 3.0,
    "expected": 5.0,
    "cost": 0.1,
    "simulate": False,
    "executor": None,
    "runs": 1,
    "seed": 1,
    "progress": None,
    "observer": "uniform",
    "early": False,
    "every": 3,
    "threshold": 8.0,
    "n_before": 100,
    "change": 1.0,
    "regret": 2.0,
    "seen": ((0, 1), (1, 1)),
}
SPECIAL_VALUES = {  # valid values for names that have another meaning in one function
    ("plan", "gaps"): None,
    ("plan", "rates"): None,
    ("plan", "baseline"): None,
    ("plan", "lift"): None,
    ("plan", "clicks"): None,
    ("plan", "views"): None,
    ("plan", "at"): None,
    ("plan", "randomized"): None,
    ("plan", "seed"): None,  # without a seed, `plan` does not simulate
    ("graph", "observer"): "passive",
    ("graph_fixed_stage", "observer"): "passive",
    ("graph_multi_period", "observer"): "passive",
    ("summary", "observer"): "passive",
    ("summary", "shows"): None,
    ("paid_looks", "form"): "leading",
    ("lambert_lower_branch_bounds", "u"): 0.5,
    ("rise_delay", "looks"): "watch",
}


class NoRepr:
    def __repr__(self):
        raise RuntimeError("no repr")


# None of these functions raises, because an error in a user's function is passed on unchanged.
JUNK = [
    None,
    "",
    "junk",
    "bayes_optimal",
    "1",
    b"1",
    math.nan,
    math.inf,
    -math.inf,
    -1,
    0,
    1,
    2,
    3,
    1.5,
    -0.5,
    1e-3,
    1e-20,
    1e-300,
    5e-324,
    1e300,
    1.7976931348623157e308,
    10**15,
    2**53,
    2**53 + 1,
    2**62,
    2**64,
    10**400,
    -(10**400),
    True,
    False,
    1j,
    complex(math.nan, 0),
    object(),
    NoRepr(),
    {},
    {"a": 1},
    set(),
    (),
    [],
    [[]],
    [[1.0, 2.0]],
    [[1.0], [1.0, 2.0]],
    [None],
    ["a"],
    [math.nan, 0.0],
    [0.0, math.inf],
    [0.0, 1e-320],
    [0.0, 1e300],
    [0.0, 1e-50],
    [0.0, 1e50],
    [0.0, 1e-50, 1e50],
    [0.0, -1.0],
    [0.0],
    [0.0, 0.0],
    [0.0, 10**400],
    [1, 2, 3],
    [0.5, 0.5],
    [0.2, 0.3, 0.5],
    [1e308, -1e308],
    [1e-320, 0.0],
    [True, False],
    [0.0, 0.1, 1.0],
    np.zeros((2, 2)),
    np.ones(4),
    np.ones((3, 1)),
    np.ones((2, 3)),
    np.zeros((0, 3)),
    np.array(0.5),
    np.array(["a"]),
    np.array([1j]),
    np.array([True]),
    np.float32(0.5),
    np.int64(3),
    np.bool_(True),
    np.datetime64("2020"),
    np.ma.masked,
    np.ma.masked_array([0.0, 1.0], [False, True]),
    range(3),
    lambda *args: None,
    lambda t: t,
    lambda t: -t,
    lambda t: "junk",
    lambda t: np.full(np.shape(t), math.nan),
]


def make_valid_arguments(name, function):
    function_name = name.rpartition(".")[2]
    parameters = inspect.signature(function).parameters
    return {
        p: SPECIAL_VALUES[function_name, p]
        if (function_name, p) in SPECIAL_VALUES
        else VALID_VALUES[p]
        for p in parameters
    }


def is_nan(value):
    if isinstance(value, Plan):
        value = value.to_dict()
    if isinstance(value, dict):
        return any(map(is_nan, value.values()))
    if isinstance(value, tuple | list):
        return any(map(is_nan, value))
    if isinstance(value, np.ndarray):
        return bool(np.isnan(value).any())
    return isinstance(value, float) and math.isnan(value)


def is_clear_message(message, call):
    """Return whether a message names an argument, and shows its value or says that it is missing."""
    named_arguments = [
        name
        for name in {*call, "gaps"}
        if re.search(rf"\b{name}\b" if len(name) > 1 else rf"^{name} must ", message)
    ]
    if ", got " in message:
        return bool(named_arguments)
    values = [call.get(name) for name in named_arguments]
    if " needs " in message:
        return any(value is None for value in values)
    return any(str(value).removesuffix(".0") in message for value in values)


def call_succeeds(function, call):
    """Return True if the call succeeds, False if it raises an error with a good message.

    Any other error is passed on, and a result with NaN fails the test.
    """
    with np.errstate(all="warn", under="ignore"):
        try:
            result = function(**call)
        except (ValueError, TypeError) as error:
            if not is_clear_message(str(error), call):
                raise
            return False
    assert not is_nan(result)
    return True


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("gap must be positive and finite, got nan", True),
        ("gap needs n_arms, the number of arms", True),
        ("epoch 10 has a length that overflows a float; use epoch_log_length", True),
        ("operands could not be broadcast together", False),
        ("gap is wrong", False),
        ("could not convert string to a float, got 'junk'", False),
    ],
)
def test_clear_messages_have_name_and_value(message, expected):
    call = {"gap": math.nan, "n_arms": None, "epoch": 10.0, "a": "junk"}
    assert is_clear_message(message, call) == expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_valid_arguments_succeed(name):
    assert call_succeeds(FUNCTIONS[name], make_valid_arguments(name, FUNCTIONS[name]))


SLOW_FUNCTIONS = {"bounds.summary", "bounds.onset", "bounds.lower.passive_sharp", "plan"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW_FUNCTIONS else []) for n in FUNCTIONS],
)
def test_any_argument_can_be_invalid(name):
    call = make_valid_arguments(name, FUNCTIONS[name])
    for parameter in call:
        for junk in JUNK:
            call_succeeds(FUNCTIONS[name], call | {parameter: junk})


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_several_arguments_can_be_invalid(name, data):
    call = make_valid_arguments(name, FUNCTIONS[name])
    invalid_names = data.draw(
        st.lists(st.sampled_from(sorted(call)), min_size=1, max_size=4, unique=True)
    )
    invalid_values = st.one_of(
        st.sampled_from(JUNK),
        st.floats(),
        st.integers(-5, 2**54),
        st.lists(st.floats(), max_size=4),
        st.lists(st.floats(0, 1), max_size=4),
    )
    call_succeeds(
        FUNCTIONS[name], call | {parameter: data.draw(invalid_values) for parameter in invalid_names}
    )


FLAGS = [
    (name, flag)
    for name, function in FUNCTIONS.items()
    for flag, parameter in inspect.signature(function).parameters.items()
    if isinstance(parameter.default, bool)
]


@pytest.mark.parametrize(("name", "flag"), FLAGS)
def test_flags_are_booleans_only(name, flag):
    call = make_valid_arguments(name, FUNCTIONS[name])
    for value in (1, 0, "yes", None, [], 1.0):
        with pytest.raises(ValueError, match=f"^{flag} must be True or False, got "):
            FUNCTIONS[name](**call | {flag: value})


def test_all_public_functions_are_collected():
    names = set(FUNCTIONS)
    assert {"bounds.summary", "bounds.onset", "bounds.lower.schedule", "plan"} <= names
    assert len(names) > 60
    assert len(FLAGS) > 20
    collected_functions = set(FUNCTIONS.values())
    for module in walk_packages(kibitz.bounds.__path__, "kibitz.bounds."):
        if module.name.rpartition(".")[2] not in INTERNAL_MODULES:
            for name, function in list_functions(import_module(module.name)):
                internal = function.__doc__ is None or "Parameters\n" not in function.__doc__
                assert function in collected_functions or internal, f"{module.name}.{name}"


def test_a_bound_with_details_is_a_record_without_nan():
    for name, flag in FLAGS:
        if flag == "details":
            call = make_valid_arguments(name, FUNCTIONS[name]) | {"details": np.bool_(True)}
            bound = FUNCTIONS[name](**call)
            assert isinstance(bound, Bound)
            assert not is_nan(tuple(bound))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("bounds.upper.ucb_sharp", {"exploration": 1e300}),
        ("bounds.upper.ftl_robin", {"sd": 1e300}),
        ("bounds.complexity.hardness", {"below": math.nan}),
        ("bounds.concentration.chung_lu_tail", {"u": 1.5}),
        ("bounds.summary", {"means": [1e-320, 0.0]}),
        ("plan", {"gap": 1e300}),
        ("plan", {"gap": 5e-324}),
        ("plan", {"runs": -1}),
        ("plan", {"horizon": 10**400}),
    ],
)
def test_values_that_used_to_crash_or_warn_raise(name, call):
    with pytest.raises(
        ValueError, match=f"^{'gaps' if 'means' in call else next(iter(call))} must be"
    ):
        FUNCTIONS[name](**make_valid_arguments(name, FUNCTIONS[name]) | call)
