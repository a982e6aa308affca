"""`glue receivers`: list the kinds of receivers, and what their hosts do.

    glue receivers                                       kinds, hosts, active receivers, queues, slowest handlers
    glue receivers thermostat/kitchen '{"get": true}'    ask a receiver, and show its answer
    glue receivers thermostat/kitchen '{"set": 21}' --send    send it a message, and end when it was handled

A JSON payload is sent as JSON, any other payload as a string.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence

import glue
from glue.cmd import common
from glue.cmd.endpoint import SHOWN_LENGTH, parsed, shown
from glue.cmd.output import CommandOutput, payload_fields, printable
from glue.cmd.session import open_endpoint
from glue.receivers.address import parse
from glue.sync.receivers import parts_of

FIELDS = (
    "kind", "partitions", "of", "active", "waiting", "longest", "handled", "failed", "slowest_ms", "slowest",
)  # fmt: skip
"""What a host tells of each kind."""


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("receivers", "List receivers, or ask one.", epilog=__doc__.split("\n", 2)[2])
    made.add_argument("address", metavar="ADDRESS", nargs="?", help="kind/id, or subnet:kind/id")
    made.add_argument("payload", metavar="PAYLOAD", nargs="?", default="null")
    made.add_argument("--send", action="store_true", help="send a message that has no answer")
    made.add_argument(
        "--timeout", type=common.positive_number, default=5.0, metavar="SECONDS",
        help="for the answer (default: %(default)g)",
    )  # fmt: skip
    made.add_argument(
        "--wait", type=common.rate, default=1.0, metavar="SECONDS", help="for the hosts (default: %(default)g)"
    )
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """List, or ask; the exit code is FAILURE without an answer."""
    result, is_done = common.SUCCESS, False
    with open_endpoint(arguments, output, quiet=True) as endpoint, common.until_ended(arguments.duration):
        try:
            is_list = arguments.address is None
            result = show(endpoint, arguments.wait, output) if is_list else ask(endpoint, arguments, output)
        except glue.ConfigurationError as error:
            print(f"glue receivers: {error}", file=sys.stderr)
            result = common.USAGE
        except glue.RequestError as error:
            print(f"glue receivers: {printable(str(error), SHOWN_LENGTH)}", file=sys.stderr)
            result = common.FAILURE
        is_done = True
    return result if is_done else common.ended_early("receivers")


def ask(endpoint: glue.Endpoint, arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Ask a receiver, or send it a message and wait until it was handled."""
    payload = parsed(arguments.payload)
    if not arguments.send:
        with output.progress("waiting for the answer", arguments.timeout), common.waiting():
            answer = endpoint.ask(arguments.address, payload, arguments.timeout)
        output.event("answer", shown(answer), address=arguments.address, **payload_fields(answer))
        return common.SUCCESS
    handled, errors = threading.Event(), list[BaseException]()

    def settle(error: BaseException | None, _: object) -> None:
        errors.extend([error] if error is not None else [])
        handled.set()

    parts_of(endpoint).runtime.send(parse(arguments.address), payload, settle=settle)
    with output.progress("waiting until it is handled", arguments.timeout), common.waiting():
        handled.wait(arguments.timeout)
    if not handled.is_set():
        raise glue.RequestTimeoutError(f"{arguments.address}: it was not handled in time; it may be later")
    if errors:
        raise glue.RequestError(str(errors[0]))
    return common.SUCCESS


def show(endpoint: glue.Endpoint, seconds: float, output: CommandOutput) -> int:
    """Ask all hosts what they do, and list it."""
    found: dict[tuple[str, str], dict[str, object]] = {}

    def take(host: str, kinds: object) -> None:
        for kind in kinds if isinstance(kinds, list) else ():
            if isinstance(kind, dict):
                found[str(kind.get("kind")), host] = kind

    runtime = parts_of(endpoint).runtime
    until = time.monotonic() + seconds
    with output.progress("asking the hosts", seconds):
        runtime.ask_hosts(take)
        while time.monotonic() < until:
            common.pause(min(0.3, max(0.0, until - time.monotonic())))
            runtime.ask_hosts(take)
        time.sleep(0.05)
    if not found:
        print("glue receivers: no host was found", file=sys.stderr)
        return common.FAILURE
    for (kind, host), row in sorted(found.items()):
        name = printable(kind.removeprefix(":"))
        longest = ", ".join(f"{printable(str(one[0]))} {one[1]}" for one in _pairs(row.get("longest")))
        slowest = ", ".join(f"{printable(str(one[0]))} {one[1]} ms" for one in _pairs(row.get("slowest")))
        text = (
            f"{name} at {printable(host)}: {row.get('partitions')} of {row.get('of')} partitions, "
            f"{row.get('active')} active, {row.get('waiting')} waiting{f' ({longest})' if longest else ''}, "
            f"{row.get('handled')} handled, {row.get('failed')} failed{f', slowest {slowest}' if slowest else ''}"
        )
        output.event("kind", text, host=host, **{name: row.get(name) for name in FIELDS})
    return common.SUCCESS


def _pairs(value: object) -> list[list[object]]:
    return [one for one in value if isinstance(one, list) and len(one) == 2] if isinstance(value, list) else []


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
