"""Frames from an interface through a ring buffer that the kernel shares with this process.

Linux only: TPACKET_V3 (packet(7), Documentation/networking/packet_mmap.rst). The kernel filters frames, fills blocks
with them and hands over whole blocks. Each block costs one wake-up and no copy, so plain Python keeps up with a busy
segment. When the ring is full the kernel drops frames and counts them.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
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
FRAME = 2048  # bytes; the kernel requires a frame size that divides a block, and version 3 does not use it

SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, PACKET_IGNORE_OUTGOING = 1, 5, 6, 10, 23
PACKET_MR_PROMISC = 1
SO_ATTACH_FILTER = 26
TPACKET_V3 = 2
ALL_PROTOCOLS = 0x0003
TAKEN, OURS = 0, 1  # status of a block: the kernel's, this process's
OUTGOING = 4
ETHERNETS = (1, 772)  # link types in /sys/class/net/*/type: Ethernet, and loopback, which has Ethernet headers
TYPES = Path("/sys/class/net")

_BLOCK_HEADER = struct.Struct("=IIIII")  # version, private, status, frames, first
_STATUS = struct.Struct("=I")
# The last fields are the beginning of the link-layer address, up to the packet type.
_FRAME_HEADER = struct.Struct("=IIIIIIHH20xHHiHB")
_STATISTICS = struct.Struct("=III")

logger = logging.getLogger("glue")

Write = Callable[[int, memoryview, int, int], None]
"""Callback with the parameters of `Recording.write`."""


def is_available(interface: str) -> bool:
    """Tell whether this system offers such a ring for the interface. Opening it may still need more rights."""
    return sys.platform == "linux" and _type_of(interface) in ETHERNETS


def _type_of(interface: str) -> int | None:
    try:
        return int((TYPES / interface / "type").read_text())
    except (OSError, ValueError):
        return None


def refusal(interface: str, error: Exception) -> str:
    """Return a text for users: why the capture fails, and what to do."""
    trouble = f"cannot capture on {interface}: "
    if not isinstance(error, PermissionError):
        return trouble + (getattr(error, "strerror", None) or str(error))
    cure = "; on Linux the capability CAP_NET_RAW is enough" if sys.platform == "linux" else ""
    return f"{trouble}that needs more rights; run it as root (sudo){cure}"


class Ring:
    """An open ring on one interface."""

    def __init__(self, interface: str, port: int, *, promiscuous: bool = False) -> None:
        """Capture frames to `port`, and other frames that look like glue's datagrams.

        Raises InterfaceError if the process lacks the right to capture, or the interface does not exist.
        """
        self._name, self._index = interface, 0
        self.dropped = 0
        """Frames that the kernel dropped because the ring was full."""
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
        # the kernel copies the program during setsockopt
        filter_ = struct.pack("@HP", len(program), ctypes.addressof(lines))
        opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter_)
        opened.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
        request = (BLOCK, BLOCKS, FRAME, BLOCK * BLOCKS // FRAME, RETIRE_MS, 0, 0)
        opened.setsockopt(SOL_PACKET, PACKET_RX_RING, struct.pack("=7I", *request))
        if _type_of(interface) == ETHERNETS[1]:
            opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)  # loopback would deliver every frame twice
        self._index = socket.if_nametoindex(interface)
        if promiscuous:
            membership = struct.pack("=iHH8s", self._index, PACKET_MR_PROMISC, 0, b"")
            opened.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)
        opened.bind((interface, ALL_PROTOCOLS))

    def fileno(self) -> int:
        """Return the file descriptor. It is readable when a block is full or 50 ms old."""
        return self._socket.fileno()

    def read(self, timeout: float, write: Write) -> int:
        """Wait up to `timeout` seconds, pass all available frames to `write`, and return how many.

        `write` has the parameters of `Recording.write`. The frame is valid until `write` returns. Raises InterfaceError
        once the interface is gone.
        """
        frames = 0
        if not self._ready():
            select.select([self._socket], [], [], timeout)
            if not self._ready():
                self._look()
        for _ in range(BLOCKS):
            if not self._ready():
                break
            start = self._current * BLOCK
            frames += self._read_block(start, write)
            _STATUS.pack_into(self._view, start + 8, TAKEN)
            self._current = (self._current + 1) % BLOCKS
        return frames

    def _look(self) -> None:
        """Read the socket's error, as of an interface that went down: until then it would end each wait."""
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not error:
            return
        try:
            socket.if_indextoname(self._index)
        except OSError:
            raise InterfaceError(f"{self._name}: the interface is gone, and the capture with it") from None
        logger.warning("%s: %s; the capture goes on when it is up again", self._name, os.strerror(error))

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
        """Read the kernel's counter and return all drops so far."""
        told = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, _STATISTICS.size)  # reading resets the counter
        self.dropped += _STATISTICS.unpack(told)[1]
        return self.dropped

    def close(self) -> None:
        """Release the ring and close the socket."""
        self._view.release()
        self._memory.close()
        self._socket.close()
