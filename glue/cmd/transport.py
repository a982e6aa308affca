"""`glue transport`: delivers many small messages, and shows what transport did to keep them in order.

Start it once to listen, and once with `--send-messages`. A line a second shows the rate. At the end come the counters
of the layer: acknowledgements, resends, duplicates.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import glue
from glue.cmd import common, traffic
from glue.cmd.output import CommandOutput
from glue.cmd.session import report_message, report_statistics

LAYER = "transport"
REPORT_INTERVAL = 1.0


def parser() -> common.Parser:
    """Return the parser of this command."""
    description = "Deliver many small messages in order, and show what transport counts."
    return traffic.traffic_parser(LAYER, description, "glue/transport", rate=100.0, size=100)


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Listen and publish until the command ends."""
    progress = MessageProgress(output)
    statistics = traffic.exchange(arguments, output, progress.add)
    report_statistics(output, LAYER, statistics)
    return common.SUCCESS


class MessageProgress:
    """Reports each message to programs, and the rate to people once a second."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output
        self._since = 0.0
        self._messages = 0
        self._bytes = 0

    def add(self, message: glue.Message) -> None:
        """Count and report a received message."""
        now = time.monotonic()
        if not self._messages:
            self._since = now
        self._messages += 1
        self._bytes += traffic.size_of(message.payload)
        report_message(self._output, message, None, intact=traffic.is_intact(message.payload))
        elapsed = now - self._since
        if elapsed >= REPORT_INTERVAL:
            speed = f"{self._messages / elapsed:,.0f} messages/s  {self._bytes / elapsed / 1e6:,.2f} MB/s"
            text = f"{speed}  in order to #{message.sequence}"
            self._output.event("progress", text, seconds=elapsed, messages=self._messages, bytes=self._bytes)
            self._messages = self._bytes = 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
