"""Reader of captures with the standard library alone: pcap and pcapng, plain or gzip.

This module suits programs that read a trace in the order of time, such as `glue play`. The analysis of gigabytes is in
`spark/`. A file is read up to its end or its first fault. `Capture.fault` keeps the fault for the caller.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct, error
from typing import BinaryIO, NamedTuple, cast

from glue.capture.pcapng import POINT
from glue.errors import ConfigurationError

LARGEST_BLOCK = 1 << 20
"""Largest accepted record or block in bytes, four times libpcap's largest snapshot. A larger size means a damaged file.
"""

PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1),
}  # fmt: skip
"""File formats by their first four bytes: the byte order, and nanoseconds per unit of a record's fraction of a second.
"""

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
GZIP = b"\x1f\x8b"


class Frame(NamedTuple):
    """A captured frame: nanoseconds since 1970 by the capture point's clock, link type, bytes, and capture point."""

    time_ns: int
    link: int
    data: bytes
    point: str


class _Interface(NamedTuple):
    link: int
    point: str
    unit: tuple[int, int]
    """Nanoseconds per tick of the interface's clock, as numerator and denominator."""
    zero: int
    """Seconds since 1970 at which the interface's clock begins."""


class DamagedError(ValueError):
    """Damage in a capture file. The text tells why reading stops. `Capture` stores the text and does not raise this
    error.
    """


class Capture:
    """One capture file. It can be iterated once and yields frames.

    `point` is the capture point of files that name none: the file's name up to the first dot.
    """

    def __init__(self, path: Path | str) -> None:
        """Open a file. Raises ConfigurationError if the file is no capture, and OSError if it cannot be opened."""
        self.path = Path(path)
        self.point = self.path.name.partition(".")[0]
        self.fault: str | None = None
        """Why reading stopped before the end of the file; None if it did not."""
        self._raw = self.path.open("rb")
        try:
            self.size = os.fstat(self._raw.fileno()).st_size
            packed = self._raw.peek(2).startswith(GZIP)
            self._file = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw)) if packed else self._raw
            self._start = self._take(4)
        except (DamagedError, EOFError, zlib.error, OSError):
            self._start = b""
        if self._start not in PCAP and self._start != SECTION.to_bytes(4, "little"):
            self.close()
            raise ConfigurationError(f"{path}: neither pcap nor pcapng (plain or gzip)")

    @property
    def position(self) -> int:
        """Bytes of the file read so far; the total is `size`."""
        return self.size if self._raw.closed else self._raw.tell()

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def __iter__(self) -> Iterator[Frame]:
        try:
            yield from self._pcap() if self._start in PCAP else self._pcapng()
        except (DamagedError, EOFError, zlib.error, OSError, error) as reason:
            self.fault = str(reason) or type(reason).__name__
        finally:
            self.close()

    def _take(self, size: int, may_end: bool = False) -> bytes:
        """Read exactly `size` bytes. At the end of the file return b"" if `may_end`, else raise DamagedError."""
        if size > LARGEST_BLOCK:
            raise DamagedError(f"a record of {size:,} bytes")
        data = self._file.read(size)
        if len(data) < size and (data or not may_end):
            raise DamagedError("the file ends within a record")
        return data

    def _pcap(self) -> Iterator[Frame]:
        order, unit = PCAP[self._start]
        *_, link = Struct(order + "HHiIII").unpack(self._take(20))
        record = Struct(order + "IIII")
        while head := self._take(record.size, may_end=True):
            seconds, fraction, captured, _ = record.unpack(head)
            yield Frame(seconds * 10**9 + fraction * unit, link & 0xFFFF, self._take(captured), self.point)

    def _pcapng(self) -> Iterator[Frame]:
        interfaces: list[_Interface] = []
        order, kind = "<", self._start
        while kind:
            raw = self._take(4)
            if kind == SECTION.to_bytes(4, "little"):
                magic = self._take(4)
                if magic not in ORDERS:
                    raise DamagedError("a section without a byte order")
                order, interfaces = ORDERS[magic], []
                self._take(_length(order, raw) - 12)
            else:
                body = self._take(_length(order, raw) - 8)[:-4]
                (number,) = Struct(order + "I").unpack(kind)
                if number == INTERFACE:
                    interfaces.append(_interface(order, body, self.point))
                elif number == PACKET:
                    yield _packet(order, body, interfaces)
            kind = self._take(4, may_end=True)


def _length(order: str, raw: bytes) -> int:
    (length,) = Struct(order + "I").unpack(raw)
    if length < 12 or length % 4:
        raise DamagedError(f"a block of {length:,} bytes")
    return cast(int, length)


def _interface(order: str, body: bytes, point: str) -> _Interface:
    (link,) = Struct(order + "H").unpack_from(body)
    resolution, zero, position = 6, 0, 8
    while position + 4 <= len(body):
        code, size = Struct(order + "HH").unpack_from(body, position)
        value = body[position + 4 : position + 4 + size]
        if code == 3 and value.startswith(POINT.encode()):
            point = value.decode(errors="replace").removeprefix(POINT)
        elif code == 9 and value:
            resolution = value[0]
        elif code == 14 and len(value) == 8:
            (zero,) = Struct(order + "q").unpack(value)
        position += 4 + size + -size % 4
    base = 2 if resolution & 0x80 else 10
    return _Interface(link, point, (10**9, base ** (resolution & 0x7F)), zero)


def _packet(order: str, body: bytes, interfaces: list[_Interface]) -> Frame:
    number, high, low, captured, _ = Struct(order + "IIIII").unpack_from(body)
    if number >= len(interfaces):
        raise DamagedError("a packet of an interface that was not described")
    interface = interfaces[number]
    multiplier, divisor = interface.unit
    time_ns = interface.zero * 10**9 + (high << 32 | low) * multiplier // divisor
    if not 0 <= time_ns < 1 << 63:
        raise DamagedError(f"a time {time_ns // 10**9:,} s after 1970")
    return Frame(time_ns, interface.link, body[20 : 20 + captured], interface.point)
