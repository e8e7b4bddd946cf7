"""The store in PostgreSQL."""

import contextlib
import functools
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kibitz._errors import StoreUnavailable
from kibitz._validation import short_repr
from kibitz.live.store.schema import Database, Row, prepare

T = TypeVar("T")

LEAVE = (  # the number of a transaction, in it
    "insert into writers (writer, attempt, at) values (?, ?, ?) "
    "on conflict (writer) do update set attempt = excluded.attempt, at = excluded.at"
)
FEW = 4  # rows that are written one by one
TYPES = {  # of the columns of decisions and events
    **dict.fromkeys(("agent", "arm"), "integer"),
    **dict.fromkeys(("id", "stage", "seq"), "bigint"),
    **dict.fromkeys(("kind", "key", "status"), "text"),
    **dict.fromkeys(("asked_at", "at", "told", "reward"), "double precision"),
}
RETRY_SECONDS = 10.0  # how long to try to reach a server that has gone away


class PostgreSQLDatabase:
    """A connection to PostgreSQL."""

    locking = " for update"

    def __init__(self, psycopg: Any, url: str, *, readonly: bool = False) -> None:
        self._later: list[tuple[str, Sequence[Row]]] = []
        self.connection = psycopg.connect(url, autocommit=True, connect_timeout=5)
        self.connection.execute("set search_path to kibitz")
        self.connection.execute("set synchronous_commit to on")
        if readonly:
            self.connection.execute("set default_transaction_read_only to on")

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """Run a statement and return its rows, after what is to be done before it."""
        if self._later:
            with self.connection.pipeline():
                self._do_later()
        cursor = self.connection.execute(statement.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description is not None else []

    def many(self, statement: str, values: Sequence[Row]) -> None:
        """Run a statement for each row: later, with others, in one go."""
        if values:
            self._later.append((statement.replace("?", "%s"), values))

    def begin(self) -> None:
        """Begin a transaction."""
        self._later = []
        self.connection.execute("begin")

    def commit(self) -> None:
        """Do what is left to do, and commit."""
        with self.connection.pipeline():
            self._do_later()
            self.connection.execute("commit")

    def _do_later(self) -> None:
        later, self._later = self._later, []
        with self.connection.cursor() as cursor:
            for statement, values in later:
                whole = in_one(statement) if len(values) >= FEW else None
                if whole is None:
                    cursor.executemany(statement, values)
                else:
                    cursor.execute(whole, [list(column) for column in zip(*values, strict=True)])


@functools.cache
def in_one(statement: str) -> str | None:
    """Return a statement that takes all rows at once, as a list for each column, if there is one."""
    inserted = re.fullmatch(r"insert into (\w+) \(([\w, ]+)\) values \([%s, ]+\)", statement)
    updated = re.fullmatch(r"update (\w+) set (.+) where (.+)", statement)
    found = inserted[2].split(", ") if inserted else re.findall(r"(\w+) = %s", statement)
    if not (inserted or updated) or not set(found) <= set(TYPES):
        return None
    lists = f"unnest({', '.join(f'%s::{TYPES[name]}[]' for name in found)})"
    if inserted:
        return f"insert into {inserted[1]} ({inserted[2]}) select * from {lists}"
    assert updated is not None
    changes = re.sub(r"(\w+) = %s", r"\1 = v.\1", updated[2])
    places = re.sub(r"(\w+) = %s", r"t.\1 = v.\1", updated[3])
    return f"update {updated[1]} t set {changes} from {lists} as v({', '.join(found)}) where {places}"


class PostgreSQL:
    """A database, shared by any number of machines; the tables are in its schema `kibitz`."""

    def __init__(self, url: str, create: bool) -> None:
        try:
            import psycopg
        except ImportError:
            raise ValueError(
                "store must be a SQLite file without psycopg (pip install 'kibitz[postgresql]'), "
                f"got {short_repr(url)}"
            ) from None
        self._psycopg = psycopg
        self.url = url
        self._name = short_repr(url.rpartition("@")[2])  # no password
        self._lock = threading.RLock()
        self._reading = threading.RLock()
        self._writer: PostgreSQLDatabase | None = None
        self._reader: PostgreSQLDatabase | None = None
        self._process = os.getpid()
        self._patience = 0.0  # at first: an address may be wrong
        self._named = False  # and there may be no tables
        self._me, self._attempt = uuid.uuid4().hex, 0
        try:
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error as error:
            raise ValueError(
                f"store must be an address of PostgreSQL, got {self._name} ({error})"
            ) from None
        try:
            self.write(lambda database: self._begin_with(database, create))
        except BaseException:
            self.close()
            raise
        self._patience, self._named = RETRY_SECONDS, True

    def _begin_with(self, database: Database, create: bool) -> None:
        database.rows("select pg_advisory_xact_lock(3141592653)")
        found = database.rows(
            "select table_name from information_schema.tables where table_schema = 'kibitz'"
        )
        tables = [name for (name,) in found]
        if create and not tables:
            database.rows("create schema if not exists kibitz")
        prepare(database, tables, self._name, create)

    def write(self, work: Callable[[Database], T]) -> T:
        """Run `work` in a transaction and return what it returns once that is committed.

        It is run again when the connection is lost, unless it was committed all the same.
        """
        deadline = time.monotonic() + self._patience
        tried, result = False, None
        with self._lock:
            while True:
                try:
                    self._after_fork()
                    if self._writer is None:
                        self._writer = PostgreSQLDatabase(self._psycopg, self.url)
                    if tried and self._committed(self._writer):
                        return result  # type: ignore[return-value]
                    tried = False
                    self._writer.begin()
                    result = work(self._writer)
                    self._attempt += 1
                    tried = self._named
                    if tried:
                        self._writer.many(LEAVE, [(self._me, self._attempt, time.time())])
                    self._writer.commit()
                    return result
                except self._psycopg.OperationalError as error:
                    self._drop(self._writer)
                    self._writer = None
                    if time.monotonic() > deadline:
                        raise self._unavailable(error) from error
                    time.sleep(0.05)
                except BaseException:
                    self._writer = self._rolled_back(self._writer)
                    raise

    def read(self, work: Callable[[Database], T]) -> T:
        """Run `work` on one state of the database, without holding up anybody."""
        deadline = time.monotonic() + self._patience
        with self._reading:
            while True:
                try:
                    self._after_fork()
                    if self._reader is None:
                        self._reader = PostgreSQLDatabase(self._psycopg, self.url, readonly=True)
                    self._reader.rows("begin isolation level repeatable read")
                    try:
                        return work(self._reader)
                    finally:
                        self._reader = self._rolled_back(self._reader)
                except self._psycopg.OperationalError as error:
                    self._drop(self._reader)
                    self._reader = None
                    if time.monotonic() > deadline:
                        raise self._unavailable(error) from error
                    time.sleep(0.05)

    def close(self) -> None:
        """Close the connections; the store opens them again when it is used."""
        with self._lock, self._reading:
            self._after_fork()
            self._drop(self._writer)
            self._writer = None
            self._drop(self._reader)
            self._reader = None

    def _committed(self, database: PostgreSQLDatabase) -> bool:
        """Return whether the last attempt was, after waiting for one that is under way.

        Numbers that PostgreSQL gives (`pg_xact_status`) are no proof: after a crash they come again.
        """
        database.rows("set lock_timeout to '2s'")  # and then it is tried again, or given up
        database.rows(f"{LEAVE.partition(' do ')[0]} do nothing", self._me, 0, time.time())
        found = database.rows("select attempt from writers where writer = ? for update", self._me)
        database.rows("set lock_timeout to 0")
        return bool(found[0][0] == self._attempt)

    def _after_fork(self) -> None:
        """Leave a parent's connections alone: closing them would end its sessions."""
        if self._process != os.getpid():
            self._abandoned = (self._writer, self._reader)
            self._writer = self._reader = None
            self._process = os.getpid()
            self._me = uuid.uuid4().hex

    def _rolled_back(self, database: PostgreSQLDatabase | None) -> PostgreSQLDatabase | None:
        if database is None:
            return None
        try:
            database.connection.execute("rollback")
        except self._psycopg.Error:
            self._drop(database)
            return None
        return database

    def _drop(self, database: PostgreSQLDatabase | None) -> None:
        if database is not None:
            with contextlib.suppress(self._psycopg.Error):
                database.connection.close()

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        what = str(error).strip().splitlines()
        return StoreUnavailable(
            f"store must be usable, got {self._name}: {what[0] if what else type(error).__name__}"
        )
