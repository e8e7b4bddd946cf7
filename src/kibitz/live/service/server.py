"""Run the service; handle graceful shutdown, slow clients and malformed HTTP."""

import asyncio
import ipaddress
import json
import socket
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from kibitz._validation import short_repr
from kibitz.live.service.auth import LOCAL
from kibitz.live.service.http import HEADERS, STATUS

MAX_HEADER_SECONDS = 10.0  # time within which the header of a request must arrive
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
    try:
        listener.bind(address)
        listener.listen(2048)  # from now on, the system queues connections
    except OSError as error:
        listener.close()
        raise ValueError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another --port or --host"
        ) from None
    return listener


def create_server(app: Starlette) -> "Server":
    """Return the server of an application: `create_server(app).run(sockets=[...])`."""
    return Server(
        uvicorn.Config(
            app,
            http=HeaderTimeoutProtocol,
            ws="none",
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=MAX_STOP_SECONDS,
            h11_max_incomplete_event_size=32 * 1024,
        )
    )


class Server(uvicorn.Server):
    """A server that, on SIGTERM or Ctrl-C, finishes accepted requests and rejects new requests."""

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


class HeaderTimeoutProtocol(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """HTTP protocol with a timeout for headers and JSON errors for malformed requests."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the header."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(MAX_HEADER_SECONDS, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """Stop the timer when the header is complete; restart it for the next request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(MAX_HEADER_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

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
