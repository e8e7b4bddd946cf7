"""Tests of snapshots for the dashboard: shares of pulls, and one report shared by all streams."""

import asyncio
import contextlib
import json
import threading
from collections import Counter, defaultdict

import pytest

import kibitz
from kibitz.live.agent.report import to_plain
from kibitz.live.dashboard import snapshots
from kibitz.live.dashboard.snapshots import Feed, Shares
from kibitz.live.events import project
from kibitz.live.service.changes import Changes
from kibitz.live.store import queries

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def import_libraries():
    """Import the libraries that the first report needs, because some tests have short timeouts."""
    import scipy.stats  # noqa: F401
    import xarray  # noqa: F401


def create_agent(url, n_arms=3):
    arms = [f"arm {k}" for k in range(n_arms)]
    return kibitz.agent(
        url, "shop", arms=arms, policy=kibitz.thompson(), rewards="gaussian", scale=1.0, seed=1
    )


def count_pulls(agent, width):
    """Return the pulls by arm in each interval of `width` pulls, and the start of each interval."""
    pulls = [event for event in agent.events() if event.kind == "pull"]
    intervals = [pulls[k : k + width] for k in range(0, len(pulls), width)]
    return [Counter(event.arm for event in interval) for interval in intervals], [
        interval[0].at for interval in intervals
    ]


def read_next(shares, database, n_arms):
    return shares.read(database, queries.read_agent(database, "shop"), n_arms)


@pytest.mark.parametrize("limit", [7, 50_000])
def test_shares_agree_with_the_log(url, monkeypatch, limit):
    monkeypatch.setattr(snapshots, "MAX_DECISIONS", limit)
    shares = Shares()
    with create_agent(url) as agent:
        for n in (0, 1, 8, 200, 303, 1, 600):
            if n:
                agent.ask(n=n)
            if n == 303:
                agent.add("late")
            agent.look()
            names = [arm.name for arm in agent.arms()]
            while not agent.store.read(lambda db: read_next(shares, db, len(names))):  # noqa: B023
                pass
            counts, start_times = count_pulls(agent, shares.width)
            assert len(counts) <= snapshots.N_INTERVALS
            data = shares.to_plain(names, len(names))
            assert data["totals"] == [interval_counts.total() for interval_counts in counts]
            assert data["since"] == start_times
            for name, pulls in zip(data["arms"], data["counts"], strict=True):
                assert pulls == [interval_counts[name] for interval_counts in counts]
        assert shares.width == 32  # 1113 asks in at most 64 intervals
        assert sorted(data["arms"]) == ["arm 0", "arm 1", "arm 2", "late"]
        most_pulled = Counter(
            event.arm for event in agent.events() if event.kind == "pull"
        ).most_common(2)
        assert shares.to_plain(names, 2)["arms"] == sorted(name for name, _ in most_pulled)


@pytest.mark.parametrize("limit", [7, 50_000])
def test_means_agree_with_the_log(url, monkeypatch, limit):
    monkeypatch.setattr(snapshots, "MAX_DECISIONS", limit)
    shares, now = Shares(has_means=True), 2e9
    options = {"rewards": "bounded", "patience": 50.0, "silence": 0.25, "alarms": 0.1, "seed": 1}
    with kibitz.agent(url, "shop", arms=["blue", "green"], **options) as agent:
        for batch in range(70):
            now += 10
            agent.now = lambda at=now: at
            decisions = [*agent.ask(n=10), agent.look()]
            agent.tell([(decision.id, decision.id % 7 / 8) for decision in decisions[::2]])
            if batch == 30:
                agent.add("red")
            if batch % 23 == 0:
                agent.forget(decisions[1].id)
                agent.observe("blue", 0.5)
            names = [arm.name for arm in agent.arms()]
            while not agent.store.read(lambda db: read_next(shares, db, len(names))):  # noqa: B023
                pass
        events, config = list(agent.events()), agent.config
        data = shares.to_plain(names, len(names))
    replayed = project(events, config.patience, config.silence, monitor=config.monitor)
    rewards = defaultdict(list)
    for record in replayed.decisions.values():
        if record.place is not None:
            interval = (record.stage - 1) // shares.width
            rewards[names[record.arm], interval].append(record.settled_reward)
    assert shares.width == 16
    for name, means in zip(data["arms"], data["means"], strict=True):
        assert len(means) == len(data["totals"]) == 44
        for interval, mean in enumerate(means):
            settled = rewards.pop((name, interval), None)
            assert mean == (settled and pytest.approx(sum(settled) / len(settled)))
    assert not rewards
    assert shares.n_settled.sum() == replayed.n_settled - 3  # three settled decisions were forgotten


def test_each_decision_is_read_once(memory):
    rows_read = []

    class Reading:
        def __init__(self, database):
            self.database = database

        def execute(self, statement, *values):
            if "from decisions" in statement:
                rows_read.append(values[-2:])
            return self.database.execute(statement, *values)

    shares = Shares()
    with create_agent(memory / "shop.db") as agent:
        for n in (10, 20):
            agent.ask(n=n)
            agent.store.read(lambda database: read_next(shares, Reading(database), 3))
    assert rows_read == [(0, 10), (10, 30)]


