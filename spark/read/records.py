"""Captured frames of one block of a file, as columns, and the interface of capture formats.

The cost of reading is per block, not per frame: formats find the starts of records, and NumPy does the rest for the
whole block. Padding follows the buffer, so that a fixed number of bytes can be taken from any frame's start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

PADDING = 512
"""Zero bytes after a block. They exceed the largest stack of headers (Ethernet 14, two VLAN tags 8, IPv6 with options,
UDP 8) and 192 bytes of glue's header.
"""

LARGEST_RECORD = 1 << 20
"""Largest accepted record in bytes, four times libpcap's largest snapshot. glue's trains have at most 64 KiB.
"""

MAXIMUM_SNAPSHOT = 262_144
"""Most bytes of a frame that libpcap captures. A capture with snapshot length 0, or a larger one, means this."""

USUAL_FRAME = 65_535 + 64
"""Bytes of the largest UDP datagram with its headers. A chain of records within a payload ends after at most as many
bytes.

This limit is below the usual snapshot length of 262,144.
"""

INWARD, OUTWARD = 1, 2
"""Directions as in pcapng's packet flags; 0 if unknown."""


@dataclass(frozen=True)
class Fault:
    """A place where a file cannot be read: the cause, and the byte of the file."""

    cause: str
    offset: int


@dataclass
class Records:
    """Captured frames in one buffer. Each column has one element for each frame."""

    buffer: Bytes
    offset: Integers
    """Byte of the file where the record starts."""
    begin: Integers
    """Byte of the buffer where the frame starts."""
    captured: Integers
    """Bytes of the frame in the buffer."""
    time_ns: Integers
    link: Integers
    """Link type, numbered as on tcpdump.org."""
    point: Integers
    """Index into `points`."""
    direction: Integers
    points: list[str | None]
    """Names of the capture points, None if the file gives none."""


@dataclass
class Scan:
    """Contents of a block: its records, the bytes read, and the fault that ends reading."""

    records: Records
    consumed: int
    fault: Fault | None = None


class Format(Protocol):
    """A capture format with its knowledge of the file so far. Picklable, so that a partition can start with it."""

    first: int
    """Byte of the file where the first record starts."""
    dropped: int | None
    """Frames that the capturing system reports as dropped so far, None if unknown."""
    resumes: bool
    """Whether reading can continue after a fault."""

    def scan(self, buffer: Bytes, size: int, base: int) -> Scan:
        """Return the whole records among the first `size` bytes of a buffer that starts at byte `base` of the file."""

    def resume(self, buffer: Bytes, size: int, over: bool) -> tuple[int, bool]:
        """After a fault at the buffer's first byte, return the bytes to skip, and whether to scan from there.

        While the answer is False, the method is called again with more bytes. `over` tells that no bytes follow.
        """


def fields_at(buffer: Bytes, starts: Integers, offset: int, count: int, order: str) -> NDArray[np.uint32]:
    """Return `count` unsigned 32-bit integers at `offset` bytes after each start, one row for each start."""
    windows = np.lib.stride_tricks.sliding_window_view(buffer, 4 * count)
    return windows[starts + offset].view(f"{order}u4")
