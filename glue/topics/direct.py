"""Messages to one endpoint alone, whatever its interests: shares of a group's work, and acknowledgements."""

from __future__ import annotations

from collections.abc import Hashable

from glue.topics.bundle import MessageGroup
from glue.topics.index import Index
from glue.topics.local import LocalDeliveries
from glue.topics.outbox import BundleOutbox
from glue.topics.published import PublishedTopics


class DirectSender:
    """Numbers messages for one endpoint, and sends or locally delivers them."""

    __slots__ = ("_local", "_outbox", "_published", "_statistics", "_subscriptions")

    def __init__(
        self,
        published: PublishedTopics,
        outbox: BundleOutbox,
        local: LocalDeliveries,
        subscriptions: Index[Hashable],
    ) -> None:
        self._published = published
        self._outbox = outbox
        self._local = local
        self._subscriptions = subscriptions
        self._statistics = published.statistics

    def send(self, peer: str | None, group: MessageGroup, priority: int, expires: float) -> int:
        """Send messages to a peer, to this endpoint if it is None; returns the number of the first."""
        topic = self._published.topic(group.topic)
        group.sequence, group.position = first, _ = topic.number(len(group.payloads), True)
        if peer is None:
            self._local.publish(group, expires, self._subscriptions.match(group.topic))
        else:
            flow = (peer,), priority
            self._statistics["messages owed"] += len(group.payloads)
            self._outbox.add(flow, True, group, expires, self._published.follow(topic, flow))
        return first
