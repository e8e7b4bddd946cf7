"""One declaration for each HTTP operation: its route, types, role and documentation.

`operation(...)` turns a function into a Starlette route. Its annotations are the schema: msgspec
decodes the body and the query by them, strictly, and encodes the answer; `openapi.py` writes them
into the OpenAPI document. Every error is answered as `{"error": {"code", "message"}}`.
"""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints
from urllib.parse import unquote

import msgspec
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kibitz._errors import Conflict, StoreDamaged, StoreUnavailable, UnknownAgent, UnknownDecision
from kibitz._validation import invalid, short_repr
from kibitz.live.service.auth import Headers, Rejected
from kibitz.model.problem import MAX_REWARD

MAX_BODY_BYTES = 256 * 1024
BODY_SECONDS = 10.0  # that a body may take to arrive
MAX_BATCH = 1_000  # decisions or reports in one request
RETRY_SECONDS = 1  # after which a client may retry what was rejected with 503
SLASH = "\uf8ff"  # stands for %2F inside of a name; no name can have it
STATUS = {  # of an error: its code, and when it is answered
    400: ("bad_request", "The request was not complete."),
    401: ("unauthorized", "There is no valid token."),
    403: ("forbidden", "The token has a lesser role or another agent, or the site is foreign."),
    404: ("unknown", "There is no such agent, decision or arm."),
    405: ("not_allowed", "The path has another method."),
    408: ("too_slow", "The body did not arrive in time."),
    409: ("conflict", "It contradicts what was reported before, or the key or arm is taken."),
    413: ("too_large", "The body is too large."),
    415: ("not_json", "A browser must send application/json."),
    422: ("invalid", "A value is not valid."),
    500: ("internal", "The store is damaged, or the service has a fault."),
    503: ("unavailable", "Too many requests wait, the store is away or the service stops; retry."),
}
NUMBER = re.compile(r"-?\d{1,20}")
HEADERS = {  # of every answer, unless it has its own
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"cross-origin-resource-policy": b"same-origin",
}


class Problem(msgspec.Struct):
    """What went wrong, as a word for programs and a sentence for people."""

    code: str
    message: str


class Error(msgspec.Struct):
    """The answer to every request that is rejected."""

    error: Problem


class Call(NamedTuple):
    """A request that was let in."""

    request: Request
    headers: Headers
    access: Any  # an `Access` where a role is needed
    agent: Any  # an `Agent` where the path names one
    arm: str  # in the path, or empty

    @property
    def state(self) -> Any:
        """The state of the application."""
        return self.request.app.state

    def key(self, key: Any = None) -> Any:
        """Return the key of the request: the header Idempotency-Key, or the body's."""
        header = self.headers.get(b"idempotency-key")
        if header is None:
            return key
        try:
            given = header.decode()
        except UnicodeDecodeError:
            raise invalid("Idempotency-Key", "UTF-8", header) from None
        if key is not None and key != given:
            raise invalid("key", f"the Idempotency-Key {given!r} if both are given", key)
        return given


