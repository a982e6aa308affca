"""`glue keep`: keep topics on a disk, for subscribers that come later and publishers that want acknowledgements.

    glue keep 'home/#' --data-dir /var/lib/glue                        everything, for ever
    glue keep 'home/#' --data-dir /var/lib/glue --age 30d --size 2GB   what is not too old, and not too much
    glue keep 'state/#' --data-dir /var/lib/glue --count 1             the last value of each topic

Ctrl-C ends the command. Stored messages stay, and the next start continues the log.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import glue
from glue.cmd import common
from glue.cmd.output import CommandOutput, printable
from glue.cmd.session import open_endpoint

LOOK_INTERVAL = 1.0
"""Seconds between two looks at what was stored, and whether the disk is well."""


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("keep", "Keep topics on a disk, also for others.", epilog=__doc__.split("\n", 2)[2])
    made.add_argument("patterns", metavar="PATTERN", nargs="+", help="topics to keep, such as 'home/#'")
    made.add_argument("--data-dir", required=True, metavar="DIR", help="the directory of the log, of this keeper alone")
    made.add_argument(
        "--age", metavar="TIME", help="how long messages are kept, such as 30d or 12h (default: for ever)"
    )
    made.add_argument("--size", metavar="BYTES", help="how much is kept of a pattern, such as 2GB (default: no limit)")
    made.add_argument("--count", type=int, metavar="N", help="how many messages of each topic are kept (default: all)")
    made.add_argument(
        "--replicas", type=int, metavar="N",
        help="how many of several keepers keep each topic (default: all of them)",
    )  # fmt: skip
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Keep until the end; the exit code is FAILURE if the disk failed."""
    with open_endpoint(arguments, output) as endpoint:
        with output.progress(f"opening {printable(arguments.data_dir)}"):
            keepers = [
                endpoint.keep(
                    pattern, data_dir=arguments.data_dir, age=arguments.age, size=arguments.size, count=arguments.count,
                    replicas=arguments.replicas,
                )
                for pattern in arguments.patterns
            ]  # fmt: skip
        log = keepers[0].log
        patterns = ", ".join(map(printable, arguments.patterns))
        output.event(
            "keeping", f"keeping {patterns} in {printable(arguments.data_dir)}; {log.end - log.first} messages so far",
            patterns=arguments.patterns, data_dir=arguments.data_dir, first=log.first, end=log.end, log=log.id,
        )  # fmt: skip
        reporter = Reporter(keepers[0], output)
        with common.until_ended(arguments.duration):
            reporter.watch()
    reporter.look()
    return common.FAILURE if log.failure else common.SUCCESS


class Reporter:
    """Tells what was stored, and what is wrong with the disk, when that changes."""

    def __init__(self, keeper: glue.Keeper, output: CommandOutput) -> None:
        self._keeper = keeper
        self._output = output
        self._durable = keeper.log.durable
        self._failure = ""

    def watch(self) -> None:
        """Report changes until the command ends."""
        while True:
            common.pause(LOOK_INTERVAL)
            self.look()

    def look(self) -> None:
        """Report changes since the last look."""
        durable, failure = self._keeper.log.durable, self._keeper.failure
        if durable != self._durable:
            self._output.event("stored", f"messages on disk: {durable}", durable=durable)
            self._durable = durable
        if failure != self._failure:
            self._output.complaint("failing", failure or "the disk is well again", reason=failure)
            self._failure = failure


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
