"""MOSS and MOSS-anytime agree with small examples, their formulas and the reference."""

import math

import numpy as np
import pytest
import reference
from histories import assert_agrees, decide, make_policy

from kibitz.policies import moss, moss_anytime


def test_an_arm_beyond_its_share_of_the_horizon_has_no_bonus():
    policy = make_policy("moss", horizon=100)
    assert policy.index(policy.params, 3, np.array([50, 1]), 0, 0.5) == 0.5
    assert policy.index(policy.params, 3, np.array([51, 1]), 0, 0.5) == 0.5
    assert policy.index(policy.params, 3, np.array([49, 1]), 0, 0.5) > 0.5


def test_the_index_is_that_of_moss():
    policy = make_policy("moss", horizon=100)
    index = policy.index(policy.params, 3, np.array([5, 1]), 0, 0.5)
    assert index == pytest.approx(0.5 + math.sqrt(4 * math.log(10) / 5), rel=1e-14)


def test_the_anytime_index_uses_the_stage_as_horizon():
    policy = make_policy("moss_anytime")
    index = policy.index(policy.params, 100, np.array([5, 1]), 0, 0.5)
    assert index == pytest.approx(0.5 + math.sqrt(4.7 * math.log(10) / 5), rel=1e-14)


def test_without_bonuses_it_follows_the_leader():
    assert decide(make_policy("moss_anytime"), 3, (0, 0.0), (1, 2.0), (2, 1.0)) == (1, 2)


def test_uses_the_horizon_of_the_simulation_by_default():
    assert moss().params_for(500).horizon == 500.0
    assert moss(horizon=200).params_for(500).horizon == 200.0


def test_agree_with_the_reference():
    explorations = [4.0, 1.0, 0.01, 50.0]
    horizons = [1.0, 2.0, 30.0, 100.0, 1e4, 1e12]
    assert_agrees(
        make_policy("moss"), reference.MOSS, range(60), exploration=explorations, horizon=horizons
    )
    assert_agrees(
        make_policy("moss_anytime"), reference.MOSSAnytime, range(60), exploration=explorations
    )


def test_store_their_parameters():
    assert moss(2, horizon=10).params._asdict() == {"exploration": 2.0, "horizon": 10.0}
    assert moss().params.exploration == 4.0
    assert moss_anytime(2).params == (2.0,)
    assert moss_anytime().params == (4.7,)


@pytest.mark.parametrize("make", [moss, moss_anytime])
@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan])
def test_reject_a_bad_exploration(make, bad):
    with pytest.raises(ValueError, match=f"^exploration must be positive and finite, got {bad!r}$"):
        make(bad)


@pytest.mark.parametrize("bad", [0, -5, math.inf, math.nan])
def test_rejects_a_bad_horizon(bad):
    with pytest.raises(ValueError, match=f"^horizon must be at least 1 and finite, got {bad!r}$"):
        moss(horizon=bad)
