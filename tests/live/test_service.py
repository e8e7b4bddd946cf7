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


def at(operation, arm="blue"):
    """Return the path of an operation for the agent of these tests."""
    return operation.path.replace("{name}", "checkout").replace("{arm}", arm)


BODIES = {
    "ask": {}, "look": {}, "tell": {"id": 1, "reward": 1.0},
    "observe": {"arm": "blue", "reward": 1.0},
    "forget": {"id": 1}, "correct": {"id": 1, "reward": 1.0}, "arms": {"arm": "red"},
    "arms/": {"state": "paused"},
}  # fmt: skip
OPERATIONS = [route.endpoint for route in ROUTES]
PLAYED = {  # the operations that change an agent, by the last part of their path
    one.path.removeprefix("/v1/agents/{name}/").removesuffix("{arm}"): one
    for one in OPERATIONS if one.method != "GET"
}  # fmt: skip
SHOWN = [one for one in OPERATIONS if one.method == "GET"]
REQUESTS = [
    *((one.role, one.method, at(one), BODIES[end]) for end, one in PLAYED.items()),
    *(("read", "GET", at(one), None) for one in SHOWN if one.path != "/healthz"),
]  # fmt: skip


@pytest.fixture
def shop(memory, service):
    """Return a service with one agent, and the agent."""
    url = str(memory / "shop.db")
    agent = kibitz.agent(
        url, "checkout", arms=["blue", "green"], policy=kibitz.ucb(), scale=0.5, seed=1
    )
    yield service(url), agent
    agent.close()


def token(agent, role, name=None):
    made = tokens.create_token(agent.store, role, name)
    return made


def fresh(service):
    """Make the service read the tokens again, as it does after a second."""
    service.app.state.tokens._read_at = -10.0


def error(answer, status, code):
    assert answer[0] == status, answer
    assert set(answer[2]) == {"error"}
    assert set(answer[2]["error"]) == {"code", "message"}
    assert answer[2]["error"]["code"] == code
    return answer[2]["error"]["message"]


# -------------------------------------------------------------------------------------- access


def test_every_route_is_tested():
    assert len(REQUESTS) == len(PLAYED) + len(SHOWN) - 1 == 12


def test_requests_without_a_valid_token_are_rejected(shop):
    service, agent = shop
    right, gone = token(agent, "admin"), token(agent, "admin")
    tokens.revoke_token(agent.store, 2)
    fresh(service)
    number, _, secret = right.partition(".")
    wrong = [None, "", "x", ".", "1.", f"1.{secret[:-1]}", f"2.{secret}", f"3.{secret}", gone,
             f"1.{secret}.", secret, "1.\x00", "1." + "a" * 5000, f" {number} .{secret}"]  # fmt: skip
    before = list(agent.events())
    for _, method, path, content in REQUESTS:
        for one in wrong:
            answer = service.send(method, path, content, token=one)
            assert "valid" in error(answer, 401, "unauthorized")
            assert answer[1]["www-authenticate"] == "Bearer"
            assert right not in json.dumps(answer[2])
    for header in (f"Basic {right}", right, f"Bearer{right}"):
        assert service.send("GET", PATH, authorization=header)[0] == 401
    assert list(agent.events()) == before
    assert service.send("GET", PATH, token=right)[0] == 200
    assert service.send("GET", PATH, authorization=f"bearer  {right}")[0] == 200
    assert service.send("GET", PATH, cookie=f"a=b; kibitz_token={right}")[0] == 200
    assert service.send("GET", f"{PATH}?token={right}")[0] == 401  # tokens in addresses are ignored


def test_roles_include_the_roles_before_them(shop):
    service, agent = shop
    made = {role: token(agent, role) for role in tokens.ROLES}
    fresh(service)
    for needed, method, path, content in REQUESTS:
        for role, one in made.items():
            before = list(agent.events())
            answer = service.send(method, path, content, token=one)
            if tokens.ROLES.index(role) < tokens.ROLES.index(needed):
                assert repr(needed) in error(answer, 403, "forbidden")
                assert list(agent.events()) == before
            else:
                assert answer[0] not in (401, 403, 500), (path, role, answer)


