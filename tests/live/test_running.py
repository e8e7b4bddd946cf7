"""Tests of the running service: streams, shutdown, restarts, slow clients, malformed requests."""

import asyncio
import contextlib
import gc
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from urllib.parse import urlsplit

import pytest
from uvicorn.server import ServerState

import kibitz
from kibitz.live.service import auth as tokens, http as wire, server as server_module
from kibitz.live.service.app import create_app as app

pytestmark = pytest.mark.slow

PATH = "/v1/agents/checkout"


def create_agent(url):
    return kibitz.agent(
        url,
        "checkout",
        arms=["blue", "green"],
        policy=kibitz.ucb(),
        rewards="gaussian",
        scale=0.5,
        seed=1,
    )


@pytest.fixture
def agent_and_host(memory, serve_store):
    """Return an agent and the address of its service."""
    url = str(memory / "shop.db")
    with create_agent(url) as agent, serve_store(url) as address:
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

    def read_event(self):
        """Return the fields of the next event, or None at the end of the stream; skip comments."""
        fields = {}
        while line := self.answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if line == "\n" and "data" in fields:
                return fields
            if line != "\n" and name:
                fields[name] = value
        return None


# ------------------------------------------------------------------------------------- streams


def test_a_stream_sends_events_of_all_writers_and_resumes(agent_and_host):
    agent, host = agent_and_host
    with Stream(host, f"{PATH}/events") as stream:
        assert stream.answer.status == 200
        assert stream.answer.getheader("content-type").startswith("text/event-stream")
        assert stream.answer.getheader("cache-control") == "no-store"
        assert [stream.read_event()["event"] for _ in range(2)] == ["added", "added"]
        start = time.monotonic()
        agent.ask(key="<b>: ä")  # directly in the store, as another process would
        event = stream.read_event()
        assert time.monotonic() - start < 5
        assert (event["id"], event["event"]) == ("3", "pull")
        tell_event = json.loads(event["data"])
        assert tell_event == next(agent.events(2))._asdict()
        with kibitz.Client(f"http://{host}") as client:
            client.tell(1, 0.5)
        assert stream.read_event()["event"] == "told"
    with Stream(host, f"{PATH}/events?after=1", **{"Last-Event-ID": "3"}) as stream:
        assert stream.read_event()["id"] == "4"
    with Stream(host, f"{PATH}/events?after=2") as stream:
        assert stream.read_event()["id"] == "3"


def test_a_stream_ends_when_its_token_is_revoked(agent_and_host):
    agent, host = agent_and_host
    token = tokens.create_token(agent.store, "read")
    time.sleep(tokens.TOKEN_CACHE_SECONDS)
    with Stream(host, f"{PATH}/events") as stream:
        assert stream.answer.status == 401
    with Stream(host, f"{PATH}/events?after=2", Authorization=f"Bearer {token}") as stream:
        agent.ask()
        assert stream.read_event()["id"] == "3"
        tokens.revoke_token(agent.store, 1)
        time.sleep(tokens.TOKEN_CACHE_SECONDS + 0.1)
        agent.ask()
        assert stream.read_event() is None


def test_many_streams_do_not_slow_down_requests(agent_and_host):
    _, host = agent_and_host
    streams = [Stream(host, f"{PATH}/events") for _ in range(20)]
    with kibitz.Client(f"http://{host}") as client:
        start = time.monotonic()
        for _ in range(20):
            client.tell(client.ask().id, 1.0)
        assert time.monotonic() - start < 10
    for stream in streams:
        with stream:
            event_ids = [stream.read_event()["id"] for _ in range(42)]
            assert event_ids == [str(n) for n in range(1, 43)]


# ---------------------------------------------------------- slow clients, malformed requests


@contextlib.contextmanager
def open_sockets(host, n, content):
    name, _, port = host.partition(":")
    connections = [socket.create_connection((name, int(port)), 10) for _ in range(n)]
    try:
        for connection in connections:
            connection.sendall(content)
        yield connections
    finally:
        for connection in connections:
            connection.close()


