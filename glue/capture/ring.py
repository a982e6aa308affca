"""Frames from an interface through a ring that the kernel shares with this process: Linux, TPACKET_V3 (packet(7),
Documentation/networking/packet_mmap.rst).

The kernel fills blocks of frames that pass a filter and hands over whole blocks, so that plain Python keeps up with a
busy segment: one wake-up and no copy a block. What finds the ring full is dropped by the kernel, and counted.
"""

from __future__ import annotations

import ctypes
import mmap
import select
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from glue.capture.filter import assemble
from glue.errors import InterfaceError

BLOCK = 1 << 20  # bytes; several of the largest frames (64 KiB)
BLOCKS = 64  # 64 MiB in all: half a second of the fastest endpoints seen, 20 s of a 25 Mbit/s stream
RETIRE_MS = 50  # a block that is not full is handed over after this many milliseconds
FRAME = 2048  # bytes; a frame that the kernel's checks want to see fit a block evenly, without a meaning in version 3

SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, PACKET_IGNORE_OUTGOING = 1, 5, 6, 10, 23
PACKET_MR_PROMISC = 1
SO_ATTACH_FILTER = 26
TPACKET_V3 = 2
ALL_PROTOCOLS = 0x0003
TAKEN, OURS = 0, 1  # status of a block: the kernel's, ours
OUTGOING = 4
ETHERNETS = (1, 772)  # link types as in sys/class/net/*/type: Ethernet, and loopback, which looks like it
TYPES = Path("/sys/class/net")

_BLOCK_HEADER = struct.Struct("=IIIII")  # version, private, status, frames, first
_STATUS = struct.Struct("=I")
_FRAME_HEADER = struct.Struct("=IIIIIIHH20xHHiHB")  # … and the link-layer address behind: its last is the packet type
_STATISTICS = struct.Struct("=III")

Write = Callable[[int, memoryview, int, int], None]
"""As `Recording.write`."""


def is_available(interface: str) -> bool:
    """Whether this system has such a ring for this interface; it may still not be allowed to be used."""
    return sys.platform == "linux" and _type_of(interface) in ETHERNETS


def _type_of(interface: str) -> int | None:
    try:
        return int((TYPES / interface / "type").read_text())
    except (OSError, ValueError):
        return None


def refusal(interface: str, error: Exception) -> str:
    """Why a capture is impossible, and what to do, for people."""
    trouble = f"cannot capture on {interface}: "
    if not isinstance(error, PermissionError):
        return trouble + (getattr(error, "strerror", None) or str(error))
    cure = "; on Linux the capability CAP_NET_RAW is enough" if sys.platform == "linux" else ""
    return f"{trouble}that needs more rights; run it as root (sudo){cure}"


class Ring:
    """An open ring on one interface."""

    def __init__(self, interface: str, port: int, *, promiscuous: bool = False) -> None:
        """Capture what goes to `port`, and whatever else looks like glue's datagrams.

        Raises InterfaceError without the right to capture, and for an interface that is gone.
        """
        self.dropped = 0
        """Frames that found the ring full."""
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except OSError as error:
            raise InterfaceError(refusal(interface, error)) from error
        try:
            self._set_up(interface, port, promiscuous)
        except OSError as error:
            self._socket.close()
            raise InterfaceError(refusal(interface, error)) from error
        self._memory = mmap.mmap(
            self._socket.fileno(), BLOCK * BLOCKS, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE
        )
        self._view = memoryview(self._memory)
        self._current = 0

    def _set_up(self, interface: str, port: int, promiscuous: bool) -> None:
        opened = self._socket
        program = assemble(port)
        lines = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
        filter_ = struct.pack("@HP", len(program), ctypes.addressof(lines))  # the kernel copies what that points to
        opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)
        opened.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
        request = (BLOCK, BLOCKS, FRAME, BLOCK * BLOCKS // FRAME, RETIRE_MS, 0, 0)
        opened.setsockopt(SOL_PACKET, PACKET_RX_RING, struct.pack("=7I", *request))
        if _type_of(interface) == ETHERNETS[1]:
            opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)  # loopback shows every frame twice
        index = socket.if_nametoindex(interface)
        if promiscuous:
            membership = struct.pack("=iHH8s", index, PACKET_MR_PROMISC, 0, b"")
            opened.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)
        opened.bind((interface, ALL_PROTOCOLS))

    def fileno(self) -> int:
        """Readable when a block is full or its time is up."""
        return self._socket.fileno()

    def read(self, timeout: float, write: Write) -> int:
        """Hand all frames that are there to `write`, after waiting up to `timeout` seconds; returns how many.

        `write` is called as `Recording.write`; its frame is valid until it returns.
        """
        frames = 0
        if not self._ready():
            select.select([self._socket], [], [], timeout)
        for _ in range(BLOCKS):
            if not self._ready():
                break
            start = self._current * BLOCK
            frames += self._read_block(start, write)
            _STATUS.pack_into(self._view, start + 8, TAKEN)
            self._current = (self._current + 1) % BLOCKS
        return frames

    def _ready(self) -> bool:
        return bool(_STATUS.unpack_from(self._view, self._current * BLOCK + 8)[0] & OURS)

    def _read_block(self, start: int, write: Write) -> int:
        view, header = self._view, _FRAME_HEADER.unpack_from
        _, _, _, count, first = _BLOCK_HEADER.unpack_from(view, start)
        position = start + first
        for _ in range(count):
            following, seconds, nanoseconds, captured, size, _, mac, _, _, _, _, _, kind = header(view, position)
            begin = position + mac
            direction = 2 if kind == OUTGOING else 1
            write(seconds * 1_000_000_000 + nanoseconds, view[begin : begin + captured], size, direction)
            position += following
        return int(count)

    def count_drops(self) -> int:
        """Ask the kernel; returns all drops so far."""
        told = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, _STATISTICS.size)  # it counts anew after each
        self.dropped += _STATISTICS.unpack(told)[1]
        return self.dropped

    def close(self) -> None:
        """Give everything back."""
        self._view.release()
        self._memory.close()
        self._socket.close()
