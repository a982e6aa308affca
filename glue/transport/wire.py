"""The transport's entries in the header, key "transport": declared here, and checked once where they enter.

Channels count from 1, sequences from 0. `age_ms` is the time since the message was handed to transport, and `attempt`
counts resends. `held_us` is the time since the newest acknowledged frame came. All sequences below `next` are
acknowledged. A window counts the frames from `next` on that the receiver will take. Data to one peer carries an
acknowledgement in the fields `ack_...`, without ranges. This acknowledgement promises the full WINDOW; a channel of 0
stands for no acknowledgement.
"""

from __future__ import annotations

from operator import lt
from typing import Any

import orjson

from glue.contract.header import INTEGER_LIMIT, Field, HeaderEntry, by_kind

KEY = "transport"
WINDOW = 4096  # frames: 5.9 MB of datagrams, more than the largest congestion window of a sender
MAX_RANGES = 100  # of an acknowledgement: 200 numbers up to WINDOW, a comma after each, are 1,000 bytes: one frame
MAX_HELD_US = 99_999  # also stands for anything longer
MAX_AGE_MS = 99_999_999  # 28 hours
MAX_ATTEMPT = 999

ATTEMPT = Field("attempt", most=MAX_ATTEMPT)
AGE = Field("age_ms", most=MAX_AGE_MS)
HELD = Field("held_us", most=MAX_HELD_US)
CHANNEL = Field("channel", most=10**8 - 1)
SEQUENCE = Field("sequence", most=10**14 - 1)

DATA = HeaderEntry(
    KEY, "data", ATTEMPT, AGE,
    Field("ack_channel"), Field("ack_next"), Field("ack_held_us", most=MAX_HELD_US),
    CHANNEL, SEQUENCE,
    longest=59,
)  # fmt: skip
"""Frames to one peer. A frame carries an acknowledgement only where the entry is not too long then, and never without
room for a digit by which the sequence may grow within a run (see `Acknowledger.carry`)."""
GROUP = HeaderEntry(
    KEY, "group", ATTEMPT, AGE,
    Field("ack_channel", most=0), Field("ack_next", most=0), Field("ack_held_us", most=0),
    CHANNEL, SEQUENCE,
)  # fmt: skip
"""Frames to the members of a channel; the fields are those of DATA."""
OPEN = HeaderEntry(KEY, "open", Field("channel"), lone=True)
"""The body is a JSON list of the endpoint ids that are members of the channel."""
SKIP = HeaderEntry(KEY, "skip", Field("channel"), Field("sequence"), lone=True)
"""Whatever is missing below the sequence was given up: go on from there."""
ACK = HeaderEntry(KEY, "ack", HELD, Field("window", most=WINDOW), Field("channel"), Field("next"), lone=True)
"""The body is a JSON list [start, stop, ...] of ranges that have come beyond `next`."""
MENDED = HeaderEntry(
    KEY, "mended", Field("mended"), HELD, Field("window", most=WINDOW), Field("channel"), Field("next"), lone=True
)
"""An ACK, and how many frames of the channel FEC has recovered so far."""
PARITY = HeaderEntry(
    KEY, "parity", AGE, Field("channel"), Field("first"), Field("count", most=64), Field("row", most=31), lone=True
)
"""The body is a repair symbol over `count` frames from `first` on (see `glue.transport.fec.code`)."""
BEST = HeaderEntry(KEY, "best", AGE, SEQUENCE)
"""Best effort: never acknowledged, never resent."""
WAKE = HeaderEntry(KEY, "wake", Field("cycle"), lone=True)
"""The sender has woken up, and asks for what waited for it."""
WAITED = HeaderEntry(KEY, "waited", Field("cycle"), Field("waited"), Field("dropped"), lone=True)
"""So many messages waited for a receiver that has woken up, or were given up. The body is a JSON list
[channel, sequence, ...]: all has come once every frame below these sequences has."""

_ACKNOWLEDGED = "held_us", "window", "channel", "next"
ACKNOWLEDGED = {"ack": ACK.getter(*_ACKNOWLEDGED), "mended": MENDED.getter(*_ACKNOWLEDGED)}
"""What takes held time, window, channel and next frame out of an acknowledgement, by its kind."""

ENTRIES = by_kind(DATA, GROUP, OPEN, SKIP, ACK, MENDED, PARITY, BEST, WAKE, WAITED)


def checked(entry: Any) -> str | None:
    """The kind of a well-formed entry: right length, integers in range; None for any other."""
    if entry.__class__ is not list or not entry or entry[0].__class__ is not str:
        return None
    declared = ENTRIES.get(entry[0])
    return declared.kind if declared is not None and declared.fits(entry) else None


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
    if set(map(type, flat)) != {int} or flat[0] <= 0 or flat[-1] >= INTEGER_LIMIT or not all(map(lt, flat, flat[1:])):
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
