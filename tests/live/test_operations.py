"""Tests of the service for operators: probes, metrics, logs, CORS and the app factory."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import kibitz
from kibitz import StoreUnavailable
from kibitz.live import service as factory
from kibitz.live.service import auth, logs, probes
from kibitz.live.service.app import ROUTES, create_app
from kibitz.live.store import opening, schema
from kibitz.live.store.opening import OpeningStore

pytestmark = pytest.mark.slow

PATH = "/v1/agents/checkout"
PROBES = ("/readyz", "/healthz")


def create_agent(url, name="checkout"):
    return kibitz.agent(url, name, arms=["blue", "green"], rewards="bernoulli", seed=1)


@pytest.fixture
def store_file(memory):
    """Return the path of a store with the agent checkout."""
    url = str(memory / "shop.db")
    create_agent(url).close()
    return url


def reload_tokens(service):
    """Expire the cached tokens, so the next request reads them from the store."""
    service.app.state.tokens._read_at = -10.0


# -------------------------------------------------------------------------------------- probes


def test_the_live_probe_never_uses_the_store(store_file, service, monkeypatch):
    running = service(store_file)

    def fail(work):
        raise StoreUnavailable("away")

    for name in ("read", "write"):
        monkeypatch.setattr(running.app.state.store, name, fail)
    assert running.send("GET", "/livez")[::2] == (200, {"status": "ok"})
    for path in PROBES:
        status, headers, content = running.send("GET", path)
        assert (status, headers["retry-after"]) == (503, "1")
        assert content["error"]["message"] == "the store is unavailable; retry"
    monkeypatch.undo()
    for path in PROBES:
        assert running.send("GET", path)[::2] == (200, {"status": "ok"})


def test_a_hanging_store_occupies_one_thread_however_many_probes_arrive(
    store_file, service, monkeypatch
):
    running = service(store_file)
    store, calls, release = running.app.state.store, [], threading.Event()
    read = store.read

    def hang(work):
        calls.append(work)
        release.wait(20)
        return read(work)

    monkeypatch.setattr(store, "read", hang)
    monkeypatch.setattr(probes, "READY_SECONDS", 0.2)

    async def send_probes():
        return await asyncio.gather(*(running.call("GET", "/readyz") for _ in range(50)))

    answers = [running.loop.run_until_complete(send_probes()) for _ in range(2)]
    release.set()
    for status, _, content in answers[0] + answers[1]:
        assert status == 503
        assert content["error"]["message"] == "the store has not answered for 0.2 s; retry"
    assert len(calls) == 1
    time.sleep(0.1)
    assert running.send("GET", "/readyz")[0] == 200


def test_a_restart_of_postgresql_makes_the_service_unready_but_not_dead(
    postgresql, database, serve_store, monkeypatch
):
    """While PostgreSQL restarts, `/livez` returns 200; `/readyz` returns 503 and then recovers."""
    create_agent(database).close()
    monkeypatch.setattr(probes, "READY_SECONDS", 0.3)
    live_statuses, ready_statuses = [], []

    def read_status(address, path):
        try:
            with urllib.request.urlopen(f"{address}{path}", timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    with serve_store(database) as address:
        assert read_status(address, "/readyz") == 200
        os.kill(postgresql.get_pid(), signal.SIGINT)
        try:
            deadline = time.monotonic() + 10
            while ready_statuses[-1:] != [503] and time.monotonic() < deadline:
                live_statuses.append(read_status(address, "/livez"))
                ready_statuses.append(read_status(address, "/readyz"))
        finally:
            postgresql.ensure_postgres_running()
        deadline = time.monotonic() + 30
        while read_status(address, "/readyz") != 200 and time.monotonic() < deadline:
            live_statuses.append(read_status(address, "/livez"))
            time.sleep(0.1)
        assert read_status(address, "/readyz") == 200
        with kibitz.Client(address, agent="checkout") as client:
            assert client.ask().id == 1
        with urllib.request.urlopen(f"{address}/metrics") as answer:
            assert read_metrics(answer.read())["kibitz_store_retries_total", ()] > 0
    assert 503 in ready_statuses
    assert set(live_statuses) == {200}


def test_a_draining_service_is_alive_but_not_ready(store_file, service):
    running = service(store_file)
    running.app.state.writer.stopping = True
    assert running.send("GET", "/livez")[0] == 200
    for path in PROBES:
        status, _, content = running.send("GET", path)
        assert (status, content["error"]["message"]) == (503, "the service is stopping; retry")


@pytest.fixture
def slow_migration(store_file, monkeypatch):
    """Make the next opening of the store wait in a migration; yield the event that ends the wait."""
    end = threading.Event()
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setitem(schema.MIGRATIONS, schema.VERSION - 1, lambda database: end.wait(20))
    monkeypatch.setattr(opening, "OPENING_SECONDS", 0.05)
    yield end
    end.set()


def test_a_service_that_migrates_its_store_is_alive_but_not_ready(
    store_file, service, slow_migration
):
    running = service(OpeningStore(store_file))
    assert running.send("GET", "/livez")[0] == 200
    for path in PROBES:
        status, _, content = running.send("GET", path)
        assert status == 503
        assert content["error"]["message"] == "the store is being opened or migrated; retry"
    assert running.send("POST", f"{PATH}/ask")[0] == 503
    slow_migration.set()
    deadline = time.monotonic() + 10
    while running.send("GET", "/readyz")[0] != 200 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert running.send("POST", f"{PATH}/ask")[2]["id"] == 1


def test_a_store_closed_during_its_migration_is_closed_afterwards(store_file, slow_migration):
    store = OpeningStore(store_file)
    with pytest.raises(StoreUnavailable, match="is being opened or migrated"):
        store.read(lambda database: None)
    store.close()
    slow_migration.set()


def test_a_store_that_cannot_be_opened_raises_at_once(tmp_path):
    with pytest.raises(ValueError, match="does not exist; create an agent first"):
        OpeningStore(str(tmp_path / "missing.db"))


def test_a_store_that_becomes_available_late_is_opened(store_file, monkeypatch, caplog):
    connect, n_calls = opening.connect, []

    def connect_late(url, *, create):
        n_calls.append(url)
        time.sleep(0.1)
        if len(n_calls) < 3:
            raise StoreUnavailable("no connection")
        return connect(url, create=create)

    monkeypatch.setattr(opening, "connect", connect_late)
    monkeypatch.setattr(opening, "OPENING_SECONDS", 0.05)
    store = OpeningStore(store_file)
    deadline = time.monotonic() + 10
    while not store.is_open and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store.read(lambda database: database.execute("select 1")) == [(1,)]
    assert store.measure_size() > 0
    assert len(n_calls) == 3
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    store.close()


# ------------------------------------------------------------------------------------- metrics


def read_metrics(content):
    """Return the values of the metrics by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def test_metrics_count_requests_results_commits_and_agents(store_file, service):
    running = service(store_file)
    for key in ("visit-1", "visit-2", "visit-3"):
        running.send("POST", f"{PATH}/ask", {"key": key})
    running.send("POST", f"{PATH}/tell", {"id": 1, "reward": 1})
    running.send("POST", f"{PATH}/tell", {"id": 1, "reward": 1})
    running.send("POST", f"{PATH}/tell", {"id": 1, "reward": 0})
    running.send("POST", f"{PATH}/tell", [{"id": 1, "reward": 1}, {"id": 2, "reward": 0}])
    running.send("POST", f"{PATH}/forget", {"id": 3})
    running.send("POST", f"{PATH}/ask")
    running.send("POST", f"{PATH}/observe", {"arm": "blue", "reward": 1, "key": "panel-1"})
    running.send("GET", "/v1/agents/nobody")
    running.send("GET", "/no/such/path")
    running.send("BREW", f"{PATH}/ask")
    status, headers, content = running.send("GET", "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=")
    metrics = read_metrics(content)

    def value(name, **labels):
        return metrics[name, tuple(sorted(labels.items()))]

    route = "/v1/agents/{name}/tell"
    assert value("kibitz_requests_total", method="POST", route=route, status="200") == 3
    assert value("kibitz_requests_total", method="POST", route=route, status="409") == 1
    assert value("kibitz_request_seconds_count", method="POST", route=route) == 4
    report = {"method": "GET", "route": "/v1/agents/{name}"}
    assert value("kibitz_requests_total", **report, status="404") == 1
    assert value("kibitz_requests_total", method="GET", route="unknown", status="404") == 1
    ask = {"method": "other", "route": "/v1/agents/{name}/ask"}
    assert value("kibitz_requests_total", **ask, status="405") == 1
    results = {"counted": 3, "duplicate": 2, "conflict": 1, "forgotten": 1}
    for result, n in results.items():
        assert value("kibitz_results_total", agent="checkout", result=result) == n
    assert value("kibitz_commit_requests_count") == 10
    assert value("kibitz_commit_requests_sum") == 10
    assert value("kibitz_commit_seconds_count") == 10
    assert value("kibitz_queue_length") == 0
    assert value("kibitz_store_retries_total") == 0
    assert value("kibitz_store_up") == 1
    assert value("kibitz_store_bytes") > 10_000
    totals = {
        "asks_total": 4, "tells_total": 2, "looks_total": 1, "pending": 1, "forgotten": 1,
        "events_total": 2 + 4 + 2 + 1 + 1,
    }  # fmt: skip
    for name, n in totals.items():
        assert value(f"kibitz_{name}", agent="checkout") == n


