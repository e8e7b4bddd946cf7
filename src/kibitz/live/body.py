"""What a request brings along: its body as JSON, within limits, and its key."""

import asyncio
import json
from typing import Any

from starlette.types import Receive

from kibitz._validation import refused
from kibitz.live.answers import Refused

LARGEST_BODY = 256 * 1024  # bytes
SLOWEST_BODY = 10.0  # seconds that a body may take to arrive


async def read(headers: dict[bytes, bytes], receive: Receive) -> Any:
    """Return a body as plain data, None if it is empty.

    A browser must call it application/json, which no form of another site can. Programs, which send
    no origin, need not.
    """
    length = headers.get(b"content-length", b"")
    if not length and b"transfer-encoding" not in headers:
        return None
    if length.isdigit() and (len(length) > 9 or int(length) > LARGEST_BODY):
        raise too_large()
    content = await _whole(receive)
    if not content:
        return None
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if b"origin" in headers and kind != b"application/json":
        raise Refused(415, f"content-type must be application/json, got {kind.decode('latin-1')!r}")
    try:
        return json.loads(content)
    except RecursionError:
        raise Refused(422, "body must be JSON of some levels, got too many") from None
    except ValueError as error:  # no JSON, no UTF-8, or a number of thousands of digits
        raise Refused(422, f"body must be JSON, got {type(error).__name__}: {error}") from None


async def _whole(receive: Receive) -> bytes:
    content, more = b"", True
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the request must come whole")
                content += message.get("body", b"")
                more = message.get("more_body", False)
                if len(content) > LARGEST_BODY:
                    raise too_large()
    except TimeoutError:
        raise Refused(408, f"body must arrive within {SLOWEST_BODY:g} s") from None
    return content


def too_large() -> Refused:
    """Return the refusal of a body that is too large."""
    return Refused(413, f"body must be of at most {LARGEST_BODY} bytes")


def fields(content: Any, *names: str) -> dict[str, Any]:
    """Return a body that is an object with some of these fields; none at all is an empty one."""
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise refused("body", "a JSON object", content)
    for name in content:
        if name not in names:
            raise refused("body", f"an object with {', '.join(names)} only", name)
    return content


def key_of(headers: dict[bytes, bytes], body: dict[str, Any]) -> Any:
    """Return the key of a request: the header Idempotency-Key, or the body's."""
    header, key = headers.get(b"idempotency-key"), body.get("key")
    if header is None:
        return key
    try:
        given = header.decode()
    except UnicodeDecodeError:
        raise refused("Idempotency-Key", "UTF-8", header) from None
    if key is not None and key != given:
        raise refused("key", f"the Idempotency-Key {given!r} if both are given", key)
    return given
