"""Tests that one client cannot block others: streams, reads, large requests, connections."""

import asyncio
import contextlib
import gc
import http.client
import json
import re
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

import kibitz
from kibitz.live.service import app as service_app, auth, group_commit, reads, server, streams

pytestmark = pytest.mark.slow

PATH = "/v1/agents/checkout"
STREAM = {"accept": "text/event-stream"}
N_EVENTS = 4_002  # events of the long log, including two added arms


@pytest.fixture
def url(memory):
    """Return the address of a store with an agent that has a long log with long keys."""
    url = str(memory / "shop.db")
    with kibitz.agent(url, "checkout", arms=["blue", "green"], rewards="bernoulli", seed=1) as agent:
        for start in range(0, N_EVENTS - 2, 1000):
            keys = [f"{start + n}-{'k' * 480}" for n in range(1000)]
            agent.batch([("observe", ("blue", 1.0, key)) for key in keys])
    return url


def expire_tokens(service):
    """Expire the cached tokens, so the next request reads them from the store."""
    service.app.state.tokens._read_at = -10.0


# ------------------------------------------------------------------------------------- streams


async def read_stream(app, path, max_chunks, on_chunk, token=None):
    """Read `max_chunks` chunks of a stream, directly from the application; return the status."""
    headers = [(b"host", b"localhost"), (b"accept", b"text/event-stream")]
    headers += [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "method": "GET", "scheme": "http", "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "headers": headers, "state": {},
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    is_read, statuses, chunks = asyncio.Event(), [], []

    async def receive():
        await is_read.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            return
        chunks.append(message["body"])
        on_chunk(message["body"])
        if len(chunks) == max_chunks:
            is_read.set()

    await app(scope, receive, send)
    return statuses[0]


def test_other_requests_get_their_turn_between_two_chunks_of_a_stream(url, service):
    """A stream from the first event sends a bounded chunk, then lets the event loop run."""
    running_service = service(url)
    n_iterations, iterations, content = 0, [], []

    def note_chunk(chunk):
        iterations.append(n_iterations)
        content.append(chunk)

    async def count_iterations():
        nonlocal n_iterations
        while True:
            n_iterations += 1
            await asyncio.sleep(0)

    async def run():
        counter = asyncio.create_task(count_iterations())
        n_chunks = 2 + N_EVENTS // service_app.CHUNK_SIZE
        async with asyncio.timeout(60):
            await read_stream(running_service.app, f"{PATH}/events", n_chunks, note_chunk)
        counter.cancel()

    running_service.loop.run_until_complete(run())
    assert len(set(iterations)) == len(iterations)  # never two chunks in one iteration
    ids = [int(id) for id in re.findall(rb"^id: (\d+)$", b"".join(content), re.M)]
    assert ids == list(range(1, N_EVENTS + 1))
    assert max(chunk.count(b"\nevent: ") for chunk in content) <= service_app.CHUNK_SIZE == 250


def test_streams_at_the_same_event_share_one_read(url, service, monkeypatch):
    running_service = service(url)
    n_reads, read_page = [], service_app._read_page
    monkeypatch.setattr(
        service_app, "_read_page", lambda *values: n_reads.append(1) or read_page(*values)
    )

    async def run():
        path = f"{PATH}/events"
        async with asyncio.timeout(60):
            await asyncio.gather(
                *(read_stream(running_service.app, path, 3, lambda _: None) for _ in range(30))
            )

    running_service.loop.run_until_complete(run())
    assert len(n_reads) < 30


def test_a_token_may_open_a_limited_number_of_streams(url, serve_store, monkeypatch):
    monkeypatch.setattr(streams, "MAX_STREAMS", 3)
    with kibitz.agent(url, "checkout") as agent:
        tokens = [auth.create_token(agent.store, "read") for _ in range(2)]

    def connect(token, path="events"):
        connection = http.client.HTTPConnection(host, timeout=20)
        headers = {**STREAM, "Authorization": f"Bearer {token}"}
        connection.request("GET", f"{PATH}/{path}?after={N_EVENTS}", headers=headers)
        return connection, connection.getresponse()

    with serve_store(url) as address, contextlib.ExitStack() as connections:
        host = urlsplit(address).netloc
        opened = [connect(tokens[0], path) for path in ("events", "watch", "events")]
        for connection, answer in opened:
            connections.enter_context(contextlib.closing(connection))
            connections.enter_context(contextlib.closing(answer))
            assert answer.status == 200
        for path in ("events", "watch"):
            connection, answer = connect(tokens[0], path)
            error = json.loads(answer.read())["error"]
            assert (answer.status, answer.getheader("retry-after")) == (429, "1")
            assert error["code"] == "too_many"
            assert error["message"].startswith("this token has 3 open streams already; close")
            connection.close()
        connection, answer = connect(tokens[1])  # another token has its own limit
        assert answer.status == 200
        connections.enter_context(contextlib.closing(connection))
        connections.enter_context(contextlib.closing(answer))
        opened[0][1].close()
        opened[0][0].close()
        deadline = time.monotonic() + 20
        while True:
            connection, answer = connect(tokens[0])
            answer.close()
            connection.close()
            if answer.status == 200:
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)