@dataclass(eq=False)
class Operation:
    """An operation: an ASGI endpoint, and what the document says of it."""

    method: str
    path: str
    role: str | None  # that a token needs; None for everybody
    function: Callable[..., Any]  # async (call, body, query) -> answer
    example: Any  # `body`, `answer` (JSON) and `media` (other answers, by media type)
    status: int = 200  # of an answer that is no error
    errors: tuple[int, ...] = ()  # that it may answer, beside those of all operations like it
    headers: tuple[str, ...] = ()  # that it reads, beside the token

    def __post_init__(self) -> None:
        hints = get_type_hints(self.function, include_extras=True)
        self.body, self.query = hints.get("body"), hints.get("query")
        answers = get_args(hints["return"]) or (hints["return"],)
        typed = [one for one in answers if one is not Response]
        self.answer = Union[*typed] if typed else None
        self.decoder = None if self.body is None else msgspec.json.Decoder(self.body)
        errors = {403, 500, 503, *self.errors}
        errors |= {401} if self.role is not None else set()
        errors |= {404} if "{" in self.path else set()
        errors |= {400, 408, 413, 415, 422} if self.body is not None else set()
        errors |= {422} if self.query is not None else set()
        self.errors = tuple(sorted(errors))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        state, params = scope["app"].state, scope["path_params"]
        headers = dict(scope["headers"])
        name, access, agent = params.get("name"), None, None
        if name is not None:
            name = name.replace(SLASH, "/")
        if self.role is not None:
            access = await state.tokens.authorize(self.method, headers, self.role, name)
        if name is not None:
            agent = state.agents.get(name) or await asyncio.to_thread(state.open_agent, name)
        arm = params.get("arm", "").replace(SLASH, "/")
        values: dict[str, Any] = {}
        if self.decoder is not None:
            values["body"] = self._decode(self.decoder, await read_body(headers, receive))
        if self.query is not None:
            values["query"] = self._convert(QueryParams(scope["query_string"]))
        call = Call(Request(scope, receive), headers, access, agent, arm)
        answer = await self.function(call, **values)
        if not isinstance(answer, Response):
            content = msgspec.json.encode(answer)
            answer = Response(content, self.status, media_type="application/json")
        await answer(scope, receive, send)

    def _decode(self, decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
        content = content or b"{}"
        try:
            try:
                return decoder.decode(content)
            except msgspec.ValidationError as error:
                raise explain(error, self.body, json.loads(content)) from None
        except RecursionError:
            raise Rejected(422, "body must be JSON of some levels, got too many") from None
        except (msgspec.DecodeError, ValueError) as error:
            raise Rejected(422, f"body must be JSON, got {type(error).__name__}: {error}") from None

    def _convert(self, query: QueryParams) -> Any:
        try:
            return msgspec.convert(dict(query), self.query, strict=False)
        except msgspec.ValidationError as error:
            numbers = {name: int(value) for name, value in query.items() if NUMBER.fullmatch(value)}
            raise explain(error, self.query, {**query, **numbers}) from None


def operation(
    method: str, path: str, role: str | None, example: Any, **details: Any
) -> Callable[[Callable[..., Any]], Route]:
    """Return a decorator that makes a route of a function; for `details`, see `Operation`."""

    def declare(function: Callable[..., Any]) -> Route:
        endpoint = Operation(method, path, role, function, example, **details)
        route = Route(path, endpoint, methods=[method], name=function.__name__)
        route.methods = {method}  # without HEAD, which Starlette adds
        return route

    return declare


async def read_body(headers: Headers, receive: Receive) -> bytes:
    """Return the body of a request.

    A browser must declare it as application/json, which no form of another site can. Programs, which
    send no origin, need not.
    """
    length = headers.get(b"content-length", b"")
    if length in (b"", b"0") and b"transfer-encoding" not in headers:
        return b""
    too_large = Rejected(413, f"body must be of at most {MAX_BODY_BYTES} bytes")
    if length.isdigit() and (len(length) > 9 or int(length) > MAX_BODY_BYTES):
        raise too_large
    content, more = b"", True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Rejected(400, "the request must come whole")
                content += message.get("body", b"")
                more = message.get("more_body", False)
                if len(content) > MAX_BODY_BYTES:
                    raise too_large
    except TimeoutError:
        raise Rejected(408, f"body must arrive within {BODY_SECONDS:g} s") from None
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
    if content and b"origin" in headers and kind != "application/json":
        raise Rejected(415, f"content-type must be application/json, got {kind!r}")
    return content


CONDITIONS = {  # of a type in a message of msgspec
    "int": "a whole number",
    "float": "a finite number",
    "str": "a text of 1 to 500 printable characters",
    "array": "a list of names of arms",
    "object": "a JSON object",
}


def explain(error: msgspec.ValidationError, declared: Any, content: Any) -> Rejected:
    """Return a violation of the schema as a sentence of the form `n must be ..., got 0`."""
    message, _, where = str(error).partition(" - at `")
    value, fields = content, _fields(declared)
    with contextlib.suppress(LookupError, TypeError, ValueError):  # a field may be there twice
        for part in re.findall(r"\w+", where):
            value = value[int(part)] if isinstance(value, list) else value[part]
    name = (re.findall(r"\.(\w+)", where) or ["body"])[-1]
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", message, re.S):
        known = ", ".join(fields)
        return Rejected(422, f"body must be an object with {known} only, got {short_repr(found[1])}")
    if found := re.fullmatch(r"Object missing required field `(\w+)`", message):
        name, value, message = found[1], None, f"`{getattr(fields[found[1]], '__name__', '')}"
    kind = (re.findall(r"`(\w+)", message) or ["int"])[0]
    if kind == "array" and name == "body":
        return Rejected(413, f"body must be a list of at most {MAX_BATCH} reports")
    if choices := get_args(fields.get(name)) if get_origin(fields.get(name)) is Literal else ():
        condition = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
    elif bound := re.search(r"`int` ([<>])= (\d{1,9})$", message):
        condition = f"a whole number of at {'least' if bound[1] == '>' else 'most'} {bound[2]}"
    elif re.search(r"Integer value out|`int` <", message):
        condition = "a whole number below 2^62"
    elif message.startswith("Number out of range"):
        condition = CONDITIONS["float"]
    elif "`float` " in message:
        condition = f"between {-MAX_REWARD:g} and {MAX_REWARD:g}"
    else:
        condition = CONDITIONS.get(kind, "valid")
    return Rejected(422, f"{name} must be {condition}, got {short_repr(value)}")


def _fields(declared: Any) -> dict[str, Any]:
    """Return the fields of the struct in a declared type."""
    structs = [part for part in (declared, *get_args(declared)) if hasattr(part, "__struct_fields__")]
    return get_type_hints(structs[0])


def answer_error(error: BaseException) -> Response:
    """Return the answer to an error."""
    status, message = _status(error)
    content = Error(Problem(STATUS[status][0] if status in STATUS else "bad_request", message))
    headers = dict(error.headers) if isinstance(error, Rejected) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif status in (400, 408, 413):  # the rest of the request is not wanted
        headers["Connection"] = "close"
    elif status == 503:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def _status(error: BaseException) -> tuple[int, str]:
    if isinstance(error, Rejected):
        return error.status, str(error)
    if isinstance(error, StoreDamaged):
        return 500, "the store is damaged; `kibitz agent check` says what is whole"
    if isinstance(error, Conflict):
        return 409, str(error)
    if isinstance(error, UnknownDecision | UnknownAgent):
        return 404, str(error)
    if isinstance(error, ValueError):
        return 422, str(error)
    if isinstance(error, StoreUnavailable):
        return 503, "the store cannot be used at the moment"
    return 500, "something went wrong in the service; its log says what"


async def no_route(request: Request, error: Exception) -> Response:
    """Answer a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    if allow := (error.headers or {}).get("Allow"):
        message = f"method must be {allow}, got {request.method}"
        return answer_error(Rejected(405, message, Allow=allow))
    message = f"{error.detail}: {request.method} on this address"
    return answer_error(Rejected(error.status_code, message))


class Shell:
    """The outermost layer: headers of every answer, slashes in names, errors as answers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if b"%2" in scope["raw_path"]:
            parts = scope["raw_path"].decode("ascii", "replace").split("/")
            scope["path"] = "/".join(unquote(part).replace("/", SLASH) for part in parts)
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = message["headers"]
                present = {name for name, _ in headers}
                headers += [pair for pair in HEADERS.items() if pair[0] not in present]
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            answer = answer_error(error)
            if answer.status_code == 500 and not isinstance(error, StoreDamaged):
                logging.getLogger("kibitz").exception("a request failed")
            if started:
                raise
            await answer(scope, receive, send_with_headers)
