"""Frames to datagrams and back.

A datagram is one JSON object on one line, a newline, and the body as raw bytes. The object has one key for each layer
(`wire` declares this layer's entry). Datagrams of a train are written and read as a run (see `runs`, and for
long runs `lazy_train`). A datagram with an unexpected header is parsed on its own. The form of its header (see `forms`)
identifies a single datagram.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import orjson

from glue.contract import Address, Header, Inbound, Outbound, Train
from glue.contract.counters import Counters
from glue.contract.header import MAX_HEADER
from glue.contract.pieces import Pieces
from glue.contract.sealed import SEALED, Tell, sealed_network
from glue.serialization.forms import Forms
from glue.serialization.lazy_train import ChunkBuffer, LazyTrain
from glue.serialization.runs import Rows, Span, run_length, spans_of, train_of, widened
from glue.serialization.wire import GLUE, ID_DIGITS, KEY, VERSION

_HEX = "0123456789abcdef"
_NETWORK, _PEER, _INCARNATION = map(GLUE.place, ("network", "sender", "incarnation"))
_VERSION = GLUE.place("version")

Lone = tuple[Address | None, bytes, int]
"""A single datagram: source address, data, and header size in bytes."""


def _beginning(entry: list[Any]) -> bytes:
    """The common beginning of an endpoint's headers: its entry up to the counter, the last field."""
    return orjson.dumps({KEY: entry[:-1]})[: -len("]}")] + b","


def spans_in(header: Header, head: bytes) -> list[Span] | None:
    """Where the headers of a run that begins with this one count; None if its text does not tell."""
    if head.count(b"[") != len(header) or head.count(b"]") != len(header):
        return None  # lists within lists, or brackets in a string
    spans = spans_of(head)
    if len(spans) != sum(entry[-1].__class__ is int for entry in header.values() if entry):
        return None  # an integer in an unusual notation, such as -0
    return spans