def test_metrics_count_shows_and_imported_rows(store_file, service):
    running = service(store_file)
    routes = {"name": "routes", "arms": ["n", "e"], "rewards": "bernoulli", "shows": [[1, 1], [0, 1]]}
    assert running.send("POST", "/v1/agents", routes)[0] == 201
    pull = running.send("POST", "/v1/agents/routes/ask")[2]
    shown = [{"arm": "e", "reward": 1, "shown_by": pull["id"]}]
    assert running.send("POST", "/v1/agents/routes/observe", shown)[0] == 200
    for _ in range(2):
        history = b"arm,reward,key\nblue,1,a\ngreen,0,b\n"
        running.send("POST", f"{PATH}/import", history, content_type="text/csv")
    metrics = read_metrics(running.send("GET", "/metrics")[2])
    for name, agent, n in (("shows", "routes", 1), ("looks", "routes", 0), ("looks", "checkout", 2)):
        assert metrics[f"kibitz_{name}_total", (("agent", agent),)] == n
    for result in ("counted", "duplicate"):
        labels = ("agent", "checkout"), ("result", result)
        assert metrics["kibitz_results_total", labels] == 2


def test_silence_counts_as_a_tell_but_not_as_a_counted_report(memory, store_file, service):
    """The alert RewardsMissing must fire although silence gives every pull a reward."""
    arguments = {"rewards": "bernoulli", "patience": 10.0, "silence": 0.0, "seed": 1}
    with kibitz.agent(store_file, "clicks", arms=["old", "new"], **arguments) as agent:
        start = time.time()
        for second in range(20):
            agent.now = lambda second=second: start + second
            agent.ask()
    metrics = read_metrics(service(store_file).send("GET", "/metrics")[2])
    assert metrics["kibitz_asks_total", (("agent", "clicks"),)] == 20
    assert metrics["kibitz_tells_total", (("agent", "clicks"),)] == 10
    assert ("kibitz_results_total", (("agent", "clicks"), ("result", "counted"))) not in metrics
    page = (Path(__file__).parents[2] / "docs" / "howto" / "production.md").read_text("utf-8")
    expression = page.partition("alert: RewardsMissing")[2].partition("for:")[0]
    assert 'kibitz_results_total{result="counted"}' in expression


