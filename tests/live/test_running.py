"""Tests of the running service: streams, shutdown, restarts, slow clients, malformed requests."""

import asyncio
import contextlib
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import pytest
from uvicorn.server import ServerState

import kibitz
from kibitz.live.service import auth as tokens, http as wire, server as running
from kibitz.live.service.app import create_app as app

pytestmark = pytest.mark.slow

PATH = "/v1/agents/checkout"


def create_agent(url):
    return kibitz.agent(
        url, "checkout", arms=["blue", "green"], policy=kibitz.ucb(), scale=0.5, seed=1
    )


@pytest.fixture
def shop(memory, listening):
    """Return an agent and the address of its service."""
    url = str(memory / "shop.db")
    with create_agent(url) as agent, listening(url) as address:
        yield agent, urlsplit(address).netloc


class Stream:
    """A connection that reads server-sent events one by one."""

    def __init__(self, host, path, **headers):
        self.connection = http.client.HTTPConnection(host, timeout=20)
        self.connection.request("GET", path, headers={"Accept": "text/event-stream", **headers})
        self.answer = self.connection.getresponse()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.answer.close()
        self.connection.close()

    def next(self):
        """Return the fields of the next event, or None at the end; skip comments."""
        found = {}
        while line := self.answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if line == "\n" and "data" in found:
                return found
            if line != "\n" and name:
                found[name] = value
        return None


# ------------------------------------------------------------------------------------- streams


def test_a_stream_sends_events_of_all_writers_and_resumes(shop):
    agent, host = shop
    with Stream(host, f"{PATH}/events") as stream:
        assert stream.answer.status == 200
        assert stream.answer.getheader("content-type").startswith("text/event-stream")
        assert stream.answer.getheader("cache-control") == "no-store"
        assert [stream.next()["event"] for _ in range(2)] == ["added", "added"]
        began = time.monotonic()
        agent.ask(key="<b>: ä")  # directly in the store, as another process would
        event = stream.next()
        assert time.monotonic() - began < 5
        assert (event["id"], event["event"]) == ("3", "pull")
        told = json.loads(event["data"])
        assert told == next(agent.events(2))._asdict()
        with kibitz.Client(f"http://{host}") as client:
            client.tell(1, 0.5)
        assert stream.next()["event"] == "told"
    with Stream(host, f"{PATH}/events?after=1", **{"Last-Event-ID": "3"}) as stream:
        assert stream.next()["id"] == "4"
    with Stream(host, f"{PATH}/events?after=2") as stream:
        assert stream.next()["id"] == "3"


def test_a_stream_ends_when_its_token_is_revoked(shop):
    agent, host = shop
    token = tokens.create_token(agent.store, "read")
    time.sleep(tokens.TOKEN_CACHE_SECONDS)
    with Stream(host, f"{PATH}/events") as stream:
        assert stream.answer.status == 401
    with Stream(host, f"{PATH}/events?after=2", Authorization=f"Bearer {token}") as stream:
        agent.ask()
        assert stream.next()["id"] == "3"
        tokens.revoke_token(agent.store, 1)
        time.sleep(tokens.TOKEN_CACHE_SECONDS + 0.1)
        agent.ask()
        assert stream.next() is None


def test_many_streams_do_not_slow_down_requests(shop):
    _, host = shop
    streams = [Stream(host, f"{PATH}/events") for _ in range(20)]
    with kibitz.Client(f"http://{host}") as client:
        began = time.monotonic()
        for _ in range(20):
            client.tell(client.ask().id, 1.0)
        assert time.monotonic() - began < 10
    for stream in streams:
        with stream:
            seen = [stream.next()["id"] for _ in range(42)]
            assert seen == [str(n) for n in range(1, 43)]


# ---------------------------------------------------------- slow clients, malformed requests


@contextlib.contextmanager
def sockets(host, n, content):
    name, _, port = host.partition(":")
    opened = [socket.create_connection((name, int(port)), 10) for _ in range(n)]
    try:
        for one in opened:
            one.sendall(content)
        yield opened
    finally:
        for one in opened:
            one.close()


