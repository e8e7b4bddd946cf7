"""OCUCB-n agrees with small examples, its formula and the reference."""

import math
from dataclasses import replace

import numba
import numpy as np
import pytest
import reference
from histories import assert_agrees, decide, find_disagreement, make_policy, play_runs
from hypothesis import given, settings, strategies as st

from kibitz.model.feedback import active, bandit, passive
from kibitz.model.problem import bernoulli, gaussian
from kibitz.policies import ocucb
from kibitz.policies.check import make_statistics
from kibitz.policies.index_policy import init as init_without_rows
from kibitz.policies.ocucb import MIN_ARMS_WITH_SUMS

ETAS = [2.0, 1.0000001, 1.5, 30.0]
RHOS = [0.5, 0.75, 1.0, 0.5 + 1e-9, 0.9]


def test_with_rho_one_the_sum_is_over_the_smaller_counts():
    # For the arm with count 4 among counts 4, 1, 9, the sum is min(4, 4) + min(4, 1) + min(4, 9) = 9.
    policy = make_policy("ocucb")
    params = policy.params._replace(eta=3.0, rho=1.0)
    index = policy.index(params, 100, make_statistics(np.array([4, 1, 9])), 0, 0.5)
    expected = 0.5 + math.sqrt(2 * 3 * math.log(100 * math.log(100) / 9) / 4)
    assert index == pytest.approx(expected, rel=1e-14)


def test_with_rho_half_the_sum_is_over_geometric_means():
    # For the arm with count 4 among counts 4, 1, 9, the sum is 4 + sqrt(4 * 1) + min(4, sqrt(4 * 9)),
    # which is 10.
    policy = make_policy("ocucb")
    index = policy.index(policy.params, 100, make_statistics(np.array([4, 1, 9])), 0, 0.5)
    expected = 0.5 + math.sqrt(2 * 2 * math.log(100 * math.log(100) / 10) / 4)
    assert index == pytest.approx(expected, rel=1e-14)


def test_the_logarithm_is_at_least_one():
    policy = make_policy("ocucb")
    index = policy.index(policy.params, 3, make_statistics(np.array([40, 40])), 0, 0.0)
    assert index == pytest.approx(math.sqrt(2 * 2 / 40), rel=1e-14)


def test_the_logarithm_is_at_least_log_log_t():
    policy = make_policy("ocucb")
    index = policy.index(policy.params, 10**9, make_statistics(np.array([10**9] * 60)), 0, 0.0)
    expected = math.sqrt(4 * math.log(math.log(1e9)) / 1e9)
    assert index == pytest.approx(expected, rel=1e-12)


def test_a_tie_goes_to_the_lowest_arm():
    assert decide(make_policy("ocucb"), 3, (0, 1.0), (1, 1.0), (2, 1.0)) == (0, 1)


@pytest.mark.slow
def test_agrees_with_the_reference():
    assert_agrees(make_policy("ocucb"), reference.OCUCB, range(80), eta=ETAS, rho=RHOS)
    assert_agrees(
        make_policy("ocucb", ignore_looks=True),
        lambda n_arms, **grid: reference.OCUCB(n_arms, ignore_looks=True, **grid),
        range(40),
        eta=ETAS,
        rho=RHOS,
    )


# ------------------------------------------------------------------------------ incremental sums

IS_PLAIN_PYTHON = bool(numba.config.DISABLE_JIT)
COUNTS = st.lists(
    st.integers(1, 9) | st.integers(1, 10**12), min_size=MIN_ARMS_WITH_SUMS, max_size=40
)


def make_statistics_from_counts(policy, params, counts):
    """Return the statistics of a policy after the given numbers of pulls."""
    state = policy.init(params, len(counts))
    for arm, n in enumerate(counts):
        state = policy.update(params, state, 1, arm, int(n), 0.0, False)
    return state.statistics


