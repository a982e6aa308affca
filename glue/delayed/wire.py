"""Messages about delayed messages: a JSON object, a line feed, and a bundle with the messages themselves.

They go to one keeper, on `$glue/delayed/KEEPER`, from publishers and from other keepers:

* `put`: hold these messages, as many as the bundle has groups. Each is
  `[publisher's id, life, number, name, wait, priority, reliable]`: `wait` are the milliseconds until it is due.
* `done`: the sender published these. `gone`: these are over: cancelled, or kept by the keepers of the topic.
  `have`: the sender holds these. `want`: send these as `put`. Each is `[publisher's id, life, number]`.

The number counts the delayed messages of one life of a publisher. What is released has the property `$delayed` with
`ID/LIFE/NUMBER`, so that receivers drop a second copy. A keeper tells the publisher on `$glue/durable/ID/LIFE` what is
on its disk (`held`) and what it refuses (`unheld`), as for other acknowledgements, with numbers of delayed messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from glue.contract import BULK
from glue.contract.heads import MalformedError, integer, rows, split
from glue.contract.metadata import DELAYED, PROPERTIES, PROPERTIES_SIZE, Metadata
from glue.topics.bundle import INTEGER_LIMIT, MalformedBundleError, MessageGroup, body_of, decode

PREFIX: Final = "$glue/delayed/"
ENTRIES: Final = 4096
"""Entries of a list in a message at most."""
PUTS, PUTS_SIZE = 256, 256 << 10
"""Messages, and bytes of payload, that are put at once at most; a larger message goes alone."""
HEAD_LIMIT: Final = 1 << 20
"""Bytes of the JSON object at most: ENTRIES entries, or PUTS names of 4 kB."""
NAME_LIMIT: Final = 65_535
"""Characters of an endpoint's name."""
WAIT_LIMIT: Final = 10**13
"""Milliseconds of delay at most; in the file of a keeper it is a time of the wall clock, up to the year 2286."""


class Id(NamedTuple):
    """The identity of a delayed message."""

    publisher: str
    """The endpoint's id, 16 hex digits."""
    life: int
    number: int
    """Counts the delayed messages of this life, from 1."""

    @property
    def tag(self) -> str:
        """The identity as a property of the message."""
        return f"{self.publisher}/{self.life}/{self.number}"


class Put(NamedTuple):
    """A delayed message, with the milliseconds until it is due. The group has one payload."""

    id: Id
    name: str
    """The publisher's name."""
    wait: int
    priority: int
    reliable: bool
    group: MessageGroup

    @property
    def size(self) -> int:
        """Bytes of payload and properties."""
        metadata = self.group.metadata
        return self.group.size + (metadata.size if metadata else 0)


def ask_topic(keeper: str) -> str:
    """The topic of what one keeper is told."""
    return PREFIX + keeper


def id_of_tag(tag: str) -> Id | None:
    """The identity in the property of a message; None if it is malformed."""
    publisher, _, rest = tag.partition("/")
    life, _, number = rest.partition("/")
    if len(publisher) != 16 or not all(one.isascii() and one.isdecimal() and len(one) < 20 for one in (life, number)):
        return None
    return Id(publisher, int(life), int(number))


def tagged(metadata: Metadata | None, id: Id) -> Metadata | None:
    """The metadata of a message with its identity among the properties; None if there is no room for it."""
    properties = dict((metadata.properties if metadata else None) or {})
    properties[DELAYED] = id.tag
    found = Metadata(properties, metadata.codec if metadata else None)
    return found if len(properties) <= PROPERTIES and found.size <= PROPERTIES_SIZE else None


# ------------------------------------------------------------------------------------------------ encoding


def encode_puts(puts: Iterable[Put]) -> Iterator[bytes]:
    """Payloads that put these messages."""
    part: list[Put] = []
    size = 0
    for put in puts:
        if part and (len(part) >= PUTS or size + put.size > PUTS_SIZE):
            yield _encode_part(part)
            part, size = [], 0
        part.append(put)
        size += put.size
    if part:
        yield _encode_part(part)


def encode_ids(kind: str, ids: Sequence[Id]) -> Iterator[bytes]:
    """Payloads of this kind (`done`, `gone`, `have`, `want`) with these identities."""
    for start in range(0, len(ids), ENTRIES):
        yield _encode({kind: [[*id] for id in ids[start : start + ENTRIES]]})


def _encode_part(puts: Sequence[Put]) -> bytes:
    return _encode({"put": [[*one.id, one.name, one.wait, one.priority, int(one.reliable)] for one in puts]}, puts)


def _encode(head: dict[str, Any], puts: Sequence[Put] = ()) -> bytes:
    body = body_of([one.group for one in puts]) if puts else ()
    return b"".join([orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE), *body])


# ------------------------------------------------------------------------------------------------ decoding


class Told(NamedTuple):
    """A decoded message."""

    puts: list[Put]
    done: list[Id]
    gone: list[Id]
    have: list[Id]
    want: list[Id]


def parse(payload: Any) -> Told:
    """Decode a message, strictly checked. Raises MalformedError."""
    head, rest = split(payload, HEAD_LIMIT)
    try:
        groups = decode(rest) if rest else []
    except MalformedBundleError:
        raise MalformedError("no bundle") from None
    entries = rows(head.get("put", []), 7, ENTRIES)
    if len(entries) != len(groups):
        raise MalformedError("as many messages as entries")
    puts = [_put(entry, group) for entry, group in zip(entries, groups, strict=True)]
    lists = (rows(head.get(kind, []), 3, ENTRIES) for kind in ("done", "gone", "have", "want"))
    return Told(puts, *([_id(entry) for entry in entries] for entries in lists))


def _put(entry: list[Any], group: MessageGroup) -> Put:
    name, wait, priority, reliable = entry[3:]
    if not isinstance(name, str) or len(name) > NAME_LIMIT:
        raise MalformedError("name")
    if len(group.payloads) != 1 or group.topic.startswith("$glue/"):
        raise MalformedError("message")
    return Put(
        _id(entry[:3]), name, integer(wait, 0, WAIT_LIMIT), integer(priority, 0, BULK), integer(reliable, 0, 1) == 1,
        group,
    )  # fmt: skip


def _id(entry: list[Any]) -> Id:
    publisher, life, number = entry
    if not isinstance(publisher, str) or len(publisher) != 16:
        raise MalformedError("publisher")
    return Id(publisher, integer(life, 0, INTEGER_LIMIT), integer(number, 1, INTEGER_LIMIT))
