"""`glue play`: publishes the messages of a trace again on a live network, timed as they were, from a new endpoint.

A trace is captured datagrams (pcap, pcapng) or a recording of topics (MCAP). The command needs no Spark: the standard
library reads captures, and glue's own layers decode the datagrams. Every message is published once, even if it was
resent, repeated or captured at several points. Messages of shared state (`$glue/…`) are left out, because they only
make sense to its members.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson

import glue
from glue import codecs
from glue.cmd import common
from glue.cmd.output import CommandOutput, printable
from glue.cmd.played import Playable, Source, Trace, network_of, open_source
from glue.cmd.progress import Progress
from glue.cmd.session import open_endpoint, publish
from glue.settings import effective

LISTEN_FIRST = 1.0
"""Seconds to listen before the first message, so that present endpoints are known: one announcement."""
FLUSH_TIMEOUT = 10.0
PROGRESS_INTERVAL = 0.5  # seconds


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("play", "Publish the messages of a trace again, timed as they were captured.")
    made.add_argument("captures", nargs="+", metavar="FILE", help="pcap or pcapng files, also gzip; or MCAP files")
    group = made.add_argument_group("playing")
    group.add_argument(
        "--speed", type=common.rate, default=1.0, metavar="N",
        help="times as fast as it was, 0: as fast as possible (default: 1)",
    )  # fmt: skip
    group.add_argument("--seek", type=common.rate, default=0.0, metavar="SECONDS", help="begin so far into the trace")
    group.add_argument(
        "--loop", type=common.rounds, default=1, metavar="ROUNDS", help="play it so often, 0: for ever (default: 1)"
    )
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


@dataclass
class Played:
    """The counts and times of what was published so far."""

    messages: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Of the trace, in all rounds."""
    behind: float = 0.0
    """The longest delay of a message after its time, in seconds."""
    left_out: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    """Messages that could not be played, by cause."""
    faults: list[tuple[str, str]] = field(default_factory=list)


class ReplayProgress:
    """Shows progress on the terminal, and to programs by an event now and then."""

    def __init__(self, output: CommandOutput, line: Progress) -> None:
        self._output = output
        self._line = line
        self._next = 0.0

    def wait(self, topic: str) -> None:
        """Show that subscribers of a topic are waited for."""
        self._line.tell(f"waiting for subscribers of {printable(topic)}")

    def tell(self, played: Played, share: float) -> None:
        """Show the progress, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PROGRESS_INTERVAL
        self._line.tell(f"{played.seconds:,.1f} s of the trace  {played.messages:,} messages", share)
        self._output.event("progress", share=share, messages=played.messages, bytes=played.bytes)


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Play until the trace or the command ends."""
    settings = effective(common.settings_from(arguments))
    played = Played()
    with ExitStack() as stack:
        with output.progress("opening"):
            source = open_source(stack, arguments, settings)
        with open_endpoint(arguments, output, quiet=True) as endpoint:
            files = " ".join(arguments.captures)
            text = f"playing {files} as {endpoint.name}; Ctrl-C ends"
            output.event("playing", output.style("dim", text), files=arguments.captures, speed=arguments.speed)
            with output.progress("playing") as line, common.until_ended(arguments.duration):
                progress = ReplayProgress(output, line)
                for number in count(1):
                    try:
                        play(endpoint, source, arguments, played, progress)
                    finally:
                        note(source, played)
                    if number == arguments.loop or not played.messages:
                        break
                    stack.close()
                    source = open_source(stack, arguments, settings)
                common.wait_for(endpoint.flush, FLUSH_TIMEOUT)
    network_id = network_of(arguments, settings) if isinstance(source, Trace) else None
    sealed = source.sealed if isinstance(source, Trace) else 0
    return report(arguments, output, played, network_id, sealed, settings.key)


def note(source: Source, played: Played) -> None:
    """Add what a round left out to the counts."""
    played.left_out += source.left_out
    played.counters += source.counters()
    played.faults = source.faults()


def play(
    endpoint: glue.Endpoint, source: Source, arguments: argparse.Namespace, played: Played, progress: ReplayProgress
) -> None:
    """Publish every message of one round when its time has come."""
    speed, began, first_ns, before = arguments.speed, 0.0, 0, played.seconds
    for message in source:
        try:
            payload, codec = payload_of(message)
        except Exception as error:  # of a codec, too
            played.counters[cause_of(error)] += 1
            continue
        if not first_ns:
            first_ns = message.time_ns
            if not played.messages:
                progress.wait(message.topic)
                wait_for_listeners(endpoint, message.topic, arguments.wait_for)
            began = time.monotonic()
        seconds = (message.time_ns - first_ns) / 1e9
        due = began + seconds / speed if speed else began
        progress.tell(played, source.share)
        while (left := due - time.monotonic()) > 0:
            common.pause(min(left, PROGRESS_INTERVAL))
            progress.tell(played, source.share)
        publish(
            endpoint, message.topic, payload, type=message.type, retain=message.retain, lifespan=message.lifespan,
            reliability="reliable" if message.reliable else "best-effort", codec=codec,
            properties=message.properties or None,
        )  # fmt: skip
        played.messages += 1
        played.bytes += len(message.payload)
        played.seconds = before + seconds
        played.behind = max(played.behind, time.monotonic() - due if speed else 0.0)


def payload_of(message: Playable) -> tuple[Any, str | None]:
    """Return the value to publish, and the name of its codec. Raises whatever its codec raises."""
    if message.codec is not None:
        codec = codecs.codec_of_tag(message.codec)
        return codec.decode(message.payload), codec.name
    return orjson.loads(message.payload) if message.json else message.payload, None


def cause_of(error: Exception) -> str:
    """Return why a message cannot be played."""
    if isinstance(error, glue.MissingExtraError | codecs.UnknownCodecError):
        return f"payloads without their codec: {error}"
    return "payloads that are not what they say"


def wait_for_listeners(endpoint: glue.Endpoint, topic: str, count: int | None) -> None:
    """Wait for subscribers of the first topic, or for one announcement."""
    if count is None:
        common.pause(LISTEN_FIRST)
    else:
        common.wait_for(lambda timeout: endpoint.wait_for_subscribers(topic, count, timeout))


def report(
    arguments: argparse.Namespace,
    output: CommandOutput,
    played: Played,
    network_id: int | None,
    sealed: int,
    key: str | None,
) -> int:
    """Report what was played and what was not; returns the exit code.

    `network_id`: that of captured datagrams; `sealed`: how many frames `key` did not open.
    """
    counts = {cause: count for cause, count in sorted(played.counters.items()) if count}
    text = f"{played.messages:,} messages, {played.bytes:,} bytes, of {played.seconds:,.1f} s; "
    text += f"at most {played.behind * 1e3:,.0f} ms late"
    output.event(
        "played", text, messages=played.messages, bytes=played.bytes, seconds=played.seconds, behind=played.behind,
        left_out=played.left_out, counters=counts,
    )  # fmt: skip
    for path, fault in played.faults:
        told = f"{path}: read up to a fault: {fault}"
        output.event("fault", output.style("yellow", told), file=path, fault=fault)
    if not played.messages and not played.left_out:
        where = "" if network_id is None else f" of network {network_id}"
        more = "" if network_id is None else "; --trace-network-id names another"
        if sealed:
            cure = f"{key} does not open them" if key is not None else "name their key with --key"
            more = f"; {sealed:,} frames of it are sealed: {cure}"
        after = " after --seek" if arguments.seek else ""
        output.event("nothing", f"there is no message{where} in it{after}{more}", network_id=network_id)
        return common.FAILURE
    return common.SUCCESS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
