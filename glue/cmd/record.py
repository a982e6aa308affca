"""`glue record`: writes glue's datagrams on an interface into a pcapng file, or the messages of topics into MCAP.

Datagrams show what happened on the network, and need the right to capture. Messages need no rights: an endpoint
subscribes to the topics, and Foxglove opens the file.

On Linux a ring buffer shared with the kernel keeps up with a busy segment; other systems use scapy. The command joins
the multicast group, because switches may otherwise not forward its datagrams to this port.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from glue.capture import ring
from glue.capture.pcapng import ETHERNET, Recording
from glue.capture.sniffer import Sniffer
from glue.cmd import common
from glue.cmd.common import settings_from
from glue.cmd.output import CommandOutput, printable
from glue.cmd.progress import Progress
from glue.cmd.session import choose, open_endpoint
from glue.errors import ConfigurationError, InterfaceError
from glue.network import parse_group, sockets
from glue.settings import Settings, effective

if TYPE_CHECKING:
    from glue.capture.opened import FrameOpener
    from glue.endpoint.secrets import KeyFile

DATAGRAM_OPTIONS = ("capture_point", "rotate_size", "rotate_time", "keep", "promiscuous", "engine")
REPORT_INTERVAL = 1.0  # seconds between two flushes, so that readers of the file see it nearly live


Write = Callable[..., None]
"""Writes a frame, with the parameters of `Recording.write`."""


class Source(Protocol):
    """A source of frames."""

    def read(self, timeout: float, write: Write) -> int:
        """Wait up to `timeout` seconds for frames, and pass those that are there to `write`; returns how many."""

    def count_drops(self) -> int | None:
        """Return the frames that were lost because they were read too late; None if the system does not tell."""

    def close(self) -> None:
        """Stop."""


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("record", "Record glue's datagrams as pcapng, or messages as MCAP.")
    group = made.add_argument_group("recording")
    group.add_argument("--output", metavar="FILE", required=True, help="where to, such as trace.pcapng")
    group.add_argument(
        "--format", choices=("pcapng", "mcap"), help="datagrams, or messages (default: by FILE's ending, else pcapng)"
    )
    group.add_argument(
        "--topics", metavar="PATTERN", default="#", help="of messages: only these topics (default: %(default)s)"
    )
    group = made.add_argument_group("recording of datagrams")
    group.add_argument("--capture-point", metavar="NAME", help="name of this place (default: host and interface)")
    group.add_argument("--rotate-size", type=common.size, metavar="BYTES", help="begin another file beyond this size")
    group.add_argument("--rotate-time", type=common.positive_number, metavar="SECONDS", help="or after this time")
    group.add_argument("--keep", type=common.count, metavar="FILES", help="keep only the last so many of them")
    group.add_argument("--promiscuous", action="store_true", help="also what is sent to others, as on a mirror port")
    group.add_argument("--engine", choices=("auto", "ring", "scapy"), default="auto", help="how (default: %(default)s)")
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Record until the command ends. The folder of the output is made if it is missing."""
    Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    if arguments.format == "mcap" or (arguments.format is None and arguments.output.endswith(".mcap")):
        return record_messages(arguments, output)
    settings = effective(settings_from(arguments))
    interface = choose(settings).interface
    group = parse_group(settings.multicast_address)
    point = arguments.capture_point or f"{socket.gethostname()}-{interface.name}"
    with ExitStack() as stack:
        source, engine = open_source(arguments, interface.name, group.port)
        stack.callback(source.close)
        link = getattr(source, "link", ETHERNET)
        opening = frames_opened(settings, link)
        member = stack.enter_context(socket.socket(group.family, socket.SOCK_DGRAM))
        try:
            sockets.join(member, group, interface)
        except OSError as error:
            raise InterfaceError(f"cannot join {group} on {interface.name}: {error.strerror}") from error
        recording = Recording(
            arguments.output,
            point,
            link,
            rotate_bytes=arguments.rotate_size or float("inf"),
            rotate_seconds=arguments.rotate_time or float("inf"),
            keep=arguments.keep,
            is_secret=opens(settings),
        )
        text = f"recording {group} on {interface.name} as {point} by {engine}; Ctrl-C ends it"
        output.event("recording", text, interface=interface.name, capture_point=point, engine=engine)
        try:
            with (
                output.progress("recording", arguments.duration or 0) as progress,
                common.until_ended(arguments.duration),
            ):
                record(source, recording, opening(recording.write), progress)
        finally:
            dropped = source.count_drops()
            recording.close(dropped)
        report(output, recording, dropped)
    return common.SUCCESS


