"""Records for the tests of logs."""

from __future__ import annotations

from typing import Any

from glue.storage import Record

ORIGIN, NAME, LIFE = "a" * 16, "pump", 7


def messages(
    first: int = 1, count: int = 1, topic: str = "pump/speed", at: float = 1000.0, size: int = 8, **more: Any
) -> Record:
    """A record of messages whose payloads tell topic and sequence number."""
    payloads = [f"{topic} {number}".encode().ljust(size, b".") for number in range(first, first + count)]
    fields = {"origin": ORIGIN, "name": NAME, "life": LIFE, **more}
    return Record(topic=topic, sequence=first, payloads=payloads, published_at=at, **fields)


def everything(topic: str) -> bool:
    """All topics."""
    return True
