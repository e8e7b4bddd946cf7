"""A user's policy without an index is checked, compiled and named in errors."""

import math
from typing import NamedTuple

import numba
import numpy as np
import pytest

import kibitz as kb

needs_jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
SETTING = {"horizon": 200, "runs": 3, "seed": 1}
PROBLEM = kb.gaussian([1, 0.5])


class State(NamedTuple):
    counts: np.ndarray


@kb.jit(allocates=True)
def init(params, n_arms):
    return State(np.zeros(n_arms, np.int64))


@kb.jit
def least_pulled(state):
    return state.counts.argmin()


@kb.jit
def pull(params, state, stage, rng):
    return least_pulled(state)


@kb.jit
def update(params, state, stage, arm, n, total, free):
    state.counts[arm] += n
    return state


EVEN_POLICY = kb.Policy("even", {}, init, pull, pull, update)


def test_an_own_policy_is_checked_and_simulated():
    assert kb.check(EVEN_POLICY) is None
    data = kb.simulate(PROBLEM, kb.bandit(), EVEN_POLICY, **SETTING)
    assert (data.n_pulls == 100).all()


def test_functions_of_a_policy_need_no_decorator():
    def init(params, n_arms):
        return State(np.zeros(n_arms, np.int64))

    def pull(params, state, stage, rng):
        return stage % 2

    def update(params, state, stage, arm, n, total, free):
        state.counts[arm] += n
        return state

    policy = kb.Policy("even", {}, init, pull, pull, update)
    data = kb.simulate(PROBLEM, kb.bandit(), policy, **SETTING)
    assert (data.n_pulls == 100).all()


def plain_helper(stage):
    return math.log(stage)


def calls_a_plain_function(params, stage, counts, arm, mean):
    return mean + plain_helper(stage) / counts[arm]


def uses_unsupported_code(params, stage, counts, arm, mean):
    names = {"mean": mean}
    return eval("mean", names)


@needs_jit
@pytest.mark.parametrize(
    "call_kibitz", [kb.check, lambda p: kb.simulate(PROBLEM, kb.bandit(), p, **SETTING)]
)
def test_a_compile_error_names_the_users_line(call_kibitz):
    """The errors of both `check` and `simulate` name the file and line of the user's function."""
    for index, words in (
        (calls_a_plain_function, "plain_helper is a plain function; decorate it with @kibitz.jit"),
        (uses_unsupported_code, ""),
    ):
        with pytest.raises(kb.CompileError, match="numba cannot compile mine: ") as error:
            call_kibitz(kb.index_policy("mine", index))
        message = str(error.value)
        first_line = index.__code__.co_firstlineno
        assert words in message
        assert "\n" not in message
        assert any(f"test_own_policy.py, line {first_line + n})" in message for n in (1, 2)), message


def modifies_the_state(params, state, stage, rng):
    state.counts[0] += 1
    return 0


def test_check_and_simulate_reject_the_same_policies():
    policy = kb.Policy("mine", {}, init, modifies_the_state, pull, update)
    for call_kibitz in (kb.check, lambda p: kb.simulate(PROBLEM, kb.bandit(), p, **SETTING)):
        with pytest.raises(ValueError, match="pull and look of mine must not modify the state"):
            call_kibitz(policy)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, "name must be a non-empty string"),
        ({"constants": [1]}, "constants must be a dict"),
        ({"constants": {"c": "x"}}, "c must be a number"),
        ({"pull": 3}, "pull must be a function"),
        ({"index": calls_a_plain_function}, "mine has only one of index and view"),
        ({"scale": -1.0}, "scale must be positive"),
    ],
)
def test_invalid_parts_are_rejected_at_construction(changes, words):
    parts = {
        "name": "mine",
        "constants": {},
        "init": init,
        "pull": pull,
        "look": pull,
        "update": update,
    }
    with pytest.raises(ValueError, match=words):
        kb.Policy(**{**parts, **changes})
