"""The log of an agent can be exported to files and read as a problem."""

import csv
import json

import numpy as np
import pytest
import xarray

import kibitz
from kibitz.live.agent.confidence import gaussian_radius

pytestmark = pytest.mark.slow


@pytest.fixture
def agent(memory):
    arguments = {
        "arms": ["blue", "green"],
        "policy": kibitz.ucb(2.0),
        "rewards": "gaussian",
        "scale": 0.5,
        "seed": 1,
    }
    with kibitz.agent(memory / "shop.db", "checkout", **arguments) as agent:
        for n, decision in enumerate(agent.ask(n=10)):
            if n < 8:
                agent.tell(decision.id, n / 8)
        agent.correct(1, 1.0)
        agent.forget(9)
        agent.tell(agent.look(key='a,"b"').id, 0.25)
        agent.observe("green", 0.5, key="naïve")
        yield agent


def find_final_rewards(agent):
    rewards = {"blue": [], "green": []}
    final_rewards = {}
    arms = {}
    for event in agent.events():
        if event.kind in {"told", "corrected", "observe"}:
            final_rewards[event.id] = event.reward
            arms[event.id] = event.arm
    for id, reward in final_rewards.items():
        rewards[arms[id]].append(reward)
    return {arm: sorted(values) for arm, values in rewards.items()}


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "nc"])
def test_an_exported_log_can_be_read_as_a_problem(agent, memory, suffix):
    file = memory / f"log.{suffix}"
    agent.export(file)
    problem = kibitz.from_log(file)
    assert isinstance(problem, kibitz.Problem)
    assert problem.arms == ("blue", "green")
    rewards = dict(zip(problem.arms, problem.values, strict=True))
    assert {arm: sorted(values.tolist()) for arm, values in rewards.items()} == find_final_rewards(
        agent
    )
    assert problem.n_observed.sum() == 10
    half_width = gaussian_radius(problem.n_observed, 0.05 / 2, problem.scale)
    assert problem.low.tolist() == (problem.means - half_width).tolist()
    assert problem.high.tolist() == (problem.means + half_width).tolist()
    assert np.all(problem.gap_intervals[0] <= problem.gaps)
    assert np.all(problem.gap_intervals[1] >= problem.gaps)


def test_exported_files_contain_every_event(agent, memory):
    for suffix in ("csv", "jsonl", "nc"):
        agent.export(memory / f"log.{suffix}")
    events = list(agent.events())
    with (memory / "log.csv").open(newline="", encoding="utf-8") as log_lines:
        rows = list(csv.DictReader(log_lines))
    log_lines = (memory / "log.jsonl").read_text(encoding="utf-8").splitlines()
    loaded_events = [json.loads(loaded_event) for loaded_event in log_lines]
    data = xarray.load_dataset(memory / "log.nc", engine="h5netcdf")
    assert len(rows) == len(loaded_events) == data.sizes["seq"] == len(events)
    for event, row, loaded_event in zip(events, rows, loaded_events, strict=True):
        assert loaded_event == event._asdict()
        assert row["key"] == (event.key or "")
        assert row["reward"] == ("" if event.reward is None else repr(event.reward))
    assert data["arm"].to_numpy().tolist() == [event.arm for event in events]


