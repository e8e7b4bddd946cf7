"""Settled counts: an agent that counts silence as a reward reports decisions that cannot change.

Clicks are reported at once; a missing click is known only when the patience ends. Counting each
decision when its reward becomes known counts the clicks of recent decisions but not their missing
clicks. Settled counts wait for both.
"""

import math

import numpy as np
import pytest

import kibitz
from kibitz.live.agent import pending
from kibitz.live.store import queries

pytestmark = pytest.mark.slow

START_TIME = 2e9
CLICKS = {"rewards": "bernoulli", "patience": 10.0, "silence": 0.0, "seed": 1}


def create_agent(url, name="clicks", **arguments):
    """Return an agent and its clock, a list of one number; assign `clock[0]` to set the time."""
    agent = kibitz.agent(url, name, **{"arms": ["blue", "green"], **CLICKS, **arguments})
    clock = [START_TIME]
    agent.now = lambda: clock[0]
    return agent, clock


def sum_settled_counts(agent):
    """Return the settled counts of all arms together."""
    arms = agent.arms()
    names = ("n_settled", "settled_sum", "settled_squares", "n_unsettled", "n_late")
    return tuple(sum(getattr(arm, name) for arm in arms) for name in names)


def test_a_decision_settles_when_it_is_older_than_the_patience(url):
    agent, clock = create_agent(url)
    with agent:
        visits = agent.ask(n=3)
        agent.tell(visits[0].id, True)
        assert sum_settled_counts(agent) == (0, 0.0, 0.0, 3, 0)
        clock[0] = START_TIME + 9.9
        assert sum_settled_counts(agent) == (0, 0.0, 0.0, 3, 0)
        clock[0] = START_TIME + 10
        assert sum_settled_counts(agent) == (3, 1.0, 1.0, 0, 0)  # a report does not need a write
        assert agent.check() == []
        agent.ask()
        assert sum_settled_counts(agent) == (3, 1.0, 1.0, 1, 0)
        assert agent.check() == []


def test_a_report_after_the_settlement_is_late_and_a_correction_is_counted(url):
    agent, clock = create_agent(url)
    with agent:
        for _ in range(3):
            agent.ask()
        clock[0] += 20
        assert agent.tell(1, True) == "counted"  # no ask has noticed the silence yet
        assert sum_settled_counts(agent) == (3, 0.0, 0.0, 0, 1)
        agent.ask()
        assert agent.tell(2, True) == "counted"
        assert sum_settled_counts(agent) == (3, 0.0, 0.0, 1, 2)
        assert sum(arm.pull_sum for arm in agent.arms()) == 2.0  # the policy sees late clicks
        assert agent.correct(3, 1.0) == "corrected"
        assert sum_settled_counts(agent) == (3, 1.0, 1.0, 1, 2)
        assert agent.correct(3, 0.0) == "corrected"
        assert sum_settled_counts(agent) == (3, 0.0, 0.0, 1, 2)
        assert agent.tell(2, True) == "duplicate"
        assert sum_settled_counts(agent) == (3, 0.0, 0.0, 1, 2)
        assert agent.check() == []


def test_a_correction_before_the_settlement_settles_the_corrected_value(url):
    agent, clock = create_agent(url, rewards="bounded", silence=0.25)
    with agent:
        for _ in range(3):
            agent.ask()
        agent.tell(1, 1.0)
        agent.correct(1, 0.5)
        agent.forget(2)
        clock[0] += 10
        assert sum_settled_counts(agent) == (
            2,
            0.75,
            0.3125,
            0,
            0,
        )  # a forgotten decision has no reward
        agent.observe("blue", 1.0)
        assert sum_settled_counts(agent) == (
            2,
            0.75,
            0.3125,
            1,
            0,
        )  # observations settle in order, too
        agent.tell(2, 1.0)
        agent.correct(2, 0.0)
        assert sum_settled_counts(agent) == (2, 0.75, 0.3125, 1, 1)
        clock[0] += 10
        assert sum_settled_counts(agent) == (3, 1.75, 1.3125, 0, 1)
        assert agent.check() == []


