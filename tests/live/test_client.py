"""The client retries with the same key, times out and raises errors."""

import asyncio
import contextlib
import json
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import kibitz
from kibitz.live.service import auth as tokens, protocol

pytestmark = pytest.mark.slow

DECISION = {
    "id": 1, "kind": "pull", "arm": "blue", "key": "k", "asked_at": 1.0, "probability": 1.0,
    "bucket": False,
}  # fmt: skip


@pytest.fixture
def flaky_server():
    """Return the address of a server, its list of scripted responses and the requests it received."""
    answers, received_requests = [], []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received_requests.append((self.path, json.loads(body), self.headers["Authorization"]))
            status, content = answers.pop(0) if answers else (200, DECISION)
            if status == "silence":  # as if the server had been killed
                self.close_connection = True
                return
            if status == "slow":
                time.sleep(0.5)
                self.close_connection = True
                return
            if status == "late":
                time.sleep(0.5)
                status = 200
            if status == "half":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
                self.close_connection = True
                return
            answer_body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer_body)))
            if status == 503:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(answer_body)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", answers, received_requests
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_request_without_a_response_is_retried_with_the_same_key(flaky_server):
    address, answers, received_requests = flaky_server
    busy_answer = (503, {"error": {"code": "unavailable", "message": "busy"}})
    with kibitz.Client(address, "1.secret", agent="a/b") as client:
        answers[:] = [busy_answer, ("silence", None), busy_answer, ("half", None)]
        assert client.ask() == tuple(DECISION.values())
        assert len(received_requests) == 5
        assert len({json.dumps(request) for request in received_requests}) == 1
        path, sent_body, token = received_requests[0]
        assert path == "/v1/agents/a%2Fb/ask"
        assert sent_body["key"].startswith("client-")
        assert token == "Bearer 1.secret"
        client.look()
        answers[:] = [(200, {"result": "counted"})]
        client.observe("blue", np.float32(0.5))
        answers[:] = [(200, [DECISION] * 2)]
        client.ask(n=2)
    keys = [request[1]["key"] for request in received_requests[4:7]] + received_requests[7][1]["key"]
    assert len(set(keys)) == 5  # a new key for each ask


def test_the_client_gives_up_after_its_patience(flaky_server):
    address, answers, received_requests = flaky_server
    answers[:] = [(503, {"error": {"code": "unavailable", "message": "busy"}})] * 1000
    with kibitz.Client(address, agent="a", patience=0.3) as client:
        start = time.monotonic()
        with pytest.raises(
            kibitz.StoreUnavailable, match=r"service was unavailable for 0\.3 s; last error: busy"
        ):
            client.ask()
        assert time.monotonic() - start < 5
    assert len(received_requests) >= 2
    with pytest.raises(OSError, match="service was unavailable for"):
        kibitz.Client("http://127.0.0.1:1", patience=0.1)  # no server listens there


def test_a_hanging_server_is_retried(flaky_server, monkeypatch):
    address, answers, received_requests = flaky_server
    monkeypatch.setattr(protocol, "RESPONSE_SECONDS", 0.2)
    answers[:] = [("slow", None), (200, DECISION)]
    with kibitz.Client(address, agent="a") as client:
        assert client.ask(key="k").id == 1
    assert [sent_body["key"] for _, sent_body, _ in received_requests] == ["k", "k"]


def test_an_erasure_and_a_compaction_may_take_longer(flaky_server, monkeypatch):
    """A repeated request would find no key and no events, and would answer that it did nothing."""
    address, answers, received_requests = flaky_server
    monkeypatch.setattr(protocol, "RESPONSE_SECONDS", 0.2)
    script = [
        ("late", {"results": ["erased"]}),
        ("late", {"n_events": 7}),
        ("slow", None),
        (200, DECISION),
    ]

    async def use():
        async with kibitz.AsyncClient(address, agent="a", patience=5) as client:
            return [await client.erase("k"), await client.compact(1.0), await client.ask()]

    answers[:] = script
    with kibitz.Client(address, agent="a", patience=5) as client:
        results = [client.erase("k"), client.compact(1.0), client.ask()]
    assert results == [["erased"], 7, tuple(DECISION.values())]
    answers[:] = script
    assert asyncio.run(use()) == results
    assert len(received_requests) == 8  # only the asks were repeated


@pytest.mark.skipif(sys.platform != "linux", reason="a full backlog blocks only on Linux")
def test_an_erasure_does_not_wait_longer_for_a_connection():
    """The server never accepts a connection, and its backlog is full."""

    async def erase():
        async with kibitz.AsyncClient(address, agent="a", patience=0.2) as client:
            await client.erase("k")

    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        start = time.monotonic()
        client = stack.enter_context(kibitz.Client(address, agent="a", patience=0.2))
        with pytest.raises(kibitz.StoreUnavailable):
            client.erase("k")
        with pytest.raises(kibitz.StoreUnavailable):
            asyncio.run(erase())
        assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("status", "error_type"),
    [(401, PermissionError), (403, PermissionError), (404, kibitz.UnknownDecision),
     (409, kibitz.Conflict), (413, ValueError), (422, ValueError), (500, OSError)],
)  # fmt: skip
def test_an_error_status_is_raised_without_a_retry(flaky_server, status, error_type):
    address, answers, received_requests = flaky_server
    message = "decision 1 of agent 'a' does not exist"
    answers[:] = [(status, {"error": {"code": "x", "message": message}})]
    with kibitz.Client(address, agent="a") as client, pytest.raises(error_type, match=message):
        client.tell(1, 1.0)
    assert len(received_requests) == 1


