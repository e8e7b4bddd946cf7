"""What the service answers when it refuses: one shape, `{"error": {"code", "message"}}`."""

import json
from typing import Any

from fastapi import Response

from kibitz._errors import Conflict
from kibitz.live.store import Damaged, Unavailable

RETRY_SECONDS = 1  # after which a client may try again what was refused with 503

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "unknown",
    405: "not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "not_json",
    422: "invalid",
    500: "internal",
    503: "unavailable",
}


class Refused(Exception):
    """A request that is refused, with a status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def answer(content: Any, status: int = 200) -> Response:
    """Return plain data as an answer."""
    return Response(json.dumps(content), status, media_type="application/json")


def refusal(error: BaseException) -> Response:
    """Return the answer to what went wrong."""
    status, message = _meaning(error)
    found = answer({"error": {"code": CODES.get(status, "bad_request"), "message": message}}, status)
    if status == 401:
        found.headers["WWW-Authenticate"] = "Bearer"
    elif status in (400, 408, 413):  # the rest of the request is not wanted
        found.headers["Connection"] = "close"
    elif status == 503:
        found.headers["Retry-After"] = str(RETRY_SECONDS)
    return found


def _meaning(error: BaseException) -> tuple[int, str]:
    if isinstance(error, Refused):
        return error.status, str(error)
    if isinstance(error, Damaged):
        return 500, "the store is damaged; `kibitz agent check` says what is whole"
    if isinstance(error, Conflict):
        return 409, str(error)
    if isinstance(error, KeyError):
        return 404, str(error.args[0])
    if isinstance(error, ValueError):
        return 422, str(error)
    if isinstance(error, Unavailable):
        return 503, "the store cannot be used at the moment"
    return 500, "something went wrong in the service; its log says what"
