"""Tests of the service: access control, invalid requests, and the OpenAPI document."""

import asyncio
import json
import random
import re
import time

import pytest

import kibitz
from kibitz import StoreDamaged, StoreUnavailable
from kibitz.live.service import auth as tokens, group_commit as writer, http
from kibitz.live.service.app import ROUTES
from kibitz.live.service.http import HEADERS

pytestmark = pytest.mark.slow

PATH = "/v1/agents/checkout"


def make_path(operation, arm="blue"):
    """Return the path of an operation for the agent of these tests."""
    return operation.path.replace("{name}", "checkout").replace("{arm}", arm)


BODIES = {
    "ask": {}, "look": {}, "tell": {"id": 1, "reward": 1.0},
    "observe": {"arm": "blue", "reward": 1.0},
    "forget": {"id": 1}, "correct": {"id": 1, "reward": 1.0}, "arms": {"arm": "red"},
    "arms/": {"state": "paused"}, "rewards": {"rewards": "bernoulli"},
    "erase": {"key": "visit-1"}, "compact": {"before": "2026-01-31"},
    "/v1/agents": {"name": "banner", "arms": ["old", "new"], "rewards": "bernoulli"},
}  # fmt: skip
OPERATIONS = [route.endpoint for route in ROUTES]
WRITE_PATHS = {  # the operations that change an agent, by the last part of their path
    operation.path.removeprefix("/v1/agents/{name}/").removesuffix("{arm}"): operation
    for operation in OPERATIONS if operation.body is not None
}  # fmt: skip
READ_OPERATIONS = [operation for operation in OPERATIONS if operation.method == "GET"]
REQUESTS = [
    *((operation.role, operation.method, make_path(operation), BODIES[path_end])
      for path_end, operation in WRITE_PATHS.items()),
    *(("read", "GET", make_path(operation), None)
      for operation in READ_OPERATIONS if operation.role is not None),
    ("play", "POST", f"{PATH}/import", b"arm,reward,key\n"),
]  # fmt: skip


@pytest.fixture
def service_and_agent(memory, service):
    """Return a service with one agent, and the agent."""
    url = str(memory / "shop.db")
    agent = kibitz.agent(
        url,
        "checkout",
        arms=["blue", "green"],
        policy=kibitz.ucb(),
        rewards="gaussian",
        scale=0.5,
        seed=1,
    )
    yield service(url), agent
    agent.close()


def create_token(agent, role, name=None):
    return tokens.create_token(agent.store, role, name)


def reload_tokens(service):
    """Expire the cached tokens, so the next request reads them from the store."""
    service.app.state.tokens._read_at = -10.0


def check_error(answer, status, code):
    assert answer[0] == status, answer
    assert set(answer[2]) == {"error"}
    assert set(answer[2]["error"]) == {"code", "message"}
    assert answer[2]["error"]["code"] == code
    return answer[2]["error"]["message"]


# -------------------------------------------------------------------------------------- access


def test_every_route_is_tested():
    open_paths = {operation.path for operation in OPERATIONS if operation.role is None}
    assert open_paths == {"/livez", "/readyz", "/healthz", "/metrics"}  # see test_operations.py
    n_deleted = len([operation for operation in OPERATIONS if operation.method == "DELETE"])
    assert n_deleted == 1  # see test_agents_http.py
    assert len(REQUESTS) == len(OPERATIONS) - len(open_paths) - n_deleted == 19


