"""The store in a SQLite file."""

import contextlib
import os
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kibitz._errors import StoreDamaged, StoreUnavailable
from kibitz._validation import short_repr
from kibitz.live.store.queries import finish_purge, needs_purge
from kibitz.live.store.schema import Database, Row, prepare, renew_after_fork

try:
    import fcntl
except ImportError:  # on Windows, writers rely on SQLite's own busy waiting
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

COUNT_DIGITS = 20  # digits of the number of acknowledged events in the lock file
BUSY_SECONDS = 5.0  # how long to wait for a file that another process has locked


class SQLiteDatabase:
    """A connection to a SQLite file."""

    locking = ""
    clock = ""

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        mode = "ro" if readonly else "rw"
        address = f"{path.absolute().as_uri()}?mode={mode}"
        self.inode = read_inode(path)
        self.log_inode: tuple[int, int] | None = None  # set after the first commit
        self.connection = sqlite3.connect(
            address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self.execute("pragma query_only = on" if readonly else "pragma synchronous = full")
        except BaseException:
            self.connection.close()
            raise

    def execute(self, statement: str, *values: Any) -> list[Row]:
        return self.connection.execute(statement, values).fetchall()

    def execute_many(self, statement: str, values: Sequence[Row]) -> None:
        self.connection.executemany(statement, values)


def read_inode(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode of a file, or None if the file does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def read_acknowledged(path: Path) -> int:
    """Return the number of events of a store whose commits were acknowledged.

    After each commit, the store writes this number to the lock file. The database has fewer events
    if its write-ahead log was deleted, or if an older copy was restored.
    """
    try:
        return parse_count(Path(f"{path}-lock").read_bytes())
    except OSError:
        return 0


def parse_count(content: bytes) -> int:
    """Return the number at the beginning of a lock file; 0 if there is none."""
    digits = content[:COUNT_DIGITS]
    return int(digits) if digits.isdigit() else 0


def count_events(database: Database) -> int:
    """Return the number of events of all agents, including deleted agents."""
    [(n_events,)] = database.execute(
        "select n_deleted_events + (select coalesce(sum(n_events), 0) from agents) from kibitz"
    )
    return int(n_events)


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[int]:
    """Hold the write lock of the store at a path; yield the descriptor of its lock file."""
    descriptor = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


class SQLite:
    """A store in a SQLite file, shared by any number of threads and processes on one machine."""

    def __init__(self, path: Path, create: bool) -> None:
        self.path = path.absolute()  # the working directory may change
        self.url = self.display_url = str(path)
        self._name = short_repr(str(path))
        self._log = Path(f"{self.path}-wal")
        self.locks = threading.RLock(), threading.RLock()
        self._writer: SQLiteDatabase | None = None
        self._reader: SQLiteDatabase | None = None
        self._lock_file: int | None = None
        self.n_retries = 0  # the connection to a file is never lost
        self._abandoned: list[SQLiteDatabase | None] = []
        renew_after_fork(self)
        if not path.exists() or path.stat().st_size == 0:
            if not create:
                raise ValueError(f"store {self._name} does not exist; create an agent first")
            if not path.parent.is_dir():
                raise ValueError(f"the folder of store {self._name} does not exist; create it first")
        elif not path.is_file():
            raise ValueError(f"store must be a file, got {self._name}")
        try:
            with self.locks[0], self._translate_errors(), self._wait_for_lock():
                self._initialize(create)
            if self.read(needs_purge):  # a process was killed before it could purge the store
                with contextlib.suppress(StoreUnavailable):
                    self.purge()
        except BaseException:
            self.close()
            raise

    def write(self, work: Callable[[Database], T]) -> T:
        """Run `work` in a transaction; return its result after the commit."""
        with self.locks[0], self._translate_errors(), self._wait_for_lock():
            return self._transact(self._connect(), work)

    def read(self, work: Callable[[Database], T]) -> T:
        """Run `work` on a consistent snapshot; neither wait for writers nor block them."""
        with self.locks[1], self._translate_errors():
            if self._reader is None:
                self._reader = SQLiteDatabase(self.path, readonly=True)
            self._check_file(self._reader)
            self._reader.execute("begin")
            try:
                return work(self._reader)
            finally:
                if self._reader.connection.in_transaction:
                    self._reader.execute("rollback")

    def purge(self) -> None:
        """Rewrite the file and empty its write-ahead log, so that no deleted data is left in them.

        Raise StoreUnavailable if a reader keeps the write-ahead log in use for `BUSY_SECONDS`.
        """
        with self.locks[0], self._translate_errors(), self._wait_for_lock():
            database = self._connect()
            self._check_file(database)
            database.execute("vacuum")
            [(is_busy, _, _)] = database.execute("pragma wal_checkpoint(truncate)")
            if is_busy:
                raise StoreUnavailable(
                    f"the keys are erased, but a reader still uses an old version of store "
                    f"{self._name}, so its file may contain them; repeat the command"
                )
            self._transact(database, finish_purge)

    def measure_size(self) -> int:
        """Return the size of the file and its write-ahead log in bytes."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close the connections; the store reopens them on the next use."""
        with self.locks[0], self.locks[1]:
            for database in (self._reader, self._writer):  # closing the writer checkpoints the WAL
                if database is not None:
                    database.connection.close()
            if self._lock_file is not None:
                os.close(self._lock_file)
            self._writer = self._reader = self._lock_file = None

    def renew(self) -> None:
        """In a forked process, replace the locks and stop using the parent's connections.

        The child does not close these connections, because that would release the parent's locks. It
        closes the lock file; otherwise it would keep the lock if the parent dies in a transaction.
        """
        self.locks = threading.RLock(), threading.RLock()
        self._abandoned += [self._writer, self._reader]
        if self._lock_file is not None:
            os.close(self._lock_file)
        self._writer = self._reader = self._lock_file = None

    def _initialize(self, create: bool) -> None:
        try:
            if create:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666))
            if self._lock_file is not None and self.path.stat().st_size == 0:
                os.truncate(self._lock_file, 0)  # the count of an earlier store at this path
            database = self._connect()
        except OSError as error:
            raise ValueError(f"store {self._name} is not writable ({error.strerror})") from None

        def work(database: Database) -> int:
            tables = database.execute("select name from sqlite_master where type = 'table'")
            if not tables and not create and (n_acknowledged := read_acknowledged(self.path)):
                raise StoreDamaged(
                    f"store {self._name} is empty, but {n_acknowledged} events were acknowledged: "
                    "its write-ahead log was deleted; restore a backup"
                )
            names = [name for (name,) in tables]
            self.found_version = prepare(database, names, self._name, create)
            return count_events(database)

        n_lost = read_acknowledged(self.path) - self._transact(database, work)
        if n_lost > 0:
            warnings.warn(
                f"{n_lost} acknowledged events of store {self._name} are missing: its write-ahead "
                "log was deleted or an older copy was restored. New decisions may get the ids of "
                f"lost decisions. To accept the loss, delete {short_repr(f'{self.path}-lock')}",
                RuntimeWarning,
                stacklevel=2,
            )

    def _check_file(self, database: SQLiteDatabase) -> None:
        """Raise StoreUnavailable if the file was replaced or deleted since it was opened.

        The connection still refers to the old file, which no other process can open. The same holds
        for the write-ahead log, which exists as long as a connection is open.
        """
        inodes = {"file": (database.inode, read_inode(self.path))}
        if database.log_inode is not None:
            inodes["write-ahead log"] = database.log_inode, read_inode(self._log)
        for name, (old_inode, inode) in inodes.items():
            if inode != old_inode:
                change = "deleted" if inode is None else "replaced"
                raise StoreUnavailable(
                    f"the {name} of store {self._name} was {change} while it was in use; stop all "
                    "programs that use the store, restore the file, and start the programs again"
                )

    def _transact(self, database: SQLiteDatabase, work: Callable[[Database], T]) -> T:
        database.execute("begin immediate")
        try:
            result = work(database)
            n_events = count_events(database)
            self._check_file(database)  # do not write to the log of a restored file
            database.execute("commit")
            database.log_inode = database.log_inode or read_inode(self._log)
            self._check_file(database)  # otherwise the commit would be acknowledged and lost
        except BaseException:
            if database.connection.in_transaction:
                database.execute("rollback")
            raise
        self._acknowledge(n_events)
        return result

    def _acknowledge(self, n_events: int) -> None:
        """Write the number of events to the lock file, unless it holds a larger number.

        The number survives a killed process. A power failure may leave an older number.
        """
        if self._lock_file is None:
            return
        with contextlib.suppress(OSError):  # such as a full disk; the commit is on the disk
            if n_events > parse_count(os.pread(self._lock_file, COUNT_DIGITS, 0)):
                os.pwrite(self._lock_file, str(n_events).zfill(COUNT_DIGITS).encode(), 0)

    def _connect(self) -> SQLiteDatabase:
        if self._writer is None:
            database = SQLiteDatabase(self.path)
            try:
                [(mode,)] = database.execute("pragma journal_mode = wal")
                if mode != "wal":
                    raise StoreUnavailable(
                        f"the file system of store {self._name} does not support SQLite's "
                        "write-ahead log; use a local disk"
                    )
            except BaseException:
                database.connection.close()
                raise
            self._writer = database
        return self._writer

    @contextlib.contextmanager
    def _wait_for_lock(self) -> Iterator[None]:
        """Hold the write lock; waiting processes get it in the order of their requests."""
        if fcntl is None:
            yield
            return
        if self._lock_file is None:
            try:
                self._lock_file = os.open(f"{self.path}-lock", os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise ValueError(
                    f"the folder of store {self._name} is not writable ({error.strerror})"
                ) from None
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Convert errors of SQLite to StoreUnavailable or StoreDamaged."""
        try:
            yield
        except sqlite3.OperationalError as error:
            reason = str(error)
            if "locked" in reason or "busy" in reason:
                reason = f"another process has kept it locked for {BUSY_SECONDS:g} s"
            raise StoreUnavailable(f"store {self._name} is unavailable: {reason}") from error
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
                raise
            raise StoreDamaged(
                f"store {self._name} is damaged or not a SQLite file ({error}); "
                "run `kibitz agent check` to see what can be read"
            ) from error
