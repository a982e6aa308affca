"""Dead letters: messages that a subscriber did not take in time, kept on a separate topic until a replay.

A dead letter of the subscription ID is a message on `$dead/ID` with the payload as it was; properties tell where it
came from. It is in the log of the door like all messages, and a replay is a lane that reads this topic.
"""

from __future__ import annotations

from typing import Any, Final

from glue.gateway.http.signing import Item
from glue.storage import JSON, Record

DEAD: Final = "$dead/"
PREFIX: Final = "glue-dead-"
LATEST: Final = 10**11
"""Unix time, in the year 5138: dates are written up to the year 9999."""


def dead_topic(subscription: str) -> str:
    """Return the topic of the dead letters of a subscription."""
    return DEAD + subscription


def properties_of(item: Item, reason: str) -> dict[str, str]:
    """Return the properties of a dead letter, which replace all of the message except its content type."""
    original = revived(item)
    record = original.record
    told = {
        "topic": record.topic, "origin": record.origin, "name": record.name, "life": str(record.life),
        "sequence": str(original.sequence), "at": repr(record.published_at), "flags": str(record.flags),
        "type": record.type or "", "reason": reason[:500],
    }  # fmt: skip
    found = {PREFIX + name: value for name, value in told.items()}
    if "content-type" in record.properties:
        found["content-type"] = record.properties["content-type"]
    return found


def revived(item: Item) -> Item:
    """Return the message that a dead letter was; any other message as it is."""
    record = item.record
    if not record.topic.startswith(DEAD) or PREFIX + "topic" not in record.properties:
        return item
    told = {name.removeprefix(PREFIX): value for name, value in record.properties.items()}
    try:
        if not 0 <= (at := float(told["at"])) < LATEST:
            return item
        original = Record(
            told["origin"], told["name"], int(told["life"]), told["topic"], int(told["sequence"]), [item.payload],
            at, 0, int(told["flags"]), told["type"] or None, record.codec,
            {"content-type": told["content-type"]} if "content-type" in told else {},
        )  # fmt: skip
    except (KeyError, ValueError):
        return item  # forged by a program that publishes on this topic
    return Item(item.offset, original, 0)


def shown(item: Item) -> dict[str, Any]:
    """Return what clients see of a dead letter."""
    original = revived(item)
    record = original.record
    return {
        "offset": item.offset, "topic": record.topic, "publisher": record.name, "sequence": original.sequence,
        "published_at": record.published_at, "reason": item.record.properties.get(PREFIX + "reason", ""),
        "bytes": len(item.payload), "is_json": bool(record.flags & JSON),
    }  # fmt: skip
