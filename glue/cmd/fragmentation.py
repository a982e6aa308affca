"""`glue fragmentation`: delivers messages larger than a datagram, and checks that they arrive whole.

Start it once to listen, and once with `--send-messages`, in any `--size` up to the limit of a message.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import glue
from glue.cmd import common, traffic
from glue.cmd.output import CommandOutput, printable
from glue.cmd.session import NAME_WIDTH, report_message, report_statistics

LAYER = "fragmentation"


def parser() -> common.Parser:
    """Return the parser of this command."""
    description = "Deliver messages larger than a datagram, and check that they are whole."
    return traffic.traffic_parser(LAYER, description, "glue/fragmentation", rate=1.0, size=100_000)


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Listen and publish until the command ends; fails if a message was damaged."""
    damaged = 0

    def show(message: glue.Message) -> None:
        nonlocal damaged
        size, intact = traffic.size_of(message.payload), traffic.is_intact(message.payload)
        damaged += not intact
        state = "whole" if intact else output.style("red", "DAMAGED")
        publisher = printable(message.publisher, NAME_WIDTH)
        text = f"{publisher:{NAME_WIDTH}} #{message.sequence:<5} {size:>13,} bytes  {state}"
        report_message(output, message, text, size=size, intact=intact)

    statistics = traffic.exchange(arguments, output, show)
    report_statistics(output, LAYER, statistics)
    return common.FAILURE if damaged else common.SUCCESS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