def test_metrics_show_that_the_store_is_unavailable(store_file, service, monkeypatch):
    running = service(store_file)
    running.send("GET", "/metrics")

    def fail(work):
        raise StoreUnavailable("away")

    monkeypatch.setattr(running.app.state.store, "read", fail)
    metrics = read_metrics(running.send("GET", "/metrics")[2])
    assert metrics["kibitz_store_up", ()] == 0
    assert not any(name == "kibitz_asks_total" for name, _ in metrics)


def test_metrics_of_postgresql_have_its_size(database, service):
    create_agent(database).close()
    metrics = read_metrics(service(database).send("GET", "/metrics")[2])
    assert metrics["kibitz_store_bytes", ()] > 10_000


def test_metrics_need_a_token_for_all_agents_or_the_metrics_token(store_file, service):
    running = service(store_file, metrics_token="scrape-me")
    store = running.app.state.store
    tokens = {
        role: auth.create_token(store, role, name)
        for role, name in (("read", None), ("play", "checkout"))
    }
    assert running.send("GET", "/metrics")[0] == 401
    assert running.send("GET", "/metrics", token="wrong")[0] == 401
    assert running.send("GET", "/metrics", token="scrape-me")[0] == 200
    assert running.send("GET", "/metrics", token=tokens["read"])[0] == 200
    status, _, content = running.send("GET", "/metrics", token=tokens["play"])
    assert (status, content["error"]["code"]) == (403, "forbidden")
    for path in (PATH, "/v1/agents", f"{PATH}/ask"):
        method = "POST" if path.endswith("ask") else "GET"
        assert running.send(method, path, token="scrape-me")[0] == 401


