"""The store in a SQLite file."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kibitz._errors import StoreDamaged, StoreUnavailable
from kibitz._validation import short_repr
from kibitz.live.store.schema import Database, Row, prepare

try:
    import fcntl
except ImportError:  # Windows: SQLite's own waiting has to do
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

BUSY_SECONDS = 5.0  # how long to wait for a file that somebody else has locked


class SQLiteDatabase:
    """A connection to a SQLite file."""

    locking = ""

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        mode = "ro" if readonly else "rw"
        address = f"{path.absolute().as_uri()}?mode={mode}"
        self.connection = sqlite3.connect(
            address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self.rows("pragma query_only = on" if readonly else "pragma synchronous = full")
        except BaseException:
            self.connection.close()
            raise

    def rows(self, statement: str, *values: Any) -> list[Row]:
        return self.connection.execute(statement, values).fetchall()

    def many(self, statement: str, values: Sequence[Row]) -> None:
        self.connection.executemany(statement, values)


class SQLite:
    """A file, shared by any number of threads and processes of one machine."""

    def __init__(self, path: Path, create: bool) -> None:
        self.path = path
        self.url = str(path)
        self._name = short_repr(str(path))
        self._lock = threading.RLock()
        self._reading = threading.RLock()
        self._writer: SQLiteDatabase | None = None
        self._reader: SQLiteDatabase | None = None
        self._side: int | None = None
        self._process = os.getpid()
        if not path.exists() or path.stat().st_size == 0:
            if not create:
                raise ValueError(f"store must be a file that exists, got {self._name}")
            if not path.parent.is_dir():
                raise ValueError(f"store must be in a folder that exists, got {self._name}")
        elif not path.is_file():
            raise ValueError(f"store must be a file, got {self._name}")
        try:
            with self._lock, self._spoken(), self._turn():
                self._begin_with(create)
        except BaseException:
            self.close()
            raise

    def write(self, work: Callable[[Database], T]) -> T:
        """Run `work` in a transaction and return what it returns once that is committed."""
        with self._lock, self._spoken(), self._turn():
            return self._transact(self._opened(), work)

    def read(self, work: Callable[[Database], T]) -> T:
        """Run `work` on one state of the database, without holding up anybody."""
        with self._reading, self._spoken():
            self._after_fork()
            if self._reader is None:
                self._reader = SQLiteDatabase(self.path, readonly=True)
            self._reader.rows("begin")
            try:
                return work(self._reader)
            finally:
                if self._reader.connection.in_transaction:
                    self._reader.rows("rollback")

    def close(self) -> None:
        """Close the connections; the store opens them again when it is used."""
        with self._lock, self._reading:
            self._after_fork()
            for database in (self._reader, self._writer):  # the last one brings in the log
                if database is not None:
                    database.connection.close()
            if self._side is not None:
                os.close(self._side)
            self._writer = self._reader = self._side = None

    def _begin_with(self, create: bool) -> None:
        try:
            if create:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666))
            database = self._opened()
        except OSError as error:
            raise ValueError(
                f"store must be a file to write to, got {self._name} ({error.strerror})"
            ) from None

        def work(database: Database) -> None:
            tables = database.rows("select name from sqlite_master where type = 'table'")
            prepare(database, [name for (name,) in tables], self._name, create)

        self._transact(database, work)

    @staticmethod
    def _transact(database: SQLiteDatabase, work: Callable[[Database], T]) -> T:
        database.rows("begin immediate")
        try:
            result = work(database)
            database.rows("commit")
        except BaseException:
            if database.connection.in_transaction:
                database.rows("rollback")
            raise
        return result

    def _opened(self) -> SQLiteDatabase:
        if self._writer is None:
            database = SQLiteDatabase(self.path)
            try:
                [(mode,)] = database.rows("pragma journal_mode = wal")
                if mode != "wal":
                    raise StoreUnavailable(
                        f"store must be on a disk that takes a log, got {self._name}"
                    )
            except BaseException:
                database.connection.close()
                raise
            self._writer = database
        return self._writer

    def _after_fork(self) -> None:
        """Leave a parent's connections alone: closing them would drop its locks."""
        if self._process != os.getpid():
            self._abandoned = (self._writer, self._reader)
            self._writer = self._reader = self._side = None
            self._process = os.getpid()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for a turn to write, first come, first served."""
        self._after_fork()
        if fcntl is None:
            yield
            return
        if self._side is None:
            try:
                self._side = os.open(f"{self.path}-lock", os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise ValueError(
                    f"store must be in a folder to write to, got {self._name} ({error.strerror})"
                ) from None
        fcntl.flock(self._side, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._side, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def _spoken(self) -> Iterator[None]:
        """Say in a sentence what is wrong with the file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            what = str(error)
            if "locked" in what or "busy" in what:
                what = f"somebody else has locked it for {BUSY_SECONDS:g} s"
            raise StoreUnavailable(f"store must be usable, got {self._name}: {what}") from error
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
                raise
            raise StoreDamaged(
                f"store must be a whole SQLite file, got {self._name} ({error}); "
                "`kibitz agent check` says what is whole"
            ) from error
