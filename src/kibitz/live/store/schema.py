"""The tables of a store, their migrations, and the interfaces of stores and transactions."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]

VERSION = 3  # version of the schema

SCHEMA = """
create table kibitz (version integer not null);
create table agents (
    agent integer primary key,
    name text not null unique,
    config text not null,
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
    created_at double precision not null,
    revoked_at double precision
);
create table writers (
    writer text primary key,
    attempt bigint not null,
    at double precision not null
)
"""
SCHEMA += TOKENS


class Database(Protocol):
    """A transaction on a database. In statements, each ? stands for a value."""

    locking: str  # SQL clause that makes a select lock its rows; empty for SQLite

    def rows(self, statement: str, *values: Any) -> list[Row]: ...

    def many(self, statement: str, values: Sequence[Row]) -> None: ...


class Store(Protocol):
    """The interface of the SQLite and the PostgreSQL store."""

    url: str

    def write(self, work: Callable[[Database], T]) -> T: ...

    def read(self, work: Callable[[Database], T]) -> T: ...

    def close(self) -> None: ...


def prepare(database: Database, tables: Sequence[str], name: str, create: bool) -> None:
    """Create the tables, or migrate the tables to schema `VERSION`.

    Raise ValueError if the database contains tables of another program, if it is empty and `create`
    is False, or if its schema is newer than `VERSION` or unknown.
    """
    if "kibitz" not in tables:
        if tables:
            raise ValueError(f"store {name} is not a kibitz store: it contains other tables")
        if not create:
            raise ValueError(f"store {name} is empty; create an agent first")
        execute(database, SCHEMA)
        database.rows("insert into kibitz (version) values (?)", VERSION)
        return
    [(version,)] = database.rows("select version from kibitz")
    if version > VERSION:
        raise ValueError(
            f"store {name} has schema {version}, but this version of kibitz supports schemas up to "
            f"{VERSION}; upgrade kibitz"
        )
    while version < VERSION:
        if version not in MIGRATIONS:
            raise ValueError(f"store {name} has unknown schema {version}")
        MIGRATIONS[version](database)
        version += 1
        database.rows("update kibitz set version = ?", version)


def execute(database: Database, statements: str) -> None:
    """Execute statements separated by semicolons."""
    for statement in statements.split(";"):
        database.rows(statement)


def add_tokens(database: Database) -> None:
    """Migrate schema 1, which has no tokens, to schema 2."""
    execute(database, TOKENS.replace("created_at", "made_at"))


def rename_columns(database: Database) -> None:
    """Migrate schema 2, which has older names of columns and event kinds, to schema 3."""
    execute(
        database,
        """
        alter table agents rename column setting to config;
        alter table tokens rename column made_at to created_at;
        update decisions set kind = 'observe' where kind = 'saw';
        update events set kind = 'observe' where kind = 'saw'
        """,
    )
    for agent, stored in database.rows("select agent, config from agents"):
        config = json.loads(stored)
        config["policy"] = _rename_parameters(config["policy"])
        database.rows("update agents set config = ? where agent = ?", json.dumps(config), agent)


def _rename_parameters(spec: dict[str, Any]) -> dict[str, Any]:
    """Convert the spec of a policy to the parameter names of schema 3."""
    spec = dict(spec)
    if "function" in spec:  # the policy has an index function of the user
        spec["constants"], spec["parameters"] = spec["parameters"], spec.pop("setting")
        spec["rewards"] = "bounded" if spec.pop("unit_rewards") else "gaussian"
        spec["ignore_looks"] = spec.pop("ignore_free")
        return spec
    parameters = dict(spec["parameters"])
    if "ignore_free" in parameters:
        parameters["ignore_looks"] = parameters.pop("ignore_free")
    if "law" in parameters:  # the law "bernoulli" allowed any reward in [0, 1]
        parameters["rewards"] = "gaussian" if parameters.pop("law") == "gaussian" else "bounded"
    return {**spec, "parameters": parameters}


MIGRATIONS = {1: add_tokens, 2: rename_columns}  # each migrates to the next version
