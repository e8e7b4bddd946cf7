"""The OpenAPI document, from the declared operations, and a page of it for people.

The page is built as a tree of elements, so nothing in it can be taken for markup.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from kibitz.live.service.http import STATUS, Error, Operation

ABOUT = """\
Agents that decide which arm to pull, and are told what it paid.

Every answer means: it is committed. A request that got no answer, or 503, may be sent again with the
same `Idempotency-Key`, and counts once. Every error has the shape
`{"error": {"code": "...", "message": "..."}}`: 401 without a token, 403 with a lesser one, 404 for
what is unknown, 409 for what contradicts an earlier report, 413 for what is too large, 422 for bad
values, 503 with `Retry-After` when there is too much to do or the service is being stopped.

A token comes as `Authorization: Bearer <token>`. Its role is `read`, `play` or `admin`, and each may
do what those before it may.
"""
PARAMETERS = {  # in a path or a header: what it is, an example, and how short it may be
    "name": ("The agent.", "checkout", 1),
    "arm": ("The arm.", "red", 1),
    "Idempotency-Key": ("The same key gets the same answer, also after a crash.", "visit-4711", 1),
    "Last-Event-ID": ("A stream continues after this event.", "3", 0),
}
REF = "#/components/schemas/{name}"


def document(routes: Sequence[BaseRoute], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of all operations among the routes."""
    operations = [
        route.endpoint
        for route in routes
        if isinstance(route, Route) and isinstance(route.endpoint, Operation)
    ]
    types: list[Any] = [Error]
    for one in operations:
        types += [type_ for type_ in (one.body, one.query, one.answer) if type_ is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    known = dict(zip(types, schemas, strict=True))
    for struct in components.values():  # generators take a field with a default for a required one
        for field in struct["properties"].values():
            if field.get("default", ...) is None:
                del field["default"]
    paths: dict[str, Any] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _describe(one, known, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "kibitz", "version": version, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(
    operation: Operation, known: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    """Return what the document says of an operation."""
    sentence = operation.function.__doc__ or ""
    role = "" if operation.role is None else f" Role: `{operation.role}`."
    path = [_parameter(name, "path") for name in re.findall(r"{(\w+)}", operation.path)]
    query = [] if operation.query is None else _query(known[operation.query], components)
    headers = [_parameter(name, "header") for name in operation.headers]
    answers: dict[str, Any] = {
        str(operation.status): {
            "description": "Done, and committed." if operation.method != "GET" else "The answer.",
            "content": _contents(operation, known),
        }
    }
    for status in operation.errors:
        answers[str(status)] = {
            "description": STATUS[status][1],
            "content": {"application/json": {"schema": known[Error]}},
        }
        if status == 503:
            schema = {"type": "string", "description": "Seconds to wait."}
            answers["503"]["headers"] = {"Retry-After": {"schema": schema}}
    found = {
        "summary": sentence.partition(".")[0],
        "description": f"{sentence}{role}",
        "operationId": operation.function.__name__,
        "security": [] if operation.role is None else [{"token": []}],
        "parameters": path + query + headers,
        "responses": answers,
    }
    if operation.body is not None:
        schema, example = known[operation.body], operation.example.body
        required = components.get(schema.get("$ref", "").rpartition("/")[2], {"required": True})
        found["requestBody"] = {
            "required": bool(required["required"]),
            "content": {"application/json": {"schema": schema, "example": example}},
        }
    return found


def _contents(operation: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    """Return the schema and the example of an answer, by media type."""
    found: dict[str, Any] = {}
    if operation.answer is not None:
        schema = known[operation.answer]
        found["application/json"] = {"schema": schema, "example": operation.example.answer}
    for media, example in operation.example.media.items():
        text = {"schema": {"type": "string"}, "example": example}
        found[media] = {"schema": {}} if example is None else text
    return found


def _parameter(name: str, where: str) -> dict[str, Any]:
    description, example, shortest = PARAMETERS[name]
    schema = {"type": "string", "minLength": shortest}
    found = {"name": name, "in": where, "required": where == "path", "schema": schema}
    return {**found, "example": example, "description": description}


def _query(schema: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a query as parameters; its struct is no component of the document."""
    struct = components.pop(schema["$ref"].rpartition("/")[2])
    return [
        {"name": name, "in": "query", "required": False, "schema": field}
        for name, field in struct["properties"].items()
    ]


STYLE = """
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }
pre { overflow-x: auto; padding: 0.6rem; background: #8881; border-radius: 0.3rem }
h2 { font: 600 1rem/1.5 ui-monospace, monospace; margin-top: 2.5rem; overflow-wrap: anywhere }
"""
HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{HASH}'; frame-ancestors 'none'"


async def show_page(request: Request) -> Response:
    """Answer the page for people."""
    root = page(request.app.state.document)
    content = b"<!doctype html>" + tostring(root, method="html")
    headers = {"Content-Security-Policy": POLICY}
    return Response(content, 200, headers, "text/html; charset=us-ascii")


async def show_document(request: Request) -> Response:
    """Answer the document."""
    return Response(json.dumps(request.app.state.document), media_type="application/json")


ROUTES = [Route("/openapi.json", show_document), Route("/docs", show_page)]
for _route in ROUTES:
    _route.methods = {"GET"}


def page(described: dict[str, Any]) -> Element:
    """Return a document as a page."""
    root = Element("html", lang="en")
    head, body = SubElement(root, "head"), SubElement(root, "body")
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    SubElement(head, "title").text = "The addresses of kibitz"
    SubElement(head, "style").text = STYLE
    SubElement(body, "h1").text = "The addresses of kibitz"
    for paragraph in described["info"]["description"].split("\n\n"):
        SubElement(body, "p").text = paragraph
    for path, methods in described["paths"].items():
        for method, said in methods.items():
            SubElement(body, "h2").text = f"{method.upper()} {path}"
            SubElement(body, "p").text = said["description"]
            _show_examples(body, "Request", said.get("requestBody", {}))
            for status, answer in said["responses"].items():
                _show_examples(body, f"Answer {status}", answer)
    return root


def _show_examples(body: Element, what: str, said: dict[str, Any]) -> None:
    for media, content in said.get("content", {}).items():
        if "example" in content:
            example = content["example"]
            SubElement(body, "p").text = f"{what}, {media}:"
            text = example if isinstance(example, str) else json.dumps(example, indent=2)
            SubElement(body, "pre").text = text
