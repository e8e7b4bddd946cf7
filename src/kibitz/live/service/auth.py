"""Tokens and roles that authorize access to the agents of a store.

A token has the form `<number>.<secret>`, with 256 random bits in the secret. A token is shown once;
the store has only the SHA-256 hash of the secret. Revoked tokens stay in the store, so a store that
ever had a token always requires a token. A request sends its token as `Authorization: Bearer ...`,
or in the cookie set by the dashboard's login.
"""

import asyncio
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from kibitz._validation import one_of, text, whole
from kibitz.live.store import queries
from kibitz.live.store.schema import Database, Store

ROLES = ("read", "play", "admin")  # each role includes the roles before it
TOKEN_CACHE_SECONDS = 1.0  # a revoked token may still work for this long
UNKNOWN_TOKEN = ("0" * 64, None)  # hash and access of an unknown token
COOKIE = "kibitz_token"
LOCAL = ("localhost", "127.0.0.1", "::1")  # hosts that can be served without tokens

Headers = dict[bytes, bytes]
T = TypeVar("T")


class RequestError(Exception):
    """An error that the service answers with this HTTP status, message and headers."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class Token(NamedTuple):
    """A token without its secret."""

    number: int
    role: str
    agent: str | None  # None means all agents
    created_at: float
    revoked_at: float | None


class Access(NamedTuple):
    """A role for one agent, or for all agents if `agent` is None."""

    role: str
    agent: str | None

    def covers(self, role: str, agent: str | None) -> bool:
        """Return whether this access includes `role` for `agent`.

        If `agent` is None, return whether this access includes `role` for any agent.
        """
        has_role = ROLES.index(self.role) >= ROLES.index(role)
        return has_role and (agent is None or self.agent in (None, agent))


def create_token(store: Store, role: str, agent: str | None = None) -> str:
    """Create a token and return it; it cannot be shown again."""
    one_of(role, "role", ROLES)
    if agent is not None:
        text(agent, "agent")
    secret = secrets.token_urlsafe(32)

    def insert_token(database: Database) -> int:
        if agent is not None and agent not in queries.read_names(database):
            raise queries.unknown_agent(database, agent)
        return queries.insert_token(database, _hash(secret), role, agent, time.time())

    return f"{store.write(insert_token)}.{secret}"


def list_tokens(store: Store) -> list[Token]:
    """Return all tokens of a store, including revoked tokens."""
    return [
        Token(number, *token_fields) for number, _, *token_fields in store.read(queries.read_tokens)
    ]


def revoke_token(store: Store, number: int) -> str:
    """Revoke a token; return "revoked", or "duplicate" if the token was already revoked."""
    token_number = whole(number, "token", 1)
    is_revoked_now = store.write(
        lambda database: queries.revoke_token(database, token_number, time.time())
    )
    if is_revoked_now is None:
        raise ValueError(f"token {token_number} does not exist; see `kibitz token list`")
    return "revoked" if is_revoked_now else "duplicate"


class Tokens:
    """A cache of a store's tokens, refreshed every `TOKEN_CACHE_SECONDS`.

    Every request needs the tokens, so a separate thread reads them. Nothing else should use the
    connection `store`; then no request waits for the reads of other requests. With `allow_open`,
    requests to a store that never had a token need no token. Pages of the `allowed_origins` may send
    requests with a token in the header Authorization.
    """

    def __init__(
        self, store: Store, allow_open: bool = True, allowed_origins: Sequence[str] = ()
    ) -> None:
        self.store = store
        self._allow_open = allow_open
        self._allowed_origins = frozenset(allowed_origins)
        self._executor = ThreadPoolExecutor(1, "kibitz-tokens")
        self._lock = threading.Lock()
        self._read_at = -TOKEN_CACHE_SECONDS
        self._access_by_number: dict[str, tuple[str, Access]] = {}
        self.open = False  # whether requests need no token: the store never had a token

    async def authorize(self, method: str, headers: Headers, role: str, agent: str | None) -> Access:
        """Return the access of a request.

        Raise RequestError unless the access includes `role` for `agent`.
        """
        access = await self.identify(method, headers)
        if access is None:
            raise RequestError(401, "token is missing or invalid; send Authorization: Bearer <token>")
        if not access.covers(role, agent):
            limit_text = "" if access.agent is None else f" for agent {access.agent!r} only"
            raise RequestError(
                403,
                f"this request needs role {role!r}; the token has role {access.role!r}{limit_text}",
            )
        return access

    async def identify(self, method: str, headers: Headers) -> Access | None:
        """Return the access of a request, or None if its token is missing or invalid.

        Raise RequestError if another site made a browser send the request (`check_origin`).
        """
        if self._is_stale():
            await self.run(self._refresh)
        if headers.get(b"origin", b"").decode("latin-1") in self._allowed_origins:
            return self._identify_page(headers)
        check_origin(method, headers, self.open)
        return self.access(find_token(headers))

    def _identify_page(self, headers: Headers) -> Access | None:
        """Return the access of a request from a page of an allowed origin.

        A token in a page is public. The page may therefore use only a token for one agent that is not
        an admin token, and never the cookie of the dashboard.
        """
        access = None if self.open else self.access(find_bearer(headers))
        if access is not None and (access.role == "admin" or access.agent is None):
            raise RequestError(
                403, "a page of another site needs a token with role 'read' or 'play' for one agent"
            )
        return access

    def access(self, token: str | None) -> Access | None:
        """Return the access that a token gives, or None if the token is missing or invalid."""
        if self.open:
            return Access("admin", None)
        number, _, secret = (token or "").partition(".")
        stored_hash, access = self._access_by_number.get(number, UNKNOWN_TOKEN)
        is_valid = hmac.compare_digest(stored_hash, _hash(secret))  # in constant time
        return access if is_valid else None

    async def run(self, work: Callable[..., T], *values: Any) -> T:
        """Return the result of `work(*values)`, which runs in the thread that reads the tokens."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, work, *values)

    def _is_stale(self) -> bool:
        return time.monotonic() - self._read_at >= TOKEN_CACHE_SECONDS

    def _refresh(self) -> None:
        with self._lock:
            if not self._is_stale():
                return
            start_time = time.monotonic()
            rows = self.store.read(queries.read_tokens)
            self._access_by_number = {
                str(number): (hash, Access(role, agent))
                for number, hash, role, agent, _, revoked_at in rows
                if revoked_at is None
            }
            self.open, self._read_at = self._allow_open and not rows, start_time


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def find_bearer(headers: Headers) -> str | None:
    """Return the token in the header Authorization, or None if there is none."""
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def find_token(headers: Headers) -> str | None:
    """Return the token in the headers of a request, or None if the request has no token."""
    if (token := find_bearer(headers)) is not None:
        return token
    for cookie in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == COOKIE:
            return value.strip('"')
    return None


def check_origin(method: str, headers: Headers, without_tokens: bool) -> None:
    """Raise RequestError if another site made a browser send the request.

    Such a request has a foreign Origin header. If the domain of the other site resolves to this
    service (DNS rebinding), the request has a foreign Host header instead.
    """
    if not without_tokens and b"origin" not in headers:
        return
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and method not in ("GET", "HEAD") and _get_url_part(origin, "netloc") != host:
        raise RequestError(403, f"origin {origin!r} is not allowed; the host is {host!r}")
    if without_tokens and host not in LOCAL and _get_url_part(f"//{host}", "hostname") not in LOCAL:
        raise RequestError(
            403, f"host {host!r} is not local; without tokens the service is local only"
        )


def _get_url_part(url: str, name: str) -> Any:
    try:
        return getattr(urlsplit(url), name)
    except ValueError:
        return None
