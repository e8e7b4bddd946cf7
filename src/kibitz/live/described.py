"""What OpenAPI says of each address: what it takes and answers, with an example that a test tries."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from kibitz.live.playing import PLAYED

ABOUT = """\
Agents that decide which arm to pull, and are told what it paid.

Every answer means: it is committed. A request that got no answer, or 503, may be sent again with the
same `Idempotency-Key`, and counts once. Every refusal has the shape
`{"error": {"code": "...", "message": "..."}}`: 401 without a token, 403 with a lesser one, 404 for
what is unknown, 409 for what contradicts what was said before, 413 for what is too large, 422 for bad
values, 503 with `Retry-After` when there is too much to do or the service is being stopped.

A token comes as `Authorization: Bearer <token>`. Its role is `read`, `play` or `admin`, and each may
do what those before it may.
"""
DECISION = {"id": 1, "kind": "pull", "arm": "blue", "key": "visit-4711", "asked_at": 1790000000.0}
EVENT = {
    "seq": 3, "at": 1790000000.0, "kind": "pull", "id": 1, "arm": "blue", "reward": None,
    "key": "visit-4711",
}  # fmt: skip
ARM = {
    "arm": "blue", "status": "active", "n_asked": 1, "n_pulls": 1, "n_pending": 0, "n_forgotten": 0,
    "n_looks": 0, "oldest": None, "mean": 1.0, "low": -3.83, "high": 5.83, "best": 1.0,
}  # fmt: skip
REPORT = {
    "agent": "checkout", "policy": "ucb(exploration=6.0, ignore_free=False)", "scale": 0.5,
    "n_asks": 1, "delta": 0.05, "inequality": "|mean - mu| < ...", "regret_low": 0.0,
    "regret_high": "inf", "looks_saved": None, "warnings": [], "arms": [ARM],
}  # fmt: skip
EVENTS = {"events": [EVENT], "last": 3, "more": False}
STREAM = "id: 3\nevent: pull\ndata: {...}\n\n"
TABLE = "seq,at,kind,id,arm,reward,key\n1,1790000000.0,added,,blue,,\n"
ANSWERS: dict[str, dict[str, Any]] = {  # by function that shows something: examples by media type
    "healthz": {"application/json": {"status": "ok"}},
    "agents": {"application/json": {"agents": ["checkout"]}},
    "report": {"application/json": REPORT},
    "events": {"application/json": EVENTS, "text/event-stream": STREAM},
    "export": {"text/csv": TABLE},
}
PLAYS: dict[str, tuple[Any, Any]] = {  # what is sent and what is answered, by the end of the address
    "ask": ({"key": "visit-4711", "among": ["blue", "green"]}, DECISION),
    "look": ({"key": "probe-1"}, {**DECISION, "id": 2, "kind": "look", "key": "probe-1"}),
    "tell": ({"id": 1, "reward": 1.0}, {"result": "counted"}),
    "saw": ({"arm": "green", "reward": 1.0, "key": "panel-17"}, {"result": "counted"}),
    "correct": ({"id": 1, "reward": 0.0}, {"result": "corrected"}),
    "forget": ({"id": 2}, {"result": "forgotten"}),
    "arms": ({"arm": "red"}, {"arm": "red", "state": "active"}),
    "arms/": ({"state": "paused"}, {"arm": "red", "state": "paused"}),
}


def parameter(name: str, where: str, example: str, description: str) -> dict[str, Any]:
    """Return what OpenAPI says of something in an address or a header."""
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "schema": {"type": "string"},
        "example": example,
        "description": description,
    }


NAME = parameter("name", "path", "checkout", "The agent.")
RED = parameter("arm", "path", "red", "The arm.")
KEY = parameter(
    "Idempotency-Key",
    "header",
    "visit-4711",
    "The same key gets the same answer, also after a crash.",
)


def shown(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what FastAPI is told of a function that shows something."""
    name, sentence = function.__name__, function.__doc__ or ""
    return {
        "summary": sentence.partition(".")[0],
        "description": sentence + ("" if name == "healthz" else " Role: `read`."),
        "operation_id": name,
        "response_description": "What is known.",
        "openapi_extra": {"security": [] if name == "healthz" else [{"token": []}]},
    }


def played() -> dict[str, Any]:
    """Return what OpenAPI says of the addresses where something is played."""
    paths: dict[str, Any] = {}
    for end, address in PLAYED.items():
        sent, answered = PLAYS[end]
        sentence = address.answered.__doc__ or ""
        found = {
            "summary": sentence.partition(".")[0],
            "description": f"{sentence} Role: `{address.role}`.",
            "operationId": address.answered.__name__,
            "security": [{"token": []}],
            "parameters": [NAME, *([RED] if address.arm else []), *([KEY] if "key" in sent else [])],
            "requestBody": {"content": _content({"application/json": sent})},
            "responses": {
                "201" if end == "arms" else "200": {
                    "description": "Done, and committed.",
                    "content": _content({"application/json": answered}),
                }
            },
        }
        path = f"/v1/agents/{{name}}/{end}{'{arm}' if address.arm else ''}"
        paths[path] = {address.method.lower(): found}
    return paths


def openapi(made: FastAPI) -> dict[str, Any]:
    """Return the description of the whole service."""
    if made.openapi_schema is None:
        found = get_openapi(
            title=made.title, version=made.version, description=ABOUT, routes=made.routes
        )
        for item in found["paths"].values():  # here, since FastAPI leaves out what is null
            for said in item.values():
                examples = ANSWERS.get(said["operationId"])
                if examples is not None:
                    said["responses"]["200"]["content"] = _content(examples)
        found["paths"] |= played()
        parts = found.setdefault("components", {})
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made.openapi_schema = found
    return made.openapi_schema


def _content(examples: dict[str, Any]) -> dict[str, Any]:
    return {
        kind: {"schema": schema(example), "example": example} for kind, example in examples.items()
    }


def schema(example: Any) -> dict[str, Any]:
    """Return the JSON schema that an example suggests."""
    if isinstance(example, dict):
        inner = {key: schema(value) for key, value in example.items()}
        return {"type": "object", "properties": inner}
    if isinstance(example, list):
        return {"type": "array", "items": schema(example[0]) if example else {}}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {} if example is None else {"type": kinds[type(example)]}
