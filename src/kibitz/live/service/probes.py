"""Check whether the service accepts requests and its store answers."""

import asyncio

from kibitz._errors import StoreUnavailable
from kibitz.live.service.auth import RequestError
from kibitz.live.service.group_commit import STOPPING, Writer
from kibitz.live.store import queries
from kibitz.live.store.schema import Store

READY_SECONDS = 2.0  # how long a probe waits for the store


class Readiness:
    """The readiness of a service. All probes share one query of the store.

    An unavailable PostgreSQL server blocks a query for seconds. If each probe sent its own query, the
    probes would block all threads of the service.
    """

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._query: asyncio.Task[object] | None = None

    async def check(self) -> None:
        """Raise RequestError with status 503 unless the service is ready."""
        if self._writer.stopping:
            raise RequestError(503, STOPPING)
        if not getattr(self._store, "is_open", True):
            raise RequestError(503, "the store is being opened or migrated; retry")
        if self._query is None or self._query.done():
            query = asyncio.to_thread(self._store.read, queries.count_events)
            self._query = asyncio.create_task(query)
            self._query.add_done_callback(_read_error)
        try:
            await asyncio.wait_for(asyncio.shield(self._query), READY_SECONDS)
        except TimeoutError:
            message = f"the store has not answered for {READY_SECONDS:g} s; retry"
            raise RequestError(503, message) from None
        except StoreUnavailable:
            raise RequestError(503, "the store is unavailable; retry") from None


def _read_error(query: "asyncio.Task[object]") -> None:
    """Read the error of a query, so asyncio does not log it if all probes have timed out."""
    if not query.cancelled():
        query.exception()
