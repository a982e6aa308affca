"""The description of the door for programs: its routes as OpenAPI 3.1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import glue
from glue.gateway.http.limits import Limits
from glue.gateway.http.routes import Route

PARAMETER: Final = re.compile(r"{(\w+)(?::[^}]*)?}")
PROBLEM: Final = {
    "description": "The reason, in words",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
MEMBERS: Final[dict[str, Any]] = {
    "topic": {"type": "string", "minLength": 1},
    "addr": {"type": "string", "format": "uri", "description": "The address to call"},
    "url": {"type": "string", "format": "uri", "description": "The address to call"},
    "payload": {"type": "string", "contentEncoding": "base64"},
    "payloadType": {"type": "string"},
    "secret": {"type": ["string", "null"], "description": "whsec_ and 16 to 64 bytes in base64; null drops the older"},
    "parallel": {"type": "integer", "minimum": 1, "maximum": Limits().parallel, "description": "Deliveries at a time"},
    "timeout": {"type": "number", "minimum": 0.1, "maximum": 60, "description": "Seconds for an answer"},
    "give_up_after": {"type": ["number", "null"], "exclusiveMinimum": 0, "description": "Seconds; null: never"},
    "start": {"type": ["string", "null"], "description": "latest, earliest, a time, or an age such as 10m"},
    "state": {"enum": ["active", "paused"]},
}
"""Members of bodies; others may be any JSON value."""
ERRORS: Final = ("400", "401", "403", "404", "405", "408", "409", "410", "412", "413", "422", "502", "503", "504")


def openapi_document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the description of some routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(PARAMETER.sub(r"{\1}", route.path), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "glue", "version": glue.__version__, "license": {"name": "MIT"},
            "description": "Topics, models and requests of a glue network; webhooks that are called until they answer.",
        },
        "paths": paths,
        "security": [{"token": []}, {}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Problem": {
                    "type": "object", "required": ["title", "status", "detail"],
                    "properties": {
                        "title": {"type": "string"}, "status": {"type": "integer"}, "detail": {"type": "string"},
                    },
                }
            },
        },
    }  # fmt: skip


def _operation(route: Route) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in PARAMETER.findall(route.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": meaning, "schema": {"type": "string"}}
        for name, meaning in route.query.items()
    ]
    answers = {str(status): meaning for status, meaning in route.answers.items()}
    if not any(status.startswith("2") for status in answers):
        answers = {"200": "Done", **answers}
    responses: dict[str, Any] = {
        status: {**(PROBLEM if status[0] in "45" else {}), "description": meaning}
        for status, meaning in answers.items()
    }
    for status in ERRORS:
        responses.setdefault(status, PROBLEM)
    found: dict[str, Any] = {
        "summary": route.summary, "operationId": f"{route.handler.__module__.rpartition('.')[2]}_"
        f"{route.handler.__name__}_{route.method.lower()}", "parameters": parameters, "responses": responses,
    }  # fmt: skip
    if route.body:
        is_object = route.body.startswith("{")
        schema = body_schema(route) if is_object else {}
        content = {_content_type(route.body): {"schema": schema}}
        found["requestBody"] = {"description": route.body, "required": True, "content": content}
    if route.is_open:
        found["security"] = []
    return found


def _content_type(body: str) -> str:
    if "NDJSON" in body:
        return "application/x-ndjson"
    return "application/json" if body.startswith("{") or "JSON" in body else "*/*"


def body_schema(route: Route) -> dict[str, Any]:
    """Return the schema of a body that is an object."""
    names = re.findall(r'"(\w+)"', route.body)
    return {
        "type": "object", "required": list(route.needs), "properties": {name: MEMBERS.get(name, {}) for name in names}
    }  # fmt: skip
