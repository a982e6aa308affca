"""The fast path of serialization: single runs with a header of known form, and the datagrams of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson

from glue.contract import CONSUMED, Inbound, Outbound, Train
from glue.contract.header import INTEGER_LIMIT, MAX_HEADER, NUMBER
from glue.contract.pieces import Pieces
from glue.serialization.forms import Forms, form_of
from glue.serialization.layer import Serialization
from glue.serialization.lazy_train import LazyTrain
from glue.serialization.runs import Span, are_run, counts_on, spans_of, widened
from glue.serialization.wire import GLUE, ID_DIGITS, KEY, VERSION

_NETWORK, _PEER, _INCARNATION, _COUNTER = map(GLUE.place, ("network", "sender", "incarnation", "counter"))
_VERSION = GLUE.place("version")
_FIRST = b'{"%b":[' % KEY.encode()  # a header whose first counter numbers the datagrams

Awaits = Callable[[Inbound], bool]
"""Whether a layer awaits a run that begins with this header; called before the bodies are read."""


class SerializationFastPath:
    """Datagrams with headers of a known form; see `glue.contract.fastpath` and `glue.fastpath.parts`."""

    __slots__ = ("_layer", "_own_spans", "awaited_by")

    def __init__(self, layer: Serialization) -> None:
        self._layer = layer
        self._own_spans: dict[bytes, list[Span]] = {}
        self.awaited_by: Sequence[Awaits] = ()  # a run awaited by all of these is not compared in full

    def session_part(self) -> SerializationFastPath:
        """The part that this layer takes in a session."""
        return self

    # -------------------------------------------------------------------------------------------- one run

    def send_one(self, now: float, item: Outbound) -> Train | None:
        """The datagrams of a run."""
        if not item.header:
            return None
        layer = self._layer
        bodies = item.bodies
        count = len(bodies)
        head = b"%b%d],%b\n" % (layer.prefix, layer.counter, orjson.dumps(item.header)[1:])
        if len(head) > MAX_HEADER:
            return None
        train: Train
        if count == 1:
            data = head + bodies[0]
            train = Train(item.address, data, len(data))
        else:
            if not isinstance(bodies, Pieces):
                return None
            head, spans = widened(head, self._spans_of(head), count)
            if len(head) > MAX_HEADER:
                return None
            train = LazyTrain(item.address, layer.chunk_buffer, head, spans, bodies)
        layer.counter += count
        layer.statistics["datagrams sent"] += count
        return train

    def _spans_of(self, head: bytes) -> list[Span]:
        """Where a header of this endpoint counts."""
        form = form_of(head)
        spans = self._own_spans.get(form)
        if spans is None:
            if len(self._own_spans) >= Forms.LIMIT:
                self._own_spans.clear()
            spans = self._own_spans[form] = spans_of(head)
        return spans

    def receive_one(self, now: float, item: Train) -> Inbound | tuple[()] | None:
        """The frames of a train that is one run with a header of known form; None for any other train.

        A train has one source. Therefore the whole train is this endpoint's own if its first datagram is.
        """
        layer = self._layer
        is_run = len(item.data) > item.segment
        data = bytes(item.data[:MAX_HEADER] if is_run else item.data)
        if data.startswith(layer.prefix):
            layer.statistics["own datagrams received"] += -(-len(item.data) // item.segment)
            return CONSUMED
        size = data.find(b"\n", 0, MAX_HEADER) + 1
        head = data[:size]
        form = layer.forms.of(head)
        if form is None:
            return None
        try:
            header = orjson.loads(head)
        except orjson.JSONDecodeError:  # a leading zero
            return None
        own = header[KEY]  # integers, but for a peer's id
        incarnation = own[_INCARNATION]
        if own[_VERSION] != VERSION or own[_NETWORK] != layer.network_id:
            return None
        if not incarnation < INTEGER_LIMIT > own[_COUNTER]:
            return None
        run = Inbound(own[_PEER], incarnation, item.address, header, [data[size:]], 0.0, True, form)
        if is_run:
            bodies = self._bodies_of(item, head, run)
            if bodies is None:
                return None
            run.bodies = bodies
        layer.statistics["datagrams received"] += len(run.bodies)
        return run

    def _bodies_of(self, train: Train, head: bytes, run: Inbound) -> Pieces | None:
        """The bodies of a train if all its datagrams are this run; else None.

        An awaited run needs no full comparison of headers, which would take an eighth of a subscriber's time for a
        stream. The sender sends awaited frames once and in order. The first and the last header belong to the run, and
        the sender's counter shows one datagram for each frame in between. All frames are fragments of one message, with
        bodies and headers of one size. Therefore their headers differ only in the counters.
        """
        spans = self._layer.spans.get(run.form) if run.form else None
        if spans is None:
            return None
        size, segment, length = len(head), train.segment, len(train.data)
        count = -(-length // segment)
        if size > segment or length - (count - 1) * segment < size:
            return None
        if self._is_awaited(head, run):
            return train.rests(size) if counts_on(train, head, spans) else None
        heads, bodies = train.split(size)
        return bodies if are_run(heads, head, spans) else None

    def _is_awaited(self, head: bytes, run: Inbound) -> bool:
        """Whether all layers in `awaited_by` await the run that begins with this header."""
        if not self.awaited_by or not head.startswith(_FIRST):
            return False
        return False not in [awaits(run) for awaits in self.awaited_by]

    # --------------------------------------------------------------------------------------- in a session

    def pattern(self, entry: bytes) -> bytes:
        """The regular expression of a header with this layer's entry and one more, matched by `entry`."""
        own = GLUE.pattern(
            version=b"%d" % VERSION,
            network=b"%d" % self._layer.network_id,
            sender=rb'("[0-9a-f]{%d}"' % ID_DIGITS,  # the group ends with the incarnation
            incarnation=rb"(?:0|[1-9][0-9]{0,15}))",
            counter=NUMBER,
        )
        return rb"\{%b,%b\}\n" % (own, entry)

    def write(self, entry: bytes, body: bytes) -> bytes:
        """Number and return the next datagram; the layers keep their entries within the size limit."""
        layer = self._layer
        datagram = b"%b%d],%b}\n%b" % (layer.prefix, layer.counter, entry, body)
        layer.counter += 1
        return datagram

    def commit(self, received: int, sent: int) -> None:
        """Count the datagrams of a session."""
        self._layer.statistics["datagrams received"] += received
        self._layer.statistics["datagrams sent"] += sent
