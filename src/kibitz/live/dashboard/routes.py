"""Routes of the dashboard: its HTML, login, and streams of snapshots.

`GET /` returns the dashboard: one HTML file with its style and script inline. The
Content-Security-Policy forbids all other scripts and styles, and requests to other sites. A login
exchanges a token for a cookie that scripts cannot read. `GET /v1/agents/{name}/watch` streams
snapshots of an agent (`snapshots.py`) as server-sent events: the first snapshot at once, then a
snapshot after each change, at most twice a second.
"""

import asyncio
import base64
import contextlib
import functools
import hashlib
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kibitz._validation import text
from kibitz.live.dashboard.snapshots import Feed
from kibitz.live.service.auth import COOKIE, RequestError
from kibitz.live.service.http import Call, operation
from kibitz.live.service.schemas import Example
from kibitz.live.service.streams import open_stream
from kibitz.live.store import queries

STATIC_FOLDER = Path(__file__).parent / "static"
SCRIPT_NAMES = ("dom.js", "api.js", "chart.js", "verdict.js", "arms.js", "agent.js", "dashboard.js")


@functools.cache
def build_dashboard() -> tuple[bytes, str]:
    """Return the HTML of the dashboard and its Content-Security-Policy."""
    style = (STATIC_FOLDER / "dashboard.css").read_text(encoding="utf-8")
    script = "\n".join((STATIC_FOLDER / name).read_text(encoding="utf-8") for name in SCRIPT_NAMES)
    html = (STATIC_FOLDER / "index.html").read_text(encoding="utf-8")
    html = html.replace("<style></style>", f"<style>{style}</style>")
    html = html.replace("></script>", f">{script}</script>")
    hashes = [f"'sha256-{_hash(source)}'" for source in (script, style)]
    security_policy = (
        f"default-src 'none'; script-src {hashes[0]}; style-src {hashes[1]}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return html.encode(), security_policy


def _hash(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


async def index(request: Request) -> Response:
    """Return the HTML of the dashboard."""
    content, security_policy = build_dashboard()
    headers = {"content-security-policy": security_policy}
    return Response(content, media_type="text/html; charset=utf-8", headers=headers)


class Session(Struct):
    tokens: bool
    role: str | None
    agent: str | None


class Login(Struct, forbid_unknown_fields=True):
    token: str


class Empty(Struct):
    """An empty answer."""


SESSION_EXAMPLE = {"tokens": True, "role": "read", "agent": None}


@operation("GET", "/session", None, Example(None, SESSION_EXAMPLE))
async def session(call: Call) -> Session:
    """Return the role of the request's token, and whether the service requires tokens."""
    tokens = call.state.tokens
    role, agent = await tokens.identify("GET", call.headers) or (None, None)
    return Session(not tokens.open, role, agent)


@operation("POST", "/login", None, Example({"token": "1.secret"}, SESSION_EXAMPLE), errors=(401,))
async def login(call: Call, body: Login) -> Session | Response:
    """Exchange a token for a cookie that scripts cannot read and other sites cannot send."""
    tokens = call.state.tokens
    await tokens.identify("POST", call.headers)
    access = tokens.access(text(body.token, "token"))
    if access is None:
        raise RequestError(401, "token is invalid")
    content = {"tokens": not tokens.open, "role": access.role, "agent": access.agent}
    response = Response(json.dumps(content), media_type="application/json")
    if not tokens.open:
        is_secure = _uses_https(call)
        response.set_cookie(COOKIE, body.token, httponly=True, samesite="strict", secure=is_secure)
    return response


@operation("POST", "/logout", None, Example(None, {}))
async def logout(call: Call) -> Empty | Response:
    """Delete the cookie that a login has set."""
    await call.state.tokens.identify("POST", call.headers)
    response = Response("{}", media_type="application/json")
    is_secure = _uses_https(call)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=is_secure)
    return response


def _uses_https(call: Call) -> bool:
    """Return whether the browser uses HTTPS, even if a proxy forwards its requests over HTTP.

    A browser sends the Origin of the dashboard with each login. The proxy may also send
    X-Forwarded-Proto, from which uvicorn sets the scheme.
    """
    return call.request.url.scheme == "https" or call.headers.get(b"origin", b"").startswith(
        b"https://"
    )


class AgentSummary(Struct):
    agent: str
    policy: str
    n_asks: float
    latest: float
    n_arms: float
    n_looks: float
    n_pending: float


class Overview(Struct):
    now: float
    agents: list[AgentSummary]


AGENT_SUMMARY_EXAMPLE = {
    "agent": "checkout", "policy": "ucb", "n_asks": 1.0, "latest": 1790000000.0, "n_arms": 2.0,
    "n_looks": 0.0, "n_pending": 1.0,
}  # fmt: skip
SNAPSHOT_EXAMPLE: dict[str, str | None] = {
    "text/event-stream": 'event: report\ndata: {"at": 1790000000.0, "report": {...}, ...}\n\n'
}


@operation(
    "GET",
    "/v1/watch",
    "read",
    Example(None, {"now": 1790000000.0, "agents": [AGENT_SUMMARY_EXAMPLE]}),
)
async def overview(call: Call) -> Overview:
    """List the agents with their counts."""
    rows = await asyncio.to_thread(call.state.store.read, queries.read_overview)
    agents = [
        AgentSummary(name, json.loads(config)["policy"]["name"], *map(float, counts))
        for name, config, *counts in rows
        if call.access.agent in (None, name)
    ]
    return Overview(time.time(), agents)


@operation(
    "GET", "/v1/agents/{name}/watch", "read", Example(None, None, SNAPSHOT_EXAMPLE), errors=(429,)
)
async def watch(call: Call) -> Response:
    """Stream a snapshot of an agent after each change, as server-sent events."""
    await call.check_agent()
    feeds, name = call.state.feeds, call.agent.name  # all clients of an agent share its feed
    feed = feeds.get(name)
    if feed is None or feed.agent is not call.agent:  # the agent may have been created again
        feed = feeds[name] = Feed(call.agent, call.state.changes)
    return open_stream(call, _stream(call, feed))


async def _stream(call: Call, feed: Feed) -> AsyncGenerator[bytes, None]:
    """Yield snapshots until the client leaves, the token is revoked or the service stops."""
    async with contextlib.aclosing(feed.frames()) as frames:
        async for frame in frames:
            try:
                await call.state.tokens.authorize("GET", call.headers, "read", call.agent.name)
            except RequestError:
                return
            yield frame


ROUTES = [Route("/", index), session, login, logout, overview, watch]
ROUTES[0].methods = {"GET"}
