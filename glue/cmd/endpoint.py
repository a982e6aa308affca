"""`glue endpoint`: subscribe and publish from a shell.

    glue endpoint --subscribe 'home/#'                               show messages
    glue endpoint --subscribe 'jobs/#' --group workers               show this terminal's share of the messages
    glue endpoint --presence 'home/#'                                show what comes and goes
    glue endpoint --publish home/kitchen/temperature 21.5            publish, and end once it is acknowledged
    sensor | glue endpoint --lines                                   each line: a topic, a space, a payload

A payload that is JSON is published as JSON, any other as a string; with `--bytes` all are published as bytes. Messages
are shown in the form that `--lines` reads.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import glue
from glue.cmd import common
from glue.cmd.output import CommandOutput, payload_text, printable
from glue.cmd.session import open_endpoint, publish, report_message
from glue.endpoint.core import PRIORITIES
from glue.endpoint.receipt import WaitingReceipt
from glue.errors import ConfigurationError
from glue.topics import check_topic

SHOWN_LENGTH = 1 << 30
"""Characters of a payload that are shown: all, because another program may read the output."""
FLUSH_TIMEOUT = 10.0
NEWS_TIMEOUT = 1.0
NOBODY = "nobody subscribes to"
LEFT = "peer removed"  # most likely after the message came: some commands end with the last one shown


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("endpoint", "Subscribe and publish from a shell.", epilog=__doc__.split("\n", 2)[2])
    group = made.add_argument_group("subscribing")
    group.add_argument("--subscribe", action="append", default=[], metavar="PATTERN", help="may be given repeatedly")
    group.add_argument("--group", metavar="NAME", help="share the messages with the other members of this group")
    group.add_argument("--max-rate", type=common.positive_number, metavar="NUMBER", help="messages a second and topic")
    group.add_argument("--presence", metavar="PATTERN", help="show what publishes, subscribes or answers there")
    group.add_argument("--count", type=common.count, help="end after showing this many messages")
    group = made.add_argument_group("publishing")
    group.add_argument("--publish", action="append", default=[], nargs=2, metavar=("TOPIC", "PAYLOAD"))
    group.add_argument("--will", nargs=2, metavar=("TOPIC", "PAYLOAD"), help="is published if this process is lost")
    group.add_argument("--lines", action="store_true", help="publish each line of the standard input")
    group.add_argument("--bytes", action="store_true", help="publish payloads as bytes")
    group.add_argument("--type", help="the type tag of what is published")
    group.add_argument("--retain", action="store_true", help="late joiners get the last message of each topic")
    group.add_argument("--lifespan", type=common.positive_number, metavar="SECONDS", help="not to be delivered later")
    group.add_argument("--reliability", choices=("reliable", "best-effort"), default="reliable")
    group.add_argument("--priority", choices=tuple(PRIORITIES), default="normal", help="what goes first")
    group.add_argument(
        "--wait",
        type=common.rate,
        default=3.0,
        metavar="SECONDS",
        help="for the first subscriber (default: %(default)g)",
    )
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Publish the given payloads, and show messages until the command ends."""
    publishes = bool(arguments.publish or arguments.lines)
    shows = bool(arguments.subscribe or arguments.presence is not None)
    if not (shows or publishes):
        raise ConfigurationError("nothing to do: give --subscribe, --presence, --publish or --lines")
    result = common.SUCCESS
    with open_endpoint(arguments, output, quiet=True) as endpoint:
        show = Shown(output, arguments.count).add
        for pattern in arguments.subscribe:
            endpoint.subscribe(pattern, show, group=arguments.group, max_rate=arguments.max_rate)
        if arguments.presence is not None:
            endpoint.watch_presence(arguments.presence, partial(report_presence, output))
        if arguments.will is not None:
            endpoint.will(arguments.will[0], payload_of(arguments, arguments.will[1]), retain=arguments.retain)
        with common.until_ended(arguments.duration):
            if publishes:
                with output.progress("publishing", beside_lines=True):
                    result = publish_all(endpoint, arguments)
            if shows or arguments.duration is not None:
                common.wait_for_end()
    return result


class Shown:
    """Shows messages, and ends the command after `count` of them."""

    def __init__(self, output: CommandOutput, count: int | None) -> None:
        self._output = output
        self._numbers = itertools.count(1)
        self._count = count

    def add(self, message: glue.Message) -> None:
        """Show a message."""
        number = next(self._numbers)
        if self._count is None or number <= self._count:
            report_message(self._output, message, f"{printable(message.topic, SHOWN_LENGTH)} {shown(message.payload)}")
        if number == self._count:
            common.request_end()


