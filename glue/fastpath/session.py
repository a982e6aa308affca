"""Sessions: the exchange of lone messages, with one regular expression and one template for all layers.

In a *session* one endpoint publishes a small message, another answers, and so on, as fast as possible. Consecutive
messages differ only in counters, times and payloads. Each layer states the format of its part of a datagram once, and
only reads or writes the numbers there for each message. Other work is deferred: statistics, timers, and the record of
unacknowledged messages. Each layer does this work for all messages together, before any other use of the stack
(`FastSession.commit`). Afterwards the layers are in the same state as on the ordinary way, except that only the newest
of several acknowledgements was read.

The pattern and the layers check each message. If any of them refuses a message, no state has changed, and the message
takes the ordinary way.

The deferral of work follows "Masking the overhead of protocol layering" (van Renesse, SIGCOMM 1996). The pattern serves
as the connection identification of this paper.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from glue.contract import Address, Delivery, Partner

if TYPE_CHECKING:
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
        """Take the `parts` of all layers by name; without parts, the session never opens."""
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
        """Open the session on committed layers; return its end (monotonic seconds), or -inf if it cannot open."""
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
        """Compile the pattern of all layers, at first use: this takes a millisecond."""
        head = re.compile(self._serialization.pattern(self._transport.pattern))
        self._match = re.compile(head.pattern + self._topics.pattern).match
        self._of_frame = slice(1, head.groups)  # of all groups
        self._topic = head.groups
        self._of_message = slice(head.groups + 1, None)

    def due(self, now: float) -> float:
        """When to commit, or to call this again (monotonic seconds), by the needs of peers and frames."""
        exchanges = [peer.exchange for peer in self._peers.values()]
        since = min([now, *[exchange.waits_since for exchange in exchanges]])
        return min(since + PERIOD, self._discovery.calm_until, self._transport.due(exchanges))

    def receive(self, now: float, data: bytes, source: Address | None = None) -> Delivery | None:
        """The message of a datagram; None, without a change of state, if it has to take the ordinary way.

        A datagram takes the ordinary way if `source` is known and is not its sender's address.
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
        """The sending side of a topic; None if its publications have to take the ordinary way."""
        topic = self._written.get(name) if self.is_open else None
        if topic is None and self.is_open and (sender := self._topics.sender(name, self._size)):
            peer = self._peer(sender.peer)
            if peer is not None:
                topic = self._written[name] = SessionTopic(sender, peer)
        return topic

    def send(
        self, now: float, at: float, topic: SessionTopic, payload: bytes, json: bool
    ) -> tuple[bytes, Address] | None:
        """The datagram of a message published `at` (Unix seconds), and its destination.

        None, without a change of state, if the message has to take the ordinary way.
        """
        sender, exchange = topic.sender, topic.peer.exchange
        if len(payload) > sender.largest or exchange.is_full:
            return None
        body = sender.write(at, payload, json)
        return self._serialization.write(exchange.write(now, body), body), topic.peer.partner.address

    def _identify(self, sender: bytes) -> SessionPeer | None:
        """Find the sending peer by the beginning of a header; None if unknown."""
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
        """End the session: let all layers do their deferred work."""
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
