"""Tokens: who may do what with the agents of a store. A token is shown once and kept as a hash.

A token reads `<number>.<secret>`; the secret has 256 random bits, so that a plain SHA-256 of it tells
nothing. A token that was revoked stays in the store, as one: a store that ever had tokens is never
open to everybody again.
"""

import hashlib
import hmac
import secrets
import threading
import time
from typing import NamedTuple

from kibitz._validation import one_of, text, whole
from kibitz.live.store import Database, Store

ROLES = ("read", "play", "admin")  # each may do what those before it may
FRESH = 1.0  # seconds after which tokens are read again: so long a revoked one may still serve


NOBODY = ("0" * 64, None)  # the hash that an unknown token is compared with


class Token(NamedTuple):
    """What a store keeps of a token, beside its hash."""

    number: int
    role: str
    agent: str | None  # the only one that it is for
    made_at: float
    revoked_at: float | None


class Access(NamedTuple):
    """What somebody may do: the role, and for which agent (None: for all)."""

    role: str
    agent: str | None

    def covers(self, role: str, agent: str | None) -> bool:
        """Return whether this suffices for a role, with an agent if one is named."""
        enough = ROLES.index(self.role) >= ROLES.index(role)
        return enough and (agent is None or self.agent in (None, agent))


def create(store: Store, role: str, agent: str | None = None) -> str:
    """Make a token and return it; nobody can see it again."""
    one_of(role, "role", ROLES)
    if agent is not None:
        text(agent, "agent")
    secret = secrets.token_urlsafe(32)

    def work(database: Database) -> int:
        if agent is not None and not database.rows("select 1 from agents where name = ?", agent):
            raise ValueError(f"agent must be one of the store's, got {agent!r}")
        [(number,)] = database.rows("select coalesce(max(token), 0) + 1 from tokens")
        database.rows(
            "insert into tokens (token, hash, role, agent, made_at) values (?, ?, ?, ?, ?)",
            number,
            _hash(secret),
            role,
            agent,
            time.time(),
        )
        return int(number)

    return f"{store.write(work)}.{secret}"


def listed(store: Store) -> list[Token]:
    """Return the tokens of a store, revoked ones too."""
    statement = "select token, role, agent, made_at, revoked_at from tokens order by token"
    return [Token(*row) for row in store.read(lambda database: database.rows(statement))]


def revoke(store: Store, number: int) -> str:
    """Let a token serve no more; return "revoked", or "again" if it did not."""
    token = whole(number, "token", 1)

    def work(database: Database) -> str:
        found = database.rows("select revoked_at from tokens where token = ?", token)
        if not found:
            raise ValueError(f"token must be the number of one, got {token}")
        if found[0][0] is not None:
            return "again"
        database.rows("update tokens set revoked_at = ? where token = ?", time.time(), token)
        return "revoked"

    return store.write(work)


class Tokens:
    """The tokens of a store as a service knows them, at most `FRESH` seconds old."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read_at = -FRESH
        self._known: dict[str, tuple[str, Access]] = {}
        self.open = False  # nobody has ever made a token: everybody may do everything

    @property
    def stale(self) -> bool:
        """Whether it is time to `read` them again."""
        return time.monotonic() - self._read_at >= FRESH

    def read(self) -> None:
        """Read them from the store."""
        with self._lock:
            if not self.stale:
                return
            began = time.monotonic()
            rows = self._store.read(
                lambda database: database.rows(
                    "select token, hash, role, agent, revoked_at from tokens"
                )
            )
            self._known = {
                str(number): (hash, Access(role, agent))
                for number, hash, role, agent, revoked_at in rows
                if revoked_at is None
            }
            self.open, self._read_at = not rows, began

    def access(self, token: str | None) -> Access | None:
        """Return what a token allows, None if it is none."""
        if self.open:
            return Access("admin", None)
        number, _, secret = (token or "").partition(".")
        kept, access = self._known.get(number, NOBODY)
        same = hmac.compare_digest(kept, _hash(secret))  # as long for a wrong one as for a right one
        return access if same else None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
