"""`glue consumers`: list the durable consumers, move one, or forget it.

    glue consumers                                      all consumers, how far behind they are, and who works on them
    glue consumers billing 'orders/#' --to earliest     have it go on from there; also latest, -10m, or a time
    glue consumers billing 'orders/#' --forget          forget its position

What the members of a consumer have while it is moved is not acknowledged any more.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from datetime import datetime

import glue
from glue.cmd import common
from glue.cmd.endpoint import SHOWN_LENGTH
from glue.cmd.output import CommandOutput, printable
from glue.cmd.session import open_endpoint


def place(text: str) -> str | datetime:
    """Return where a consumer is to go on: "earliest", "latest", a time ago, or a time as in ISO 8601."""
    if text in ("earliest", "latest") or re.fullmatch(r"-[0-9.]+[smhd]", text):
        return text
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected earliest, latest, a time ago such as -10m, or a time such as 2026-01-31T12:00"
        ) from None


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("consumers", "List durable consumers, or move one.", epilog=__doc__.split("\n", 2)[2])
    made._negative_number_matcher = re.compile(r"-\d+[smhd]?")  # else argparse takes -10m for an option
    made.add_argument("name", metavar="NAME", nargs="?")
    made.add_argument("pattern", metavar="PATTERN", nargs="?")
    change = made.add_mutually_exclusive_group()
    change.add_argument(
        "--to", type=place, metavar="WHEN",
        help="go on at earliest, latest, a time ago such as -10m (s, m, h, d), or a time such as 2026-01-31T12:00",
    )  # fmt: skip
    change.add_argument("--forget", action="store_true", help="forget the consumer and its position")
    made.add_argument(
        "--wait", type=common.positive_number, default=2.0, metavar="SECONDS",
        help="for the keepers (default: %(default)g)",
    )  # fmt: skip
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """List, or change; the exit code is FAILURE if there is no such consumer."""
    is_change = arguments.to is not None or arguments.forget
    if is_change and arguments.pattern is None:
        print("glue consumers: give the NAME and the PATTERN of the consumer", file=sys.stderr)
        return common.USAGE
    result, is_done = common.SUCCESS, False
    with open_endpoint(arguments, output, quiet=True) as endpoint, common.until_ended(arguments.duration):
        try:
            result = change(endpoint, arguments) if is_change else show(endpoint, arguments, output)
        except glue.NoConsumerError as error:
            print(f"glue consumers: {printable(str(error), SHOWN_LENGTH)}", file=sys.stderr)
            result = common.FAILURE
        except (glue.ConfigurationError, glue.TopicError) as error:
            print(f"glue consumers: {error}", file=sys.stderr)
            result = common.USAGE
        is_done = True
    return result if is_done else common.ended_early("consumers")


def change(endpoint: glue.Endpoint, arguments: argparse.Namespace) -> int:
    """Move a consumer, or forget it."""
    with common.waiting():
        if arguments.forget:
            endpoint.forget_consumer(arguments.name, arguments.pattern, timeout=arguments.wait)
        else:
            endpoint.move_consumer(arguments.name, arguments.pattern, arguments.to, timeout=arguments.wait)
    return common.SUCCESS


def show(endpoint: glue.Endpoint, arguments: argparse.Namespace, output: CommandOutput) -> int:
    """List the consumers of this name and pattern, or all."""
    with output.progress("asking the keepers", arguments.wait), common.waiting():
        states = endpoint.consumers(arguments.wait)
    found = [one for one in states if arguments.name in (None, one.name) and arguments.pattern in (None, one.pattern)]
    if not found:
        output.complaint("nothing", "glue consumers: no keeper has any")
        return common.FAILURE
    for one in found:
        members = ", ".join(map(printable, one.members)) or "nobody"
        text = f"{printable(one.name)} of {printable(one.pattern)} at {printable(one.keeper)}: {one.lag} behind"
        if one.topic:
            text += f", the oldest {max(0.0, time.time() - one.published_at):.0f} s on {printable(one.topic)}"
        text += f"; {members}"
        if one.failures:
            text += f"; {one.failures} failed"
        output.event("consumer", text + ("; stuck" if one.stuck else ""), **one._asdict())
    return common.SUCCESS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
