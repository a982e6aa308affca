"""`glue topics --list`: every topic on the network, with types, publishers, subscribers and rates.

The list listens to all topics for some seconds. Types come from the announcements of typed topics, which also show
topics on which nothing is published meanwhile.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterable
from typing import Any

import glue
from glue.cmd import common
from glue.cmd.output import CommandOutput, printable, table
from glue.cmd.session import open_endpoint
from glue.requests.directory import matches
from glue.schema import PUBLISH, SUBSCRIBE, AnnouncedType
from glue.topics.names import is_wildcard

LISTEN = 3.0
"""Seconds to listen, unless `--duration` says so."""
TOPICS = 10_000
"""Topics that are listed, at some 500 bytes each: 5 MB."""
SHOWN = 3
"""Names in a column that people are shown."""

Types = list[tuple[str, AnnouncedType]]
"""Announced types with the names of their endpoints."""


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
                size = message.delivery.length
                heard.bytes += size or (len(message.payload) if isinstance(message.payload, bytes) else 0)
            heard.publishers[message.publisher] = None
            if message.codec is not None:
                heard.codecs[message.codec] = None


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Listen, and then list."""
    listener = Listener()
    with open_endpoint(arguments, output, quiet=True) as endpoint:
        endpoint.subscribe("#", listener)
        began = time.monotonic()
        with common.until_ended(arguments.duration or LISTEN):
            common.wait_for_end()
        seconds = time.monotonic() - began
        rows = entries(endpoint, listener, seconds)
    lines = table([["topic", "type", "publishers", "subscribers", "messages/s"], *map(shown, rows)])
    if listener.left_out:
        lines.append(f"{listener.left_out} messages on further topics are left out")
    output.event("topics", "\n".join(lines) if rows else "no topics", topics=rows, seconds=round(seconds, 3))
    return common.SUCCESS


def entries(endpoint: glue.Endpoint, listener: Listener, seconds: float) -> list[dict[str, Any]]:
    """The list, for programs: a row for each topic, and for each typed pattern without messages."""
    core = endpoint._core
    name_of = core.requests.name_of
    types: Types = [(name_of(peer), told) for peer, told in core.types.directory]
    rows = []
    for topic, heard in sorted(listener.topics.items()):
        told = [(name, one) for name, one in types if matches(one.pattern, topic)]
        subscribers = {*map(name_of, core.subscribers(topic)), *names_of(told, SUBSCRIBE)}
        publishers = {*heard.publishers, *names_of(told, PUBLISH)}
        rows.append(row(topic, told, publishers, subscribers, heard, seconds))
    shown_patterns = {
        one.pattern for _, one in types if not any(matches(one.pattern, topic) for topic in listener.topics)
    }
    for pattern in sorted(shown_patterns):
        told = [(name, one) for name, one in types if one.pattern == pattern]
        subscribers = {*names_of(told, SUBSCRIBE)}
        if not is_wildcard(pattern):
            subscribers.update(map(name_of, core.subscribers(pattern)))
        rows.append(row(pattern, told, {*names_of(told, PUBLISH)}, subscribers, Heard(), seconds))
    return rows


def names_of(types: Types, way: str) -> Iterable[str]:
    """Names of the endpoints that announce this way."""
    return [name for name, told in types if told.way == way]


def row(
    topic: str, types: Types, publishers: set[str], subscribers: set[str], heard: Heard, seconds: float
) -> dict[str, Any]:
    """One row, for programs."""
    return {
        "topic": topic,
        "types": sorted({told.label for _, told in types}),
        "publishers": sorted(publishers),
        "subscribers": sorted(subscribers),
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
