"""The OpenAPI document, generated from the declared operations, and an HTML page that displays it.

The page is built as a tree of elements, so all text in it is escaped.
"""

import base64
import hashlib
import inspect
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

DESCRIPTION = """\
Ask an agent which arm to pull, then tell it the reward.

A change is committed before it is answered. A request without a response, or with status 503, can be
retried with the same `Idempotency-Key` and counts once. Every error has the form
`{"error": {"code": "...", "message": "..."}}`. The status is 401 without a valid token, 403 if the
token lacks the role, 404 for an unknown agent, decision or arm, 409 if the request contradicts an
earlier report, 413 if the body is too large, 422 for invalid values, and 503 with `Retry-After` if
the service is overloaded or stopping.

Send the token as `Authorization: Bearer <token>`. Its role is `read`, `play` or `admin`; each role
includes the previous one.
"""
PARAMETERS = {  # description, example and minimum length of the parameters in paths and headers
    "name": ("Name of the agent.", "checkout", 1),
    "arm": ("Name of the arm.", "red", 1),
    "Idempotency-Key": ("Requests with the same key get the same answer.", "visit-4711", 1),
    "Last-Event-ID": ("Number of the event after which a stream resumes.", "3", 0),
}
REF_TEMPLATE = "#/components/schemas/{name}"


def document(routes: Sequence[BaseRoute], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of the operations among the routes."""
    operations = [
        route.endpoint
        for route in routes
        if isinstance(route, Route) and isinstance(route.endpoint, Operation)
    ]
    types: list[Any] = [Error]
    for operation in operations:
        types += [
            type_
            for type_ in (operation.body, operation.query, operation.answer)
            if type_ is not None
        ]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF_TEMPLATE)
    schema_by_type = dict(zip(types, schemas, strict=True))
    for struct in components.values():  # client generators misread a default of null
        for field in struct["properties"].values():
            if field.get("default", ...) is None:
                del field["default"]
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(
            operation, schema_by_type, components
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "kibitz", "version": version, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(
    operation: Operation, schema_by_type: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    """Return the OpenAPI description of an operation."""
    docstring = inspect.cleandoc(operation.function.__doc__ or "")
    role_text = "" if operation.role is None else f" Role: `{operation.role}`."
    path_parameters = [
        _make_parameter(name, "path") for name in re.findall(r"{(\w+)}", operation.path)
    ]
    query_parameters = (
        []
        if operation.query is None
        else _make_query_parameters(schema_by_type[operation.query], components)
    )
    header_parameters = [_make_parameter(name, "header") for name in operation.headers]
    responses: dict[str, Any] = {
        str(operation.status): {
            "description": "Committed." if operation.method != "GET" else "Success.",
            "content": _make_contents(operation, schema_by_type),
        }
    }
    for status in operation.errors:
        responses[str(status)] = {
            "description": STATUS[status][1],
            "content": {"application/json": {"schema": schema_by_type[Error]}},
        }
        if status == 503:
            schema = {"type": "string", "description": "Number of seconds to wait."}
            responses["503"]["headers"] = {"Retry-After": {"schema": schema}}
    description = {
        "summary": docstring.partition(".")[0],
        "description": f"{docstring}{role_text}",
        "operationId": operation.function.__name__,
        "security": [] if operation.role is None else [{"token": []}],
        "parameters": path_parameters + query_parameters + header_parameters,
        "responses": responses,
    }
    if operation.body is not None:
        schema, example = schema_by_type[operation.body], operation.example.body
        struct_schema = components.get(schema.get("$ref", "").rpartition("/")[2], {"required": True})
        description["requestBody"] = {
            "required": bool(struct_schema["required"]),
            "content": {"application/json": {"schema": schema, "example": example}},
        }
    if operation.media:
        contents = {
            media_type: {"schema": {"type": "string"}, "example": operation.example.body[media_type]}
            for media_type in operation.media
        }
        description["requestBody"] = {"required": True, "content": contents}
    return description


def _make_contents(operation: Operation, schema_by_type: dict[Any, Any]) -> dict[str, Any]:
    """Return the schema and the example of a response, by media type."""
    contents: dict[str, Any] = {}
    if operation.answer is not None:
        schema = schema_by_type[operation.answer]
        contents["application/json"] = {"schema": schema, "example": operation.example.answer}
    for media_type, example in operation.example.media.items():
        # A response that is always a stream has no schema, because validators would apply it to each
        # event. If JSON is an alternative, a schema keeps the types of generated clients exact.
        is_stream = media_type == "text/event-stream" and operation.answer is None
        is_text = example is not None and not is_stream
        contents[media_type] = {"schema": {"type": "string"} if is_text else {}}
        if example is not None:
            contents[media_type]["example"] = example
    return contents


def _make_parameter(name: str, location: str) -> dict[str, Any]:
    description, example, min_length = PARAMETERS[name]
    schema = {"type": "string", "minLength": min_length}
    parameter = {"name": name, "in": location, "required": location == "path", "schema": schema}
    return {**parameter, "example": example, "description": description}


def _make_query_parameters(
    schema: dict[str, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the fields of a query as parameters; remove its struct from the components."""
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
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; frame-ancestors 'none'"
)


async def show_page(request: Request) -> Response:
    """Answer a request with the HTML page that displays the OpenAPI document."""
    root = build_page(request.app.state.document)
    content = b"<!doctype html>" + tostring(root, method="html")
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
    return Response(content, 200, headers, "text/html; charset=us-ascii")


async def show_document(request: Request) -> Response:
    """Answer a request with the OpenAPI document."""
    return Response(json.dumps(request.app.state.document), media_type="application/json")


ROUTES = [Route("/openapi.json", show_document), Route("/docs", show_page)]
for _route in ROUTES:
    _route.methods = {"GET"}


def build_page(document: dict[str, Any]) -> Element:
    """Return an OpenAPI document as an HTML page."""
    root = Element("html", lang="en")
    head, body = SubElement(root, "head"), SubElement(root, "body")
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    SubElement(head, "title").text = "kibitz HTTP API"
    SubElement(head, "style").text = STYLE
    SubElement(body, "h1").text = "kibitz HTTP API"
    for paragraph in document["info"]["description"].split("\n\n"):
        SubElement(body, "p").text = paragraph
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            SubElement(body, "h2").text = f"{method.upper()} {path}"
            SubElement(body, "p").text = operation["description"]
            _add_examples(body, "Request", operation.get("requestBody", {}))
            for status, response in operation["responses"].items():
                _add_examples(body, f"Response {status}", response)
    return root


def _add_examples(body: Element, title: str, message: dict[str, Any]) -> None:
    for media_type, content in message.get("content", {}).items():
        if "example" in content:
            example = content["example"]
            SubElement(body, "p").text = f"{title}, {media_type}:"
            example_text = example if isinstance(example, str) else json.dumps(example, indent=2)
            SubElement(body, "pre").text = example_text