def test_requests_without_a_valid_token_are_rejected(service_and_agent):
    service, agent = service_and_agent
    valid_token, revoked_token = create_token(agent, "admin"), create_token(agent, "admin")
    tokens.revoke_token(agent.store, 2)
    reload_tokens(service)
    token_id, _, secret = valid_token.partition(".")
    invalid_tokens = [
        None, "", "x", ".", "1.", f"1.{secret[:-1]}", f"2.{secret}", f"3.{secret}", revoked_token,
        f"1.{secret}.", secret, "1.\x00", "1." + "a" * 5000, f" {token_id} .{secret}",
    ]  # fmt: skip
    events_before = list(agent.events())
    for _, method, path, content in REQUESTS:
        for invalid_token in invalid_tokens:
            answer = service.send(method, path, content, token=invalid_token)
            assert "valid" in check_error(answer, 401, "unauthorized")
            assert answer[1]["www-authenticate"] == "Bearer"
            assert valid_token not in json.dumps(answer[2])
    for header in (f"Basic {valid_token}", valid_token, f"Bearer{valid_token}"):
        assert service.send("GET", PATH, authorization=header)[0] == 401
    assert list(agent.events()) == events_before
    assert service.send("GET", PATH, token=valid_token)[0] == 200
    assert service.send("GET", PATH, authorization=f"bearer  {valid_token}")[0] == 200
    assert service.send("GET", PATH, cookie=f"a=b; kibitz_token={valid_token}")[0] == 200
    # Tokens in addresses are ignored.
    assert service.send("GET", f"{PATH}?token={valid_token}")[0] == 401


def test_a_role_includes_all_weaker_roles(service_and_agent):
    service, agent = service_and_agent
    tokens_by_role = {role: create_token(agent, role) for role in tokens.ROLES}
    reload_tokens(service)
    for needed_role, method, path, content in REQUESTS:
        for role, role_token in tokens_by_role.items():
            events_before = list(agent.events())
            answer = service.send(method, path, content, token=role_token)
            if tokens.ROLES.index(role) < tokens.ROLES.index(needed_role):
                assert repr(needed_role) in check_error(answer, 403, "forbidden")
                assert list(agent.events()) == events_before
            else:
                assert answer[0] not in (401, 403, 500), (path, role, answer)


def test_a_token_for_one_agent_gives_no_access_to_others(service_and_agent):
    service, agent = service_and_agent
    agent_arguments = {"arms": ["a", "b"], "rewards": "bernoulli", "policy": kibitz.ucb()}
    kibitz.agent(agent.store.url, "other", **agent_arguments).close()
    bound = create_token(agent, "admin", "checkout")
    reload_tokens(service)
    expected_agents = {"agents": ["checkout"], "more": False}
    assert service.send("GET", "/v1/agents", token=bound)[2] == expected_agents
    assert service.send("GET", PATH, token=bound)[0] == 200
    for _, method, path, content in REQUESTS:
        for name in ("other", "nobody"):  # the answer does not reveal which agents exist
            answer = service.send(method, path.replace("checkout", name), content, token=bound)
            if path != "/v1/agents":
                assert "for agent 'checkout' only" in check_error(answer, 403, "forbidden")
            elif method == "POST":
                assert "for all agents" in check_error(answer, 403, "forbidden")


def test_a_token_is_stored_as_a_hash_and_revoked_within_a_second(service_and_agent):
    service, agent = service_and_agent
    new_token = create_token(agent, "read")
    rows = agent.store.read(lambda database: database.execute("select * from tokens"))
    assert new_token.partition(".")[2] not in repr(rows)
    assert [stored_token.role for stored_token in tokens.list_tokens(agent.store)] == ["read"]
    service.send("GET", PATH)
    reload_tokens(service)
    assert service.send("GET", PATH, token=new_token)[0] == 200
    assert tokens.revoke_token(agent.store, 1) == "revoked"
    assert tokens.revoke_token(agent.store, 1) == "duplicate"
    deadline = time.monotonic() + tokens.TOKEN_CACHE_SECONDS + 0.2
    while service.send("GET", PATH, token=new_token)[0] == 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert service.send("GET", PATH)[0] == 401  # a token is still required


