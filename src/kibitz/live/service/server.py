"""Run the service; handle graceful shutdown, slow clients and malformed HTTP."""

import asyncio
import ipaddress
import json
import socket
import struct
import sys
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from kibitz._validation import short_repr
from kibitz.live.service.auth import LOCAL
from kibitz.live.service.http import HEADERS, STATUS

try:
    import resource
except ImportError:  # on Windows, connections are limited by MAX_CONNECTIONS only
    resource = None  # type: ignore[assignment]

MAX_HEADER_SECONDS = 10.0  # time within which the header of a request must arrive
MAX_WRITE_SECONDS = 10.0  # time within which a client must read what fills the buffers
LAST_WRITE_SECONDS = 2.0  # time within which a dropped client must read the last event
SEND_BUFFER_BYTES = 128 * 1024  # the system's send buffer for each connection
MAX_CONNECTIONS = 4_000  # open connections, if the system allows the process as many files
RESERVED_FILES = 100  # files that the service opens besides its connections
MAX_QUEUED_CONNECTIONS = 2048  # connections that the system holds until the service accepts them
MAX_ACCEPTED = 16  # connections accepted before other connections get their turn
SWITCH_SECONDS = 0.0005  # longest time for which a thread that reads may hold up the others
DRAIN_SECONDS = 0.3  # on shutdown, how long new requests are rejected before connections close
MAX_STOP_SECONDS = 30  # on shutdown, how long to wait for accepted requests
NOT_HTTP_ERROR = {"error": {"code": STATUS[400][0], "message": "the request is not valid HTTP/1.1"}}


def is_local(host: str) -> bool:
    """Return whether an address can be reached only from this machine."""
    try:
        return host in LOCAL or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects any free port."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"host must be an address, got {short_repr(host)} ({error})") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    try:
        listener.bind(address)
        listener.listen(MAX_QUEUED_CONNECTIONS)  # from now on, the system queues connections
    except OSError as error:
        listener.close()
        raise ValueError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another --port or --host"
        ) from None
    return listener


def get_max_connections() -> int:
    """Return the largest number of open connections that leaves enough files for the store."""
    if resource is None:
        return MAX_CONNECTIONS
    max_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(MAX_CONNECTIONS, max_files - RESERVED_FILES))


def create_server(app: Starlette) -> "Server":
    """Return the server of an application: `create_server(app).run(sockets=[...])`."""
    return Server(
        uvicorn.Config(
            app,
            http=TimeoutProtocol,
            ws="none",
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,
            backlog=MAX_ACCEPTED,
            timeout_graceful_shutdown=MAX_STOP_SECONDS,
            h11_max_incomplete_event_size=32 * 1024,
        )
    )


class Server(uvicorn.Server):
    """A server that, on SIGTERM or Ctrl-C, finishes accepted requests and rejects new requests."""

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal stops the server."""
        switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            super().run(sockets)
        finally:
            sys.setswitchinterval(switch_interval)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, and let the system queue more of them.

        asyncio uses one number both for the connections that it accepts at once and for the
        connections that the system queues. This function increases the second number.
        """
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(MAX_QUEUED_CONNECTIONS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin a graceful shutdown; on the second signal, stop at once."""
        state = self.config.app.state  # type: ignore[union-attr]
        if state.writer.stopping:
            self.should_exit = self.force_exit = True
        state.writer.stopping = True
        asyncio.get_running_loop().call_soon_threadsafe(self._stop_streams)

    def _stop_streams(self) -> None:
        self.config.app.state.changes.stop()  # type: ignore[union-attr]
        asyncio.get_running_loop().call_later(DRAIN_SECONDS, setattr, self, "should_exit", True)


class TimeoutProtocol(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """HTTP protocol with timeouts for slow clients and JSON errors for malformed requests."""

    _header_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    idle_since = 0.0  # time since which the connection has no request
    _is_dropped = False  # whether the client reads too slowly

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the header; if there are too many connections, close one."""
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        if len(self.connections) > get_max_connections():
            self._close_idle_connection()
        self._header_timer = self.loop.call_later(MAX_HEADER_SECONDS, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """Stop the timer when the header is complete; restart it for the next request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_header_timer()
        elif self._header_timer is None and not self.transport.is_closing():
            self._header_timer = self.loop.call_later(MAX_HEADER_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, which keep the connection in memory.

        uvicorn does not stop its timer if the client has reset the connection.
        """
        self._stop_header_timer()
        self._stop_write_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start a timer when the buffers are full, because the client must read them in time."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(MAX_WRITE_SECONDS, self._drop_client)

    def resume_writing(self) -> None:
        """Stop the timer, because the client has read enough."""
        super().resume_writing()
        if not self._is_dropped:
            self._stop_write_timer()

    def _close_idle_connection(self) -> None:
        """Close the connection that has been without a complete request for the longest time.

        If all other connections have a complete request, close this connection.
        """
        idle_connections = [
            connection
            for connection in self.connections
            if connection.cycle is None
            or connection.cycle.response_complete
            or connection.cycle.more_body
        ]
        oldest = min(idle_connections, key=lambda connection: connection.idle_since)
        self.connections.discard(oldest)
        oldest.transport.abort()

    def on_response_complete(self) -> None:
        """Record the time from which the connection has no request."""
        self.idle_since = self.loop.time()
        super().on_response_complete()

    def _drop_client(self) -> None:
        """Close the connection of a slow client; a stream may send a last event before that."""
        is_complete = self.cycle is None or self.cycle.response_complete
        end_stream = None if is_complete else self.scope["state"].get("on_slow_reader")
        if end_stream is None:
            self._reset()
            return
        self._is_dropped, self.cycle.keep_alive = True, False
        end_stream()
        self.flow.resume_writing()  # the stream waits for this and then sends the last event
        self._write_timer = self.loop.call_later(LAST_WRITE_SECONDS, self._reset)

    def _reset(self) -> None:
        """Close the connection at once; the system discards the data that the client has not read."""
        linger = struct.pack("ii", 1, 0)
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.transport.abort()

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP with status 400, unless a response is being sent."""
        if self.cycle is None or self.cycle.response_complete:
            body = json.dumps(NOT_HTTP_ERROR).encode()
            headers = {
                **HEADERS,
                b"content-type": b"application/json",
                b"content-length": str(len(body)).encode(),
                b"connection": b"close",
            }
            header_lines = b"".join(
                b"%s: %s\r\n" % name_and_value for name_and_value in headers.items()
            )
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%s\r\n%s" % (header_lines, body))
        self.transport.close()
