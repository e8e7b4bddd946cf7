"""`kibitz.check` passes what keeps the promises of a policy, and says in a sentence what does not."""

import dataclasses
import math

import pytest

import kibitz as kb
from kibitz.compiled import jit
from kibitz.feedback import FAR
from kibitz.policies import POLICIES
from kibitz.policies.policy import Seen, View, seen_update


@pytest.mark.parametrize("name", POLICIES)
def test_our_own_policies_pass(name):
    assert kb.check(POLICIES[name]()) is None


@pytest.mark.parametrize(
    "policy",
    [
        kb.etc_ocucb(p=1.5, restart=True),
        kb.etc_ocucb(check="doubling", all_info=True),
        kb.kl_ucb(law="bernoulli", c=3),
        kb.ocucb(rho=0.8),
        kb.ucb(ignore_free=True),
    ],
    ids=repr,
)
def test_variants_pass(policy):
    assert kb.check(policy) is None


def mine(params, stage, counts, arm, mean):
    return mean + params.c * math.log(1 + stage) / counts[arm]


def test_a_users_policy_passes():
    assert kb.check(kb.index_policy("mine", mine, c=2.0)) is None
    assert kb.check(kb.index_policy("mine", mine, look="robin", c=2.0)) is None


def falls_in_stage(params, stage, counts, arm, mean):
    return mean + 1 / math.sqrt(stage)


def falls_in_mean(params, stage, counts, arm, mean):
    return 1 / counts[arm] - abs(mean)


def rises_in_own_count(params, stage, counts, arm, mean):
    return mean + math.log(counts[arm])


def rises_in_other_counts(params, stage, counts, arm, mean):
    return mean + math.sqrt(counts.sum() / counts[arm])


def infinite(params, stage, counts, arm, mean):
    return mean / (counts[arm] - 3)


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        (falls_in_stage, "mine must have an index that is non-decreasing in stage, got "),
        (falls_in_mean, "mine must have an index that is non-decreasing in mean, got "),
        (rises_in_own_count, "mine must have an index that is non-increasing in every count, got "),
        (
            rises_in_other_counts,
            "mine must have an index that is non-increasing in every count, got ",
        ),
        (infinite, "mine must have a finite index, got "),
    ],
)
def test_an_index_that_breaks_its_promise_is_told(index, sentence):
    for _ in range(2):  # the same words each time
        with pytest.raises(ValueError, match=sentence) as told:
            kb.check(kb.index_policy("mine", index))
        words = str(told.value)
    with pytest.raises(ValueError) as again:
        kb.check(kb.index_policy("mine", index))
    assert str(again.value) == words
    assert "\n" not in words


@jit
def pull_and_count(params, state, stage, rng):
    state.n_looks[0] += 1
    return 0


@jit
def pull_beyond(params, state, stage, rng):
    return state.counts.size


@jit
def pull_the_worst(params, state, stage, rng):
    return state.counts.size - 1


@jit
def look_at_the_last(params, state, stage, rng):
    return state.counts.size - 1


@jit
def update_once(params, state, stage, arm, n, total, free):
    if not free:
        state.n_pulls[arm] += 1
    state.counts[arm] += 1
    state.sums[arm] += total
    return state


@jit
def pull_at_random(params, state, stage, rng):
    return int(rng.random() * state.counts.size)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"pull": pull_and_count}, "ucb must leave the state alone when it decides, got a change"),
        ({"pull": pull_beyond}, "ucb must pull one of 2 arms, got 2 at stage 1"),
        ({"pull": pull_the_worst}, "ucb must pull the arm of largest index, got arm 1 at stage 1"),
        ({"observe": look_at_the_last}, "ucb must look at the arm of second largest index"),
        ({"update": update_once}, "ucb must decide the same after the same story, got decisions"),
        ({"observe": pull_beyond}, "ucb must observe one of 2 arms, got 2"),
    ],
)
def test_functions_that_break_a_promise_are_told(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        kb.check(dataclasses.replace(kb.ucb(), **change))


def test_turns_that_are_not_taken_are_told():
    policy = dataclasses.replace(kb.ftl_robin(), observe=look_at_the_last)
    with pytest.raises(
        ValueError, match="ftl_robin must look at the arm whose turn it is, got arm 1"
    ):
        kb.check(policy)


def test_a_policy_may_choose_at_random_with_the_numbers_it_is_given():
    changes = {"pull": pull_at_random, "index": None, "view": None}
    assert kb.check(dataclasses.replace(kb.ucb(), name="random", **changes)) is None


def test_something_else_is_refused():
    with pytest.raises(ValueError, match=r"policy must be a policy such as ucb\(\), got 'ucb'"):
        kb.check("ucb")


@jit
def view_without_looks(params, state: Seen, stage):
    return View(state.counts, state.sums, state.n_pulls, state.allowed, 0, FAR, True, 0)


def test_a_view_may_forbid_looks_at_once():
    """Then where it looks is its own affair."""
    changes = {"view": view_without_looks, "observe": look_at_the_last, "update": seen_update}
    assert kb.check(dataclasses.replace(kb.ucb(), **changes)) is None
