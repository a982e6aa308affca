"""Frames from an interface through scapy's sockets, on any system where scapy runs.

Frames stay bytes. A scapy packet object would cost 200 µs for each frame.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from glue.capture.filter import passes
from glue.capture.pcapng import UNKNOWN
from glue.capture.ring import PACKET_IGNORE_OUTGOING, PACKET_STATISTICS, SOL_PACKET, refusal
from glue.errors import InterfaceError, MissingExtraError

TURN = 256  # most frames read in one call, so that the caller can stop
LARGEST = 1 << 16  # bytes read of a frame
BUFFER = 32 << 20  # bytes of the kernel's receive buffer, about 500 trains
SO_RCVBUFFORCE = 33

Write = Callable[[int, bytes, int, int], None]
"""Callback with the parameters of `Recording.write`."""


class Sniffer:
    """An open socket of scapy's on one interface."""

    def __init__(self, interface: str, port: int, *, promiscuous: bool = False) -> None:
        """Open the socket with the parameters of `glue.capture.ring.Ring`.

        Raises MissingExtraError without scapy, and InterfaceError if the capture cannot be opened.
        """
        try:
            scapy = import_module("scapy.all")
        except ImportError as error:
            raise MissingExtraError.of("recording here", "scapy", "capture") from error
        try:
            self._socket: Any = scapy.conf.L2listen(iface=interface, promisc=promiscuous)
        except (OSError, scapy.Scapy_Exception) as error:
            raise InterfaceError(refusal(interface, error)) from error
        self._port = port
        self._packet_socket: socket.socket | None = None
        self._dropped = 0
        if sys.platform == "linux":
            self._packet_socket = self._socket.ins
            self._prepare(loopback=interface == scapy.conf.loopback_name)
            self.count_drops()  # drops before the buffer was enlarged do not belong to a recording
            self._dropped = 0
        self.link: int = scapy.conf.l2types.layer2num.get(self._socket.LL, 1)

    def _prepare(self, loopback: bool) -> None:
        """Enlarge the receive buffer on Linux, because scapy's default holds only a few trains."""
        assert self._packet_socket is not None
        with suppress(PermissionError):
            self._packet_socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        if loopback:
            self._packet_socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)

    def read(self, timeout: float, write: Write) -> int:
        """Wait up to `timeout` seconds, pass available glue frames to `write`, and return how many.

        One call reads at most 256 frames.
        """
        frames = 0
        for turn in range(TURN):
            if not select.select([self._socket], [], [], 0 if turn else timeout)[0]:
                break
            _, frame, seconds = self._socket.recv_raw(LARGEST)
            if frame is not None and passes(frame, self.link, self._port):
                time_ns = time.time_ns() if seconds is None else int(seconds * 1_000_000_000)
                write(time_ns, frame, len(frame), UNKNOWN)
                frames += 1
        return frames

    def count_drops(self) -> int | None:
        """Read the kernel's counter and return all drops so far; None on systems other than Linux."""
        if self._packet_socket is None:
            return None
        told = self._packet_socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)  # reading resets the counter
        self._dropped += int.from_bytes(told[4:8], sys.byteorder)
        return self._dropped

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
