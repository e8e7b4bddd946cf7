"""The agents of a store over HTTP: every operation with its types, role and examples.

`http.py` turns each declaration into a route, `openapi.py` into a part of the OpenAPI document.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from importlib.metadata import version
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, json
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
from kibitz.live.agent.report import plain
from kibitz.live.events import Event
from kibitz.live.service import openapi
from kibitz.live.service.auth import Rejected, Tokens
from kibitz.live.service.changes import Changes
from kibitz.live.service.group_commit import Writer
from kibitz.live.service.http import (
    MAX_BATCH,
    RETRY_SECONDS,
    Call,
    Shell,
    no_route,
    operation,
)
from kibitz.live.store import connect, queries
from kibitz.live.store.schema import Store
from kibitz.model.problem import LARGEST

QUIET_SECONDS = 15.0  # after which a stream sends a comment
AGENT = "/v1/agents/{name}"
MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "nc": "application/x-netcdf",
}

# ------------------------------------------------------------------------------ bodies and answers

Text = Annotated[str, Meta(min_length=1, max_length=500, description="Printable characters.")]
Id = Annotated[int, Meta(ge=1, le=2**62 - 1, description="The id of a decision.")]
Reward = Annotated[float, Meta(ge=-LARGEST, le=LARGEST, description="A finite number.")]
Extended = float | Literal["inf", "-inf"] | None  # JSON has no infinite numbers and no NaN


class Ask(Struct, forbid_unknown_fields=True):
    """A question which arm to pull."""

    key: Text | Annotated[list[Text], Meta(max_length=MAX_BATCH)] | None = None
    among: Annotated[list[Text], Meta(min_length=1, max_length=MAX_BATCH)] | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_BATCH)] | None = None


class Look(Struct, forbid_unknown_fields=True):
    """A question where to look."""

    key: Text | None = None


class Tell(Struct, forbid_unknown_fields=True):
    """The reward of a decision."""

    id: Id
    reward: Reward


class Saw(Struct, forbid_unknown_fields=True):
    """An observation that nobody asked for."""

    arm: Text
    reward: Reward
    key: Text | None = None


class Forget(Struct, forbid_unknown_fields=True):
    """A decision to give up."""

    id: Id


class NewArm(Struct, forbid_unknown_fields=True):
    """An arm to add."""

    arm: Text


class ArmState(Struct, forbid_unknown_fields=True):
    """Whether an arm plays."""

    state: Literal["active", "paused", "retired"]


class Arm(Struct):
    """An arm, and whether it plays."""

    arm: str
    state: Literal["active", "paused", "retired"]


class Decision(Struct):
    """Which arm to pull, or where to look."""

    id: int
    kind: Literal["pull", "look"]
    arm: str
    key: str | None
    asked_at: float


class Result(Struct):
    """What a report did."""

    result: Literal["counted", "corrected", "forgotten", "again"]


class Health(Struct):
    """The service takes requests and its store can be used."""

    status: Literal["ok"]


class Agents(Struct):
    """The names of the agents."""

    agents: list[str]


class ArmReport(Struct):
    """What is known of an arm."""

    arm: str
    status: Literal["active", "paused", "retired"]
    n_asked: int
    n_pulls: int
    n_pending: int
    n_forgotten: int
    n_looks: int
    oldest: float | None
    mean: float | None
    low: Extended
    high: Extended
    best: float


class Report(Struct):
    """What is known of an agent."""

    agent: str
    policy: str
    scale: float
    n_asks: int
    delta: float
    inequality: str
    regret_low: Extended
    regret_high: Extended
    looks_saved: Extended
    warnings: list[str]
    arms: list[ArmReport]


class LogEvent(Struct):
    """A line of the log."""

    seq: int
    at: float
    kind: str
    id: int | None
    arm: str
    reward: float | None
    key: str | None


class Events(Struct):
    """A part of the log, its last number, and whether there is more."""

    events: list[LogEvent]
    last: int
    more: bool


class ReportQuery(Struct):
    """How sure the report is to be."""

    delta: float = 0.05


class EventsQuery(Struct):
    """Which part of the log."""

    after: Annotated[int, Meta(ge=0, le=2**62 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=queries.PAGE)] = MAX_BATCH


class ExportQuery(Struct):
    """How to write the log."""

    format: Literal["csv", "jsonl", "nc"] = "csv"


DECISION = {"id": 1, "kind": "pull", "arm": "blue", "key": "visit-4711", "asked_at": 1790000000.0}
LOOKED = {**DECISION, "id": 2, "kind": "look", "key": "probe-1"}
EVENT = {
    "seq": 3, "at": 1790000000.0, "kind": "pull", "id": 1, "arm": "blue", "reward": None,
    "key": "visit-4711",
}  # fmt: skip
ARM_REPORT = {
    "arm": "blue", "status": "active", "n_asked": 1, "n_pulls": 1, "n_pending": 0, "n_forgotten": 0,
    "n_looks": 0, "oldest": None, "mean": 1.0, "low": -3.83, "high": 5.83, "best": 1.0,
}  # fmt: skip
REPORT = {
    "agent": "checkout", "policy": "ucb(exploration=6.0, ignore_free=False)", "scale": 0.5,
    "n_asks": 1, "delta": 0.05, "inequality": "|mean - mu| < ...", "regret_low": 0.0,
    "regret_high": "inf", "looks_saved": None, "warnings": [], "arms": [ARM_REPORT],
}  # fmt: skip
STREAM = 'id: 3\nevent: pull\ndata: {"seq": 3, "kind": "pull", ...}\n\n'
TABLE = "seq,at,kind,id,arm,reward,key\n1,1790000000.0,added,,blue,,\n"


def _json(example: Any) -> dict[str, Any]:
    return {"application/json": example}


KEYED = ("Idempotency-Key",)

# ----------------------------------------------------------------------------------------- playing


@operation(
    "POST", f"{AGENT}/ask", "play", conflicts=True, headers=KEYED, examples=_json(DECISION),
    request={"key": "visit-4711", "among": ["blue", "green"]},
)  # fmt: skip
async def ask(call: Call, body: Ask) -> Decision | list[Decision]:
    """Ask which arm to pull; with `n`, many at once. The same key gets the same decision."""
    decided = await call.state.writer.do(call.agent, "ask", call.key(body.key), body.among, body.n)
    return Decision(*decided) if body.n is None else [Decision(*one) for one in decided]


@operation(
    "POST", f"{AGENT}/tell", "play", conflicts=True, examples=_json({"result": "counted"}),
    request={"id": 1, "reward": 1.0},
)  # fmt: skip
async def tell(
    call: Call, body: Tell | Annotated[list[Tell], Meta(max_length=MAX_BATCH)]
) -> Result | list[Result]:
    """Report what came of a decision: counted, or again. Of a list, all are told or none."""
    if not isinstance(body, list):
        return Result(await call.state.writer.do(call.agent, "tell", body.id, body.reward))
    pairs = [(one.id, one.reward) for one in body]
    results = await call.state.writer.alone(lambda: call.agent.tell(pairs)) if pairs else []
    return [Result(result) for result in results]


@operation(
    "POST", f"{AGENT}/look", "play", conflicts=True, headers=KEYED, examples=_json(LOOKED),
    request={"key": "probe-1"},
)  # fmt: skip
async def look(call: Call, body: Look) -> Decision:
    """Ask where the next free look should go. The same key gets the same decision."""
    return Decision(*await call.state.writer.do(call.agent, "look", call.key(body.key)))


@operation(
    "POST", f"{AGENT}/saw", "play", conflicts=True, headers=KEYED,
    examples=_json({"result": "counted"}), request={"arm": "green", "reward": 1.0, "key": "panel-17"},
)  # fmt: skip
async def saw(call: Call, body: Saw) -> Result:
    """Report an observation that nobody asked for: counted, or again by its key."""
    key = call.key(body.key)
    return Result(await call.state.writer.do(call.agent, "saw", body.arm, body.reward, key))


@operation(
    "POST", f"{AGENT}/correct", "play", conflicts=True, examples=_json({"result": "corrected"}),
    request={"id": 1, "reward": 0.0},
)  # fmt: skip
async def correct(call: Call, body: Tell) -> Result:
    """Change a report: corrected, or again."""
    return Result(await call.state.writer.do(call.agent, "correct", body.id, body.reward))


@operation(
    "POST", f"{AGENT}/forget", "play", conflicts=True, examples=_json({"result": "forgotten"}),
    request={"id": 2},
)  # fmt: skip
async def forget(call: Call, body: Forget) -> Result:
    """Give up on a decision: forgotten, or again. A late report still counts."""
    return Result(await call.state.writer.do(call.agent, "forget", body.id))


@operation(
    "POST", f"{AGENT}/arms", "admin", status=201, conflicts=True,
    examples=_json({"arm": "red", "state": "active"}), request={"arm": "red"},
)  # fmt: skip
async def add_arm(call: Call, body: NewArm) -> Arm:
    """Add an arm."""
    arm = text(body.arm, "arm")

    def add() -> None:
        if any(known.name == arm for known in call.agent.arms()):
            raise Rejected(409, f"arm must be new, got {arm!r}")
        call.agent.add(arm)

    await call.state.writer.alone(add)
    return Arm(arm, "active")


@operation(
    "PATCH", f"{AGENT}/arms/{{arm}}", "admin", examples=_json({"arm": "red", "state": "paused"}),
    request={"state": "paused"},
)  # fmt: skip
async def change_arm(call: Call, body: ArmState) -> Arm:
    """Pause an arm, let it play again, or retire it for good."""
    agent: Agent = call.agent
    change = {"active": agent.resume, "paused": agent.pause, "retired": agent.retire}[body.state]

    def work() -> None:
        if all(known.name != call.arm for known in agent.arms()):
            raise Rejected(404, f"arm must be one of agent {agent.name!r}, got {call.arm!r}")
        change(call.arm)

    await call.state.writer.alone(work)
    return Arm(call.arm, body.state)


# ----------------------------------------------------------------------------------------- reading


@operation("GET", "/healthz", None, examples=_json({"status": "ok"}))
async def healthz(call: Call) -> Health:
    """Say whether the service takes requests and its store can be used."""
    if call.state.writer.stopping:
        raise Rejected(503, "the service is being stopped")
    await asyncio.to_thread(call.state.store.read, queries.count_events)
    return Health("ok")


@operation("GET", "/v1/agents", "read", examples=_json({"agents": ["checkout"]}))
async def agents(call: Call) -> Agents:
    """List the names of the agents."""
    names = await asyncio.to_thread(call.state.store.read, queries.read_names)
    return Agents([name for name in names if call.access.agent in (None, name)])


@operation("GET", AGENT, "read", examples=_json(REPORT))
async def report(call: Call, query: ReportQuery) -> Report:
    """Report what is known of each arm, with confidence sequences, and warnings."""
    data = await asyncio.to_thread(call.agent.report, query.delta)
    return plain(data)  # type: ignore[return-value]  # the same fields, as a dict


@operation(
    "GET", f"{AGENT}/events", "read", headers=("Last-Event-ID",),
    examples={
        "application/json": {"events": [EVENT], "last": 3, "more": False},
        "text/event-stream": STREAM,
    },
)  # fmt: skip
async def events(call: Call, query: EventsQuery) -> Events | Response:
    """Return the log after a sequence number; as a stream for who accepts text/event-stream."""
    if "text/event-stream" in call.request.headers.get("accept", ""):
        last = call.request.headers.get("last-event-id", "")
        seq = int(last) if last.isdecimal() and len(last) < 19 else query.after
        headers = {"X-Accel-Buffering": "no"}  # a proxy must not buffer them
        return StreamingResponse(_stream(call, seq), 200, headers, "text/event-stream")
    found = await asyncio.to_thread(_page, call.agent, query.after, query.limit)
    last_seq = found[-1].seq if found else query.after
    return Events([LogEvent(*event) for event in found], last_seq, len(found) == query.limit)


async def _stream(call: Call, seq: int) -> AsyncIterator[str]:
    """Yield the log as it grows, until the token is revoked or the service stops."""
    state, agent = call.state, call.agent
    yield "retry: 1000\n\n"
    while not state.changes.stopping.is_set():
        try:
            await state.tokens.authorize("GET", call.headers, "read", agent.name)
            found = await asyncio.to_thread(_page, agent, seq, queries.PAGE)
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
        if len(found) < queries.PAGE and not await state.changes.wait(agent.name, seq, QUIET_SECONDS):
            yield ": still here\n\n"


def _page(agent: Agent, after: int, limit: int) -> list[Event]:
    return agent.store.read(lambda database: queries.read_page(database, agent.name, after, limit))


@operation(
    "GET", f"{AGENT}/export", "read",
    examples={
        "text/csv": TABLE, "application/x-ndjson": json.encode(EVENT).decode() + "\n",
        "application/x-netcdf": None,
    },
)  # fmt: skip
async def export(call: Call, query: ExportQuery) -> Response:
    """Return the whole log as a file: csv, jsonl (JSON lines) or nc (netCDF)."""
    headers = {"Content-Disposition": f'attachment; filename="log.{query.format}"'}
    media = MEDIA[query.format]
    if query.format == "nc":
        content = await asyncio.to_thread(as_netcdf, call.agent.events())
        return Response(content, 200, headers, media)
    lines = (as_csv if query.format == "csv" else as_lines)(call.agent.events())
    return StreamingResponse(lines, 200, headers, media)


# ------------------------------------------------------------------------------------- application

ROUTES = [  # those that are asked for most often come first
    ask, tell, look, saw, correct, forget, add_arm, change_arm, healthz, agents, report, events,
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
        agent = Agent(app.state.store, Config.load(name, stored))
    except ValueError as error:  # a policy of the user's that this machine does not have
        raise Rejected(503, str(error)) from None
    opened: Agent = app.state.agents.setdefault(name, agent)
    return opened