def record_messages(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Record the messages of topics until the command ends; the exit code is FAILURE if the disk failed."""
    for option in DATAGRAM_OPTIONS:
        if getattr(arguments, option) not in (None, False, "auto"):
            name = option.replace("_", "-")
            raise ConfigurationError(f"--{name} is for datagrams; recordings of messages (MCAP) do not take it")
    with open_endpoint(arguments, output, quiet=True) as endpoint:
        recorder = endpoint.record(arguments.topics, arguments.output)
        text = f"recording {printable(arguments.topics)} in {printable(arguments.output)}; Ctrl-C ends it"
        output.event("recording", text, pattern=arguments.topics, file=arguments.output)
        with output.progress("recording", arguments.duration or 0) as progress, common.until_ended(arguments.duration):
            while not recorder.failure:
                common.pause(REPORT_INTERVAL)
                progress.tell(f"{recorder.messages:,} messages, {recorder.bytes:,} bytes")
        recorder.close()
    text = f"{recorder.messages:,} messages, {recorder.bytes:,} bytes: {printable(arguments.output)}"
    if recorder.left_out:
        text += f"; {recorder.left_out:,} messages are left out, of more topics than a file can have"
    if recorder.failure:
        text += f"; it ended early: {recorder.failure}"
    output.event(
        "recorded", text, messages=recorder.messages, bytes=recorder.bytes, file=arguments.output,
        left_out=recorder.left_out, failure=recorder.failure,
    )  # fmt: skip
    return common.FAILURE if recorder.failure else common.SUCCESS


def open_source(arguments: argparse.Namespace, interface: str, port: int) -> tuple[Source, str]:
    """Open the fastest source, or the requested one; returns the source and its name."""
    if arguments.engine == "ring" and not ring.is_available(interface):
        raise InterfaceError(f"there is no ring for {interface}: that takes Linux and an Ethernet; use --engine scapy")
    if arguments.engine == "ring" or (arguments.engine == "auto" and ring.is_available(interface)):
        return ring.Ring(interface, port, promiscuous=arguments.promiscuous), "ring"
    return Sniffer(interface, port, promiscuous=arguments.promiscuous), "scapy"


LOOK = 1.0  # seconds between two looks for another key


def opens(settings: Settings) -> bool:
    """Whether sealed frames are opened: with a key of the command line. A key of the environment opens nothing."""
    return settings.sources.get("key") == "keyword"


def frames_opened(settings: Settings, link: int) -> Callable[[Write], Write]:
    """Return a wrapper for a function that writes frames, to open frames first if the command line has a key.

    Raises ConfigurationError for a wrong key file.
    """
    if not opens(settings):
        return lambda write: write
    from glue.capture.opened import FrameOpener  # imported here: most recordings stay as they are
    from glue.endpoint.secrets import KeyFile, read_key

    assert settings.key is not None
    file = KeyFile(settings.key)
    return partial(Opening, file, FrameOpener(read_key(settings.key), link))


class Opening:
    """Writes frames opened; a sealed block may be spread over several frames, and is held until its rest comes."""

    def __init__(self, file: KeyFile, opener: FrameOpener, write: Write) -> None:
        """`file` has the key of `opener`, and is looked at for a newer one."""
        self._file, self._look_at = file, 0.0
        self._opener = opener
        self._write = write
        self._time_ns = 0

    def __call__(self, time_ns: int, frame: bytes | memoryview, size: int, *direction: int) -> None:
        """Write a frame, with the parameters of `Recording.write`."""
        if time.monotonic() >= self._look_at:  # a member on this machine may have written another epoch
            self._look_at = time.monotonic() + LOOK
            if (key := self._file.look()) is not None:
                self._opener.use(key)
        self._time_ns = time_ns
        opened = self._opener.open(bytes(frame)) if len(frame) == size else None
        if opened is None:
            self._write(time_ns, frame, size, *direction)
        else:
            for plain in opened:
                self._write(time_ns, plain, len(plain), *direction)

    def finish(self) -> None:
        """Write the blocks whose rest did not come, still sealed."""
        for frame in self._opener.rest():
            self._write(self._time_ns, frame, len(frame))


def record(source: Source, recording: Recording, write: Write, progress: Progress) -> None:
    """Move frames from the source into the file until the command ends, then also those that are still held."""
    flush_at = time.monotonic() + REPORT_INTERVAL
    try:
        while True:
            common.check()
            source.read(common.NAP, write)
            if time.monotonic() >= flush_at:
                recording.flush()
                progress.tell(f"{recording.frames:,} frames, {recording.bytes:,} bytes")
                flush_at = time.monotonic() + REPORT_INTERVAL
    finally:
        if isinstance(write, Opening):
            write.finish()


def report(output: CommandOutput, recording: Recording, dropped: int | None) -> None:
    """Report what was recorded, and what was not."""
    files = [str(path) for path in recording.paths]
    lost = "drops unknown" if dropped is None else f"{dropped:,} dropped"
    text = f"{recording.frames:,} frames, {recording.bytes:,} bytes, {lost}: {' '.join(files)}"
    output.event("recorded", text, frames=recording.frames, bytes=recording.bytes, dropped=dropped, files=files)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
