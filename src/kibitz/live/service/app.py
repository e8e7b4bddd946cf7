"""The agents of a store over HTTP: every operation with its types, role and example.

`http.py` turns each declaration into a route, `openapi.py` into a part of the OpenAPI document.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from importlib.metadata import version

from msgspec import json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute

from kibitz._errors import StoreUnavailable, UnknownAgent
from kibitz._validation import text
from kibitz.live.agent.agent import Agent
from kibitz.live.agent.config import Config
from kibitz.live.agent.export import as_csv, as_lines, as_netcdf
from kibitz.live.agent.report import to_plain
from kibitz.live.events import Event
from kibitz.live.service import openapi, schemas
from kibitz.live.service.auth import Rejected, Tokens
from kibitz.live.service.changes import Changes
from kibitz.live.service.group_commit import Writer
from kibitz.live.service.http import RETRY_SECONDS, Call, Shell, no_route, operation
from kibitz.live.store import connect, queries
from kibitz.live.store.schema import Store

QUIET_SECONDS = 15.0  # after which a stream sends a comment
AGENT = "/v1/agents/{name}"
KEYED = ("Idempotency-Key",)
MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "nc": "application/x-netcdf",
}


@operation("POST", f"{AGENT}/ask", "play", schemas.ASK, errors=(409,), headers=KEYED)
async def ask(call: Call, body: schemas.Ask) -> schemas.Decision | list[schemas.Decision]:
    """Ask which arm to pull; with `n`, many at once. The same key gets the same decision."""
    decided = await call.state.writer.do(call.agent, "ask", call.key(body.key), body.among, body.n)
    return (
        schemas.Decision(*decided) if body.n is None else [schemas.Decision(*one) for one in decided]
    )


@operation("POST", f"{AGENT}/tell", "play", schemas.TELL, errors=(409,))
async def tell(
    call: Call, body: schemas.Tell | schemas.Tells
) -> schemas.Result | list[schemas.Result]:
    """Report what came of a decision: counted, or again. Of a list, all are told or none."""
    if not isinstance(body, list):
        return schemas.Result(await call.state.writer.do(call.agent, "tell", body.id, body.reward))
    pairs = [(one.id, one.reward) for one in body]
    results = await call.state.writer.alone(lambda: call.agent.tell(pairs)) if pairs else []
    return [schemas.Result(result) for result in results]


@operation("POST", f"{AGENT}/look", "play", schemas.LOOK, errors=(409,), headers=KEYED)
async def look(call: Call, body: schemas.Look) -> schemas.Decision:
    """Ask where the next free look should go. The same key gets the same decision."""
    return schemas.Decision(*await call.state.writer.do(call.agent, "look", call.key(body.key)))


@operation("POST", f"{AGENT}/observe", "play", schemas.OBSERVE, errors=(409,), headers=KEYED)
async def observe(call: Call, body: schemas.Observe) -> schemas.Result:
    """Report an observation that nobody asked for: counted, or duplicate by its key."""
    key = call.key(body.key)
    return schemas.Result(
        await call.state.writer.do(call.agent, "observe", body.arm, body.reward, key)
    )


@operation("POST", f"{AGENT}/correct", "play", schemas.CORRECT, errors=(409,))
async def correct(call: Call, body: schemas.Tell) -> schemas.Result:
    """Change a report: corrected, or again."""
    return schemas.Result(await call.state.writer.do(call.agent, "correct", body.id, body.reward))


@operation("POST", f"{AGENT}/forget", "play", schemas.FORGET, errors=(409,))
async def forget(call: Call, body: schemas.Forget) -> schemas.Result:
    """Give up on a decision: forgotten, or again. A late report still counts."""
    return schemas.Result(await call.state.writer.do(call.agent, "forget", body.id))


@operation("POST", f"{AGENT}/arms", "admin", schemas.ADD_ARM, errors=(409,), status=201)
async def add_arm(call: Call, body: schemas.NewArm) -> schemas.Arm:
    """Add an arm."""
    arm = text(body.arm, "arm")

    def add() -> None:
        if any(known.name == arm for known in call.agent.arms()):
            raise Rejected(409, f"arm must be new, got {arm!r}")
        call.agent.add(arm)

    await call.state.writer.alone(add)
    return schemas.Arm(arm, "active")


@operation("PATCH", f"{AGENT}/arms/{{arm}}", "admin", schemas.CHANGE_ARM)
async def change_arm(call: Call, body: schemas.ArmChange) -> schemas.Arm:
    """Pause an arm, let it play again, or retire it for good."""
    agent: Agent = call.agent
    change = {"active": agent.resume, "paused": agent.pause, "retired": agent.retire}[body.state]

    def work() -> None:
        if all(known.name != call.arm for known in agent.arms()):
            raise Rejected(404, f"arm must be one of agent {agent.name!r}, got {call.arm!r}")
        change(call.arm)

    await call.state.writer.alone(work)
    return schemas.Arm(call.arm, body.state)


@operation("GET", "/healthz", None, schemas.HEALTH)
async def healthz(call: Call) -> schemas.Health:
    """Say whether the service takes requests and its store can be used."""
    if call.state.writer.stopping:
        raise Rejected(503, "the service is being stopped")
    await asyncio.to_thread(call.state.store.read, queries.count_events)
    return schemas.Health("ok")


@operation("GET", "/v1/agents", "read", schemas.AGENTS)
async def agents(call: Call) -> schemas.Agents:
    """List the names of the agents."""
    names = await asyncio.to_thread(call.state.store.read, queries.read_names)
    return schemas.Agents([name for name in names if call.access.agent in (None, name)])


@operation("GET", AGENT, "read", schemas.REPORT)
async def report(call: Call, query: schemas.ReportQuery) -> schemas.Report:
    """Report what is known of each arm, with confidence sequences, and warnings."""
    data = await asyncio.to_thread(call.agent.report, query.delta)
    return to_plain(data)  # type: ignore[return-value]  # the same fields, as a dict


@operation("GET", f"{AGENT}/events", "read", schemas.EVENTS, headers=("Last-Event-ID",))
async def events(call: Call, query: schemas.EventsQuery) -> schemas.Events | Response:
    """Return the log after a sequence number; as a stream for who accepts text/event-stream."""
    if "text/event-stream" in call.request.headers.get("accept", ""):
        last = call.request.headers.get("last-event-id", "")
        seq = int(last) if last.isdecimal() and len(last) < 19 else query.after
        headers = {"X-Accel-Buffering": "no"}  # a proxy must not buffer them
        return StreamingResponse(_stream(call, seq), 200, headers, "text/event-stream")
    found = await asyncio.to_thread(_page, call.agent, query.after, query.limit)
    last_seq = found[-1].seq if found else query.after
    return schemas.Events(
        [schemas.LogEvent(*event) for event in found], last_seq, len(found) == query.limit
    )


async def _stream(call: Call, seq: int) -> AsyncIterator[str]:
    """Yield the log as it grows, until the token is revoked or the service stops."""
    state, agent = call.state, call.agent
    yield "retry: 1000\n\n"
    while not state.changes.stopping.is_set():
        try:
            await state.tokens.authorize("GET", call.headers, "read", agent.name)
            found = await asyncio.to_thread(_page, agent, seq, queries.PAGE_SIZE)
        except Rejected:
            return
        except StoreUnavailable:
            yield ": the store cannot be used at the moment\n\n"
            await asyncio.sleep(RETRY_SECONDS)
            continue
        for event in found:
            data = json.encode(event._asdict()).decode()
            yield f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n"
        seq = found[-1].seq if found else seq
        if len(found) < queries.PAGE_SIZE and not await state.changes.wait(
            agent.name, seq, QUIET_SECONDS
        ):
            yield ": still here\n\n"


def _page(agent: Agent, after: int, limit: int) -> list[Event]:
    return agent.store.read(lambda database: queries.read_page(database, agent.name, after, limit))


@operation("GET", f"{AGENT}/export", "read", schemas.EXPORT)
async def export(call: Call, query: schemas.ExportQuery) -> Response:
    """Return the whole log as a file: csv, jsonl (JSON lines) or nc (netCDF)."""
    headers = {"Content-Disposition": f'attachment; filename="log.{query.format}"'}
    media = MEDIA[query.format]
    if query.format == "nc":
        content = await asyncio.to_thread(as_netcdf, call.agent.events())
        return Response(content, 200, headers, media)
    lines = (as_csv if query.format == "csv" else as_lines)(call.agent.events())
    return StreamingResponse(lines, 200, headers, media)


ROUTES = [  # those that are asked for most often come first
    ask, tell, look, observe, correct, forget, add_arm, change_arm, healthz, agents, report, events,
    export,
]  # fmt: skip


def create_app(store: str | os.PathLike[str] | Store, routes: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the service of the agents of a store, as an ASGI application.

    `routes` are added to it, such as those of `kibitz.live.dashboard.routes`. Its state has the
    `store`, the `tokens`, the `writer`, the `changes`, the open `agents` and the `watched` ones by
    name, `open_agent(name)` and the OpenAPI `document`.
    """
    if isinstance(store, str | os.PathLike):
        store = connect(store, create=False)
    all_routes = [*ROUTES, *routes]
    app = Starlette(
        routes=[*all_routes, *openapi.ROUTES],
        middleware=[Middleware(Shell)],
        exception_handlers={HTTPException: no_route},
        lifespan=_lifespan,
    )
    app.router.redirect_slashes = False
    app.state.store = store
    app.state.tokens = Tokens(store)
    app.state.writer = Writer()
    app.state.changes = Changes(store)
    app.state.agents = {}
    app.state.watched = {}
    app.state.open_agent = lambda name: _open_agent(app, name)
    app.state.document = openapi.document(all_routes, version("kibitz"))
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    """Run the service; at the end finish what was accepted."""
    yield
    app.state.changes.stop()
    await app.state.writer.finish()
    app.state.store.close()


def _open_agent(app: Starlette, name: str) -> Agent:
    try:
        stored = app.state.store.read(lambda database: queries.read_config(database, name))
    except UnknownAgent:
        raise Rejected(404, f"agent must be one of the service's, got {name!r}") from None
    try:
        agent = Agent(app.state.store, Config(name, stored))
    except ValueError as error:  # a policy of the user's that this machine does not have
        raise Rejected(503, str(error)) from None
    opened: Agent = app.state.agents.setdefault(name, agent)
    return opened
