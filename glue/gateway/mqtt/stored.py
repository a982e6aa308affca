"""The records of a door's log: runs of messages, and events that change sessions.

Both are records of one stream, so that the order of the file is the order of what happened. A run has its topic as the
record's type. Its properties hold rare values: properties of MQTT 5, the end of the lifetime, the packet ids of QoS 2,
and a single target session with the identifiers of its subscription. An event is a JSON list; its first item names
what happened:

    ["open", client, expiry]                   a session exists, and outlives its connection by `expiry` seconds
    ["end", client]                            it ended
    ["away", client, unix time]                its connection has ended; the session is kept up to this time
    ["here", client]                           it has a connection
    ["sub", client, filter, options, since]    it gets what matches, from this offset on
    ["unsub", client, filter]
    ["next", client, offset]                   what comes before was sent, or is not for it
    ["sent", client, next, [[id, offset, count, options], …]]     these messages are in flight
    ["ack", client, [[id, count], …]]          the client has them
    ["rec", client, id], ["comp", client, id]  QoS 2: PUBREC, PUBCOMP came from the client
    ["in", client, ids], ["rel", client, id]   QoS 2: PUBLISH, PUBREL came from the client
    ["will", client, will]                     its will, or null
    ["retain", run]                            a retained message, in a snapshot
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import orjson

from glue.errors import CorruptStorageError
from glue.gateway.mqtt.packets import Publish, Will
from glue.gateway.mqtt.properties import Properties
from glue.storage import Record

ORIGIN, TOPIC = "0" * 16, "mqtt"
"""The stream of all records of a door."""

Event = Sequence[Any]


class Kept:
    """A run in the log, with the client id of its publisher, and its target session ("" for any)."""

    __slots__ = ("identifiers", "ids", "run", "sender", "to")

    def __init__(
        self, run: Publish, sender: str = "", to: str = "", ids: Sequence[int] = (), identifiers: Sequence[int] = ()
    ) -> None:
        """`ids` are the packet ids of QoS 2 that the publisher's session must remember.

        With a target, `identifiers` are those of its subscription.
        """
        self.run = run
        self.sender = sender
        self.to = to
        self.ids = ids
        self.identifiers = identifiers


def run_record(kept: Kept, offset: int, expires: float, published_at: float) -> Record:
    """The record of a run; `expires` is Unix time."""
    run, more = kept.run, dict[str, str]()
    if run.properties:
        more["properties"] = orjson.dumps(plain(run.properties)).decode()
    if expires != float("inf"):
        more["expires"] = repr(expires)
    if kept.to:
        more["to"] = kept.to
    if kept.identifiers:
        more["identifiers"] = orjson.dumps(list(kept.identifiers)).decode()
    if kept.ids:
        more["ids"] = orjson.dumps(list(kept.ids)).decode()
    return Record(
        ORIGIN, kept.sender, 1, TOPIC, offset + 1, list(run.payloads), published_at, 0, run.qos << 8 | run.retain << 10,
        run.topic, None, more,
    )  # fmt: skip


def event_record(events: Sequence[Event], offset: int, published_at: float) -> Record:
    """The record of some events."""
    return Record(ORIGIN, "", 1, TOPIC, offset + 1, [orjson.dumps(events)], published_at)


def read_record(record: Record, offset: int, to_monotonic: float) -> Kept | list[Event]:
    """Read a record; `to_monotonic` turns Unix time into the door's. Raises CorruptStorageError."""
    try:
        if record.type is None:
            events: list[Event] = orjson.loads(record.payloads[0])
            return events
        more = record.properties
        properties = lively(orjson.loads(more["properties"])) if "properties" in more else None
        run = Publish(record.type, record.payloads, record.flags >> 8 & 3, bool(record.flags >> 10 & 1), properties)
        if "expires" in more:
            run.expires = float(more["expires"]) + to_monotonic
        run.at, run.offset = record.published_at, offset
        ids, identifiers = (orjson.loads(more.get(name, "[]")) for name in ("ids", "identifiers"))
        return Kept(run, record.name, more.get("to", ""), ids, identifiers)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise CorruptStorageError(f"a record of the door at offset {offset} is malformed: {error}") from None


def will_value(will: Will | None) -> Any:
    """A will as a JSON value."""
    if will is None:
        return None
    return [will.topic, b64encode(will.payload).decode(), will.qos, will.retain, plain(will.properties)]


def read_will(value: Any) -> Will | None:
    """A will from a JSON value."""
    if value is None:
        return None
    topic, payload, qos, retain, properties = value
    return Will(topic, b64decode(payload), qos, retain, lively(properties))


def run_value(run: Publish, to_unix: float) -> Any:
    """A retained message as a JSON value."""
    expires = None if run.expires == float("inf") else run.expires + to_unix
    payload = b64encode(run.payloads[-1]).decode()
    return [run.topic, payload, run.qos, plain(run.properties or {}), expires, run.at]


def read_run_value(value: Any, to_monotonic: float) -> Publish:
    """A retained message from a JSON value. Raises ValueError, or what a malformed value brings about."""
    topic, payload, qos, properties, expires, at = value
    if not isinstance(topic, str):
        raise ValueError(f"topic {topic!r:.40}")
    run = Publish(topic, (b64decode(payload),), qos, True, lively(properties) or None)
    run.at = at
    if expires is not None:
        run.expires = expires + to_monotonic
    return run


def plain(properties: Properties) -> dict[str, Any]:
    """Properties as a JSON value: bytes are a list of one text in base64."""
    return {
        name: [b64encode(value).decode()] if isinstance(value, bytes) else value for name, value in properties.items()
    }


def lively(value: dict[str, Any]) -> Properties:
    """Properties from a JSON value."""
    binary = value.get("correlation_data")
    if binary is not None:
        value["correlation_data"] = b64decode(binary[0])
    if "user_property" in value:
        value["user_property"] = [(name, text) for name, text in value["user_property"]]
    return value