def parse(frame):
    """Return the event type and the data of a frame."""
    kind, data, *_ = frame.decode().split("\n")
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_fifty_clients_cost_one_report(memory, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_SNAPSHOT_SECONDS", 0.1)
    reports = []
    last_n_asks = {}

    async def follow(feed, client):
        async for frame in feed.frames():
            if frame.startswith(b"event"):
                last_n_asks[client] = parse(frame)[1]["report"]["n_asks"]
            if last_n_asks.get(client) == 30:
                return

    async def run(agent):
        feed = Feed(agent, Changes(agent.store))
        report = snapshots.report
        monkeypatch.setattr(snapshots, "report", lambda *a, **k: reports.append(1) or report(*a, **k))
        clients = [asyncio.create_task(follow(feed, k)) for k in range(50)]
        for _ in range(30):
            await asyncio.to_thread(agent.ask)
            await asyncio.sleep(0.01)
        await asyncio.wait_for(asyncio.gather(*clients), 10)
        await asyncio.sleep(0.3)
        assert feed._task is None  # without clients there are no snapshots
        n_reports = len(reports)
        await asyncio.to_thread(agent.ask)
        await asyncio.sleep(0.3)
        assert len(reports) == n_reports

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))
    assert last_n_asks == dict.fromkeys(range(50), 30)
    assert 1 <= len(reports) <= 30  # the fifty clients share each report


def read_snapshot(agent):
    """Return the first snapshot of an agent."""

    async def run():
        frames = Feed(agent, Changes(agent.store)).frames()
        content = parse(await anext(frames))[1]
        await frames.aclose()
        return content

    return asyncio.run(run())


def test_a_snapshot_contains_the_verdict(memory):
    """A snapshot has the numbers of `agent.report()` and `agent.verdict()`."""
    with kibitz.agent(
        memory / "shop.db", "shop", arms=["a", "b", "c"], rewards="bernoulli", seed=1
    ) as agent:
        for arm, (clicks, views) in {"a": (60, 2000), "b": (120, 2000)}.items():
            agent.batch([("observe", (arm, float(k < clicks), None)) for k in range(views)])
        report, verdict = read_snapshot(agent)["report"], agent.verdict()
        assert report["verdict"] == verdict.sentence
        assert report["verdict"].startswith("No verdict yet: c not seen.")
        losses = report["loss_high"], report["loss_likely"]
        assert losses == (verdict.loss_high, verdict.loss_likely)
        assert report["remaining"] is verdict.remaining is None
        agent.retire("c")
        assert read_snapshot(agent)["report"]["remaining"] == agent.verdict().remaining == 2000
        agent.batch([("observe", ("b", 1.0, None))] * 80)
        report, verdict = read_snapshot(agent)["report"], agent.verdict()
        assert (verdict.winner, report["remaining"], report["loss_high"]) == ("b", 0, 0.0)
        assert report == to_plain(agent.report())
        assert report["rewards"] == "bernoulli"
        assert [arm["n_settled"] for arm in report["arms"]] == [2000, 2080, 0]
        assert [arm["best"] <= 0.05 for arm in report["arms"]] == [True, False, False]


def test_a_snapshot_without_observations_is_valid_json(memory):
    with create_agent(memory / "shop.db") as agent:
        report = read_snapshot(agent)["report"]
    assert report["verdict"] == "No verdict yet: no arm has a settled reward."
    assert report["loss_high"] == "inf"
    assert report["loss_likely"] is None
    assert [(arm["mean"], arm["n_settled"]) for arm in report["arms"]] == [(None, 0)] * 3


def test_the_verdict_is_computed_outside_the_event_loop(memory, monkeypatch):
    """The event loop stays free while the report of 100 arms is computed."""
    threads = []
    report = snapshots.report

    def record_thread(*values, **options):
        threads.append(threading.get_ident())
        return report(*values, **options)

    monkeypatch.setattr(snapshots, "report", record_thread)
    with create_agent(memory / "shop.db", n_arms=100) as agent:
        agent.tell([(decision.id, 1.0) for decision in agent.ask(n=300)])
        assert len(read_snapshot(agent)["report"]["arms"]) == 100
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def test_decisions_settle_without_an_event(memory, monkeypatch):
    """An idle stream sends new counts when the patience of decisions has passed."""
    monkeypatch.setattr(snapshots, "MIN_SNAPSHOT_SECONDS", 0.05)
    monkeypatch.setattr(snapshots, "KEEPALIVE_SECONDS", 0.1)
    arms, silence = ["a", "b"], {"patience": 600.0, "silence": 0.0}
    options = {"arms": arms, "rewards": "bernoulli", "seed": 1, **silence}

    async def wait_for(frames, counts):
        """Wait until the first arm has the given counts of settled and unsettled decisions."""
        while True:
            frame = await anext(frames)
            if frame.startswith(b"event"):
                arm = parse(frame)[1]["report"]["arms"][0]
                if (arm["n_settled"], arm["n_unsettled"]) == counts:
                    return

    async def run(agent):
        frames = Feed(agent, Changes(agent.store)).frames()
        await asyncio.wait_for(wait_for(frames, (0, 20)), 30)
        later_time = agent.now() + 601
        agent.now = lambda: later_time
        await asyncio.wait_for(wait_for(frames, (20, 0)), 30)
        await frames.aclose()

    with kibitz.agent(memory / "shop.db", "shop", **options) as agent:
        agent.ask(n=20, among=["a"])
        n_events = len(list(agent.events()))
        asyncio.run(run(agent))
        assert len(list(agent.events())) == n_events


