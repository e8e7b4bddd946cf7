"""Tests of the exact sums of an agent, and of rewards that are implausibly large."""

import contextlib
import math
import random
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

import kibitz
from kibitz.live.agent import policy_state
from kibitz.live.events import Arm, DecisionRecord, expand
from kibitz.live.store import queries

FILES = Path(__file__).parent / "files"
SUMS = ("pull_sum", "look_sum", "squares", "settled_sum", "settled_squares")


def create_agent(url, **arguments):
    arguments = {"rewards": "gaussian", "scale": 0.5, "seed": 1, **arguments}
    return kibitz.agent(url, "checkout", arms=["blue", "green"], **arguments)


def test_a_corrected_typo_leaves_no_trace(url):
    """After a correction, the sums are the sums of the corrected rewards, rounded once."""
    with create_agent(url, policy=kibitz.ucb()) as agent:
        for _ in range(100):
            agent.observe("blue", 0.7)
        id = agent.ask(among=["blue"]).id
        agent.tell(id, 1e20, force=True)
        assert agent.check() == []
        agent.correct(id, 0.7)
        arm = agent.arms()[0]
        assert (arm.pull_sum, arm.look_sum) == (0.7, math.fsum([0.7] * 100))
        assert arm.squares == arm.settled_squares == math.fsum([0.7 * 0.7] * 101)
        assert arm.settled_sum == math.fsum([0.7] * 101)
        assert arm.mean == arm.settled_mean == math.fsum([0.7] * 101) / 101
        assert agent.check() == []


@pytest.mark.parametrize("typo", [1e20, -1e20, 1e100])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_corrected_typo_leaves_no_trace_in_the_monitor(memory, typo, is_first):
    """If the typo is corrected before its decision settles, it leaves no trace in the agent.

    If it is corrected later, the alarms stay, and the counts since the last change are exact.
    """
    reports = []
    for is_late in (False, True):
        with create_agent(memory / f"{is_late}.db", patience=10.0, alarms=0.1) as agent:
            clock = [4e9]
            agent.now = lambda clock=clock: clock[0]
            rewards = [typo, *[0.7] * 100] if is_first else [*[0.7] * 100, typo]
            agent.observe([("blue", reward, str(k)) for k, reward in enumerate(rewards)], force=True)
            id = 1 if is_first else 101
            for step in range(4):
                if step == is_late:
                    agent.correct(id, 0.7)
                clock[0] += 20
                agent.observe([("blue", 0.7, f"{step} {k}") for k in range(40)])
                assert agent.check() == []
            clock[0] += 20
            reports.append((agent.alarms(), agent.report(), is_late))
    for alarms, report, is_late in reports:
        last = 1 if not alarms else alarms[-1].since_id
        assert bool(alarms) == is_late
        assert int(report["n_settled"][0]) == 101 + 4 * 40 - last + 1
        assert float(report["mean"][0]) == pytest.approx(0.7, abs=1e-11)


def test_lookout_forgets_an_arm_whose_reward_was_corrected_by_many_scales(memory):
    """A typo raises a false alarm; the policy cannot subtract it exactly, so it forgets the arm."""
    for typo in (50.0, 1e20):
        with create_agent(memory / f"{typo}.db", policy=kibitz.lookout(), patience=10.0) as agent:
            rng = random.Random(1)
            for step in range(300):
                decision = agent.ask()
                agent.tell(decision.id, rng.gauss(float(decision.arm == "green"), 0.5))
                if step == 50:
                    agent.observe("green", typo, "typo", force=True)
                if step == 53:
                    id = next(event.id for event in agent.events() if event.key == "typo")
                    agent.correct(id, 1.0)
                    n_before = agent.arms()[1].n_pulls
            assert agent.arms()[1].n_pulls - n_before > 200
            assert agent.check() == []


def test_lookout_counts_corrected_reports_ahead_exactly(memory):
    """Reports after a pending decision are counted ahead; a correction of such a report is exact."""
    with create_agent(memory / "a.db", policy=kibitz.lookout(), patience=1e6) as agent:
        agent.ask()
        for _ in range(100):
            agent.observe("blue", 0.7)
        agent.observe("blue", 1e20, "typo", force=True)
        agent.correct(102, 0.7)
        row = agent.store.read(lambda db: queries.read_agent(db, "checkout"))
        state = policy_state.from_json(row.state, policy_state.init(agent.config, 2))
        assert state.looks_ahead.tolist() == [101, 0]
        counted_state = policy_state.count_ahead(agent.config, state)
        mean = counted_state.statistics.sums[0] / counted_state.statistics.n_observed[0]
        assert agent.config.unit * mean == pytest.approx(0.7)


