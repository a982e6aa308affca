"""Captures and recordings, whatever program wrote them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from glue.capture.messages import Messages
from glue.capture.packets import payload_of
from glue.capture.reading import Capture
from glue.errors import ConfigurationError
from glue.recording.channels import RecordedMessage
from glue.recording.reader import McapReader
from glue.recording.writer import McapWriter
from spark.read.files import CaptureError
from spark.read.frames import Tally
from spark.read.partitions import partitions
from tests.fuzz import seeds
from tests.fuzz.registry import joined, split, target
from tests.spark.captures import frame, pcap
from tests.spark.recordings import CAPTURES

NAMES = "pcap-nanoseconds", "pcap-cut-to-a-snapshot", "pcap-linux-cooked", "pcap-raw-ip", "pcap-microseconds-big-endian"
MORE = "pcapng", "pcapng-big-endian", "pcapng-of-several-interfaces", "pcap-tags-options-and-others"


@contextmanager
def file(data: bytes, name: str) -> Iterator[Path]:
    """A file with this content, in memory where the machine has such a folder."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path


@cache
def captures() -> list[bytes]:
    """Captures of every form; the largest ones are left out, since small ones reach the same code."""
    found = [CAPTURES[name]() for name in (*NAMES, *MORE)]
    return [*(data[:2500] for data in found), found[0]]


@target("capture", captures, ConfigurationError)
def capture(data: bytes) -> None:
    """A capture file, as `glue play` reads it."""
    with file(data, "a.pcap") as path:
        messages = Messages(1, 1 << 20)
        for one in Capture(path):
            payload = payload_of(one.data, one.link)
            if payload is not None:
                list(messages.read(one.time_ns, payload))


@target("messages", lambda: [joined(seeds.datagrams()[at : at + 8]) for at in range(0, 40, 8)])
def messages(data: bytes) -> None:
    """Datagrams of a capture, as messages."""
    made = Messages(1, 1 << 20)
    for number, part in enumerate(split(data)):
        list(made.read(number * 1_000_000, part))


@target("spark-capture", captures, CaptureError)
def spark_capture(data: bytes) -> None:
    """A capture file, as Spark's executors read it."""
    with file(data, "a.pcap") as path:
        read(path)


@target("spark-datagrams", lambda: [joined(seeds.datagrams()[at : at + 8]) for at in range(0, 40, 8)], CaptureError)
def spark_datagrams(data: bytes) -> None:
    """Datagrams in a good capture, as Spark's executors read them; each comes often, so that templates are made."""
    frames = [frame(part[:1400]) for part in split(data, 16)]
    with file(pcap(frames * 6), "a.pcap") as path:
        read(path)


def read(path: Path) -> None:
    """Read all columns of a capture."""
    for part in partitions([str(path)], 0):
        tally = Tally()
        for batch in part.batches(tally=tally):
            batch.validate(full=True)
        part.files_row(tally)


@cache
def recordings() -> list[bytes]:
    """An MCAP file, whole and without its end."""
    with file(b"", "a.mcap") as path:
        writer = McapWriter(path)
        writer.write([
            RecordedMessage(1_000 * at, 900 * at, f"a/{at % 2}", at, b'{"x":1}', json=at % 2 == 0, type="t")
            for at in range(6)
        ])  # fmt: skip
        writer.close()
        data = path.read_bytes()
    return [data, data[: len(data) // 2]]


@target("mcap", recordings)
def mcap(data: bytes) -> None:
    """An MCAP file; what the library raises is told as a fault of the file."""
    with file(data, "a.mcap") as path:
        reader = McapReader(path)
        try:
            list(reader.messages())
            list(reader.messages(2_000))
        finally:
            reader.close()
