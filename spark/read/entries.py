"""The names of all fields of header entries: by layer, and by kind, which is "" where there is none.

Written by `python -m glue.capture.entries`.
"""

from __future__ import annotations

VERSION = 1
LARGEST_HEADER = 192
LIMIT = 1 << 53
"""Integers on the wire are below this."""

ENTRIES: dict[str, dict[str, tuple[str, ...]]] = {
    "glue": {
        "": (
            "version",
            "network",
            "sender",
            "incarnation",
            "counter",
        ),
    },
    "discovery": {
        "announce": (
            "token",
            "echo",
            "epoch",
            "version",
            "known",
            "kind",
        ),
        "call": (
            "token",
            "echo",
            "epoch",
            "version",
            "known",
            "kind",
        ),
        "answer": (
            "token",
            "echo",
            "epoch",
            "version",
            "known",
            "kind",
        ),
        "probe": (
            "token",
            "echo",
            "epoch",
            "version",
            "called",
            "kind",
        ),
        "want": (
            "token",
            "echo",
            "epoch",
            "version",
            "kind",
        ),
        "operations": (
            "token",
            "echo",
            "epoch",
            "version",
            "kind",
        ),
        "introduce": (
            "token",
            "echo",
            "epoch",
            "version",
            "kind",
        ),
        "examine": (
            "token",
            "echo",
            "epoch",
            "version",
            "kind",
        ),
        "goodbye": (
            "token",
            "echo",
            "epoch",
            "version",
            "kind",
        ),
        "path": (
            "token",
            "echo",
            "epoch",
            "version",
            "kind",
        ),
    },
    "transport": {
        "data": (
            "kind",
            "attempt",
            "age_ms",
            "ack_channel",
            "ack_next",
            "ack_held_us",
            "channel",
            "sequence",
        ),
        "group": (
            "kind",
            "attempt",
            "age_ms",
            "ack_channel",
            "ack_next",
            "ack_held_us",
            "channel",
            "sequence",
        ),
        "open": (
            "kind",
            "channel",
        ),
        "skip": (
            "kind",
            "channel",
            "sequence",
        ),
        "ack": (
            "kind",
            "held_us",
            "window",
            "channel",
            "next",
        ),
        "mended": (
            "kind",
            "mended",
            "held_us",
            "window",
            "channel",
            "next",
        ),
        "parity": (
            "kind",
            "age_ms",
            "channel",
            "first",
            "count",
            "row",
        ),
        "best": (
            "kind",
            "age_ms",
            "sequence",
        ),
        "wake": (
            "kind",
            "cycle",
        ),
        "waited": (
            "kind",
            "cycle",
            "waited",
            "dropped",
        ),
    },
    "fragment": {
        "": (
            "message",
            "size",
            "total",
            "index",
        ),
    },
}
