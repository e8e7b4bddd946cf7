"""`kibitz.check` accepts valid policies and explains what is wrong with invalid policies."""

import dataclasses
import math
import os
import subprocess
import sys

import pytest

import kibitz as kb
from kibitz import jit
from kibitz.policies.check import check_promises
from kibitz.policies.index_policy import State, update
from kibitz.policies.policy import NEVER, View

CHECK_BUILT_IN = """
import kibitz as kb
from kibitz.policies import POLICIES

for make in POLICIES.values():
    kb.check(make())
kb.check(kb.etc_ocucb(p=1.5, restart=True))
kb.check(kb.etc_ocucb(check="doubling", all_info=True))
kb.check(kb.kl_ucb(rewards="bernoulli", c=3))
kb.check(kb.ocucb(rho=0.8))
kb.check(kb.ucb(ignore_looks=True))
kb.check(kb.thompson(rewards="bernoulli"))
print("all is well")
"""


@pytest.mark.slow
def test_built_in_policies_pass_the_check():
    """Check all policies in plain Python, which takes a minute less than compiling them."""
    process = subprocess.run(
        [sys.executable, "-c", CHECK_BUILT_IN],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout == "all is well\n", process.stderr


def valid_index(params, stage, counts, arm, mean):
    return mean + params.c * math.log(1 + stage) / counts[arm]


def test_a_users_policy_passes_the_check():
    assert kb.check(kb.index_policy("mine", valid_index, c=2.0)) is None
    assert kb.check(kb.index_policy("mine", valid_index, look="robin", c=2.0)) is None


def falls_in_stage(params, stage, counts, arm, mean):
    return mean + 1 / math.sqrt(stage)


def falls_in_mean(params, stage, counts, arm, mean):
    return 1 / counts[arm] - abs(mean)


def rises_in_own_count(params, stage, counts, arm, mean):
    return mean + math.log(counts[arm])


def rises_in_other_counts(params, stage, counts, arm, mean):
    return mean + math.sqrt(counts.sum() / counts[arm])


def infinite_index(params, stage, counts, arm, mean):
    return mean + 1 / math.log(counts[arm])


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (falls_in_stage, "index of mine must be non-decreasing in stage, got "),
        (falls_in_mean, "index of mine must be non-decreasing in mean, got "),
        (rises_in_own_count, "index of mine must be non-increasing in every count, got "),
        (rises_in_other_counts, "index of mine must be non-increasing in every count, got "),
        (infinite_index, "index of mine must be finite, got "),
    ],
)
def test_an_index_that_is_not_monotone_is_rejected(index, message):
    with pytest.raises(ValueError, match=message) as error:
        kb.check(kb.index_policy("mine", index))
    with pytest.raises(ValueError) as second_error:
        kb.check(kb.index_policy("mine", index))
    assert str(second_error.value) == str(error.value)
    assert "\n" not in str(error.value)


def counts_itself(params, stage, counts, arm, mean):
    counts[arm] += 1
    return mean + 1 / counts[arm]


def counts_others_late(params, stage, counts, arm, mean):
    if stage > 100:
        counts[:] = 1
    return mean


@pytest.mark.parametrize("index", [counts_itself, counts_others_late])
def test_an_index_that_modifies_its_arguments_is_rejected(index):
    policy = kb.index_policy("mine", index)
    message = "index of mine must not modify its arguments, but it changed the counts .* at stage"
    with pytest.raises(ValueError, match=message):
        kb.check(policy)
    with pytest.raises(ValueError, match=message):
        kb.simulate(kb.gaussian([0.5, 0.0]), kb.bandit(), policy, horizon=10, runs=1, seed=1)


def test_an_index_may_modify_a_copy():
    def index(params, stage, counts, arm, mean):
        copy = counts + 1
        copy[arm] += 1
        return mean + 1 / copy[arm]

    check_promises(kb.index_policy("mine", index))


@jit
def pull_and_count(params, state, stage, rng):
    state.statistics.n_looks[0] += 1
    return 0


@jit
def pull_beyond(params, state, stage, rng):
    return state.allowed.size


@jit
def pull_the_worst(params, state, stage, rng):
    return state.allowed.size - 1


@jit
def look_at_the_last(params, state, stage, rng):
    return state.allowed.size - 1


@jit
def update_once(params, state, stage, arm, n, total, free):
    statistics = state.statistics
    if not free:
        statistics.n_pulls[arm] += 1
    statistics.n_observed[arm] += 1
    statistics.sums[arm] += total
    return state


@jit
def pull_at_random(params, state, stage, rng):
    return int(rng.random() * state.allowed.size)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pull": pull_and_count}, "pull and look of ucb must not modify the state, but they did at"),
        ({"pull": pull_beyond}, "pull of ucb must return an arm from 0 to 1, got 2"),
        (
            {"pull": pull_the_worst},
            "pull of ucb must be the arm with the largest index, got 1 at stage 1",
        ),
        ({"look": look_at_the_last}, "look of ucb must be the arm with the second largest index"),
        ({"update": update_once}, "decisions of ucb must depend on its observations only, but"),
        ({"look": pull_beyond}, "look of ucb must return an arm from 0 to 1, got 2"),
    ],
)
def test_functions_that_break_the_contract_are_rejected(change, message):
    with pytest.raises(ValueError, match=message):
        kb.check(dataclasses.replace(kb.ucb(), **change))


def test_looks_out_of_turn_are_rejected():
    policy = dataclasses.replace(kb.ftl_robin(), look=look_at_the_last)
    with pytest.raises(
        ValueError, match="look of ftl_robin must be the arm whose turn it is, arm 0, got arm 1"
    ):
        kb.check(policy)


def test_a_policy_may_choose_at_random_with_its_own_rng():
    changes = {"pull": pull_at_random, "index": None, "view": None}
    assert kb.check(dataclasses.replace(kb.ucb(), name="random", **changes)) is None


def test_anything_but_a_policy_is_rejected():
    with pytest.raises(ValueError, match=r"policy must be a Policy such as ucb\(\), got 'ucb'"):
        kb.check("ucb")


@jit
def view_without_looks(params, state: State, stage):
    statistics = state.statistics
    return View(statistics, statistics.n_pulls, state.allowed, 0, NEVER, True, 0)


def test_looks_are_not_checked_if_max_looks_is_0():
    """If the view of an index policy has max_looks = 0, the policy may look at any arm."""
    changes = {"view": view_without_looks, "look": look_at_the_last, "update": update}
    assert kb.check(dataclasses.replace(kb.ucb(), **changes)) is None


def test_simulate_rejects_an_index_that_is_not_monotone():
    policy = kb.index_policy("mine", rises_in_own_count)
    with pytest.raises(ValueError, match="index of mine must be non-increasing in every count"):
        kb.simulate(kb.gaussian([1, 0]), kb.bandit(), policy, horizon=10, runs=1, seed=1)


def test_the_error_of_a_failing_index_is_shown():
    def index(params, stage, counts, arm, mean):
        return params.missing

    with pytest.raises(ValueError, match=r"index of mine raised AttributeError when called with"):
        kb.check(kb.index_policy("mine", index))
