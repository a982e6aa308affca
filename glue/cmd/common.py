"""Shared code of the commands: their common options, and how they end.

Three events end a command: `--duration`, Ctrl-C and SIGTERM. All three arrive as a signal, which raises `Ended` in the
main thread, but only where this thread waits or asks (`pause`, `waiting`, `check`). The code of an endpoint is never
interrupted. `until_ended` turns `Ended` into a normal exit, so a command is written as if it ran for ever. A second
Ctrl-C kills at once.

A caller's mistake (an unknown interface, a bad topic) ends the command with one line on stderr.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeVar

from glue.cmd import logs, service
from glue.cmd.output import CommandOutput
from glue.contract.near import SHORT, nearest
from glue.errors import ConfigurationError, GlueError, MissingExtraError, PayloadError, PortInUseError, TopicError

SUCCESS, FAILURE, USAGE = 0, 1, 2
"""Exit codes: all went well (Ctrl-C included); something failed; the command was called wrongly."""

MISTAKES = (ConfigurationError, MissingExtraError, PayloadError, PortInUseError, TopicError)
OPTIONS = {
    "interface": "interface",
    "multicast_address": "multicast_address",
    "listen_port": "listen_port",
    "peers": "peer",
    "name": "endpoint_name",
    "network_id": "network_id",
    "discovery": "discovery",
    "key": "key",
    "identity": "identity",
    "policy": "policy",
    "storage_key": "storage_key",
}
"""The settings that the command line can give, and the names of their options."""

SIZE_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
LONGEST = 1e9
"""The longest time that an option accepts: 31 years. Timers have a limit, too."""
NAP = 0.2
"""Seconds between two checks of a waiting command whether it should end."""
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)

Number = TypeVar("Number", int, float)
Run = Callable[[argparse.Namespace, CommandOutput], int]


class Ended(BaseException):
    """Raised in the main thread when the command should end, by `--duration` or a signal."""


# ------------------------------------------------------------------------------------------------- options


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        """Print the mistake, and the option that was perhaps meant, and exit."""
        words = message.partition("unrecognized arguments: ")[2].split()
        options = [name for action in self._actions for name in action.option_strings]
        bare = {name.lstrip("-"): name for name in options}  # dashes would make all of them alike
        if words and (meant := nearest(words[0].partition("=")[0].lstrip("-"), bare, SHORT)):
            message += f"; did you mean {bare[meant]}?"
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def common_parser(name: str, description: str, epilog: str | None = None) -> Parser:
    """Return a parser with the options that all commands have."""
    parser = Parser(
        prog=f"glue {name}",
        description=description,
        epilog=epilog,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    group = parser.add_argument_group(
        "network", "what is not given here comes from the GLUE_... environment variables, else from the defaults"
    )
    group.add_argument(
        "--interface", action="append", metavar="NAME",
        help="network interface, such as en0 (default: chosen); several, repeated or with commas, are used at once",
    )  # fmt: skip
    group.add_argument("--multicast-address", metavar="GROUP:PORT", help="default 239.192.137.1:37320")
    group.add_argument("--listen-port", type=int, metavar="PORT", help="UDP port for unicast (default: any free one)")
    group.add_argument(
        "--peer", action="append", metavar="HOST[:PORT]", help="look for peers there; may be given repeatedly"
    )
    group.add_argument("--endpoint-name", metavar="NAME", help="unique on the network (default: host name and suffix)")
    group.add_argument("--network-id", type=int, metavar="NUMBER", help="ignore endpoints with another one (default 1)")
    group.add_argument(
        "--discovery",
        choices=("multicast", "dns-sd"),
        help="how peers are found (default multicast; dns-sd: by Bonjour)",
    )
    group.add_argument("--key", metavar="FILE", help="key file of the group (default: nothing is sealed)")
    group.add_argument("--identity", metavar="FILE", help="identity file, where members of the group have identities")
    group.add_argument("--policy", metavar="FILE", help="file of the signed rules of the group")
    group.add_argument("--storage-key", metavar="FILE", help="key file of what is stored (default: it is not sealed)")
    group = parser.add_argument_group("running")
    group.add_argument("--duration", type=positive_number, metavar="SECONDS", help="end by itself (default: on Ctrl-C)")
    group.add_argument("--json", action="store_true", help="print one JSON object a line")
    group.add_argument("--metrics-port", metavar="[HOST:]PORT", help="serve metrics for Prometheus (default: none)")
    logs.add_options(group)
    return parser


def settings_from(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that were given on the command line, as keywords of `glue.Endpoint`."""
    given = {setting: getattr(arguments, option) for setting, option in OPTIONS.items()}
    if given["interface"] is not None:
        given["interface"] = ",".join(given["interface"])
    return {setting: value for setting, value in given.items() if value is not None}


def positive_number(text: str) -> float:
    """Parse a number above zero, of seconds."""
    return _checked(text, _parsed(text, float, "a number"), lambda number: 0 < number <= LONGEST)


def rate(text: str) -> float:
    """Parse messages a second; 0 means as fast as possible."""
    return _checked(text, _parsed(text, float, "a number"), lambda number: 0 <= number < float("inf"))


def count(text: str) -> int:
    """Parse a whole number, at least one."""
    return _checked(text, _parsed(text, int, "a whole number"), lambda number: number >= 1)


def port_number(text: str) -> int:
    """Parse a port, 0 for any free one."""
    number = _parsed(text, int, "a port, 0 to 65535")
    if not 0 <= number <= 65_535:
        raise argparse.ArgumentTypeError(f"{text}: expected a port, 0 to 65535")
    return number


