"""The HTTP operations on agents, each declared with its types, role and example.

From each declaration, `http.py` makes a route and `openapi.py` makes a part of the OpenAPI document.
"""

import asyncio
import contextlib
import functools
import os
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from importlib.metadata import version
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from kibitz._errors import StoreDamaged, StoreUnavailable, UnknownAgent
from kibitz._validation import invalid, text
from kibitz.live.agent.agent import Agent, name_decision
from kibitz.live.agent.config import Config
from kibitz.live.agent.export import as_csv, as_lines, as_netcdf
from kibitz.live.service import agents, openapi, schemas
from kibitz.live.service.auth import RequestError, Tokens
from kibitz.live.service.changes import Changes
from kibitz.live.service.group_commit import Writer
from kibitz.live.service.http import RETRY_SECONDS, Call, ErrorMiddleware, answer_unrouted, operation
from kibitz.live.service.logs import RequestMiddleware
from kibitz.live.service.metrics import Metrics, metrics
from kibitz.live.service.probes import Readiness
from kibitz.live.service.reads import Reads, Reports
from kibitz.live.service.streams import Stream, open_stream
from kibitz.live.store import connect, queries
from kibitz.live.store.opening import OpeningStore
from kibitz.live.store.schema import Store

KEEPALIVE_SECONDS = 15.0  # time between the comments that an idle stream sends
MAX_IMPORTS = 2  # imports at a time, because each holds its whole history in memory
CHUNK_SIZE = 250  # events that a stream reads, encodes and sends at once
AGENT_PATH = "/v1/agents/{name}"
KEY_HEADERS = ("Idempotency-Key",)
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "nc": "application/x-netcdf",
}


@operation("POST", f"{AGENT_PATH}/ask", "play", schemas.ASK, errors=(409,), headers=KEY_HEADERS)
async def ask(call: Call, body: schemas.Ask) -> schemas.Decision | list[schemas.Decision]:
    """Choose an arm to pull, or `n` arms. Requests with the same key get the same decision."""
    key = call.key(body.key)
    values = key, body.among, body.n
    answer = await call.state.writer.submit(call.agent, "ask", *values, size=body.n or 1)
    if body.n is None:
        return schemas.Decision(*answer)
    return [schemas.Decision(*decision) for decision in answer]


@operation("POST", f"{AGENT_PATH}/tell", "play", schemas.TELL, errors=(409,))
async def tell(
    call: Call, body: schemas.Tell | schemas.Tells
) -> schemas.Result | list[schemas.Result]:
    """Report the reward of a decision, or a list of rewards in one transaction.

    Name the decision by its `id`, or by the `key` with which you asked for it. The result is
    `counted`, or `duplicate` for a repeated report.
    """
    writer = call.state.writer
    if not isinstance(body, list):
        name, values = name_decision(body.id, body.key, body.reward, bool(body.force))
        return schemas.Result(await writer.submit(call.agent, name, *values))
    reports = [name_decision(told.id, told.key, told.reward, bool(told.force)) for told in body]
    if not reports:
        return []
    results = await writer.submit_function(lambda: call.agent.batch(reports), size=len(reports))
    return [schemas.Result(result) for result in results]


@operation("POST", f"{AGENT_PATH}/look", "play", schemas.LOOK, errors=(409,), headers=KEY_HEADERS)
async def look(call: Call, body: schemas.Look) -> schemas.Decision:
    """Choose the arm of the next look. Requests with the same key get the same decision."""
    decision = await call.state.writer.submit(call.agent, "look", call.key(body.key))
    return schemas.Decision(*decision)


@operation(
    "POST", f"{AGENT_PATH}/observe", "play", schemas.OBSERVE, errors=(409,), headers=KEY_HEADERS
)
async def observe(
    call: Call, body: schemas.Observe | schemas.Observations
) -> schemas.Result | list[schemas.Result]:
    """Report an observation that was not asked for, or a list of observations in one transaction.

    If a pull showed this reward of another arm, `shown_by` is the id of the pull; such an observation
    needs no key. The result is `counted`, or `duplicate` for a repeated report.
    """
    writer = call.state.writer
    if isinstance(body, list) and b"idempotency-key" in call.headers:
        raise ValueError("Idempotency-Key is for one observation; give each observation its own key")
    if not isinstance(body, list):
        values = body.arm, body.reward, call.key(body.key), bool(body.force), body.shown_by
        return schemas.Result(await writer.submit(call.agent, "observe", *values))
    reports = [
        ("observe", (seen.arm, seen.reward, seen.key, bool(seen.force), seen.shown_by))
        for seen in body
    ]
    if not reports:
        return []
    results = await writer.submit_function(lambda: call.agent.batch(reports), size=len(reports))
    return [schemas.Result(result) for result in results]


