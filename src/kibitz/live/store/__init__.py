"""Stores of agents: a SQLite file, or a PostgreSQL database, which several machines can share.

One operation is one transaction. `write(work)` runs `work(database)`, commits, and then returns the
result; an error rolls the transaction back. `read(work)` has its own connection, so readers and
writers never wait for each other. Both stores have the same schema.

- **SQLite**: the database uses a write-ahead log and `synchronous=FULL`. A transaction that writes
  starts with `begin immediate`. Before that, the writer waits for a lock on a file beside the
  database (`shop.db-lock`), because a process can starve if it relies on SQLite's own busy waiting.
- **PostgreSQL**: each operation locks the row of its agent. After a lost connection the store
  reconnects and retries the operation. Each transaction writes its number to the table `writers`.
  If the answer to a commit was lost, this number shows whether the commit succeeded, so no operation
  is applied twice.
"""

import os
from pathlib import Path

from kibitz._validation import invalid
from kibitz.live.store.postgresql import (
    PostgreSQL,
    hide_password as hide_password,
    is_connection_string,
)
from kibitz.live.store.schema import Store
from kibitz.live.store.sqlite import SQLite


def connect(url: str | os.PathLike[str], *, create: bool = True) -> Store:
    """Open the store at a path, a `sqlite:///...` or a `postgresql://...` address.

    If the store does not exist, create it if `create` is True; otherwise raise ValueError.
    """
    text = os.fspath(url) if isinstance(url, str | os.PathLike) else url
    if not isinstance(text, str) or not text or "\0" in text:
        shown = hide_password(text) if isinstance(text, str) else url
        raise invalid("store", "a path, sqlite:///path or postgresql://...", shown)
    if is_connection_string(text.partition("://")[0]):
        raise ValueError(
            "store must be a path, sqlite:///path or postgresql://..., got a connection string; "
            "write postgresql://user:password@host/database instead"
        )
    path = sqlite_path(text)
    if path is not None:
        return SQLite(path, create)
    if text.startswith(("postgresql://", "postgres://")):
        return PostgreSQL(text, create)
    raise invalid("store", "a path, sqlite:///path or postgresql://...", hide_password(text))


def sqlite_path(url: str) -> Path | None:
    """Return the path of a SQLite address, or None for any other address."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return Path(url)
    return Path(rest[1:]) if scheme == "sqlite" and len(rest) > 1 and rest[0] == "/" else None
