"""Sessions: lone messages that go back and forth, with one regular expression and one template for all layers.

In a *session* one endpoint publishes a small message, another answers it, and so on, as fast as they can. Such messages
differ from those before them in numbers that count up, times and payloads alone. So each layer says once what its part
of such a datagram looks like, and then, for each message, only reads or writes the numbers of that part. Counters,
timers, and what is kept until it is acknowledged are deferred: each layer does that work for all messages together,
when a caller asks for, or does, anything else with the stack (`FastSession.commit`). That caller finds the layers as if
each message had gone the ordinary way, but that of several acknowledgements only the newest was looked at.

Nothing here checks whether a message is plain: each layer does so with its own numbers. A message that differs in
anything is refused by the pattern, or by a layer; then nothing was done, and it goes the ordinary way.

Deferring what nobody waits for is what "Masking the overhead of protocol layering" (van Renesse, SIGCOMM 1996) made of
Horus; the pattern is our connection identification.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from glue.contract import Address, Delivery, Partner
from glue.fastpath.parts import (
    DiscoveryPart,
    ExchangePart,
    PassivePart,
    ReceiverPart,
    SenderPart,
    SerializationPart,
    TopicsPart,
    TransportPart,
)

PERIOD = 0.002
"""Seconds after which what is not answered is committed: for so long an acknowledgement may be held back, and nobody
asks again before 3 ms (`glue.transport.round_trip`). So `FastSession.due` is asked as often."""


class SessionPeer:
    """One peer, and what comes from it."""

    __slots__ = ("exchange", "partner", "received_at", "receivers")

    def __init__(self, partner: Partner, exchange: ExchangePart) -> None:
        self.partner = partner
        self.exchange = exchange
        self.receivers: dict[bytes, ReceiverPart] = {}  # by topic
        self.received_at = 0.0


class SessionTopic:
    """A topic that is published to one peer."""

    __slots__ = ("peer", "sender")

    def __init__(self, sender: SenderPart, peer: SessionPeer) -> None:
        self.sender = sender
        self.peer = peer


class FastSession:
    """The layers of one stack, as far as lone messages concern them."""

    __slots__ = (
        "_discovery", "_match", "_of_frame", "_of_message", "_passive", "_peers", "_senders", "_serialization", "_size",
        "_topic", "_topics", "_transport", "_written", "is_open",
    )  # fmt: skip

    def __init__(self, parts: Mapping[str, Any]) -> None:
        """`parts` of the layers, by their names; if one of them has none, the session never opens."""
        self.is_open = False
        self._passive: list[PassivePart] = []
        self._peers: dict[str, SessionPeer] = {}  # by id
        self._senders: dict[bytes, SessionPeer] = {}  # as headers begin
        self._written: dict[str, SessionTopic] = {}  # by topic
        self._size = 0
        if not parts:
            return
        self._serialization: SerializationPart = parts["serialization"]
        self._discovery: DiscoveryPart = parts["discovery"]
        self._transport: TransportPart = parts["transport"]
        self._topics: TopicsPart = parts["topics"]
        self._passive = [parts["fragmentation"], parts["model"]]
        self._match: Callable[[bytes], re.Match[bytes] | None] | None = None

    def open(self) -> float:
        """Begin, once all is committed; until when at most (monotonic seconds), which the caller obeys; -inf: never."""
        if not self._passive:
            return -inf
        self._size = min([part.largest_body() for part in self._passive])
        if not self._size:
            return -inf
        if self._match is None:
            self._compile()
        self.is_open = True
        return self._discovery.calm_until

    def _compile(self) -> None:
        """Make the pattern of all layers; only where it is needed, as it takes a millisecond."""
        head = re.compile(self._serialization.pattern(self._transport.pattern))
        self._match = re.compile(head.pattern + self._topics.pattern).match
        self._of_frame = slice(1, head.groups)  # of all groups
        self._topic = head.groups
        self._of_message = slice(head.groups + 1, None)

    def due(self, now: float) -> float:
        """When it has to be committed, or this is to be asked again, as far as peers and frames are concerned."""
        exchanges = [peer.exchange for peer in self._peers.values()]
        since = min([now, *[exchange.waits_since for exchange in exchanges]])
        return min(since + PERIOD, self._discovery.calm_until, self._transport.due(exchanges))

    def receive(self, now: float, data: bytes, source: Address | None = None) -> Delivery | None:
        """The message of a datagram; None, and nothing was done, if it has to go the ordinary way.

        So it has if it came from another `source`, where that is known, than the address of its sender.
        """
        found = self._match(data) if self.is_open else None  # type: ignore[misc]
        if found is None:
            return None
        groups = found.groups()
        sender, topic = groups[0], groups[self._topic]
        peer = self._senders.get(sender) or self._identify(sender)
        if peer is None or (source is not None and source != peer.partner.address):
            return None
        receiver = peer.receivers.get(topic) or self._receiver(peer, topic)
        if receiver is None:
            return None
        delivery = receiver.read(groups[self._of_message], data, found.end())
        if delivery is None or not peer.exchange.take(now, groups[self._of_frame]):
            return None
        receiver.advance()
        peer.received_at = now
        return delivery

    def topic(self, name: str) -> SessionTopic | None:
        """A topic to be sent on; None if what is published on it has to go the ordinary way."""
        topic = self._written.get(name) if self.is_open else None
        if topic is None and self.is_open and (sender := self._topics.sender(name, self._size)):
            peer = self._peer(sender.peer)
            if peer is not None:
                topic = self._written[name] = SessionTopic(sender, peer)
        return topic

    def send(
        self, now: float, at: float, topic: SessionTopic, payload: bytes, json: bool
    ) -> tuple[bytes, Address] | None:
        """The datagram of a message that was published `at` (Unix seconds), and where it goes.

        None, and nothing was done, if it has to go the ordinary way.
        """
        sender, exchange = topic.sender, topic.peer.exchange
        if len(payload) > sender.largest or exchange.is_full:
            return None
        body = sender.write(at, payload, json)
        return self._serialization.write(exchange.write(now, body), body), topic.peer.partner.address

    def _identify(self, sender: bytes) -> SessionPeer | None:
        """The peer that a header begins with."""
        id, _, incarnation = sender.decode()[1:].partition('",')
        peer = self._peer(id)
        if peer is not None and peer.partner.incarnation == int(incarnation):
            self._senders[sender] = peer
            return peer
        return None

    def _peer(self, id: str) -> SessionPeer | None:
        peer = self._peers.get(id)
        if peer is None and (partner := self._discovery.find(id)) and (exchange := self._transport.exchange(partner)):
            peer = self._peers[id] = SessionPeer(partner, exchange)
        return peer

    def _receiver(self, peer: SessionPeer, topic: bytes) -> ReceiverPart | None:
        receiver = self._topics.receiver(peer.partner, topic)
        if receiver is not None:
            peer.receivers[topic] = receiver
        return receiver

    def commit(self) -> None:
        """Let all layers do the deferred work for what has passed; the session is over."""
        self.is_open = False
        peers, self._peers = self._peers, {}
        topics, self._written = self._written, {}
        self._senders.clear()
        if not peers:
            return
        for topic in topics.values():
            topic.sender.commit()
        received = sent = 0
        for peer in peers.values():
            for receiver in peer.receivers.values():
                receiver.commit(peer.received_at)
            came, left = peer.exchange.commit()
            if came:
                self._discovery.commit(peer.partner, peer.received_at)
            received, sent = received + came, sent + left
        self._serialization.commit(received, sent)
