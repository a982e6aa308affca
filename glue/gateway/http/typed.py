"""The typed topics of the network as AsyncAPI 3.0: a channel for each pattern, with the schemas of its messages.

Endpoints announce names and hashes of their types; the schemas are retained values, each fetched once. Any endpoint may
announce anything, so only references within a schema are kept, and all is bounded.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

import glue
from glue.aio import Endpoint
from glue.contract import Subscribe
from glue.endpoint.schemas import Schemas
from glue.endpoint.typed import SCHEMA
from glue.gateway.http.tokens import Rights
from glue.schema import PUBLISH, AnnouncedType

WAIT: Final = 0.5
"""Seconds for the schemas of announced types to come; a few milliseconds are the rule."""
TOPICS: Final = 2_000
"""Announced types in a description."""
SIZE: Final = 4 << 20
"""Bytes of schemas in a description; the types beyond have no schema in it."""
DEPTH: Final = 100
"""Levels of a schema; what is deeper may be anything."""
LOCAL: Final = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")
DEFINITIONS: Final = "$defs", "definitions"

Document = dict[str, Any]
Typed = tuple[str, AnnouncedType, bytes | None]
"""The name of an endpoint, a type that it announces, and the schema as JSON if it is known."""


class TypedTopics:
    """Knows the types that endpoints announce, with their schemas."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._schemas: Schemas | None = None

    async def get(self) -> list[Typed]:
        """Return what is announced now, the door's own endpoint included. Raises ClosedError."""
        endpoint, core = self._endpoint, self._endpoint._core
        driver = endpoint._running()
        schemas = self._schemas
        if schemas is None:  # from now on: most doors are never asked
            schemas = self._schemas = Schemas(core.types, endpoint._owner, True)
            driver.order(Subscribe(schemas, SCHEMA + "+"))
        announced = list(core.types.directory)[:TOPICS]
        missing = {told.hash for _, told in announced if schemas.find(told.hash) is None}
        if missing:
            await driver.wait_until(lambda: all(schemas.find(hash) is not None for hash in missing), WAIT)
        found: list[Typed] = [(core.requests.name_of(peer), told, schemas.find(told.hash)) for peer, told in announced]
        if endpoint._types is not None and endpoint._types.is_of(core):
            found += [(endpoint.name, told, schema) for told, schema in endpoint._types.announced]
        return found


def asyncapi_document(typed: list[Typed], rights: Rights) -> Document:
    """Return the description of the typed topics that a client may publish to or read."""
    description = Description()
    for endpoint, told, schema in sorted(typed, key=lambda one: (one[1].pattern, one[1].label, one[1].way, one[0])):
        if rights.may_subscribe(told.pattern) or rights.may_publish(told.pattern):
            description.add(endpoint, told, schema)
    return description.document()