@pytest.mark.parametrize("token", ["", "two words", "schlüssel", "line\n"])
def test_a_metrics_token_that_no_header_can_contain_is_rejected(store_file, token):
    with pytest.raises(ValueError, match=r"^metrics_token must consist of printable ASCII") as error:
        create_app(store_file, metrics_token=token)
    assert not token or token not in str(error.value)


def test_without_a_metrics_token_an_empty_token_is_rejected(store_file, service):
    running = service(store_file)
    auth.create_token(running.app.state.store, "read")
    for token in (None, "", " "):
        assert running.send("GET", "/metrics", token=token)[0] == 401


# ---------------------------------------------------------------------------------------- logs


@pytest.fixture
def log_lines(caplog):
    """Return a function that formats the log of the service in a given format."""
    caplog.set_level(logging.DEBUG, "kibitz")
    formatters = {"text": logs.TextFormatter(logs.TEXT_FORMAT), "json": logs.JsonFormatter()}

    def read(log_format):
        return [formatters[log_format].format(record) for record in caplog.records]

    return read


def test_the_access_log_names_route_agent_status_and_request_id(store_file, service, log_lines):
    running = service(store_file)
    headers = running.send("POST", f"{PATH}/ask", x_request_id="abc-1.2_3")[1]
    assert headers["x-request-id"] == "abc-1.2_3"
    running.send("GET", "/no/such\n/path")
    lines = [json.loads(line) for line in log_lines("json")]
    assert all(isinstance(line.pop("seconds"), float) for line in lines)
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time")) for line in lines
    )
    random_id = lines[1].pop("request_id")
    assert re.fullmatch("[0-9a-f]{16}", random_id)
    common = {"level": "info", "logger": "kibitz.access", "message": "request"}
    assert lines == [
        {
            **common, "request_id": "abc-1.2_3", "method": "POST", "agent": "checkout",
            "route": "/v1/agents/{name}/ask", "status": 200,
        },
        {**common, "method": "GET", "route": "unknown", "status": 404},
    ]  # fmt: skip
    text = log_lines("text")
    assert " INFO kibitz.access: request request_id=abc-1.2_3 method=POST route=" in text[0]
    assert "\n" not in "".join(text)


def test_ids_of_load_balancers_are_kept(store_file, service):
    for request_id in ("Root=1-67891233-abcdef012345678912345678", "req:7/aGk=", "a" * 100):
        headers = service(store_file).send("GET", "/livez", x_request_id=request_id)[1]
        assert headers["x-request-id"] == request_id


