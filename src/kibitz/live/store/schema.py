"""The tables of a store, their migrations, and the interfaces of stores and transactions."""

import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from kibitz._errors import StoreDamaged
from kibitz._validation import short_repr
from kibitz.live.events import Event, project

T = TypeVar("T")
Row = tuple[Any, ...]

VERSION = 7  # version of the schema
FORK_SECONDS = 5.0  # how long a fork waits for transactions of other threads

SCHEMA = """
create table kibitz (
    version integer not null,
    needs_purge integer not null default 0,
    n_deleted_events bigint not null default 0
);
create table agents (
    agent integer primary key,
    name text not null unique,
    config text not null,
    n_events bigint not null,
    n_decisions bigint not null,
    n_asks bigint not null,
    latest double precision not null,
    state text,
    n_settled bigint not null default 0,
    rewards text
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
    n_settled bigint not null default 0,
    settled_sum double precision not null default 0,
    settled_squares double precision not null default 0,
    n_unsettled bigint not null default 0,
    n_late bigint not null default 0,
    n_shows bigint not null default 0,
    show_sum double precision not null default 0,
    remainders text not null default '{}',
    bucket_counts text not null default '{}',
    scan text not null default '[]',
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
    settled_reward double precision,
    probability double precision,
    bucket text,
    shown_by bigint,
    place bigint,
    primary key (agent, id)
);
create unique index decision_keys on decisions (agent, key) where key is not null;
create index decisions_pending on decisions (agent, id) where status = 'pending';
create index decisions_shown on decisions (agent, shown_by) where shown_by is not null;
create table events (
    agent integer not null,
    seq bigint not null,
    at double precision not null,
    kind text not null,
    id bigint,
    arm integer,
    reward double precision,
    key text,
    probability double precision,
    bucket text,
    shown_by bigint,
    primary key (agent, seq)
);
"""
CHECKPOINTS = """
create table checkpoints (
    agent integer primary key,
    seq bigint not null,
    content text not null
)
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
ALARMS = """
create table alarms (
    agent integer not null,
    arm integer not null,
    since_id bigint not null,
    since_at double precision not null,
    at_id bigint not null,
    at double precision not null,
    n_before bigint not null,
    mean_before double precision not null,
    n_after bigint not null,
    mean_after double precision not null,
    primary key (agent, at_id)
)
"""
SCHEMA += f"{CHECKPOINTS};{TOKENS};{ALARMS}"


class Database(Protocol):
    """A transaction on a database. In statements, each ? stands for a value."""

    locking: str  # SQL clause that makes a select lock its rows; empty for SQLite
    clock: str  # SQL query for the time of the server; empty for SQLite, which has no server

    def execute(self, statement: str, *values: Any) -> list[Row]: ...

    def execute_many(self, statement: str, values: Sequence[Row]) -> None: ...


class Store(Protocol):
    """The interface of the SQLite and the PostgreSQL store.

    `locks` are held while a transaction runs. `renew` replaces the locks and connections in a forked
    process, which must not use the connections of its parent. `purge` overwrites deleted data.
    """

    url: str
    display_url: str  # the address without a password, for messages

    @property
    def locks(self) -> tuple[threading.RLock, threading.RLock]: ...  # of the writer, of the reader

    @property
    def found_version(self) -> int: ...  # version of the schema before the store was migrated

    @property
    def n_retries(self) -> int: ...  # transactions that were run again after a lost connection

    def write(self, work: Callable[[Database], T]) -> T: ...

    def read(self, work: Callable[[Database], T]) -> T: ...

    def purge(self) -> None: ...

    def measure_size(self) -> int: ...  # in bytes

    def close(self) -> None: ...

    def renew(self) -> None: ...


_stores: weakref.WeakSet[Any] = weakref.WeakSet()  # all stores of this process
_forking = threading.Lock()
_held: list[threading.RLock] = []  # locks that the forking thread holds during a fork


def renew_after_fork(store: Store) -> None:
    """Call `store.renew()` in each process that is forked from this process."""
    _stores.add(store)


def _wait_for_transactions() -> None:
    """Before a fork, wait until no thread is in a transaction.

    A transaction may hold locks of SQLite, which the forked process could never release. After
    `FORK_SECONDS`, fork anyway.
    """
    _forking.acquire()
    deadline = time.monotonic() + FORK_SECONDS
    for store in list(_stores):
        for lock in store.locks:
            if lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                _held.append(lock)


def _resume_parent() -> None:
    while _held:
        _held.pop().release()
    _forking.release()


def _renew_child() -> None:
    global _forking
    _held.clear()
    _forking = threading.Lock()
    for store in list(_stores):
        store.renew()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_wait_for_transactions, after_in_parent=_resume_parent, after_in_child=_renew_child
    )


def prepare(database: Database, tables: Sequence[str], name: str, create: bool) -> int:
    """Create the tables, or migrate them to schema `VERSION`; return their previous version.

    Raise ValueError if the database contains tables of another program, if it is empty and `create`
    is False, or if its schema is newer than `VERSION` or unknown. Raise StoreDamaged if the version
    of the schema is not a number.
    """
    if "kibitz" not in tables:
        if tables:
            raise ValueError(f"store {name} is not a kibitz store: it contains other tables")
        if not create:
            raise ValueError(f"store {name} is empty; create an agent first")
        execute(database, SCHEMA)
        database.execute("insert into kibitz (version) values (?)", VERSION)
        return VERSION
    versions = [version for (version,) in database.execute("select version from kibitz")]
    if len(versions) != 1 or type(versions[0]) is not int:
        raise StoreDamaged(
            f"store {name} is damaged: its schema version must be one whole number, got "
            f"{short_repr(versions[0] if len(versions) == 1 else versions)}; restore a backup"
        )
    version = found_version = versions[0]
    if version > VERSION:
        raise ValueError(
            f"store {name} has schema {version}, but this version of kibitz supports schemas up to "
            f"{VERSION}; upgrade kibitz"
        )
    while version < VERSION:
        if version not in MIGRATIONS:
            raise ValueError(f"store {name} has unknown schema {version}; restore a backup")
        MIGRATIONS[version](database)
        version += 1
        database.execute("update kibitz set version = ?", version)
    return found_version


def execute(database: Database, statements: str) -> None:
    """Execute statements separated by semicolons."""
    for statement in statements.split(";"):
        database.execute(statement)


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
    for agent, config_text in database.execute("select agent, config from agents"):
        config = json.loads(config_text)
        config["policy"] = _rename_parameters(config["policy"])
        database.execute("update agents set config = ? where agent = ?", json.dumps(config), agent)


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


def add_settled_counts(database: Database) -> None:
    """Migrate schema 3 to schema 4.

    Schema 3 has no settled counts, no kind of rewards, and rounded sums. The kind of rewards of
    an old agent is the kind for which its policy was made. The settled counts and the exact sums
    follow from the log. The next operation rebuilds the stored state of a policy.
    """
    execute(
        database,
        """
        update agents set state = '[]' where state is not null;
        alter table agents add column n_settled bigint not null default 0;
        alter table agents add column rewards text;
        alter table arms add column n_settled bigint not null default 0;
        alter table arms add column settled_sum double precision not null default 0;
        alter table arms add column settled_squares double precision not null default 0;
        alter table arms add column n_unsettled bigint not null default 0;
        alter table arms add column n_late bigint not null default 0;
        alter table arms add column remainders text not null default '{}';
        alter table decisions add column settled_reward double precision
        """,
    )
    for agent, config_text in database.execute("select agent, config from agents"):
        config = json.loads(config_text)
        spec = config["policy"]
        config["rewards"] = spec.get("rewards") or spec["parameters"].get("rewards", "gaussian")
        if config["rewards"] != "gaussian":
            config["scale"] = None
        database.execute("update agents set config = ? where agent = ?", json.dumps(config), agent)
        silence = None if config["silence"] == "forget" else config["silence"]
        _store_settled_counts(database, agent, config["patience"], silence)


def _store_settled_counts(
    database: Database, agent: int, patience: float | None, silence: float | None
) -> None:
    rows = database.execute(
        "select e.seq, e.at, e.kind, e.id, a.name, e.reward, e.key from events e "
        "join arms a on a.agent = e.agent and a.arm = e.arm where e.agent = ? order by e.seq",
        agent,
    )
    replayed = project((Event(*row) for row in rows), patience, silence)
    database.execute("update agents set n_settled = ? where agent = ?", replayed.n_settled, agent)
    database.execute_many(
        "update arms set pull_sum = ?, look_sum = ?, squares = ?, n_settled = ?, settled_sum = ?, "
        "settled_squares = ?, n_unsettled = ?, n_late = ?, remainders = ? "
        "where agent = ? and arm = ?",
        [
            (
                arm.pull_sum, arm.look_sum, arm.squares, arm.n_settled, arm.settled_sum,
                arm.settled_squares, arm.n_unsettled, arm.n_late,
                json.dumps(arm.remainders, sort_keys=True), agent, arm_index,
            )
            for arm_index, arm in enumerate(replayed.arms)
        ],
    )  # fmt: skip
    database.execute_many(
        "update decisions set settled_reward = ? where agent = ? and id = ?",
        [
            (record.settled_reward, agent, id)
            for id, record in replayed.decisions.items()
            if record.settled_reward is not None
        ],
    )


def add_probabilities(database: Database) -> None:
    """Migrate schema 4, which has no probabilities, buckets and checkpoints, to schema 5."""
    execute(
        database,
        f"""
        alter table kibitz add column needs_purge integer not null default 0;
        alter table kibitz add column n_deleted_events bigint not null default 0;
        alter table arms add column bucket_counts text not null default '{{}}';
        alter table decisions add column probability double precision;
        alter table decisions add column bucket text;
        alter table events add column probability double precision;
        alter table events add column bucket text;
        {CHECKPOINTS}
        """,
    )
    for agent, config_text in database.execute("select agent, config from agents"):
        config = {**json.loads(config_text), "bucket": 0.0, "bucket_is_free": False}
        database.execute("update agents set config = ? where agent = ?", json.dumps(config), agent)


def add_shows(database: Database) -> None:
    """Migrate schema 5, in which no pull shows other arms, to schema 6."""
    execute(
        database,
        """
        alter table arms add column n_shows bigint not null default 0;
        alter table arms add column show_sum double precision not null default 0;
        alter table decisions add column shown_by bigint;
        alter table events add column shown_by bigint;
        create index decisions_shown on decisions (agent, shown_by) where shown_by is not null
        """,
    )
    for agent, config_text in database.execute("select agent, config from agents"):
        config = {**json.loads(config_text), "shows": None}
        database.execute("update agents set config = ? where agent = ?", json.dumps(config), agent)
    for agent, checkpoint_text in database.execute("select agent, content from checkpoints"):
        content = json.loads(checkpoint_text)
        # the counts of an arm are a list; the new counts come before the last two entries
        content["arms"] = [[*arm[:-2], 0, 0.0, *arm[-2:]] for arm in content["arms"]]
        text = json.dumps(content, sort_keys=True)
        database.execute("update checkpoints set content = ? where agent = ?", text, agent)


def add_alarms(database: Database) -> None:
    """Migrate schema 6, which has no alarms, to schema 7; its agents get no monitor."""
    execute(
        database,
        f"""
        alter table arms add column scan text not null default '[]';
        alter table decisions add column place bigint;
        {ALARMS}
        """,
    )
    for agent, config_text in database.execute("select agent, config from agents"):
        config = {**json.loads(config_text), "alarms": None}
        database.execute("update agents set config = ? where agent = ?", json.dumps(config), agent)


# each function migrates a store from this version to the next version
MIGRATIONS = {
    1: add_tokens,
    2: rename_columns,
    3: add_settled_counts,
    4: add_probabilities,
    5: add_shows,
    6: add_alarms,
}
