"""UCB and its variants agree with small examples, their formulas and the reference."""

import math

import numpy as np
import pytest
import reference
from histories import assert_agrees, decide, make_policy, replay

from kibitz.policies import ucb, ucb_double, ucb_second

EXPLORATIONS = [6.0, 2.0, 0.5, 1e-9, 1e3]


def test_pulls_each_arm_once_then_the_largest_index():
    assert [
        decide(make_policy("ucb"), 3, *[(a, 5.0 * a) for a in range(n)])[0] for n in range(3)
    ] == [0, 1, 2]
    assert decide(make_policy("ucb"), 3, (0, 0.0), (1, 5.0), (2, 0.0))[0] == 1


def test_a_look_narrows_the_bound_of_its_arm():
    equal_rewards = (0, 1.0), (1, 1.0)
    assert decide(make_policy("ucb"), 2, *equal_rewards)[0] == 0
    assert decide(make_policy("ucb"), 2, *equal_rewards, (0, 1.0, "look"))[0] == 1


def test_a_look_does_not_replace_the_first_pull():
    assert decide(make_policy("ucb"), 2, (0, 1.0), (1, -9.0, "look"))[0] == 1


def test_looks_at_the_runner_up():
    assert decide(make_policy("ucb_double"), 3, (0, 1.0), (1, 9.0), (2, 5.0)) == (1, 2)


def test_an_arm_never_pulled_is_the_runner_up():
    assert decide(make_policy("ucb_double"), 3, (0, 9.0)) == (1, 2)
    assert decide(make_policy("ucb_double"), 3, (0, 9.0), (1, 7.0)) == (2, 0)


def test_plain_ucb_ignores_looks():
    blind_policy = make_policy("ucb", ignore_looks=True)
    state_before = replay(blind_policy, blind_policy.params, 2, (0, 1.0), (1, 1.0))[0]
    state_after = replay(blind_policy, blind_policy.params, 2, (0, 1.0), (1, 1.0), (1, 99.0, "look"))[
        0
    ]
    for name in ("n_pulls", "n_observed", "sums"):
        value_before, value_after = (
            getattr(state.statistics, name) for state in (state_before, state_after)
        )
        np.testing.assert_array_equal(value_before, value_after)


@pytest.mark.parametrize(("stage", "count"), [(1, 1), (2, 1), (100, 7), (10**12, 10**6)])
def test_the_index_is_that_of_algorithm_1(stage, count):
    policy = make_policy("ucb")
    index = policy.index(policy.params, stage, np.array([3, count]), 1, 0.25)
    assert index == pytest.approx(0.25 + math.sqrt(6 * math.log(stage) / count), rel=1e-14)


def test_the_second_ucb_looks_first_at_arms_never_looked_at():
    pulls = (0, 9.0), (1, 0.0), (2, 0.0)
    assert decide(make_policy("ucb_second"), 3, *pulls) == (0, 1)
    assert decide(make_policy("ucb_second"), 3, *pulls, (1, 5.0, "look")) == (0, 2)


def test_the_second_ucb_never_looks_at_the_pulled_arm():
    history = (0, 9.0), (1, 0.0), (2, 0.0), (0, 9.0, "look"), (1, 1.0, "look"), (2, 2.0, "look")
    assert decide(make_policy("ucb_second"), 3, *history) == (0, 2)


def test_the_second_ucb_learns_from_looks_only():
    # Arm 1 is better by the pulls, arm 2 by the looks.
    history = (0, 99.0), (1, 50.0), (2, 0.0), (1, 0.0, "look"), (2, 1.0, "look")
    assert decide(make_policy("ucb_second"), 3, *history) == (0, 2)


def test_agree_with_the_reference():
    assert_agrees(make_policy("ucb"), reference.UCB, range(40), exploration=EXPLORATIONS)
    assert_agrees(make_policy("ucb_double"), reference.UCB, range(40, 60), exploration=EXPLORATIONS)
    assert_agrees(make_policy("ucb_second"), reference.UCBSecond, range(60), exploration=EXPLORATIONS)
    assert_agrees(
        make_policy("ucb", ignore_looks=True),
        lambda n_arms, **grid: reference.UCB(n_arms, ignore_looks=True, **grid),
        range(40),
        exploration=EXPLORATIONS,
    )


@pytest.mark.parametrize("make", [ucb, ucb_double, ucb_second])
def test_stores_its_parameter(make):
    assert make().params == (6.0,)
    assert make(exploration=3).params == (3.0,)
    assert make(3).parameters["exploration"] == 3.0


@pytest.mark.parametrize("make", [ucb, ucb_double, ucb_second])
@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan])
def test_rejects_a_bad_exploration(make, bad):
    with pytest.raises(ValueError, match=f"^exploration must be positive and finite, got {bad!r}$"):
        make(bad)
