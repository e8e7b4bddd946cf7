"""Running the service: sockets, signals, and clients that are slow or talk nonsense."""

import asyncio
import ipaddress
import json
import socket
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from kibitz._validation import quoted
from kibitz.live.access import LOCAL
from kibitz.live.answers import CODES
from kibitz.live.service import HEADERS

SLOWEST_HEAD = 10.0  # seconds that the head of a request may take to arrive
LAST_SECONDS = 0.3  # in which what still comes is refused, before connections are closed
GRACE = 30  # seconds after which a stop no longer waits for what was accepted
NONSENSE = {"error": {"code": CODES[400], "message": "the request must be HTTP/1.1"}}


def is_local(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    try:
        return host in LOCAL or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any that is free."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"host must be an address, got {quoted(host)} ({error})") from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(2048)  # from now on nobody is turned away
    except OSError as error:
        made.close()
        raise ValueError(
            f"host and port must be free to listen on, got {host}:{port} ({error.strerror})"
        ) from None
    return made


def server(app: FastAPI) -> "Server":
    """Return what runs the service: `server(app).run(sockets=[...])`."""
    return Server(
        uvicorn.Config(
            app,
            http=Patient,
            ws="none",
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=GRACE,
            h11_max_incomplete_event_size=32 * 1024,
        )
    )


class Server(uvicorn.Server):
    """Stops on SIGTERM or Ctrl-C: finishes what was accepted, refuses the rest, ends all streams."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; a second time, at once."""
        state = self.config.app.state  # type: ignore[union-attr]
        if state.writer.stopping:
            self.should_exit = self.force_exit = True
        state.writer.stopping = True
        asyncio.get_running_loop().call_soon_threadsafe(self._wind_up)

    def _wind_up(self) -> None:
        self.config.app.state.pulse.stop()  # type: ignore[union-attr]
        asyncio.get_running_loop().call_later(LAST_SECONDS, setattr, self, "should_exit", True)


class Patient(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """Waits for the head of a request, but not for ever; answers nonsense in the usual shape."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(SLOWEST_HEAD, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """Wait on while the head of a request is not complete."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_longer()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(SLOWEST_HEAD, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def _wait_no_longer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, unless an answer is under way."""
        if self.cycle is None or self.cycle.response_complete:
            body = json.dumps(NONSENSE).encode()
            headers = {
                **HEADERS,
                b"content-type": b"application/json",
                b"content-length": str(len(body)).encode(),
                b"connection": b"close",
            }
            head = b"".join(b"%s: %s\r\n" % pair for pair in headers.items())
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%s\r\n%s" % (head, body))
        self.transport.close()