async def ask(agent):
    while True:
        await asyncio.to_thread(agent.ask)
        await asyncio.sleep(0.01)


def test_a_stream_sends_at_most_two_snapshots_a_second(memory):
    received = []

    async def run(agent):
        ask_task = asyncio.create_task(ask(agent))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 2.2
        frames = Feed(agent, Changes(agent.store)).frames()
        while (seconds_left := deadline - loop.time()) > 0:
            try:
                received.append(await asyncio.wait_for(anext(frames), seconds_left))
            except TimeoutError:
                break
        ask_task.cancel()

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))
    assert 2 <= len(received) <= 5
    assert len({parse(frame)[1]["report"]["n_asks"] for frame in received}) == len(received)


def test_a_stream_reports_an_unavailable_store_and_recovers(memory, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_SNAPSHOT_SECONDS", 0.05)
    monkeypatch.setattr(snapshots, "KEEPALIVE_SECONDS", 0.1)

    async def next_of(frames, kind):
        while (frame := await anext(frames)).startswith(b":") or parse(frame)[0] != kind:
            pass
        return parse(frame)[1]

    async def run(agent):
        frames = Feed(agent, Changes(agent.store)).frames()
        await next_of(frames, "report")
        original_read = agent.store.read

        def raise_unavailable(work):
            raise kibitz.StoreUnavailable("gone")

        agent.store.read = raise_unavailable
        assert await next_of(frames, "trouble") == {"message": "the store is unavailable"}
        agent.store.read = original_read
        await next_of(frames, "report")
        await frames.aclose()

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))


def test_an_idle_stream_sends_comments(memory, monkeypatch):
    monkeypatch.setattr(snapshots, "KEEPALIVE_SECONDS", 0.1)

    async def run(agent):
        frames = Feed(agent, Changes(agent.store)).frames()
        assert parse(await anext(frames))[0] == "report"
        assert await anext(frames) == b": keep-alive\n\n"
        await frames.aclose()

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))


def test_snapshots_take_at_most_a_fifth_of_a_processor(memory, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_SNAPSHOT_SECONDS", 0.01)
    build_times = []

    async def run(agent):
        feed = Feed(agent, Changes(agent.store))
        original_build = feed._build

        def expensive(*values):
            build_times.append(1)
            return original_build(*values)[0], 0.2  # seconds of CPU time

        monkeypatch.setattr(feed, "_build", expensive)
        ask_task = asyncio.create_task(ask(agent))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.5):
                async for _ in feed.frames():
                    pass
        ask_task.cancel()

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))
    assert 1 <= len(build_times) <= 3


def test_the_planner_runs_again_after_five_percent_more_observations(memory, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_SNAPSHOT_SECONDS", 0.02)
    planned_calls = []
    planner = snapshots.looks_saved

    def estimate_looks_saved(arms, n_asks, scale):
        planned_calls.append(sum(arm.n_observed for arm in arms))
        return planner(arms, n_asks, scale)

    monkeypatch.setattr(snapshots, "looks_saved", estimate_looks_saved)

    async def wait_for(frames, n_expected):
        """Wait for a snapshot with `n_expected` observations; return its estimate `looks_saved`."""
        while True:
            frame = await anext(frames)
            if frame.startswith(b"event"):
                report = parse(frame)[1]["report"]
                n_observed = sum(arm["n_pulls"] + arm["n_looks"] for arm in report["arms"])
                if n_observed == n_expected and report["looks_saved"] is not None:
                    return report["looks_saved"]

    def play(agent, n):
        agent.tell([(decision.id, float(decision.arm == "arm 1")) for decision in agent.ask(n=n)])

    async def run(agent):
        frames = Feed(agent, Changes(agent.store)).frames()
        first_estimate = await wait_for(frames, 240)
        assert first_estimate == agent.report().looks_saved > 0
        await asyncio.to_thread(play, agent, 12)  # 5 % more observations
        assert await wait_for(frames, 252) == first_estimate
        await asyncio.to_thread(play, agent, 1)
        while await wait_for(frames, 253) == first_estimate:
            pass
        await frames.aclose()

    with create_agent(memory / "shop.db") as agent:
        for _ in range(10):
            play(agent, 20)
            for _ in range(4):
                look = agent.look()
                agent.tell(look.id, float(look.arm == "arm 1"))
        asyncio.run(run(agent))
    assert planned_calls == [240, 253]
