"""The store in PostgreSQL."""

import contextlib
import functools
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kibitz._errors import StoreUnavailable
from kibitz._validation import short_repr
from kibitz.live.store.queries import finish_purge, needs_purge
from kibitz.live.store.schema import Database, Row, prepare, renew_after_fork

T = TypeVar("T")

RECORD_ATTEMPT = (  # a transaction writes its own number, which is stored only if it commits
    "insert into writers (writer, attempt, at) values (?, ?, ?) "
    "on conflict (writer) do update set attempt = excluded.attempt, at = excluded.at"
)
MIN_BULK_ROWS = 4  # fewer rows are written one by one
COLUMN_TYPES = {  # types of the columns of decisions and events
    **dict.fromkeys(("agent", "arm"), "integer"),
    **dict.fromkeys(("id", "stage", "seq"), "bigint"),
    **dict.fromkeys(("kind", "key", "status", "bucket"), "text"),
    **dict.fromkeys(
        ("asked_at", "at", "told", "reward", "settled_reward", "probability"), "double precision"
    ),
}
RETRY_SECONDS = 10.0  # how long to retry after the connection to the server is lost


class PostgreSQLDatabase:
    """A connection to PostgreSQL."""

    locking = " for update"
    clock = "select extract(epoch from clock_timestamp())::double precision"

    def __init__(self, psycopg: Any, url: str, *, readonly: bool = False) -> None:
        self._queued: list[tuple[str, Sequence[Row]]] = []
        self.connection = psycopg.connect(url, autocommit=True, connect_timeout=5)
        self.connection.execute("set search_path to kibitz")
        self.connection.execute("set synchronous_commit to on")
        if readonly:
            self.connection.execute("set default_transaction_read_only to on")

    def execute(self, statement: str, *values: Any) -> list[Row]:
        """Run the queued statements, then `statement`; return the rows of `statement`."""
        if self._queued:
            with self.connection.pipeline():
                self._run_queued()
        cursor = self.connection.execute(statement.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description is not None else []

    def execute_many(self, statement: str, values: Sequence[Row]) -> None:
        """Queue a statement to be run for each row; queued statements share one round trip."""
        if values:
            self._queued.append((statement.replace("?", "%s"), values))

    def begin(self) -> None:
        """Begin a transaction."""
        self._queued = []
        self.connection.execute("begin")

    def commit(self) -> None:
        """Run the queued statements and commit."""
        with self.connection.pipeline():
            self._run_queued()
            self.connection.execute("commit")

    def _run_queued(self) -> None:
        queued, self._queued = self._queued, []
        with self.connection.cursor() as cursor:
            for statement, values in queued:
                bulk = to_bulk(statement) if len(values) >= MIN_BULK_ROWS else None
                if bulk is None:
                    cursor.executemany(statement, values)
                else:
                    cursor.execute(bulk, [list(column) for column in zip(*values, strict=True)])


def hide_password(url: str) -> str:
    """Return an address without its password and query, which may contain a password.

    A password may contain unescaped special characters, so everything between the first separator
    and the last @ is left out. If an @ follows a question mark, it may belong to the query or to the
    password, so everything after the first separator is left out. A path is returned unchanged.
    A connection string such as "host=localhost password=..." is replaced by "...".
    """
    scheme, separator, rest = url.partition("://")
    if is_connection_string(scheme):
        return "..."
    if not separator:
        return url
    login, at, place = rest.rpartition("@")
    first_part = re.split("[:/?]", login)[0]
    if "?" in login:
        return f"{scheme}://{first_part}..."
    return f"{scheme}://{first_part}{at}{place.partition('?')[0]}"


def is_connection_string(text: str) -> bool:
    """Return whether a text without :// may be a connection string with a password."""
    is_address = re.match(r"\s*postgres(ql)?:", text, re.IGNORECASE)
    return bool(is_address or re.search(r"\b(pg)?password\s*=", text, re.IGNORECASE))


@functools.cache
def to_bulk(statement: str) -> str | None:
    """Rewrite a statement to take all rows at once, as one array for each column.

    Return None if the statement cannot be rewritten.
    """
    insert = re.fullmatch(r"insert into (\w+) \(([\w, ]+)\) values \([%s, ]+\)", statement)
    update = re.fullmatch(r"update (\w+) set (.+) where (.+)", statement)
    columns = insert[2].split(", ") if insert else re.findall(r"(\w+) = %s", statement)
    if not (insert or update) or not set(columns) <= set(COLUMN_TYPES):
        return None
    arrays = f"unnest({', '.join(f'%s::{COLUMN_TYPES[name]}[]' for name in columns)})"
    if insert:
        return f"insert into {insert[1]} ({insert[2]}) select * from {arrays}"
    assert update is not None
    changes = re.sub(r"(\w+) = %s", r"\1 = v.\1", update[2])
    where = re.sub(r"(\w+) = %s", r"t.\1 = v.\1", update[3])
    values = f"{arrays} as v({', '.join(columns)})"
    return f"update {update[1]} t set {changes} from {values} where {where}"


class PostgreSQL:
    """A store in PostgreSQL, shared by any number of machines. Its tables are in schema `kibitz`."""

    def __init__(self, url: str, create: bool) -> None:
        try:
            import psycopg
        except ImportError:
            raise ValueError(
                "a PostgreSQL store needs psycopg, which is not installed; "
                "run: pip install 'kibitz[postgresql]'"
            ) from None
        self._psycopg = psycopg
        self.url = url
        self.display_url = hide_password(url)
        self._name = short_repr(self.display_url)
        self.locks = threading.RLock(), threading.RLock()
        self._writer: PostgreSQLDatabase | None = None
        self._reader: PostgreSQLDatabase | None = None
        self._abandoned: list[PostgreSQLDatabase | None] = []
        self._retry_seconds = 0.0  # until the store is open, so a wrong address fails at once
        self._has_tables = False
        self.n_retries = 0  # transactions that were run again after the connection was lost
        self._writer_id, self._attempt = uuid.uuid4().hex, 0
        renew_after_fork(self)
        self._check_url()
        try:
            self.write(lambda database: self._initialize(database, create))
        except BaseException:
            self.close()
            raise
        self._retry_seconds, self._has_tables = RETRY_SECONDS, True
        if self.read(needs_purge):  # a process was killed before it could purge the store
            self.purge()

    def _check_url(self) -> None:
        """Raise ValueError if the address is invalid, without showing any part of the password."""
        try:
            values = self._psycopg.conninfo.conninfo_to_dict(self.url)
        except self._psycopg.Error as error:
            reason = str(error).strip().partition(":")[0]  # the text after the colon may be secret
            raise ValueError(
                f"store must be a PostgreSQL address, got {self._name} ({reason})"
            ) from None
        if any("@" in str(values.get(name)) for name in ("host", "port", "dbname")):
            raise ValueError(
                f"store must be a PostgreSQL address, got {self._name}; in a user name or password, "
                "write @ as %40, : as %3A and / as %2F"
            )

    def _initialize(self, database: Database, create: bool) -> None:
        database.execute("select pg_advisory_xact_lock(3141592653)")
        rows = database.execute(
            "select table_name from information_schema.tables where table_schema = 'kibitz'"
        )
        tables = [name for (name,) in rows]
        if create and not tables:
            database.execute("create schema if not exists kibitz")
        self.found_version = prepare(database, tables, self._name, create)

    def write(self, work: Callable[[Database], T]) -> T:
        """Run `work` in a transaction; return its result after the commit.

        If the connection is lost, run the transaction again, unless it was committed.
        """
        deadline = time.monotonic() + self._retry_seconds
        may_be_committed, result = False, None
        with self.locks[0]:
            while True:
                try:
                    if self._writer is None:
                        self._writer = PostgreSQLDatabase(self._psycopg, self.url)
                    if may_be_committed and self._is_committed(self._writer):
                        return result  # type: ignore[return-value]
                    may_be_committed = False
                    self._writer.begin()
                    result = work(self._writer)
                    self._attempt += 1
                    may_be_committed = self._has_tables
                    if may_be_committed:
                        values = (self._writer_id, self._attempt, time.time())
                        self._writer.execute_many(RECORD_ATTEMPT, [values])
                    self._writer.commit()
                    return result
                except self._psycopg.OperationalError as error:
                    self._disconnect(self._writer)
                    self._writer = None
                    if time.monotonic() > deadline:
                        raise self._unavailable(error) from error
                    self.n_retries += 1
                    time.sleep(0.05)
                except BaseException:
                    self._writer = self._roll_back(self._writer)
                    raise

    def read(self, work: Callable[[Database], T]) -> T:
        """Run `work` on a consistent snapshot; neither wait for writers nor block them."""
        deadline = time.monotonic() + self._retry_seconds
        with self.locks[1]:
            while True:
                try:
                    if self._reader is None:
                        self._reader = PostgreSQLDatabase(self._psycopg, self.url, readonly=True)
                    self._reader.execute("begin isolation level repeatable read")
                    try:
                        return work(self._reader)
                    finally:
                        self._reader = self._roll_back(self._reader)
                except self._psycopg.OperationalError as error:
                    self._disconnect(self._reader)
                    self._reader = None
                    if time.monotonic() > deadline:
                        raise self._unavailable(error) from error
                    self.n_retries += 1
                    time.sleep(0.05)

    def purge(self) -> None:
        """Rewrite the tables that contain keys, so that no deleted data is left in them.

        The tables are locked during this time. The statistics of the server's planner contain a
        sample of the keys, so they are computed again. The server's write-ahead log and its backups
        are not changed.
        """
        database = PostgreSQLDatabase(self._psycopg, self.url)
        try:
            for table in ("decisions", "events", "checkpoints"):
                database.execute(f"vacuum (full, analyze) {table}")
            database.execute("vacuum (full) pg_statistic")  # PostgreSQL skips it without permission
        except self._psycopg.OperationalError as error:
            raise self._unavailable(error) from error
        finally:
            self._disconnect(database)
        self.write(finish_purge)

    def measure_size(self) -> int:
        """Return the size of the tables and their indices in bytes."""
        statement = (
            "select coalesce(sum(pg_total_relation_size(c.oid)), 0) from pg_class c "
            "join pg_namespace n on n.oid = c.relnamespace "
            "where n.nspname = 'kibitz' and c.relkind = 'r'"
        )
        return int(self.read(lambda database: database.execute(statement))[0][0])

    def close(self) -> None:
        """Close the connections; the store reopens them on the next use."""
        with self.locks[0], self.locks[1]:
            self._disconnect(self._writer)
            self._writer = None
            self._disconnect(self._reader)
            self._reader = None

    def _is_committed(self, database: PostgreSQLDatabase) -> bool:
        """Return whether this store's last attempt was committed; wait if it is still running.

        PostgreSQL's `pg_xact_status` is not reliable for this purpose, because transaction ids may be
        reused after a crash.
        """
        database.execute("set lock_timeout to '2s'")  # after 2 s, `write` retries until its deadline
        insert = f"{RECORD_ATTEMPT.partition(' do ')[0]} do nothing"
        database.execute(insert, self._writer_id, 0, time.time())
        [(attempt,)] = database.execute(
            "select attempt from writers where writer = ? for update", self._writer_id
        )
        database.execute("set lock_timeout to 0")
        return bool(attempt == self._attempt)

    def renew(self) -> None:
        """In a forked process, replace the locks and stop using the parent's connections.

        The child does not close these connections, because that would end the parent's sessions.
        """
        self.locks = threading.RLock(), threading.RLock()
        self._abandoned += [self._writer, self._reader]
        self._writer = self._reader = None
        self._writer_id = uuid.uuid4().hex

    def _roll_back(self, database: PostgreSQLDatabase | None) -> PostgreSQLDatabase | None:
        """Roll back a transaction; return the database, or None if its connection is lost."""
        if database is None:
            return None
        try:
            database.connection.execute("rollback")
        except self._psycopg.Error:
            self._disconnect(database)
            return None
        return database

    def _disconnect(self, database: PostgreSQLDatabase | None) -> None:
        if database is not None:
            with contextlib.suppress(self._psycopg.Error):
                database.connection.close()

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        return StoreUnavailable(f"store {self._name} is unavailable: {reason}")