@pytest.mark.parametrize("request_id", ["", "a b", "a" * 101, "ä", "a\nb", '"', "<b>"])
def test_an_invalid_request_id_is_replaced(store_file, service, request_id):
    headers = service(store_file).send("GET", "/livez", x_request_id=request_id)[1]
    assert re.fullmatch("[0-9a-f]{16}", headers["x-request-id"])


def test_no_log_line_contains_a_token_a_key_or_a_reward(store_file, service, log_lines, monkeypatch):
    """Valid and invalid requests to all routes contain recognisable tokens, keys and rewards."""
    running = service(store_file, metrics_token="secret-metrics")
    token = auth.create_token(running.app.state.store, "admin")
    reload_tokens(running)
    bodies = [
        {"key": "secret-key", "reward": 0.123456789, "arm": "blue", "id": 1},
        {"key": "secret-key"},
        {"id": 1, "reward": 1},
        {"arm": "blue", "reward": 0.123456789, "key": "secret-key"},
        [{"id": 99, "reward": 0.123456789}],
        b"secret-key",
    ]
    for route in ROUTES:
        path = route.path.replace("{name}", "checkout").replace("{arm}", "secret-key")
        for body in bodies if route.endpoint.method != "GET" else [None]:
            for sent_token in (token, "secret-token", "secret-metrics"):
                running.send(route.endpoint.method, f"{path}?key=secret-key", body, sent_token)
    create_agent(store_file).close()  # one of the requests has deleted the agent
    running.send("POST", "/login", {"token": token})
    running.send("GET", f"/v1/agents/{token}", token=token)
    running.send("GET", "/secret-key", idempotency_key="secret-key", cookie=f"kibitz_token={token}")
    n_requests = len(log_lines("text"))
    assert n_requests > 50

    message = "the key secret-key already has reward 0.123456789"

    def fail(work):
        raise RuntimeError(message)

    monkeypatch.setattr(running.app.state.store, "write", fail)
    logging.getLogger("kibitz").setLevel(logging.INFO)
    assert running.send("POST", f"{PATH}/ask", {"key": "secret-key"}, token)[0] == 500
    for log_format in ("text", "json"):
        text = "\n".join(log_lines(log_format))
        assert "request failed: RuntimeError" in text
        assert "in fail" in text  # the line of code that raised the error
        for secret in (token, token.partition(".")[2], "secret", "0.123456789"):
            assert secret not in text
    logging.getLogger("kibitz").setLevel(logging.DEBUG)
    running.send("POST", f"{PATH}/ask", {"key": "secret-key"}, token)
    # As a control, the log at level DEBUG contains the key.
    assert "secret-key" in "\n".join(log_lines("text"))


def test_configured_logs_are_written_once(capsys):
    logger = logging.getLogger("kibitz")
    before = logger.handlers, logger.propagate, logger.level
    try:
        for _ in range(2):
            logs.configure("json", "info")
        logger.info("hello")
        logger.debug("not shown")
        [line] = capsys.readouterr().err.splitlines()
        assert json.loads(line)["message"] == "hello"
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])


# ---------------------------------------------------------------------------------------- CORS

SHOP = "https://shop.example"


@pytest.fixture
def cross_origin(store_file, service):
    """Return a service that allows the origin of a shop, and tokens by name."""
    running = service(store_file, allowed_origins=[SHOP])
    store = running.app.state.store
    create_agent(store_file, "other").close()
    tokens = {
        "page": auth.create_token(store, "play", "checkout"),
        "all": auth.create_token(store, "play"),
        "admin": auth.create_token(store, "admin", "checkout"),
    }
    return running, tokens