def test_a_token_for_one_agent_gives_no_access_to_others(shop):
    service, agent = shop
    more = {"arms": ["a", "b"], "policy": kibitz.ucb()}
    kibitz.agent(agent.store.url, "other", **more).close()
    bound = token(agent, "admin", "checkout")
    fresh(service)
    assert service.send("GET", "/v1/agents", token=bound)[2] == {"agents": ["checkout"]}
    assert service.send("GET", PATH, token=bound)[0] == 200
    for _, method, path, content in REQUESTS[:-4] + REQUESTS[-3:]:
        for name in ("other", "nobody"):  # the answer does not reveal which agents exist
            answer = service.send(method, path.replace("checkout", name), content, token=bound)
            if path != "/v1/agents":
                assert "for agent 'checkout' only" in error(answer, 403, "forbidden")


def test_a_token_is_stored_as_a_hash_and_revoked_within_a_second(shop):
    service, agent = shop
    made = token(agent, "read")
    rows = agent.store.read(lambda database: database.rows("select * from tokens"))
    assert made.partition(".")[2] not in repr(rows)
    assert [one.role for one in tokens.list_tokens(agent.store)] == ["read"]
    service.send("GET", PATH)
    fresh(service)
    assert service.send("GET", PATH, token=made)[0] == 200
    assert tokens.revoke_token(agent.store, 1) == "revoked"
    assert tokens.revoke_token(agent.store, 1) == "duplicate"
    deadline = time.monotonic() + tokens.TOKEN_CACHE_SECONDS + 0.2
    while service.send("GET", PATH, token=made)[0] == 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert service.send("GET", PATH)[0] == 401  # a token is still required


