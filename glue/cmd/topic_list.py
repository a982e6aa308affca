"""`glue topics --list`: every topic on the network, with types, publishers, subscribers and rates.

The list listens to all topics for some seconds. Subscriptions, announced publishers and announced types also show
topics, or patterns of topics, on which nothing is published meanwhile.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

import glue
from glue.cmd import common
from glue.cmd.output import CommandOutput, printable, table
from glue.cmd.session import open_endpoint
from glue.schema import PUBLISH, SUBSCRIBE
from glue.topics.index import Index

LISTEN = 3.0
"""Seconds to listen, unless `--duration` says so."""
TOPICS = 10_000
"""Topics that are listed, at some 500 bytes each: 5 MB."""
SHOWN = 3
"""Names in a column that people are shown."""

ROLES = {PUBLISH: "publisher", SUBSCRIBE: "subscriber"}
"""Roles by the way in which types are announced."""


class Announced(NamedTuple):
    """One announcement of an endpoint."""

    pattern: str
    kind: str
    """ "publisher" or "subscriber"."""
    name: str
    """The name of the endpoint."""
    type: str = ""
    """The type of the messages, if it is announced."""


class Heard:
    """The messages, publishers and codecs received on one topic."""

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.publishers: dict[str, None] = {}
        self.codecs: dict[str, None] = {}


class Listener:
    """Counts messages by topic."""

    def __init__(self) -> None:
        self.topics: dict[str, Heard] = {}
        self.left_out = 0
        self._lock = threading.Lock()

    def __call__(self, message: glue.Message) -> None:
        with self._lock:
            heard = self.topics.get(message.topic)
            if heard is None:
                if len(self.topics) >= TOPICS:
                    self.left_out += 1
                    return
                heard = self.topics[message.topic] = Heard()
            if not message.retained:
                heard.messages += 1
                heard.bytes += size_of(message)
            heard.publishers[message.publisher] = None
            if message.codec is not None:
                heard.codecs[message.codec] = None


def size_of(message: glue.Message) -> int:
    """Bytes of the payload as it travelled."""
    payload = message.payload if message.encoded is None else message.encoded
    return len(payload if isinstance(payload, bytes) else orjson.dumps(payload))


class Roles:
    """Publishers and subscribers of topics and patterns, as endpoints announce them."""

    def __init__(self) -> None:
        self._present: set[tuple[str, str, str]] = set()  # kind, pattern, name of the endpoint
        self._lock = threading.Lock()

    def __call__(self, change: glue.Presence) -> None:
        if change.kind in ("publisher", "subscriber"):
            role = change.kind, change.pattern, change.name
            with self._lock:
                (self._present.add if change.present else self._present.discard)(role)

    def all(self) -> list[Announced]:
        """Return the present announcements."""
        with self._lock:
            return [Announced(pattern, kind, name) for kind, pattern, name in self._present]


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Listen, and then list."""
    listener, roles = Listener(), Roles()
    with open_endpoint(arguments, output, quiet=True) as endpoint:
        endpoint.watch_presence("#", roles)
        endpoint.subscribe("#", listener)
        began = time.monotonic()
        listen = arguments.duration or LISTEN
        with output.progress("listening", listen), common.until_ended(listen):
            common.wait_for_end()
        seconds = time.monotonic() - began
        rows = entries(endpoint, listener, roles, seconds)
    lines = table([["topic", "type", "publishers", "subscribers", "messages/s"], *map(shown, rows)])
    if listener.left_out:
        lines.append(f"{listener.left_out} messages on further topics are left out")
    output.event("topics", "\n".join(lines) if rows else "no topics", topics=rows, seconds=round(seconds, 3))
    return common.SUCCESS


def entries(endpoint: glue.Endpoint, listener: Listener, roles: Roles, seconds: float) -> list[dict[str, Any]]:
    """The list, for programs: a row for each topic with messages, and for each other topic or pattern in use."""
    name_of = endpoint._core.requests.name_of
    announced = roles.all()
    for peer, told in endpoint._core.types.directory:
        announced.append(Announced(told.pattern, ROLES[told.way], name_of(peer), told.label))
    index: Index[Announced] = Index()
    for one in announced:
        index.add(one.pattern, one)
    rows = []
    heard_of: set[str] = set()  # patterns with messages
    for topic, heard in sorted(listener.topics.items()):
        found = index.find(topic)
        heard_of.update(one.pattern for one in found)
        rows.append(row(topic, found, heard, seconds))
    silent: dict[str, list[Announced]] = {}
    for one in announced:
        if one.pattern not in heard_of:
            silent.setdefault(one.pattern, []).append(one)
    return rows + [row(pattern, silent[pattern], Heard(), seconds) for pattern in sorted(silent)[:TOPICS]]


def row(topic: str, announced: Iterable[Announced], heard: Heard, seconds: float) -> dict[str, Any]:
    """One row, for programs."""
    told = [*announced]
    return {
        "topic": topic,
        "types": sorted({one.type for one in told if one.type}),
        "publishers": sorted({*heard.publishers, *(one.name for one in told if one.kind == "publisher")}),
        "subscribers": sorted({one.name for one in told if one.kind == "subscriber"}),
        "codecs": sorted(heard.codecs),
        "rate": round(heard.messages / seconds, 3),
        "bytes_rate": round(heard.bytes / seconds, 1),
    }


def shown(entry: dict[str, Any]) -> list[str]:
    """One row, for people."""
    columns = [_some(entry["types"] or entry["codecs"]), _some(entry["publishers"]), _some(entry["subscribers"])]
    return [printable(entry["topic"]), *columns, f"{entry['rate']:.1f}"]


def _some(names: list[str]) -> str:
    more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*(printable(name, 40) for name in names[:SHOWN]), *more])
