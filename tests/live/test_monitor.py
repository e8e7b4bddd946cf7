"""Tests of the monitor: detected changes, rare false alarms, and agreement with a replay."""

import math

import numpy as np
import pytest
import reference

import kibitz
from kibitz.live.agent.backup import back_up, restore
from kibitz.live.agent.confidence import intervals
from kibitz.live.agent.report import from_plain, to_plain
from kibitz.live.events import Event, project
from kibitz.live.monitor import (
    Monitor,
    add_observation,
    compute_threshold,
    measure_regime,
    sum_over_tests,
)
from kibitz.policies.change_scan import compare_means

START_TIME = 2e9
CLICKS = {"rewards": "bernoulli", "patience": 50.0, "silence": 0.0, "seed": 1, "alarms": 0.1}
BEFORE, AFTER = {"blue": 0.6, "green": 0.3}, {"blue": 0.1, "green": 0.3}


def create_agent(url, name="clicks", **arguments):
    """Return an agent and its clock, a list of one number; assign `clock[0]` to set the time."""
    agent = kibitz.agent(url, name, **{"arms": ["blue", "green"], **CLICKS, **arguments})
    clock = [START_TIME]
    agent.now = lambda: clock[0]
    return agent, clock


def serve(agent, clock, rng, means, n, size=40):
    """Serve `n` batches of visitors; report clicks at once, and never report missing clicks."""
    for batch in range(n):
        clock[0] += 20
        keys = [f"{clock[0]} {batch} {k}" for k in range(size)]
        decisions = agent.ask(keys, n=size)
        agent.tell([(d.id, 1.0) for d in decisions if rng.random() < means[d.arm]])


def test_a_change_raises_an_alarm_that_survives_compaction_erasure_and_reopening(url):
    """Two agents see the same visitors; the second agent is compacted, reopened and loses keys."""
    agents = [create_agent(url, name) for name in ("plain", "changed")]
    rngs = [np.random.default_rng(1) for _ in agents]
    for means, n in ((BEFORE, 12), (AFTER, 4), (AFTER, 8)):
        for (agent, clock), rng in zip(agents, rngs, strict=True):
            serve(agent, clock, rng, means, n)
        agent, clock = agents[1]
        assert agent.compact(clock[0] - 60) > 0
        last_key = next(event.key for event in reversed(list(agent.events())) if event.key)
        assert agent.erase(last_key) == ["erased"]
        agent.close()
        agents[1] = create_agent(url, "changed")[0], clock
        agents[1][0].now = lambda clock=clock: clock[0]
        assert [agent.check() for agent, _ in agents] == [[], []]
    plain, changed = (agent for agent, _ in agents)
    assert plain.alarms() == changed.alarms()
    [alarm] = plain.alarms()
    assert alarm.arm == 0
    assert abs(alarm.since_id - 12 * 40) < 40
    assert alarm.since_at == START_TIME + 20 * math.ceil(alarm.since_id / 40)
    assert alarm.mean_before > 0.5
    assert alarm.mean_after < 0.3
    data, other_data = plain.report(), changed.report()
    del data.attrs["agent"], other_data.attrs["agent"]
    assert data.identical(other_data)
    for agent, _ in agents:
        agent.close()


