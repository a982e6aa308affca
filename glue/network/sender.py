"""Sending trains from the unicast socket: in as few system calls as possible, without raising the kernel's errors.

A train goes out with UDP_SEGMENT in chunks of up to 64 kB. A destination that refuses UDP_SEGMENT is remembered, and
each datagram there takes a call. A full device queue delays a call of `send` once, by the socket's send timeout.
Datagrams that still do not fit are dropped and counted, as after any other error.
"""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Sequence

from glue.contract import Address, Train
from glue.network.loopback import MulticastLoopback
from glue.network.offload import MAXIMUM_SEGMENTS, SEGMENTATION_REFUSED, segmentation_control

BROKEN = errno.ENETDOWN, errno.ENETUNREACH, errno.ENODEV, errno.EADDRNOTAVAIL  # the interface is down, or changed
REMEMBERED = 1024  # destinations known to refuse UDP_SEGMENT: more than one segment has hosts; about 100 kB


class Sender:
    """Sends trains; `destination` is where those for the group go, None while there is no way to it."""

    __slots__ = (
        "_control", "_flags", "_loopback", "_octets", "_payload_limit", "_plain", "_posted", "_segment", "_socket",
        "destination", "is_broken", "segmentation", "statistics",
    )  # fmt: skip

    def __init__(
        self,
        unicast: socket.socket,
        payload_limit: int,
        segmentation: bool,
        statistics: Counter[str],
        loopback: MulticastLoopback | None = None,
    ) -> None:
        """`payload_limit`: the most bytes of UDP payload in one call. `segmentation`: the kernel knows UDP_SEGMENT.

        `loopback` is that of the same socket; None: multicasts are always returned.
        """
        self.destination: Address | None = None
        self.is_broken = False  # whether the interface could not send at all, until this is taken back
        self.segmentation = segmentation
        self.statistics = statistics
        self._socket = unicast
        self._loopback = loopback
        self._payload_limit = payload_limit
        self._flags = 0
        self._posted = self._octets = 0  # what was posted, and not counted
        self._plain: set[str] = set()  # hosts the way to which refuses UDP_SEGMENT
        self._segment = 0  # what `_control` says
        self._control = segmentation_control(0)

    def send(self, trains: Sequence[Train]) -> None:
        """Send what can be sent now; the rest is counted by its cause, in datagrams."""
        self._flags = 0
        trains_sent = datagrams = octets = 0
        for train in trains:
            segment, address = train.segment, train.address or self.destination
            if not train.address and self._loopback is not None:
                self._loopback.prepare(train.address is None)
            before = datagrams
            for data in train.chunks():
                if address is None:
                    self.statistics["not sent: no interface"] += -(-len(data) // segment)
                elif len(data) > segment:
                    whole = self.segmentation and address[0] not in self._plain
                    sent = (self._send_whole if whole else self._send_singly)(memoryview(data), segment, address)
                    datagrams += -(-sent // segment)
                    octets += sent
                else:
                    try:
                        octets += self._socket.sendto(data, self._flags, address)
                        datagrams += 1
                    except OSError as error:
                        self._failed(error, 1)
            trains_sent += datagrams > before
        self._count(trains_sent, datagrams, octets)

    def post(self, data: bytes, address: Address) -> None:
        """Send one datagram to this address."""
        try:
            self._octets += self._socket.sendto(data, address)
            self._posted += 1
        except OSError as error:
            self._failed(error, 1)

    def commit(self) -> None:
        """Count what was posted."""
        self._count(self._posted, self._posted, self._octets)
        self._posted = self._octets = 0

    def _count(self, trains: int, datagrams: int, octets: int) -> None:
        self.statistics["trains sent"] += trains
        self.statistics["datagrams sent"] += datagrams
        self.statistics["bytes sent"] += octets

    def forget_refusals(self) -> None:
        """Try UDP_SEGMENT again everywhere: devices and routes may have changed."""
        self._plain.clear()

    def _send_whole(self, data: memoryview, segment: int, address: Address) -> int:
        """Send datagrams in chunks that the kernel cuts into them; returns the bytes sent."""
        if segment != self._segment:
            self._control, self._segment = segmentation_control(segment), segment
        step = min(MAXIMUM_SEGMENTS, self._payload_limit // segment) * segment
        sent = 0
        for start in range(0, len(data), step):
            chunk = data[start : start + step]
            try:
                sent += self._socket.sendmsg((chunk,), self._control, self._flags, address)
            except OSError as error:
                if error.errno in SEGMENTATION_REFUSED:
                    self._remember_refusal(address)
                    return sent + self._send_singly(data[start:], segment, address)
                self._failed(error, -(-len(chunk) // segment))
        return sent

    def _send_singly(self, data: memoryview, segment: int, address: Address) -> int:
        """Send datagrams with one call each; returns the bytes sent."""
        sent = 0
        for start in range(0, len(data), segment):
            try:
                sent += self._socket.sendto(data[start : start + segment], self._flags, address)
            except OSError as error:
                self._failed(error, 1)
        return sent

    def _remember_refusal(self, address: Address) -> None:
        self.statistics["segmentation refused"] += 1
        if len(self._plain) >= REMEMBERED:
            self._plain.clear()
        self._plain.add(address[0])

    def _failed(self, error: OSError, datagrams: int) -> None:
        if isinstance(error, BlockingIOError):
            self._flags = socket.MSG_DONTWAIT  # the queue is full and was waited for; do not wait for each datagram
            self.statistics["not sent: queue full"] += datagrams
        else:
            self.is_broken = self.is_broken or error.errno in BROKEN
            cause = errno.errorcode.get(error.errno or 0, "unknown error")
            self.statistics[f"not sent: {cause}"] += datagrams
