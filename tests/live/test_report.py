"""Tests of the reports of agents: counts, intervals, losses and warnings."""

import math
import re

import numpy as np
import pytest

import kibitz
from kibitz.live.agent.confidence import intervals, lost_intervals, split_delta
from kibitz.live.agent.report import format_interval, format_report, from_plain, report, to_plain

pytestmark = pytest.mark.slow


def create_agent(folder, **arguments):
    arguments = {"arms": ["a", "b", "c"], "policy": kibitz.ucb_double(2.0), "seed": 1, **arguments}
    return kibitz.agent(
        folder / "shop.db", "checkout", **{"rewards": "gaussian", "scale": 0.5, **arguments}
    )


@pytest.mark.parametrize("rewards", ["bernoulli", "gaussian"])
def test_intervals_of_an_adaptive_agent_contain_the_means_at_all_times(memory, rewards):
    """Each interval must contain its mean, even if rewards arrive late and an arm is added.

    The intervals are checked after every third decision, with delta = 1e-4. If they are valid, the
    test fails with probability at most 3e-4, because it simulates three agents.
    """
    true_means = {"a": 0.2, "b": 0.5, "c": 0.6, "d": 0.7}
    scale = {"scale": 0.5} if rewards == "gaussian" else {"scale": None}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        folder = memory / f"{seed}"
        folder.mkdir()
        with create_agent(
            folder, rewards=rewards, policy=kibitz.kibitzer(rewards=rewards), **scale
        ) as agent:
            pending = []
            for stage in range(60):
                if stage == 30:
                    agent.add("d")
                pending.append(agent.ask() if stage % 3 else agent.look())
                if stage % 3 == 2:
                    for decision in pending:
                        agent.tell(decision.id, float(rng.random() < true_means[decision.arm]))
                    pending.clear()
                    data = report(agent.store, agent.config, agent.now(), 1e-4, saved=0.0)
                    means = np.array([true_means[arm] for arm in data["arm"].to_numpy()])
                    assert np.all((data["low"] <= means) & (means <= data["high"]))


def test_the_report_has_the_counts_of_each_arm(memory):
    with create_agent(memory, patience=100.0) as agent:
        agent.now = lambda: 2e9
        agent.tell([(decision.id, 1.0) for decision in agent.ask(n=4)][:3])
        agent.look()
        agent.forget(4)
        agent.observe("c", 0.5)
        agent.pause("b")
        agent.now = lambda: 2e9 + 7
        data = agent.report()
    assert data["arm"].to_numpy().tolist() == ["a", "b", "c"]
    assert data["n_asked"].to_numpy().tolist() == [2, 1, 1]
    assert data["n_pulls"].to_numpy().tolist() == [1, 1, 1]
    assert data["n_forgotten"].to_numpy().tolist() == [1, 0, 0]
    assert data["n_looks"].to_numpy().tolist() == [0, 0, 1]
    assert data["status"].to_numpy().tolist() == ["active", "paused", "active"]
    assert data["mean"].sel(arm="c") == 0.75
    assert data["n_pending"].sum() == 1
    assert data["oldest"].max() == 7.0
    shares = split_delta(0.05, 3, 3)
    low, high = intervals("gaussian", [1, 1, 2], [1.0, 1.0, 1.5], [1.0, 1.0, 1.25], shares, 0.5)
    assert data["low"].to_numpy().tolist() == low.tolist()
    assert data["high"].to_numpy().tolist() == high.tolist()
    assert data.attrs["regret_low"] == 0.0
    text = format_report(data)
    assert "b (paused)" in text
    assert "Regret after 4 pulls: 0 to" in text


def test_the_report_of_clicks_leads_with_the_loss_and_shows_rates(memory):
    """The counts of clicks and views come from a real A/B test."""
    with create_agent(memory, rewards="bernoulli", policy=None, scale=None) as agent:
        for arm, (clicks, views) in {"a": (39, 2551), "b": (68, 2629), "c": (49, 2539)}.items():
            rewards = [1.0] * clicks + [0.0] * (views - clicks)
            agent.batch([("observe", (arm, reward, None)) for reward in rewards])
        data, verdict = agent.report(), agent.verdict()
    assert data["n_settled"].to_numpy().tolist() == [2551, 2629, 2539]
    assert data.attrs["loss_high"] == verdict.loss_high
    assert data.attrs["loss_likely"] == verdict.loss_likely
    assert verdict.remaining is None
    assert math.isnan(data.attrs["remaining"])
    lines = format_report(data).splitlines()
    assert lines[0] == verdict.sentence
    assert lines[0].startswith(
        "No verdict yet. If you stop now and keep b, you give up at most 0.9 clicks in"
    )
    assert "2.59 %" in lines[3]
    assert "1.48 to 4.04 %" in lines[3]
    assert "possible" in lines[3]
    assert data.attrs["inequality"].startswith("M(mu)/2 + E(mu)/4 < 1 / delta_i")
    assert format_report(from_plain(to_plain(data))) == format_report(data)