def rounds(text: str) -> int:
    """Parse a whole number; 0 means without an end."""
    return _checked(text, _parsed(text, int, "a whole number"), lambda number: number >= 0)


def size(text: str) -> int:
    """Parse bytes, also as 100k, 100kB or 10MB (decimal)."""
    number = text.removesuffix("B")
    unit = number[-1:] if number[-1:] in SIZE_UNITS else ""
    parsed = _parsed(number.removesuffix(unit), int, "bytes, such as 100kB", text)
    return _checked(text, parsed * SIZE_UNITS[unit], lambda bytes_: bytes_ >= 0)


def _parsed(text: str, kind: Callable[[str], Number], expected: str, given: str | None = None) -> Number:
    """Parse a text, or complain of what was `given` on the command line, if that is more than the text."""
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{(text if given is None else given)!r}: expected {expected}") from None


def _checked(text: str, number: Number, good: Callable[[Number], bool]) -> Number:
    if not good(number):
        raise argparse.ArgumentTypeError(f"{text} is out of range")
    return number


# ------------------------------------------------------------------------------------------- start and end


def execute(parser: Parser, run: Run, argv: Sequence[str] | None, version: int = 1) -> int:
    """Run a command; returns its exit code. `version` is that of the form of its `--json` events (`docs/json.md`).

    A new version is due when an event or a field changes its meaning or is removed. A new event or field needs none.
    """
    prepare_streams()
    arguments = parser.parse_args(argv)
    logs.begin(parser.prog, arguments)
    command, is_json = parser.prog.removeprefix("glue "), getattr(arguments, "json", False)
    output = CommandOutput(sys.stdout, is_json, request_end, command, version)
    with signals_handled():
        try:
            return run(arguments, output)
        except Ended:
            return SUCCESS
        except MISTAKES as mistake:
            return _complain(parser, arguments, mistake, USAGE)
        except (GlueError, OSError) as error:
            return _complain(parser, arguments, error, FAILURE)


def prepare_streams() -> None:
    """Prepare the standard streams for a command.

    A stream that the caller has closed (`<&-`, `>&-`) is opened on the null device; otherwise a socket would get its
    number. Characters that the locale cannot show are escaped.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process lives
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _complain(parser: Parser, arguments: argparse.Namespace, error: Exception, code: int) -> int:
    print(f"{parser.prog}: {explained(error, arguments)}", file=sys.stderr)
    return code


def explained(error: Exception, arguments: argparse.Namespace) -> str:
    """Describe an error in one line for people: options instead of settings, and no error numbers."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror and not isinstance(error, GlueError):
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    setting, is_setting, rest = text.partition("=")
    option = OPTIONS.get(setting)
    if is_setting and option and getattr(arguments, option, None) is not None:
        text = f"--{option.replace('_', '-')} {rest}"
    return " ".join(text.split())


class _Ending:
    """Whether this process should end; the signal handlers set it. A process has one instance."""

    def __init__(self) -> None:
        self.asked = False
        self.waiting = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self.asked = True
        if number != signal.SIGALRM:
            signal.signal(number, signal.SIG_DFL)
        if self.waiting:
            raise Ended


_ending = _Ending()


@contextmanager
def signals_handled() -> Iterator[None]:
    """Handle the ending signals inside the block: they raise `Ended`."""
    _ending.asked = False
    before = {number: signal.signal(number, _ending.ask) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def until_ended(duration: float | None) -> Iterator[None]:
    """Run the block until it is done, `duration` (seconds) has passed, or a signal ends it.

    Tells the service manager when the command serves and when it ends.
    """
    try:
        signal.setitimer(signal.ITIMER_REAL, duration or 0)
        service.tell(service.READY)
        yield
    except Ended:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        service.tell(service.STOPPING)


def ended_early(command: str) -> int:
    """Report that a command was ended before it had its answer; returns its exit code."""
    print(f"glue {command}: ended before there was an answer", file=sys.stderr)
    return FAILURE


def request_end() -> None:
    """End the command from any thread, as if `--duration` had passed."""
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGALRM)


@contextmanager
def waiting() -> Iterator[None]:
    """Let `Ended` rise anywhere in the block, which must only wait."""
    _ending.waiting = True
    try:
        check()
        yield
    finally:
        _ending.waiting = False


def check() -> None:
    """Raise `Ended` if the command should end."""
    if _ending.asked:
        raise Ended


def is_ending() -> bool:
    """Whether the command should end, for one that waits in its own way."""
    return _ending.asked


def pause(seconds: float) -> None:
    """Sleep in short naps, because a signal just before the system call does not interrupt it."""
    end = time.monotonic() + seconds
    with waiting():
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, NAP))


def wait_for(condition: Callable[[float], bool], timeout: float = float("inf")) -> bool:
    """Wait for a condition; returns whether it came true within `timeout` seconds.

    The condition is called with the seconds for which it may wait itself.
    """
    end = time.monotonic() + timeout
    while not condition(max(0.0, min(end - time.monotonic(), NAP))):
        check()
        if time.monotonic() >= end:
            return False
    return True


def wait_for_end() -> None:
    """Wait until something ends the command."""
    pause(float("inf"))


def paced(rate: float, count: int | None) -> Iterator[int]:
    """Count from 1 at `rate` per second (0: as fast as possible), up to `count` if it is given."""
    start = time.monotonic()
    number = 0
    while count is None or number < count:
        check()
        if rate:
            pause(start + number / rate - time.monotonic())
        number += 1
        yield number
