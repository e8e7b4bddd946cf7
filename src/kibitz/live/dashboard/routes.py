"""The dashboard: a page to watch agents on, and the data that it shows.

`GET /` is the page, one file with style and script inside; its Content-Security-Policy allows nothing
else. It logs in with a token, which becomes a cookie that no script can read.
`GET /v1/agents/{name}/watch` sends a snapshot of an agent (`snapshots.py`) as server-sent events: at
once, and then after changes, at most twice a second.
"""

import asyncio
import base64
import functools
import hashlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from kibitz._validation import text
from kibitz.live.dashboard.snapshots import Watched
from kibitz.live.service.auth import COOKIE, Rejected
from kibitz.live.service.http import Call, operation
from kibitz.live.service.schemas import Example
from kibitz.live.store import queries

STATIC = Path(__file__).parent / "static"
SCRIPTS = ("dom.js", "wire.js", "chart.js", "arms.js", "agent.js", "page.js")


@functools.cache
def page() -> tuple[bytes, str]:
    """Return the page as it is sent, and its Content-Security-Policy."""
    style = (STATIC / "page.css").read_text(encoding="utf-8")
    script = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in SCRIPTS)
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    html = html.replace("<style></style>", f"<style>{style}</style>")
    html = html.replace("></script>", f">{script}</script>")
    hashes = [f"'sha256-{_hash(part)}'" for part in (script, style)]
    policy = (
        f"default-src 'none'; script-src {hashes[0]}; style-src {hashes[1]}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return html.encode(), policy


def _hash(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


async def index(request: Request) -> Response:
    """Answer the page."""
    content, policy = page()
    headers = {"content-security-policy": policy}
    return Response(content, media_type="text/html; charset=utf-8", headers=headers)


class Session(Struct):
    tokens: bool
    role: str | None
    agent: str | None


class Login(Struct, forbid_unknown_fields=True):
    token: str


class Nothing(Struct):
    """An empty answer."""


SESSION = {"tokens": True, "role": "read", "agent": None}


@operation("GET", "/session", None, Example(None, SESSION))
async def session(call: Call) -> Session:
    """Say what the sender may do, and whether there are tokens at all."""
    tokens = call.state.tokens
    role, agent = await tokens.identify("GET", call.headers) or (None, None)
    return Session(not tokens.open, role, agent)


@operation("POST", "/login", None, Example({"token": "1.secret"}, SESSION), errors=(401,))
async def login(call: Call, body: Login) -> Session | Response:
    """Take a token, and return it as a cookie that no script and no other site can use."""
    tokens = call.state.tokens
    await tokens.identify("POST", call.headers)
    access = tokens.access(text(body.token, "token"))
    if access is None:
        raise Rejected(401, "token must be a valid one")
    content = {"tokens": not tokens.open, "role": access.role, "agent": access.agent}
    answer = Response(json.dumps(content), media_type="application/json")
    if not tokens.open:
        secure = call.request.url.scheme == "https"
        answer.set_cookie(COOKIE, body.token, httponly=True, samesite="strict", secure=secure)
    return answer


@operation("POST", "/logout", None, Example(None, {}))
async def logout(call: Call) -> Nothing | Response:
    """Take the cookie away."""
    await call.state.tokens.identify("POST", call.headers)
    answer = Response("{}", media_type="application/json")
    secure = call.request.url.scheme == "https"
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=secure)
    return answer


class Glance(Struct):
    agent: str
    policy: str
    n_asks: float
    latest: float
    n_arms: float
    n_looks: float
    n_pending: float


class Overview(Struct):
    now: float
    agents: list[Glance]


GLANCE = {
    "agent": "checkout", "policy": "ucb", "n_asks": 1.0, "latest": 1790000000.0, "n_arms": 2.0,
    "n_looks": 0.0, "n_pending": 1.0,
}  # fmt: skip
SNAPSHOT: dict[str, str | None] = {
    "text/event-stream": 'event: report\ndata: {"at": 1790000000.0, "report": {...}, ...}\n\n'
}


@operation("GET", "/v1/watch", "read", Example(None, {"now": 1790000000.0, "agents": [GLANCE]}))
async def overview(call: Call) -> Overview:
    """List the agents, with what is worth a glance."""
    rows = await asyncio.to_thread(call.state.store.read, queries.read_overview)
    found = [
        Glance(name, json.loads(config)["policy"]["name"], *map(float, rest))
        for name, config, *rest in rows
        if call.access.agent in (None, name)
    ]
    return Overview(time.time(), found)


@operation("GET", "/v1/agents/{name}/watch", "read", Example(None, None, SNAPSHOT))
async def watch(call: Call) -> Response:
    """Send a snapshot of an agent whenever it changes, as server-sent events."""
    shared = call.state.watched  # one snapshot for all who watch an agent
    watched = shared.setdefault(call.agent.name, Watched(call.agent, call.state.changes))
    headers = {"X-Accel-Buffering": "no"}  # a proxy must not buffer them
    return StreamingResponse(_stream(call, watched), 200, headers, "text/event-stream")


async def _stream(call: Call, watched: Watched) -> AsyncIterator[bytes]:
    """Send snapshots until the watcher leaves, the token is revoked or the service stops."""
    async for frame in watched.frames():
        try:
            await call.state.tokens.authorize("GET", call.headers, "read", call.agent.name)
        except Rejected:
            return
        yield frame


ROUTES = [Route("/", index), session, login, logout, overview, watch]
ROUTES[0].methods = {"GET"}