@pytest.mark.parametrize(
    ("low", "high", "mean", "is_rate", "text"),
    [(0.0147, 0.0406, 0.0259, True, ("2.59 %", "1.47 to 4.06 %")),
     (0.1, 0.9, 0.5, True, ("50 %", "10 to 90 %")),
     (0.012345, 0.012445, 0.0124, True, ("1.2400 %", "1.2345 to 1.2445 %")),
     (-3.0, 41.0, 19.0, False, ("19", "-3 to 41")),
     (-math.inf, math.inf, 0.0, False, ("0.0000", "-inf to inf"))],
)  # fmt: skip
def test_the_width_of_an_interval_determines_the_digits(low, high, mean, is_rate, text):
    assert format_interval(low, high, is_rate, mean) == text


def test_lost_reports_that_matter_are_a_warning(memory):
    with create_agent(memory, rewards="bernoulli", policy=None, scale=None) as agent:
        for decision in agent.ask(n=400):
            agent.forget(decision.id) if decision.id % 5 == 0 else agent.tell(decision.id, 0.0)
        data = agent.report()
    arm = data.isel(arm=int(np.argmax(data["n_forgotten"].to_numpy())))
    n_lost, n = int(arm["n_forgotten"]), int(arm["n_settled"])
    assert n_lost / n > float(arm["high"] - arm["low"]) / 2
    low, high = lost_intervals(n, 0.0, 0.0, n_lost, 0.015)
    _, interval_text = format_interval(float(low), float(high), is_rate=True)
    name = str(arm["arm"].to_numpy())
    expected = (
        f"{n_lost} reports of {name!r} are lost and {n} are known; if the loss of a report may "
        f"depend on its reward, the mean is only known to be {interval_text}"
    )
    assert expected in data.attrs["warnings"]


def test_a_report_without_data_is_valid(memory):
    with create_agent(memory) as agent:
        data = agent.report()
    assert np.isnan(data["mean"]).all()
    assert data.attrs["warnings"] == []
    assert math.isnan(data.attrs["looks_saved"])
    assert "-" in format_report(data)


def test_looks_saved_is_the_planners_estimate(memory):
    from kibitz.planning.prediction import predict

    with create_agent(memory) as agent:
        for arm, mean in {"a": 0.0, "b": 0.5, "c": 1.0}.items():
            for n in range(100):
                agent.observe(arm, float(n < 100 * mean))
        for decision in agent.ask(n=1000):
            agent.forget(decision.id) if decision.id % 2 else None
        looks_saved = agent.report().attrs["looks_saved"]
    regret_without_looks, regret_with_looks = predict([2.0, 1.0, 0.0], [0.0, 0.3], 1000, "active")
    assert looks_saved == pytest.approx(0.5 * (regret_without_looks - regret_with_looks), rel=1e-9)


def test_the_report_has_warnings(memory):
    rng = np.random.default_rng(0)
    with create_agent(memory) as agent:
        assert agent.report().attrs["warnings"] == []
        for _ in range(3):
            agent.observe("a", 0.5)
        agent.pause("b")
        for decision in agent.ask(n=700):
            if decision.arm == "a":
                agent.tell(decision.id, 5 * rng.standard_normal())
            else:
                agent.forget(decision.id)
        warnings = " | ".join(agent.report().attrs["warnings"])
    assert re.search(r"arm 'c' was chosen \d+ times but has no reported reward", warnings)
    assert "rewards of 'a' have standard deviation" in warnings
    assert "arms lose reports at different rates: 100% of 'c', 0% of 'a'" in warnings
    assert "no look during the last 699 pulls; before, 1 looks per pull" in warnings


def test_a_long_time_without_a_look_is_a_warning(memory):
    with create_agent(memory) as agent:
        for n in range(40):
            agent.tell(agent.ask().id, 0.5)
            if n < 10:
                agent.tell(agent.look().id, 0.5)
        assert agent.report().attrs["warnings"] == []
        agent.tell([(decision.id, 0.5) for decision in agent.ask(n=2000)])
        [warning] = agent.report().attrs["warnings"]
    assert warning == "no look during the last 2030 pulls; before, 1 looks per pull"


@pytest.mark.parametrize("delta", [0, 1, -1, math.nan, "0.1"])
def test_an_invalid_delta_raises_value_error(memory, delta):
    with (
        create_agent(memory) as agent,
        pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got"),
    ):
        agent.report(delta)


def test_text_shows_unsettled_decisions_and_late_reports_apart(memory):
    """If silence counts as a reward, the text says how many decisions the means leave out."""
    time = [4e9]
    with kibitz.agent(
        memory / "s.db", "s", arms=["a", "b"], rewards="bernoulli", patience=100, silence=0
    ) as agent:
        agent.now = lambda: time[0]
        first_decisions = agent.ask(n=20)
        time[0] += 200
        agent.tell(first_decisions[0].id, 1)
        agent.ask(n=5)
        text = format_report(agent.report())
        assert "5 decisions are not settled and do not count yet." in text
        assert "1 report came after its decision had settled and does not count." in text
        agent.tell(first_decisions[1].id, 1)
        time[0] += 200
        agent.ask()
        text = format_report(agent.report())
        assert "1 decision is not settled and does not count yet." in text
        assert "2 reports came after their decisions had settled and do not count." in text
        assert "no reported reward" not in text  # no report means no click