def publish_all(endpoint: glue.Endpoint, arguments: argparse.Namespace) -> int:
    """Publish everything; returns an exit code.

    The code is FAILURE, with a reason on stderr, unless each message was acknowledged by a peer or is retained.
    """
    wait_until = time.monotonic() + arguments.wait
    is_reliable = arguments.reliability == "reliable"
    unheard: dict[str, str] = {}  # topics without a receiver, and what happened there
    receipts: deque[tuple[str, WaitingReceipt]] = deque()  # under way; queue_limit bounds their number
    for topic, text in publications(arguments):
        check_topic(topic)
        left = max(0.0, wait_until - time.monotonic())
        if not common.wait_for(partial(endpoint.wait_for_subscribers, topic, 1), left) and not is_reliable:
            unheard[topic] = NOBODY
        receipt = publish(
            endpoint,
            topic,
            payload_of(arguments, text),
            type=arguments.type,
            retain=arguments.retain,
            lifespan=arguments.lifespan,
            reliability=arguments.reliability,
            priority=arguments.priority,
            receipt=is_reliable,
        )
        if receipt is not None:
            receipts.append((topic, receipt))
            unheard |= unreceived(endpoint, receipts)
    is_acknowledged = common.wait_for(endpoint.flush, FLUSH_TIMEOUT)
    for _, receipt in receipts if is_acknowledged else ():
        receipt.wait(NEWS_TIMEOUT)  # the outcome is known one turn after the acknowledgement
    unheard |= unreceived(endpoint, receipts)
    stays = arguments.subscribe or arguments.presence or arguments.duration
    if unheard and not (arguments.retain and stays):
        hint = "; a retained value lasts as long as its endpoint: add --duration" if arguments.retain else ""
        told = ", ".join(f"{outcome} {printable(topic)}" for topic, outcome in sorted(unheard.items()))
        print(f"glue endpoint: {told}{hint}", file=sys.stderr)
        return common.FAILURE
    if not is_acknowledged:
        print(f"glue endpoint: not acknowledged within {FLUSH_TIMEOUT:g} seconds", file=sys.stderr)
        return common.FAILURE
    return common.SUCCESS


def payload_of(arguments: argparse.Namespace, text: str) -> Any:
    """Return the payload that a text stands for."""
    return text.encode() if arguments.bytes else parsed(text)


def report_presence(output: CommandOutput, change: glue.Presence) -> None:
    """Show what came or went."""
    sign, why = ("+", "") if change.present else ("-", change.reason)
    text = " ".join(filter(None, (sign, change.kind, printable(change.name), printable(change.pattern), why)))
    output.event("presence", text, kind=change.kind, name=change.name, pattern=change.pattern,
                 present=change.present, reason=change.reason)  # fmt: skip


def unreceived(endpoint: glue.Endpoint, receipts: deque[tuple[str, WaitingReceipt]]) -> dict[str, str]:
    """Remove the complete receipts, from the oldest on; returns the topics without a receiver, and why.

    A group receives without a receipt.
    """
    topics = {}
    while receipts and receipts[0][1].complete:
        topic, receipt = receipts.popleft()
        causes = {*receipt.lost.values()}
        has_group = not causes and endpoint.wait_for_subscribers(topic, 1, 0)
        if not (receipt.delivered or LEFT in causes or has_group):
            topics[topic] = f"nobody received ({', '.join(sorted(causes))})" if causes else NOBODY
    return topics


def publications(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield topics and payloads, from the command line and then from the standard input."""
    yield from arguments.publish
    if arguments.lines:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        while line := next_line():
            topic, _, text = line.rstrip("\r\n").partition(" ")
            if topic:
                yield topic, text


def next_line() -> str:
    """Return a line of the standard input, "" at its end."""
    with common.waiting():
        return sys.stdin.readline()


def parsed(text: str) -> Any:
    """Return the JSON value of a text, or the text itself if it is not JSON."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def shown(payload: Any) -> str:
    """Return a payload as text that `parsed` reads back: a string that looks like JSON is quoted."""
    if isinstance(payload, str) and parsed(payload) != payload:
        return json.dumps(payload)
    return payload_text(payload, SHOWN_LENGTH)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
