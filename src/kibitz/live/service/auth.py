"""Tokens: who may do what with the agents of a store.

A token reads `<number>.<secret>`. It is shown once; the store keeps the SHA-256 of the secret, which
has 256 random bits. A revoked token stays in the store: a store that ever had tokens is never open to
everybody again. A request carries its token as `Authorization: Bearer ...`, or in the cookie that the
dashboard's login sets.
"""

import asyncio
import hashlib
import hmac
import secrets
import threading
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kibitz._errors import UnknownAgent
from kibitz._validation import one_of, text, whole
from kibitz.live.store import queries
from kibitz.live.store.schema import Database, Store

ROLES = ("read", "play", "admin")  # each may do what those before it may
FRESH_SECONDS = 1.0  # until tokens are read again, and a revoked one stops working
UNKNOWN = ("0" * 64, None)  # the hash that an unknown token is compared with
COOKIE = "kibitz_token"
LOCAL = ("localhost", "127.0.0.1", "::1")  # hosts that may be served without tokens

Headers = dict[bytes, bytes]


class Rejected(Exception):
    """A request that is answered with an error status and one sentence."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class Token(NamedTuple):
    """A token without its secret."""

    number: int
    role: str
    agent: str | None  # the only one that it is for
    created_at: float
    revoked_at: float | None


class Access(NamedTuple):
    """What a sender may do: the role, and for which agent (None: for all)."""

    role: str
    agent: str | None

    def covers(self, role: str, agent: str | None) -> bool:
        """Return whether this suffices for a role, with an agent if one is named."""
        enough = ROLES.index(self.role) >= ROLES.index(role)
        return enough and (agent is None or self.agent in (None, agent))


def create_token(store: Store, role: str, agent: str | None = None) -> str:
    """Create a token and return it; it cannot be shown again."""
    one_of(role, "role", ROLES)
    if agent is not None:
        text(agent, "agent")
    secret = secrets.token_urlsafe(32)

    def work(database: Database) -> int:
        if agent is not None and agent not in queries.read_names(database):
            raise UnknownAgent(f"agent must be one of the store's, got {agent!r}")
        return queries.insert_token(database, _hash(secret), role, agent, time.time())

    return f"{store.write(work)}.{secret}"


def list_tokens(store: Store) -> list[Token]:
    """Return the tokens of a store, revoked ones too."""
    return [Token(number, *rest) for number, _, *rest in store.read(queries.read_tokens)]


def revoke_token(store: Store, number: int) -> str:
    """Revoke a token; return "revoked", or "duplicate" if it was revoked before."""
    token = whole(number, "token", 1)
    done = store.write(lambda database: queries.revoke_token(database, token, time.time()))
    if done is None:
        raise ValueError(f"token must be the number of one, got {token}")
    return "revoked" if done else "duplicate"


class Tokens:
    """The tokens of a store as a service knows them, at most `FRESH_SECONDS` old."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read_at = -FRESH_SECONDS
        self._known: dict[str, tuple[str, Access]] = {}
        self.open = False  # nobody has ever created a token: everybody may do everything

    async def authorize(self, method: str, headers: Headers, role: str, agent: str | None) -> Access:
        """Return what a sender may do; raise Rejected if that is less than `role` for `agent`."""
        access = await self.identify(method, headers)
        if access is None:
            raise Rejected(401, "token must be a valid one, as Authorization: Bearer <token>")
        if not access.covers(role, agent):
            whose = "" if access.agent is None else f" for agent {access.agent!r} only"
            raise Rejected(403, f"token must have the role {role!r} here, got {access.role!r}{whose}")
        return access

    async def identify(self, method: str, headers: Headers) -> Access | None:
        """Return what a sender may do, or None without a valid token; reject forged requests."""
        if self._is_stale():
            await asyncio.to_thread(self._refresh)
        reject_forged(method, headers, self.open)
        return self.access(token_in(headers))

    def access(self, token: str | None) -> Access | None:
        """Return what a token allows, or None if it is not valid."""
        if self.open:
            return Access("admin", None)
        number, _, secret = (token or "").partition(".")
        stored, access = self._known.get(number, UNKNOWN)
        same = hmac.compare_digest(stored, _hash(secret))  # takes as long for an unknown one
        return access if same else None

    def _is_stale(self) -> bool:
        return time.monotonic() - self._read_at >= FRESH_SECONDS

    def _refresh(self) -> None:
        with self._lock:
            if not self._is_stale():
                return
            began = time.monotonic()
            rows = self._store.read(queries.read_tokens)
            self._known = {
                str(number): (hash, Access(role, agent))
                for number, hash, role, agent, _, revoked_at in rows
                if revoked_at is None
            }
            self.open, self._read_at = not rows, began


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def token_in(headers: Headers) -> str | None:
    """Return the token of a request."""
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value.strip('"')
    return None


def reject_forged(method: str, headers: Headers, without_tokens: bool) -> None:
    """Reject what another site makes a browser send: by its origin, or by a host name of its own."""
    if not without_tokens and b"origin" not in headers:
        return
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and method not in ("GET", "HEAD") and _part(origin, "netloc") != host:
        raise Rejected(403, f"origin must be {host!r}, got {origin!r}")
    if without_tokens and host not in LOCAL and _part(f"//{host}", "hostname") not in LOCAL:
        raise Rejected(403, f"host must be local while the store has no tokens, got {host!r}")


def _part(url: str, name: str) -> Any:
    try:
        return getattr(urlsplit(url), name)
    except ValueError:
        return None
