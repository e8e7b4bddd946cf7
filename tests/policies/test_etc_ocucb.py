"""ETC-OCUCB and its variants agree with small examples and with the reference."""

import math

import numpy as np
import pytest
import reference
from histories import assert_agrees, decide, find_disagreement, make_policy, replay

from kibitz.policies import etc_ocucb
from kibitz.policies.etc_ocucb import epoch_length, log_etc_horizon
from kibitz.policies.ocucb import MIN_ARMS_WITH_SUMS, ocucb_statistics, update_derived

POLICY = make_policy("etc_ocucb")


def state_after(*observations, n_arms=2, **params):
    return replay(POLICY, POLICY.params._replace(**params), n_arms, *observations)[0]


def test_epochs_of_algorithm_2_last_2_4_16_256_stages():
    assert [epoch_length(2.0, m) for m in range(5)] == [2, 4, 16, 256, 65536]


def test_epochs_last_powers_of_powers():
    assert [epoch_length(3.0, m) for m in range(3)] == [3, 27, 3**9]
    assert [epoch_length(1.5, m) for m in range(4)] == [math.ceil(1.5 ** (1.5**m)) for m in range(4)]


def test_a_huge_epoch_exceeds_any_horizon():
    assert epoch_length(2.0, 7) == 2**62
    assert epoch_length(1e200, 0) == 2**62


@pytest.mark.parametrize("m", range(5))
def test_the_horizon_of_etc_is_the_papers_for_p_2(m):
    d = 2 ** (2 ** (m + 1))
    assert log_etc_horizon(2.0, m) == pytest.approx(math.log(d**1.5 * math.log(d)), rel=1e-12)


def test_looks_go_in_turn_to_the_remaining_arms():
    history = [(0, 0.0), (1, 0.0, "look")]
    assert decide(POLICY, 3, (0, 0.0))[1] == 0
    assert decide(POLICY, 3, *history)[1] == 2
    assert decide(POLICY, 3, *history, (2, 0.0, "look"))[1] == 0


# After one look at each arm in epoch 0, the squared width is 2 log(4^1.5 log 4) = 4.8124, so an arm
# is dropped if its mean is at least 4.39 below another mean.


def test_eliminates_arms_after_c_looks_per_remaining_arm():
    history = (0, 0.0), (0, 4.40, "look"), (1, 0.0, "look")
    assert state_after(*history, C=1.0).in_play.tolist() == [True, False]
    assert state_after(*history, C=1.01).in_play.tolist() == [True, True]


def test_drops_an_arm_that_is_clearly_worse():
    history = (0, 0.0), (0, 4.38, "look"), (1, 0.0, "look")
    assert state_after(*history, C=1.0).in_play.tolist() == [True, True]


def test_with_doubling_eliminates_arms_at_powers_of_two_before_the_look():
    looks = (0, 4.40, "look"), (1, 0.0, "look")
    history_at_stage_3 = ((0, 0.0), (0, 0.0), (0, 0.0), *looks)  # the looks are at stage 3
    assert state_after(*history_at_stage_3, doubling=True, p=9.0).in_play.tolist() == [True, True]
    # With p = 9 the bounds of epoch 0 are wide. A difference of 99 is wider, so the arm remains only
    # because there is no test at this stage.
    history_with_wide_difference = ((0, 0.0), (0, 0.0), (0, 0.0), (0, 99.0, "look"), (1, 0.0, "look"))
    assert state_after(*history_with_wide_difference, doubling=True, p=9.0).in_play.tolist() == [
        True,
        True,
    ]
    assert state_after(
        *history_with_wide_difference, (0, 0.0), doubling=True, p=9.0
    ).in_play.tolist() == [True, False]
    same_stage = ((0, 0.0), (0, 99.0, "look"), (1, 0.0, "look"))
    assert state_after(*same_stage, doubling=True, p=9.0).in_play.tolist() == [True, True]


def test_the_arms_to_pull_change_at_the_end_of_an_epoch():
    history = ((0, 0.0), (0, 4.40, "look"), (1, 0.0, "look"))
    state_before = state_after(*history, C=1.0)
    assert state_before.allowed.tolist() == [True, True]
    state_afterwards = state_after(*history, (1, 0.0), C=1.0)
    assert state_afterwards.allowed.tolist() == [True, False]


def test_restart_keeps_only_the_arms_to_pull():
    history = ((0, 0.0), (0, 4.40, "look"), (1, 0.0, "look"), (1, 0.0))
    state = state_after(*history, C=1.0, restart=True)
    assert state.allowed.tolist() == [True, False]
    assert state.in_play.tolist() == [True, True]
    for name in ("n_pulls", "n_observed", "sums"):
        assert not getattr(state.statistics, name).any(), name
    for name in ("etc_counts", "etc_sums"):
        assert not getattr(state, name).any(), name


def test_without_restart_statistics_of_remaining_arms_are_kept():
    history = ((0, 0.5), (0, 4.40, "look"), (1, 0.0, "look"), (1, 0.0))
    state = state_after(*history, C=1.0)
    assert state.in_play.tolist() == [True, False]
    assert state.statistics.n_pulls.tolist() == [1, 0]
    assert state.statistics.sums[0] == 0.5
    assert state.etc_counts.tolist() == [1, 1]


