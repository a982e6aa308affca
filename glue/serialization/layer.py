"""Frames to datagrams and back.

A datagram is one JSON object on one line, a newline, and the body as raw bytes. The object has one key a
layer; this layer's is "glue": [version, network id, sender's endpoint id, sender's incarnation, counter],
where the counter numbers every datagram of the sender. Datagrams of a train are written, and read, as a run
(see `runs`); one whose header is not the expected next is parsed on its own.
"""

from __future__ import annotations

import math
from collections import Counter

import orjson

from glue.contract import Address, Header, Inbound, Outbound, Train
from glue.serialization.runs import Cutters, columns, interleaved, widened

VERSION = 1
MAX_HEADER = 192  # bytes, newline included: what DESIGN.md grants all layers together
_MAX_COUNTER = 1 << 63
_MAX_INCARNATION = 1 << 53  # the largest integer that every JSON reader keeps exactly
_HEX = "0123456789abcdef"


class Serialization:
    """The serialization layer of one endpoint: Train below, Inbound and Outbound above."""

    deadline = math.inf
    backlog = 0

    def __init__(self, *, endpoint_id: str, incarnation: int, network_id: int, counter: int = 0) -> None:
        """`counter` is the number of the first datagram."""
        self.statistics: Counter[str] = Counter()
        self._sender = [VERSION, network_id, endpoint_id, incarnation]
        self._network_id = network_id
        self._own = orjson.dumps({"glue": self._sender})[:-2] + b","
        self._counter = counter
        self._cutters = Cutters()

    def fit(self, size: int) -> int:
        """A datagram of `size` bytes leaves this much for the body, whatever the headers hold."""
        return size - MAX_HEADER

    # -------------------------------------------------------------------------------------------- down

    def send(self, now: float, items: list[Outbound]) -> list[Train]:
        """One train for each run of frames. Raises ValueError if the layers above made the header too long."""
        trains = []
        for item in items:
            bodies = item.bodies
            count = len(bodies)
            head = orjson.dumps({"glue": [*self._sender, self._counter], **item.header}) + b"\n"
            self._counter += count
            if count == 1:
                data = head + bodies[0]
                segment = len(data)
            else:
                head = widened(head, count)
                parts = columns(head, 0, count)
                parts.append(bodies if bodies.__class__ is list else list(bodies))
                data = interleaved(parts)
                segment = len(head) + len(bodies[0])
            if len(head) > MAX_HEADER:
                raise ValueError(f"header of {len(head)} bytes; the layers may use {MAX_HEADER} in all: {head!r}")
            trains.append(Train(item.address, data, segment))
            self.statistics["datagrams sent"] += count
        return trains

    # ---------------------------------------------------------------------------------------------- up

    def receive(self, now: float, items: list[Train]) -> tuple[list[Inbound], list[Train]]:
        """The frames of the trains, in their order, as few runs as they allow."""
        frames: list[Inbound] = []
        for train in items:
            data, segment = train.data, train.segment
            if len(data) <= segment:
                self._read_one(train.address, data, frames)
            elif segment > 0:
                self._read_train(train.address, data, segment, frames)
        return frames, []

    def _read_one(self, address: Address | None, data: bytes | memoryview, frames: list[Inbound]) -> None:
        start = bytes(data[:MAX_HEADER])
        size = start.find(b"\n") + 1
        header = self._parse(start, size)
        if header is not None:
            _, _, peer, incarnation, _ = header["glue"]
            frames.append(Inbound(peer, incarnation, address, header, [bytes(data[size:])]))
            self.statistics["datagrams received"] += 1

    def _read_train(
        self, address: Address | None, data: bytes | memoryview, segment: int, frames: list[Inbound]
    ) -> None:
        offset, size = 0, len(data)
        while offset < size:
            start = bytes(data[offset : offset + min(segment, MAX_HEADER)])
            head_size = start.find(b"\n") + 1
            header = self._parse(start, head_size)
            if header is None:
                offset += segment
                continue
            rest = data[offset:]
            count, bodies = self._run(header, start[:head_size], rest, segment)
            _, _, peer, incarnation, _ = header["glue"]
            frames.append(Inbound(peer, incarnation, address, header, bodies))
            self.statistics["datagrams received"] += count
            offset += count * segment

    def _run(
        self, header: Header, head: bytes, data: bytes | memoryview, segment: int
    ) -> tuple[int, tuple[bytes, ...] | list[bytes]]:
        """How many of the datagrams in `data` form a run that starts with this header; and their bodies."""
        size = len(head)
        count = -(-len(data) // segment)
        last = len(data) - (count - 1) * segment
        if last < size:  # too short to hold the same header
            count, last = count - 1, segment
        if count > 1 and not self._continues(header, head, data, segment):
            count, last = 1, min(segment, len(data))
        if count == 1:
            return 1, [bytes(data[size:segment])]
        cutter = self._cutters.get(size, segment, count, last)
        heads = cutter.heads.unpack_from(data)
        expected = columns(head, 0, count)
        if b"".join(heads) == interleaved(expected):
            return count, cutter.bodies.unpack_from(data)
        rows = zip(*expected, strict=True)
        same = next(i for i, (row, found) in enumerate(zip(rows, heads, strict=True)) if b"".join(row) != found)
        return same, cutter.bodies.unpack_from(data)[:same]

    def _continues(self, header: Header, head: bytes, data: bytes | memoryview, segment: int) -> bool:
        """Whether the second datagram has the header expected after the first; a cheap test before all are."""
        if head.count(b"[") != len(header) or head.count(b"]") != len(header):
            return False  # lists within lists, or brackets in a string: what counts is not told by the text
        expected = interleaved(columns(head, 1, 1))
        return bytes(data[segment : segment + len(head)]) == expected

    def _parse(self, start: bytes, size: int) -> Header | None:
        """The checked header in the first `size` bytes of `start`, or None, the cause being counted."""
        if start.startswith(self._own):
            self.statistics["own datagrams heard"] += 1
            return None
        try:
            if not size:
                raise ValueError
            header = orjson.loads(start[:size])
            version, network, peer, incarnation, counter = header["glue"]
            if version.__class__ is not int or network.__class__ is not int:
                raise ValueError
            if version != VERSION or network != self._network_id:
                self.statistics["other version" if version != VERSION else "other network"] += 1
                return None
            if (
                peer.__class__ is not str
                or len(peer) != 16
                or peer.strip(_HEX)
                or incarnation.__class__ is not int
                or not 0 <= incarnation < _MAX_INCARNATION
                or counter.__class__ is not int
                or not 0 <= counter < _MAX_COUNTER
            ):
                raise ValueError
            for entry in header.values():
                if entry.__class__ is not list:
                    raise ValueError
        except (ValueError, KeyError, TypeError):
            self.statistics["malformed header"] += 1
            return None
        return header  # type: ignore[no-any-return]
