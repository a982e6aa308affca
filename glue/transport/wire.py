"""The transport's entry in the header, key "transport", checked once where it enters.

    ["data", attempt, age_ms, ack_channel, ack_next, ack_held_us, channel, sequence]    to one peer
    ["group", attempt, age_ms, 0, 0, 0, channel, sequence]                              to members of a channel
    ["open", channel]               body: JSON list of the endpoint ids that are members
    ["skip", channel, sequence]     whatever is missing below the sequence was given up: go on from there
    ["ack", held_us, window, channel, next]      body: JSON list [start, stop, ...] of ranges had beyond `next`
    ["parity", age_ms, channel, first, count, row]           body: one block of parity over `count` frames, see `parity`
    ["mended", mended, held_us, window, channel, next]       an "ack", and how many frames of it parity gave back so far
    ["best", age_ms, sequence]      best effort: never acknowledged, never resent

`held_us` is the time since the newest acknowledged frame came, at most MAX_HELD_US; `age_ms` that since the
message was handed to transport. `ack_channel` is 0 when nothing is acknowledged; an acknowledgement carried by
data has no ranges and promises the full WINDOW. A window counts the frames beyond `next` that the receiver will
take. Channels count from 1, sequences from 0.
"""

from __future__ import annotations

from operator import lt
from typing import Any

import orjson

KEY = "transport"
WINDOW = 4096  # frames: 5.9 MB of datagrams, more than the largest congestion window of a sender
MAX_RANGES = 100  # of an acknowledgement: 200 numbers up to WINDOW, a comma after each, are 1,000 bytes: one frame
MAX_HELD_US = 99_999  # also stands for anything longer
MAX_AGE_MS = 99_999_999  # 28 hours
MAX_ATTEMPT = 999
MAX_ENTRY = 58
"""Bytes of a data entry that carries an acknowledgement: 13 more for the key, and 1 that a number may grow by within a
run, are the 72 that transport may take of a header. Without one it takes 52 at most: numbers of 3, 8, 8 and 14 digits
for attempt, age, channel and sequence."""
_LIMIT = 1 << 53  # integers beyond are not exact in every JSON reader
_LENGTHS = {"data": 8, "group": 8, "open": 2, "skip": 3, "ack": 5, "best": 3, "parity": 6, "mended": 6}


def checked(entry: Any) -> str | None:
    """The kind of a well-formed entry: right length, integers in range; None for any other."""
    if entry.__class__ is not list or not entry:
        return None
    kind = entry[0]
    if kind.__class__ is not str or _LENGTHS.get(kind) != len(entry):
        return None
    for value in entry[1:]:
        if value.__class__ is not int or not 0 <= value < _LIMIT:
            return None
    return kind


class Kinds(dict[bytes | None, str]):
    """The kinds of entries that were found to be well-formed, by form of header; cleared when full."""

    LIMIT = 4096  # as many forms as serialization knows

    def check(self, form: bytes | None, entry: Any) -> str | None:
        """The kind of an entry, from now on known for all of this form; None if it is malformed."""
        kind = checked(entry)
        if kind is not None and form is not None:
            if len(self) >= self.LIMIT:
                self.clear()
            self[form] = kind
        return kind


def encode_ranges(ranges: list[tuple[int, int]], origin: int) -> bytes:
    """Ranges as one flat list, relative to `origin`, the lowest ones first and no more than MAX_RANGES."""
    if not ranges:
        return b"[]"
    return orjson.dumps([value - origin for pair in ranges[:MAX_RANGES] for value in pair])


def decode_ranges(body: bytes, origin: int) -> list[tuple[int, int]] | None:
    """The ranges of an acknowledgement, ascending and apart; None if the body is not that."""
    if body == b"[]":
        return []
    try:
        flat = orjson.loads(body)
    except ValueError:
        return None
    if flat.__class__ is not list or not flat or len(flat) % 2 or len(flat) > 2 * MAX_RANGES:
        return None
    if set(map(type, flat)) != {int} or flat[0] <= 0 or flat[-1] >= _LIMIT or not all(map(lt, flat, flat[1:])):
        return None
    return [(origin + start, origin + stop) for start, stop in zip(flat[::2], flat[1::2], strict=True)]


def decode_members(body: bytes) -> list[str] | None:
    """The endpoint ids of an "open"; None if the body is not a list of strings."""
    try:
        members = orjson.loads(body)
    except ValueError:
        return None
    if members.__class__ is not list or not all(member.__class__ is str for member in members):
        return None
    return list(members)
