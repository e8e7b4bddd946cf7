"""Open a store, and migrate it if necessary, in the background."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from kibitz._errors import StoreUnavailable
from kibitz.live.store import connect, hide_password
from kibitz.live.store.schema import Database, Store

T = TypeVar("T")

OPENING_SECONDS = 1.0  # the constructor waits this long for the store to open or to fail


class OpeningStore:
    """A store that is opened in the background, so a service can answer probes during a migration.

    Until the store is open, `read` and `write` raise StoreUnavailable. An error within the first
    `OPENING_SECONDS` is raised by the constructor. A later error is logged. If the store is only
    unavailable, opening is tried again until it succeeds.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.display_url = hide_password(url)
        self.error: Exception | None = None
        self._store: Store | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        thread = threading.Thread(target=self._open, name="kibitz-opening", daemon=True)
        thread.start()
        thread.join(OPENING_SECONDS)
        if self.error is not None:
            raise self.error

    @property
    def is_open(self) -> bool:
        """Whether the store can be used."""
        return self._store is not None

    @property
    def locks(self) -> tuple[threading.RLock, threading.RLock]:
        """The locks of the open store."""
        return self._get().locks

    @property
    def found_version(self) -> int:
        """The version of the schema that the store had before it was migrated."""
        return self._get().found_version

    @property
    def n_retries(self) -> int:
        """The number of transactions that were run again after the connection was lost."""
        return 0 if self._store is None else self._store.n_retries

    def read(self, work: Callable[[Database], T]) -> T:
        """Run `work` on a consistent snapshot."""
        return self._get().read(work)

    def write(self, work: Callable[[Database], T]) -> T:
        """Run `work` in a transaction; return its result after the commit."""
        return self._get().write(work)

    def purge(self) -> None:
        """Rewrite the store so that no deleted data is left in it."""
        self._get().purge()

    def measure_size(self) -> int:
        """Return the size of the store in bytes."""
        return self._get().measure_size()

    def close(self) -> None:
        """Close the store; if it is still being opened, close it afterwards."""
        with self._lock:
            self._closing.set()
            if self._store is not None:
                self._store.close()

    def renew(self) -> None:
        """Do nothing: the open store itself renews its connections in a forked process."""

    def _open(self) -> None:
        deadline = time.monotonic() + OPENING_SECONDS
        while not self._closing.is_set():
            try:
                store = connect(self.url, create=False)
                break
            except Exception as error:
                is_late = time.monotonic() > deadline
                if is_late:
                    logging.getLogger("kibitz").error("store %s: %s", self.display_url, error)
                if not (is_late and isinstance(error, StoreUnavailable)):
                    self.error = error
                    return
            self._closing.wait(OPENING_SECONDS)
        else:
            return
        with self._lock:
            self._store = store
            if self._closing.is_set():
                store.close()

    def _get(self) -> Store:
        if self._store is None:
            problem = "is being opened or migrated" if self.error is None else "cannot be opened"
            raise StoreUnavailable(f"store {self.display_url!r} {problem}")
        return self._store
