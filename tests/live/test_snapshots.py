"""Tests of snapshots for the dashboard: shares of pulls, and one report shared by all streams."""

import asyncio
import contextlib
import json
from collections import Counter

import pytest

import kibitz
from kibitz.live.dashboard import snapshots
from kibitz.live.dashboard.snapshots import Feed, Shares
from kibitz.live.service.changes import Changes
from kibitz.live.store import queries

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Import the libraries that the first report needs, because some tests have short timeouts."""
    import scipy.stats  # noqa: F401
    import xarray  # noqa: F401


def create_agent(url, n_arms=3):
    arms = [f"arm {k}" for k in range(n_arms)]
    return kibitz.agent(url, "shop", arms=arms, policy=kibitz.thompson(), seed=1)


def count_pulls(agent, width):
    """Return the pulls of each arm in each interval of the log, and the start times of intervals."""
    pulls = [event for event in agent.events() if event.kind == "pull"]
    cut = [pulls[k : k + width] for k in range(0, len(pulls), width)]
    return [Counter(event.arm for event in part) for part in cut], [part[0].at for part in cut]


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
            counts, since = count_pulls(agent, shares.width)
            assert len(counts) <= snapshots.N_INTERVALS
            data = shares.to_plain(names, len(names))
            assert data["totals"] == [part.total() for part in counts]
            assert data["since"] == since
            for name, pulls in zip(data["arms"], data["counts"], strict=True):
                assert pulls == [part[name] for part in counts]
        assert shares.width == 32  # 1113 asks in at most 64 intervals
        assert sorted(data["arms"]) == ["arm 0", "arm 1", "arm 2", "late"]
        most = Counter(event.arm for event in agent.events() if event.kind == "pull").most_common(2)
        assert shares.to_plain(names, 2)["arms"] == sorted(name for name, _ in most)


def test_each_decision_is_read_once(memory):
    read = []

    class Reading:
        def __init__(self, database):
            self.database = database

        def rows(self, statement, *values):
            if "from decisions" in statement:
                read.append(values[-2:])
            return self.database.rows(statement, *values)

    shares = Shares()
    with create_agent(memory / "shop.db") as agent:
        for n in (10, 20):
            agent.ask(n=n)
            agent.store.read(lambda database: read_next(shares, Reading(database), 3))
    assert read == [(0, 10), (10, 30)]


def parse(frame):
    """Return the event type and the data of a frame."""
    kind, data, *_ = frame.decode().split("\n")
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_fifty_clients_cost_one_report(memory, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_SNAPSHOT_SECONDS", 0.1)
    reports = []
    last_seen = {}

    async def follow(feed, client):
        async for frame in feed.frames():
            if frame.startswith(b"event"):
                last_seen[client] = parse(frame)[1]["report"]["n_asks"]
            if last_seen.get(client) == 30:
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
    assert last_seen == dict.fromkeys(range(50), 30)
    assert 1 <= len(reports) <= 30  # the fifty clients share each report


async def ask(agent):
    while True:
        await asyncio.to_thread(agent.ask)
        await asyncio.sleep(0.01)


def test_at_most_two_snapshots_a_second(memory):
    received = []

    async def run(agent):
        asking = asyncio.create_task(ask(agent))
        loop = asyncio.get_running_loop()
        end = loop.time() + 2.2
        frames = Feed(agent, Changes(agent.store)).frames()
        while (left := end - loop.time()) > 0:
            try:
                received.append(await asyncio.wait_for(anext(frames), left))
            except TimeoutError:
                break
        asking.cancel()

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))
    assert 2 <= len(received) <= 5
    assert len({parse(frame)[1]["report"]["n_asks"] for frame in received}) == len(received)


def test_an_unavailable_store_is_reported_and_recovered_from(memory, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_SNAPSHOT_SECONDS", 0.05)
    monkeypatch.setattr(snapshots, "KEEPALIVE_SECONDS", 0.1)

    async def next_of(frames, kind):
        while (frame := await anext(frames)).startswith(b":") or parse(frame)[0] != kind:
            pass
        return parse(frame)[1]

    async def run(agent):
        frames = Feed(agent, Changes(agent.store)).frames()
        await next_of(frames, "report")
        reading = agent.store.read

        def broken(work):
            raise kibitz.StoreUnavailable("gone")

        agent.store.read = broken
        assert await next_of(frames, "trouble") == {"message": "the store is unavailable"}
        agent.store.read = reading
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
    built = []

    async def run(agent):
        feed = Feed(agent, Changes(agent.store))
        build = feed._build

        def expensive(*values):
            built.append(1)
            return build(*values)[0], 0.2  # seconds of CPU time

        monkeypatch.setattr(feed, "_build", expensive)
        asking = asyncio.create_task(ask(agent))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.5):
                async for _ in feed.frames():
                    pass
        asking.cancel()

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))
    assert 1 <= len(built) <= 3


def test_the_planner_runs_again_after_five_percent_more_observations(memory, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_SNAPSHOT_SECONDS", 0.02)
    planned = []
    planner = snapshots.looks_saved

    def plan(arms, n_asks, scale):
        planned.append(sum(arm.n_observed for arm in arms))
        return planner(arms, n_asks, scale)

    monkeypatch.setattr(snapshots, "looks_saved", plan)

    async def wait_for(frames, wanted):
        """Wait for a snapshot with `wanted` observations; return its estimate `looks_saved`."""
        while True:
            frame = await anext(frames)
            if frame.startswith(b"event"):
                report = parse(frame)[1]["report"]
                n_observed = sum(arm["n_pulls"] + arm["n_looks"] for arm in report["arms"])
                if n_observed == wanted and report["looks_saved"] is not None:
                    return report["looks_saved"]

    def play(agent, n):
        agent.tell([(one.id, float(one.arm == "arm 1")) for one in agent.ask(n=n)])

    async def run(agent):
        frames = Feed(agent, Changes(agent.store)).frames()
        first = await wait_for(frames, 240)
        assert first == agent.report().looks_saved > 0
        await asyncio.to_thread(play, agent, 12)  # 5 % more observations
        assert await wait_for(frames, 252) == first
        await asyncio.to_thread(play, agent, 1)
        while await wait_for(frames, 253) == first:
            pass
        await frames.aclose()

    with create_agent(memory / "shop.db") as agent:
        for _ in range(10):
            play(agent, 20)
            for _ in range(4):
                look = agent.look()
                agent.tell(look.id, float(look.arm == "arm 1"))
        asyncio.run(run(agent))
    assert planned == [240, 253]
