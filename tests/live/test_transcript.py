"""The service answers as in a recorded transcript of requests, statuses, headers and bodies.

After an intended change, record a new transcript with `python tests/live/test_transcript.py`.
"""

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

import pytest

import kibitz

TRANSCRIPT_FILE = Path(__file__).parent / "files" / "transcript.json"
A, B, C = "/v1/agents/checkout", "/v1/agents/a%2Fb%20%3Cc%3E", "/v1/agents/banner"
NEW_AGENT = {"name": "banner", "arms": ["old", "new"], "rewards": "bernoulli", "seed": 1}
HISTORY = b"arm,reward,key\nold,1,visitor-2\nnew,0,visitor-3\n"
CSV = {"content-type": "text/csv"}
HEADERS = (
    "allow", "cache-control", "connection", "content-disposition", "content-security-policy",
    "content-type", "cross-origin-resource-policy", "referrer-policy", "retry-after", "set-cookie",
    "www-authenticate", "x-accel-buffering", "x-content-type-options", "x-frame-options",
)  # fmt: skip
JSON = {"content-type": "application/json"}
DEFAULT_HEADERS = {  # the default headers of a response; the transcript has only deviations from them
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "content-type": "application/json",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
LARGE_BODY = b'{"key": "' + b" " * (256 * 1024) + b'"}'
SSE = {"accept": "text/event-stream"}


def post(path, body=None, **options):
    return {"method": "POST", "path": path, "body": body, **options}


def get(path, **options):
    return {"method": "GET", "path": path, **options}


REQUESTS_WITHOUT_TOKENS = [  # while the store has no tokens
    get("/healthz"),
    get("/v1/agents"),
    get(f"{A}/events"),
    post(f"{A}/ask"),
    post(f"{A}/ask", {}),
    post(f"{A}/ask", {"key": "visit-1"}),
    post(f"{A}/ask", {"key": "visit-1"}),
    post(f"{A}/ask", headers={"idempotency-key": "visit-1"}),
    post(f"{A}/ask", {"key": "visit-1"}, headers={"idempotency-key": "visit-1"}),
    post(f"{A}/ask", {"key": "visit-1"}, headers={"idempotency-key": "visit-2"}),
    post(f"{A}/ask", headers={"idempotency-key": "bes\u00e4\u00df"}),
    post(f"{A}/ask", {"among": ["green"]}),
    post(f"{A}/ask", {"among": ["green"], "key": "among", "n": None}),
    post(f"{A}/ask", {"n": 3}),
    post(f"{A}/ask", {"n": 2, "key": ["many-1", "many-2"]}),
    post(f"{A}/ask", {"n": 2, "key": ["many-1", "many-2"]}),
    post(f"{A}/ask", {"n": 1}),
    post(f"{A}/look"),
    post(f"{A}/look", {"key": "probe-1"}),
    post(f"{A}/look", headers={"idempotency-key": "probe-1"}),
    post(f"{A}/tell", {"id": 1, "reward": 1.0}),
    post(f"{A}/tell", {"id": 1, "reward": 1}),
    post(f"{A}/tell", {"id": 1, "reward": 0}),
    post(f"{A}/tell", [{"id": 2, "reward": 0.5}, {"id": 1, "reward": 1.0}]),
    post(f"{A}/tell", []),
    post(f"{A}/tell", [{"id": 3, "reward": 0.5}, {"id": 1, "reward": 0.0}]),
    post(f"{A}/tell", [{"id": 3, "reward": 0.5}, {"id": 999, "reward": 0.0}]),
    post(f"{A}/tell", {"id": 999, "reward": 1.0}),
    post(f"{A}/observe", {"arm": "green", "reward": 1}),
    post(f"{A}/observe", {"arm": "green", "reward": 1.0, "key": "panel-1"}),
    post(f"{A}/observe", {"arm": "green", "reward": 1.0}, headers={"idempotency-key": "panel-1"}),
    post(f"{A}/observe", {"arm": "green", "reward": 0.0, "key": "panel-1"}),
    post(f"{A}/look", {"key": "visit-1"}),
    post(f"{A}/forget", {"id": 4}),
    post(f"{A}/forget", {"id": 4}),
    post(f"{A}/forget", {"id": 1}),
    post(f"{A}/forget", {"id": 999}),
    post(f"{A}/correct", {"id": 1, "reward": 0.25}),
    post(f"{A}/correct", {"id": 1, "reward": 0.25}),
    post(f"{A}/correct", {"id": 3, "reward": 0.25}),
    post(f"{A}/correct", {"id": 999, "reward": 0.25}),
    post(f"{A}/arms", {"arm": "red"}),
    post(f"{A}/arms", {"arm": "red"}),
    post(f"{A}/arms", {"arm": "a/b"}),
    {"method": "PATCH", "path": f"{A}/arms/red", "body": {"state": "paused"}},
    {"method": "PATCH", "path": f"{A}/arms/red", "body": {"state": "active"}},
    {"method": "PATCH", "path": f"{A}/arms/a%2Fb", "body": {"state": "retired"}},
    {"method": "PATCH", "path": f"{A}/arms/a%2Fb", "body": {"state": "active"}},
    {"method": "PATCH", "path": f"{A}/arms/pink", "body": {"state": "active"}},
    {"method": "PATCH", "path": f"{A}/arms/red", "body": {"state": "gone"}},
    {"method": "PATCH", "path": f"{A}/arms/red", "body": {}},
    post(f"{B}/ask"),
    post(f"{B}/ask"),
    post(f"{B}/ask", {"n": 2}),
    post(f"{B}/ask", {"among": ["x"]}),
    post(f"{B}/arms", {"arm": "z"}),
    get(B),
    # Invalid values and bodies
    *(post(f"{A}/ask", body) for body in (
        {"n": 0}, {"n": -1}, {"n": 1001}, {"n": "3"}, {"n": True},
        {"key": ""}, {"key": 7}, {"key": "a\nb"}, {"key": "k" * 501}, {"key": ["a"]},
        {"n": 2, "key": ["a"]}, {"n": 2, "key": ["a", "a"]}, {"n": 2, "key": "a"},
        {"among": []}, {"among": "green"}, {"among": ["pink"]}, {"among": [1]}, {"among": ["a/b"]},
        {"x": 1}, [], 1, "ask",
    )),
    *(post(f"{A}/tell", body) for body in (
        None, {}, {"id": 1}, {"reward": 1.0}, {"id": 0, "reward": 1.0}, {"id": "x", "reward": 1.0},
        {"id": 1.5, "reward": 1.0}, {"id": 2**70, "reward": 1.0},
        {"id": True, "reward": 1.0}, {"id": 3, "reward": None}, {"id": 3, "reward": "1"},
        {"id": 3, "reward": True}, {"id": 3, "reward": 1e300}, {"id": 3, "reward": [1]},
        {"id": 3, "reward": 1, "x": 1}, [1], [[]], [{"id": 3}],
        b'{"id": 3, "reward": NaN}', b'{"id": 3, "reward": 1e999}',
        [{"id": 1, "reward": 0.25}] * 1001,
    )),
    *(post(f"{A}/observe", body) for body in (
        None, {"arm": "pink", "reward": 1}, {"arm": "", "reward": 1}, {"arm": 1, "reward": 1},
        {"arm": "green"}, {"arm": "a/b", "reward": 1}, {"arm": "green", "reward": 1, "key": 1},
    )),
    *(post(f"{A}/{verb}", body) for verb in ("forget", "correct", "look", "arms")
      for body in ({"x": 1}, {"id": 0}, [])),
    *(post(f"{A}/ask", body) for body in (b"{", b"\xff", b"nul", b"[" * 100_000, LARGE_BODY)),
    post(f"{A}/ask", headers={"content-length": str(10**12)}),
    post(f"{A}/ask", LARGE_BODY, headers={"content-length": None, "transfer-encoding": "chunked"}),
    post(f"{A}/tell", {"id": 2, "reward": 0.5}, headers={"content-type": "text/plain"}),
    post(f"{A}/tell", {"id": 2, "reward": 0.5},
         headers={"content-type": "text/plain", "origin": "http://localhost"}),
    # Unknown paths
    get("/nowhere"), post("/v1/agents"), get("/v1/agents/"), get("/v1/agents/nobody"),
    post("/v1/agents/nobody/ask"), get("/v1/agents/nobody/events"), get(f"{A}/ask"), get(f"{A}/arms"),
    post(f"{A}/nothing"), post(f"{A}/ask/blue"), post(f"{A}/arms/red"), post(A), post("/healthz"),
    {"method": "PUT", "path": A}, {"method": "HEAD", "path": "/healthz"},
    # Reports, logs and pages
    get(A), get(f"{A}?delta=0.1"), get(f"{A}?delta=2"), get(f"{A}?delta=x"), get(f"{A}?delta=nan"),
    get(f"{A}/events"), get(f"{A}/events?after=20"), get(f"{A}/events?after=2&limit=2"),
    get(f"{A}/events?after=100000"), get(f"{A}/events?after=-1"), get(f"{A}/events?after=x"),
    get(f"{A}/events?limit=0"), get(f"{A}/events?limit=5001"), get(f"{A}/events?unknown=1"),
    get(f"{A}/export"), get(f"{A}/export?format=csv"), get(f"{A}/export?format=jsonl"),
    get(f"{A}/export?format=nc"), get(f"{A}/export?format=xls"),
    get(f"{A}/events?after=20", headers=SSE, stream=3),
    get(f"{A}/events?after=2", headers={**SSE, "last-event-id": "20"}, stream=3),
    get(f"{A}/events?after=-1", headers=SSE),
    get("/v1/agents/nobody/events", headers=SSE),
    get("/"), get("/docs"), get("/session"), get("/v1/watch"),
    get(f"{A}/watch", stream=1), get("/v1/agents/nobody/watch"),
    post("/login", {"token": "x"}), post("/logout"),
    # Requests from other sites and for other hosts
    post(f"{A}/ask", headers={"origin": "https://evil.example"}),
    post(f"{A}/ask", headers={"host": "evil.example"}),
    get(A, headers={"host": "evil.example"}),
    post("/login", {"token": "x"}, headers={"origin": "https://evil.example"}),
    # Probes, and agents that are created, imported and deleted
    get("/livez"), get("/readyz"), post("/livez"),
    post("/v1/agents", NEW_AGENT), post("/v1/agents", NEW_AGENT),
    post("/v1/agents", {**NEW_AGENT, "patience": 5}),
    post("/v1/agents", {**NEW_AGENT, "arms": ["x"]}),
    post("/v1/agents", {**NEW_AGENT, "policy": {"name": "os"}}),
    post("/v1/agents", {**NEW_AGENT, "policy": {"name": "ucb", "function": "system"}}),
    get("/v1/agents"), get("/v1/agents?limit=2"), get("/v1/agents?limit=2&after=banner"),
    get("/v1/agents?limit=0"), get(f"{C}/config"),
    post(f"{C}/ask", {"key": "visitor-1"}), post(f"{C}/tell", {"key": "visitor-1", "reward": 1}),
    post(f"{C}/tell", [{"key": "visitor-1", "reward": 1}, {"id": 1, "reward": 1}]),
    post(f"{C}/tell", {"key": "visitor-9", "reward": 1}),
    post(f"{C}/tell", {"id": 1, "key": "visitor-1", "reward": 1}),
    post(f"{C}/observe", [{"arm": "old", "reward": 1, "key": "panel-1"}]),
    post(f"{C}/observe", [{"arm": "old", "reward": 1}] * 1001),
    post(f"{C}/import", HISTORY, headers=CSV), post(f"{C}/import", HISTORY, headers=CSV),
    post(f"{C}/import", HISTORY.replace(b"1", b"x"), headers=CSV), post(f"{C}/import", HISTORY),
    post(f"{C}/import", b'{"arm": "old", "reward": 0, "key": "visitor-8"}',
         headers={"content-type": "application/x-ndjson"}),
    {"method": "DELETE", "path": C}, {"method": "DELETE", "path": C}, get(f"{C}/config"),
]  # fmt: skip

REQUESTS_WITH_TOKENS = [  # after the store has tokens
    request
    for path, method, body in (
        ("/v1/agents", "GET", None), (A, "GET", None), (f"{A}/events?after=20&limit=1", "GET", None),
        (f"{A}/export", "GET", None), ("/v1/watch", "GET", None),
        (f"{A}/ask", "POST", {"key": "visit-1"}), (f"{A}/look", "POST", {"key": "probe-1"}),
        (f"{A}/tell", "POST", {"id": 2, "reward": 0.5}), (f"{A}/forget", "POST", {"id": 4}),
        (f"{A}/observe", "POST", {"arm": "green", "reward": 1.0, "key": "panel-1"}),
        (f"{A}/correct", "POST", {"id": 1, "reward": 0.25}), (f"{A}/arms", "POST", {"arm": "red"}),
        (f"{A}/arms/red", "PATCH", {"state": "active"}), (B, "GET", None), ("/session", "GET", None),
    )
    for request in (
        {"method": method, "path": path, "body": body, "token": token}
        for token in (None, "wrong", "read", "play", "admin", "of checkout")
    )
] + [
    get("/healthz"),
    get("/openapi.json", status_only=True),
    get("/v1/agents/nobody", token="of checkout"),
    get(A, headers={"authorization": "Basic x"}),
    get(A, token="read", as_cookie=True),
    get("/session", token="play", as_cookie=True),
    post(f"{A}/ask", {"key": "visit-1"}, token="play", headers={"host": "shop.example"}),
    post(f"{A}/ask", token="play", headers={"host": "shop.example", "origin": "https://x.example"}),
    post("/login", {"token": "wrong"}), post("/login", {}), post("/login", {"token": 1}),
    post("/login", {"token": "{read}"}), post("/logout"),
    get(f"{A}/events?after=20", headers=SSE, token="read", stream=2),
    get(f"{A}/events", headers=SSE),
    get(f"{A}/watch", token="read", stream=1), get(f"{A}/watch"),
    post(f"{A}/ask", {"n": 2.0}, token="play"),  # a whole number, but not an integer in JSON
    post(f"{A}/tell", {"id": 3.0, "reward": 0.5}, token="play"),
]  # fmt: skip


async def exchange(app, request, tokens):
    """Send a request; return the status, the headers and the body, or the start of a stream."""
    body, n_events = request.get("body"), request.get("stream")
    if isinstance(body, dict) and body.get("token") == "{read}":
        body = {"token": tokens["read"]}
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    headers = {"host": "localhost", "content-length": str(len(content))}
    headers |= JSON if body is not None else {}
    token = tokens.get(request.get("token"), request.get("token"))
    if token is not None:
        headers |= (
            {"cookie": f"a=b; kibitz_token={token}"}
            if request.get("as_cookie")
            else {"authorization": f"Bearer {token}"}
        )
    headers |= request.get("headers", {})
    path, _, query = request["path"].partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "method": request["method"], "scheme": "http", "path": unquote(path), "root_path": "",
        "raw_path": path.encode(), "query_string": query.encode(), "state": {},
        "headers": [(k.encode(), v.encode()) for k, v in headers.items() if v is not None],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    waiting = [{"type": "http.request", "body": content, "more_body": False}]
    messages, has_enough = [], asyncio.Event()

    async def receive():
        if not waiting:
            await has_enough.wait()
            return {"type": "http.disconnect"}
        return waiting.pop()

    async def send(message):
        messages.append(message)
        chunks = b"".join(part.get("body", b"") for part in messages[1:])
        if n_events and chunks.count(b"\ndata: ") >= n_events:
            has_enough.set()

    await asyncio.wait_for(app(scope, receive, send), 20)
    content = b"".join(message.get("body", b"") for message in messages[1:])
    return messages[0]["status"], {k.decode(): v.decode() for k, v in messages[0]["headers"]}, content


def normalise(value, secrets):
    """Replace values that differ between recordings by placeholders."""
    if isinstance(value, dict):
        return {
            key: "<time>"
            if key in ("at", "asked_at", "oldest", "latest", "now", "since") and nested_value
            else normalise(nested_value, secrets)
            for key, nested_value in value.items()
        }  # fmt: skip
    if isinstance(value, list):
        return [normalise(nested_value, secrets) for nested_value in value]
    if isinstance(value, str):
        for name, secret in secrets.items():
            value = value.replace(secret, f"<{name}>")
        value = re.sub(r"\b\d{9,}\.\d+", "<time>", value)
        value = re.sub(r"expires=[^;]+", "expires=<time>", value)
        value = re.sub(r"sha256-[\w+/=]+", "sha256-<hash>", value)
    return value


def describe(request, status, headers, content, secrets):
    """Return a request and its response as plain data."""
    body = request.get("body")
    request_fields = {key: value for key, value in request.items() if value is not None}
    if isinstance(body, bytes):
        request_fields["body"] = f"{body[:30].decode('latin-1')} ({len(body)} bytes)"
    elif isinstance(body, list) and len(body) > 10:
        request_fields["body"] = [body[0], f"{len(body)} times"]
    elif isinstance(body, dict) and len(str(body.get("key"))) > 100:
        request_fields["body"] = {"key": f"{len(body['key'])} characters"}
    kind = headers.get("content-type", "").partition(";")[0]
    if request.get("status_only") or kind in ("text/html", "application/x-netcdf"):
        content = "not recorded"
    elif kind == "application/json" and content:
        content = normalise(json.loads(content), secrets)
    elif kind == "text/event-stream":
        events = content.decode().split("\n\n")[: request["stream"] + 1]
        content = [normalise(_fields(event), secrets) for event in events if event]
    else:
        content = normalise(content.decode(), secrets)
    headers_shown = {n: headers.get(n) for n in HEADERS if headers.get(n) != DEFAULT_HEADERS.get(n)}
    return {
        "request": request_fields,
        "status": status,
        "headers": normalise(headers_shown, secrets),
        "content": content,
    }


def _fields(event):
    """Return the fields of a server-sent event."""
    fields = dict(line.partition(": ")[::2] for line in event.split("\n"))
    if "data" in fields:
        fields["data"] = json.loads(fields["data"])
    return fields


async def record(url):
    """Send all requests to the service of a new store; return the requests and responses."""
    with (
        kibitz.agent(
            url,
            "checkout",
            arms=["blue", "green"],
            policy=kibitz.ucb(),
            rewards="gaussian",
            scale=0.5,
            seed=1,
        ) as agent,
        kibitz.agent(
            url,
            "a/b <c>",
            arms=["x", "y"],
            policy=kibitz.ucb2(),
            rewards="gaussian",
            scale=0.5,
            seed=1,
        ),
    ):
        app, create_token = create_service(url)
        secrets, exchanges = {}, []
        for requests in (REQUESTS_WITHOUT_TOKENS, REQUESTS_WITH_TOKENS):
            for request in requests:
                answer = await exchange(app, request, secrets)
                exchanges.append(describe(request, *answer, secrets))
            if requests is REQUESTS_WITHOUT_TOKENS:
                for role in ("read", "play", "admin"):
                    secrets[role] = create_token(agent.store, role)
                secrets["of checkout"] = create_token(agent.store, "admin", "checkout")
                app.state.tokens._read_at = -10.0  # expire the cached tokens
        await app.state.writer.finish()
        app.state.tokens.store.close()
        app.state.store.close()
    return exchanges


def create_service(url):
    from kibitz.live.dashboard.routes import ROUTES
    from kibitz.live.service.app import create_app
    from kibitz.live.service.auth import create_token

    return create_app(url, ROUTES), create_token


@pytest.mark.slow
def test_the_service_answers_as_recorded(memory):
    recorded_exchanges = json.loads(TRANSCRIPT_FILE.read_text(encoding="utf-8"))
    exchanges = json.loads(json.dumps(asyncio.run(record(str(memory / "shop.db")))))
    for exchange_now, expected in zip(exchanges, recorded_exchanges, strict=True):
        assert exchange_now == expected


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        answers = asyncio.run(record(f"{folder}/shop.db"))
    lines = ",\n".join(json.dumps(answer, ensure_ascii=True) for answer in answers)
    TRANSCRIPT_FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    sys.stdout.write(f"{len(answers)} exchanges\n")
