"""`glue play`: publishes the messages of a trace again on a live network, timed as they were, from a new endpoint.

The command needs no Spark: the standard library reads the trace, and glue's own layers decode its datagrams. Every
message is published once, even if it was resent, repeated or captured at several points. Messages of shared state
(`$glue/…`) are left out, because they only make sense to its members.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import orjson

import glue
from glue.capture.messages import Messages, Published
from glue.capture.ordering import ordered
from glue.capture.packets import payload_of
from glue.capture.reading import Capture
from glue.cmd import common
from glue.cmd.output import CommandOutput
from glue.cmd.session import open_endpoint, publish
from glue.endpoint.core import check_not_reserved, id_of
from glue.settings import effective
from glue.topics import check_pattern
from glue.topics.index import Index

LISTEN_FIRST = 1.0
"""Seconds to listen before the first message, so that present endpoints are known: one announcement."""
FLUSH_TIMEOUT = 10.0
PROGRESS_INTERVAL = 0.5  # seconds


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("play", "Publish the messages of a trace again, timed as they were captured.")
    made.add_argument("captures", nargs="+", metavar="FILE", help="pcap or pcapng files, also gzip")
    group = made.add_argument_group("playing")
    group.add_argument(
        "--speed", type=common.rate, default=1.0, metavar="N",
        help="times as fast as it was, 0: as fast as possible (default: 1)",
    )  # fmt: skip
    group.add_argument(
        "--topics", action="append", metavar="PATTERN", help="only these; may be given repeatedly (default: '#')"
    )
    group.add_argument(
        "--publisher", action="append", metavar="NAME", help="only what this endpoint published; likewise"
    )
    group.add_argument("--capture-point", metavar="NAME", help="only what was captured there (default: anywhere)")
    group.add_argument("--trace-network-id", type=int, metavar="NUMBER", help="of the trace (default: that to play on)")
    group.add_argument(
        "--wait-for", type=common.count, metavar="SUBSCRIBERS",
        help="play nothing before so many others subscribe to the first topic (default: listen for a second)",
    )  # fmt: skip
    return made


class Trace:
    """The messages of some captures that the options select."""

    def __init__(
        self, captures: Sequence[Capture], arguments: argparse.Namespace, network_id: int, message_limit: int
    ) -> None:
        """Raises TopicError for a bad pattern."""
        self.captures = captures
        self.network_id = network_id
        self.messages = Messages(network_id, message_limit)
        self.left_out = 0
        """Messages that the options left out."""
        self._point = arguments.capture_point
        self._publishers = {identity for name in arguments.publisher or () for identity in (name, id_of(name))}
        self._wanted: Index[str] = Index()
        for pattern in arguments.topics or ("#",):
            check_pattern(pattern)
            check_not_reserved(pattern)
            self._wanted.add(pattern, pattern)

    def __iter__(self) -> Iterator[Published]:
        for message in ordered(self._published()):
            named = self.messages.names.get(message.publisher)
            by = not self._publishers or message.publisher in self._publishers or named in self._publishers
            if by and self._wanted.match(message.topic):
                yield message
            else:
                self.left_out += 1

    def _published(self) -> Iterator[Published]:
        for frame in heapq.merge(*self.captures, key=lambda frame: frame.time_ns):
            common.check()
            if self._point is None or frame.point == self._point:
                datagram = payload_of(frame.data, frame.link)
                if datagram is not None and datagram.startswith(b"{"):
                    yield from self.messages.read(frame.time_ns, datagram)

    @property
    def share(self) -> float:
        """The part of the files that was read, 0 to 1."""
        return sum(capture.position for capture in self.captures) / max(1, sum(one.size for one in self.captures))


@dataclass
class Played:
    """The counts and times of what was published so far."""

    messages: int = 0
    bytes: int = 0
    first_ns: int = 0
    latest_ns: int = 0
    behind: float = 0.0
    """The longest delay of a message after its time, in seconds."""


class ReplayProgress:
    """Shows progress: on a terminal a line that is overwritten, else an event now and then."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output
        self._next = 0.0

    def tell(self, played: Played, share: float) -> None:
        """Show the progress, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PROGRESS_INTERVAL
        if self._output.interactive:
            at = (played.latest_ns - played.first_ns) / 1e9
            self._output.write(f"\r{share:4.0%}  {at:,.1f} s of the trace  {played.messages:,} messages \x1b[K")
        else:
            self._output.event("progress", share=share, messages=played.messages, bytes=played.bytes)

    def end(self) -> None:
        """Clear the line."""
        if self._output.interactive:
            self._output.write("\r\x1b[K")


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Play until the trace or the command ends."""
    settings = effective(common.settings_from(arguments))
    network_id = settings.network_id if arguments.trace_network_id is None else arguments.trace_network_id
    played, progress = Played(), ReplayProgress(output)
    with ExitStack() as stack:
        captures = [stack.enter_context(closing(Capture(path))) for path in arguments.captures]
        trace = Trace(captures, arguments, network_id, settings.message_limit)
        with open_endpoint(arguments, output, quiet=True) as endpoint:
            files = " ".join(arguments.captures)
            text = f"playing {files} as {endpoint.name}; Ctrl-C ends"
            output.event("playing", output.style("dim", text), files=arguments.captures, speed=arguments.speed)
            with common.until_ended(arguments.duration):
                play(endpoint, trace, arguments, played, progress)
                common.wait_for(endpoint.flush, FLUSH_TIMEOUT)
            progress.end()
    return report(output, trace, played)