def test_a_page_of_an_allowed_origin_asks_and_tells_with_its_token(cross_origin):
    running, tokens = cross_origin
    preflight = running.send(
        "OPTIONS", f"{PATH}/ask", origin=SHOP, access_control_request_method="POST",
        access_control_request_headers="authorization,content-type,idempotency-key",
    )  # fmt: skip
    assert preflight[0] == 200
    assert preflight[1]["access-control-allow-origin"] == SHOP
    assert "POST" in preflight[1]["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in preflight[1]
    status, headers, decision = running.send("POST", f"{PATH}/ask", {}, tokens["page"], origin=SHOP)
    assert (status, headers["access-control-allow-origin"]) == (200, SHOP)
    assert headers["vary"] == "Origin"
    report = {"id": decision["id"], "reward": 1}
    assert running.send("POST", f"{PATH}/tell", report, tokens["page"], origin=SHOP)[0] == 200
    status, headers, _ = running.send("POST", f"{PATH}/ask", {"n": 0}, tokens["page"], origin=SHOP)
    assert (status, headers["access-control-allow-origin"]) == (422, SHOP)  # the page sees errors


def test_other_origins_cookies_and_powerful_tokens_are_rejected(cross_origin):
    running, tokens = cross_origin
    evil = "https://evil.example"
    preflight = running.send(
        "OPTIONS", f"{PATH}/ask", origin=evil, access_control_request_method="POST"
    )
    assert preflight[0] == 400
    assert "access-control-allow-origin" not in preflight[1]
    for origin in (evil, "http://shop.example", f"{SHOP}:8443", "https://a.shop.example", "null"):
        status, headers, _ = running.send("POST", f"{PATH}/ask", {}, tokens["page"], origin=origin)
        assert status == 403
        assert "access-control-allow-origin" not in headers
    for name in ("all", "admin"):
        status, _, content = running.send("POST", f"{PATH}/ask", {}, tokens[name], origin=SHOP)
        assert status == 403
        assert "role 'read' or 'play' for one agent" in content["error"]["message"]
    cookie = f"kibitz_token={tokens['page']}"
    assert running.send("POST", f"{PATH}/ask", {}, origin=SHOP, cookie=cookie)[0] == 401
    assert running.send("POST", f"{PATH}/ask", {}, origin=SHOP)[0] == 401
    other = "/v1/agents/other/ask"
    assert running.send("POST", other, {}, tokens["page"], origin=SHOP)[0] == 403


def test_a_store_without_tokens_serves_no_page_of_another_origin(store_file, service):
    running = service(store_file, allowed_origins=[SHOP])
    assert running.send("POST", f"{PATH}/ask", {})[0] == 200
    assert running.send("POST", f"{PATH}/ask", {}, origin=SHOP)[0] == 401


def test_without_allowed_origins_there_are_no_cors_headers(store_file, service):
    running = service(store_file)
    token = auth.create_token(running.app.state.store, "play", "checkout")
    status, headers, _ = running.send("POST", f"{PATH}/ask", {}, token, origin=SHOP)
    assert status == 403
    assert not any(name.startswith("access-control") for name in headers)
    preflight = running.send(
        "OPTIONS", f"{PATH}/ask", origin=SHOP, access_control_request_method="POST"
    )
    assert preflight[0] == 405


@pytest.mark.parametrize("origin", ["*", "shop.example", "https://shop.example/", "https://", "a b"])
def test_an_invalid_origin_raises_value_error(store_file, origin):
    with pytest.raises(ValueError, match=r"allow_origin must be an origin such as https://shop\.e"):
        create_app(store_file, allowed_origins=[origin])


# --------------------------------------------------------------------------------- app factory


def test_the_factory_reads_the_environment_and_requires_tokens(
    memory, store_file, service, monkeypatch
):
    monkeypatch.setenv("KIBITZ_STORE", store_file)
    secret = memory / "metrics-token"
    secret.write_text("scrape-me\n")
    monkeypatch.setenv("KIBITZ_METRICS_TOKEN_FILE", str(secret))
    monkeypatch.setenv("KIBITZ_ALLOW_ORIGIN", f"{SHOP} https://www.shop.example")
    running = service(None, app=factory.create_app())
    assert running.send("GET", "/readyz")[0] == 200
    assert running.send("GET", "/")[0] == 200  # the dashboard
    assert running.send("GET", PATH)[0] == 401  # although the store has no tokens
    assert running.send("GET", "/metrics", token="scrape-me")[0] == 200
    token = auth.create_token(running.app.state.store, "play", "checkout")
    reload_tokens(running)
    for origin in (SHOP, "https://www.shop.example", None):
        assert running.send("POST", f"{PATH}/ask", {}, token, origin=origin)[0] == 200


def test_the_factory_names_a_missing_or_invalid_setting(memory, store_file, monkeypatch):
    monkeypatch.delenv("KIBITZ_STORE", raising=False)
    with pytest.raises(ValueError, match="KIBITZ_STORE is not set"):
        factory.create_app()
    monkeypatch.setenv("KIBITZ_STORE_FILE", str(memory / "missing"))
    unreadable = r"KIBITZ_STORE_FILE names a file that cannot be read \(.*{}.*\); name a text file"
    with pytest.raises(ValueError, match=unreadable.format("missing")):
        factory.create_app()
    (memory / "binary").write_bytes(b"\xff")
    monkeypatch.setenv("KIBITZ_STORE_FILE", str(memory / "binary"))
    with pytest.raises(ValueError, match=unreadable.format("utf-8")):
        factory.create_app()
    monkeypatch.setenv("KIBITZ_STORE", store_file)
    monkeypatch.setenv("KIBITZ_LOG_LEVEL", "loud")
    with pytest.raises(ValueError, match="KIBITZ_LOG_LEVEL must be"):
        factory.create_app()


def test_the_queue_of_a_killed_worker_is_not_counted(memory, store_file):
    """A supervisor replaces a killed worker; the file of the killed worker stays in the folder."""
    folder = memory / "metrics"
    folder.mkdir()
    code = (
        "import os, sys; from kibitz.live.service.app import create_app; "
        "metrics = create_app(sys.argv[1]).state.metrics; metrics.queue.set(7); "
        "metrics.count_commit(1, 0.1); print(metrics.render().decode(), flush=True); os._exit(1)"
    )
    values = []
    for _ in range(2):
        process = subprocess.run(
            [sys.executable, "-c", code, store_file],
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)},
            capture_output=True,
        )
        metrics = read_metrics(process.stdout)
        names = "kibitz_queue_length", "kibitz_commit_requests_count"
        values.append(tuple(metrics[name, ()] for name in names))
    assert values == [(7, 1), (7, 2)]


