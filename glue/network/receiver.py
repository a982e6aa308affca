"""Receiving trains from one socket, each into the buffer of the one before, which so stays in the cache."""

from __future__ import annotations

import errno
import fcntl
import socket
import sys
import termios
from collections import Counter
from collections.abc import Iterator

from glue.contract import Train
from glue.network.offload import CONTROL_SIZE

# Plain integers, because arithmetic on Python's flags costs as much as a system call.
DONT_WAIT = int(socket.MSG_DONTWAIT)
TRUNCATED = int(socket.MSG_TRUNC)
NOTHING = bytes(4)  # an int of zero
BUFFER_SIZE = 64 << 10  # UDP's largest datagram, and the most that the kernel coalesces unless told otherwise


class Receiver:
    """Reads one socket without ever blocking; `coalescing` tells whether UDP_GRO is on."""

    __slots__ = ("_buffer", "_control_size", "_fileno", "_queued", "_socket", "statistics")

    def __init__(self, receiving: socket.socket, coalescing: bool, statistics: Counter[str]) -> None:
        self.statistics = statistics
        self._socket = receiving
        self._fileno = receiving.fileno()
        self._control_size = CONTROL_SIZE if coalescing else 0
        self._queued = bytearray(NOTHING)
        self._buffer = memoryview(bytearray(BUFFER_SIZE))

    def receive(self, limit: int, fresh: bool = False) -> Iterator[Train]:
        """What has arrived, at most `limit` trains, each valid until the next is asked for. Errors are counted.

        After a lone datagram that is `fresh`, the first after a pause, nothing more is looked for: it would be in vain.
        """
        read, buffer, control_size = self._socket.recvmsg_into, self._buffer, self._control_size
        trains = datagrams = octets = 0
        for _ in range(limit):
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
            trains += 1
            datagrams += -(-size // segment)
            octets += size
            yield Train(source, buffer[:size], segment)
            if trains == 1 and not control and (fresh or not self._more()):
                break
        if trains:
            self.statistics["trains received"] += trains
            self.statistics["datagrams received"] += datagrams
            self.statistics["bytes received"] += octets

    def _more(self) -> bool:
        """Whether more is queued. A third of the cost of a read in vain, as after most lone datagrams it would be."""
        fcntl.ioctl(self._fileno, termios.FIONREAD, self._queued)
        return self._queued != NOTHING