def test_without_silence_every_report_is_settled_at_once(url):
    agent, clock = create_agent(url, silence="forget")
    with agent:
        visits = agent.ask(n=4)
        agent.tell(visits[0].id, True)
        agent.tell(agent.look().id, True)
        agent.observe("green", 0.0)
        clock[0] += 20
        agent.ask()
        agent.tell(visits[1].id, True)  # forgotten before the report
        agent.correct(visits[0].id, 0.0)
        assert sum_settled_counts(agent) == (4, 2.0, 2.0, 0, 0)
        assert agent.check() == []


def test_an_operation_without_events_settles_nothing_in_the_store(url):
    """The stored counts follow from the log, so an answer to a duplicate does not change them."""
    agent, clock = create_agent(url)
    with agent:
        visit = agent.ask(key="visit-1")
        agent.tell(visit.id, True)
        clock[0] += 20
        for _ in range(2):
            assert agent.tell(visit.id, True) == "duplicate"
            assert sum_settled_counts(agent) == (1, 1.0, 1.0, 0, 0)
            row = agent.store.read(lambda db: queries.read_agent(db, "clicks"))
            assert row.n_settled == 0
            assert agent.check() == []
        agent.ask()
        row = agent.store.read(lambda db: queries.read_agent(db, "clicks"))
        assert row.n_settled == 1
        assert sum_settled_counts(agent) == (1, 1.0, 1.0, 1, 0)
        assert agent.check() == []


def test_a_patience_below_the_resolution_of_the_clock_keeps_the_counts_exact(url):
    agent, clock = create_agent(url, patience=1e-9)
    with agent:
        for _ in range(3):
            agent.tell([(visit.id, True) for visit in agent.ask(n=2)])
            assert agent.check() == []
            clock[0] += 1
        assert sum_settled_counts(agent) == (6, 6.0, 6.0, 0, 0)


def test_a_check_finds_wrong_settled_counts(memory):
    agent, clock = create_agent(memory / "shop.db")
    with agent:
        agent.tell(agent.ask().id, True)
        clock[0] += 10
        agent.ask()
        for change, sentence in [
            ("update arms set n_settled = n_settled + 1 where arm = 0", "arm 'blue': n_settled is"),
            ("update arms set settled_sum = 7 where arm = 0", "arm 'blue': settled_sum is 7.0"),
            ("update decisions set settled_reward = 0 where id = 1", "decision 1: settled_reward"),
            ("update agents set n_settled = 2", "number of settled decisions is 2; the log gives 1"),
            ("update agents set rewards = 'bounded'", "declared rewards is 'bounded'; the log"),
        ]:

            def work(database, change=change):
                database.execute(change)
                raise RuntimeError(check_agent(database))

            def check_agent(database):
                from kibitz.live.events import project
                from kibitz.live.store import audit

                row = queries.read_agent(database, "clicks")
                log = queries.read_log(database, row.number)
                return audit.compare(database, row, project(log, 10.0, 0.0), row.state)

            with pytest.raises(RuntimeError) as error_info:  # the error rolls the change back
                agent.store.write(work)
            assert sentence in " ".join(error_info.value.args[0])
        assert agent.check() == []


def test_an_ask_reads_few_of_many_unsettled_decisions(memory):
    """The number of decisions that an ask reads does not grow with the unsettled decisions."""
    agent, clock = create_agent(memory / "shop.db", patience=1000.0)
    with agent:
        for _ in range(2000):
            clock[0] += 1
            agent.ask()
        clock[0] += 1

        def count_rows(database):
            row = queries.read_agent(database, "clicks")
            now, read_counts = clock[0], []
            select = queries._select_decisions

            def count_selected_rows(*arguments):
                rows = select(*arguments)
                read_counts.append(len(rows))
                return rows

            queries._select_decisions = count_selected_rows
            try:
                settled_rows = list(
                    queries.read_unsettled(database, row.number, row.n_settled, now, 1000.0)
                )
                overdue_rows = list(queries.read_overdue(database, row.number, now - 1000.0))
            finally:
                queries._select_decisions = select
            return len(settled_rows), len(overdue_rows), sum(read_counts)

        assert agent.store.read(count_rows) == (1, 1, 8)
        plans = agent.store.read(
            lambda db: [
                db.execute(
                    f"explain query plan select id from decisions where agent = 1 and {condition}"
                )
                for condition in (
                    "id > 5 order by id limit 4",
                    "id > 5 and status = 'pending' order by id limit 4",
                )
            ]
        )
        for plan in plans:
            assert all("SEARCH" in plan_step[3] and "INDEX" in plan_step[3] for plan_step in plan), (
                plan
            )
            assert not any("TEMP B-TREE" in plan_step[3] for plan_step in plan), plan


