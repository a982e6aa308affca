"""Last wills: messages that peers publish in the name of a lost endpoint.

Such a message travels on `$glue/will/OWNER/INCARNATION/NUMBER/NAME/TOPIC` to the peers that want TOPIC: the id, the
incarnation and the name (percent-encoded) of the lost endpoint, and the number of the will. Several endpoints may
publish the same will; each receiver takes the first. Each endpoint that published a retained will keeps it for late
joiners until the owner is back.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable
from math import inf
from typing import Final

from glue.contract import HIGH, Delivery, Event, ExecuteWill, Inbound
from glue.topics.bundle import KEPT, LIVE, SEQUENCE_LIMIT, MessageGroup
from glue.topics.deliveries import deliveries
from glue.topics.index import Index
from glue.topics.local import LocalDeliveries
from glue.topics.outbox import BundleOutbox
from glue.topics.published import PublishedTopics
from glue.topics.retained import RetainedValue, RetainedValues

WILL: Final = "$glue/will/"
SEEN: Final = 16_384
"""Wills that are remembered, so that none comes twice: 4 MB."""
KEPT_WILLS: Final = 4096
"""Retained wills kept for late joiners."""

Identity = tuple[str, str, int]
"""Name, id and incarnation of an endpoint."""


def will_topic(owner: Identity, number: int, topic: str) -> str:
    """The topic on which a will travels."""
    from urllib.parse import quote  # imported here: most programs meet no will

    name, id, incarnation = owner
    return f"{WILL}{id}/{incarnation}/{number}/{quote(name, safe='')}/{topic}"


def parse_will(topic: str) -> tuple[Identity, int, str] | None:
    """The owner, the number and the topic of a will; None if it is malformed."""
    parts = topic.split("/", 6)
    if len(parts) < 7 or not parts[6] or len(parts[2]) != 16:
        return None
    numbers = parts[3], parts[4]
    if not all(number.isascii() and number.isdigit() and len(number) <= 19 for number in numbers):
        return None
    from urllib.parse import unquote

    return (unquote(parts[5], errors="replace"), parts[2], int(parts[3])), int(parts[4]), parts[6]


class Wills:
    """The wills that this endpoint published for others, and the wills received from peers."""

    __slots__ = (
        "_index", "_kept", "_local", "_outbox", "_own_id", "_published", "_received", "_seen", "_seen_count",
        "_statistics", "_subscriptions",
    )  # fmt: skip

    def __init__(
        self,
        published: PublishedTopics,
        outbox: BundleOutbox,
        local: LocalDeliveries,
        received: RetainedValues,
        subscriptions: Index[Hashable],
        index: Index[str],
    ) -> None:
        """`index` and `subscriptions` have the interests of peers and of this endpoint, `received` retained values."""
        self._own_id = local.endpoint_id
        self._published = published
        self._outbox = outbox
        self._local = local
        self._subscriptions = subscriptions
        self._received = received
        self._index = index
        self._statistics: Counter[str] = published.statistics
        self._seen: OrderedDict[str, set[tuple[int, int]]] = OrderedDict()  # by owner: incarnation and number
        self._seen_count = 0
        self._kept: OrderedDict[tuple[str, str], ExecuteWill] = OrderedDict()  # by owner and topic

    def execute(self, will: ExecuteWill) -> None:
        """Publish a will, unless this endpoint has published or received it before."""
        if not self._is_new(will.owner, will.number):
            return
        self._statistics["wills published"] += 1
        if will.retain and will.payload:
            self._kept[will.owner[1], will.topic] = will
            if len(self._kept) > KEPT_WILLS:
                self._kept.popitem(last=False)
        for delivery in self._deliveries(self._own_id, will.owner, will.topic, self._group(will), will.retain):
            self._local.add(delivery, inf, len(will.payload))
        route = self._index.match(will.topic)
        if route:
            self._send(route, will, LIVE)

    def replay(self, peer: str, patterns: Iterable[str]) -> None:
        """Send a peer the retained wills that its new interests match."""
        if self._kept:
            index: Index[str] = Index()
            for pattern in patterns:
                index.add(pattern, pattern)
            for will in list(self._kept.values()):
                if index.find(will.topic):
                    self._send((peer,), will, KEPT)

    def forget(self, owner_id: str) -> None:
        """Keep no wills of an endpoint that is back; when it is lost again, they come again."""
        self._seen_count -= len(self._seen.pop(owner_id, ()))
        if self._kept:
            for key in [key for key in self._kept if key[0] == owner_id]:
                del self._kept[key]

    def take(self, item: Inbound, group: MessageGroup, up: list[Event]) -> None:
        """Take a will from a peer."""
        found = parse_will(group.topic)
        if found is None:
            self._statistics["malformed will"] += 1
            return
        owner, number, topic = found
        if self._subscriptions.match(topic) and self._is_new(owner, number):
            self._statistics["messages received"] += 1
            up += self._deliveries(item.peer, owner, topic, group, group.retain != LIVE)

    def _deliveries(
        self, sender: str, owner: Identity, topic: str, group: MessageGroup, retain: bool
    ) -> list[Delivery]:
        if retain and group.payloads[-1]:
            payload = group.payloads[-1]
            value = RetainedValue(topic, payload, *owner, SEQUENCE_LIMIT, group.at, group.type, group.json)
            value.via = sender
            self._received.put_anyway(value)
        elif retain:
            self._received.discard(topic, owner[1])
        tokens = self._subscriptions.match(topic)
        if not tokens:
            return []
        found = deliveries(self._statistics, group, *owner, tokens, inf)
        for delivery in found:
            delivery.topic, delivery.sequence, delivery.via = topic, 0, sender
        return found

    def _is_new(self, owner: Identity, number: int) -> bool:
        seen = self._seen.setdefault(owner[1], set())
        if (owner[2], number) in seen:
            self._statistics["wills seen before"] += 1
            return False
        seen.add((owner[2], number))
        self._seen_count += 1
        if self._seen_count > SEEN:
            self._seen_count -= len(self._seen.popitem(last=False)[1])
        return True

    def _send(self, peers: tuple[str, ...], will: ExecuteWill, kind: int) -> None:
        group = self._group(will)
        topic = self._published.topic(group.topic)
        group.sequence, group.position = topic.number(1, True)
        if will.retain:
            group.retain = kind or 1
        flow = peers, HIGH
        self._statistics["messages owed"] += len(peers)
        self._outbox.add(flow, True, group, inf, self._published.follow(topic, flow))

    @staticmethod
    def _group(will: ExecuteWill) -> MessageGroup:
        topic = will_topic(will.owner, will.number, will.topic)
        return MessageGroup(topic, 1, int(will.published_at * 1e6), [will.payload], len(will.payload), json=will.json)
