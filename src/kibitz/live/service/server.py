"""Run the service: sockets, signals, slow clients, and requests that are not HTTP."""

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

HEAD_SECONDS = 10.0  # that the head of a request may take to arrive
LAST_SECONDS = 0.3  # in which new requests are rejected, before connections are closed
STOP_SECONDS = 30  # after which a stop no longer waits for what was accepted
NOT_HTTP = {"error": {"code": STATUS[400][0], "message": "the request must be HTTP/1.1"}}


def is_local(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    try:
        return host in LOCAL or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"host must be an address, got {short_repr(host)} ({error})") from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(2048)  # from now on connections are queued
    except OSError as error:
        made.close()
        raise ValueError(
            f"host and port must be free to listen on, got {host}:{port} ({error.strerror})"
        ) from None
    return made


def create_server(app: Starlette) -> "Server":
    """Return the server of an application: `create_server(app).run(sockets=[...])`."""
    return Server(
        uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=STOP_SECONDS,
            h11_max_incomplete_event_size=32 * 1024,
        )
    )


class Server(uvicorn.Server):
    """Stops on SIGTERM or Ctrl-C: finishes what was accepted, rejects the rest, ends all streams."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; the second signal stops at once."""
        state = self.config.app.state  # type: ignore[union-attr]
        if state.writer.stopping:
            self.should_exit = self.force_exit = True
        state.writer.stopping = True
        asyncio.get_running_loop().call_soon_threadsafe(self._stop_streams)

    def _stop_streams(self) -> None:
        self.config.app.state.changes.stop()  # type: ignore[union-attr]
        asyncio.get_running_loop().call_later(LAST_SECONDS, setattr, self, "should_exit", True)


class Protocol(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """Limits the time for the head of a request; answers malformed HTTP in the usual shape."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the head."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """Stop the timer when the head is complete, and start it for the next request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP, unless an answer is being sent."""
        if self.cycle is None or self.cycle.response_complete:
            body = json.dumps(NOT_HTTP).encode()
            headers = {
                **HEADERS,
                b"content-type": b"application/json",
                b"content-length": str(len(body)).encode(),
                b"connection": b"close",
            }
            head = b"".join(b"%s: %s\r\n" % pair for pair in headers.items())
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%s\r\n%s" % (head, body))
        self.transport.close()