def test_the_report_starts_at_the_last_change(memory):
    file, backup = memory / "shop.db", memory / "backup.db"
    agent, clock = create_agent(file)
    rng = np.random.default_rng(2)
    serve(agent, clock, rng, BEFORE, 12)
    report = agent.report()
    assert np.isnan(report["since"]).all()
    assert report.attrs["alarms"] == []
    assert report.attrs["warnings"] == []
    assert "No change detected. If no mean ever changed," in kibitz.format_report(report)
    serve(agent, clock, rng, AFTER, 20)
    clock[0] += 50
    report = agent.report()
    [alarm] = report.attrs["alarms"]
    assert report["since"].to_numpy().tolist() == [
        alarm["since_at"],
        pytest.approx(math.nan, nan_ok=1),
    ]
    blue, green = agent.arms()
    log = [event for event in agent.events() if event.arm == "blue"]
    shown = [event.id for event in log if event.kind == "pull" and event.id >= alarm["since_id"]]
    clicks = {event.id for event in log if event.kind == "told"}
    assert report["n_settled"].to_numpy().tolist() == [len(shown), green.n_settled]
    assert float(report["mean"][0]) == pytest.approx(len(clicks & {*shown}) / len(shown))
    assert float(report["low"][0]) < 0.1 < float(report["high"][0]) < blue.settled_mean
    assert alarm["low_before"] < 0.6 < alarm["high_before"]
    assert alarm["low_after"] < 0.1 < alarm["high_after"]
    assert report.attrs["regret_high"] == math.inf
    assert agent.verdict().winner == "green"
    assert "if the means changed when the monitor says" in agent.verdict().sentence
    text = kibitz.format_report(report)
    assert f"(decision {alarm['since_id']}); detected after {alarm['n_after']} observations." in text
    assert "among its first 100,000 observations would be at most 0.1." in text
    assert "since" in text.splitlines()[1]
    assert from_plain(to_plain(report)).identical(report)
    changed_again = report.copy()
    changed_again.attrs["alarms"] = [{**alarm, "sentence": "an earlier change"}, alarm]
    text = kibitz.format_report(changed_again)
    assert alarm["sentence"] in text
    assert "an earlier change" not in text
    assert "1 earlier change is not shown." in text
    agent.close()
    back_up(str(file), backup)
    restore(backup, str(file), replace=True)
    with kibitz.agent(file, "clicks") as restored_agent:
        restored_agent.now = lambda: clock[0]
        assert restored_agent.check() == []
        assert restored_agent.report().identical(report)
        restored_agent.store.write(lambda db: db.execute("update alarms set n_after = 1"))
        assert "list of alarms" in restored_agent.check()[0]


TRACKING_WARNING = "everything changed within an hour: check the tracking first"


def test_a_change_of_all_arms_within_an_hour_suggests_a_fault_of_the_tracking(memory):
    agent, clock = create_agent(memory / "shop.db", bucket=1.0)
    rng = np.random.default_rng(3)
    serve(agent, clock, rng, {"blue": 0.6, "green": 0.6}, 10)
    serve(agent, clock, rng, {"blue": 0.0, "green": 0.0}, 10)
    report = agent.report()
    assert {alarm["arm"] for alarm in report.attrs["alarms"]} == {"blue", "green"}
    assert TRACKING_WARNING in report.attrs["warnings"]
    agent.close()


@pytest.mark.parametrize(("stop_at", "is_warned"), [(5, True), (20, False)])
def test_an_arm_that_was_retired_before_the_change_does_not_count(memory, stop_at, is_warned):
    """Red never changes; it is retired before or after the other arms change in batch 10."""
    agent, clock = create_agent(memory / "shop.db", arms=["blue", "green", "red"], bucket=1.0)
    rng = np.random.default_rng(3)
    for batch in range(30):
        if batch == stop_at:
            agent.retire("red")
        rate = 0.6 if batch < 10 else 0.0
        serve(agent, clock, rng, {"blue": rate, "green": rate, "red": 0.6}, 1)
    report = agent.report()
    assert {alarm["arm"] for alarm in report.attrs["alarms"]} == {"blue", "green"}
    assert (TRACKING_WARNING in report.attrs["warnings"]) is is_warned
    agent.close()


