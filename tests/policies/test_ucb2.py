"""UCB2 agrees with small examples, its definition and the reference."""

import math
import re

import pytest
import reference
from histories import assert_agrees, decide, make_policy

from kibitz.policies import ucb2
from kibitz.policies.ucb2 import find_level, tau

DOUBLING_PARAMS = make_policy("ucb2").params._replace(alpha=1.0)  # tau = 1, 2, 4, 8, ...


def test_levels_begin_at_powers():
    assert [tau(1.0, level) for level in range(5)] == [1, 2, 4, 8, 16]
    assert [tau(0.5, level) for level in range(6)] == [1, 2, 3, 4, 6, 8]


@pytest.mark.parametrize("alpha", [0.001, 0.1, 0.5, 1.0, 3.0])
def test_the_level_is_the_largest_that_begins_at_or_below_the_count(alpha):
    for count in [*range(1, 200), 10**4, 10**6]:
        level = find_level(alpha, count)
        assert tau(alpha, level) <= count < tau(alpha, level + 1)


@pytest.mark.parametrize("alpha", [0.001, 0.1, 0.5, 1.0, 3.0])
def test_levels_agree_with_the_reference(alpha):
    for count in range(1, 200):
        level = find_level(alpha, count)
        bounds = tau(alpha, level), tau(alpha, level + 1)
        assert bounds == reference.level_bounds(alpha, count)


def test_pulls_an_arm_to_the_end_of_its_burst():
    history = [(0, 9.0), (1, 0.0), (0, 9.0)]  # arm 0 has tau(1) = 2 observations; no burst
    assert decide(make_policy("ucb2"), 2, *history, params=DOUBLING_PARAMS)[0] == 0
    history += [(0, -99.0)]  # a new burst, up to tau(2) = 4 observations
    assert decide(make_policy("ucb2"), 2, *history, params=DOUBLING_PARAMS)[0] == 0
    history += [(0, -99.0)]
    assert decide(make_policy("ucb2"), 2, *history, params=DOUBLING_PARAMS)[0] == 1


def test_a_look_shortens_a_burst():
    history = [(0, 9.0), (1, 0.0), (0, 9.0), (0, -99.0), (0, -99.0, "look")]
    assert decide(make_policy("ucb2"), 2, *history, params=DOUBLING_PARAMS)[0] == 1


def test_a_first_pull_does_not_begin_a_burst():
    assert decide(make_policy("ucb2"), 2, (0, -9.0), (1, 9.0), params=DOUBLING_PARAMS)[0] == 1


def test_never_looks_at_the_pulled_arm():
    assert decide(make_policy("ucb2"), 3, (0, 9.0), (1, 1.0), (2, 2.0), params=DOUBLING_PARAMS) == (
        0,
        2,
    )
    burst_history = (0, 9.0), (1, 1.0), (2, 2.0), (0, 9.0), (0, -99.0)
    assert decide(make_policy("ucb2"), 3, *burst_history, params=DOUBLING_PARAMS) == (0, 2)


def test_agrees_with_the_reference():
    assert_agrees(
        make_policy("ucb2"),
        reference.UCB2,
        range(80),
        alpha=[0.001, 0.1, 0.5, 1.0, 3.0],
        scale=[1.0, 0.5, 2.0**-7, 4.0],
    )


def test_stores_its_parameters():
    assert ucb2(2, 3).params._asdict() == {"alpha": 2.0}
    assert ucb2(2, 3).scale == 3.0
    assert ucb2().params._asdict() == {"alpha": 0.001}


@pytest.mark.parametrize("bad", [0, -1.0, 1e-300, 1e300, math.inf, math.nan])
def test_rejects_a_bad_alpha(bad):
    with pytest.raises(ValueError, match=re.escape(f"alpha must be in [1e-06, 1e+06], got {bad!r}")):
        ucb2(alpha=bad)


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan])
def test_rejects_a_bad_scale(bad):
    with pytest.raises(ValueError, match=f"^scale must be positive and finite, got {bad!r}$"):
        ucb2(scale=bad)


@pytest.mark.parametrize("alpha", [1e-6, 0.001, 1.0, 1e6])
def test_levels_are_found_for_any_count(alpha):
    for count in (1, 2, 1000, 10**9, 10**15, 2**61):
        level = find_level(alpha, count)
        assert tau(alpha, level) <= count < tau(alpha, level + 1)
