"""The description of the service as a page for people: what OpenAPI says, without a script.

The page is built as a tree of elements, so that nothing in it can be taken for markup.
"""

import base64
import hashlib
import json
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from fastapi import Request, Response

STYLE = """
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }
pre { overflow-x: auto; padding: 0.6rem; background: #8881; border-radius: 0.3rem }
h2 { font: 600 1rem/1.5 ui-monospace, monospace; margin-top: 2.5rem; overflow-wrap: anywhere }
"""
HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{HASH}'; frame-ancestors 'none'"


async def manual(request: Request) -> Response:
    """Describe the service to people."""
    content = b"<!doctype html>" + tostring(page(request.app.openapi()), method="html")
    headers = {"Content-Security-Policy": POLICY}
    return Response(content, 200, headers, "text/html; charset=us-ascii")


def page(described: dict[str, Any]) -> Element:
    """Return the page of a description."""
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
            SubElement(body, "p").text = said.get("description", "")
            _examples(body, "Request", said.get("requestBody", {}))
            for status, answer in said["responses"].items():
                _examples(body, f"Answer {status}", answer)
    return root


def _examples(body: Element, what: str, said: dict[str, Any]) -> None:
    for kind, content in said.get("content", {}).items():
        example = content.get("example")
        if example is not None:
            SubElement(body, "p").text = f"{what}, {kind}:"
            text = example if isinstance(example, str) else json.dumps(example, indent=2)
            SubElement(body, "pre").text = text
