"""Follow the leader, against small examples and the reference."""

import reference
from stories import agree, decisions, made


def test_pulls_each_arm_once_in_order():
    ftl = made("ftl")
    assert decisions(ftl, 3)[0] == 0
    assert decisions(ftl, 3, (0, 9.0))[0] == 1
    assert decisions(ftl, 3, (0, 9.0), (1, 9.0))[0] == 2


def test_a_look_does_not_replace_the_first_pull():
    assert decisions(made("ftl"), 2, (0, 1.0), (1, -9.0, "free"))[0] == 1


def test_then_pulls_the_leader_of_all_observations():
    ftl = made("ftl")
    assert decisions(ftl, 2, (0, 1.0), (1, 0.5))[0] == 0
    assert decisions(ftl, 2, (0, 1.0), (1, 0.5), (1, 2.5, "free"))[0] == 1


def test_a_tie_goes_to_the_lowest_arm():
    assert decisions(made("ftl"), 3, (0, 0.0), (1, 1.0), (2, 1.0)) == (1, 2)
    assert decisions(made("ftl"), 3, (0, 1.0), (1, 0.0), (2, 1.0)) == (0, 2)


def test_looks_at_the_runner_up():
    assert decisions(made("ftl"), 3, (0, 1.0), (1, 3.0), (2, 2.0)) == (1, 2)


def test_ftl_robin_looks_at_each_arm_in_turn_whatever_was_seen():
    robin = made("ftl_robin")
    assert decisions(robin, 2, (0, 1.0))[1] == 0
    assert decisions(robin, 2, (0, 1.0), (1, 1.0, "free"))[1] == 1
    assert decisions(robin, 2, (0, 1.0), (1, 1.0, "free"), (1, 1.0, "free"))[1] == 0


def test_agree_with_the_reference():
    agree(made("ftl"), reference.FTL, range(30))
    agree(made("ftl_robin"), reference.FTLRobin, range(30))