class Serialization:
    """The serialization layer of one endpoint: Train below, Inbound and Outbound above."""

    deadline = math.inf
    backlog = unfinished = 0

    def __init__(
        self,
        *,
        endpoint_id: str,
        incarnation: int,
        network_id: int,
        counter: int = 0,
        on_sealed: Tell | None = None,
    ) -> None:
        """`counter` is the number of the first datagram.

        `on_sealed` is called with SEALED and the source of a sealed datagram of this network.
        """
        self.statistics = Counters()
        self.network_id = network_id
        self.prefix = _beginning(GLUE.pack(network=network_id, sender=endpoint_id, incarnation=incarnation))
        self.counter = counter  # of the next datagram
        self._on_sealed = on_sealed
        self.chunk_buffer = ChunkBuffer()
        self.forms = Forms()
        self.spans: dict[bytes, list[Span]] = {}  # of others' headers, by form

    def fit(self, size: int) -> int:
        """A datagram of `size` bytes leaves this much for the body, whatever the headers hold."""
        return size - MAX_HEADER

    # -------------------------------------------------------------------------------------------- down

    def send(self, now: float, items: list[Outbound]) -> list[Train]:
        """One train for each run of frames. Raises ValueError if the layers above made the header too long."""
        trains: list[Train] = []
        for item in items:
            bodies = item.bodies
            count = len(bodies)
            others = b"," + orjson.dumps(item.header)[1:] if item.header else b"}"
            head = b"%b%d]%b\n" % (self.prefix, self.counter, others)
            self.counter += count
            if count > 1 and len(head) <= MAX_HEADER:
                head, spans = widened(head, spans_of(head), count)
            if len(head) > MAX_HEADER:
                raise ValueError(f"header over the {MAX_HEADER} bytes that the layers may use in all: {head!r}")
            if count == 1:
                data = head + bodies[0]
                trains.append(Train(item.address, data, len(data)))
            elif isinstance(bodies, Pieces):
                trains.append(LazyTrain(item.address, self.chunk_buffer, head, spans, bodies))
            else:
                trains.append(Train(item.address, train_of(head, spans, bodies), len(head) + len(bodies[0])))
            self.statistics["datagrams sent"] += count
        return trains

    # ---------------------------------------------------------------------------------------------- up

    def receive(self, now: float, items: Iterable[Train]) -> tuple[list[Inbound], list[Train]]:
        """The frames of the trains, in their order, as few runs as they allow."""
        frames: list[Inbound] = []
        rows: Rows | None = None
        lone: Lone | None = None  # a single datagram that nothing has followed yet: most often nothing will
        for train in items:
            data, segment = train.data, train.segment
            if rows is not None and len(data) > segment and rows.continues(train):
                rows.add(train)
                continue
            is_lone = len(data) <= segment
            start = bytes(data if is_lone else data[:MAX_HEADER])
            if start.startswith(self.prefix):  # and so is the rest: a train has one source
                self.statistics["own datagrams received"] += -(-len(data) // segment)
                continue
            size = start.find(b"\n", 0, min(segment, MAX_HEADER)) + 1
            if not size and is_lone:  # no header, or nothing at all: malformed
                self._read_lone(train.address, start, 0, frames)
                continue
            if lone is not None:
                rows, lone = self._rows(lone), None
            if rows is None and is_lone:
                lone = train.address, start, size
                continue
            if rows is None or not rows.fits(train, size):
                if rows is not None:
                    self._read(rows, frames)
                rows = Rows(train.address, size, min(segment, len(data)))
            rows.add(train)
        if lone is not None:
            self._read_lone(*lone, frames)
        elif rows is not None:
            self._read(rows, frames)
        return frames, []

    def _rows(self, lone: Lone) -> Rows:
        """A single datagram as the first of several."""
        address, data, size = lone
        rows = Rows(address, size, len(data))
        rows.add(Train(address, data, len(data)))
        return rows

    def _read(self, rows: Rows, frames: list[Inbound]) -> None:
        """Read the runs in `rows`; a datagram with a header of another size is cut and read on its own."""
        heads, bodies = rows.split()
        size = rows.size
        start = 0
        while start < rows.count:
            head = heads[start * size : (start + 1) * size]
            if head.find(b"\n") == size - 1 >= 0:
                start += self._read_run(rows, heads, bodies, start, frames)
            else:
                data = head + bodies[start]
                self._read_lone(rows.address, data, data.find(b"\n", 0, MAX_HEADER) + 1, frames)
                start += 1

    def _read_lone(self, address: Address | None, data: bytes, size: int, frames: list[Inbound]) -> None:
        """Read one datagram with a header of `size` bytes; append its frame if well-formed."""
        head = data[:size]
        header = self._parse(head)
        if header is not None:
            own = header[KEY]
            form = self.forms.of(head) or self.forms.learn(head, header, KEY)
            frames.append(Inbound(own[_PEER], own[_INCARNATION], address, header, [data[size:]], 0.0, True, form))
            self.statistics["datagrams received"] += 1
        elif sealed_network(data) is not None:
            self._refuse_sealed(address, data)

    def _refuse_sealed(self, address: Address | None, data: bytes) -> None:
        """Count a sealed datagram as what it is, and tell of its sender if it is of this network."""
        is_near = sealed_network(data) == self.network_id
        self.statistics["malformed header"] -= 1
        self.statistics["sealed" if is_near else "other network"] += 1
        if is_near and self._on_sealed is not None:
            self._on_sealed(SEALED, address)

    def _read_run(self, rows: Rows, heads: bytes, bodies: Pieces, start: int, frames: list[Inbound]) -> int:
        """Read the run that begins with the header at `start`, and goes on as far as it does.

        Returns how many datagrams were read: one, if the header cannot be.
        """
        head = heads[start * rows.size : (start + 1) * rows.size]
        header = self._parse(head)
        if header is None:
            return 1
        count = 1
        form = self.forms.of(head) or self.forms.learn(head, header, KEY)
        if rows.count > start + 1 and (spans := self._known_spans(header, head, form)):
            count = run_length(heads, start * rows.size, head, spans)
        own = header[KEY]
        run = bodies if count == rows.count else bodies[start : start + count]
        frames.append(Inbound(own[_PEER], own[_INCARNATION], rows.address, header, run, 0.0, True, form))
        self.statistics["datagrams received"] += count
        return count

    def _known_spans(self, header: Header, head: bytes, form: bytes | None) -> list[Span] | None:
        """The counters' places in this header, cached by form."""
        spans = None if form is None else self.spans.get(form)
        if spans is None:
            spans = spans_in(header, head)
            if spans and form is not None:
                if len(self.spans) >= Forms.LIMIT:
                    self.spans.clear()
                self.spans[form] = spans
        return spans

    def _parse(self, head: bytes) -> Header | None:
        """Parse and check a header; count the cause and return None if it is refused."""
        try:
            header = orjson.loads(head)
            own = header[KEY]
            version, network, peer = own[_VERSION], own[_NETWORK], own[_PEER]
            if len(own) != len(GLUE.fields) or version.__class__ is not int or network.__class__ is not int:
                raise ValueError
            if version != VERSION or network != self.network_id:
                self.statistics["other version" if version != VERSION else "other network"] += 1
                return None
            if not GLUE.fits(own) or len(peer) != ID_DIGITS or peer.strip(_HEX):
                raise ValueError
            for entry in header.values():
                if entry.__class__ is not list:
                    raise ValueError
        except (ValueError, LookupError, TypeError):
            self.statistics["malformed header"] += 1
            return None
        return header  # type: ignore[no-any-return]
