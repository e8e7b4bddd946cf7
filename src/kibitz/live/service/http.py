"""Declare HTTP operations: route, types, role and documentation in one place.

`operation(...)` turns a function into a Starlette route. The function's annotations are the schema:
msgspec decodes the body and the query strictly and encodes the answer, and `openapi.py` adds the
schema to the OpenAPI document. Every error has the form `{"error": {"code", "message"}}`.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints
from urllib.parse import unquote

import msgspec
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kibitz._errors import Conflict, StoreDamaged, StoreUnavailable, UnknownAgent, UnknownDecision
from kibitz._validation import invalid, short_repr
from kibitz.live.service.auth import Headers, RequestError
from kibitz.live.service.logs import log_failure
from kibitz.live.store import queries
from kibitz.model.problem import MAX_REWARD

MAX_BODY_BYTES = 256 * 1024
MAX_BODY_SECONDS = 10.0  # time within which a body must arrive
MAX_BATCH = 1_000  # decisions or reports in one request
RETRY_SECONDS = 1  # how long clients should wait before a retry after status 503
SLASH = "\uf8ff"  # stands for %2F within a name; no name contains it, as it is not printable
STATUS = {  # code and description of each error status
    400: ("bad_request", "The request is incomplete, or the length of its body is ambiguous."),
    401: ("unauthorized", "The token is missing or invalid."),
    403: ("forbidden", "The token lacks the role or the agent, or another site sent the request."),
    404: ("unknown", "The agent, decision or arm does not exist."),
    405: ("not_allowed", "The path does not support this method."),
    408: ("too_slow", "The body did not arrive in time."),
    409: ("conflict", "The request contradicts an earlier report, or the key or arm is in use."),
    413: ("too_large", "The body is too large."),
    415: ("not_json", "The content type is not supported."),
    422: ("invalid", "A value is invalid."),
    429: ("too_many", "The token has too many open streams; retry."),
    500: ("internal", "The store is damaged, or an internal error occurred."),
    503: (
        "unavailable",
        "The service is overloaded or stopping, or its store is unavailable; retry.",
    ),
}
INTEGER_PATTERN = re.compile(r"-?\d{1,20}")
HEADERS = {  # headers of every response, unless the response sets them
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"cross-origin-resource-policy": b"same-origin",
}


class ErrorDetail(msgspec.Struct):
    """An error: a code for programs and a message for people."""

    code: str
    message: str


class Error(msgspec.Struct):
    """The body of every error response."""

    error: ErrorDetail


class Call(NamedTuple):
    """An authorized request."""

    request: Request
    headers: Headers
    access: Any  # an `Access` if the operation needs a role
    agent: Any  # an `Agent` if the path names one
    arm: str  # the arm in the path, or ""

    @property
    def state(self) -> Any:
        """The state of the application."""
        return self.request.app.state

    async def check_agent(self) -> None:
        """Raise UnknownAgent if the agent was deleted or created again since it was opened.

        A stream cannot report this error after its first chunk.
        """
        tokens, name, stored = self.state.tokens, self.agent.name, self.agent.config.stored
        await tokens.run(
            tokens.store.read, lambda database: queries.read_agent(database, name, config=stored)
        )

    def key(self, key: Any = None) -> Any:
        """Return the key of the request, from the header Idempotency-Key or from the body."""
        header = self.headers.get(b"idempotency-key")
        if header is None:
            return key
        try:
            header_key = header.decode()
        except UnicodeDecodeError:
            raise invalid("Idempotency-Key", "UTF-8", header) from None
        if key is not None and key != header_key:
            raise ValueError(
                f"key {key!r} in the body differs from {header_key!r} in the header Idempotency-Key; "
                "send one of them"
            )
        return header_key


@dataclass(eq=False)
class Operation:
    """An HTTP operation: an ASGI endpoint and its documentation."""

    method: str
    path: str
    role: str | None  # required role of the token; None if no token is needed
    function: Callable[..., Any]  # async (call, body, query) -> answer
    example: Any  # `body`, `answer` (JSON) and `media` (other answers, by media type)
    status: int = 200  # status of a successful response
    errors: tuple[int, ...] = ()  # error statuses; `__post_init__` adds the common statuses
    headers: tuple[str, ...] = ()  # request headers that the function reads, except the token
    media: tuple[str, ...] = ()  # media types of a body that the function reads as text
    max_bytes: int = MAX_BODY_BYTES

    def __post_init__(self) -> None:
        hints = get_type_hints(self.function, include_extras=True)
        self.body, self.query = hints.get("body"), hints.get("query")
        answers = get_args(hints["return"]) or (hints["return"],)
        json_answers = [answer for answer in answers if answer is not Response]
        self.answer = Union[*json_answers] if json_answers else None
        self.decoder = None if self.body is None else msgspec.json.Decoder(self.body)
        errors = {403, 500, 503, *self.errors}
        errors |= {401} if self.role is not None else set()
        errors |= {404} if "{" in self.path else set()
        errors |= {400, 408, 413, 415, 422} if self.body is not None or self.media else set()
        errors |= {422} if self.query is not None else set()
        self.errors = tuple(sorted(errors))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        state, headers = scope["app"].state, dict(scope["headers"])
        name, access = scope["path_params"].get("name"), None
        if name is not None:
            name = name.replace(SLASH, "/")
        if self.role is not None:
            access = await state.tokens.authorize(self.method, headers, self.role, name)
        turn = state.import_turns if self.media else contextlib.nullcontext()
        async with turn:  # until its turn, an import is not read from the network
            await self._answer(scope, receive, send, headers, name, access)

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: Headers,
        name: str | None,
        access: Any,
    ) -> None:
        """Answer an authorized request."""
        state, agent = scope["app"].state, None
        if name is not None:
            agent = state.agents.get(name) or await state.tokens.run(state.open_agent, name)
        arm = scope["path_params"].get("arm", "").replace(SLASH, "/")
        values: dict[str, Any] = {}
        if self.decoder is not None:
            values["body"] = self._decode(self.decoder, await read_body(headers, receive))
        if self.media:
            content = await read_body(headers, receive, self.media, self.max_bytes)
            values |= {"content": decode_text(content), "media_type": get_media_type(headers)}
        if self.query is not None:
            values["query"] = self._convert(QueryParams(scope["query_string"]))
        call = Call(Request(scope, receive), headers, access, agent, arm)
        try:
            try:
                answer = await self.function(call, **values)
            except UnknownAgent:  # deleted, and perhaps created again, by another process
                if name is None:
                    raise
                state.agents.pop(name, None)
                state.feeds.pop(name, None)
                agent = await asyncio.to_thread(state.open_agent, name)
                answer = await self.function(call._replace(agent=agent), **values)
        except Conflict:
            if agent is not None:
                state.metrics.count_result(agent.name, "conflict")
            raise
        if agent is not None:
            state.metrics.count_results(agent.name, answer)
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
            raise RequestError(422, "body is JSON nested too deeply") from None
        except (msgspec.DecodeError, ValueError) as error:
            raise RequestError(422, f"body is not valid JSON: {error}") from None

    def _convert(self, query: QueryParams) -> Any:
        for name, type_ in _get_field_types(self.query).items():
            value = query.get(name, "0")
            if type_ is int and not re.fullmatch("-?[0-9]+", value):  # msgspec would accept 1e5
                raise RequestError(422, f"{name} must be a whole number, got {short_repr(value)}")
        try:
            return msgspec.convert(dict(query), self.query, strict=False)
        except msgspec.ValidationError as error:
            number_fields = {
                name: int(value) for name, value in query.items() if INTEGER_PATTERN.fullmatch(value)
            }
            raise explain(error, self.query, {**query, **number_fields}) from None


def operation(
    method: str, path: str, role: str | None, example: Any, **details: Any
) -> Callable[[Callable[..., Any]], Route]:
    """Return a decorator that turns a function into a route; see `Operation` for `details`."""

    def declare(function: Callable[..., Any]) -> Route:
        endpoint = Operation(method, path, role, function, example, **details)
        route = Route(path, endpoint, methods=[method], name=function.__name__)
        route.methods = {method}  # remove HEAD, which Starlette adds
        return route

    return declare


def get_media_type(headers: Headers) -> str:
    """Return the media type in the header Content-Type, or an empty text."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")


