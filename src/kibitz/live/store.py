"""Where agents are kept: in a SQLite file, or in PostgreSQL when several machines serve.

One operation is one transaction: `write(work)` runs `work(database)`, commits, and only then returns
what that returned; whatever goes wrong leaves nothing behind. `read(work)` has a connection of its
own, so that no reader waits for a writer or holds one up. Both stores have the same schema.

- **SQLite**: write-ahead log, `synchronous=FULL`, `begin immediate`. Who wants to write waits for a
  lock on a file beside the database (`shop.db-lock`) first: SQLite's own waiting is a lottery in
  which some processes starve.
- **PostgreSQL**: each operation locks the row of its agent. A lost connection is made anew and the
  operation done again; whether a commit whose answer was lost had come through is seen in the table
  `writers`, where each transaction leaves its number, so that nothing is done twice.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kibitz._validation import refused

T = TypeVar("T")
Row = tuple[Any, ...]

VERSION = 2  # of the schema

SCHEMA = """
create table kibitz (version integer not null);
create table agents (
    agent integer primary key,
    name text not null unique,
    setting text not null,
    n_events bigint not null,
    n_decisions bigint not null,
    n_asks bigint not null,
    latest double precision not null,
    state text
);
create table arms (
    agent integer not null,
    arm integer not null,
    name text not null,
    status text not null,
    n_asked bigint not null default 0,
    n_pending bigint not null default 0,
    n_pulls bigint not null default 0,
    pull_sum double precision not null default 0,
    n_looks bigint not null default 0,
    look_sum double precision not null default 0,
    squares double precision not null default 0,
    looks_pending bigint not null default 0,
    n_forgotten bigint not null default 0,
    looks_forgotten bigint not null default 0,
    primary key (agent, arm)
);
create table decisions (
    agent integer not null,
    id bigint not null,
    kind text not null,
    arm integer not null,
    key text,
    asked_at double precision not null,
    stage bigint not null,
    status text not null,
    told double precision,
    reward double precision,
    primary key (agent, id)
);
create unique index decision_keys on decisions (agent, key) where key is not null;
create index decisions_pending on decisions (agent, id) where status = 'pending';
create table events (
    agent integer not null,
    seq bigint not null,
    at double precision not null,
    kind text not null,
    id bigint,
    arm integer,
    reward double precision,
    key text,
    primary key (agent, seq)
);
"""
TOKENS = """
create table tokens (
    token integer primary key,
    hash text not null,
    role text not null,
    agent text,
    made_at double precision not null,
    revoked_at double precision
);
create table writers (
    writer text primary key,
    attempt bigint not null,
    at double precision not null
)
"""
SCHEMA += TOKENS
MIGRATIONS = {1: TOKENS}  # what makes of a version the next one


class Unavailable(OSError):
    """The store cannot be used at the moment; it may be tried again.

    Nothing was done, with one exception: a PostgreSQL that goes away during a commit and stays away
    leaves open whether that came through. With a key, or for a tell, trying again is safe then too.
    """


class Damaged(ValueError):
    """The store is not whole."""


class Database(Protocol):
    """A transaction: statements with ? for values."""

    locking: str  # what locks the rows of a select

    def rows(self, statement: str, *values: Any) -> list[Row]: ...

    def many(self, statement: str, values: Sequence[Row]) -> None: ...


class Store(Protocol):
    """What both stores can do."""

    url: str

    def write(self, work: Callable[[Database], T]) -> T: ...

    def read(self, work: Callable[[Database], T]) -> T: ...

    def close(self) -> None: ...


def connect(url: str | os.PathLike[str], *, create: bool = True) -> Store:
    """Return the store at a path, a `sqlite:///...` or a `postgresql://...` address.

    A new one is made unless `create` is False.
    """
    text = os.fspath(url) if isinstance(url, str | os.PathLike) else url
    if not isinstance(text, str) or not text or "\0" in text:
        raise refused("store", "a path, sqlite:///path or postgresql://...", url)
    from kibitz.live.postgresql import PostgreSQL
    from kibitz.live.sqlite import SQLite

    path = sqlite_path(text)
    if path is not None:
        return SQLite(path, create)
    if text.startswith(("postgresql://", "postgres://")):
        return PostgreSQL(text, create)
    raise refused("store", "a path, sqlite:///path or postgresql://...", url)


def sqlite_path(url: str) -> Path | None:
    """Return the file that an address means, or None if it means something else."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return Path(url)
    return Path(rest[1:]) if scheme == "sqlite" and len(rest) > 1 and rest[0] == "/" else None


def prepare(database: Database, tables: Sequence[str], name: str, create: bool) -> None:
    """Make the tables, or bring them up to date; refuse a database of something else."""
    if "kibitz" not in tables:
        if tables:
            raise ValueError(f"store must be one of kibitz, got {name}, which is of something else")
        if not create:
            raise ValueError(f"store must have agents, got {name}, which is empty")
        for statement in SCHEMA.split(";"):
            database.rows(statement)
        database.rows("insert into kibitz (version) values (?)", VERSION)
        return
    [(version,)] = database.rows("select version from kibitz")
    if version > VERSION:
        raise ValueError(
            f"store must be of schema {VERSION} or older, got {name} of schema {version}, "
            "which a newer kibitz has made"
        )
    while version < VERSION:
        if version not in MIGRATIONS:
            raise ValueError(f"store must be of a known schema, got {name} of schema {version}")
        for statement in MIGRATIONS[version].split(";"):
            database.rows(statement)
        version += 1
        database.rows("update kibitz set version = ?", version)