def test_tokens_are_compared_in_constant_time(shop, monkeypatch):
    service, agent = shop
    right = token(agent, "read")
    fresh(service)
    compared = []
    same = tokens.hmac.compare_digest
    monkeypatch.setattr(
        tokens.hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or same(a, b)
    )
    for one in (right, "1.wrong", "7.unknown"):
        service.send("GET", PATH, token=one)
    assert compared == [(64, 64), (64, 64), (64, 64)]


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
def test_invalid_tokens_raise_value_error(shop, call, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        call(shop[1].store)
    assert tokens.list_tokens(shop[1].store) == []


def test_without_tokens_only_local_hosts_and_origins_are_served(shop):
    service, agent = shop
    before = list(agent.events())
    for host in ("shop.example", "127.0.0.1.evil.example", "", "[::1", "localhost@evil.example:80"):
        answer = service.send("POST", f"{PATH}/ask", host=host)
        assert "is not local" in error(answer, 403, "forbidden")
    for origin in ("http://evil.example", "null", "http://localhost:1", "https://[", "localhost"):
        answer = service.send("POST", f"{PATH}/ask", origin=origin)
        assert "is not allowed; the host is 'localhost'" in error(answer, 403, "forbidden")
    assert list(agent.events()) == before
    for host in ("localhost", "127.0.0.1:8765", "[::1]:8765"):
        assert service.send("POST", f"{PATH}/ask", host=host, origin=f"http://{host}")[0] == 200
    made = token(agent, "play")
    fresh(service)
    headers = {"token": made, "host": "shop.example"}
    assert service.send("POST", f"{PATH}/ask", **headers)[0] == 200
    assert service.send("POST", f"{PATH}/ask", origin="https://shop.example", **headers)[0] == 200
    assert service.send("POST", f"{PATH}/ask", origin="https://evil.example", **headers)[0] == 403


# --------------------------------------------------------------------------- invalid requests


def test_every_answer_has_the_headers(shop):
    service, _ = shop
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


def test_unknown_paths_and_methods(shop):
    service, _ = shop
    error(service.send("GET", "/nowhere"), 404, "unknown")
    error(service.send("POST", "/v1/agents/nobody/ask"), 404, "unknown")
    error(service.send("GET", "/v1/agents/nobody/events"), 404, "unknown")
    assert "method GET is not allowed; use POST" in error(
        service.send("GET", f"{PATH}/ask"), 405, "not_allowed"
    )
    error(service.send("DELETE", PATH), 405, "not_allowed")
    error(service.send("PATCH", f"{PATH}/arms"), 405, "not_allowed")
    error(service.send("POST", f"{PATH}/ask/blue"), 404, "unknown")


def test_a_browser_must_send_the_content_type_json(shop):
    service, _ = shop
    id = service.send("POST", f"{PATH}/ask")[2]["id"]
    told = {"id": id, "reward": 1.0}
    plain = {"content_type": "text/plain"}
    answer = service.send("POST", f"{PATH}/tell", told, origin="http://localhost", **plain)
    assert "content-type must be" in error(answer, 415, "not_json")
    status, _, content = service.send("POST", f"{PATH}/tell", told, **plain)
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


def test_path_traversal_reaches_nothing(shop):
    service, agent = shop
    before = list(agent.events())
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
    assert list(agent.events()) == before


def test_a_name_may_have_anything_printable_in_it(shop):
    from urllib.parse import quote

    service, agent = shop
    names = ["a/b", "a b", "..", "%2f", "ä", "<script>alert(1)</script>", "a?b#c", "ask", "' or 1=1"]
    for name in names:
        kibitz.agent(agent.store.url, name, arms=["a/b", "<b>"], policy=kibitz.ucb()).close()
        path = f"/v1/agents/{quote(name, safe='')}"
        assert service.send("GET", path)[2]["agent"] == name
        assert service.send("POST", f"{path}/ask")[2]["arm"] == "a/b"
        assert service.send("PATCH", f"{path}/arms/a%2Fb", {"state": "paused"})[2]["arm"] == "a/b"
        assert service.send("GET", f"{path}/events?after=3")[2]["events"][0]["kind"] == "paused"
    assert service.send("GET", "/v1/agents")[2]["agents"] == sorted([*names, "checkout"])


BAD = [
    b"{", b"[", b'"', b"\xff\xfe", b"nul", b"[1,]", b"{}{}", b"\x00", b"1e", b'{"id": 01}', b"NaN",
    b"1", b'"ask"', b"true", b"[[]]", b"[1]", b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5_000,
    b'{"id": ' + b"9" * 5_000 + b"}", b'{"id": {"id": {}}}', b'{"reward": 1}', b'{"__proto__": 1}',
    b'{"key": null, "x": 1}', b'{"id": 1, "reward": 1e999}', b'{"arm": ["blue"], "reward": 1}',
    b'{"n": 1e9}', b'{"n": 2000}', b'{"n": "3"}', b'{"n": true}', b'{"n": -1}',
    b'{"among": {"blue": 1}}', b'{"key": "\\ud800"}', b'{"key": "' + b"k" * 501 + b'"}',
    b'{"state": "gone"}', b'{"state": null}', b'{"among": [1], "among": "x"}',
    b'{"key": [1], "key": null, "arm": [1], "arm": 2}', b'{"id": {}, "id": [], "reward": {}}',
]  # fmt: skip


def test_an_invalid_body_is_rejected_and_changes_nothing(shop):
    service, agent = shop
    before = list(agent.events())
    for content in BAD:
        for end, address in PLAYED.items():
            answer = service.send(address.method, at(address), content)
            assert len(error(answer, 422, "invalid")) < 500, (end, content[:40])
    assert list(agent.events()) == before


def test_a_large_body_is_rejected_before_it_is_read(shop):
    service, agent = shop
    large = b'{"key": "' + b" " * http.MAX_BODY_BYTES + b'"}'
    message = f"body is larger than {http.MAX_BODY_BYTES} bytes"
    declared = {"content_length": str(10**12)}
    chunked = {"content_length": None, "transfer_encoding": "chunked"}
    for _, method, path, content in REQUESTS[: len(PLAYED)]:
        for body, headers in ((large, {}), (content, declared), (large, chunked)):
            answer = service.send(method, path, body, **headers)
            assert error(answer, 413, "too_large") == message
    many = [{"id": 1, "reward": 1.0}] * 1001
    assert "more than 1000 reports" in error(
        service.send("POST", f"{PATH}/tell", many), 413, "too_large"
    )
    assert len(list(agent.events())) == 2


def test_ten_thousand_random_bodies_are_at_most_rejected(shop):
    service, agent = shop
    before, random_ = list(agent.events()), random.Random(1)
    pieces = [
        b"{", b"}", b"[", b"]", b'"', b":", b",", b"id", b"reward", b"1", b"e9", b"-", b"null",
        b"\\u", b"d800", b"\x00", b"\xff", b" ", b"key", b"NaN", b"true", b"\n", b".",
    ]  # fmt: skip

    async def send_all():
        for n in range(10_000):
            if n % 2:
                content = random_.randbytes(random_.randrange(40))
            else:
                content = b"".join(random_.choices(pieces, k=random_.randrange(1, 12)))
            end = ("tell", "forget", "correct", "observe")[n % 4]
            status, _, _ = await service.call("POST", f"{PATH}/{end}", content)
            nothing = end == "tell" and content.split() == [b"[]"]  # an empty list is valid
            assert status in (404, 422) or (status == 200 and nothing), (end, content, status)

    service.loop.run_until_complete(send_all())
    assert list(agent.events()) == before


def test_the_key_is_read_from_the_header_or_the_body(shop):
    service, _ = shop
    ask = f"{PATH}/ask"
    first = service.send("POST", ask, idempotency_key="a")[2]
    assert first["key"] == "a"
    assert service.send("POST", ask, {"key": "a"})[2] == first
    assert service.send("POST", ask, {"key": "a"}, idempotency_key="a")[2] == first
    said = error(service.send("POST", ask, {"key": "b"}, idempotency_key="a"), 422, "invalid")
    assert said == "key 'b' differs from the header Idempotency-Key 'a'"
    assert service.send("POST", ask, idempotency_key="ä")[2]["key"] == "ä"


# ---------------------------------------------------------------------------------- the writer


def test_a_full_queue_rejects_requests_with_retry_after(shop, monkeypatch):
    service, agent = shop
    service.send("POST", f"{PATH}/ask")
    monkeypatch.setattr(writer, "MAX_WAITING", 5)

    async def crowd():
        return await asyncio.gather(*(service.call("POST", f"{PATH}/ask") for _ in range(20)))

    answers = service.loop.run_until_complete(crowd())
    refused = [answer for answer in answers if answer[0] != 200]
    assert len(refused) == 15
    for answer in refused:
        error(answer, 503, "unavailable")
        assert answer[1]["retry-after"] == "1"
    assert len(list(agent.events(3))) == 5


def test_a_stopping_service_finishes_accepted_requests(shop):
    service, agent = shop

    service.send("POST", f"{PATH}/ask")

    async def crowd():
        asks = [asyncio.ensure_future(service.call("POST", f"{PATH}/ask")) for _ in range(20)]
        await asyncio.sleep(0)
        assert service.app.state.writer.n_waiting == 20
        await service.app.state.writer.finish()
        return [*(await asyncio.gather(*asks)), await service.call("POST", f"{PATH}/ask")]

    answers = service.loop.run_until_complete(crowd())
    assert [answer[0] for answer in answers] == [200] * 20 + [503]
    assert len(list(agent.events(3))) == 20
    error(service.send("GET", "/healthz"), 503, "unavailable")
    service.app.state.writer._thread = None


@pytest.mark.parametrize(
    ("failure", "status"),
    [(StoreUnavailable("away"), 503), (StoreDamaged("torn"), 500), (RuntimeError("bug"), 500)],
)
def test_a_failing_store_is_never_reported_as_success(shop, monkeypatch, failure, status):
    service, _ = shop
    assert service.send("POST", f"{PATH}/ask")[0] == 200

    def fails(work):
        raise failure

    store = service.app.state.store
    monkeypatch.setattr(store, "write", fails)
    answer = service.send("POST", f"{PATH}/ask")
    assert answer[0] == status
    assert str(failure) not in json.dumps(answer[2])
    monkeypatch.undo()
    assert service.send("POST", f"{PATH}/ask")[2]["id"] == 2
    monkeypatch.setattr(store, "read", fails)
    assert service.send("GET", PATH)[0] == status
    assert service.send("GET", "/healthz")[0] == status


def test_a_failing_request_does_not_affect_others_in_its_group(shop):
    _, agent = shop
    loop = asyncio.new_event_loop()
    made = [
        writer.Request(agent, operation, loop.create_future())
        for operation in (("ask", ("a", None, None)), ("tell", (9, 1.0)), ("look", (None,)))
    ]
    made.append(writer.Request(None, lambda: agent.add("red"), loop.create_future()))
    asked, told, looked, added = writer.commit(made)
    assert (asked.id, looked.id, added) == (1, 2, None)
    assert isinstance(told, kibitz.UnknownDecision)

    def broken(operations, return_errors=False, batch=agent.batch):
        if len(operations) > 1:
            raise ValueError("done by half")
        return batch(operations, return_errors=return_errors)

    agent.batch = broken
    asked, told, looked = writer.commit(made[:3])
    assert asked.id == 1
    assert isinstance(told, kibitz.UnknownDecision)
    assert looked.id == 3
    tried = []

    def unavailable(operations, return_errors=False):
        tried.append(len(operations))
        raise StoreUnavailable("away")

    agent.batch = unavailable  # the operations are not retried one by one
    assert all(isinstance(answer, StoreUnavailable) for answer in writer.commit(made[:3]))
    assert tried == [3]
    loop.close()


# ------------------------------------------------------------------------------------- OpenAPI


def test_openapi_examples_agree_with_the_service(shop):
    service, _ = shop
    found = service.send("GET", "/openapi.json")[2]
    addresses = {(method, path) for path, item in found["paths"].items() for method in item}
    assert {(one.method.lower(), one.path) for one in OPERATIONS} <= addresses
    for end, one in PLAYED.items():
        said = found["paths"][one.path][one.method.lower()]
        sent = said["requestBody"]["content"]["application/json"]["example"]
        assert sent == one.example.body
        answer = service.send(one.method, at(one, "red"), sent)
        assert answer[0] == one.status, answer
        example = dict(said["responses"][str(one.status)]["content"]["application/json"]["example"])
        got = dict(answer[2])
        for dict_ in (example, got):
            dict_.pop("asked_at", None)
        assert got == example if end != "look" else set(got) == set(example)
    for one in SHOWN:
        said = found["paths"][one.path]["get"]
        assert said["summary"]
        content = said["responses"]["200"]["content"]
        assert content
        assert all(media.get("example") for kind, media in content.items() if "netcdf" not in kind)
        if "application/json" in content:
            example = content["application/json"]["example"]
            got = service.send("GET", at(one))[2]
            assert set(got) == set(example), one.path
    arm = found["paths"]["/v1/agents/{name}"]["get"]["responses"]["200"]["content"][
        "application/json"
    ]
    report = service.send("GET", PATH)[2]
    assert set(arm["example"]["arms"][0]) == set(report["arms"][0])


def test_openapi_is_complete(shop):
    service, _ = shop
    paths = service.send("GET", "/openapi.json")[2]["paths"]
    for path, item in paths.items():
        for said in item.values():
            named = [one["name"] for one in said["parameters"] if one["in"] == "path"]
            assert named == re.findall(r"{(\w+)}", path)
            errors = {int(status) for status in said["responses"] if int(status) >= 400}
            assert {403, 500, 503} <= errors
            assert ("{name}" in path) <= (404 in errors)
            assert ("requestBody" in said) <= ({413, 415, 422} <= errors)
            for status in errors:
                answer = said["responses"][str(status)]["content"]["application/json"]
                assert answer["schema"] == {"$ref": "#/components/schemas/Error"}
    agent = "/v1/agents/{name}"
    told = paths[f"{agent}/tell"]["post"]
    schema = told["requestBody"]["content"]["application/json"]["schema"]
    assert {"array", None} == {part.get("type") for part in schema["anyOf"]}
    assert "anyOf" in told["responses"]["200"]["content"]["application/json"]["schema"]
    asked = service.send("GET", "/openapi.json")[2]["components"]["schemas"]["Ask"]["properties"]
    assert {"type": "integer", "minimum": 1, "maximum": 1000} in asked["n"]["anyOf"]
    assert "409" in told["responses"]
    for path in (f"{agent}/events", f"{agent}/watch"):
        assert "text/event-stream" in paths[path]["get"]["responses"]["200"]["content"]
    query = {one["name"] for one in paths[f"{agent}/events"]["get"]["parameters"]}
    assert query == {"name", "after", "limit", "Last-Event-ID"}


def test_types_are_strict(shop):
    service, agent = shop
    for sent in ({"n": 1e5}, {"n": 2.0}, {"n": True}, {"n": "2"}):
        said = error(service.send("POST", f"{PATH}/ask", sent), 422, "invalid")
        assert said.startswith("n must be a whole number, got ")
    assert len(list(agent.events())) == 2
    id = service.send("POST", f"{PATH}/ask")[2]["id"]
    for sent in (
        {"id": float(id), "reward": 1},
        {"id": id, "reward": True},
        {"id": id, "reward": "1"},
    ):
        error(service.send("POST", f"{PATH}/tell", sent), 422, "invalid")
    assert service.send("POST", f"{PATH}/tell", {"id": id, "reward": 1})[2] == {"result": "counted"}


def test_the_html_page_of_openapi_is_complete_and_loads_nothing(shop):
    service, _ = shop
    status, headers, content = service.send("GET", "/docs")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=us-ascii"
    assert "script-src" not in headers["content-security-policy"]
    assert "default-src 'none'; style-src 'sha256-" in headers["content-security-policy"]
    text = content.decode("ascii")
    for path, item in service.send("GET", "/openapi.json")[2]["paths"].items():
        for method, said in item.items():
            assert f"<h2>{method.upper()} {path}</h2>" in text
            assert said["description"].splitlines()[0].split("`")[0] in text
    assert '"visit-4711"' in text
    assert "&lt;token&gt;" in text  # markup is escaped
    assert not re.search(r"<script|src=|href=|@import|url\(", text)