def test_tokens_are_compared_in_constant_time(service_and_agent, monkeypatch):
    service, agent = service_and_agent
    valid_token = create_token(agent, "read")
    reload_tokens(service)
    compared_pairs = []
    compare_digest = tokens.hmac.compare_digest
    monkeypatch.setattr(
        tokens.hmac,
        "compare_digest",
        lambda a, b: compared_pairs.append((len(a), len(b))) or compare_digest(a, b),
    )
    for any_token in (valid_token, "1.wrong", "7.unknown"):
        service.send("GET", PATH, token=any_token)
    assert compared_pairs == [(64, 64), (64, 64), (64, 64)]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda s: tokens.create_token(s, "root"), "role must be 'read', 'play' or 'admin', got 'ro"),
        (lambda s: tokens.create_token(s, "read", "x"), "agent 'x' does not exist"),
        (lambda s: tokens.create_token(s, "read", ""), "agent must be a text"),
        (lambda s: tokens.revoke_token(s, 5), "token 5 does not exist"),
        (lambda s: tokens.revoke_token(s, "x"), "token must be a whole number, got 'x'"),
    ],
)  # fmt: skip
def test_invalid_tokens_raise_value_error(service_and_agent, call, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        call(service_and_agent[1].store)
    assert tokens.list_tokens(service_and_agent[1].store) == []


def test_without_tokens_only_local_hosts_and_origins_are_served(service_and_agent):
    service, agent = service_and_agent
    events_before = list(agent.events())
    for host in ("shop.example", "127.0.0.1.evil.example", "", "[::1", "localhost@evil.example:80"):
        answer = service.send("POST", f"{PATH}/ask", host=host)
        assert "is not local" in check_error(answer, 403, "forbidden")
    for origin in ("http://evil.example", "null", "http://localhost:1", "https://[", "localhost"):
        answer = service.send("POST", f"{PATH}/ask", origin=origin)
        assert "is not allowed; the host is 'localhost'" in check_error(answer, 403, "forbidden")
    assert list(agent.events()) == events_before
    for host in ("localhost", "127.0.0.1:8765", "[::1]:8765"):
        assert service.send("POST", f"{PATH}/ask", host=host, origin=f"http://{host}")[0] == 200
    play_token = create_token(agent, "play")
    reload_tokens(service)
    headers = {"token": play_token, "host": "shop.example"}
    assert service.send("POST", f"{PATH}/ask", **headers)[0] == 200
    assert service.send("POST", f"{PATH}/ask", origin="https://shop.example", **headers)[0] == 200
    assert service.send("POST", f"{PATH}/ask", origin="https://evil.example", **headers)[0] == 403


# --------------------------------------------------------------------------- invalid requests


def test_every_answer_has_the_headers(service_and_agent):
    service, _ = service_and_agent
    answers = [service.send(method, path, content) for _, method, path, content in REQUESTS]
    answers += [
        service.send("GET", "/nowhere"),
        service.send("DELETE", PATH),
        service.send("GET", f"{PATH}/ask"),
        service.send("POST", f"{PATH}/ask", b"{"),
        service.send("GET", "/openapi.json"),
        service.send("GET", "/healthz"),
        service.send("GET", "/v1/agents/nobody"),
    ]
    for _, headers, _ in answers:
        for name, value in HEADERS.items():
            assert headers[name.decode()] == value.decode()
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_unknown_paths_and_methods_are_rejected(service_and_agent):
    service, _ = service_and_agent
    check_error(service.send("GET", "/nowhere"), 404, "unknown")
    check_error(service.send("POST", "/v1/agents/nobody/ask"), 404, "unknown")
    check_error(service.send("GET", "/v1/agents/nobody/events"), 404, "unknown")
    assert "method GET is not allowed; use POST" in check_error(
        service.send("GET", f"{PATH}/ask"), 405, "not_allowed"
    )
    answer = service.send("PUT", PATH)
    assert "use DELETE, GET" in check_error(answer, 405, "not_allowed")
    assert answer[1]["allow"] == "DELETE, GET"
    check_error(service.send("PATCH", f"{PATH}/arms"), 405, "not_allowed")
    check_error(service.send("POST", f"{PATH}/ask/blue"), 404, "unknown")


def test_a_browser_must_send_the_content_type_json(service_and_agent):
    service, _ = service_and_agent
    id = service.send("POST", f"{PATH}/ask")[2]["id"]
    tell_body = {"id": id, "reward": 1.0}
    plain_text = {"content_type": "text/plain"}
    answer = service.send("POST", f"{PATH}/tell", tell_body, origin="http://localhost", **plain_text)
    assert "content-type must be" in check_error(answer, 415, "not_json")
    status, _, content = service.send("POST", f"{PATH}/tell", tell_body, **plain_text)
    assert (status, content) == (200, {"result": "counted"})


PATHS = [
    "//", "/v1//agents", "/v1/agents/", "/v1/agents/../agents", "/v1/agents/%00", "*",
    "/v1/agents/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/v1/agents/..%5c..%5cetc", "/v1/agents/%ff%fe",
    "/v1/agents/checkout%00/ask", "/v1/agents/%c0%af/ask", "/v1/agents/checkout/../checkout/ask",
    "/v1/agents//ask", "/v1/agents/./ask", "/v1/agents/checkout/arms/", "http://x/v1/agents",
    "/v1/agents/checkout/arms/%2f", "/v1/agents/checkout/arms/blue/x", "/v1/agents/CHECKOUT/ask",
    "/v1/agents/checkout/ask;x=1", "/v1/agents/checkout/ask%3fx", "/v1/agents/checkout'--/ask",
    "/v1/agents/checkout' or '1'='1/ask", "/v1/agents/%27%3bdrop table agents/ask",
    "/v1/agents/" + "a" * 10_000 + "/ask", "/v1/agents/checkout/" + "ask/" * 1000,
    "/v1/agents/\uf8ff/ask", "/v1/agents/checkout/ask%", "/v1/agents/checkout%2/ask",
    "/v1/agents/%25/ask",
]  # fmt: skip


def test_path_traversal_reaches_nothing(service_and_agent):
    service, agent = service_and_agent
    events_before = list(agent.events())
    for path in PATHS:
        for method, content in (
            ("POST", {}),
            ("PATCH", {"state": "paused"}),
            ("GET", None),
            ("PUT", {}),
        ):
            status, headers, _ = service.send(
                method, path.encode("ascii", "replace").decode(), content
            )
            assert status in (404, 405, 422), (method, path, status)
            assert headers["x-content-type-options"] == "nosniff"
    assert list(agent.events()) == events_before


def test_a_name_may_contain_any_printable_character(service_and_agent):
    from urllib.parse import quote

    service, agent = service_and_agent
    names = ["a/b", "a b", "..", "%2f", "ä", "<script>alert(1)</script>", "a?b#c", "ask", "' or 1=1"]
    for name in names:
        kibitz.agent(
            agent.store.url,
            name,
            arms=["a/b", "<b>"],
            policy=kibitz.ucb(),
            rewards="gaussian",
            scale=1.0,
        ).close()
        path = f"/v1/agents/{quote(name, safe='')}"
        assert service.send("GET", path)[2]["agent"] == name
        assert service.send("POST", f"{path}/ask")[2]["arm"] == "a/b"
        assert service.send("PATCH", f"{path}/arms/a%2Fb", {"state": "paused"})[2]["arm"] == "a/b"
        assert service.send("GET", f"{path}/events?after=3")[2]["events"][0]["kind"] == "paused"
    assert service.send("GET", "/v1/agents")[2]["agents"] == sorted([*names, "checkout"])


BAD_BODIES = [
    b"{", b"[", b'"', b"\xff\xfe", b"nul", b"[1,]", b"{}{}", b"\x00", b"1e", b'{"id": 01}', b"NaN",
    b"1", b'"ask"', b"true", b"[[]]", b"[1]", b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5_000,
    b'{"id": ' + b"9" * 5_000 + b"}", b'{"id": {"id": {}}}', b'{"reward": 1}', b'{"__proto__": 1}',
    b'{"key": null, "x": 1}', b'{"id": 1, "reward": 1e999}', b'{"arm": ["blue"], "reward": 1}',
    b'{"n": 1e9}', b'{"n": 2000}', b'{"n": "3"}', b'{"n": true}', b'{"n": -1}',
    b'{"among": {"blue": 1}}', b'{"key": "\\ud800"}', b'{"key": "' + b"k" * 501 + b'"}',
    b'{"state": "gone"}', b'{"state": null}', b'{"among": [1], "among": "x"}',
    b'{"key": [1], "key": null, "arm": [1], "arm": 2}', b'{"id": {}, "id": [], "reward": {}}',
]  # fmt: skip


def test_an_invalid_body_is_rejected_and_changes_nothing(service_and_agent):
    service, agent = service_and_agent
    events_before = list(agent.events())
    for content in BAD_BODIES:
        for path_end, address in WRITE_PATHS.items():
            answer = service.send(address.method, make_path(address), content)
            assert len(check_error(answer, 422, "invalid")) < 500, (path_end, content[:40])
    assert list(agent.events()) == events_before


def test_a_large_body_is_rejected_before_it_is_read(service_and_agent):
    service, agent = service_and_agent
    large_body = b'{"key": "' + b" " * http.MAX_BODY_BYTES + b'"}'
    message = f"body is larger than {http.MAX_BODY_BYTES} bytes"
    large_length = {"content_length": str(10**12)}
    chunked = {"content_length": None, "transfer_encoding": "chunked"}
    for _, method, path, content in REQUESTS[: len(WRITE_PATHS)]:
        for body, headers in ((large_body, {}), (content, large_length), (large_body, chunked)):
            answer = service.send(method, path, body, **headers)
            assert check_error(answer, 413, "too_large") == message
    many_reports = [{"id": 1, "reward": 1.0}] * 1001
    assert "more than 1000 reports" in check_error(
        service.send("POST", f"{PATH}/tell", many_reports), 413, "too_large"
    )
    assert len(list(agent.events())) == 2


def test_ten_thousand_random_bodies_change_nothing(service_and_agent):
    service, agent = service_and_agent
    events_before, rng = list(agent.events()), random.Random(1)
    fragments = [
        b"{", b"}", b"[", b"]", b'"', b":", b",", b"id", b"reward", b"1", b"e9", b"-", b"null",
        b"\\u", b"d800", b"\x00", b"\xff", b" ", b"key", b"NaN", b"true", b"\n", b".",
    ]  # fmt: skip

    async def send_all():
        for n in range(10_000):
            if n % 2:
                content = rng.randbytes(rng.randrange(40))
            else:
                content = b"".join(rng.choices(fragments, k=rng.randrange(1, 12)))
            path_end = ("tell", "forget", "correct", "observe")[n % 4]
            status, _, _ = await service.call("POST", f"{PATH}/{path_end}", content)
            is_empty_list = path_end == "tell" and content.split() == [
                b"[]"
            ]  # an empty list is valid
            assert status in (404, 422) or (status == 200 and is_empty_list), (
                path_end,
                content,
                status,
            )

    service.loop.run_until_complete(send_all())
    assert list(agent.events()) == events_before


def test_the_key_is_read_from_the_header_or_the_body(service_and_agent):
    service, _ = service_and_agent
    ask = f"{PATH}/ask"
    first_decision = service.send("POST", ask, idempotency_key="a")[2]
    assert first_decision["key"] == "a"
    assert service.send("POST", ask, {"key": "a"})[2] == first_decision
    assert service.send("POST", ask, {"key": "a"}, idempotency_key="a")[2] == first_decision
    message = check_error(
        service.send("POST", ask, {"key": "b"}, idempotency_key="a"), 422, "invalid"
    )
    assert (
        message
        == "key 'b' in the body differs from 'a' in the header Idempotency-Key; send one of them"
    )
    assert service.send("POST", ask, idempotency_key="ä")[2]["key"] == "ä"
    rows = [{"arm": "blue", "reward": 1.0, "key": "c"}]
    observe = f"{PATH}/observe"
    check_error(service.send("POST", observe, rows, idempotency_key="a"), 422, "invalid")


# ---------------------------------------------------------------------------------- the writer


def test_a_full_queue_rejects_requests_with_retry_after(service_and_agent, monkeypatch):
    service, agent = service_and_agent
    service.send("POST", f"{PATH}/ask")
    monkeypatch.setattr(writer, "MAX_WAITING", 5)

    async def send_all():
        return await asyncio.gather(*(service.call("POST", f"{PATH}/ask") for _ in range(20)))

    answers = service.loop.run_until_complete(send_all())
    rejected_answers = [answer for answer in answers if answer[0] != 200]
    assert len(rejected_answers) == 15
    for answer in rejected_answers:
        check_error(answer, 503, "unavailable")
        assert answer[1]["retry-after"] == "1"
    assert len(list(agent.events(3))) == 5


def test_a_stopping_service_finishes_accepted_requests(service_and_agent):
    service, agent = service_and_agent

    service.send("POST", f"{PATH}/ask")

    async def send_all_and_stop():
        ask_tasks = [asyncio.ensure_future(service.call("POST", f"{PATH}/ask")) for _ in range(20)]
        await asyncio.sleep(0)
        assert service.app.state.writer.n_waiting == 20
        await service.app.state.writer.finish()
        return [*(await asyncio.gather(*ask_tasks)), await service.call("POST", f"{PATH}/ask")]

    answers = service.loop.run_until_complete(send_all_and_stop())
    assert [answer[0] for answer in answers] == [200] * 20 + [503]
    assert len(list(agent.events(3))) == 20
    check_error(service.send("GET", "/healthz"), 503, "unavailable")
    service.app.state.writer._thread = None


@pytest.mark.parametrize(
    ("failure", "status"),
    [(StoreUnavailable("away"), 503), (StoreDamaged("torn"), 500), (RuntimeError("bug"), 500)],
)
def test_a_failing_store_is_never_reported_as_success(
    service_and_agent, monkeypatch, failure, status
):
    service, _ = service_and_agent
    assert service.send("POST", f"{PATH}/ask")[0] == 200

    def raise_failure(work):
        raise failure

    store = service.app.state.store
    monkeypatch.setattr(store, "write", raise_failure)
    answer = service.send("POST", f"{PATH}/ask")
    assert answer[0] == status
    assert str(failure) not in json.dumps(answer[2])
    monkeypatch.undo()
    assert service.send("POST", f"{PATH}/ask")[2]["id"] == 2
    monkeypatch.setattr(store, "read", raise_failure)
    assert service.send("GET", PATH)[0] == status
    assert service.send("GET", "/healthz")[0] == status


def test_a_failing_request_does_not_affect_others_in_its_group(service_and_agent):
    _, agent = service_and_agent
    loop = asyncio.new_event_loop()
    requests = [
        writer.Request(agent, operation, loop.create_future())
        for operation in (("ask", ("a", None, None)), ("tell", (9, 1.0)), ("look", (None,)))
    ]
    requests.append(writer.Request(None, lambda: agent.add("red"), loop.create_future()))
    ask_answer, tell_answer, look_answer, add_answer = writer.commit(requests)
    assert (ask_answer.id, look_answer.id, add_answer) == (1, 2, None)
    assert isinstance(tell_answer, kibitz.UnknownDecision)

    def fail_batch(operations, return_errors=False, batch=agent.batch):
        if len(operations) > 1:
            raise ValueError("done by half")
        return batch(operations, return_errors=return_errors)

    agent.batch = fail_batch
    ask_answer, tell_answer, look_answer = writer.commit(requests[:3])
    assert ask_answer.id == 1
    assert isinstance(tell_answer, kibitz.UnknownDecision)
    assert look_answer.id == 3
    tried_operations = []

    def raise_unavailable(operations, return_errors=False):
        tried_operations.append(len(operations))
        raise StoreUnavailable("away")

    agent.batch = raise_unavailable  # the operations are not retried one by one
    assert all(isinstance(answer, StoreUnavailable) for answer in writer.commit(requests[:3]))
    assert tried_operations == [3]
    loop.close()


# ------------------------------------------------------------------------------------- OpenAPI


def test_openapi_examples_agree_with_the_service(service_and_agent):
    service, _ = service_and_agent
    openapi_document = service.send("GET", "/openapi.json")[2]
    addresses = {
        (method, path)
        for path, path_item in openapi_document["paths"].items()
        for method in path_item
    }
    assert {(operation.method.lower(), operation.path) for operation in OPERATIONS} <= addresses
    for path_end, operation in WRITE_PATHS.items():
        description = openapi_document["paths"][operation.path][operation.method.lower()]
        example_body = description["requestBody"]["content"]["application/json"]["example"]
        assert example_body == operation.example.body
        answer = service.send(operation.method, make_path(operation, "red"), example_body)
        assert answer[0] == operation.status, answer
        example = dict(
            description["responses"][str(operation.status)]["content"]["application/json"]["example"]
        )
        answer_body = dict(answer[2])
        for dict_ in (example, answer_body):
            dict_.pop("asked_at", None)
        if path_end in ("look", "compact"):  # the numbers depend on the agent and on the clock
            answer_body = dict.fromkeys(answer_body)
            example = dict.fromkeys(example)
        assert answer_body == example
    for operation in READ_OPERATIONS:
        description = openapi_document["paths"][operation.path]["get"]
        assert description["summary"]
        content = description["responses"]["200"]["content"]
        assert content
        assert all(
            media_object.get("example")
            for media_type, media_object in content.items()
            if "netcdf" not in media_type
        )
        if "application/json" in content:
            example = content["application/json"]["example"]
            answer_body = service.send("GET", make_path(operation))[2]
            assert set(answer_body) == set(example), operation.path
    arm = openapi_document["paths"]["/v1/agents/{name}"]["get"]["responses"]["200"]["content"][
        "application/json"
    ]
    report = service.send("GET", PATH)[2]
    assert set(arm["example"]["arms"][0]) == set(report["arms"][0])


def test_openapi_is_complete(service_and_agent):
    service, _ = service_and_agent
    paths = service.send("GET", "/openapi.json")[2]["paths"]
    for path, path_item in paths.items():
        for description in path_item.values():
            path_parameters = [
                parameter["name"]
                for parameter in description["parameters"]
                if parameter["in"] == "path"
            ]
            assert path_parameters == re.findall(r"{(\w+)}", path)
            errors = {int(status) for status in description["responses"] if int(status) >= 400}
            assert {403, 500, 503} <= errors
            assert ("{name}" in path) <= (404 in errors)
            assert ("requestBody" in description) <= ({413, 415, 422} <= errors)
            for status in errors:
                answer = description["responses"][str(status)]["content"]["application/json"]
                assert answer["schema"] == {"$ref": "#/components/schemas/Error"}
    agent = "/v1/agents/{name}"
    tell_operation = paths[f"{agent}/tell"]["post"]
    schema = tell_operation["requestBody"]["content"]["application/json"]["schema"]
    assert {"array", None} == {alternative.get("type") for alternative in schema["anyOf"]}
    assert "anyOf" in tell_operation["responses"]["200"]["content"]["application/json"]["schema"]
    ask_properties = service.send("GET", "/openapi.json")[2]["components"]["schemas"]["Ask"][
        "properties"
    ]
    assert {"type": "integer", "minimum": 1, "maximum": 1000} in ask_properties["n"]["anyOf"]
    assert "409" in tell_operation["responses"]
    for path in (f"{agent}/events", f"{agent}/watch"):
        assert "text/event-stream" in paths[path]["get"]["responses"]["200"]["content"]
    query = {parameter["name"] for parameter in paths[f"{agent}/events"]["get"]["parameters"]}
    assert query == {"name", "after", "limit", "Last-Event-ID"}


def test_types_are_strict(service_and_agent):
    service, agent = service_and_agent
    for body in ({"n": 1e5}, {"n": 2.0}, {"n": True}, {"n": "2"}):
        message = check_error(service.send("POST", f"{PATH}/ask", body), 422, "invalid")
        assert message.startswith("n must be a whole number, got ")
    assert len(list(agent.events())) == 2
    id = service.send("POST", f"{PATH}/ask")[2]["id"]
    for body in (
        {"id": float(id), "reward": 1},
        {"id": id, "reward": True},
        {"id": id, "reward": "1"},
    ):
        check_error(service.send("POST", f"{PATH}/tell", body), 422, "invalid")
    assert service.send("POST", f"{PATH}/tell", {"id": id, "reward": 1})[2] == {"result": "counted"}


def find_integer_fields(document):
    """Yield (method, path, location, name, schema) for each integer field of the document."""

    def resolve(schema):
        name = schema.get("$ref", "").rpartition("/")[2]
        return document["components"]["schemas"][name] if name else schema

    for path, path_item in document["paths"].items():
        for method, description in path_item.items():
            for parameter in description["parameters"]:
                if parameter["schema"].get("type") == "integer":
                    yield method.upper(), path, "query", parameter["name"], parameter["schema"]
            content = description.get("requestBody", {}).get("content", {})
            for body_schema in (
                content.get("application/json", {})
                .get("schema", {})
                .get("anyOf", [content.get("application/json", {}).get("schema", {})])
            ):
                is_list = body_schema.get("type") == "array"
                struct = resolve(body_schema.get("items", {}) if is_list else body_schema)
                for name, field in struct.get("properties", {}).items():
                    for alternative in field.get("anyOf", [field]):
                        if resolve(alternative).get("type") == "integer":
                            location = "list" if is_list else "body"
                            yield method.upper(), path, location, name, resolve(alternative)


def test_every_integer_field_is_strict_and_limited(service_and_agent):
    """No field of any route accepts a float such as 1e5 as an integer; every integer has a limit."""
    service, agent = service_and_agent
    events_before = list(agent.events())
    fields = list(find_integer_fields(service.send("GET", "/openapi.json")[2]))
    found = {(path.rpartition("/")[2], location, name) for _, path, location, name, _ in fields}
    assert found >= {
        ("ask", "body", "n"), ("tell", "body", "id"), ("tell", "list", "id"),
        ("correct", "body", "id"), ("forget", "body", "id"), ("events", "query", "after"),
        ("events", "query", "limit"),
    }  # fmt: skip
    for method, path, location, name, schema in fields:
        assert {"minimum", "maximum"} <= set(schema), (path, name)
        path = path.replace("{name}", "checkout")
        wrong_values = ["1e5", "1.0", "1e0", "-0.0", "0.5", "1e400", "NaN", "Infinity", '"1"', "true"]
        wrong_values += [str(schema["minimum"] - 1), str(schema["maximum"] + 1), "1" + "0" * 30]
        for value in wrong_values:
            if location == "query":
                answer = service.send(method, f"{path}?{name}={value}")
            else:
                field = f'"{name}": {value}' + (', "reward": 1.0' if name == "id" else "")
                field = f'"{name}": {value}' if path.endswith("/forget") else field
                content = f"[{{{field}}}]" if location == "list" else f"{{{field}}}"
                answer = service.send(method, path, content.encode())
            check_error(answer, 422, "invalid")
    assert list(agent.events()) == events_before


def test_the_html_page_of_openapi_is_complete_and_loads_nothing(service_and_agent):
    service, _ = service_and_agent
    status, headers, content = service.send("GET", "/docs")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=us-ascii"
    assert "script-src" not in headers["content-security-policy"]
    assert "default-src 'none'; style-src 'sha256-" in headers["content-security-policy"]
    text = content.decode("ascii")
    for path, path_item in service.send("GET", "/openapi.json")[2]["paths"].items():
        for method, description in path_item.items():
            assert f"<h2>{method.upper()} {path}</h2>" in text
            assert description["description"].splitlines()[0].split("`")[0] in text
    assert '"visit-4711"' in text
    assert "&lt;token&gt;" in text  # markup is escaped
    assert not re.search(r"<script|src=|href=|@import|url\(", text)