@operation("POST", f"{AGENT_PATH}/correct", "play", schemas.CORRECT, errors=(409,))
async def correct(call: Call, body: schemas.Correction) -> schemas.Result:
    """Replace the reward of a decision. The result is `corrected` or `duplicate`."""
    writer = call.state.writer
    values = body.id, body.reward, bool(body.force)
    return schemas.Result(await writer.submit(call.agent, "correct", *values))


@operation("POST", f"{AGENT_PATH}/forget", "play", schemas.FORGET, errors=(409,))
async def forget(call: Call, body: schemas.Forget) -> schemas.Result:
    """Stop waiting for a report; a late report still counts.

    The result is `forgotten` or `duplicate`.
    """
    return schemas.Result(await call.state.writer.submit(call.agent, "forget", body.id))


@operation("POST", f"{AGENT_PATH}/arms", "admin", schemas.ADD_ARM, errors=(409,), status=201)
async def add_arm(call: Call, body: schemas.NewArm) -> schemas.Arm:
    """Add an arm."""
    arm = text(body.arm, "arm")

    def add_new_arm() -> None:
        if any(known_arm.name == arm for known_arm in call.agent.arms()):
            raise RequestError(409, f"arm {arm!r} already exists; use a new name")
        call.agent.add(arm)

    await call.state.writer.submit_function(add_new_arm)
    return schemas.Arm(arm, "active")


@operation("PATCH", f"{AGENT_PATH}/arms/{{arm}}", "admin", schemas.CHANGE_ARM)
async def change_arm(call: Call, body: schemas.ArmChange) -> schemas.Arm:
    """Pause, resume or permanently retire an arm."""
    agent: Agent = call.agent
    change_state = {"active": agent.resume, "paused": agent.pause, "retired": agent.retire}[
        body.state
    ]

    def apply_change() -> None:
        if all(known_arm.name != call.arm for known_arm in agent.arms()):
            raise RequestError(404, f"arm {call.arm!r} of agent {agent.name!r} does not exist")
        change_state(call.arm)

    await call.state.writer.submit_function(apply_change)
    return schemas.Arm(call.arm, body.state)


@operation("POST", f"{AGENT_PATH}/rewards", "admin", schemas.DECLARE_REWARDS, errors=(409,))
async def declare_rewards(call: Call, body: schemas.Declaration) -> schemas.Result:
    """Declare that all rewards are `bernoulli` (0 or 1) or `bounded` (in [0, 1]).

    The policy stays the same. The result is `declared` or `duplicate`.
    """
    writer = call.state.writer
    return schemas.Result(await writer.submit(call.agent, "declare", body.rewards))


@operation("POST", f"{AGENT_PATH}/erase", "admin", schemas.ERASE)
async def erase(call: Call, body: schemas.Erasure) -> schemas.Erased:
    """Remove a visitor's keys from the store, without changing any number.

    The result is `erased` or `unknown` for each key. This also rewrites the files of the store.
    """
    return schemas.Erased(await call.state.writer.submit_function(lambda: call.agent.erase(body.key)))


@operation("POST", f"{AGENT_PATH}/compact", "admin", schemas.COMPACT)
async def compact(call: Call, body: schemas.Compaction) -> schemas.Compacted:
    """Replace the events before a date by a checkpoint, without changing any number.

    `n_events` is the number of these events. This also rewrites the files of the store.
    """
    agent, before = call.agent, body.before
    n_events = await call.state.writer.submit_function(lambda: agent.compact(before))
    return schemas.Compacted(n_events)


@operation("GET", "/livez", None, schemas.HEALTH)
async def livez(call: Call) -> schemas.Health:
    """Check that the process answers, without using its store."""
    return schemas.Health("ok")


@operation("GET", "/readyz", None, schemas.HEALTH)
async def readyz(call: Call) -> schemas.Health:
    """Check that the service accepts requests and its store is available.

    The status is 503 while the store is unavailable or being migrated, and while the service stops.
    """
    await call.state.readiness.check()
    return schemas.Health("ok")


@operation("GET", "/healthz", None, schemas.HEALTH)
async def healthz(call: Call) -> schemas.Health:
    """Check that the service is ready, as `/readyz` does."""
    await call.state.readiness.check()
    return schemas.Health("ok")