class Description:
    """A document of AsyncAPI 3.0 that grows type by type."""

    def __init__(self) -> None:
        self._channels: dict[str, Document] = {}
        self._operations: dict[str, Document] = {}
        self._schemas: dict[str, Any] = {}
        self._keys: dict[str, dict[str, str]] = {"channel": {}, "type": {}}
        self._taken: dict[str, set[str]] = {"channel": set(), "type": set()}
        self._types: dict[str, Document] = {}
        self._size = 0

    def add(self, endpoint: str, told: AnnouncedType, schema: bytes | None) -> None:
        """Add a type that an endpoint announces."""
        key = self._key("channel", told.pattern)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = {**address_of(told.pattern), "messages": {}, "x-glue-endpoints": []}
        if endpoint not in channel["x-glue-endpoints"]:
            channel["x-glue-endpoints"].append(endpoint)
        message = self._key("type", told.label)
        if message not in channel["messages"]:
            channel["messages"][message] = self._message(message, told, schema)
        action = "send" if told.way == PUBLISH else "receive"
        operation = self._operations.setdefault(
            f"{action}_{key}", {"action": action, "channel": {"$ref": f"#/channels/{key}"}, "messages": []}
        )
        reference = {"$ref": f"#/channels/{key}/messages/{message}"}
        if reference not in operation["messages"]:
            operation["messages"].append(reference)

    def _key(self, kind: str, text: str) -> str:
        """Return a key that is made of a text, and of no other text of this kind."""
        known, taken = self._keys[kind], self._taken[kind]
        if text not in known:
            first = made = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or "all"
            number = 1
            while made in taken:
                number += 1
                made = f"{first}_{number}"
            taken.add(made)
            known[text] = made
        return known[text]

    def _message(self, key: str, told: AnnouncedType, schema: bytes | None) -> Document:
        """Return the message of a type; its schema becomes a component the first time."""
        if key not in self._types:
            self._types[key] = {"name": told.name, "x-glue-schema-hash": told.hash}
            if schema is not None and self._size + len(schema) <= SIZE:
                self._size += len(schema)
                parsed = orjson.loads(schema)
                self._schemas |= components(key, parsed)
                self._types[key] |= {
                    "contentType": content_type(parsed), "payload": {"$ref": f"#/components/schemas/{key}"},
                }  # fmt: skip
        return self._types[key]

    def document(self) -> Document:
        """Return the document."""
        return {
            "asyncapi": "3.0.0",
            "info": {"title": "Topics of a glue network", "version": glue.__version__},
            "defaultContentType": "application/json",
            "channels": self._channels,
            "operations": self._operations,
            "components": {"schemas": self._schemas},
        }


def address_of(pattern: str) -> Document:
    """Return the address of a channel: wildcards are parameters, named by their level."""
    if "{" in pattern or "}" in pattern:  # which AsyncAPI cannot write
        return {"address": None, "x-glue-pattern": pattern}
    if "+" not in (levels := pattern.split("/")) and levels[-1] != "#":
        return {"address": pattern}
    parameters = {}
    for place, level in enumerate(levels):
        if level in ("+", "#"):
            levels[place] = f"{{level{place + 1}}}"
            what = "one level" if level == "+" else "all further levels, or none"
            parameters[f"level{place + 1}"] = {"description": what}
    return {"address": "/".join(levels), "parameters": parameters, "x-glue-pattern": pattern}


def content_type(schema: Document) -> str:
    """Return what the payloads of a type are, as glue writes the schemas of types that are no JSON."""
    properties = schema.get("properties")
    if isinstance(properties, dict) and any(isinstance(one, dict) and "number" in one for one in properties.values()):
        return "application/x-protobuf"
    return "application/octet-stream" if schema == {"title": "numpy.ndarray"} else "application/json"


def components(key: str, schema: Document) -> dict[str, Any]:
    """Return a schema and its definitions as components, which refer to each other by their new names."""
    inner = {
        name: part for kind in DEFINITIONS if isinstance(schema.get(kind), dict) for name, part in schema[kind].items()
    }  # fmt: skip
    names = {name: f"{key}.{place}_" + re.sub(r"[^A-Za-z0-9]+", "_", name)[:80] for place, name in enumerate(inner)}
    outer = {name: value for name, value in schema.items() if name not in DEFINITIONS}
    found = {key: referring(outer, key, names)}
    for name, part in inner.items():
        found[names[name]] = referring(part, key, names)
    return found


def referring(part: Any, key: str, names: dict[str, str], depth: int = 0) -> Any:
    """Return a part of a schema with the new names in its references; one to anywhere else allows anything."""
    if depth > DEPTH:
        return {}
    if isinstance(part, list):
        return [referring(one, key, names, depth + 1) for one in part]
    if not isinstance(part, dict):
        return part
    target = part.get("$ref")
    if isinstance(target, str):
        local = LOCAL.fullmatch(target)
        if target == "#":
            return {"$ref": f"#/components/schemas/{key}"}
        if local is None or local[1] not in names:
            return {}
        return {"$ref": f"#/components/schemas/{names[local[1]]}"}
    return {name: referring(value, key, names, depth + 1) for name, value in part.items()}