def test_slow_clients_time_out_and_block_nobody(agent_and_host, monkeypatch):
    agent, host = agent_and_host
    monkeypatch.setattr(server_module, "MAX_HEADER_SECONDS", 1.0)
    monkeypatch.setattr(wire, "MAX_BODY_SECONDS", 1.0)
    head = f"POST {PATH}/ask HTTP/1.1\r\nHost: localhost\r\n".encode()
    partial_request = head + b"Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        open_sockets(host, 50, b"") as silent_sockets,
        open_sockets(host, 50, head) as head_sockets,
        open_sockets(host, 50, partial_request) as partial_sockets,
        open_sockets(host, 5, get) as reused_sockets,
    ):
        for client_socket in reused_sockets:
            answer = http.client.HTTPResponse(client_socket)
            answer.begin()
            assert answer.status == 200
            assert json.loads(answer.read()) == {"status": "ok"}  # the body may come in two parts
            client_socket.sendall(get[:10])
        with kibitz.Client(f"http://{host}") as client:
            assert client.ask().id == 1
        for client_socket in [*silent_sockets, *head_sockets]:
            assert client_socket.recv(1000) == b""
        for client_socket in partial_sockets:
            answer = http.client.HTTPResponse(client_socket)
            answer.begin()
            assert answer.status == 408
            assert json.loads(answer.read())["error"]["code"] == "too_slow"
            assert client_socket.recv(1000) == b""  # the service closed the connection
        for client_socket in reused_sockets:
            assert client_socket.recv(1000) == b""
    assert len(list(agent.events())) == 3


def test_a_body_that_is_too_large_closes_the_connection(agent_and_host):
    _, host = agent_and_host
    head = f"POST {PATH}/tell HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
    with open_sockets(host, 1, head.encode()) as [connection]:
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 413
        assert answer.getheader("connection") == "close"
        answer.read()
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1000) == b""


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


def make_random_bytes(rng):
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
    events_before = list(agent.events())
    service = app(url)
    config = server_module.create_server(service).config
    config.load()
    statuses = set()

    async def receive_all():
        loop, state = asyncio.get_running_loop(), ServerState()
        for _ in range(10_000):
            protocol = config.http_protocol_class(config, state, {}, _loop=loop)
            transport = Transport()
            protocol.connection_made(transport)
            sent_bytes = make_random_bytes(rng)
            protocol.data_received(sent_bytes)
            if state.tasks:
                async with asyncio.timeout(20):
                    await asyncio.gather(*state.tasks)
            if transport.written:
                status = int(transport.written[9:12])
                statuses.add(status)
                assert status < 500 or status == 505, (sent_bytes, transport.written)
            protocol.connection_lost(None)
        await service.state.writer.finish()

    asyncio.run(receive_all())
    assert {400, 404} <= statuses
    assert list(agent.events()) == events_before
    agent.close()
    service.state.tokens.store.close()
    service.state.store.close()


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
def test_a_lost_connection_is_freed_at_once(memory, error):
    """If a timer kept lost connections, clients that reset connections would fill the memory."""
    url = str(memory / "shop.db")
    create_agent(url).close()
    service = app(url)
    config = server_module.create_server(service).config
    config.load()

    async def lose_connection():
        loop, state = asyncio.get_running_loop(), ServerState()
        protocol = config.http_protocol_class(config, state, {}, _loop=loop)
        protocol.connection_made(Transport())
        protocol.data_received(b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.gather(*state.tasks)
        assert protocol.transport.written.startswith(b"HTTP/1.1 200")
        protocol.connection_lost(error)
        await asyncio.sleep(0)
        return weakref.ref(protocol)

    async def run():
        reference = await lose_connection()
        gc.collect()
        assert reference() is None

    asyncio.run(run())
    service.state.tokens.store.close()
    service.state.store.close()


def test_malformed_http_is_answered_with_a_json_error(agent_and_host):
    _, host = agent_and_host
    with open_sockets(host, 1, b"\x16\x03\x01 hello\r\n\r\n") as [connection]:
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 400
        assert json.loads(answer.read()) == server_module.NOT_HTTP_ERROR
        assert answer.getheader("x-content-type-options") == "nosniff"


@pytest.mark.parametrize(
    ("version", "framing"),
    [
        ("1.1", "Content-Length: 4\r\nTransfer-Encoding: chunked"),
        ("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 0"),
        ("1.1", "Content-Length: 4\r\ntransfer-encoding:\tChunked"),
        ("1.1", "Content-Length: 4\r\nContent-Length: 5"),
        ("1.1", "Transfer-Encoding: chunked, identity"),
        ("1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked"),
    ],
)
def test_an_ambiguous_length_is_rejected_and_the_connection_closed(agent_and_host, version, framing):
    """If a proxy assumes another length, the body could hide a second request from the proxy."""
    agent, host = agent_and_host
    hidden_request = f"POST {PATH}/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    for path in (f"POST {PATH}/ask", f"GET {PATH}", "POST /nowhere", "GET /docs"):
        head = f"{path} HTTP/{version}\r\nHost: localhost\r\n{framing}\r\n\r\n"
        with open_sockets(host, 1, f"{head}0\r\n\r\n{hidden_request}".encode()) as [connection]:
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            assert (answer.status, answer.getheader("connection")) == (400, "close")
            assert json.loads(answer.read())["error"]["code"] == "bad_request"
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1000) == b""
    assert len(list(agent.events())) == 2


