"""Stream chunks and server-sent events; limit the number of streams and drop slow readers."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from kibitz.live.service.auth import RequestError, find_token
from kibitz.live.service.http import RETRY_SECONDS, Call

MAX_STREAMS = 100  # open streams of one token, or of all clients if the store has no tokens
DROPPED = b'event: dropped\ndata: {"message": "the client reads too slowly; connect again"}\n\n'


def open_stream(call: Call, chunks: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """Return a response that streams events; raise RequestError if the token has too many streams."""
    token = "" if call.state.tokens.open else (find_token(call.headers) or "").partition(".")[0]
    n_streams: Counter[str] = call.state.n_streams
    if n_streams[token] >= MAX_STREAMS:
        message = f"this token has {MAX_STREAMS} open streams already; close a stream, or retry"
        raise RequestError(429, message, **{"Retry-After": str(RETRY_SECONDS)})
    return EventStream(chunks, n_streams, token)


class Stream(StreamingResponse):
    """A stream that frees its memory as soon as the client leaves.

    When the client leaves, the task that sends the chunks is cancelled. If the task raised the
    CancelledError, anyio would leave the error in a reference cycle. Until the garbage collector ran,
    the traceback would keep the variables of all running functions, such as the last chunk.
    """

    async def stream_response(self, send: Send) -> None:
        """Send the head and all chunks; return early if the task is cancelled."""
        with contextlib.suppress(asyncio.CancelledError):
            await self.send_chunks(send)

    async def send_chunks(self, send: Send) -> None:
        """Send the head and all chunks, one message for each chunk."""
        await super().stream_response(send)


class EventStream(Stream):
    """A stream of events that is counted while it is open.

    If a client reads too slowly, the server calls the function that the response stores as
    `on_slow_reader` in the state of the request. The stream then ends with the event `dropped`.
    """

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], n_streams: Counter[str], token: str
    ) -> None:
        headers = {"X-Accel-Buffering": "no"}  # a proxy must not buffer events
        super().__init__(chunks, 200, headers, "text/event-stream")
        self._chunks, self._n_streams, self._token = chunks, n_streams, token
        self._is_slow = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream the events until they end or the client leaves or is too slow."""
        scope["state"]["on_slow_reader"] = self._end
        self._n_streams[self._token] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._n_streams[self._token] -= 1
            if not self._n_streams[self._token]:
                del self._n_streams[self._token]

    async def send_chunks(self, send: Send) -> None:
        """Send the events, one message for each chunk."""
        head = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **head})
        body: dict[str, Any] = {"type": "http.response.body"}
        async with contextlib.aclosing(self._chunks):
            async for chunk in self._chunks:
                await send({**body, "body": chunk, "more_body": True})
                if self._is_slow:
                    break
        await send({**body, "body": DROPPED if self._is_slow else b"", "more_body": False})

    def _end(self) -> None:
        self._is_slow = True
