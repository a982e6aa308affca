"""Receiving trains from one socket, each into the buffer of the one before, which so stays in the cache.

A lone datagram is read without the generator that a stream is worth.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import sys
import termios
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from glue.contract import Train
from glue.network.offload import CONTROL_SIZE

# Plain integers, because arithmetic on Python's flags costs as much as a system call.
DONT_WAIT = int(socket.MSG_DONTWAIT)
TRUNCATED = int(socket.MSG_TRUNC)
NOTHING = bytes(4)  # an int of zero
ATTEMPTS = 32  # reads that may fail before the rest is left to the next turn
BUFFER_SIZE = 64 << 10  # UDP's largest datagram, and the most that the kernel coalesces unless told otherwise


class Receiver:
    """Reads one socket without ever blocking; `coalescing` tells whether UDP_GRO is on."""

    __slots__ = (
        "_buffer",
        "_buffers",
        "_control_size",
        "_fileno",
        "_queued",
        "_socket",
        "coalesced",
        "read",
        "statistics",
    )

    def __init__(self, receiving: socket.socket, coalescing: bool, statistics: Counter[str]) -> None:
        self.statistics = statistics
        self._socket = receiving
        self._fileno = receiving.fileno()
        self._control_size = CONTROL_SIZE if coalescing else 0
        self._queued = bytearray(NOTHING)
        self._buffer = memoryview(bytearray(BUFFER_SIZE))
        self._buffers = (self._buffer,)
        self.read = 0  # trains in the latest call of `receive`
        self.coalesced = False  # whether the last of them was of several datagrams

    def receive(self, limit: int, fresh: bool = False) -> Iterable[Train]:
        """What has arrived, at most `limit` trains, each valid until the next is asked for. Errors are counted.

        After a lone datagram that is `fresh`, the first after a pause, nothing more is looked for: it would be in vain.
        """
        self.read = 0
        first = self._next()
        if first is None:
            return ()
        if not self.coalesced and (fresh or not self._more()):
            return (first,)
        return chain((first,), self._receive(limit - 1))

    def _receive(self, limit: int) -> Iterator[Train]:
        for _ in range(limit):
            train = self._next()
            if train is None:
                return
            yield train

    def _next(self) -> Train | None:
        """The next train; None if none is there, or nothing but errors."""
        for _ in range(ATTEMPTS):
            try:
                size, control, flags, source = self._socket.recvmsg_into(self._buffers, self._control_size, DONT_WAIT)
            except BlockingIOError:
                return None
            except OSError as error:  # an ICMP answer to something sent earlier, or the interface went down
                self.statistics[f"not received: {errno.errorcode.get(error.errno or 0, 'unknown error')}"] += 1
                continue
            if not size or flags & TRUNCATED:
                self.statistics["not received: truncated" if size else "not received: empty"] += 1
                continue
            segment = int.from_bytes(control[0][2], sys.byteorder) if control else size
            self.read += 1
            self.coalesced = segment < size
            self.statistics["trains received"] += 1
            self.statistics["datagrams received"] += -(-size // segment)
            self.statistics["bytes received"] += size
            return Train(source, self._buffer[:size], segment)
        return None

    def _more(self) -> bool:
        """Whether more is queued. A third of the cost of a read in vain, as after most lone datagrams it would be."""
        fcntl.ioctl(self._fileno, termios.FIONREAD, self._queued)
        return self._queued != NOTHING
