"""Who may do what: a token is checked, and the agent of an address found.

A token comes as `Authorization: Bearer ...`, or in the cookie that the page's login has set.
`allowed` and `named` are dependencies of FastAPI; `admitted` and `found` are the same without it.
"""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import cookie_parser

from kibitz.live.agent import Agent
from kibitz.live.answers import Refused
from kibitz.live.tokens import Access, Tokens

COOKIE = "kibitz_token"
SLASH = "\uf8ff"  # stands for a slash inside of a name; no name can have it
LOCAL = ("localhost", "127.0.0.1", "::1")  # hosts that may be served without tokens

Headers = dict[bytes, bytes]


def allowed(role: str) -> Callable[[Request], Awaitable[Access]]:
    """Return a dependency that lets pass who has this role, for the agent in the address."""

    async def with_role(request: Request) -> Access:
        return await checked(request, role)

    return with_role


async def checked(request: Request, role: str) -> Access:
    """Return what the sender of a request may do; refuse it if that is less than the role."""
    name = request.path_params.get("name")
    return await admitted(
        request.app.state.tokens,
        request.method,
        dict(request.scope["headers"]),
        role,
        None if name is None else name.replace(SLASH, "/"),
    )


async def admitted(
    tokens: Tokens, method: str, headers: Headers, role: str, name: str | None
) -> Access:
    """Return what the sender of such a request may do; refuse it if that is less than the role."""
    if tokens.stale:
        await run_in_threadpool(tokens.read)
    refuse_forged(method, headers, tokens.open)
    access = tokens.access(token_in(headers))
    if access is None:
        raise Refused(401, "token must be a valid one, as Authorization: Bearer <token>")
    if not access.covers(role, name):
        whose = "" if access.agent is None else f" for agent {access.agent!r} only"
        raise Refused(403, f"token must have the role {role!r} here, got {access.role!r}{whose}")
    return access


def given(request: Request) -> str | None:
    """Return the token that a request brings."""
    return token_in(dict(request.scope["headers"]))


def token_in(headers: Headers) -> str | None:
    """Return the token that some headers bring."""
    kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    cookie = headers.get(b"cookie")
    return None if cookie is None else cookie_parser(cookie.decode("latin-1")).get(COOKIE)


def not_forged(request: Request, without_tokens: bool) -> None:
    """Refuse what another site makes a browser send."""
    refuse_forged(request.method, dict(request.scope["headers"]), without_tokens)


def refuse_forged(method: str, headers: Headers, without_tokens: bool) -> None:
    """Refuse what another site makes a browser send: by its origin, or by a name of its own."""
    if not without_tokens and b"origin" not in headers:
        return
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and method not in ("GET", "HEAD") and _part(origin, "netloc") != host:
        raise Refused(403, f"origin must be {host!r}, got {origin!r}")
    if without_tokens and host not in LOCAL and _part(f"//{host}", "hostname") not in LOCAL:
        raise Refused(403, f"host must be local while the store has no tokens, got {host!r}")


def _part(url: str, name: str) -> Any:
    try:
        return getattr(urlsplit(url), name)
    except ValueError:
        return None


async def named(request: Request) -> Agent:
    """Return the agent in the address."""
    return await found(request.app.state, request.path_params["name"].replace(SLASH, "/"))


async def found(state: Any, name: str) -> Agent:
    """Return an agent of a service."""
    agent: Agent = state.agents.get(name) or await run_in_threadpool(state.open, name)
    return agent
