"""`glue history`: show what publishers and keepers remember of some topics.

    glue history 'home/#'                       show everything that is remembered
    glue history 'home/#' --since -10m          only what was published in the last ten minutes
    glue history home/kitchen/lamp --last 5     only the last five messages of each topic and publisher
    glue history 'home/#' --follow              go on with live messages

Without `--follow`, the command ends when no message from before its start has come for a while (`--quiet-for`).
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any

import glue
from glue.cmd import common
from glue.cmd.endpoint import SHOWN_LENGTH, shown
from glue.cmd.output import CommandOutput, printable
from glue.cmd.session import open_endpoint, report_message


def since(text: str) -> str | int | datetime:
    """Return where to start: "earliest", a time ago, a number, or a time as in ISO 8601."""
    if text in ("earliest", "latest") or text.startswith("-"):
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected earliest, a time ago such as -10m, a number, or a time such as 2026-01-31T12:00"
        ) from None


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser(
        "history", "Show what publishers and keepers remember of some topics.", epilog=__doc__.split("\n", 2)[2]
    )
    made._negative_number_matcher = re.compile(r"-\d+[smhd]?")  # else argparse takes -10m for an option
    made.add_argument("pattern", metavar="PATTERN")
    begin = made.add_mutually_exclusive_group()
    begin.add_argument(
        "--since", type=since, default="earliest", metavar="WHEN",
        help="earliest, a time ago such as -10m (s, m, h, d), a time such as 2026-01-31T12:00, or a message's number",
    )  # fmt: skip
    begin.add_argument(
        "--last", type=common.count, metavar="COUNT", help="so many messages of each topic and publisher"
    )
    made.add_argument("--follow", action="store_true", help="go on with live messages")
    made.add_argument(
        "--quiet-for", type=common.positive_number, default=1.0, metavar="SECONDS",
        help="end when nothing older than the command has come for so long (default: %(default)g)",
    )  # fmt: skip
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Show history; the exit code is FAILURE if there is none, or messages are gone."""
    gaps: list[glue.Gap] = []
    with open_endpoint(arguments, output, quiet=True) as endpoint, common.until_ended(arguments.duration):
        endpoint.on_gap = gaps.append
        start: dict[str, Any] = {"start": arguments.since} if arguments.last is None else {"last": arguments.last}
        count = 0
        with (
            output.progress("reading", beside_lines=True) as progress,
            endpoint.subscribe(arguments.pattern, **start) as subscription,
        ):
            for message in read(subscription, None if arguments.follow else arguments.quiet_for):
                count += 1
                show(output, message)
                progress.tell(f"{count:,} messages")
    for gap in gaps:
        output.complaint(
            "gap", f"glue history: {gap.count} messages of {printable(gap.topic)} from {printable(gap.publisher)} are "
            f"missing: {gap.cause}",
            topic=gap.topic, publisher=gap.publisher, count=gap.count, cause=gap.cause,
        )  # fmt: skip
    if not count:
        output.complaint("nothing", f"glue history: nothing is remembered of {arguments.pattern}")
    return common.SUCCESS if count and not gaps else common.FAILURE


def read(subscription: glue.Subscription, quiet_for: float | None) -> Iterator[glue.Message]:
    """Yield messages until none from before the call has come for `quiet_for` seconds; None: until the command ends.

    The publishers' clocks tell what is from before. A message that is there already is always yielded.
    """
    began, end = time.time(), time.monotonic() + (inf if quiet_for is None else quiet_for)
    while True:
        common.check()
        try:
            message = subscription.get(max(0.0, min(end - time.monotonic(), common.NAP)))
        except TimeoutError:
            if time.monotonic() >= end:
                return
            continue
        except glue.ClosedError:
            return
        if quiet_for is not None and message.published_at <= began:
            end = time.monotonic() + quiet_for
        yield message


def show(output: CommandOutput, message: glue.Message) -> None:
    """Show a message with the time of its publication."""
    at = datetime.fromtimestamp(message.published_at, UTC).isoformat(timespec="milliseconds")
    topic, publisher = printable(message.topic, SHOWN_LENGTH), printable(message.publisher)
    report_message(output, message, f"{at} {publisher} {topic} {shown(message.payload)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