def test_uvicorn_serves_the_factory_with_two_workers_that_share_metrics(memory, store_file):
    """The counts of both workers are summed, and nothing is lost when the workers stop."""
    with kibitz.agent(store_file, "checkout") as agent:
        token = auth.create_token(agent.store, "play")
    with socket.create_server(("127.0.0.1", 0)) as free_socket:
        port = free_socket.getsockname()[1]
    folder = memory / "metrics"
    folder.mkdir()
    command = [
        sys.executable, "-m", "uvicorn", "--factory", "kibitz.live.service:create_app",
        "--workers", "2", "--port", str(port), "--no-access-log",
    ]  # fmt: skip
    settings = {"KIBITZ_STORE": store_file, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    process = subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        output = b""
        while output.count(b"Application startup complete") < 2:
            line = process.stdout.readline()
            assert line, output
            output += line
        address, ids = f"http://127.0.0.1:{port}", set()
        for _ in range(40):  # each client opens a new connection, so both workers get requests
            with kibitz.Client(address, token, agent="checkout") as client:
                ids.add(client.ask().id)
        assert ids == set(range(1, 41))
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{address}/metrics", headers=headers)
        with urllib.request.urlopen(request) as answer:
            metrics = read_metrics(answer.read())
        labels = (("method", "POST"), ("route", "/v1/agents/{name}/ask"), ("status", "200"))
        assert metrics["kibitz_requests_total", labels] == 40
        assert metrics["kibitz_asks_total", (("agent", "checkout"),)] == 40
        counters = list(folder.glob("counter_*.db"))
        assert len(counters) == 2
    finally:
        process.terminate()
        process.communicate(timeout=30)
    with kibitz.agent(store_file, "checkout") as agent:
        assert agent.check() == []