def test_subroutines_share_observations_only_with_all_info():
    history = (0, 1.0), (0, 2.0, "look")
    separate_state, shared_state = state_after(*history), state_after(*history, all_info=True)
    assert (separate_state.statistics.sums[0], separate_state.etc_sums[0]) == (1.0, 2.0)
    assert (shared_state.statistics.sums[0], shared_state.etc_sums[0]) == (3.0, 3.0)
    assert shared_state.statistics.n_pulls.tolist() == [1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("check", ["rounds", "doubling"])
@pytest.mark.parametrize("all_info", [False, True])
def test_agrees_with_the_reference(restart, check, all_info):
    flags = {"restart": restart, "all_info": all_info}
    base = 1000 * (4 * restart + 2 * (check == "doubling") + all_info)
    assert_agrees(
        make_policy("etc_ocucb", check=check),
        lambda n_arms, **grid: reference.ETCOCUCB(n_arms, check=check, **grid),
        range(base, base + 30),
        n_stages=150,
        p=[2.0, 1.2, 1.5, 3.0, 1.0001],
        C=[10.0, 1.0, 0.3, 2.5],
        alpha=[1.0, 0.05, 0.01, 0.3],
        rho=[0.5, 0.8, 1.0],
        eta=[2.0, 1.1],
        **{name: [flag] for name, flag in flags.items()},
    )


def test_the_reference_histories_drop_arms():
    oracle = reference.ETCOCUCB(3, alpha=0.1, C=1.0)
    rng = np.random.default_rng(0)
    for stage in range(1, 100):
        arm, look = oracle.pull(stage), oracle.look(stage)
        oracle.update(stage, arm, rng.normal(arm), False)
        oracle.update(stage, look, rng.normal(look), True)
    assert oracle.allowed_arms == {2}
    assert oracle.epoch == 3


def test_stores_its_parameters():
    policy = etc_ocucb(3, 4, 5, 0.6, 7, restart=True, check="doubling", all_info=True)
    assert policy.params._asdict() == {
        "p": 3.0, "C": 4.0, "alpha": 5.0, "rho": 0.6, "eta": 7.0,
        "restart": True, "all_info": True, "doubling": True,
    }  # fmt: skip
    assert etc_ocucb().params._asdict() == {
        "p": 2.0, "C": 10.0, "alpha": 1.0, "rho": 0.5, "eta": 2.0,
        "restart": False, "all_info": False, "doubling": False,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["C", "alpha"])
@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan])
def test_rejects_a_parameter_that_is_not_positive(name, bad):
    with pytest.raises(ValueError, match=f"^{name} must be positive and finite, got {bad!r}$"):
        etc_ocucb(**{name: bad})


@pytest.mark.parametrize("name", ["p", "eta"])
@pytest.mark.parametrize("bad", [1, 0.5, math.inf, math.nan])
def test_rejects_a_parameter_that_is_not_above_one(name, bad):
    with pytest.raises(ValueError, match=f"^{name} must be above 1 and finite, got {bad!r}$"):
        etc_ocucb(**{name: bad})


@pytest.mark.parametrize("bad", [0.49, 1.01, math.nan])
def test_rejects_a_bad_rho(bad):
    with pytest.raises(ValueError, match=rf"^rho must be in \[0.5, 1\], got {bad!r}$"):
        etc_ocucb(rho=bad)


@pytest.mark.parametrize("bad", ["stages", "", None])
def test_rejects_an_unknown_check(bad):
    with pytest.raises(ValueError, match=f"^check must be 'rounds' or 'doubling', got {bad!r}$"):
        etc_ocucb(check=bad)


def test_suggests_the_closest_check():
    with pytest.raises(ValueError, match=r"got 'round'; did you mean 'rounds'\?$"):
        etc_ocucb(check="round")


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("rho", [0.5, 0.8])
def test_many_arms_agree_with_the_reference_while_arms_are_dropped(rho, restart):
    """Incremental sums stay correct when arms are dropped or OCUCB-n restarts at a new epoch."""
    parameters = {"p": 1.2, "C": 0.5, "alpha": 0.02, "rho": rho, "restart": restart, "all_info": True}
    params = POLICY.params._replace(**parameters)
    n_remaining = []
    for seed in range(4):
        oracle = reference.ETCOCUCB(MIN_ARMS_WITH_SUMS + 4, **parameters)
        setting = {
            "n_arms": MIN_ARMS_WITH_SUMS + 4,
            "kind": "gaussian",
            "follows_policy": True,
            "n_stages": 150,
        }
        assert find_disagreement(POLICY, params, oracle, seed, **setting) is None
        n_remaining.append(len(oracle.allowed_arms))
    assert 1 <= min(n_remaining) < MIN_ARMS_WITH_SUMS  # some arms were dropped


def test_a_dropped_arm_is_removed_from_the_sums():
    rng = np.random.default_rng(3)
    params = POLICY.params
    incremental, expected = ocucb_statistics(MIN_ARMS_WITH_SUMS), ocucb_statistics(MIN_ARMS_WITH_SUMS)
    for arm, n in enumerate(rng.integers(1, 9, MIN_ARMS_WITH_SUMS)):
        for statistics, count in ((incremental, n), (expected, n if arm % 3 else 0)):
            statistics.n_observed[arm] = count
            update_derived(params, statistics, arm)
    for arm in rng.permutation(np.arange(0, MIN_ARMS_WITH_SUMS, 3)):
        incremental.n_observed[arm] = 0
        update_derived(params, incremental, arm)
    np.testing.assert_array_equal(incremental.derived, expected.derived)