@operation("GET", AGENT_PATH, "read", schemas.REPORT)
async def report(call: Call, query: schemas.ReportQuery) -> schemas.Report | Response:
    """Return the means and confidence sequences of the arms, the regret, and warnings."""
    return _json(await call.state.reports.report(call.agent, query.delta))


@operation("GET", f"{AGENT_PATH}/verdict", "read", schemas.VERDICT)
async def verdict(call: Call, query: schemas.VerdictQuery) -> schemas.Verdict | Response:
    """Return the winner, if there is one, and the loss per pull if you keep the leading arm."""
    return _json(await call.state.reports.verdict(call.agent, query.delta, query.tolerance))


@operation(
    "GET", f"{AGENT_PATH}/events", "read", schemas.EVENTS, errors=(429,), headers=("Last-Event-ID",)
)
async def events(call: Call, query: schemas.EventsQuery) -> schemas.Events | Response:
    """Return the events after a sequence number.

    A client that accepts text/event-stream gets a stream of these events and of all new events.
    """
    if "text/event-stream" in call.request.headers.get("accept", ""):
        last_event_id = call.request.headers.get("last-event-id", "")
        seq = (
            int(last_event_id)
            if last_event_id.isdecimal() and len(last_event_id) < 19
            else query.after
        )
        await call.check_agent()
        return open_stream(call, _stream(call, seq))
    key = call.agent.config.stored, "json", query.after, query.limit
    return _json(await call.state.log.get(key, lambda: _encode_page(call.agent, *key[2:])))


async def _stream(call: Call, seq: int) -> AsyncGenerator[bytes, None]:
    """Yield the events after `seq` as they occur, until the token is revoked or the service stops."""
    state, agent = call.state, call.agent
    yield b"retry: 1000\n\n"
    while not state.changes.stopping.is_set():
        try:
            await state.tokens.authorize("GET", call.headers, "read", agent.name)
            key = agent.config.stored, "stream", seq
            page = await state.log.get(key, functools.partial(_read_chunk, agent, seq))
        except UnknownAgent:
            return
        except StoreUnavailable:
            yield b": the store is unavailable\n\n"
            await asyncio.sleep(RETRY_SECONDS)
            continue
        except RequestError as error:
            if error.status != 503:
                return
            await asyncio.sleep(RETRY_SECONDS)
            continue
        if page.content:
            yield page.content
        seq = page.last_seq
        if page.is_last and not await state.changes.wait(agent.name, seq, KEEPALIVE_SECONDS):
            yield b": keep-alive\n\n"


class Chunk(NamedTuple):
    """Encoded events of a stream; `is_last` says whether the log had no more events."""

    content: bytes
    last_seq: int
    is_last: bool


def _read_chunk(agent: Agent, after: int) -> Chunk:
    page = _read_page(agent, after, CHUNK_SIZE)
    content = b"".join(
        b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), json.encode(event))
        for event in page
    )
    return Chunk(content, page[-1].seq if page else after, len(page) < CHUNK_SIZE)


def _encode_page(agent: Agent, after: int, limit: int) -> bytes:
    page = _read_page(agent, after, limit)
    last_seq = page[-1].seq if page else after
    return json.encode(schemas.Events(page, last_seq, len(page) == limit))


def _read_page(agent: Agent, after: int, limit: int) -> list[schemas.LogEvent]:
    stored = agent.config.stored
    events = agent.store.read(
        lambda database: queries.read_page(database, agent.name, stored, after, limit)
    )
    return [schemas.LogEvent(*event) for event in events]


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


@operation("GET", f"{AGENT_PATH}/export", "read", schemas.EXPORT)
async def export(call: Call, query: schemas.ExportQuery) -> Response:
    """Return the whole log as a file: csv, jsonl (JSON lines) or nc (netCDF)."""
    headers = {"Content-Disposition": f'attachment; filename="log.{query.format}"'}
    media_type, agent = MEDIA_TYPES[query.format], call.agent
    if query.format == "nc":
        key = agent.config.stored, "nc"
        content = await call.state.reports.get(key, lambda: as_netcdf(agent.events()))
        return Response(content, 200, headers, media_type)
    await call.check_agent()
    chunks = (as_csv if query.format == "csv" else as_lines)(agent.events())
    return Stream(_read_chunks(call.state.log, chunks), 200, headers, media_type)


