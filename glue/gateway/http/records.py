"""Messages of the log, as clients see them."""

from __future__ import annotations

import base64
from typing import Any

import orjson

from glue.gateway.http.signing import Item
from glue.storage import JSON


def described_record(item: Item, log: str) -> dict[str, Any]:
    """Return a message of a log in the form of a stream, with its offset."""
    record = item.record
    found: dict[str, Any] = {"topic": record.topic}
    if record.flags & JSON:
        found["payload"] = orjson.loads(item.payload)
    else:
        found["payload_base64"] = base64.b64encode(item.payload).decode()
    found |= {
        "publisher": record.name, "sequence": item.sequence, "published_at": record.published_at,
        "offset": f"{log}.{item.offset}",
    }  # fmt: skip
    if record.type is not None:
        found["type"] = record.type
    if record.properties:
        found["properties"] = record.properties
    return found
