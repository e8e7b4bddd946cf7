"""Every policy chooses an arm in every combination of states of the arms."""

import itertools

import numpy as np
import pytest

import kibitz
from kibitz.live.agent import pending
from kibitz.live.events import Arm
from kibitz.policies import POLICIES

NOT_LIVE = {"scout", "sw_ucb", "d_ucb", "glr_ucb"}  # an agent has no graph for scout
LIVE_POLICIES = [name for name in POLICIES if name not in NOT_LIVE]
STATES = {
    "new": {},
    "pulled": {"n_asked": 3, "n_pulls": 3, "pull_sum": 1.0},
    "pull pending": {"n_asked": 1, "n_pending": 1},
    "pull lost": {"n_asked": 1, "n_forgotten": 1},
    "looked at": {"n_looks": 2, "look_sum": 2.0},
    "look pending": {"looks_pending": 1},
    "pulled, all pending": {
        "n_asked": 4, "n_pulls": 2, "pull_sum": 0.0, "n_pending": 2, "n_looks": 1, "looks_pending": 1,
    },
}  # fmt: skip


def make_policy(name):
    make = POLICIES[name]
    needs_horizon = make().constants.get("horizon") == 0
    return make(horizon=1000) if needs_horizon else make()


@pytest.mark.parametrize("silence", [None, 0.0])
@pytest.mark.parametrize("name", LIVE_POLICIES)
def test_a_policy_chooses_one_of_one_to_three_arms_in_any_state(name, silence):
    """The test skips policies with phases and lookout, which decides from its stored state."""
    policy = make_policy(name)
    if policy.in_phases or policy.revise is not None:
        assert name in {"etc", "etc_ocucb", "ucb2", "improved_ucb", "lookout"}
        return
    for n_arms in (1, 2, 3):
        for states in itertools.product(STATES, repeat=n_arms):
            arms = [Arm(state, **STATES[state]) for state in states]
            stage = 1 + sum(arm.n_asked for arm in arms)
            pulled = [k for k in range(n_arms) if arms[k].n_pending]
            common = (policy, policy.params, arms, stage, 1.0)
            rng = np.random.default_rng(1)
            choices = [pending.pull(*common, rng, silence)]
            for current in (None, *pulled[:1]):
                choices.append(pending.look(*common, rng, current, None, silence))
            assert set(choices) <= set(range(n_arms)), states


@pytest.mark.parametrize("silence", ["forget", 0.0])
@pytest.mark.parametrize("name", LIVE_POLICIES)
def test_an_agent_answers_while_arms_are_paused_pending_retired_and_new(memory, name, silence):
    """An ask or a look either returns an active arm or says that no arm is active."""
    policy = make_policy(name)
    agent = kibitz.agent(
        memory / "shop.db", "a", arms=["a", "b"], rewards="bounded", policy=policy, seed=1,
        patience=3600.0, silence=silence,
    )  # fmt: skip
    n_reports = 0

    def request():
        """Ask and look twice each; return the decisions."""
        active = {arm.name for arm in agent.arms() if arm.status == "active"}
        if policy.in_phases:
            for choose in (agent.ask, agent.look):
                decision = choose()
                assert decision.arm in active
                with pytest.raises(ValueError, match=r"needs the report of each (pull|look)"):
                    choose()
                agent.tell(decision.id, 1.0)
            return []
        if not active:
            for choose in (agent.ask, agent.look):
                with pytest.raises(ValueError, match="no active arms; add or resume one"):
                    choose()
            return []
        decisions = [choose() for choose in (agent.ask, agent.look) * 2]
        assert {decision.arm for decision in decisions} <= active
        return decisions

    with agent:
        changes = [
            ("pause", "a"), ("resume", "a"), ("add", "c"), ("pause", "b"), ("pause", "a"),
            ("pause", "c"), ("resume", "b"), ("add", "d"), ("retire", "b"), ("resume", "c"),
            ("retire", "d"), ("retire", "c"), ("retire", "a"), ("add", "e"), ("add", "f"),
        ]  # fmt: skip
        request()
        for step, (change, arm) in enumerate(changes):
            if policy.in_phases:
                with pytest.raises(ValueError, match="does not support changes of arms"):
                    getattr(agent, change)(arm)
            else:
                getattr(agent, change)(arm)
            decisions = request()
            if step % 3 == 2:  # all other decisions stay pending
                for decision in decisions:
                    agent.tell(decision.id, 0.5)
                    n_reports += 1
        assert n_reports or policy.in_phases
        agent.report()
        agent.verdict()
        assert agent.check() == []


@pytest.mark.parametrize("silence", ["forget", 0.0])
@pytest.mark.parametrize("name", LIVE_POLICIES)
def test_a_check_is_clean_before_the_first_reward(memory, name, silence):
    """A backup is kept only if its check is clean, so the check must work without rewards."""
    policy = make_policy(name)
    agent = kibitz.agent(
        memory / "shop.db", "a", arms=["a", "b"], rewards="bounded", policy=policy, seed=1,
        patience=3600.0, silence=silence,
    )  # fmt: skip
    with agent:
        decisions = [agent.ask(), agent.look()]
        assert agent.check() == []
        if not policy.in_phases:
            agent.add("c")
            assert agent.check() == []
        for decision in decisions:
            agent.forget(decision.id)
            assert agent.check() == []
        agent.compact(2**40)
        assert agent.check() == []
        agent.tell(agent.ask().id, 1.0)
        assert agent.check() == []
