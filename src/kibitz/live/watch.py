"""The page to watch agents on, and what it is told.

`GET /` is the page, one file with style and script inside; nothing on it comes from anywhere else,
and its Content-Security-Policy allows nothing else. It logs in with a token, which becomes a cookie
that no script can read. `GET /v1/agents/{name}/watch` sends the picture of an agent (see
`kibitz.live.watched`) as server-sent events: at once, and then when something has happened, at most
twice a second, however many people watch.
"""

import base64
import functools
import hashlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from kibitz._validation import text
from kibitz.live.access import COOKIE, allowed, checked, given, named, not_forged
from kibitz.live.agent import Agent
from kibitz.live.answers import Refused, answer
from kibitz.live.body import fields, read
from kibitz.live.tokens import Access, Tokens
from kibitz.live.watched import Watched

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("dom.js", "wire.js", "chart.js", "arms.js", "agent.js", "page.js")

router = APIRouter()
Read = Annotated[Access, Depends(allowed("read"))]
Named = Annotated[Agent, Depends(named)]


def add(made: FastAPI) -> None:
    """Add the page, and what it needs, to a service."""
    made.state.watched = {}
    made.include_router(router)


# ------------------------------------------------------------------------------------- the page


@functools.cache
def page() -> tuple[bytes, str]:
    """Return the page as it is sent, and its Content-Security-Policy."""
    style = (PAGE / "page.css").read_text(encoding="utf-8")
    script = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    text = text.replace("<style></style>", f"<style>{style}</style>")
    text = text.replace("></script>", f">{script}</script>")
    hashes = [f"'sha256-{_hash(part)}'" for part in (script, style)]
    policy = (
        f"default-src 'none'; script-src {hashes[0]}; style-src {hashes[1]}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return text.encode(), policy


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@router.get("/", include_in_schema=False)
async def index() -> Response:
    """The page to watch agents on."""
    content, policy = page()
    headers = {"content-security-policy": policy}
    return Response(content, media_type="text/html; charset=utf-8", headers=headers)


@router.get("/session", include_in_schema=False)
async def session(request: Request) -> Response:
    """Say what the one who asks may do, and whether there are tokens at all."""
    tokens = await _tokens(request)
    access = tokens.access(given(request))
    role, agent = access or (None, None)
    return answer({"tokens": not tokens.open, "role": role, "agent": agent})


@router.post("/login", include_in_schema=False)
async def login(request: Request) -> Response:
    """Take a token, and give it back as a cookie that no script and no other site can use."""
    tokens = await _tokens(request)
    body = fields(await read(dict(request.scope["headers"]), request.receive), "token")
    token = text(body.get("token"), "token")
    access = tokens.access(token)
    if access is None:
        raise Refused(401, "token must be a valid one")
    found = answer({"tokens": not tokens.open, "role": access.role, "agent": access.agent})
    if not tokens.open:
        secure = request.url.scheme == "https"
        found.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
    return found


@router.post("/logout", include_in_schema=False)
async def logout(request: Request) -> Response:
    """Take the cookie away."""
    await _tokens(request)
    found = answer({})
    secure = request.url.scheme == "https"
    found.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=secure)
    return found


async def _tokens(request: Request) -> Tokens:
    tokens: Tokens = request.app.state.tokens
    if tokens.stale:
        await run_in_threadpool(tokens.read)
    not_forged(request, tokens.open)
    return tokens


# ----------------------------------------------------------------------------------- the agents

OVERVIEW = """
select a.name, a.setting, a.n_asks, a.latest, count(*), sum(r.n_looks),
    sum(r.n_pending + r.looks_pending)
from agents a join arms r on r.agent = a.agent
group by a.name, a.setting, a.n_asks, a.latest order by a.name
"""


@router.get("/v1/watch", include_in_schema=False)
async def overview(request: Request, access: Read) -> Response:
    """List the agents, with what is worth a glance."""
    store = request.app.state.store
    rows = await run_in_threadpool(store.read, lambda database: database.rows(OVERVIEW))
    keys = ("agent", "policy", "n_asks", "latest", "n_arms", "n_looks", "n_pending")
    found = [
        dict(zip(keys, (name, json.loads(setting)["policy"]["name"], *map(float, rest)), strict=True))
        for name, setting, *rest in rows
        if access.agent in (None, name)
    ]
    return answer({"now": time.time(), "agents": found})


@router.get("/v1/agents/{name}/watch", include_in_schema=False)
async def watch(request: Request, access: Read, agent: Named) -> Response:
    """Send what a person wants to see of an agent, anew when it changes, as server-sent events."""
    state = request.app.state
    watched = state.watched.setdefault(agent.name, Watched(agent, state.pulse))
    headers = {"X-Accel-Buffering": "no"}  # a proxy must not keep them back
    return StreamingResponse(_stream(request, watched), 200, headers, "text/event-stream")


async def _stream(request: Request, watched: Watched) -> AsyncIterator[bytes]:
    """Send pictures until the watcher leaves, the token is revoked or the service stops."""
    async for frame in watched.frames():
        try:
            await checked(request, "read")
        except Refused:
            return
        yield frame