def test_an_export_is_atomic(agent, memory):
    for name, sentence in [
        ("log.txt", r"file must be a name that ends in \.csv, \.jsonl or \.nc, got"),
        ("no/log.csv", "file must be in a folder that exists, got"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            agent.export(memory / name)


def test_any_csv_with_arms_and_rewards_is_a_log(memory):
    file = memory / "clicks.csv"
    file.write_text("when,button,paid\n1,x,1\n2,y,0\n3,x,0\n4,y,\n5,y,0.5\n")
    problem = kibitz.from_log(file, arm="button", reward="paid")
    assert problem.arms == ("x", "y")
    assert problem.means.tolist() == [0.5, 0.25]
    assert problem.n_observed.tolist() == [2, 2]
    assert repr(problem) == "from_log(x: 2, y: 2)"


def test_data_frames_datasets_and_dicts_are_logs(memory):
    pandas = pytest.importorskip("pandas")
    columns = {"arm": ["x", "y", "x"], "reward": [1.0, 0.0, 0.0]}
    frame = pandas.DataFrame(columns)
    data = xarray.Dataset({name: ("row", values) for name, values in columns.items()})
    for source in (columns, frame, data):
        assert kibitz.from_log(source).means.tolist() == [0.5, 0.0]


def test_a_simulation_starts_from_a_log(agent, memory):
    agent.export(memory / "log.csv")
    problem = kibitz.from_log(memory / "log.csv")
    data = kibitz.simulate(problem, kibitz.bandit(), kibitz.ucb(), horizon=50, runs=2, seed=1)
    assert data["n_pulls"].sum() == 100


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("arm,reward\n", r"log file '.*' is empty"),
        ("arm,reward\nx,1\n", r"log must contain rewards of at least 2 arms, got \['x'\]"),
        ("arm,reward\nx,1\ny,abc\n", "reward of line 2 must be a number, got 'abc'"),
        ("arm,reward\nx,1\ny,inf\n", "reward of line 2 must be finite, got 'inf'"),
        ("arm,paid\nx,1\n", r"reward must be a column of the log \(arm, paid\), got 'reward'"),
    ],
)
def test_an_invalid_log_raises_value_error(memory, content, sentence):
    file = memory / "log.csv"
    file.write_text(content)
    with pytest.raises(ValueError, match=sentence):
        kibitz.from_log(file)
    with pytest.raises(ValueError, match=r"log file '.*' does not exist"):
        kibitz.from_log(memory / "none.csv")
    with pytest.raises(ValueError, match="log must be a file, a data frame or a dict"):
        kibitz.from_log(7)


def test_a_log_with_silence_uses_decisions_up_to_the_last_silent_decision(memory):
    """Unsettled decisions are ignored, because the log has their clicks but no missing clicks."""
    setting = {"rewards": "bernoulli", "patience": 10.0, "silence": 0.0, "seed": 1}
    with kibitz.agent(memory / "s.db", "clicks", arms=["blue", "green"], **setting) as agent:
        agent.now = lambda: 2e9
        for number, visit in enumerate(agent.ask(n=8)):
            if number == 3:
                agent.tell(visit.id, True)
        agent.now = lambda: 2e9 + 10
        agent.tell(agent.ask().id, True)  # this decision has not settled
        for suffix in ("csv", "jsonl", "nc"):
            agent.export(memory / f"silent.{suffix}")
            problem = kibitz.from_log(memory / f"silent.{suffix}")
            assert problem.n_observed.sum() == 8
            assert sum(values.sum() for values in problem.values) == 1


def test_a_compacted_log_with_silence_also_ignores_unsettled_decisions(memory):
    """A compaction renumbers the decisions, and can leave no decision that was ever silent."""
    setting = {"rewards": "bernoulli", "patience": 10.0, "silence": 0.0, "seed": 1}
    with kibitz.agent(memory / "s.db", "clicks", arms=["blue", "green"], **setting) as agent:
        clock = [2e9]
        agent.now = lambda: clock[0]
        for _ in range(30):
            clock[0] += 1
            visits = [agent.ask(), agent.ask()]
            agent.tell(visits[0].id, True)
        assert agent.compact(2e9 + 11) > 0
        agent.export(memory / "settled.csv")
        problem = kibitz.from_log(memory / "settled.csv")
        assert problem.n_observed.sum() == 20  # of the visits of 10 s
        assert sum(values.sum() for values in problem.values) == 10
        assert agent.compact(2e9 + 25) > 0
        agent.export(memory / "unsettled.csv")
        with pytest.raises(ValueError, match="log must contain rewards of at least 2 arms, got"):
            kibitz.from_log(memory / "unsettled.csv")


def test_a_declaration_survives_every_format(memory):
    setting = {"rewards": "bounded", "policy": kibitz.ucb(2.0), "seed": 1}
    with kibitz.agent(memory / "d.db", "clicks", arms=["blue", "green"], **setting) as agent:
        for visit in agent.ask(n=4):
            agent.tell(visit.id, 1.0)
        assert agent.declare_rewards("bernoulli") == "declared"
        for suffix in ("csv", "jsonl", "nc"):
            agent.export(memory / f"declared.{suffix}")
            assert kibitz.from_log(memory / f"declared.{suffix}").n_observed.sum() == 4
