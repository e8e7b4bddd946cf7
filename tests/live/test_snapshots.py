"""Shares of pulls over the asks, and the picture that all watchers of an agent share."""

import asyncio
import contextlib
import json
from collections import Counter

import pytest

import kibitz
from kibitz.live.dashboard import snapshots as shares, snapshots as watched
from kibitz.live.dashboard.snapshots import Watched
from kibitz.live.service.changes import Changes
from kibitz.live.store import queries

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Import what the first report would import, so that no test waits for it."""
    import scipy.stats  # noqa: F401
    import xarray  # noqa: F401


def create_agent(url, n_arms=3):
    arms = [f"arm {k}" for k in range(n_arms)]
    return kibitz.agent(url, "shop", arms=arms, policy=kibitz.thompson(), seed=1)


def counted(agent, width):
    """Return the pulls of each arm in each stretch, and its beginning, from the log itself."""
    pulls = [event for event in agent.events() if event.kind == "pull"]
    cut = [pulls[k : k + width] for k in range(0, len(pulls), width)]
    return [Counter(event.arm for event in part) for part in cut], [part[0].at for part in cut]


def read_next(found, database, n_arms):
    return found.read(database, queries.read_agent(database, "shop"), n_arms)


@pytest.mark.parametrize("piece", [7, 50_000])
def test_shares_agree_with_the_log(url, monkeypatch, piece):
    monkeypatch.setattr(shares, "MAX_DECISIONS", piece)
    found = shares.Shares()
    with create_agent(url) as agent:
        for n in (0, 1, 8, 200, 303, 1, 600):
            if n:
                agent.ask(n=n)
            if n == 303:
                agent.add("late")
            agent.look()
            names = [arm.name for arm in agent.arms()]
            while not agent.store.read(lambda db: read_next(found, db, len(names))):  # noqa: B023
                pass
            counts, since = counted(agent, found.width)
            assert len(counts) <= shares.N_INTERVALS
            shown = found.as_data(names, len(names))
            assert shown["totals"] == [part.total() for part in counts]
            assert shown["since"] == since
            for name, drawn in zip(shown["arms"], shown["counts"], strict=True):
                assert drawn == [part[name] for part in counts]
        assert found.width == 32  # 1113 asks in at most 64 stretches
        assert sorted(shown["arms"]) == ["arm 0", "arm 1", "arm 2", "late"]
        most = Counter(event.arm for event in agent.events() if event.kind == "pull").most_common(2)
        assert found.as_data(names, 2)["arms"] == sorted(name for name, _ in most)


def test_each_decision_is_read_once(memory):
    read = []

    class Reading:
        def __init__(self, database):
            self.database = database

        def rows(self, statement, *values):
            if "from decisions" in statement:
                read.append(values[-2:])
            return self.database.rows(statement, *values)

    found = shares.Shares()
    with create_agent(memory / "shop.db") as agent:
        for n in (10, 20):
            agent.ask(n=n)
            agent.store.read(lambda database: read_next(found, Reading(database), 3))
    assert read == [(0, 10), (10, 30)]


def told(frame):
    """Return what a frame says, without its name."""
    kind, data, *_ = frame.decode().split("\n")
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_fifty_clients_cost_one_report(memory, monkeypatch):
    monkeypatch.setattr(watched, "MIN_SNAPSHOT_SECONDS", 0.1)
    reports = []
    last_seen = {}

    async def look(here, who):
        async for frame in here.frames():
            if frame.startswith(b"event"):
                last_seen[who] = told(frame)[1]["report"]["n_asks"]
            if last_seen.get(who) == 30:
                return

    async def run(agent):
        here = Watched(agent, Changes(agent.store))
        drawing = watched.report
        monkeypatch.setattr(watched, "report", lambda *a, **k: reports.append(1) or drawing(*a, **k))
        watchers = [asyncio.create_task(look(here, k)) for k in range(50)]
        for _ in range(30):
            await asyncio.to_thread(agent.ask)
            await asyncio.sleep(0.01)
        await asyncio.wait_for(asyncio.gather(*watchers), 10)
        await asyncio.sleep(0.3)
        assert here._task is None  # nobody watches, nobody draws
        n_reports = len(reports)
        await asyncio.to_thread(agent.ask)
        await asyncio.sleep(0.3)
        assert len(reports) == n_reports

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))
    assert last_seen == dict.fromkeys(range(50), 30)
    assert 1 <= len(reports) <= 30  # not fifty times as many


async def ask(agent):
    while True:
        await asyncio.to_thread(agent.ask)
        await asyncio.sleep(0.01)


def test_at_most_two_snapshots_a_second(memory):
    drawn = []

    async def run(agent):
        here = Watched(agent, Changes(agent.store))
        asking = asyncio.create_task(ask(agent))
        loop = asyncio.get_running_loop()
        end = loop.time() + 2.2
        frames = here.frames()
        while (left := end - loop.time()) > 0:
            try:
                drawn.append(await asyncio.wait_for(anext(frames), left))
            except TimeoutError:
                break
        asking.cancel()

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))
    assert 2 <= len(drawn) <= 5
    assert len({told(frame)[1]["report"]["n_asks"] for frame in drawn}) == len(drawn)


def test_an_unavailable_store_is_reported_and_recovered_from(memory, monkeypatch):
    monkeypatch.setattr(watched, "MIN_SNAPSHOT_SECONDS", 0.05)
    monkeypatch.setattr(watched, "KEEPALIVE_SECONDS", 0.1)

    async def next_of(frames, kind):
        while (frame := await anext(frames)).startswith(b":") or told(frame)[0] != kind:
            pass
        return told(frame)[1]

    async def run(agent):
        frames = Watched(agent, Changes(agent.store)).frames()
        await next_of(frames, "report")
        reading = agent.store.read

        def broken(work):
            raise kibitz.StoreUnavailable("gone")

        agent.store.read = broken
        said = await next_of(frames, "trouble")
        assert said == {"message": "the store cannot be used at the moment"}
        agent.store.read = reading
        await next_of(frames, "report")
        await frames.aclose()

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))


def test_an_idle_stream_sends_comments(memory, monkeypatch):
    monkeypatch.setattr(watched, "KEEPALIVE_SECONDS", 0.1)

    async def run(agent):
        frames = Watched(agent, Changes(agent.store)).frames()
        assert told(await anext(frames))[0] == "report"
        assert await anext(frames) == b": still here\n\n"
        await frames.aclose()

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))


def test_snapshots_take_at_most_a_fifth_of_a_processor(memory, monkeypatch):
    monkeypatch.setattr(watched, "MIN_SNAPSHOT_SECONDS", 0.01)
    drawn = []

    async def run(agent):
        here = Watched(agent, Changes(agent.store))
        drawing = here._draw

        def expensive(*values):
            drawn.append(1)
            return drawing(*values)[0], 0.2  # seconds of a processor's time

        monkeypatch.setattr(here, "_draw", expensive)
        asking = asyncio.create_task(ask(agent))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.5):
                async for _ in here.frames():
                    pass
        asking.cancel()

    with create_agent(memory / "shop.db") as agent:
        asyncio.run(run(agent))
    assert 1 <= len(drawn) <= 3


def test_the_planner_runs_again_after_five_percent_more_observations(memory, monkeypatch):
    monkeypatch.setattr(watched, "MIN_SNAPSHOT_SECONDS", 0.02)
    planned = []
    planner = watched.looks_saved

    def plan(arms, n_asks, scale):
        planned.append(sum(arm.n_observed for arm in arms))
        return planner(arms, n_asks, scale)

    monkeypatch.setattr(watched, "looks_saved", plan)

    async def seen(frames, wanted):
        """Wait for a picture that has so many observations and what was planned last."""
        while True:
            frame = await anext(frames)
            if frame.startswith(b"event"):
                shown = told(frame)[1]["report"]
                n_observed = sum(arm["n_pulls"] + arm["n_looks"] for arm in shown["arms"])
                if n_observed == wanted and shown["looks_saved"] is not None:
                    return shown["looks_saved"]

    def play(agent, n):
        agent.tell([(one.id, float(one.arm == "arm 1")) for one in agent.ask(n=n)])

    async def run(agent):
        frames = Watched(agent, Changes(agent.store)).frames()
        first = await seen(frames, 240)
        assert first == agent.report().looks_saved > 0
        await asyncio.to_thread(play, agent, 12)  # a twentieth
        assert await seen(frames, 252) == first
        await asyncio.to_thread(play, agent, 1)
        while await seen(frames, 253) == first:
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
