"""Follow the leader agrees with small examples and with the reference."""

import reference
from histories import assert_agrees, decide, make_policy


def test_pulls_each_arm_once_in_order():
    ftl = make_policy("ftl")
    assert decide(ftl, 3)[0] == 0
    assert decide(ftl, 3, (0, 9.0))[0] == 1
    assert decide(ftl, 3, (0, 9.0), (1, 9.0))[0] == 2


def test_a_look_does_not_replace_the_first_pull():
    assert decide(make_policy("ftl"), 2, (0, 1.0), (1, -9.0, "look"))[0] == 1


def test_pulls_the_leader_of_all_observations():
    ftl = make_policy("ftl")
    assert decide(ftl, 2, (0, 1.0), (1, 0.5))[0] == 0
    assert decide(ftl, 2, (0, 1.0), (1, 0.5), (1, 2.5, "look"))[0] == 1


def test_a_tie_goes_to_the_lowest_arm():
    assert decide(make_policy("ftl"), 3, (0, 0.0), (1, 1.0), (2, 1.0)) == (1, 2)
    assert decide(make_policy("ftl"), 3, (0, 1.0), (1, 0.0), (2, 1.0)) == (0, 2)


def test_looks_at_the_runner_up():
    assert decide(make_policy("ftl"), 3, (0, 1.0), (1, 3.0), (2, 2.0)) == (1, 2)


def test_ftl_robin_looks_at_each_arm_in_turn():
    robin = make_policy("ftl_robin")
    assert decide(robin, 2, (0, 1.0))[1] == 0
    assert decide(robin, 2, (0, 1.0), (1, 1.0, "look"))[1] == 1
    assert decide(robin, 2, (0, 1.0), (1, 1.0, "look"), (1, 1.0, "look"))[1] == 0


def test_agree_with_the_reference():
    assert_agrees(make_policy("ftl"), reference.FTL, range(30))
    assert_agrees(make_policy("ftl_robin"), reference.FTLRobin, range(30))
