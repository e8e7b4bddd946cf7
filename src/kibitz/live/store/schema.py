"""The tables of a store, their migrations, and the statements a transaction can run."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

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
MIGRATIONS = {1: TOKENS}  # from a version to the next one


class Database(Protocol):
    """A transaction: statements with ? for values."""

    locking: str  # the clause that locks the rows of a select

    def rows(self, statement: str, *values: Any) -> list[Row]: ...

    def many(self, statement: str, values: Sequence[Row]) -> None: ...


class Store(Protocol):
    """The interface of both stores."""

    url: str

    def write(self, work: Callable[[Database], T]) -> T: ...

    def read(self, work: Callable[[Database], T]) -> T: ...

    def close(self) -> None: ...


def prepare(database: Database, tables: Sequence[str], name: str, create: bool) -> None:
    """Create the tables, or migrate them; raise ValueError for the database of another program."""
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