def test_a_change_gives_no_warning_about_the_scale_and_hides_stale_estimates(memory):
    """The mean of blue falls from 20 to 0 standard deviations; the mean of green stays at 10."""
    agent, clock = create_agent(
        memory / "shop.db", rewards="gaussian", scale=0.1, bucket=1.0, silence="forget"
    )
    rng, savings = np.random.default_rng(4), []
    for batch in range(40):
        clock[0] += 20
        means = {"blue": 2.0 if batch < 20 else 0.0, "green": 1.0}
        decisions = [*agent.ask(n=10), agent.look()]
        agent.tell([(d.id, means[d.arm] + 0.1 * rng.normal()) for d in decisions])
        savings.append(float(agent.report().attrs["looks_saved"]))
    report = agent.report()
    assert [alarm["arm"] for alarm in report.attrs["alarms"]] == ["blue"]
    assert report.attrs["warnings"] == []
    assert savings[19] >= 0
    assert math.isnan(savings[-1])
    agent.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"patience": None, "silence": "forget"}, "patience is required for alarms: the monitor"),
        ({"alarms": 0}, r"alarms must be in \(0, 1\), got 0"),
        ({"alarms": 1.5}, r"alarms must be in \(0, 1\), got 1.5"),
        ({"alarms": "often"}, r"alarms must be"),
    ],
)
def test_bad_arguments_are_rejected(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        create_agent(tmp_path / "shop.db", **arguments)


def test_an_agent_keeps_the_alarms_of_its_creation(tmp_path):
    create_agent(tmp_path / "shop.db", alarms=1e-300)[0].close()
    with kibitz.agent(tmp_path / "shop.db", "clicks") as agent:
        assert agent.config.monitor.get_threshold(0) > 690
    with pytest.raises(ValueError, match=r"created with alarms=1e-300 and cannot be opened with"):
        kibitz.agent(tmp_path / "shop.db", "clicks", alarms=0.2)


def find_alarms_slowly(events, patience, silence, monitor):
    """Return the alarms, each as (arm, since_id, at_id), and scans that store all rewards."""
    arms = [event.arm for event in events if event.kind == "added"]
    scans = [reference.ChangeScan(monitor.in_unit_interval) for _ in arms]
    ids, decisions, alarms, n_settled = [[] for _ in arms], [], [], 0
    for event in events:
        while n_settled < len(decisions) and decisions[n_settled]["at"] <= event.at - patience:
            decision = decisions[n_settled]
            n_settled += 1
            if decision["reward"] is None and not decision["is_forgotten"]:
                decision["reward"] = silence
            if decision["reward"] is None:
                continue
            scan, arm = scans[decision["arm"]], decision["arm"]
            ids[arm].append(n_settled)
            decision["place"] = len(scan.rewards)
            if scan.add(decision["reward"] / monitor.scale, monitor.get_threshold(arm)):
                alarms.append((arm, ids[arm][scan.origin], n_settled))
        if event.kind in ("pull", "look", "observe"):
            decisions.append(
                {"arm": arms.index(event.arm), "at": event.at, "reward": event.reward,
                 "is_forgotten": False, "place": None}
            )  # fmt: skip
        elif event.id is not None:
            decision = decisions[event.id - 1]
            is_settled = event.id <= n_settled
            if event.kind == "forgotten":
                decision["is_forgotten"] = True
            elif not is_settled:
                decision["reward"] = event.reward
            elif event.kind == "corrected" and decision["place"] is not None:
                scans[decision["arm"]].rewards[decision["place"]] = event.reward / monitor.scale
    return alarms, scans


@pytest.mark.parametrize("kind", ["gaussian", "bounded"])
def test_late_reports_and_corrections_give_the_alarms_of_a_slow_replay(memory, kind):
    """Reports are late, out of order, corrected or lost; an arm is added, and the means jump."""
    rng = np.random.default_rng(4)
    arguments = {"rewards": kind, "silence": "forget" if kind == "gaussian" else 0.25}
    arguments |= {"scale": 0.2} if kind == "gaussian" else {}
    agent, clock = create_agent(memory / "shop.db", **arguments, alarms=0.9)
    reports, told = [], []
    for batch in range(70):
        clock[0] += rng.integers(1, 30)
        if batch == 20:
            agent.add("red")
        level = 0.05 if batch // 12 % 2 else 0.95
        for decision in agent.ask(n=10):
            noise = 0.2 * rng.normal() if kind == "gaussian" else 0.05 * rng.uniform(-1, 1)
            reports.append((clock[0] + rng.exponential(30), decision.id, level + noise))
        due = [report for report in reports if report[0] <= clock[0]]
        reports = [report for report in reports if report[0] > clock[0]]
        lost_ids = [id for _, id, _ in due if rng.random() < 0.05]
        agent.batch([("forget", (id,)) for id in lost_ids[::2]], return_errors=True)
        due = [(id, reward) for _, id, reward in due if id not in lost_ids]
        agent.batch([("tell", report) for report in due], return_errors=True)
        told += [id for id, _ in due]
        corrections = [int(id) for id in rng.choice(told, min(len(told), 3))]
        agent.batch([("correct", (id, float(rng.random()))) for id in corrections])
        agent.observe("blue", level)
        if batch % 10 == 9:
            assert agent.check() == []
    agent.ask()
    assert agent.check() == []
    config = agent.config
    alarms, scans = find_alarms_slowly(
        list(agent.events()), config.patience, config.silence, config.monitor
    )
    assert [(alarm.arm, alarm.since_id, alarm.at_id) for alarm in agent.alarms()] == alarms
    assert len(alarms) >= 3
    for arm, scan in zip(agent.arms(), scans, strict=True):
        assert (arm.scan[0], arm.scan[2]) == (len(scan.rewards), scan.origin)
        total = config.monitor.unit * arm.scan[1]
        assert total == pytest.approx(math.fsum(scan.rewards), abs=1e-9)
    agent.close()


def make_log(rng, n, patience):
    """Return a log of clicks with mean 0.2 and a jump in traffic, and (arm, reward) by report time.

    Most decisions choose the arm with the most clicks per report. The choice therefore depends on the
    delay: a click is told at once, and a missing click counts as 0 after the patience.
    """
    events = [Event(k + 1, 0.0, "added", None, name, None, None) for k, name in enumerate("ab")]
    gaps = np.where(np.arange(n) < n / 2, 1.0, 2 / n)  # in units of the patience
    times = patience * np.cumsum(gaps)
    told, silent, counts, sums = [], [], np.ones(2), np.ones(2)
    for id, at in enumerate(times, 1):
        while silent and silent[0][0] <= at - patience:
            _, old_id, arm = silent.pop(0)
            events.append(Event(len(events) + 1, at, "silent", old_id, "ab"[arm], 0.0, None))
            told.append((arm, 0.0))
            counts[arm] += 1
        arm = int(np.argmax(sums / counts)) if rng.random() < 0.8 else int(rng.integers(2))
        events.append(Event(len(events) + 1, at, "pull", id, "ab"[arm], None, None))
        if rng.random() < 0.2:
            events.append(Event(len(events) + 1, at, "told", id, "ab"[arm], 1.0, None))
            told.append((arm, 1.0))
            counts[arm], sums[arm] = counts[arm] + 1, sums[arm] + 1
        else:
            silent.append((at, id, arm))
    return events, told


def test_false_alarms_are_rare_under_adaptive_choice_and_delay():
    """At most 20 % of agents may raise a false alarm; the test has 40 agents of 500 decisions.

    If this limit holds, more than 18 alarms have a probability below 0.0003. In the negative control,
    the scans see the rewards in the order of the reports. Most agents then raise an alarm, because
    clicks are reported before missing clicks.
    """
    rng = np.random.default_rng(5)
    monitor = Monitor(0.2, 2, True, 1.0)
    n_false = n_in_wrong_order = 0
    for _ in range(40):
        events, told = make_log(rng, 500, 10.0)
        n_false += bool(project(events, 10.0, 0.0, monitor=monitor).alarms)
        scans = [[], []]
        results = [add_observation(scans[arm], monitor, arm, 1, 0.0, x) for arm, x in told]
        n_in_wrong_order += any(result is not None for result in results)
    assert n_false <= 18
    assert n_in_wrong_order > 20


@pytest.mark.parametrize(("kind", "n_before", "before", "after"), [
    ("gaussian", 300, 0.0, 1.0), ("gaussian", 500, 0.0, 0.7), ("bernoulli", 500, 0.9, 0.4),
])  # fmt: skip
def test_intervals_since_a_change_rarely_miss_the_new_mean(kind, n_before, before, after):
    """A confidence sequence with delta = 0.0225 should miss the mean in at most 2.25 % of runs.

    The intervals start at the change that the monitor estimates, and the test checks them after each
    observation. If they are valid, more than 6 misses in 60 runs have a probability below 0.0003.
    """
    rng, n_missed = np.random.default_rng(6), 0
    monitor = Monitor(0.1, 2, kind == "bernoulli", 1.0)
    for _ in range(60):
        state, intervals_seen = [], []
        for k in range(n_before + 300):
            mean = before if k < n_before else after
            reward = float(rng.random() < mean) if kind == "bernoulli" else rng.normal(mean)
            add_observation(state, monitor, 0, k + 1, 0.0, reward)
            if k > n_before and state[3]:
                intervals_seen.append(measure_regime(state, monitor))
        assert intervals_seen  # the change was detected
        n, sums = np.array(intervals_seen).T
        low, high = intervals(kind, n, sums, sums, np.full(n.size, 0.0225), 1.0)
        n_missed += not np.all((low <= after) & (after <= high))
    assert n_missed <= 6


def test_the_threshold_bounds_the_sum_of_the_probabilities_of_all_tests():
    """The sum over all tests agrees with a reference that lists them, and the bounds sum to delta."""
    scan, weights, logs = reference.ChangeScan(False), 0.0, 0.0
    for count in range(1, 301):
        scan.rewards = range(count)
        for start in scan.list_starts():
            ratio = (count - start) / count
            weights, logs = weights + ratio, logs - ratio * math.log(ratio)
    assert sum_over_tests(300) == (pytest.approx(weights), pytest.approx(logs))
    for delta in (0.5, 1e-3, 1e-200):
        total_weight, total_log = sum_over_tests(100_000)
        threshold = compute_threshold(delta, False)
        assert 2 * total_weight * math.exp(-threshold) == pytest.approx(delta)
        threshold = compute_threshold(delta, True)
        total = 2 * ((1 + threshold) * total_weight + total_log) * math.exp(-threshold)
        assert total == pytest.approx(delta)


@pytest.mark.parametrize("mean", [0.03, 0.3, 0.5])
def test_the_tail_of_a_test_is_below_its_bound(mean):
    """Enumerate the clicks in both blocks and sum the probabilities of large statistics."""
    for s, w in ((1, 1), (5, 3), (40, 4), (60, 12), (24, 24), (100, 1)):
        outcomes = sorted(
            (compare_means(s, k, w, m, True), binomial(s, k, mean) * binomial(w, m, mean))
            for k in range(s + 1)
            for m in range(w + 1)
        )
        tail = 0.0
        for statistic, probability in reversed(outcomes):
            tail += probability
            assert tail <= 2 * (1 + statistic) * math.exp(-statistic) * (1 + 1e-9)


def binomial(n, k, mean):
    return math.comb(n, k) * mean**k * (1 - mean) ** (n - k)


def test_a_rehearsal_with_changes_delay_and_loss_raises_the_alarm_and_loses_nothing(memory):
    """The means change at stage 201 of 400. `rehearse` compares the store with the log."""
    problem = kibitz.changing(
        [(1, kibitz.bernoulli([0.9, 0.2])), (201, kibitz.bernoulli([0.05, 0.2]))]
    )
    file = memory / "rehearsal.db"
    data = kibitz.rehearse(
        problem, kibitz.kibitzer(rewards="bernoulli"), horizon=400, runs=1, seed=1, delay=5,
        loss=0.1, duplicates=0.1, rate=0.1, alarms=0.1, store=file, progress=False,
    )  # fmt: skip
    assert data["n_alarms"].to_numpy().tolist() == [1]
    with kibitz.agent(file, "rehearsal-0") as agent:
        assert agent.check() == []
        agent.now = lambda: 4e9 + 401
        report = agent.report()
        assert int(report["n_asked"].sum()) == 400
        n_pulls = report["n_pulls"] + report["n_pending"] + report["n_forgotten"]
        assert int(n_pulls.sum() + report["n_looks"].sum()) == 400 + sum(
            event.kind == "look" for event in agent.events()
        )
        [alarm] = report.attrs["alarms"]
        assert abs(alarm["since_at"] - (4e9 + 201)) < 15
