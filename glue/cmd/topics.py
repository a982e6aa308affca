"""`glue topics`: shows the messages of a topic with counts and gaps, and publishes to it.

Run it in four terminals of one segment, some with `--send-messages`: each shows all messages, once and in order.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import glue
from glue.cmd import common, topic_list, traffic
from glue.cmd.output import CommandOutput, payload_text, printable
from glue.cmd.session import NAME_WIDTH, report_message


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = traffic.traffic_parser("topics", "Show the messages of a topic, and publish to it.", "demo", rate=1.0)
    made.add_argument(
        "--list", action="store_true", help="show every topic, with types, publishers, subscribers and rates, and end"
    )
    made.add_argument("--retain", action="store_true", help="late joiners get the last message")
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Listen and publish until the command ends; or list the topics."""
    if arguments.list:
        return topic_list.run(arguments, output)

    def show(message: glue.Message) -> None:
        report_message(output, message, message_line(message))

    traffic.exchange(arguments, output, show, arguments.retain)
    return common.SUCCESS


def message_line(message: glue.Message) -> str:
    """Format a message for people."""
    publisher, topic = printable(message.publisher, NAME_WIDTH), printable(message.topic)
    mark = "  (retained)" if message.retained else ""
    return f"{publisher:{NAME_WIDTH}} {topic} #{message.sequence:<5} {payload_text(message.payload)}{mark}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
