"""Tests that policies receive rewards in units of their scale."""

import numpy as np
import pytest
from histories import play_runs

import kibitz as kb
from kibitz.policies import POLICIES

pytestmark = pytest.mark.slow

MEANS = np.array([2, 1.8, 1.5, 1, 0.5])


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("leap", [False, True])
def test_ten_times_the_scale_is_ten_times_the_regret(name, leap):
    policy = POLICIES[name]()
    if leap and policy.index is None:
        return  # a policy without an index is played stage by stage
    setting = {"horizon": 400 if leap else 2000, "runs": 5, "seed": 3, "leap": leap}
    unit_result, scaled_result = (
        play_runs(policy, kb.gaussian(scale * MEANS, sd=scale), kb.active(0.1), **setting)
        for scale in (1.0, 10.0)
    )
    np.testing.assert_array_equal(unit_result.n_pulls, scaled_result.n_pulls)
    np.testing.assert_allclose(10 * unit_result.regret, scaled_result.regret, rtol=1e-12)


@pytest.mark.parametrize("name", POLICIES)
def test_bernoulli_rewards_have_scale_one_half(name):
    """A policy without the argument `scale` plays like the same policy with scale=0.5."""
    policy = POLICIES[name]()
    setting = {"horizon": 500, "runs": 5, "seed": 3}
    problem = kb.bernoulli([0.9, 0.5, 0.4])
    result_of_default = play_runs(policy, problem, kb.active(0.1), **setting)
    result_of_given_scale = play_runs(POLICIES[name](scale=0.5), problem, kb.active(0.1), **setting)
    np.testing.assert_array_equal(result_of_default.n_pulls, result_of_given_scale.n_pulls)


def test_with_scale_1_rewards_are_not_rescaled():
    problem = kb.bernoulli([0.9, 0.5, 0.4])
    setting = {"horizon": 500, "runs": 20, "seed": 3}
    result_of_scale_1 = play_runs(kb.ucb(scale=1), problem, kb.bandit(), **setting)
    result_of_wider_index = play_runs(
        kb.ucb(exploration=24, scale=0.5), problem, kb.bandit(), **setting
    )
    np.testing.assert_array_equal(result_of_scale_1.n_pulls, result_of_wider_index.n_pulls)
    assert (
        result_of_scale_1.regret.mean()
        > play_runs(kb.ucb(), problem, kb.bandit(), **setting).regret.mean()
    )


def test_rewards_in_the_unit_interval_stay_there_for_policies_that_need_it():
    for make in (kb.kl_ucb, kb.thompson):
        assert make(rewards="bernoulli").scale_for(0.5) == 1
        with pytest.raises(ValueError, match=r"^a policy for bernoulli rewards takes no scale"):
            make(rewards="bernoulli", scale=0.5)


def test_a_problem_without_noise_has_scale_one():
    result = play_runs(kb.ucb(), kb.gaussian([1, 0], sd=0), kb.bandit(), horizon=100)
    assert result.n_pulls.sum() == 100


def test_empirical_rewards_are_in_units_of_half_their_range():
    problem = kb.empirical([[0.0, 20.0], [0.0, 0.0, 20.0]])
    assert problem.scale == 10
    setting = {"horizon": 300, "runs": 5, "seed": 3}
    small_problem = kb.empirical([[0.0, 2.0], [0.0, 0.0, 2.0]])
    small_result, large_result = (
        play_runs(kb.ucb(), p, kb.bandit(), **setting) for p in (small_problem, problem)
    )
    np.testing.assert_array_equal(small_result.n_pulls, large_result.n_pulls)
