"""The keys of the model in which the doors of a cluster keep their sessions, and the values of these keys.

A session stands under a hash of its client id, because a key of the model cannot hold every client id:

    o/HASH     [client id, door, number]     its owner: the door of its client, "" for none; the number of the claim
    a/HASH     {"expiry": s, "away": time}   how long it outlives its connection; since when it has none (Unix time)
    f/HASH     {filter: [options, since]}    its subscriptions, and the offset from which on they count
    p/HASH     {"next": offset, "sent": {id: [offset, options]}, "rel": {id: 1}, "in": {id: 1}}
    w/HASH     {"will": …, "due": time}      its will; when it is to be published, once the client is lost

What belongs to a session is changed only together with an expected owner. Then there are the messages, the retained
messages, the doors with a number each, and the last batch of each door:

    m/DOOR/NAME   a run of messages     r/HASH   a retained message     d/DOOR   a door     b/DOOR   a number
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from glue.contract.hashing import blake2s
from glue.gateway.mqtt.packets import Publish, Will
from glue.gateway.mqtt.stored import lively, plain, read_will, will_value
from glue.model.state.commands import VALUE_LIMIT

Owner = tuple[str, str, int]
"""The client id of a session, the door that has its client ("" for none), and the number of the claim."""

DOOR_BITS, PLACE_BITS = 8, 20
"""An offset is made of the index in the log of the model, the number of the door, and the place that the door gave."""

DOORS, PLACES = 1 << DOOR_BITS, 1 << PLACE_BITS


ROOM = VALUE_LIMIT - (16 << 10)
"""Bytes of JSON of a message with its topic, properties and client ids: 16 kB are left for its other members."""


def mark(text: str) -> str:
    """Return what stands for a client id or a topic in keys."""
    return blake2s(text.encode(), digest_size=16).hexdigest()


def offset_of(index: int, door: int, place: int) -> int:
    """Return the offset of a message: messages are in the same order at all doors."""
    return (index << DOOR_BITS | door) << PLACE_BITS | place


class Entry:
    """A run of messages that is in the log of the cluster."""

    __slots__ = ("door", "identifiers", "ids", "is_for_kept", "key", "run", "sender", "to", "wanted")

    def __init__(
        self,
        run: Publish,
        sender: str = "",
        to: str = "",
        identifiers: Sequence[int] = (),
        is_for_kept: bool = False,
    ) -> None:
        """`to` is the one client that it is for; `is_for_kept` means that others have it already."""
        self.run = run
        self.sender = sender
        self.to = to
        self.identifiers = identifiers
        self.is_for_kept = is_for_kept
        self.ids: Sequence[int] = ()  # nothing to be remembered: as a run in the log of one door
        self.key = ""
        self.door = 0
        self.wanted: tuple[str, ...] = ()  # hashes of the sessions that get it

    @property
    def end(self) -> int:
        """The offset behind its last message."""
        return self.run.offset + self.run.count


def entry_value(entry: Entry, place: int, to_unix: float) -> list[Any]:
    """Return the value of a run."""
    run = entry.run
    expires = None if run.expires == float("inf") else run.expires + to_unix
    payloads = [b64encode(payload).decode() for payload in run.payloads]
    return [
        place, run.topic, payloads, run.qos, run.retain, plain(run.properties or {}), expires, run.at,
        entry.sender, entry.to, list(entry.identifiers), entry.is_for_kept,
    ]  # fmt: skip


def fits(run: Publish, *names: str) -> bool:
    """Whether each message of a run fits into a value of the model, with client ids that are written with it."""
    payload = 4 * max(map(len, run.payloads)) // 3
    if not run.properties and payload + 6 * (len(run.topic) + sum(map(len, names))) < ROOM:
        return True  # JSON writes a character with six bytes at most, where UTF-8 has one
    return payload + len(orjson.dumps([run.topic, plain(run.properties or {}), *names])) <= ROOM


def is_small(will: Will) -> bool:
    """Whether a will fits into a value of the model, also as a message."""
    return len(orjson.dumps(will_value(will))) <= ROOM


def read_entry(value: Any, key: str, index: int, to_monotonic: float) -> Entry:
    """Read the value of a run. Raises ValueError, TypeError."""
    place, topic, payloads, qos, retain, properties, expires, at, sender, to, identifiers, is_for_kept = value
    run = Publish(topic, [b64decode(payload) for payload in payloads], qos, retain, lively(properties) or None)
    if expires is not None:
        run.expires = expires + to_monotonic
    entry = Entry(run, sender, to, identifiers, is_for_kept)
    entry.key, entry.door = key, int(key.split("/")[1])
    run.at, run.offset = at, offset_of(index, entry.door, place)
    return entry


def check_text(value: Any) -> str:
    """Return a text. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80}: expected a text")
    return value


def read_owner(value: Any) -> Owner:
    """Read the owner of a session. Raises ValueError, TypeError."""
    client_id, door, number = value
    return check_text(client_id), check_text(door), int(number)


def read_terms(value: Any) -> dict[str, float]:
    """Read how long a session outlives its connection. Raises ValueError, TypeError, AttributeError."""
    return {name: float(seconds) for name, seconds in value.items()}


def check_will(value: Any) -> None:
    """Raise ValueError, TypeError or KeyError for what is no will with its time."""
    will = read_will(value["will"])
    if will is None or will.qos not in (0, 1, 2):
        raise ValueError(f"{value!r:.80}: expected a will")
    float(value.get("due", 0)), float(will.properties.get("will_delay_interval", 0))
    check_text(will.topic)


class Progress(NamedTuple):
    """What of a session was sent, and is under way."""

    next: int
    """The offset of the first message that was not sent yet."""
    sent: dict[int, tuple[int, int]]
    """Offset and options by packet id, of what is under way; ordered by offset."""
    released: list[int]
    received: list[int]

    @property
    def floor(self) -> int:
        """The first offset that the session needs."""
        return min([self.next, *(offset for offset, _ in self.sent.values())])


def read_progress(value: Any) -> Progress:
    """Read the progress of a session; of nothing, the beginning."""
    found = value or {}
    sent = sorted((int(place[0]), int(number), int(place[1])) for number, place in found.get("sent", {}).items())
    return Progress(
        int(found.get("next", 0)),
        {number: (offset, options) for offset, number, options in sent},
        [int(number) for number in found.get("rel", ())],
        [int(number) for number in found.get("in", ())],
    )
