"""Wrapped interests (a limited rate, a group's share) and messages on wrapped topics, passed on to their room."""

from __future__ import annotations

from collections.abc import Hashable

from glue.contract import Acknowledge, Event, ExecuteWill, Inbound
from glue.topics.bundle import MessageGroup
from glue.topics.direct import DirectSender
from glue.topics.index import Index
from glue.topics.limits import Limits
from glue.topics.local import LocalDeliveries
from glue.topics.outbox import BundleOutbox
from glue.topics.published import PublishedTopics
from glue.topics.retained import RetainedValues
from glue.topics.shared.sharing import Sharing
from glue.topics.wills import WILL, Wills
from glue.topics.wrapped import LIMITED, SHARED, limited


class Asking:
    """Passes wrapped interests and messages of this endpoint and its peers to `limits`, `sharing` or `wills`."""

    __slots__ = ("limits", "sharing", "wills")
    wills: Wills
    """Made by `connect`."""

    def __init__(self, limits: Limits, sharing: Sharing) -> None:
        self.limits = limits
        self.sharing = sharing

    def connect(
        self,
        published: PublishedTopics,
        outbox: BundleOutbox,
        local: LocalDeliveries,
        received: RetainedValues,
        subscriptions: Index[Hashable],
        peers: Index[str],
    ) -> None:
        """Give sharing and wills the parts of the topics layer with which to publish and deliver."""
        self.sharing.sender = DirectSender(published, outbox, local, subscriptions)
        self.wills = Wills(published, outbox, local, received, subscriptions, peers)

    def add(self, endpoint_id: str, interest: str) -> None:
        """Take a new interest of an endpoint, if it is wrapped."""
        if interest.startswith(LIMITED):
            self.limits.add(interest)
        elif interest.startswith(SHARED):
            self.sharing.add(endpoint_id, interest)

    def remove(self, interest: str) -> None:
        """Drop an interest of an endpoint, if it is wrapped."""
        if interest.startswith(LIMITED):
            self.limits.remove(interest)
        elif interest.startswith(SHARED):
            self.sharing.remove(interest)

    def wants(self, topic: str) -> bool:
        """Whether a message on this topic also goes another way than to plain subscribers."""
        return bool((self.limits and self.limits.intervals(topic)) or (self.sharing and self.sharing.wants(topic)))

    def subscribers(self, topic: str, index: Index[str]) -> set[str]:
        """Ids of the endpoints that get messages on this topic another way; `index` has the interests of the peers."""
        found = set(self.sharing.members(topic))
        for interval in self.limits.intervals(topic):
            found.update(index.match(limited(interval, topic)))
        return found

    def serve(self, now: float, item: Acknowledge | ExecuteWill) -> None:
        """Take a request of the application."""
        if isinstance(item, ExecuteWill):
            self.wills.execute(item)
        else:
            self.sharing.done(now, item)

    def takes(self, now: float, item: Inbound, group: MessageGroup, up: list[Event]) -> bool:
        """Handle wills, acknowledgements of shared messages, and malformed topics; return False for other groups."""
        if group.topic.startswith(WILL):
            self.wills.take(item, group, up)
            return True
        return self.sharing.takes(now, item.peer, group)