def test_slow_clients_time_out_and_block_nobody(shop, monkeypatch):
    agent, host = shop
    monkeypatch.setattr(running, "MAX_HEADER_SECONDS", 1.0)
    monkeypatch.setattr(wire, "MAX_BODY_SECONDS", 1.0)
    head = f"POST {PATH}/ask HTTP/1.1\r\nHost: localhost\r\n".encode()
    half = head + b"Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        sockets(host, 50, b"") as silent,
        sockets(host, 50, head) as heads,
        sockets(host, 50, half) as halves,
        sockets(host, 5, get) as seconds,
    ):
        for one in seconds:
            answer = http.client.HTTPResponse(one)
            answer.begin()
            assert answer.status == 200
            assert json.loads(answer.read()) == {"status": "ok"}  # the body may come in two parts
            one.sendall(get[:10])
        with kibitz.Client(f"http://{host}") as client:
            assert client.ask().id == 1
        for one in [*silent, *heads]:
            assert one.recv(1000) == b""
        for one in halves:
            answer = http.client.HTTPResponse(one)
            answer.begin()
            assert answer.status == 408
            assert json.loads(answer.read())["error"]["code"] == "too_slow"
            assert one.recv(1000) == b""  # the connection is closed
        for one in seconds:
            assert one.recv(1000) == b""
    assert len(list(agent.events())) == 3


def test_a_body_that_is_too_large_closes_the_connection(shop):
    _, host = shop
    head = f"POST {PATH}/tell HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
    with sockets(host, 1, head.encode()) as [one]:
        answer = http.client.HTTPResponse(one)
        answer.begin()
        assert answer.status == 413
        assert answer.getheader("connection") == "close"
        answer.read()
        with contextlib.suppress(ConnectionError):
            assert one.recv(1000) == b""


class Transport(asyncio.Transport):
    """A connection that records the bytes written to it."""

    def __init__(self):
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data):
        self.written += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        pass

    resume_reading = pause_reading


