"""Tests of the reports of agents, and of the validity of their confidence sequences."""

import math
import re

import numpy as np
import pytest

import kibitz
from kibitz.live.agent.confidence import (
    best_arm_p_values,
    gap_intervals,
    intervals,
    radius,
    regret_interval,
)
from kibitz.live.agent.report import table

pytestmark = pytest.mark.slow


def create_agent(folder, **arguments):
    arguments = {"arms": ["a", "b", "c"], "policy": kibitz.ucb_double(2.0), "seed": 1, **arguments}
    return kibitz.agent(folder / "shop.db", "checkout", **{"scale": 0.5, **arguments})


def test_the_radius_agrees_with_the_inequality():
    for n, delta, scale in [(1, 0.05, 1.0), (100, 0.01, 0.5), (10**6, 0.2, 3.0)]:
        by_hand = (
            scale / n * math.sqrt((n + 10) * (2 * math.log(1 / delta) + math.log((n + 10) / 10)))
        )
        assert radius(n, delta, scale) == pytest.approx(by_hand, rel=1e-12)
    assert radius(0, 0.05) == math.inf


@pytest.mark.parametrize("law", ["gaussian", "bernoulli", "adaptive"])
def test_at_most_delta_of_runs_ever_leave_the_interval(law):
    """The interval is checked after each of 10^4 observations in each of 2000 runs.

    With delta = 0.1, at most 200 runs are expected to leave the interval. The limit 270 is five
    standard deviations higher. If the inequality is true, the probability of a false alarm is below
    10^-6.
    """
    rng = np.random.default_rng(1)
    n_runs, n_looks, delta = 2000, 10_000, 0.1
    half = radius(np.arange(1, n_looks + 1), delta, 0.5 if law == "bernoulli" else 1.0)
    left = 0
    for _ in range(n_runs):
        if law == "bernoulli":
            rewards, mean = (rng.random(n_looks) < 0.5).astype(float), 0.5
        else:
            rewards, mean = rng.standard_normal(n_looks), 0.0
        means = np.cumsum(rewards) / np.arange(1, n_looks + 1)
        outside = np.abs(means - mean) >= half
        if law == "adaptive":  # optional stopping does not increase the error
            outside = outside[: 1 + int(np.argmax(means[100:])) + 100]
        left += bool(outside.any())
    assert left <= 270
    assert law == "adaptive" or left >= 10  # if fewer leave it, it is too wide


def test_intervals_of_an_adaptive_agent_contain_the_means_at_all_times(memory):
    """No mean of four agents with an adaptive policy may leave its interval (delta = 1e-4)."""
    truth = [0.2, 0.5, 0.6]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        folder = memory / str(seed)
        folder.mkdir()
        with create_agent(folder) as agent:
            for _ in range(60):
                decision = agent.ask()
                agent.tell(decision.id, float(rng.random() < truth["abc".index(decision.arm)]))
                arms = agent.arms()
                low, high = intervals(
                    [arm.n_observed for arm in arms], [arm.mean for arm in arms], 1e-4, 0.5
                )
                assert np.all((low <= truth) & (truth <= high))


def test_the_regret_lies_in_its_interval_if_the_means_do():
    rng = np.random.default_rng(3)
    for _ in range(300):
        means, pulls = rng.normal(size=4), rng.integers(0, 50, 4)
        low, high = means - rng.exponential(size=4), means + rng.exponential(size=4)
        least, most = regret_interval(pulls, low, high)
        regret = float((pulls * (means.max() - means)).sum())
        assert least - 1e-9 <= regret <= most + 1e-9
        smallest, largest = gap_intervals(low, high)
        gaps = means.max() - means
        assert np.all((smallest <= gaps + 1e-9) & (gaps <= largest + 1e-9))
    exact = np.array([1.0, 0.5])
    assert regret_interval([3, 4], exact, exact) == (2.0, 2.0)


def test_the_p_value_is_the_level_at_which_intervals_separate():
    n, means = [400, 400, 5], [0.2, 0.8, 0.5]
    bounds = best_arm_p_values(n, means, 0.5)
    assert bounds[1] == bounds[2] == 1.0
    low, high = intervals(n, means, bounds[0] * 1.001, 0.5)
    assert high[0] < low[1]
    low, high = intervals(n, means, bounds[0] * 0.999, 0.5)
    assert high[0] >= low[1]


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
    low, high = intervals([1, 1, 2], [1.0, 1.0, 0.75], 0.05, 0.5)
    assert data["low"].to_numpy().tolist() == low.tolist()
    assert data["high"].to_numpy().tolist() == high.tolist()
    assert data.attrs["regret_low"] == 0.0
    text = table(data)
    assert "b (paused)" in text
    assert "Regret after 4 pulls: 0 to" in text


def test_a_report_without_any_data(memory):
    with create_agent(memory) as agent:
        data = agent.report()
    assert np.isnan(data["mean"]).all()
    assert data.attrs["warnings"] == []
    assert math.isnan(data.attrs["looks_saved"])
    assert "-" in table(data)


def test_looks_saved_is_the_planners_estimate(memory):
    from kibitz.planning.prediction import predict

    with create_agent(memory) as agent:
        for arm, mean in {"a": 0.0, "b": 0.5, "c": 1.0}.items():
            for n in range(100):
                agent.observe(arm, float(n < 100 * mean))
        for decision in agent.ask(n=1000):
            agent.forget(decision.id) if decision.id % 2 else None
        saved = agent.report().attrs["looks_saved"]
    without, with_looks = predict([2.0, 1.0, 0.0], [0.0, 0.3], 1000, "active")
    assert saved == pytest.approx(0.5 * (without - with_looks), rel=1e-9)


def test_the_report_warns(memory):
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
        found = " | ".join(agent.report().attrs["warnings"])
    assert re.search(r"arm 'c' was chosen \d+ times but has no reported reward", found)
    assert "rewards of 'a' have standard deviation" in found
    assert "arms lose reports at different rates: 100% of 'c', 0% of 'a'" in found
    assert "no look during the last 699 pulls; before, 1 looks per pull" in found


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
