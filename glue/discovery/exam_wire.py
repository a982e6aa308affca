"""The bodies of `examine` frames: what peers ask each other, what they answer, and how they probe the way between them.

    body                                                       meaning
    {"ask":N,"sections":["report"]}                            tell these sections
    {"answer":N,"section":"report","part":0,"parts":2} LF …    a part of the section's JSON document
    {"round":N,"pings":20}                                     send each of your peers this many pings
    {"ping":N,"place":3,"of":20,"by":"multicast"}              one of them; some are as large as a frame
    {"pong":N,"place":3}                                       the answer to a ping by unicast

The sender of a question chooses the number N. Readers ignore unknown keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import orjson

from glue.contract.frozen import Frozen

MOST_NUMBER = (1 << 31) - 1
MOST_SECTIONS = 8  # in one question
MOST_NAME = 32  # characters of a section's name
MOST_PARTS = 16  # of a section: some 20 kB
MOST_PINGS = 32  # to each peer, in one round
HEAD_ROOM = 120  # bytes of a part before its data, at most: 32 characters, 3 numbers and the keys are fewer

MULTICAST, UNICAST = "multicast", "unicast"


class Ask(Frozen):
    """A question for sections."""

    number: int
    sections: tuple[str, ...]

    @property
    def body(self) -> bytes:
        """As a body."""
        return orjson.dumps({"ask": self.number, "sections": self.sections})


class Part(Frozen):
    """A part of the answer to a question: a piece of one section's JSON document."""

    number: int
    section: str
    part: int
    parts: int
    data: bytes

    @property
    def body(self) -> bytes:
        """As a body."""
        head = {"answer": self.number, "section": self.section, "part": self.part, "parts": self.parts}
        return orjson.dumps(head) + b"\n" + self.data


class Round(Frozen):
    """An order to send so many pings to each peer."""

    number: int
    pings: int

    @property
    def body(self) -> bytes:
        """As a body."""
        return orjson.dumps({"round": self.number, "pings": self.pings})


class Ping(Frozen):
    """The ping at `place` of a round `of` so many; it goes `by` multicast or unicast. Every fifth fills a frame."""

    number: int
    place: int
    of: int
    by: str

    @property
    def is_large(self) -> bool:
        """Whether it is one of those that fill a frame."""
        return is_large(self.place)

    def body(self, size: int) -> bytes:
        """As a body; a large one has `size` bytes."""
        fields = {"ping": self.number, "place": self.place, "of": self.of, "by": self.by}
        body = orjson.dumps(fields)
        return body.ljust(size) if self.is_large else body


class Pong(Frozen):
    """The answer to a ping by unicast."""

    number: int
    place: int

    @property
    def body(self) -> bytes:
        """As a body."""
        return orjson.dumps({"pong": self.number, "place": self.place})


Body = Ask | Part | Round | Ping | Pong


def is_large(place: int) -> bool:
    """Whether the ping at this place fills a frame."""
    return place % 5 == 4


def large_count(pings: int) -> int:
    """How many of so many pings fill a frame."""
    return pings // 5


def parts_of(number: int, section: str, document: bytes, size: int) -> Iterator[Part]:
    """Cut a section's document into bodies of at most `size` bytes; nothing if it takes too many of them."""
    room = max(size - HEAD_ROOM, 1)
    parts = max(-(-len(document) // room), 1)
    if parts <= MOST_PARTS:
        for part in range(parts):
            yield Part(number, section, part, parts, document[part * room : (part + 1) * room])


def parse(body: bytes) -> Body | None:
    """Parse a body; None if it is malformed."""
    head, _, data = body.partition(b"\n")
    try:
        value = orjson.loads(head)
    except ValueError:
        return None
    if type(value) is not dict:
        return None
    for key, read in _READERS.items():
        if key in value:
            return read(value, data) if _is_number(value[key], 0, MOST_NUMBER) else None
    return None


def _ask(value: dict[str, Any], data: bytes) -> Ask | None:
    sections = value.get("sections")
    if type(sections) is not list or not 0 < len(sections) <= MOST_SECTIONS or not all(map(_is_name, sections)):
        return None
    return Ask(value["ask"], tuple(dict.fromkeys(sections)))


def _part(value: dict[str, Any], data: bytes) -> Part | None:
    section, part, parts = value.get("section"), value.get("part"), value.get("parts")
    if not _is_name(section) or not _is_number(parts, 1, MOST_PARTS) or not _is_number(part, 0, parts - 1):
        return None
    return Part(value["answer"], section, part, parts, data)


def _round(value: dict[str, Any], data: bytes) -> Round | None:
    pings = value.get("pings")
    return Round(value["round"], pings) if _is_number(pings, 1, MOST_PINGS) else None


def _ping(value: dict[str, Any], data: bytes) -> Ping | None:
    place, pings, by = value.get("place"), value.get("of"), value.get("by")
    if not _is_number(pings, 1, MOST_PINGS) or not _is_number(place, 0, pings - 1) or by not in (MULTICAST, UNICAST):
        return None
    return Ping(value["ping"], place, pings, by)


def _pong(value: dict[str, Any], data: bytes) -> Pong | None:
    place = value.get("place")
    return Pong(value["pong"], place) if _is_number(place, 0, MOST_PINGS - 1) else None


_READERS = {"ask": _ask, "answer": _part, "round": _round, "ping": _ping, "pong": _pong}


def _is_number(value: Any, least: int, most: int) -> TypeGuard[int]:
    return type(value) is int and least <= value <= most


def _is_name(value: Any) -> TypeGuard[str]:
    return type(value) is str and 0 < len(value) <= MOST_NAME and value.isascii() and value.isprintable()


def names(sections: Sequence[str]) -> tuple[str, ...]:
    """Check the names of sections to ask for; ValueError for what no endpoint would understand."""
    if not 0 < len(sections) <= MOST_SECTIONS or not all(map(_is_name, sections)):
        raise ValueError(f"sections={sections!r}: expected 1 to {MOST_SECTIONS} names of up to {MOST_NAME} characters")
    return tuple(dict.fromkeys(sections))