def open_socket(host, content):
    """Open a connection with a small receive buffer, send `content`, and return the connection."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(30)
    name, _, port = host.partition(":")
    connection.connect((name, int(port)))
    connection.sendall(content)
    return connection


def get(path, **headers):
    lines = [f"{name}: {value}" for name, value in {"Host": "localhost", **headers}.items()]
    return "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()


def test_a_slow_reader_is_dropped_with_a_last_event(url, serve_store, monkeypatch):
    """The client gets complete events and then the event `dropped`; the buffers are bounded."""
    monkeypatch.setattr(server, "MAX_WRITE_SECONDS", 0.5)
    monkeypatch.setattr(server, "LAST_WRITE_SECONDS", 20.0)
    with serve_store(url) as address:
        host = urlsplit(address).netloc
        with open_socket(host, get(f"{PATH}/events", **STREAM)) as connection:
            time.sleep(1.5)
            content = b""
            while data := connection.recv(65536):
                content += data
    assert content.endswith(b"\r\n0\r\n\r\n")  # the response is complete
    body = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", content)
    assert body.count(streams.DROPPED) == 1
    ids = [int(id) for id in re.findall(rb"^id: (\d+)$", body, re.M)]
    assert ids == list(range(1, len(ids) + 1))
    assert 0 < len(ids) < N_EVENTS
    assert len(content) < 1_000_000  # the whole log has about 2.6 MB


@pytest.mark.parametrize("path", ["events", "export?format=jsonl"])
def test_a_client_that_never_reads_is_disconnected(url, serve_store, monkeypatch, path):
    monkeypatch.setattr(server, "MAX_WRITE_SECONDS", 0.3)
    monkeypatch.setattr(server, "LAST_WRITE_SECONDS", 0.3)
    with serve_store(url) as address:
        request = get(f"{PATH}/{path}", **STREAM)
        with open_socket(urlsplit(address).netloc, request) as connection:
            deadline = time.monotonic() + 20
            while not connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                assert time.monotonic() < deadline
                time.sleep(0.05)


class Content(bytes):
    """A chunk of a stream; `n_live` is the number of chunks in memory."""

    n_live = 0

    def __new__(cls, content):
        cls.n_live += 1
        return super().__new__(cls, content)

    def __del__(self):
        type(self).n_live -= 1


@pytest.mark.parametrize("path", ["events", "export?format=jsonl"])
def test_a_stream_frees_its_chunks_when_the_client_leaves(url, serve_store, monkeypatch, path):
    """The chunks are freed at once, without the garbage collector."""
    read_chunk, as_lines = service_app._read_chunk, service_app.as_lines

    def read_content(agent, after):
        chunk = read_chunk(agent, after)
        return chunk._replace(content=Content(chunk.content))

    monkeypatch.setattr(service_app, "_read_chunk", read_content)
    monkeypatch.setattr(service_app, "as_lines", lambda events: map(Content, as_lines(events)))
    gc.collect()
    gc.disable()
    try:
        with serve_store(url) as address:
            for _ in range(5):
                request = get(f"{PATH}/{path}", **STREAM)
                with open_socket(urlsplit(address).netloc, request) as connection:
                    deadline = time.monotonic() + 20
                    while Content.n_live == 0:
                        assert time.monotonic() < deadline
                        time.sleep(0.01)
                    connection.recv(100)
            while Content.n_live > 0:
                assert time.monotonic() < deadline
                time.sleep(0.05)
    finally:
        gc.enable()


# ----------------------------------------------------------------------------------------- reads


def test_requests_that_wait_to_answer_share_the_latest_result():
    """Results of many reads of the same page do not pile up while the event loop is busy."""
    gc.collect()
    n_before = Content.n_live

    async def run():
        log = reads.Reads("test", 1.0)
        await log._turn.acquire()  # no request may answer
        tasks = []
        for n in range(10):
            tasks.append(asyncio.create_task(log.get("page", lambda n=n: Content(b"%d" % n))))
            while log._results.get("page", [None])[0] != b"%d" % n:
                await asyncio.sleep(0.01)
        n_live = Content.n_live - n_before
        log._turn.release()
        answers = await asyncio.gather(*tasks)
        log.stop()
        return n_live, answers, log._results

    n_live, answers, left = asyncio.run(run())
    assert n_live <= 2
    assert set(answers) == {b"9"}
    assert not left


def test_concurrent_reports_are_computed_once_after_each_change(url, service, monkeypatch):
    running_service = service(url)
    n_computed, compute = [], kibitz.Agent.report

    def count(agent, delta):
        n_computed.append(delta)
        time.sleep(0.05)
        return compute(agent, delta)

    monkeypatch.setattr(kibitz.Agent, "report", count)
    # on a slow machine, a report may be too old before the next requests arrive
    monkeypatch.setattr("kibitz.live.service.reads.MAX_AGE_SECONDS", 1e9)

    async def send_all(path=PATH):
        calls = [running_service.call("GET", path) for _ in range(100)]
        return await asyncio.gather(*calls)

    def read_all(path=PATH):
        answers = running_service.loop.run_until_complete(send_all(path))
        assert {answer[0] for answer in answers} == {200}
        contents = {json.dumps(answer[2]) for answer in answers}
        assert len(contents) == 1
        return json.loads(contents.pop())

    assert read_all()["n_asks"] == 0
    assert len(n_computed) == 1
    assert read_all()["n_asks"] == 0
    assert len(n_computed) == 1  # nothing has changed
    assert read_all(f"{PATH}?delta=0.1")["delta"] == 0.1
    assert n_computed == [0.05, 0.1]
    for n in range(1, 4):  # a report includes every operation that was answered before it
        running_service.send("POST", f"{PATH}/ask")
        assert read_all()["n_asks"] == n
        assert len(n_computed) == 2 + n


def test_a_report_without_changes_is_computed_again_after_some_seconds(url, service):
    running_service = service(url)
    running_service.send("POST", f"{PATH}/ask")
    agent = running_service.app.state.agents["checkout"]
    now = time.time()
    agent.now = lambda: now
    ages = []
    for seconds in (0.0, 0.9, 1.1):
        agent.now = lambda: now + seconds * reads.MAX_AGE_SECONDS  # noqa: B023 (used at once)
        report = running_service.send("GET", PATH)[2]
        ages.append(max(arm["oldest"] or 0.0 for arm in report["arms"]))
    assert ages[0] == ages[1] < ages[2] - reads.MAX_AGE_SECONDS


def test_asks_do_not_wait_for_reports(url, service, monkeypatch):
    """While 100 slow reports wait, the service answers an ask, even if it must read the tokens."""
    running_service, may_finish = service(url), threading.Event()
    running_service.send("GET", PATH)
    monkeypatch.setattr(kibitz.Agent, "report", lambda agent, delta: may_finish.wait(60))
    monkeypatch.setattr(reads, "to_plain", lambda report: {})

    async def run():
        paths = [f"{PATH}?delta={0.001 * n}" for n in range(1, 101)]
        reports = [asyncio.ensure_future(running_service.call("GET", path)) for path in paths]
        await asyncio.sleep(0.1)
        expire_tokens(running_service)
        try:
            async with asyncio.timeout(20):
                answer = await running_service.call("POST", f"{PATH}/ask")
        finally:
            may_finish.set()
        await asyncio.gather(*reports)
        return answer

    assert running_service.loop.run_until_complete(run())[0] == 200


def test_asks_do_not_wait_for_a_long_read_of_the_store(url, service):
    running_service, may_finish, has_begun = service(url), threading.Event(), threading.Event()

    def read(database):
        has_begun.set()
        may_finish.wait(60)

    store = running_service.app.state.store
    reader = threading.Thread(target=store.read, args=(read,))
    reader.start()
    has_begun.wait(20)

    async def ask():
        async with asyncio.timeout(20):  # the first request also opens the agent
            return await running_service.call("POST", f"{PATH}/ask")

    try:
        assert running_service.loop.run_until_complete(ask())[0] == 200
    finally:
        may_finish.set()
        reader.join()


def test_too_many_different_reads_are_rejected(url, service, monkeypatch):
    running_service = service(url)
    running_service.send("GET", PATH)
    monkeypatch.setattr(reads, "MAX_WAITING", 5)

    async def run():
        paths = [f"{PATH}/verdict?delta={0.001 * n}" for n in range(1, 31)]
        return await asyncio.gather(*(running_service.call("GET", path) for path in paths))

    answers = running_service.loop.run_until_complete(run())
    statuses = [answer[0] for answer in answers]
    assert statuses.count(200) >= 5
    assert set(statuses) == {200, 503}
    rejected = next(answer for answer in answers if answer[0] == 503)
    assert rejected[1]["retry-after"] == "1"


# -------------------------------------------------------------------------------- large requests


def test_a_small_request_waits_for_one_large_request_at_most(url, service):
    """An ask that arrives after ten requests for 400 decisions is answered first or second."""
    running_service, order = service(url), []
    running_service.send("POST", f"{PATH}/ask")

    async def send(name, body):
        answer = await running_service.call("POST", f"{PATH}/ask", body)
        assert answer[0] == 200
        order.append(name)

    async def run():
        large = [asyncio.ensure_future(send("large", {"n": 400})) for _ in range(10)]
        await asyncio.sleep(0.01)
        await asyncio.gather(*large, send("small", {}))

    running_service.loop.run_until_complete(run())
    assert len(order) == 11
    assert order.index("small") <= 1


def test_few_imports_are_held_in_memory_at_a_time(url, service):
    """If five imports arrive together, two are read and three wait; an ask does not wait."""
    running_service = service(url)
    arrived, n_reading, statuses = asyncio.Event(), [], []
    headers = {"content-type": "text/csv", "content-length": "25", "host": "localhost"}
    raw_headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def send_history(number):
        async def receive():
            n_reading.append(number)
            await arrived.wait()
            body = f"arm,reward,key\nblue,1,k{number}\n".encode()
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            statuses.append(message.get("status"))

        scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": f"{PATH}/import", "raw_path": f"{PATH}/import".encode(), "query_string": b"",
            "root_path": "", "state": {}, "headers": raw_headers,
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        await running_service.app(scope, receive, send)

    async def run():
        imports = [asyncio.ensure_future(send_history(number)) for number in range(5)]
        assert (await running_service.call("POST", f"{PATH}/ask"))[0] == 200
        assert len(n_reading) == 2
        arrived.set()
        await asyncio.gather(*imports)

    running_service.loop.run_until_complete(run())
    assert statuses.count(200) == 5


def test_an_import_without_a_token_waits_for_no_turn(url, service):
    running_service = service(url)
    auth.create_token(running_service.app.state.store, "play")
    running_service.app.state.import_turns = asyncio.Semaphore(0)
    assert running_service.send("POST", f"{PATH}/import", b"", content_type="text/csv")[0] == 401


def test_the_queue_is_limited_by_decisions(url, service, monkeypatch):
    running_service = service(url)
    running_service.send("POST", f"{PATH}/ask")
    monkeypatch.setattr(group_commit, "MAX_WAITING", 1500)

    async def run():
        calls = [running_service.call("POST", f"{PATH}/ask", {"n": 1000}) for _ in range(4)]
        reports = [{"id": 1, "reward": 1.0}] * 600
        return await asyncio.gather(
            *calls,
            running_service.call("POST", f"{PATH}/tell", reports),
            running_service.call("POST", f"{PATH}/ask"),
        )

    answers = running_service.loop.run_until_complete(run())
    assert [answer[0] for answer in answers] == [200, 503, 503, 503, 503, 200]
    assert "1000 decisions and reports are already waiting" in answers[1][2]["error"]["message"]
    assert running_service.app.state.writer.n_waiting == 0


def test_large_requests_do_not_fill_the_queue_of_small_requests(url, service, monkeypatch):
    running_service = service(url)
    running_service.send("POST", f"{PATH}/ask")
    monkeypatch.setattr(group_commit, "MAX_WAITING", 50)

    async def run():
        large_requests = [running_service.call("POST", f"{PATH}/ask", {"n": 40}) for _ in range(3)]
        small_requests = [running_service.call("POST", f"{PATH}/ask") for _ in range(51)]
        return [answer[0] for answer in await asyncio.gather(*large_requests, *small_requests)]

    assert running_service.loop.run_until_complete(run()) == [200, 503, 503, *[200] * 50, 503]


# ----------------------------------------------------------------------------------- connections


def test_idle_connections_make_room_for_new_connections(url, serve_store, monkeypatch):
    """If 100 half-open connections exceed the limit of 20, asks succeed and streams stay open."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    with serve_store(url) as address, contextlib.ExitStack() as half_open:
        host = urlsplit(address).netloc
        stream = half_open.enter_context(open_socket(host, get(f"{PATH}/events", **STREAM)))
        assert b" 200 " in stream.recv(1000)
        head = f"POST {PATH}/ask HTTP/1.1\r\nHost: localhost\r\n".encode()
        half_body = head + b"Content-Length: 10\r\n\r\n{"
        connections = [
            half_open.enter_context(open_socket(host, content)) for content in [head, half_body] * 50
        ]
        with kibitz.Client(address) as client:
            for _ in range(5):
                client.ask()
        n_closed = 0
        for connection in connections:
            connection.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                n_closed += not receive(connection)
        assert n_closed >= 80
        assert receive(stream)


def receive(connection):
    try:
        return connection.recv(1000)
    except ConnectionError:
        return b""
