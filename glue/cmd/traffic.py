"""Numbered messages: the common part of the commands `topics`, `transport` and `fragmentation`.

Each of these subscribes to a topic and, with `--send-messages`, publishes to it too. A message holds its number and its
sender. A message of a given size is padded and begins with a checksum, so a receiver can check that it is whole.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import count as count_up
from typing import Any

import glue
from glue.cmd import common
from glue.cmd.output import CommandOutput, printable
from glue.cmd.session import open_endpoint, publish
from glue.cmd.tally import Tally
from glue.endpoint.core import PRIORITIES
from glue.errors import ConfigurationError
from glue.spying.fields import brief
from glue.topics import check_topic

LISTEN_FIRST = 1.0
"""Seconds to listen before the first message, so that present endpoints are known: one announcement."""
FLUSH_TIMEOUT = 10.0
OWN_INTERVAL = 0.01
CHECKSUM_LENGTH = 8

Show = Callable[[glue.Message], None]
"""Shows a received message."""


def traffic_parser(name: str, description: str, topic: str, rate: float, size: int | None = None) -> common.Parser:
    """Return a parser with the options for sending."""
    parser = common.common_parser(name, description)
    group = parser.add_argument_group("messages")
    group.add_argument("--topic", default=topic, help="topic to listen to and to publish to (default: %(default)s)")
    group.add_argument("--send-messages", action="store_true", help="publish numbered messages")
    group.add_argument(
        "--rate",
        type=common.rate,
        default=rate,
        help="messages a second, 0: as fast as possible (default: %(default)g)",
    )
    group.add_argument(
        "--count",
        type=common.count,
        help="send this many; without --duration the command then ends, once all of them are acknowledged",
    )
    default = f"{size:,} bytes" if size is not None else "a short text"
    group.add_argument(
        "--size", type=common.size, default=size, help=f"bytes a message, as 64 or 10MB (default: {default})"
    )
    group.add_argument("--priority", choices=tuple(PRIORITIES), default="normal", help="the class of the messages")
    group.add_argument(
        "--wait-for",
        type=common.count,
        metavar="SUBSCRIBERS",
        help="send nothing before so many other endpoints subscribe to the topic (default: listen for a second)",
    )
    return parser


def exchange(
    arguments: argparse.Namespace, output: CommandOutput, show: Show, retain: bool = False
) -> Mapping[str, Any]:
    """Listen, and publish if asked to, until the command ends; then report the counts.

    Returns the endpoint's statistics, by layer.
    """
    if arguments.send_messages:
        check_topic(arguments.topic)
    tally = Tally()

    def receive(message: glue.Message) -> None:
        if trouble := tally.add(message):
            text = output.style("red", f"! {printable(message.publisher)} {trouble}")
            output.event("trouble", text, publisher=message.publisher, topic=message.topic, trouble=trouble)
        show(message)

    with open_endpoint(arguments, output) as endpoint:
        endpoint.subscribe(arguments.topic, receive)
        with common.until_ended(arguments.duration):
            if arguments.send_messages:
                send(endpoint, arguments, output, retain)
                await_own(endpoint, arguments.count, tally)
            if not arguments.send_messages or arguments.duration is not None:
                common.wait_for_end()
        statistics = endpoint.statistics
    output.event("received", "\n".join(["", *tally.lines()]), streams=tally.fields())
    return statistics


def send(endpoint: glue.Endpoint, arguments: argparse.Namespace, output: CommandOutput, retain: bool) -> None:
    """Publish the numbered messages; returns once the last of them is acknowledged."""
    if (limit := endpoint.settings.message_limit) < (arguments.size or 0):
        raise ConfigurationError(f"--size {arguments.size}: message_limit is {limit} bytes")
    if arguments.wait_for is None:
        common.pause(LISTEN_FIRST)
    else:
        with output.progress(f"waiting for {arguments.wait_for} subscribers"):
            common.wait_for(lambda timeout: endpoint.wait_for_subscribers(arguments.topic, arguments.wait_for, timeout))
    for number in common.paced(arguments.rate, arguments.count):
        publish(
            endpoint,
            arguments.topic,
            numbered(endpoint.name, number, arguments.size),
            retain=retain,
            priority=arguments.priority,
        )
        output.event("sent", topic=arguments.topic, number=number)
    with output.progress("waiting for acknowledgements", FLUSH_TIMEOUT):
        common.wait_for(endpoint.flush, FLUSH_TIMEOUT)


def await_own(endpoint: glue.Endpoint, count: int, tally: Tally) -> None:
    """Wait until this endpoint has received its own messages, all of which were sent."""
    give_up_at = time.monotonic() + FLUSH_TIMEOUT
    while tally.received_of(endpoint.id) < count and time.monotonic() < give_up_at:
        common.pause(OWN_INTERVAL)


def numbered(name: str, number: int, size: int | None) -> str | bytes:
    """Return a message with its number and sender. With `size`, it is padded and begins with a checksum."""
    text = f"message {number} from {name}"
    if size is None:
        return text
    body = f" {text} {filling(size)}".encode()[: max(0, size - CHECKSUM_LENGTH)]
    return (b"%08x%s" % (zlib.crc32(body), body))[:size]


def is_intact(payload: object) -> bool:
    """Whether a payload is a padded message, and whole."""
    if not isinstance(payload, bytes):
        return False
    checksum = b"%08x" % zlib.crc32(payload[CHECKSUM_LENGTH:])
    return payload[:CHECKSUM_LENGTH] == checksum[: len(payload)]


def size_of(payload: Any) -> int:
    """Return the bytes of a payload; for a value of another program, those of its text."""
    if isinstance(payload, bytes):
        return len(payload)
    try:
        return len(json.dumps(payload))
    except (TypeError, ValueError, RecursionError):  # what a codec decoded
        return len(brief(payload))


@lru_cache(maxsize=1)
def filling(size: int) -> str:
    """Return at least `size` characters that differ everywhere, so that swapped parts would be noticed."""
    numbers = count_up(1)
    parts: list[str] = []
    length = 0
    while length < size:
        parts.append(f"{next(numbers)} ")
        length += len(parts[-1])
    return "".join(parts)
