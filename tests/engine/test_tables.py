"""Tests that tables of the two factors of an index give the same index as its formula.

tests/policies/test_contract.py tests this for each policy and feedback: it compares the generic
kernel, which calls the formula, with the specialised kernel, which uses tables.
"""

import math

import numba
import numpy as np
import pytest

import kibitz as kb
from kibitz.engine import kernel
from kibitz.engine.kernel import MAX_TABLE_SIZE, make_kernel, table_size
from kibitz.policies import POLICIES
from kibitz.simulation.jobs import Job, play, specialised_kernel

pytestmark = pytest.mark.slow

PROBLEM = kb.gaussian([1.0, 0.6, 0.2])


def make_job(policy, feedback, horizon, runs=3, **options):
    return Job(None, policy, PROBLEM, feedback, horizon, np.array([horizon]), 5, 0, runs, **options)


def is_tabulated(policy, horizon, looks=1):
    return make_kernel(policy, kb.active(0.5, looks=looks), False, horizon).table_size > 0


def assert_equal_results(result, expected_result):
    for name in result._fields:
        np.testing.assert_array_equal(
            getattr(result, name), getattr(expected_result, name), err_msg=name
        )


def test_the_listed_policies_use_tables():
    tabulated_policies = {
        name for name, make_policy in POLICIES.items() if is_tabulated(make_policy(), 1000)
    }
    assert tabulated_policies == {"ucb", "ucb_double", "ucb_second", "kl_ucb", "bayes_ucb"}
    assert not is_tabulated(kb.kl_ucb(rewards="bernoulli"), 1000)
    assert not specialised_kernel(make_job(kb.ucb(), kb.bandit(), 1000, leap=True)).table_size


@pytest.mark.parametrize(
    "feedback", [kb.bandit(), kb.active(0.3), kb.passive(1.0, looks=7), kb.full()]
)
@pytest.mark.parametrize("make_policy", [kb.ucb, kb.ucb_second, kb.kl_ucb])
def test_tables_give_the_numbers_of_the_formula(make_policy, feedback, monkeypatch):
    job = make_job(make_policy(), feedback, 700, kernel="specialised")
    assert specialised_kernel(job).table_size > 0
    table_result = play(job)
    monkeypatch.setattr(kernel, "MAX_TABLE_SIZE", 0)
    assert specialised_kernel(job).table_size == 0
    assert_equal_results(table_result, play(job))


def test_tables_contain_the_values_of_the_factors():
    """Policies with different parameters have separate tables."""
    for c in (6.0, 2.0):
        policy = kb.ucb(c)
        play(make_job(policy, kb.active(1.0), 100, kernel="specialised"))
        *_, growths, widths = make_kernel(policy, kb.active(1.0), False, 100)._make_arguments(
            tuple(policy.params)
        )
        assert growths.size == widths.size == table_size(100, 1) == 256
        stages = range(1, 256)
        assert growths[1:].tolist() == [math.sqrt(c * math.log(stage)) for stage in stages]
        assert widths[1:].tolist() == [1 / math.sqrt(count) for count in stages]


@pytest.mark.parametrize("looks", [1, 3, 1000])
def test_a_table_is_long_enough_for_every_count(looks):
    """At every stage, an arm can get one pull and `looks` looks."""
    longest_horizon = max(h for h in range(1, 2**17) if table_size(h, looks) <= MAX_TABLE_SIZE)
    for horizon in (1, 2, 3, 31, 32, 33, longest_horizon):
        assert horizon * (1 + looks) + 1 < table_size(horizon, looks) <= MAX_TABLE_SIZE
    assert is_tabulated(kb.ucb(), longest_horizon, looks)
    assert not is_tabulated(kb.ucb(), longest_horizon + 1, looks)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="takes minutes in plain Python")
def test_tables_are_used_up_to_the_largest_table_size():
    horizons = [MAX_TABLE_SIZE // 2 - 1, MAX_TABLE_SIZE // 2]
    jobs = [
        make_job(kb.ucb(), kb.passive(1.0, [1, 0, 0]), h, 1, kernel="specialised") for h in horizons
    ]
    assert [specialised_kernel(job).table_size > 0 for job in jobs] == [True, False]
    for job in jobs:
        assert_equal_results(play(job), play(job._replace(kernel="generic")))
        assert play(job).n_looks[0, 0] == job.horizon