# ------------------------------------------------------------------- the bias of known rewards


def compute_ratios(memory, seed):
    """Return two lists with one entry per arm: a ratio, and whether the settled counts are exact.

    The ratio is the mean of the known rewards divided by the clicks per ask. Both arms have a click
    rate of 5 %; there are 3000 asks, the patience is 600, and clicks are reported at once. The
    policy is UCB with scale 1/2. Settled counts are exact if they count the asks and clicks of all
    decisions older than the patience.
    """
    agent, clock = create_agent(memory / f"{seed}.db", policy=kibitz.ucb(2.0), patience=600.0)
    rng = np.random.default_rng(seed)
    clicks = {"blue": [], "green": []}
    with agent:
        for stage in range(3000):
            clock[0] = START_TIME + stage
            visit = agent.ask()
            clicks[visit.arm].append((stage, rng.random() < 0.05))
            if clicks[visit.arm][-1][1]:
                agent.tell(visit.id, True)
        arms = agent.arms()
    known_ratios, is_exact = [], []
    for arm in arms:
        arm_clicks = clicks[arm.name]
        known_ratios.append(arm.mean / np.mean([click for _, click in arm_clicks]))
        settled_clicks = [click for stage, click in arm_clicks if stage <= 2999 - 600]
        is_exact.append(
            (arm.n_settled, arm.settled_sum) == (len(settled_clicks), sum(settled_clicks))
        )
    return known_ratios, is_exact


def test_settled_counts_do_not_overstate_the_rate_of_an_arm_with_pending_decisions(
    memory, monkeypatch
):
    """Each settled mean equals the clicks per ask; the mean of known rewards is too large.

    The mean of known rewards counts recent clicks but not recent missing clicks. Earlier versions
    reported this mean and gave it to the policy. The pulled arm looked better than it was, so it was
    pulled more. With seeds 0, 1 and 2, its known mean was 1.58, 1.47 and 1.59 times its clicks per
    ask. With the present rule for pending decisions, known means are 1.18 to 1.28 times too large.
    The settled means are exact with both rules.
    """
    original_pull = pending.pull
    with monkeypatch.context() as patch:
        patch.setattr(
            pending, "pull", lambda *arguments: original_pull(*arguments[:6])
        )  # without silence
        known_ratios, is_exact = compute_ratios(memory, 1)
        assert max(known_ratios) == pytest.approx(1.4747, abs=1e-4)
        assert min(known_ratios) == 1.0  # the arm that rests has no pending decisions
        assert all(is_exact)
    (memory / "1.db").unlink()
    known_ratios, is_exact = compute_ratios(memory, 1)
    assert known_ratios == pytest.approx([1.1764, 1.2836], abs=1e-4)
    assert all(is_exact)


