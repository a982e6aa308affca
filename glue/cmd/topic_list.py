"""`glue topics --list`: every topic on the network, with types, publishers, subscribers and rates.

The list samples all topics for some seconds, as `glue spy` does: it is no subscriber, and publishers send it a message
of each topic now and then. Subscriptions, announced publishers and announced types also show topics, or patterns of
topics, on which nothing is published meanwhile.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from typing import Any

from glue.cmd import common
from glue.cmd.output import CommandOutput, printable, table
from glue.cmd.session import open_endpoint
from glue.cmd.watching import Watch, publishers_of
from glue.spying.bus import Bus, Topic
from glue.spying.roles import Announced, Roles

LISTEN = 3.0
"""Seconds to listen, unless `--duration` says so."""
INTERVAL = 0.5
"""Seconds between two samples of a topic: a rate takes two of them."""
PATTERNS = 10_000
"""Topics and patterns without messages that are listed."""
SHOWN = 3
"""Names in a column that people are shown."""


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Listen, and then list."""
    with open_endpoint(arguments, output, quiet=True) as endpoint:
        watch = Watch(endpoint, "#", INTERVAL)
        began = time.monotonic()
        listen = arguments.duration or LISTEN
        with output.progress("listening", listen), common.until_ended(listen):
            common.wait_for_end()
        watch.note_types()
        now = time.monotonic()
        with watch.lock:
            rows, left_out = entries(watch.bus, watch.roles, now), watch.bus.left_out
    lines = table([["topic", "type", "publishers", "subscribers", "messages/s"], *map(shown, rows)])
    if left_out:
        lines.append(f"{left_out} samples of further topics are left out")
    output.event("topics", "\n".join(lines) if rows else "no topics", topics=rows, seconds=round(now - began, 3))
    return common.SUCCESS


def entries(bus: Bus, roles: Roles, now: float) -> list[dict[str, Any]]:
    """The list, for programs: a row for each topic with messages, and for each other topic or pattern in use."""
    heard = [row(topic.name, roles.of(topic.name), topic, roles, now) for _, topic in sorted(bus.topics.items())]
    known = {one.pattern for name in bus.topics for one in roles.of(name)}
    silent: dict[str, list[Announced]] = {}
    for one in roles:
        if one.pattern not in known and one.kind in ("publisher", "subscriber"):
            silent.setdefault(one.pattern, []).append(one)
    return heard + [row(pattern, silent[pattern], Topic(pattern), roles, now) for pattern in sorted(silent)[:PATTERNS]]


def row(name: str, announced: Iterable[Announced], topic: Topic, roles: Roles, now: float) -> dict[str, Any]:
    """One row, for programs."""
    told, rate = [*announced], topic.rate_at(now)
    return {
        "topic": name,
        "types": sorted({one.type for one in told if one.type}),
        "publishers": publishers_of(topic, roles),
        "subscribers": sorted({one.name for one in told if one.kind == "subscriber"}),
        "codecs": [topic.codec] if topic.codec else [],
        "rate": round(rate, 3),
        "bytes_rate": round(rate * topic.mean_size, 1),
    }


def shown(entry: dict[str, Any]) -> list[str]:
    """One row, for people."""
    columns = [_some(entry["types"] or entry["codecs"]), _some(entry["publishers"]), _some(entry["subscribers"])]
    return [printable(entry["topic"]), *columns, f"{entry['rate']:.1f}"]


def _some(names: Sequence[str]) -> str:
    more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*(printable(name, 40) for name in names[:SHOWN]), *more])
