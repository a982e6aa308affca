"""Lone messages that go back and forth: what repeats is made ready once, and booked later.

In a *rally*, as of table tennis, one endpoint publishes a small message, another answers it, and so on, as fast as they
can. Such messages differ from those before them in numbers that count up, times and payloads alone. So each layer says
once what its part of such a datagram looks like, and then, for each message, does no more than look at, or write, the
numbers of that part. What else it would do, counters, timers, what is kept until it is acknowledged, it does for all
of them together: when anybody asks for, or does, anything else with the stack (`Rally.settle`). It finds the layers as
if each message had gone its ordinary way, but that of several acknowledgements only the newest was looked at.

Nothing here checks whether a message is out of the ordinary: each layer does so with its own numbers, and one that
differs in anything is refused by the pattern, or by a layer; then nothing was done, and it goes the ordinary way.

Deferring what nobody waits for is what "Masking the overhead of protocol layering" (van Renesse, SIGCOMM 1996) made of
Horus; the pattern is our connection identification.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from glue.contract import Address, Delivery, Partner
from glue.fastpath.parts import Datagrams, Exchange, Frames, Hearing, Partners, Passage, Saying, Streams

PERIOD = 0.002
"""Seconds after which what is not answered is booked: for so long an acknowledgement may be held back, and nobody asks
again before 3 ms (`glue.transport.round_trip`). So somebody looks for that as often (`Rally.due`)."""


class Side:
    """One peer, and what the layers do with what it says and hears."""

    __slots__ = ("exchange", "heard_at", "hearings", "partner")

    def __init__(self, partner: Partner, exchange: Exchange) -> None:
        self.partner = partner
        self.exchange = exchange
        self.hearings: dict[bytes, Hearing] = {}
        self.heard_at = 0.0


class Line:
    """A topic that is published to one peer."""

    __slots__ = ("saying", "side")

    def __init__(self, saying: Saying, side: Side) -> None:
        self.saying = saying
        self.side = side


class Rally:
    """The layers of one stack, as far as lone messages concern them."""

    __slots__ = (
        "_datagrams", "_frames", "_lines", "_match", "_of_frame", "_of_message", "_partners", "_passages", "_senders",
        "_sides", "_size", "_streams", "_topic", "is_open",
    )  # fmt: skip

    def __init__(self, offered: Mapping[str, Any] | None) -> None:
        """`offered` by the layers, by their names; None if one of them offers nothing: then it never opens."""
        self.is_open = False
        self._passages: list[Passage] | None = None
        self._sides: dict[str, Side] = {}  # by id
        self._senders: dict[bytes, Side] = {}  # as headers begin
        self._lines: dict[str, Line] = {}  # by topic
        self._size = 0
        if offered is None:
            return
        self._datagrams: Datagrams = offered["serialization"]()
        self._partners: Partners = offered["discovery"]()
        self._frames: Frames = offered["transport"]()
        self._streams: Streams = offered["topics"]()
        self._passages = [offered["fragmentation"], offered["model"]]
        self._match: Callable[[bytes], re.Match[bytes] | None] | None = None

    def open(self) -> float:
        """Begin, once all is settled; until when at most (monotonic seconds), which the caller obeys; -inf: never."""
        if self._passages is None:
            return -inf
        self._size = min([passage() for passage in self._passages])
        if not self._size:
            return -inf
        if self._match is None:
            self._compile()
        self.is_open = True
        return self._partners.calm_until

    def _compile(self) -> None:
        """Only where it is needed, as it takes a millisecond."""
        head, start = re.compile(self._datagrams.pattern(self._frames.pattern)), re.compile(self._streams.pattern)
        self._match = re.compile(head.pattern + start.pattern).match
        self._of_frame = slice(1, head.groups)  # of all groups
        self._topic = head.groups
        self._of_message = slice(head.groups + 1, None)

    def due(self, now: float) -> float:
        """When it has to be booked, or this is to be asked again, as far as peers and frames are concerned."""
        exchanges = [side.exchange for side in self._sides.values()]
        since = min([now, *[exchange.waits_since for exchange in exchanges]])
        return min(since + PERIOD, self._partners.calm_until, self._frames.due(exchanges))

    def hear(self, now: float, data: bytes, source: Address | None = None) -> Delivery | None:
        """The message of a datagram; None, and nothing was done, if it has to go the ordinary way.

        So it has if it came from another `source`, where that is known, than the address of its sender.
        """
        found = self._match(data) if self.is_open else None  # type: ignore[misc]
        if found is None:
            return None
        groups = found.groups()
        sender, topic = groups[0], groups[self._topic]
        side = self._senders.get(sender) or self._meet(sender)
        if side is None or (source is not None and source != side.partner.address):
            return None
        hearing = side.hearings.get(topic) or self._listen(side, topic)
        if hearing is None:
            return None
        delivery = hearing.read(groups[self._of_message], data, found.end())
        if delivery is None or not side.exchange.take(now, groups[self._of_frame]):
            return None
        hearing.go_on()
        side.heard_at = now
        return delivery

    def line(self, topic: str) -> Line | None:
        """The way of what is published on a topic; None if it has to go the ordinary one."""
        line = self._lines.get(topic) if self.is_open else None
        if line is None and self.is_open and (saying := self._streams.saying(topic, self._size)):
            side = self._side(saying.peer)
            if side is not None:
                line = self._lines[topic] = Line(saying, side)
        return line

    def say(self, now: float, at: float, line: Line, payload: bytes, json: bool) -> tuple[bytes, Address] | None:
        """The datagram of a message that was published `at` (Unix seconds), and where it goes; None likewise."""
        saying, exchange = line.saying, line.side.exchange
        if len(payload) > saying.largest or exchange.is_full:
            return None
        body = saying.write(at, payload, json)
        return self._datagrams.write(exchange.write(now, body), body), line.side.partner.address

    def _meet(self, sender: bytes) -> Side | None:
        """The side of a sender, as it says who it is."""
        id, _, incarnation = sender.decode()[1:].partition('",')
        side = self._side(id)
        if side is not None and side.partner.incarnation == int(incarnation):
            self._senders[sender] = side
            return side
        return None

    def _side(self, id: str) -> Side | None:
        side = self._sides.get(id)
        if side is None and (partner := self._partners.find(id)) and (exchange := self._frames.exchange(partner)):
            side = self._sides[id] = Side(partner, exchange)
        return side

    def _listen(self, side: Side, topic: bytes) -> Hearing | None:
        hearing = self._streams.hearing(side.partner, topic)
        if hearing is not None:
            side.hearings[topic] = hearing
        return hearing

    def settle(self) -> None:
        """Let all layers do the rest for what has passed; nothing passes from now on."""
        self.is_open = False
        sides, self._sides = self._sides, {}
        lines, self._lines = self._lines, {}
        self._senders.clear()
        if not sides:
            return
        for line in lines.values():
            line.saying.book()
        heard = said = 0
        for side in sides.values():
            for hearing in side.hearings.values():
                hearing.book(side.heard_at)
            came, left = side.exchange.book()
            if came:
                self._partners.book(side.partner, side.heard_at)
            heard, said = heard + came, said + left
        self._datagrams.book(heard, said)