def test_a_response_of_another_program_is_shown(flaky_server):
    address, answers, _ = flaky_server
    answers[:] = [(404, b"<html>no kibitz here</html>")]
    with kibitz.Client(address, agent="a") as client:
        with pytest.raises(kibitz.UnknownAgent, match="no kibitz here"):
            client.tell(1, 1.0)
        with pytest.raises(ValueError, match="value must be a number, a text or a list"):
            client.observe("blue", object())


def test_the_async_client_retries_with_the_same_key_and_gives_up(flaky_server, monkeypatch):
    address, answers, received_requests = flaky_server
    busy_answer = (503, {"error": {"code": "unavailable", "message": "busy"}})
    monkeypatch.setattr(protocol, "RESPONSE_SECONDS", 0.2)

    async def use():
        async with kibitz.AsyncClient(address, "1.secret", agent="a/b") as client:
            answers[:] = [busy_answer, ("silence", None), ("slow", None), ("half", None)]
            assert await client.ask() == tuple(DECISION.values())
            assert len(received_requests) == 5
            assert len({json.dumps(request) for request in received_requests}) == 1
            path, sent_body, token = received_requests[0]
            assert (path, token) == ("/v1/agents/a%2Fb/ask", "Bearer 1.secret")
            assert sent_body["key"].startswith("client-")
            answers[:] = [(404, {"error": {"code": "x", "message": "decision 1 is not there"}})]
            with pytest.raises(kibitz.UnknownDecision):
                await client.tell(1, 1.0)
            client.patience = 0.3
            answers[:] = [busy_answer] * 1000
            with pytest.raises(kibitz.StoreUnavailable, match=r"for 0\.3 s; last error: busy"):
                await client.ask()
            await client.close()
            answers.clear()
            assert (await client.ask()).id == 1  # a closed client opens new connections

    asyncio.run(use())


def test_the_async_client_reuses_its_connections(memory, serve_store):
    """Five times twenty concurrent tasks open at most twenty connections."""
    url = str(memory / "shop.db")
    setting = {"arms": ["a", "b"], "rewards": "bernoulli", "policy": kibitz.ucb()}
    with kibitz.agent(url, "one", **setting) as agent, serve_store(url) as address:

        async def use():
            async with kibitz.AsyncClient(address) as client:
                assert client.name is None
                decisions = []
                for _ in range(5):
                    tasks = (client.ask() for _ in range(20))
                    decisions += await asyncio.gather(*tasks)
                ids = [decision.id for decision in decisions]
                assert sorted(ids) == list(range(1, 101))
                assert client.name == "one"
                assert repr(client).endswith("agent='one')")
                pool = client._http._transport._pool
                return len(pool.connections)

        assert 1 <= asyncio.run(use()) <= 20
        assert agent.check() == []


def test_without_httpx_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'kibitz\[async\]'"):
        kibitz.AsyncClient("http://127.0.0.1:8765")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ftp://host",), "url must be http://host:port or https://host:port, got 'ftp://host'"),
        (("host:8765",), "url must be http://host:port"),
        (("http://host/v1/agents/x",), "url must be http://host:port"),
        (("http://host:port",), "url must be http://host:port"),
        (("http://host:65536",), "url must be http://host:port"),
        (("http://user:password@host",), "url must be .* got 'http://user@host'"),
        ((7,), "url must be a text"),
        (("http://host", "a\nb"), "token must be a text"),
        (("http://host", None, ""), "agent must be a text"),
        (("http://host", None, "a", 0), "patience must be positive and finite, got 0"),
    ],
)
def test_invalid_arguments_raise_value_error(arguments, sentence):
    for client in (kibitz.Client, kibitz.AsyncClient):
        with pytest.raises(ValueError, match=sentence):
            client(*arguments)


def test_the_agent_can_be_omitted_if_there_is_only_one(memory, serve_store):
    url = str(memory / "shop.db")
    setting = {"arms": ["a", "b"], "rewards": "bernoulli", "policy": kibitz.ucb()}
    with kibitz.agent(url, "one", **setting) as agent, serve_store(url) as address:
        with kibitz.Client(address) as client:
            assert client.name == "one"
            assert repr(client).endswith("agent='one')")
            assert client.tell([]) == []
        kibitz.agent(url, "two", **setting).close()
        with pytest.raises(ValueError, match="agent is required; use one of 'one', 'two'"):
            kibitz.Client(address)
        token = tokens.create_token(agent.store, "play", "two")
        time.sleep(tokens.TOKEN_CACHE_SECONDS)
        with pytest.raises(PermissionError, match="token is missing or invalid"):
            kibitz.Client(address)
        with kibitz.Client(address, token) as client:
            assert client.name == "two"
            assert client.ask().id == 1
            with pytest.raises(PermissionError, match="this request needs role 'admin'"):
                client.pause("a")