# --------------------------------------------------------------------------- stops and restarts


class Program:
    """A process that runs `kibitz serve`."""

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


def ask_until_stopped(host, number, statuses, acknowledged):
    """Ask as fast as possible, without retries, until the service stops."""
    connection = http.client.HTTPConnection(host, timeout=20)
    for n in range(100_000):
        try:
            connection.request("POST", f"{PATH}/ask", headers={"Idempotency-Key": f"{number}-{n}"})
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
    statuses, acknowledged, tell_results = [], [], []

    def ask_with_retries(number):
        with kibitz.Client(program.address, patience=60) as client:
            for n in range(60):
                decision = client.ask(key=f"patient-{number}-{n}")
                tell_results.append((decision.id, client.tell(decision.id, 1.0)))
                time.sleep(0.05)

    threads = [
        *(
            threading.Thread(target=ask_until_stopped, args=(host, p, statuses, acknowledged))
            for p in range(6)
        ),
        *(threading.Thread(target=ask_with_retries, args=(p,)) for p in range(4)),
    ]
    stream = Stream(host, f"{PATH}/events?after=2")
    for thread in threads:
        thread.start()
    while len(acknowledged) < 100:
        time.sleep(0.01)
    start = time.monotonic()
    code, errors = program.stop(signal.SIGTERM)
    assert (code, errors) == (0, "")
    assert time.monotonic() - start < 20
    with stream:
        while stream.read_event() is not None:
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
    pulls_by_id = {event.id: event for event in agent.events() if event.kind == "pull"}
    assert set(acknowledged) <= set(pulls_by_id)
    assert len(acknowledged) == len(set(acknowledged))
    assert len(tell_results) == 240
    assert {id for id, _ in tell_results} <= set(pulls_by_id)
    assert sum(arm.n_pulls for arm in agent.arms()) == 240
    assert agent.check() == []
    agent.close()


def test_several_services_on_one_store_count_every_report_once(store_and_address, serve_store):
    url, address = store_and_address
    name = "several"
    policy = kibitz.ucb()
    with (
        kibitz.agent(
            url, name, arms=["a", "b"], policy=policy, rewards="gaussian", scale=0.5
        ) as agent,
        serve_store(url) as other_address,
    ):
        ids = []

        def work(number, address):
            with kibitz.Client(address, agent=name) as client:
                for n in range(15):
                    decision = client.ask(key=f"{number % 2}-{n}")  # two clients use the same keys
                    ids.append(decision.id)
                    client.tell(decision.id, 0.5)

        addresses = [address, address, other_address, other_address]
        threads = [
            threading.Thread(target=work, args=arguments) for arguments in enumerate(addresses)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ids) == sorted([*range(1, 31), *range(1, 31)])
        assert sum(arm.n_pulls for arm in agent.arms()) == 30
        assert agent.check() == []
