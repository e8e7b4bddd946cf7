"""Call every public constructor, `simulate`, `race`, `sweep` and `check` with invalid arguments.

Each call must return a result without a warning, or raise a clear error. `tests/bounds/test_junk.py`
does the same for bounds and planning, and `tests/live/test_junk.py` for agents and logs. New public
names are covered automatically.
"""

import inspect

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from junk import JUNK, call_or_reject
from scipy import stats

import kibitz as kb
from kibitz.policies import POLICIES

VALID_ARGUMENTS = {  # a valid value for each argument name
    "means": [1, 0.5],
    "rewards": [[1.0], [0.0, 2.0]],
    "distributions": [stats.norm(), stats.uniform()],
    "rate": 0.1,
    "n": 3,
    "name": "mine",
    "index": lambda params, stage, counts, arm, mean: mean,
    "policy": kb.ucb(),
    "make": lambda rng: kb.gaussian(rng.normal(size=2)),
    "seed": 1,
    "shows": [[1, 0], [1, 1]],
    "pieces": [(1, kb.gaussian([1, 0])), (10, kb.gaussian([0, 1]))],
    "horizon": 20,
}
OWN_ARGUMENTS = {"drifting": {"means": lambda stage: [1.0, 0.5]}}
CONSTRUCTORS = {
    name: getattr(kb, name)
    for name in kb.__all__
    if getattr(getattr(kb, name), "__module__", "").startswith(("kibitz.model", "kibitz.policies"))
    and inspect.isfunction(getattr(kb, name))
}
CONSTRUCTORS = {
    n: f for n, f in CONSTRUCTORS.items() if f.__module__.split(".")[1] in {"model", "policies"}
}


def test_all_constructors_are_covered():
    assert POLICIES.keys() | {"gaussian", "bernoulli", "empirical", "every"} <= CONSTRUCTORS.keys()


@settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_a_constructor_accepts_or_rejects_junk(name, data):
    function = CONSTRUCTORS[name]
    parameters = [
        p for p in inspect.signature(function).parameters.values() if p.kind != p.VAR_KEYWORD
    ]
    arguments = {p.name: VALID_ARGUMENTS[p.name] for p in parameters if p.default is p.empty}
    arguments |= OWN_ARGUMENTS.get(name, {})
    for parameter in data.draw(
        st.lists(st.sampled_from(parameters), max_size=2) if parameters else st.just([])
    ):
        arguments[parameter.name] = data.draw(st.sampled_from(JUNK))
    result = call_or_reject(function, **arguments)
    if result is not None:
        repr(result)


VALID_OPTIONS = {
    "problem": kb.gaussian([1, 0]),
    "feedback": kb.active(0.1),
    "policies": kb.ucb(),
    "horizon": 20,
    "runs": 1,
    "seed": 1,
}


@settings(derandomize=True, deadline=None, max_examples=250, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("function", [kb.simulate, kb.race])
def test_simulate_accepts_junk_or_rejects_it_cleanly(function, data):
    names = [*inspect.signature(function).parameters]
    junk_options = {
        name: data.draw(st.sampled_from(JUNK))
        for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2))
    }
    if junk_options.get("progress") is None:
        junk_options.pop("progress", None)
    if (
        isinstance(junk_options.get("file"), str) and junk_options["file"]
    ):  # a valid path, which would create a file
        junk_options.pop("file")
    call_or_reject(function, **{**VALID_OPTIONS, **junk_options})


@settings(derandomize=True, deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_sweep_accepts_junk_or_rejects_it_cleanly(data):
    valid_options = {**VALID_OPTIONS, "rate": [0.1, 0.2], "feedback": kb.active}
    names = [*valid_options, "points"]
    junk_options = {
        name: data.draw(st.sampled_from(JUNK))
        for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2))
    }
    call_or_reject(kb.sweep, **{**valid_options, **junk_options})
