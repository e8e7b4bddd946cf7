"""The agents of a store over HTTP; `kibitz serve` runs it.

`live/playing.py` has what changes an agent, `live/seeing.py` what shows it, `live/described.py` what
OpenAPI says about both, and `live/access.py` who may do what.
"""

import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kibitz.live import making, seeing, watch
from kibitz.live.access import SLASH
from kibitz.live.agent import Agent
from kibitz.live.answers import Refused, refusal
from kibitz.live.described import openapi, shown
from kibitz.live.manual import manual
from kibitz.live.playing import Playing
from kibitz.live.pulse import Pulse
from kibitz.live.store import Store, connect
from kibitz.live.tokens import Tokens
from kibitz.live.writer import Writer

HEADERS = {  # of every answer, unless it has its own
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"cross-origin-resource-policy": b"same-origin",
}
AGENT = "/v1/agents/{name}"
SHOWN: list[tuple[str, Callable[..., Any]]] = [  # by path: what is got there
    ("/healthz", seeing.healthz),
    ("/v1/agents", seeing.agents),
    (AGENT, seeing.report),
    (f"{AGENT}/events", seeing.events),
    (f"{AGENT}/export", seeing.export),
]


def app(store: str | os.PathLike[str] | Store) -> FastAPI:
    """Return the service of the agents of a store, as an ASGI application.

    Its state has the `store`, the `tokens`, the `writer`, the `pulse`, the `agents` that are open by
    name, and `open(name)`.
    """
    there = connect(store, create=False) if isinstance(store, str | os.PathLike) else store
    made = FastAPI(
        title="kibitz",
        version=version("kibitz"),
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    made.state.store = there
    made.state.tokens = Tokens(there)
    made.state.writer = Writer()
    made.state.pulse = Pulse(there)
    made.state.agents = {}
    made.state.open = lambda name: opened(made, name)
    made.add_middleware(Playing)
    made.add_middleware(Shell)
    made.exception_handler(HTTPException)(_http)
    made.exception_handler(RequestValidationError)(_invalid)
    for known in (Refused, ValueError, KeyError, OSError):
        made.exception_handler(known)(_refused)
    made.openapi = lambda: openapi(made)  # type: ignore[method-assign]
    for path, function in SHOWN:
        made.get(path, **shown(function))(function)
    made.get("/docs", include_in_schema=False)(manual)
    watch.add(made)
    return made


@contextlib.asynccontextmanager
async def lifespan(made: FastAPI) -> AsyncIterator[None]:
    """Run the service; at the end finish what was accepted."""
    yield
    made.state.pulse.stop()
    await made.state.writer.finish()
    made.state.store.close()


def opened(made: FastAPI, name: str) -> Agent:
    """Open an agent of the service."""
    try:
        setting = made.state.store.read(lambda database: making.setting(database, name))
    except ValueError:
        raise Refused(404, f"agent must be one of the service's, got {name!r}") from None
    try:
        found = Agent(made.state.store, name, setting)
    except ValueError as error:  # a policy of the user's that this machine does not have
        raise Refused(503, str(error)) from None
    kept: Agent = made.state.agents.setdefault(name, found)
    return kept


async def _refused(request: Request, error: Exception) -> Response:
    return refusal(error)


async def _http(request: Request, error: Any) -> Response:
    return refusal(Refused(error.status_code, f"{error.detail}: {request.method} on this address"))


async def _invalid(request: Request, error: Any) -> Response:
    first = error.errors()[0]
    return refusal(Refused(422, f"{first['loc'][-1]} must be valid, got this: {first['msg']}"))


class Shell:
    """Around all of it: headers of every answer, names with slashes in them, and no crash."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if b"%2" in scope["raw_path"]:
            scope = {**scope, "path": path_of(scope["raw_path"])}
        started = False

        async def sent(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = message["headers"]
                present = {name for name, _ in headers}
                headers += [pair for pair in HEADERS.items() if pair[0] not in present]
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except (Refused, ValueError, KeyError, OSError) as error:  # of what is played
            await refusal(error)(scope, receive, sent)
        except Exception:
            logging.getLogger("kibitz").exception("a request failed")
            if started:
                raise
            await refusal(RuntimeError())(scope, receive, sent)


def path_of(raw: bytes) -> str:
    """Return an address in which a slash that is part of a name does not divide."""
    parts = raw.decode("ascii", "replace").split("/")
    return "/".join(unquote(part).replace("/", SLASH) for part in parts)