def play(
    endpoint: glue.Endpoint, trace: Trace, arguments: argparse.Namespace, played: Played, progress: ReplayProgress
) -> None:
    """Publish every message when its time has come."""
    speed, began = arguments.speed, 0.0
    for message in trace:
        try:
            payload = orjson.loads(message.payload) if message.json else message.payload
        except ValueError:
            trace.messages.statistics["payloads that are not the JSON they say"] += 1
            continue
        if not played.messages:
            played.first_ns = message.time_ns
            wait_for_listeners(endpoint, message.topic, arguments.wait_for)
            began = time.monotonic()
        due = began + (message.time_ns - played.first_ns) / 1e9 / speed if speed else began
        progress.tell(played, trace.share)
        while (left := due - time.monotonic()) > 0:
            common.pause(min(left, PROGRESS_INTERVAL))
            progress.tell(played, trace.share)
        publish(
            endpoint, message.topic, payload, type=message.type, retain=message.retain, lifespan=message.lifespan,
            reliability="reliable" if message.reliable else "best-effort",
        )  # fmt: skip
        played.messages += 1
        played.bytes += len(message.payload)
        played.latest_ns = message.time_ns
        played.behind = max(played.behind, time.monotonic() - due if speed else 0.0)


def wait_for_listeners(endpoint: glue.Endpoint, topic: str, count: int | None) -> None:
    """Wait for subscribers of the first topic, or for one announcement."""
    if count is None:
        common.pause(LISTEN_FIRST)
    else:
        common.wait_for(lambda timeout: endpoint.wait_for_subscribers(topic, count, timeout))


def report(output: CommandOutput, trace: Trace, played: Played) -> int:
    """Report what was played and what was not; returns the exit code."""
    seconds = (played.latest_ns - played.first_ns) / 1e9
    counts = {cause: count for cause, count in sorted(trace.messages.counters().items()) if count}
    text = f"{played.messages:,} messages, {played.bytes:,} bytes, of {seconds:,.1f} s; "
    text += f"at most {played.behind * 1e3:,.0f} ms late"
    output.event(
        "played", text, messages=played.messages, bytes=played.bytes, seconds=seconds, behind=played.behind,
        left_out=trace.left_out, counters=counts,
    )  # fmt: skip
    for capture in trace.captures:
        if capture.fault is not None:
            told = f"{capture.path}: read up to a fault: {capture.fault}"
            output.event("fault", output.style("yellow", told), file=str(capture.path), fault=capture.fault)
    if not played.messages and not trace.left_out:
        text = f"there is no message of network {trace.network_id} in it; --trace-network-id names another"
        output.event("nothing", text, network_id=trace.network_id)
        return common.FAILURE
    return common.SUCCESS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