@settings(max_examples=150, deadline=None)
@given(COUNTS, st.sampled_from(RHOS), st.data())
def test_incremental_sums_equal_the_formula(counts, rho, data):
    policy = make_policy("ocucb")
    params = policy.params._replace(rho=rho)
    incremental = make_statistics_from_counts(policy, params, counts)
    assert incremental.derived.size > 0
    summed_statistics = make_statistics(np.array(counts))
    stage = sum(counts) * data.draw(st.sampled_from([1, 30]))
    for arm in range(len(counts)):
        index = policy.index(params, stage, incremental, arm, 0.0)
        assert index == pytest.approx(policy.index(params, stage, summed_statistics, arm, 0.0), 1e-13)
        expected = reference.ocucb_index(stage, arm, counts, 0.0, params.eta, rho)
        assert index == pytest.approx(expected, rel=1e-13)
    # The engine also evaluates the index of an arm at hypothetical counts, larger or smaller.
    arm, hypothetical_count = (
        data.draw(st.integers(0, len(counts) - 1)),
        data.draw(st.integers(1, 10**6)),
    )
    incremental.n_observed[arm] = counts[arm] = hypothetical_count
    expected = reference.ocucb_index(stage, arm, counts, 0.0, params.eta, rho)
    assert policy.index(params, stage, incremental, arm, 0.0) == pytest.approx(expected, rel=1e-13)


@settings(max_examples=100, deadline=None)
@given(COUNTS, st.sampled_from(RHOS), st.randoms(use_true_random=False))
def test_incremental_sums_do_not_depend_on_the_order(counts, rho, random):
    """The sums must be equal bit for bit, because agents and simulations add in different orders."""
    policy = make_policy("ocucb")
    params = policy.params._replace(rho=rho)
    updates = [
        (arm, n)
        for arm, total_count in enumerate(counts)
        for n in (total_count // 3, total_count - total_count // 3)
    ]
    random.shuffle(updates)
    state = policy.init(params, len(counts))
    for arm, n in updates:
        state = policy.update(params, state, 1, arm, n, 0.0, bool(random.getrandbits(1)))
    np.testing.assert_array_equal(state.statistics.n_observed, counts)
    expected = make_statistics_from_counts(policy, params, counts)
    np.testing.assert_array_equal(state.statistics.derived, expected.derived)


@pytest.mark.parametrize(
    ("n_arms", "kind", "rhos", "ignore_looks"),
    [
        (MIN_ARMS_WITH_SUMS, "gaussian", RHOS, False),
        (MIN_ARMS_WITH_SUMS, "bernoulli", RHOS, True),
        (50, "bernoulli", RHOS, False),
        (110, "gaussian", [0.5], False),
    ],
)
def test_many_arms_agree_with_the_reference(n_arms, kind, rhos, ignore_looks):
    policy = make_policy("ocucb", ignore_looks=ignore_looks)
    for seed, rho in enumerate(rhos):
        oracle = reference.OCUCB(n_arms, rho=rho, ignore_looks=ignore_looks)
        params = policy.params._replace(rho=rho)
        setting = {"n_arms": n_arms, "kind": kind, "follows_policy": True, "n_stages": n_arms + 60}
        assert find_disagreement(policy, params, oracle, seed, **setting) is None, f"rho {rho}"


@pytest.mark.slow
@pytest.mark.parametrize("leap", [False, True])
def test_simulations_are_the_same_without_incremental_sums(leap):
    """Runs with and without incremental sums are equal, with and without leaps."""
    policy = ocucb()
    policy_without_sums = replace(policy, init=init_without_rows)
    n_arms = 20 if IS_PLAIN_PYTHON else 60
    problems = [gaussian([2.0, *np.linspace(1, 0, n_arms - 1)]), bernoulli([0.9] + [0.5] * n_arms)]
    for problem in problems:
        for feedback in (bandit(), passive(0.1), active(0.1)):
            setting = {
                "horizon": 500 if IS_PLAIN_PYTHON else 30_000,
                "runs": 1 if IS_PLAIN_PYTHON else 2,
                "leap": leap,
            }
            for incremental_values, plain_values in zip(
                play_runs(policy, problem, feedback, **setting),
                play_runs(policy_without_sums, problem, feedback, **setting),
                strict=True,
            ):
                np.testing.assert_array_equal(incremental_values, plain_values)


def test_stores_its_parameters():
    assert ocucb(3, 0.7).params._asdict() == {"eta": 3.0, "rho": 0.7}
    assert ocucb().params._asdict() == {"eta": 2.0, "rho": 0.5}


@pytest.mark.parametrize("bad", [1, 0.0, -1.0, math.inf, math.nan])
def test_rejects_a_bad_eta(bad):
    with pytest.raises(ValueError, match=f"^eta must be above 1 and finite, got {bad!r}$"):
        ocucb(eta=bad)


@pytest.mark.parametrize("bad", [0.49, 1.01, -1.0, math.inf, math.nan])
def test_rejects_a_bad_rho(bad):
    with pytest.raises(ValueError, match=rf"^rho must be in \[0.5, 1\], got {bad!r}$"):
        ocucb(rho=bad)
