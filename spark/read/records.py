"""Captured frames of one block of a file, as columns; and what every capture format offers to the reader.

A reader pays per block, not per frame: formats find where records start, and all else is done by NumPy for the whole
block. The buffer is followed by padding, so that a fixed number of bytes can be taken at any frame's start.
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
"""Zero bytes behind a block: more than the largest stack of headers (Ethernet 14, two VLAN tags 8, IPv6 with options,
UDP 8) and 192 bytes of glue's header that are taken from any place of a frame."""

LARGEST_RECORD = 1 << 20
"""Bytes of a record beyond which it is taken for corrupt: four times the largest snapshot that libpcap takes (262,144),
as glue's trains are at most 64 KiB."""

MAXIMUM_SNAPSHOT = 262_144
"""Bytes of a frame that libpcap captures at most; what a capture means that says 0, or more."""

USUAL_FRAME = 65_535 + 64
"""Bytes: the largest UDP datagram with its headers. A payload's chain ends after no more than that, so that there is
no need to go on for as much as a snapshot length of 262,144 says."""

INWARD, OUTWARD = 1, 2
"""Directions, as pcapng's packet flags number them; 0 when not told."""


@dataclass(frozen=True)
class Fault:
    """Why a file could not be read on: the cause, and the byte of the file where it is."""

    cause: str
    offset: int


@dataclass
class Records:
    """Captured frames in one buffer, each column with one element a frame."""

    buffer: Bytes
    offset: Integers
    """Byte of the file where the record starts."""
    begin: Integers
    """Byte of the buffer where the frame starts."""
    captured: Integers
    """Bytes of the frame in the buffer."""
    time_ns: Integers
    link: Integers
    """Link type, as tcpdump.org numbers them."""
    point: Integers
    """Index into `points`."""
    direction: Integers
    points: list[str | None]
    """Names of the capture points, None where the file gives none."""


@dataclass
class Scan:
    """What a block of a file holds: its records, how many bytes they took, and why there can be no more."""

    records: Records
    consumed: int
    fault: Fault | None = None


class Format(Protocol):
    """A capture format with what was learnt from the file so far; picklable, so that a partition can begin with it."""

    first: int
    """Byte of the file at which the first record starts."""
    dropped: int | None
    """Frames that the capturing system says it dropped, so far."""
    resumes: bool
    """Whether reading can go on behind a fault."""

    def scan(self, buffer: Bytes, size: int, base: int) -> Scan:
        """The whole records among the first `size` bytes of the buffer, which is at `base` in the file."""

    def resume(self, buffer: Bytes, size: int, over: bool) -> tuple[int, bool]:
        """How many bytes to leave out behind a fault at the first byte of the buffer, and whether to scan from there.

        Called again with what follows until that is so; `over`: nothing follows.
        """


def fields_at(buffer: Bytes, starts: Integers, offset: int, count: int, order: str) -> NDArray[np.uint32]:
    """`count` unsigned 32-bit integers from `offset` bytes after each start: one row for each."""
    windows = np.lib.stride_tricks.sliding_window_view(buffer, 4 * count)
    return windows[starts + offset].view(f"{order}u4")
