"""Log requests and errors, count requests, and give each request an id.

The service logs with `logging`: `kibitz.access` has one record for each request at level INFO, and
`kibitz` has errors. A record names the route and the agent of a request, never its path, query or
body. The logs therefore contain no token, key or reward.
"""

import json
import logging
import random
import re
import time
import traceback
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
REQUEST_ID_PATTERN = re.compile(rb"[\w.:=+/@-]{1,100}", re.ASCII)
METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS")  # all others: "other"
FIELDS = ("request_id", "method", "route", "agent", "status", "seconds")  # in a record

access_log = logging.getLogger("kibitz.access")


def get_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of an access record; an empty dict for other records."""
    return {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}


class TextFormatter(logging.Formatter):
    """A formatter that writes each record as one line of text, with its fields at the end."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text."""
        fields = "".join(f" {name}={value}" for name, value in get_fields(record).items())
        return f"{super().format(record)}{fields}"


class JsonFormatter(logging.Formatter):
    """A formatter that writes each record as one line of JSON."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a JSON object."""
        fields: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= get_fields(record)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def configure(log_format: str, log_level: str) -> None:
    """Write the records of the service to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter(TEXT_FORMAT))
    logger = logging.getLogger("kibitz")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(log_level.upper())


def log_failure(error: Exception) -> None:
    """Log an internal error with the lines of code that raised it.

    The message of the error may contain a key or a reward, so it is logged at level DEBUG only.
    """
    logger = logging.getLogger("kibitz")
    lines = "".join(traceback.format_tb(error.__traceback__))
    logger.error("request failed: %s\n%s", type(error).__name__, lines.rstrip())
    logger.debug("request failed: %s", error)


class RequestMiddleware:
    """Middleware that gives each request an id, and counts and logs its response."""

    def __init__(self, app: ASGIApp, routes: dict[Any, str]) -> None:
        self.app = app
        self.routes = routes  # the path of each endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = find_request_id(scope)
        started_at = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-request-id", request_id))
                seconds = time.perf_counter() - started_at
                self._record(scope, request_id, message["status"], seconds)
            await send(message)

        await self.app(scope, receive, send_with_id)

    def _record(self, scope: Scope, request_id: bytes, status: int, seconds: float) -> None:
        state = scope["app"].state
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = self.routes.get(scope.get("endpoint"), "unknown")
        state.metrics.count_request(method, route, status, seconds)
        if access_log.isEnabledFor(logging.INFO):
            agent = state.agents.get(scope.get("path_params", {}).get("name"))
            name = None if agent is None else agent.name
            values = (request_id.decode(), method, route, name, status, round(seconds, 6))
            fields = {
                field: value for field, value in zip(FIELDS, values, strict=True) if value is not None
            }
            access_log.info("request", extra=fields)


def find_request_id(scope: Scope) -> bytes:
    """Return the X-Request-ID of a request, or a random id if it has no valid X-Request-ID."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and REQUEST_ID_PATTERN.fullmatch(value):
            return bytes(value)
    return b"%016x" % random.getrandbits(64)