async def _read_chunks(log: Reads, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (chunk := await log.get(object(), lambda: next(chunks, None))) is not None:
        yield chunk


ROUTES = [  # the most frequent requests first, because routes are tried in order
    ask, tell, look, observe, correct, forget, add_arm, change_arm, declare_rewards, erase,
    compact, livez, readyz, healthz, metrics, *agents.ROUTES, report, verdict, events, export,
]  # fmt: skip


def create_app(
    store: str | os.PathLike[str] | Store,
    routes: Sequence[BaseRoute] = (),
    *,
    allow_open: bool = True,
    metrics_token: str | None = None,
    allowed_origins: Sequence[str] = (),
) -> Starlette:
    """Return an ASGI application that serves the agents of a store.

    `routes` are additional routes, such as the routes of the dashboard
    (`kibitz.live.dashboard.routes`). With `allow_open`, a store without tokens needs no token.
    `metrics_token` is a token that gives access to the metrics only. Pages of the `allowed_origins`
    may use the service (CORS).

    The application's state has `store`, `tokens`, `writer`, the threads `log`, `reports` and
    `imports` (see `kibitz.live.service.reads`), `import_turns`, `n_streams` by token, `changes`,
    `metrics`, `readiness`, the open `agents` by name, the dashboard's `feeds` by the name of the
    agent, `open_agent(name)` and the OpenAPI `document`.
    """
    if metrics_token is not None and not re.fullmatch("[!-~]+", metrics_token):
        raise ValueError(  # without the value, which is a secret
            "metrics_token must consist of printable ASCII characters without spaces"
        )
    if isinstance(store, str | os.PathLike):
        store = connect(store, create=False)
    all_routes = [*ROUTES, *routes]
    served_routes = [*all_routes, *openapi.ROUTES]
    paths = {route.endpoint: route.path for route in served_routes if isinstance(route, Route)}
    app = Starlette(
        routes=served_routes,
        middleware=[
            Middleware(RequestMiddleware, routes=paths),
            *allow_origins(allowed_origins),
            Middleware(ErrorMiddleware),
        ],
        exception_handlers={HTTPException: answer_unrouted},
        lifespan=_lifespan,
    )
    app.router.redirect_slashes = False
    app.state.store = store
    app.state.tokens = Tokens(OpeningStore(store.url), allow_open, allowed_origins)
    app.state.metrics_token = metrics_token
    app.state.metrics = Metrics(store)
    app.state.writer = Writer(app.state.metrics)
    app.state.readiness = Readiness(store, app.state.writer)
    app.state.log = Reads("kibitz-log")
    app.state.reports = Reports()
    app.state.imports = Reads("kibitz-imports")
    app.state.import_turns = asyncio.Semaphore(MAX_IMPORTS)
    app.state.n_streams = Counter()
    app.state.changes = Changes(store)
    app.state.agents = {}
    app.state.feeds = {}
    app.state.open_agent = lambda name: _open_agent(app, name)
    app.state.document = openapi.document(all_routes, version("kibitz"))
    return app


def allow_origins(origins: Sequence[str]) -> list[Middleware]:
    """Return the middleware that lets pages of these origins use the service."""
    for origin in origins:
        scheme, host, *_ = urlsplit(origin)
        if scheme not in ("http", "https") or not host or origin != f"{scheme}://{host}":
            raise invalid("allow_origin", "an origin such as https://shop.example", origin)
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST"),
            allow_headers=("Authorization", "Content-Type", "Idempotency-Key", "X-Request-ID"),
            expose_headers=("Retry-After", "X-Request-ID"),
        )
    ]


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    """Run the service; on shutdown, finish all accepted requests."""
    yield
    app.state.changes.stop()
    await app.state.writer.finish()
    app.state.log.stop()
    app.state.reports.stop()
    app.state.imports.stop()
    app.state.tokens.store.close()
    app.state.store.close()


def _open_agent(app: Starlette, name: str) -> Agent:
    try:
        store = app.state.tokens.store  # a connection that no long read uses
        stored_config = store.read(lambda database: queries.read_config(database, name))
    except UnknownAgent:
        raise RequestError(404, f"agent {name!r} does not exist") from None
    try:
        agent = Agent(app.state.store, Config(name, *stored_config))
    except StoreDamaged:
        raise
    except ValueError as error:  # the module of a user's policy cannot be imported
        raise RequestError(503, str(error)) from None
    opened_agent: Agent = app.state.agents.setdefault(name, agent)
    return opened_agent
