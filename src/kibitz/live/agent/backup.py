"""Back up a SQLite store while it is in use, and restore it from a verified backup."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kibitz._errors import StoreDamaged, StoreUnavailable
from kibitz._files import check_target
from kibitz._validation import short_repr
from kibitz.live.agent.agent import check_store
from kibitz.live.store import sqlite_path
from kibitz.live.store.sqlite import BUSY_SECONDS, hold_lock


def back_up(url: str, file: str | os.PathLike[str]) -> int:
    """Copy a SQLite store to a file while it is in use; return the number of its agents.

    The copy is a consistent snapshot. It is checked before it replaces an existing file.
    """
    source, target = _check_store_path(url), check_target(file, "file")
    if not source.is_file():
        raise ValueError(f"store {short_repr(str(source))} does not exist")
    if target == Path(os.path.realpath(source)):
        raise ValueError("file must not be the store itself; choose another name")
    with _copy(source, target.parent) as (copy, n_agents):
        os.replace(copy, target)
        _sync_folder(target.parent)
    return n_agents


def restore(file: str | os.PathLike[str], url: str, replace: bool = False) -> int:
    """Restore a SQLite store from a backup; return the number of its agents.

    The backup is copied and checked before anything is replaced. If the store already exists,
    `replace` must be True, and no other program may use the store.
    """
    source, target = Path(file), Path(os.path.realpath(_check_store_path(url)))
    if not source.is_file():
        raise ValueError(f"file {short_repr(str(source))} does not exist")
    exists = target.exists() and target.stat().st_size > 0
    if exists and not replace:
        raise ValueError(
            f"store {short_repr(str(target))} already exists; use --replace to replace its data"
        )
    if not target.parent.is_dir():
        raise ValueError(f"the folder of store {short_repr(str(target))} does not exist")
    with _copy(source, target.parent) as (copy, n_agents), hold_lock(target) as lock_file:
        if exists:
            _remove_write_ahead_log(target)
        os.replace(copy, target)
        os.ftruncate(lock_file, 0)  # the lock file still counts the events of the old store
        _sync_folder(target.parent)
    return n_agents


def _check_store_path(url: str) -> Path:
    path = sqlite_path(url)
    if path is None:
        raise ValueError(
            "store must be a SQLite file; use pg_dump and pg_restore for a PostgreSQL store"
        )
    return path


@contextlib.contextmanager
def _copy(source: Path, folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield a checked copy of a store, in a temporary folder in `folder`, and its number of agents.

    The check opens a second copy, because opening a store of an older version migrates it.
    """
    with tempfile.TemporaryDirectory(prefix=".kibitz-", dir=folder) as temporary_folder:
        copy, opened_copy = (Path(temporary_folder) / name for name in ("copy.db", "opened.db"))
        try:
            address = f"{source.absolute().as_uri()}?mode=ro"
            with (
                contextlib.closing(sqlite3.connect(address, uri=True)) as original,
                contextlib.closing(sqlite3.connect(copy)) as target,
            ):
                original.backup(target)
                target.execute("pragma journal_mode = delete")
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(
                f"{short_repr(str(source))} is damaged or not a SQLite file ({error})"
            ) from error
        shutil.copy(copy, opened_copy)
        discrepancies = check_store(str(opened_copy))
        for name, sentences in discrepancies.items():
            if sentences:
                raise StoreDamaged(f"{short_repr(str(source))} is damaged: {name}: {sentences[0]}")
        with open(copy, "rb") as file:
            os.fsync(file.fileno())
        yield copy, len(discrepancies)


def _remove_write_ahead_log(path: Path) -> None:
    """Remove the write-ahead log of a store that is about to be replaced.

    SQLite would otherwise apply the log to the new file. Raise StoreUnavailable if another program
    uses the store.
    """
    with contextlib.closing(
        sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    ) as connection:
        try:
            connection.execute("pragma journal_mode = delete")  # needs exclusive access
        except sqlite3.OperationalError as error:
            raise StoreUnavailable(
                f"store {short_repr(str(path))} is in use ({error}); stop all programs that use it"
            ) from error
        except sqlite3.DatabaseError:  # the store is damaged, so nobody can use it
            connection.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, so a file renamed in it survives a power failure."""
    if os.name != "nt":  # Windows cannot open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
