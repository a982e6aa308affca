"""Frames to datagrams and back.

A datagram is one JSON object on one line, a newline, and the body as raw bytes. The object has one key a
layer; this layer's is "glue": [version, network id, sender's endpoint id, sender's incarnation, counter],
where the counter numbers every datagram of the sender. Datagrams of a train are written, and read, as a run
(see `runs`); one whose header is not the expected next is parsed on its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import orjson

from glue.contract import Address, Header, Inbound, Outbound, Train
from glue.serialization.runs import Cutters, Pattern, Run, interleaved

VERSION = 1
MAX_HEADER = 192
"""Bytes of header, newline included. At the very worst this layer takes 68 of them (with a counter of 14 digits: three
years of a million datagrams a second), transport 72, fragmentation 50, and what stands around them 2."""
_LIMIT = 1 << 53  # integers beyond are not exact in every JSON reader
_HEX = "0123456789abcdef"


def _layout(size: int, segment: int) -> tuple[int, int]:
    """How many datagrams of `segment` bytes make up `size` bytes, and how long the last one is."""
    count = -(-size // segment)
    return count, size - (count - 1) * segment


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
                pattern = Pattern.of(head).widened(count)
                parts = pattern.columns(count)
                parts.append(bodies if bodies.__class__ is list else list(bodies))
                data = interleaved(parts)
                segment = pattern.size + len(bodies[0])
            if segment - len(bodies[0]) > MAX_HEADER:
                raise ValueError(f"header over the {MAX_HEADER} bytes that the layers may use in all: {head!r}")
            trains.append(Train(item.address, data, segment))
            self.statistics["datagrams sent"] += count
        return trains

    # ---------------------------------------------------------------------------------------------- up

    def receive(self, now: float, items: list[Train]) -> tuple[list[Inbound], list[Train]]:
        """The frames of the trains, in their order, as few runs as they allow."""
        frames: list[Inbound] = []
        run: Run | None = None  # what the previous train ended with
        for train in items:
            data, segment = train.data, train.segment
            if run is not None and self._continue(run, train):
                continue
            run = None
            if len(data) <= segment:
                self._read_one(train.address, data, frames)
            elif segment > 0:
                run = self._read_train(train.address, data, segment, frames)
        return frames, []

    def _continue(self, run: Run, train: Train) -> bool:
        """Add a train to a run, if all of it goes on where the run ended."""
        data, size, segment = train.data, run.head_size, run.segment
        if not run.open or train.address != run.frames.address or len(data) < size:
            return False
        if train.segment != segment and len(data) > min(train.segment, segment):
            return False  # neither cut alike nor a single datagram
        count, last = _layout(len(data), segment)
        if last < size:
            return False
        cutter = self._cutters.get(size, segment, count, last)
        heads = cutter.heads.unpack_from(data)
        if b"".join(heads) != interleaved(run.pattern.columns(count, len(run.frames.bodies))):
            return False
        run.frames.bodies = [*run.frames.bodies, *cutter.bodies.unpack_from(data)]
        run.open = last == segment
        self.statistics["datagrams received"] += count
        return True

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
    ) -> Run | None:
        """The runs of a train; returns the last, if the next train may go on with it."""
        offset, size = 0, len(data)
        pattern = None
        while offset < size:
            start = bytes(data[offset : offset + min(segment, MAX_HEADER)])
            head_size = start.find(b"\n") + 1
            header = self._parse(start, head_size)
            if header is None:
                offset += segment
                pattern = None
                continue
            rest = data[offset:]
            count, bodies, pattern = self._run(header, start[:head_size], rest, segment)
            _, _, peer, incarnation, _ = header["glue"]
            frames.append(Inbound(peer, incarnation, address, header, bodies))
            self.statistics["datagrams received"] += count
            offset += count * segment
        return None if pattern is None else Run(frames[-1], pattern, head_size, segment, size % segment == 0)

    def _run(
        self, header: Header, head: bytes, data: bytes | memoryview, segment: int
    ) -> tuple[int, Sequence[bytes], Pattern | None]:
        """How many of the datagrams in `data` form a run that starts with this header; their bodies; its pattern."""
        size = len(head)
        count, last = _layout(len(data), segment)
        if last < size:  # too short to hold the same header
            count, last = count - 1, segment
        if count > 1 and (pattern := self._continued(header, head, data, segment)):
            cutter = self._cutters.get(size, segment, count, last)
            heads, bodies = cutter.heads.unpack_from(data), cutter.bodies.unpack_from(data)
            expected = pattern.columns(count)
            if b"".join(heads) == interleaved(expected):
                return count, bodies, pattern
            rows = map(b"".join, zip(*expected, strict=True))
            # But for the first: it was parsed, and its writer may pad numbers in another way.
            others = (i for i, (row, found) in enumerate(zip(rows, heads, strict=True)) if i and row != found)
            same = next(others, count)
            return same, bodies[:same], pattern
        return 1, [bytes(data[size:segment])], None

    @staticmethod
    def _continued(header: Header, head: bytes, data: bytes | memoryview, segment: int) -> Pattern | None:
        """The pattern of a header that the second datagram seems to continue; a cheap test before all are."""
        if head.count(b"[") != len(header) or head.count(b"]") != len(header):
            return None  # lists within lists, or brackets in a string: what counts is not told by the text
        pattern = Pattern.of(head)
        if len(pattern.counters) != sum(entry[-1].__class__ is int for entry in header.values() if entry):
            return None  # an integer written as nobody expects it, such as -0
        tail = pattern.pieces[-2][-8:]  # of what precedes the last counter: that changes from channel to channel
        start = segment + len(head) - len(pattern.pieces[-1]) - pattern.counters[-1][1] - len(tail)
        return pattern if data[start : start + len(tail)] == tail else None

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
                or not 0 <= incarnation < _LIMIT
                or counter.__class__ is not int
                or not 0 <= counter < _LIMIT
            ):
                raise ValueError
            for entry in header.values():
                if entry.__class__ is not list:
                    raise ValueError
        except (ValueError, KeyError, TypeError):
            self.statistics["malformed header"] += 1
            return None
        return header  # type: ignore[no-any-return]
