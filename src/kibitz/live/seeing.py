"""What shows an agent, over HTTP: the report, the log and its events as they come, the export."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from kibitz._validation import one_of, whole
from kibitz.live.access import allowed, checked, named
from kibitz.live.agent import Agent, names
from kibitz.live.answers import RETRY_SECONDS, Refused, answer
from kibitz.live.export import as_csv, as_lines, as_netcdf
from kibitz.live.projection import Event
from kibitz.live.reading import PAGE, read_events
from kibitz.live.report import plain
from kibitz.live.store import Unavailable
from kibitz.live.tokens import Access

Read = Annotated[Access, Depends(allowed("read"))]
Named = Annotated[Agent, Depends(named)]

QUIET = 15.0  # seconds after which a stream says that it is still there
KINDS = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "nc": "application/x-netcdf",
}


async def healthz(request: Request) -> Response:
    """Say whether the service takes requests and its store can be used."""
    if request.app.state.writer.stopping:
        raise Refused(503, "the service is being stopped")
    await run_in_threadpool(request.app.state.store.read, lambda database: database.rows("select 1"))
    return answer({"status": "ok"})


async def agents(request: Request, access: Read) -> Response:
    """List the names of the agents."""
    found = await run_in_threadpool(names, request.app.state.store)
    return answer({"agents": [name for name in found if access.agent in (None, name)]})


async def report(access: Read, agent: Named, delta: float = 0.05) -> Response:
    """Report what is known of each arm, with intervals that hold at all times, and warnings."""
    return answer(await run_in_threadpool(lambda: plain(agent.report(delta))))


async def events(
    request: Request, access: Read, agent: Named, after: int = 0, limit: int = 1000
) -> Response:
    """Return the log after a sequence number; as a stream for who accepts text/event-stream."""
    if "text/event-stream" in request.headers.get("accept", ""):
        last = request.headers.get("last-event-id", "")
        seq = whole(int(last) if last.isdecimal() and len(last) < 19 else after, "after")
        headers = {"X-Accel-Buffering": "no"}  # a proxy must not keep them back
        return StreamingResponse(stream(request, agent, seq), 200, headers, "text/event-stream")
    seq, most = whole(after, "after"), whole(limit, "limit", 1, PAGE)
    found = await run_in_threadpool(page, agent, seq, most)
    return answer(
        {
            "events": [event._asdict() for event in found],
            "last": found[-1].seq if found else seq,
            "more": len(found) == most,
        }
    )


async def stream(request: Request, agent: Agent, seq: int) -> AsyncIterator[str]:
    """Yield the log as it grows, until the token is revoked or the service stops."""
    pulse = request.app.state.pulse
    yield "retry: 1000\n\n"
    while not pulse.stopping.is_set():
        try:
            await checked(request, "read")
            found = await run_in_threadpool(page, agent, seq, PAGE)
        except Refused:
            return
        except Unavailable:
            yield ": the store cannot be used at the moment\n\n"
            await asyncio.sleep(RETRY_SECONDS)
            continue
        for event in found:
            yield f"id: {event.seq}\nevent: {event.kind}\ndata: {json.dumps(event._asdict())}\n\n"
        seq = found[-1].seq if found else seq
        if len(found) < PAGE and not await pulse.beyond(agent.name, seq, QUIET):
            yield ": still here\n\n"


def page(agent: Agent, after: int, most: int) -> list[Event]:
    """Return some events of the log."""
    return agent.store.read(
        lambda database: read_events(database, agent._number(database), after, most)
    )


async def export(access: Read, agent: Named, format: str = "csv") -> Response:
    """Return the whole log as a file: csv, jsonl (JSON lines) or nc (netCDF)."""
    kind = KINDS[one_of(format, "format", tuple(KINDS))]
    headers = {"Content-Disposition": f'attachment; filename="log.{format}"'}
    if format == "nc":
        content = await run_in_threadpool(lambda: as_netcdf(agent.events()))
        return Response(content, 200, headers, kind)
    lines = (as_csv if format == "csv" else as_lines)(agent.events())
    return StreamingResponse(lines, 200, headers, kind)