def nonsense(rng):
    """Return random bytes, or a request with some bytes changed."""
    if rng.random() < 0.5:
        return rng.randbytes(rng.randrange(1, 200))
    request = rng.choice(["GET /v1/agents/checkout", "POST /v1/agents/checkout/tell", "GET /healthz"])
    head = f"{request} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    content = bytearray(f'{head}Content-Length: 21\r\n\r\n{{"id": 9, "reward": 1}}'.encode())
    for _ in range(rng.randrange(1, 6)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


def test_ten_thousand_random_strings_do_not_break_the_parser(memory, monkeypatch):
    monkeypatch.setattr(wire, "MAX_BODY_SECONDS", 0.01)
    url, rng = str(memory / "shop.db"), random.Random(1)
    agent = create_agent(url)
    before = list(agent.events())
    service = app(url)
    config = running.create_server(service).config
    config.load()
    statuses = set()

    async def receive_all():
        loop, state = asyncio.get_running_loop(), ServerState()
        for _ in range(10_000):
            protocol = config.http_protocol_class(config, state, {}, _loop=loop)
            transport = Transport()
            protocol.connection_made(transport)
            sent = nonsense(rng)
            protocol.data_received(sent)
            if state.tasks:
                async with asyncio.timeout(20):
                    await asyncio.gather(*state.tasks)
            if transport.written:
                status = int(transport.written[9:12])
                statuses.add(status)
                assert status < 500 or status == 505, (sent, transport.written)
            protocol._stop_timer()
            protocol._unset_keepalive_if_required()
        await service.state.writer.finish()

    asyncio.run(receive_all())
    assert {400, 404} <= statuses
    assert list(agent.events()) == before
    agent.close()
    service.state.store.close()


def test_malformed_http_is_answered_with_a_json_error(shop):
    _, host = shop
    with sockets(host, 1, b"\x16\x03\x01 hello\r\n\r\n") as [one]:
        answer = http.client.HTTPResponse(one)
        answer.begin()
        assert answer.status == 400
        assert json.loads(answer.read()) == running.NOT_HTTP
        assert answer.getheader("x-content-type-options") == "nosniff"


# --------------------------------------------------------------------------- stops and restarts


class Program:
    """`kibitz serve` in its own process."""

    def __init__(self, url, port=0):
        words = [sys.executable, "-m", "kibitz.cli", "serve", "--store", url, "--port", str(port)]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        assert line.startswith("serving "), self.process.communicate()[1]
        self.address = line.split()[-1]

    def stop(self, sig):
        self.process.send_signal(sig)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


def hammer(host, place, statuses, acknowledged):
    """Ask as fast as possible, without retries, until the service stops."""
    connection = http.client.HTTPConnection(host, timeout=20)
    for n in range(100_000):
        try:
            connection.request("POST", f"{PATH}/ask", headers={"Idempotency-Key": f"{place}-{n}"})
            answer = connection.getresponse()
            content = json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            break
        statuses.append(answer.status)
        if answer.status == 200:
            acknowledged.append(content["id"])
    connection.close()


def test_clients_lose_nothing_when_the_service_is_stopped_or_killed(memory):
    url = str(memory / "shop.db")
    agent = create_agent(url)
    program = Program(url)
    host = urlsplit(program.address).netloc
    statuses, acknowledged, told = [], [], []

    def patient(place):
        with kibitz.Client(program.address, patience=60) as client:
            for n in range(60):
                decision = client.ask(key=f"patient-{place}-{n}")
                told.append((decision.id, client.tell(decision.id, 1.0)))
                time.sleep(0.05)

    threads = [
        *(threading.Thread(target=hammer, args=(host, p, statuses, acknowledged)) for p in range(6)),
        *(threading.Thread(target=patient, args=(p,)) for p in range(4)),
    ]
    stream = Stream(host, f"{PATH}/events?after=2")
    for thread in threads:
        thread.start()
    while len(acknowledged) < 100:
        time.sleep(0.01)
    began = time.monotonic()
    code, errors = program.stop(signal.SIGTERM)
    assert (code, errors) == (0, "")
    assert time.monotonic() - began < 20
    with stream:
        while stream.next() is not None:
            pass  # the stream must end
    port = host.rpartition(":")[2]
    program = Program(url, port)
    time.sleep(0.3)
    assert program.stop(signal.SIGKILL)[0] == -9
    program = Program(url, port)
    for thread in threads:
        thread.join(60)
    assert program.stop(signal.SIGINT) == (0, "")
    assert set(statuses) == {200, 503}
    log = {event.id: event for event in agent.events() if event.kind == "pull"}
    assert set(acknowledged) <= set(log)
    assert len(acknowledged) == len(set(acknowledged))
    assert len(told) == 240
    assert {id for id, _ in told} <= set(log)
    assert sum(arm.n_pulls for arm in agent.arms()) == 240
    assert agent.check() == []
    agent.close()


def test_several_services_on_one_store_count_every_report_once(served, listening):
    url, address = served
    name = "several"
    policy = kibitz.ucb()
    with (
        kibitz.agent(url, name, arms=["a", "b"], policy=policy, scale=0.5) as agent,
        listening(url) as other,
    ):
        ids = []

        def work(place, where):
            with kibitz.Client(where, agent=name) as client:
                for n in range(15):
                    decision = client.ask(key=f"{place % 2}-{n}")  # two clients use the same keys
                    ids.append(decision.id)
                    client.tell(decision.id, 0.5)

        wheres = [address, address, other, other]
        threads = [threading.Thread(target=work, args=pair) for pair in enumerate(wheres)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ids) == sorted([*range(1, 31), *range(1, 31)])
        assert sum(arm.n_pulls for arm in agent.arms()) == 30
        assert agent.check() == []
