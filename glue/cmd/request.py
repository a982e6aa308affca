"""`glue request`: ask the endpoints that answer a topic.

    glue request light/kitchen/set '{"on": true}'        ask one responder, and show its answer
    glue request light/kitchen/state null --all          ask all responders, and show their answers with their names

A JSON payload is sent as JSON, any other payload as a string. With `--bytes`, the payload is sent as bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

import glue
from glue.cmd import common
from glue.cmd.endpoint import SHOWN_LENGTH, parsed, shown
from glue.cmd.output import CommandOutput, payload_fields, printable
from glue.cmd.session import open_endpoint


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("request", "Ask the endpoints that answer a topic.", epilog=__doc__.split("\n", 2)[2])
    made.add_argument("topic", metavar="TOPIC")
    made.add_argument("payload", metavar="PAYLOAD")
    made.add_argument("--all", action="store_true", help="ask all responders, and show their names")
    made.add_argument("--bytes", action="store_true", help="send the payload as bytes")
    made.add_argument(
        "--timeout", type=common.positive_number, default=5.0, metavar="SECONDS",
        help="for the answers (default: %(default)g)",
    )  # fmt: skip
    made.add_argument("--retry", action="store_true", help="if the responder leaves, ask another one")
    made.add_argument(
        "--wait", type=common.rate, default=3.0, metavar="SECONDS",
        help="for the first responder (default: %(default)g)",
    )  # fmt: skip
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Ask, and show each answer; the exit code is FAILURE unless all answers came."""
    payload = arguments.payload.encode() if arguments.bytes else parsed(arguments.payload)
    result, is_done = common.SUCCESS, False
    with open_endpoint(arguments, output, quiet=True) as endpoint, common.until_ended(arguments.duration):
        with output.progress("looking for a responder", arguments.wait):
            common.wait_for(partial(endpoint.wait_for_responders, arguments.topic, 1), arguments.wait)
        with output.progress("waiting for answers", arguments.timeout):
            answers = replies(endpoint, arguments, payload)
        for reply in answers:
            if reply.error is not None:
                print(f"glue request: {printable(told(reply.error), SHOWN_LENGTH)}", file=sys.stderr)
                result = common.FAILURE
                continue
            name = f"{printable(reply.responder)} " if arguments.all else ""
            output.event(
                "answer", f"{name}{shown(reply.payload)}", responder=reply.responder,
                responder_id=reply.responder_id, topic=arguments.topic, **payload_fields(reply.payload),
            )  # fmt: skip
        is_done = True
    return result if is_done else common.ended_early("request")


def replies(endpoint: glue.Endpoint, arguments: argparse.Namespace, payload: object) -> list[glue.Reply]:
    """Ask one responder, or all; a topic without a responder gives a reply with that error. `Ended` may rise."""
    try:
        with common.waiting():
            if arguments.all:
                return list(endpoint.request_all(arguments.topic, payload, arguments.timeout))
            return list(endpoint.request_many(arguments.topic, [payload], arguments.timeout, retry=arguments.retry))
    except glue.RequestError as error:
        return [glue.Reply(None, "", "", error)]


def told(error: BaseException) -> str:
    """Return an error in the words of the command, which has an option where a program has a method."""
    text, hint = str(error), "see wait_for_responders"
    if isinstance(error, glue.NoResponderError) and text.endswith(hint):
        return f"{text.removesuffix(hint)}give it more time with --wait"
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
