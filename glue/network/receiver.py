"""Receiving trains from one socket, into buffers that are used again: no copy, no allocation, no needless call."""

from __future__ import annotations

import errno
import fcntl
import socket
import sys
import termios
from collections import Counter
from collections.abc import Sequence

from glue.contract import Train
from glue.network.offload import CONTROL_SIZE

# Plain integers, because arithmetic on Python's flags costs as much as a system call.
DONT_WAIT = int(socket.MSG_DONTWAIT)
TRUNCATED = int(socket.MSG_TRUNC)
NOTHING = bytes(4)  # an int of zero
BUFFER_SIZE = 64 << 10  # UDP's largest datagram, and the most that the kernel coalesces unless told otherwise


def buffer_pool(count: int) -> list[memoryview]:
    """Buffers for `count` trains; untouched ones take address space, but no memory."""
    whole = memoryview(bytearray(count * BUFFER_SIZE))
    return [whole[start : start + BUFFER_SIZE] for start in range(0, len(whole), BUFFER_SIZE)]


class Receiver:
    """Reads one socket without ever blocking; `coalescing` tells whether UDP_GRO is on."""

    __slots__ = ("_control_size", "_fileno", "_queued", "_socket", "statistics")

    def __init__(self, receiving: socket.socket, coalescing: bool, statistics: Counter[str]) -> None:
        self.statistics = statistics
        self._socket = receiving
        self._fileno = receiving.fileno()
        self._control_size = CONTROL_SIZE if coalescing else 0
        self._queued = bytearray(NOTHING)

    def receive(self, buffers: Sequence[memoryview], trains: list[Train]) -> None:
        """Append what has arrived to `trains`, in at most this many buffers. Errors are counted, by their cause."""
        read, control_size = self._socket.recvmsg_into, self._control_size
        datagrams = octets = 0
        before = len(trains)
        for buffer in buffers:
            try:
                size, control, flags, source = read((buffer,), control_size, DONT_WAIT)
            except BlockingIOError:
                break
            except OSError as error:  # an ICMP answer to something sent earlier, or the interface went down
                self.statistics[f"not received: {errno.errorcode.get(error.errno or 0, 'unknown error')}"] += 1
                continue
            if not size or flags & TRUNCATED:
                self.statistics["not received: truncated" if size else "not received: empty"] += 1
                continue
            segment = int.from_bytes(control[0][2], sys.byteorder) if control else size
            trains.append(Train(source, buffer[:size], segment))
            datagrams += -(-size // segment)
            octets += size
            if buffer is buffers[0] and not control and not self._more():
                break
        self.statistics["trains received"] += len(trains) - before
        self.statistics["datagrams received"] += datagrams
        self.statistics["bytes received"] += octets

    def _more(self) -> bool:
        """Whether more is queued. A third of the cost of a read in vain, as after most lone datagrams it would be."""
        fcntl.ioctl(self._fileno, termios.FIONREAD, self._queued)
        return self._queued != NOTHING