def test_intervals_of_settled_counts_cover_when_delays_depend_on_clicks(memory):
    """With settled counts, the probability that any interval of a run fails is at most delta.

    One arm is pulled in every stage and clicks with probability 0.05; clicks are told at once, and
    the patience is 1/5 of the stages. The intervals for Bernoulli rewards come from the
    Krichevsky-Trofimov mixture (Robbins, 1970) and are checked at every tenth stage. With known
    rewards, they fail in nearly every run. With settled counts, they fail in at most a share
    delta = 0.1 of all runs. If the true probability is 0.1, then 22 or more failures of 100 have
    probability 0.0003.
    """
    from scipy.special import betaln

    horizon, patience, rate, delta, runs = 10_000, 2_000, 0.05, 0.1, 100
    rng = np.random.default_rng(7)
    clicks = rng.random((runs, horizon)) < rate
    click_sums = np.concatenate([np.zeros((runs, 1)), clicks.cumsum(axis=1)], axis=1)

    def is_excluded(n, s):
        """Return whether the mixture martingale of n rewards with sum s exceeds 1 / delta."""
        log_mixture = betaln(0.5 + s, 0.5 + n - s) - betaln(0.5, 0.5)
        return log_mixture - s * math.log(rate) - (n - s) * math.log1p(-rate) >= math.log(1 / delta)

    has_failed_known, has_failed_settled = np.zeros(runs, bool), np.zeros(runs, bool)
    for stage in range(patience + 10, horizon + 1, 10):
        n_settled = stage - patience
        has_failed_known |= is_excluded(
            n_settled + click_sums[:, stage] - click_sums[:, n_settled], click_sums[:, stage]
        )
        has_failed_settled |= is_excluded(n_settled, click_sums[:, n_settled])
    assert has_failed_known.sum() >= 95
    assert has_failed_settled.sum() < 22


# ---------------------------------------------------------------------------- declared rewards


def test_a_declaration_is_an_event_that_limits_later_rewards(url):
    agent, _ = create_agent(url, rewards="gaussian", scale=0.5, policy=kibitz.ucb(2.0))
    with agent, kibitz.agent(url, "clicks") as other_agent:
        other_agent.now = agent.now
        agent.tell(agent.ask().id, 1.0)
        unit_before = agent.config.unit
        assert agent.declare_rewards("bernoulli") == "declared"
        assert agent.declare_rewards("bernoulli") == "duplicate"
        event = list(agent.events())[-1]
        assert event[2:] == ("declared_bernoulli", *[None] * 7)
        assert agent.policy == kibitz.ucb(2.0)
        assert agent.config.unit == unit_before
        assert agent.report().attrs["rewards"] == "bernoulli"
        for opened_agent in (agent, other_agent):  # the other process learns of it from the store
            with pytest.raises(ValueError, match="reward must be 0 or 1 for an agent with bernoulli"):
                opened_agent.tell(opened_agent.ask().id, 0.5)
        assert other_agent.report().attrs["rewards"] == "bernoulli"
        with pytest.raises(ValueError, match="has bernoulli rewards, which cannot be declared bound"):
            agent.declare_rewards("bounded")
        with pytest.raises(ValueError, match="rewards must be 'bernoulli' or 'bounded', got"):
            agent.declare_rewards("gaussian")
        assert agent.check() == other_agent.check() == []
    shared_arguments = {
        "arms": ["blue", "green"],
        "policy": kibitz.ucb(2.0),
        "patience": 10.0,
        "silence": 0.0,
    }
    for arguments in ({"rewards": "bernoulli"}, {"rewards": "gaussian", "scale": 0.5}):
        with kibitz.agent(url, "clicks", **shared_arguments, **arguments) as agent:
            assert agent.config.rewards == "bernoulli"
            assert agent.config.scale == 0.5


def test_a_declaration_that_a_reward_contradicts_is_rejected(url):
    agent, _ = create_agent(url, rewards="gaussian", scale=0.5, silence="forget")
    with agent:
        id = agent.ask().id
        agent.tell(id, 0.5)
        sentence = (
            r"rewards of agent 'clicks' are not bernoulli: decision 1 has reward 0\.5; correct it"
        )
        with pytest.raises(ValueError, match=sentence):
            agent.declare_rewards("bernoulli")
        with pytest.raises(ValueError, match=sentence):  # all or nothing
            agent.batch([("ask", (None, None, None)), ("declare", ("bernoulli",))])
        assert agent.config.rewards == "gaussian"
        agent.correct(id, 1.0)
        assert agent.declare_rewards("bernoulli") == "declared"
        assert agent.check() == []
    agent, _ = create_agent(url, "silent", rewards="gaussian", scale=0.5, silence=0.5)
    with agent, pytest.raises(ValueError, match="silence must be 0 or 1 for an agent with bernoulli"):
        agent.declare_rewards("bernoulli")