@pytest.mark.parametrize("policy", [None, kibitz.ucb(), kibitz.lookout()], ids=repr)
@pytest.mark.parametrize("scale", [1e-50, 1.0, 1e50])
def test_an_agent_survives_rewards_of_any_size(memory, policy, scale):
    """Rewards of any size raise no error or warning, neither when they are reported nor later."""
    with create_agent(
        memory / "a.db", policy=policy, scale=scale, patience=10.0, silence=scale, alarms=0.1
    ) as agent:
        clock = [4e9]
        agent.now = lambda: clock[0]
        rewards = [scale, 1e100, -1e100, 5e-324, 1e20]
        agent.observe([("blue", x, str(x)) for x in rewards], force=True)
        for step in range(10):
            clock[0] += 7
            agent.look()
            id = agent.ask().id
            if step % 2:
                agent.tell(id, rewards[step // 2], force=True)
            if step > 5:
                agent.correct(step - 5, scale)
            kibitz.format_report(agent.report())
            assert agent.check() == []


def test_check_compares_sums_with_exact_arithmetic(url, monkeypatch):
    """The check finds rounded sums even if the replay rounds in the same way."""

    def replace(self, name, old, new):
        setattr(self, name, getattr(self, name) + (new - old))

    monkeypatch.setattr(Arm, "_replace", replace)
    with create_agent(url) as agent:
        for _ in range(10):
            agent.observe("blue", 0.1)
        sentence = "arm 'blue': look_sum is 0.9999999999999999; its rewards give 1.0"
        assert sentence in agent.check()


def test_sums_of_rewards_of_any_size_are_exact():
    """Sums agree with rational arithmetic after rewards from 1e-300 to 1e100 and corrections."""
    rng = random.Random(1)
    arm, records = Arm("blue"), []
    for _ in range(500):
        reward = rng.choice([-1, 1]) * 10 ** rng.uniform(*rng.choice([(-300, 100), (-2, 2)]))
        if records and rng.random() < 0.4:
            arm.apply(rng.choice(records), "corrected", reward, None)
        else:
            records.append(DecisionRecord(rng.choice(["pull", "look"]), 0, None, 0.0, 1))
            arm.apply(records[-1], "told", reward, None)
        exact = dict.fromkeys(SUMS, Fraction(0))
        for record in records:
            exact["pull_sum" if record.kind == "pull" else "look_sum"] += Fraction(record.reward)
            exact["settled_sum"] += Fraction(record.reward)
            exact["squares"] += Fraction(record.reward * record.reward)
            exact["settled_squares"] += Fraction(record.reward * record.reward)
        for name in SUMS:
            parts = [getattr(arm, name), *arm.remainders.get(name, ())]
            assert sum(map(Fraction, parts)) == exact[name]
            assert parts[0] == float(exact[name])
        exact_mean = (exact["pull_sum"] + exact["look_sum"]) / arm.n_observed
        assert arm.mean == pytest.approx(float(exact_mean), rel=1e-15)


def test_the_expansion_of_a_sum_does_not_depend_on_the_order_of_its_terms():
    """A replay may add the terms in another order, and must give the stored remainders."""
    rng = random.Random(2)
    for _ in range(200):
        terms = [rng.gauss(0, 1) * 10 ** rng.uniform(-20, 20) for _ in range(8)]
        expansion = expand(terms)
        rng.shuffle(terms)
        assert expand(terms) == expansion
        assert sum(map(Fraction, expansion)) == sum(map(Fraction, terms))
    assert expand([1e20, -1e20]) == []


def test_a_correction_or_a_new_arm_does_not_read_the_log(url, monkeypatch):
    """The state of kibitzer is changed in place, and the replay gives the same state.

    If a correction read the log, it would block an agent with a million decisions for seconds.
    """
    with create_agent(url, patience=100.0, silence=0.0) as agent:
        clock = [4e9]
        agent.now = lambda: clock[0]
        rng = random.Random(5)
        with monkeypatch.context() as patch:
            patch.setattr("kibitz.live.store.queries.read_log", lambda *_: 1 / 0)
            for step in range(300):
                clock[0] += 1.0
                id = (agent.look if step % 2 else agent.ask)().id
                if rng.random() < 0.8:
                    agent.tell(id, rng.gauss(0.5, 0.5))
                if step % 9 == 0 and id > 120:  # a late report of a decision that is silent
                    with contextlib.suppress(kibitz.Conflict):
                        agent.tell(rng.randrange(1, 20), 0.25)
                if step % 7 == 0:
                    with contextlib.suppress(ValueError):  # the decision has no reward
                        agent.correct(rng.randrange(1, id + 1), 1e20, force=True)
                        agent.correct(id, rng.gauss(0.5, 0.5))
                if step in (50, 200):
                    agent.add(f"new-{step}")
        kinds = [event.kind for event in agent.events()]
        assert min(kinds.count(kind) for kind in ("corrected", "silent", "told")) > 10
        assert agent.check() == []
        for event in list(agent.events()):
            if event.kind == "corrected" and abs(event.reward) > 1e19:
                agent.correct(event.id, 0.5)
        assert agent.check() == []
        row = agent.store.read(lambda db: queries.read_agent(db, "checkout"))
        empty = agent.policy.init(agent.config.params, 4)
        sums = policy_state.from_json(row.state, empty).statistics.sums
        assert sums.tolist() == [arm.total / agent.config.unit for arm in agent.arms()]


def test_a_migration_replaces_rounded_sums(tmp_path):
    """A corrected typo may leave wrong sums in a store of schema 3; the migration recomputes them."""
    file = tmp_path / "shop.db"
    shutil.copy(FILES / "schema-3.db", file)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        before = connection.execute("select pull_sum, look_sum, squares from arms").fetchall()
        connection.execute("update arms set pull_sum = 1e9, look_sum = 1e9, squares = 1e9")
        connection.commit()
    for name in ("clicks", "checkout", "rates"):
        with kibitz.agent(file, name) as agent:
            assert agent.check() == []
    with contextlib.closing(sqlite3.connect(file)) as connection:
        after = connection.execute("select pull_sum, look_sum, squares from arms").fetchall()
    assert after == [pytest.approx(row, abs=1e-9) for row in before]


def test_an_implausible_reward_needs_force(url):
    """A Gaussian reward beyond 10,000 times the scale is rejected unless `force` is true."""
    sentence = (
        r"^reward -5001\.0 is more than 10,000 times the scale 0\.5 of agent 'checkout'; "
        r"check the reward, and use force if it is right$"
    )
    with create_agent(url, policy=kibitz.ucb()) as agent:
        id = agent.ask().id
        n_events = len(list(agent.events()))
        for call in [
            lambda **force: agent.tell(id, -5001.0, **force),
            lambda **force: agent.observe("blue", -5001.0, "panel-1", **force),
            lambda **force: agent.tell([(id, -5001.0)], **force),
        ]:
            with pytest.raises(ValueError, match=sentence):
                call()
            with pytest.raises(ValueError, match="force must be True or False, got 1"):
                call(force=1)
        assert len(list(agent.events())) == n_events
        assert agent.tell([(id, 5000.0)]) == ["counted"]
        with pytest.raises(ValueError, match=sentence):
            agent.correct(id, -5001.0)
        assert agent.correct(id, -5001.0, force=True) == "corrected"
        assert agent.tell([(agent.ask().id, -5001.0)], force=True) == ["counted"]
        assert agent.observe("blue", -5001.0, "panel-1", force=True) == "counted"


def test_the_service_accepts_an_implausible_reward_with_force(tmp_path, serve_store):
    url = str(tmp_path / "shop.db")
    with create_agent(url, policy=kibitz.ucb()) as agent:
        ids = [decision.id for decision in agent.ask(n=2)]
    with serve_store(url) as address, kibitz.Client(address) as client:
        for call in [
            lambda **force: client.tell(ids[0], 1e6, **force),
            lambda **force: client.tell([(ids[1], 1e6)], **force),
            lambda **force: client.observe("blue", 1e6, **force),
            lambda **force: client.correct(ids[0], 1e7, **force),
        ]:
            with pytest.raises(ValueError, match=r"times the scale 0\.5 of agent 'checkout'"):
                call()
            assert call(force=True) in ("counted", ["counted"], "corrected")