def decode_text(content: bytes) -> str:
    """Return the text of a body, which must be UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RequestError(422, "body must be UTF-8") from None


async def read_body(
    headers: Headers, receive: Receive, media: tuple[str, ...] = (), max_bytes: int = MAX_BODY_BYTES
) -> bytes:
    """Return the body of a request.

    The content type must be one of `media`. Without `media`, the body is JSON. A request with an
    Origin header comes from a browser and must then have the content type application/json, which an
    HTML form on another site cannot send.
    """
    media_type = get_media_type(headers)
    if media and media_type not in media:
        raise RequestError(415, f"content-type must be {' or '.join(media)}, got {media_type!r}")
    length = headers.get(b"content-length", b"")
    if length in (b"", b"0") and b"transfer-encoding" not in headers:
        return b""
    size_error = RequestError(413, f"body is larger than {max_bytes} bytes")
    if length.isdigit() and (len(length) > 9 or int(length) > max_bytes):
        raise size_error
    content, has_more = bytearray(), True
    try:
        async with asyncio.timeout(MAX_BODY_SECONDS):
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(400, "the connection closed before the end of the body")
                content += message.get("body", b"")
                has_more = message.get("more_body", False)
                if len(content) > max_bytes:
                    raise size_error
    except TimeoutError:
        raise RequestError(408, f"body did not arrive within {MAX_BODY_SECONDS:g} s") from None
    if content and b"origin" in headers and not media and media_type != "application/json":
        raise RequestError(415, f"content-type must be application/json, got {media_type!r}")
    return bytes(content)


CONDITIONS = {  # the condition on a value, by its field, or by the type in the message of msgspec
    "before": "a date such as 2026-01-31",
    "int": "a whole number",
    "float": "a finite number",
    "bool": "true or false",
    "str": "a text of 1 to 500 printable characters",
    "object": "a JSON object",
}
LIST_CONDITIONS = {  # the condition on a list, by its field
    "key": f"a list of 1 to {MAX_BATCH} keys",
    "shows": "a list with a list of probabilities for each arm",
}


def explain(error: msgspec.ValidationError, declared_type: Any, content: Any) -> RequestError:
    """Return a RequestError that names the invalid field, its condition and its value."""
    message, _, location = str(error).partition(" - at `")
    value, fields = content, _get_field_types(declared_type)
    with contextlib.suppress(LookupError, TypeError, ValueError):  # the last of repeated fields wins
        for location_part in re.findall(r"\w+", location):
            value = value[int(location_part)] if isinstance(value, list) else value[location_part]
    name = (re.findall(r"\.(\w+)", location) or ["body"])[-1]
    if message.startswith("Object ") and name != "body":  # an object in the body
        fields = _get_field_types(fields[name])
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", message, re.S):
        known_fields = ", ".join(fields)
        return RequestError(
            422, f"{name} has the unknown field {short_repr(match[1])}; use {known_fields}"
        )
    if match := re.fullmatch(r"Object missing required field `(\w+)`", message):
        first_type, *_ = get_args(fields[match[1]]) or (fields[match[1]],)
        is_union = get_origin(fields[match[1]]) in (Union, UnionType)
        required_type = first_type if is_union else fields[match[1]]
        message = f"`{getattr(required_type, '__name__', '')}"
        name, value = match[1] if name == "body" else f"{name}.{match[1]}", None
    type_name = (re.findall(r"`(\w+)", message) or ["int"])[0]
    if type_name == "array" and name == "body":
        return RequestError(413, f"body has more than {MAX_BATCH} reports; send fewer at a time")
    if choices := _get_choices(fields.get(name)):
        condition = " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
    elif bound := re.search(r"`int` ([<>])= (\d{1,9})$", message):
        condition = f"a whole number of at {'least' if bound[1] == '>' else 'most'} {bound[2]}"
    elif re.search(r"Integer value out|`int` <", message):
        condition = "a whole number below 2^62"
    elif message.startswith("Number out of range"):
        condition = CONDITIONS["float"]
    elif type_name in ("array", "list"):
        condition = LIST_CONDITIONS.get(name, "a list of names of arms")
    elif "`float` " in message and name == "shows":
        condition = "probabilities in [0, 1]"
    elif "`float` " in message:
        condition = f"between {-MAX_REWARD:g} and {MAX_REWARD:g}"
    else:
        condition = CONDITIONS.get(name) or CONDITIONS.get(type_name, "valid")
    return RequestError(422, f"{name} must be {condition}, got {short_repr(value)}")


def _get_choices(declared_type: Any) -> list[str]:
    """Return the allowed values of a type with a `Literal`, as text; an empty list without one."""
    types = (declared_type, *get_args(declared_type))
    literals = [repr(x) for t in types if get_origin(t) is Literal for x in get_args(t)]
    return [*literals, CONDITIONS["float"]] if literals and float in types else literals


def _get_field_types(declared_type: Any) -> dict[str, Any]:
    """Return the types of the fields, by name, of the struct in a declared type."""
    structs = [
        candidate
        for candidate in (declared_type, *get_args(declared_type))
        if hasattr(candidate, "__struct_fields__")
    ]
    return get_type_hints(structs[0])


def error_response(error: BaseException) -> Response:
    """Return the HTTP response for an error."""
    status, message = _get_status(error)
    content = Error(ErrorDetail(STATUS[status][0] if status in STATUS else "bad_request", message))
    headers = dict(error.headers) if isinstance(error, RequestError) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif status in (400, 408, 413):  # the rest of the body is not read
        headers["Connection"] = "close"
    elif status == 503:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def _get_status(error: BaseException) -> tuple[int, str]:
    if isinstance(error, RequestError):
        return error.status, str(error)
    if isinstance(error, StoreDamaged):
        return 500, "the store is damaged; run `kibitz agent check` to see what can be read"
    if isinstance(error, Conflict):
        return 409, str(error)
    if isinstance(error, UnknownDecision | UnknownAgent):
        return 404, str(error)
    if isinstance(error, ValueError):
        return 422, str(error)
    if isinstance(error, StoreUnavailable):
        return 503, "the store is unavailable; retry"
    return 500, "internal error; see the log of the service"


async def answer_unrouted(request: Request, error: Exception) -> Response:
    """Answer a request for a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed_methods = ", ".join(
            sorted(
                method
                for route in request.app.routes
                if route.matches(request.scope)[0] is not Match.NONE
                for method in route.methods
            )
        )
        message = f"method {request.method} is not allowed; use {allowed_methods}"
        return error_response(RequestError(405, message, Allow=allowed_methods))
    return error_response(RequestError(error.status_code, "this address does not exist"))


def check_framing(scope: Scope) -> None:
    """Raise RequestError if a proxy and this service may disagree about the end of the body.

    The rest of the body could then be a request that the proxy has not seen (request smuggling).
    """
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" in names and (
        b"content-length" in names or scope["http_version"] == "1.0"
    ):
        raise RequestError(
            400,
            "the length of the body is ambiguous; send either Content-Length or, with HTTP/1.1, "
            "Transfer-Encoding",
        )


class ErrorMiddleware:
    """Middleware that adds default headers, decodes slashes in names and answers errors."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if b"%2" in scope["raw_path"]:
            path_parts = scope["raw_path"].decode("ascii", "replace").split("/")
            scope["path"] = "/".join(
                unquote(path_part).replace("/", SLASH) for path_part in path_parts
            )
        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                headers = message["headers"]
                present_names = {name for name, _ in headers}
                headers += [
                    name_and_value
                    for name_and_value in HEADERS.items()
                    if name_and_value[0] not in present_names
                ]
            await send(message)

        try:
            check_framing(scope)
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            response = error_response(error)
            if response.status_code == 500 and not isinstance(error, StoreDamaged):
                log_failure(error)
            if has_started:
                raise
            await response(scope, receive, send_with_headers)
