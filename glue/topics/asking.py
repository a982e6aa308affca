"""Wrapped interests (a limited rate, samples, a share) and messages on wrapped topics, passed on to their room."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from glue.contract import Event, ExecuteWill, Inbound, Publication, Redeliver, Served
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
from glue.topics.wrapped import LIMITED, SAMPLED, SHARED, limited

if TYPE_CHECKING:
    from glue.topics.samples import Around, Samples


class Asking:
    """Passes wrapped interests and messages of this endpoint and its peers to `limits`, `sharing` or `wills`."""

    __slots__ = ("_parts", "extra", "limits", "sharing", "values", "wills")
    wills: Wills
    values: tuple[RetainedValues, RetainedValues]
    """The retained values received, and those of this endpoint."""
    _parts: tuple[PublishedTopics, BundleOutbox, LocalDeliveries, Around]
    """Set by `connect`, for `samples`."""

    def __init__(self, limits: Limits, sharing: Sharing) -> None:
        self.limits = limits
        self.sharing = sharing
        self.extra: set[tuple[str, str]] = set()  # the interests in limited rates and samples, by endpoint

    def connect(
        self,
        published: PublishedTopics,
        outbox: BundleOutbox,
        local: LocalDeliveries,
        received: RetainedValues,
        subscriptions: Index[Hashable],
        peers: Index[str],
        around: Around,
    ) -> None:
        """Give the parts of the topics layer with which to publish and deliver."""
        self.sharing.sender = DirectSender(published, outbox, local, subscriptions)
        self.wills = Wills(published, outbox, local, received, subscriptions, peers)
        self._parts = published, outbox, local, around

    @property
    def samples(self) -> Samples:
        """The samples that endpoints ask for, made at the first use."""
        if self.limits.samples is None:
            from glue.topics.samples import Samples  # imported here: nobody watches most endpoints

            self.limits.samples = Samples(self.limits.heap, *self._parts)
        return self.limits.samples

    def is_sampled(self, topic: str) -> bool:
        """Whether the next message of a topic is to be sampled."""
        return self.limits.samples is not None and self.limits.samples.wants(topic)

    def sample(self, now: float, item: Publication) -> None:
        """Sample a publication that was numbered just now, if an endpoint wants it."""
        if self.limits.samples is not None:
            self.limits.samples.offer(now, item)

    def add(self, endpoint_id: str, interest: str) -> None:
        """Take a new interest of an endpoint, if it is wrapped."""
        if interest.startswith(LIMITED):
            self.extra.add((endpoint_id, interest))
            self.limits.add(interest)
        elif interest.startswith(SAMPLED):
            self.extra.add((endpoint_id, interest))
            self.samples.add(endpoint_id, interest)
        elif interest.startswith(SHARED):
            self.sharing.add(endpoint_id, interest)

    def remove(self, endpoint_id: str, interest: str) -> None:
        """Drop an interest of an endpoint, if it is wrapped."""
        self.extra.discard((endpoint_id, interest))
        if interest.startswith(LIMITED):
            self.limits.remove(interest)
        elif interest.startswith(SAMPLED):
            self.samples.remove(endpoint_id, interest)
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

    def serve(self, now: float, item: Served) -> None:
        """Take a request of the application."""
        if isinstance(item, ExecuteWill):
            self.wills.execute(item)
        elif isinstance(item, Redeliver):
            self._redeliver(item)
        else:
            self.sharing.done(now, item)

    def _redeliver(self, item: Redeliver) -> None:
        """Hand a retained value to the own subscriptions again, unless it was replaced since."""
        _, _, local, (_, _, _, match, own) = self._parts
        is_own = item.publisher_id == local.endpoint_id
        value = self.values[is_own].get(item.topic, item.publisher_id)
        tokens = own(item.topic) if is_own else match(item.topic)
        if value is None or (value.incarnation, value.sequence) != (item.incarnation, item.sequence) or not tokens:
            return
        local.hand_over(value, tokens)

    def takes(self, now: float, item: Inbound, group: MessageGroup, up: list[Event]) -> bool:
        """Handle wills, samples, acknowledgements, and malformed topics; return False for other groups."""
        if group.topic.startswith(WILL):
            self.wills.take(item, group, up)
            return True
        if group.topic.startswith(SAMPLED):
            up += self.samples.receive(item, group)
            return True
        return self.sharing.takes(now, item.peer, group)
