"""What changes an agent, over HTTP: ask, look, tell, saw, forget, correct, and its arms.

These requests are answered in front of the framework, which would take longer over each than the
agent does. Each function gets the agent and what was sent, and returns what is answered once that is
committed.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

from kibitz._validation import one_of, refused, text
from kibitz.live.access import Headers, admitted, found
from kibitz.live.agent import Agent
from kibitz.live.answers import Refused, answer
from kibitz.live.body import fields, key_of, read
from kibitz.live.writer import Writer

MOST_AT_ONCE = 1_000  # decisions or reports in one request
STATES = ("active", "paused", "retired")


class Call(NamedTuple):
    """A request that was let in."""

    agent: Agent
    writer: Writer
    headers: Headers
    content: Any  # the body
    arm: str | None  # in the address


async def ask(call: Call) -> Any:
    """Ask which arm to pull; with `n`, many at once. The same key gets the same decision."""
    body = fields(call.content, "key", "among", "n")
    n = body.get("n")
    if isinstance(n, int) and n > MOST_AT_ONCE:
        raise refused("n", f"a whole number of at most {MOST_AT_ONCE}", n)
    values = (key_of(call.headers, body), body.get("among"), n)
    decided = await call.writer.do(call.agent, ("ask", values))
    return decided._asdict() if n is None else [decision._asdict() for decision in decided]


async def look(call: Call) -> Any:
    """Ask where the next free look should go. The same key gets the same decision."""
    body = fields(call.content, "key")
    decided = await call.writer.do(call.agent, ("look", (key_of(call.headers, body),)))
    return decided._asdict()


async def tell(call: Call) -> Any:
    """Report what came of a decision: counted, or again. Of a list, all are told or none."""
    if not isinstance(call.content, list):
        return {"result": await call.writer.do(call.agent, report(call.content))}
    if len(call.content) > MOST_AT_ONCE:
        raise Refused(413, f"body must be a list of at most {MOST_AT_ONCE} reports")
    reports = [report(one) for one in call.content]
    if not reports:
        return []
    results = await call.writer.alone(lambda: call.agent.together(reports))
    return [{"result": result} for result in results]


def report(content: Any) -> tuple[str, tuple[Any, Any]]:
    """Return a report as an operation."""
    body = fields(content, "id", "reward")
    return "tell", (body.get("id"), body.get("reward"))


async def saw(call: Call) -> Any:
    """Report an observation that nobody asked for: counted, or again by its key."""
    body = fields(call.content, "arm", "reward", "key")
    values = (body.get("arm"), body.get("reward"), key_of(call.headers, body))
    return {"result": await call.writer.do(call.agent, ("saw", values))}


async def forget(call: Call) -> Any:
    """Give up on a decision: forgotten, or again. A late report still counts."""
    body = fields(call.content, "id")
    return {"result": await call.writer.do(call.agent, ("forget", (body.get("id"),)))}


async def correct(call: Call) -> Any:
    """Change a report: corrected, or again."""
    body = fields(call.content, "id", "reward")
    values = (body.get("id"), body.get("reward"))
    return {"result": await call.writer.do(call.agent, ("correct", values))}


async def add_arm(call: Call) -> Any:
    """Add an arm."""
    arm = text(fields(call.content, "arm").get("arm"), "arm")

    def add() -> None:
        if any(known.name == arm for known in call.agent.arms()):
            raise Refused(409, f"arm must be new, got {arm!r}")
        call.agent.add(arm)

    await call.writer.alone(add)
    return {"arm": arm, "state": "active"}


async def change_arm(call: Call) -> Any:
    """Pause an arm, let it play again, or retire it for ever."""
    agent, arm = call.agent, call.arm
    assert arm is not None
    state = one_of(fields(call.content, "state").get("state"), "state", STATES)
    changed = {"active": agent.resume, "paused": agent.pause, "retired": agent.retire}[state]

    def change() -> None:
        if all(known.name != arm for known in agent.arms()):
            raise Refused(404, f"arm must be one of agent {agent.name!r}, got {arm!r}")
        changed(arm)

    await call.writer.alone(change)
    return {"arm": arm, "state": state}


class Address(NamedTuple):
    """Where something is played: how, by whom, and who answers."""

    method: str
    role: str
    answered: Callable[[Call], Awaitable[Any]]
    arm: bool = False  # whether the address names one


PLAYED = {  # by the last word of the address below that of the agent
    "ask": Address("POST", "play", ask),
    "look": Address("POST", "play", look),
    "tell": Address("POST", "play", tell),
    "saw": Address("POST", "play", saw),
    "forget": Address("POST", "play", forget),
    "correct": Address("POST", "play", correct),
    "arms": Address("POST", "admin", add_arm),
    "arms/": Address("PATCH", "admin", change_arm, arm=True),
}


class Playing:
    """Answers what is played, and leaves the rest to the application behind it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        parts = scope["raw_path"].split(b"/") if scope["type"] == "http" else []
        if not (5 <= len(parts) <= 6 and parts[1:3] == [b"v1", b"agents"]):
            return await self.app(scope, receive, send)
        address = PLAYED.get(parts[4].decode("latin-1") + ("/" if len(parts) == 6 else ""))
        if address is None:
            return await self.app(scope, receive, send)
        content = await self._answered(address, parts, scope, receive)
        await answer(content, 201 if address.answered is add_arm else 200)(scope, receive, send)

    async def _answered(
        self, address: Address, parts: list[bytes], scope: Scope, receive: Receive
    ) -> Any:
        state = scope["app"].state
        if scope["method"] != address.method:
            raise Refused(405, f"method must be {address.method}, got {scope['method']}")
        headers = dict(scope["headers"])
        name = part_of(parts[3])
        await admitted(state.tokens, scope["method"], headers, address.role, name)
        agent = await found(state, name)
        content = await read(headers, receive)
        arm = part_of(parts[5]) if address.arm else None
        return await address.answered(Call(agent, state.writer, headers, content, arm))


def part_of(raw: bytes) -> str:
    """Return a part of an address as it is meant."""
    return (unquote_to_bytes(raw) if b"%" in raw else raw).decode("utf-8", "replace")
