"""Subscriptions of sessions, and the receivers of a message: each session once, one member of each shared group."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from glue.gateway.mqtt.session import Session, Subscription
from glue.topics.index import Index

SHARE = "$share/"


class SharedGroup:
    """The members of a shared subscription. Messages go round; one that is away, full or denied is passed over."""

    __slots__ = ("members", "order", "turn")

    def __init__(self) -> None:
        self.members: dict[Session, Subscription] = {}
        self.order = 0
        self.turn = 0

    def choose(self, denied: Collection[Subscription]) -> Subscription | None:
        """The member for the next message: the next one with room, else the next that is connected, else the next."""
        members = [one for one in self.members.values() if one not in denied]
        self.turn += 1
        turned = [members[(self.turn + place) % len(members)] for place in range(len(members))]
        for one in turned:
            client = one.session.client
            if client is not None and not one.session.queue and one.session.read_at is None and not client.is_full:
                return one
        connected = [one for one in turned if one.session.client is not None]
        if connected:
            return connected[0]
        return next((one for one in turned if one.qos), None)


Holder = Subscription | SharedGroup


def shared_parts(topic_filter: str) -> tuple[str, str]:
    """The name and the filter of a shared subscription; the name is empty if the filter is no shared one."""
    if not topic_filter.startswith(SHARE):
        return "", topic_filter
    _, name, rest = topic_filter.split("/", 2)
    return name, rest


class Subscriptions:
    """All subscriptions of a broker. `patterns` counts how many use each topic filter."""

    def __init__(self) -> None:
        self.patterns: dict[str, int] = {}
        self.is_changed = False  # whether a pattern was added or removed; the shell resets it
        self.count = 0
        self.shared_count = 0
        self._index: Index[Holder] = Index(key=_order)
        self._groups: dict[tuple[str, str], SharedGroup] = {}
        self._made = 0

    def add(self, subscription: Subscription) -> bool:
        """Add a subscription, in the place of one of the same session and filter. Whether it is new."""
        session = subscription.session
        former = session.subscriptions.get(subscription.filter)
        if former is not None:
            self.remove(former)
        session.subscriptions[subscription.filter] = subscription
        group_name, topic_filter = shared_parts(subscription.filter)
        self._made += 1
        if group_name:
            self.shared_count += 1
            key = (group_name, topic_filter)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = SharedGroup()
                group.order = self._made
                self._index.add(topic_filter, group)
            group.members[session] = subscription
        else:
            subscription.order = self._made
            self._index.add(topic_filter, subscription)
        self.count += 1
        self.patterns[topic_filter] = self.patterns.get(topic_filter, 0) + 1
        self.is_changed |= self.patterns[topic_filter] == 1
        return former is None

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        session = subscription.session
        del session.subscriptions[subscription.filter]
        group_name, topic_filter = shared_parts(subscription.filter)
        if group_name:
            self.shared_count -= 1
            group = self._groups[group_name, topic_filter]
            del group.members[session]
            if not group.members:
                del self._groups[group_name, topic_filter]
                self._index.remove(topic_filter, group)
        else:
            self._index.remove(topic_filter, subscription)
        self.count -= 1
        self.patterns[topic_filter] -= 1
        if not self.patterns[topic_filter]:
            del self.patterns[topic_filter]
            self.is_changed = True

    def match(self, topic: str) -> tuple[Holder, ...]:
        """The subscriptions and groups with a filter that matches a topic."""
        return self._index.match(topic)


def receivers(holders: tuple[Holder, ...], sender: Session | None) -> Iterator[tuple[Session, list[Subscription]]]:
    """The sessions that get a message of a sender, each with the subscriptions that match."""
    found: dict[Session, list[Subscription]] = {}
    for holder in holders:
        if isinstance(holder, Subscription) and not (holder.no_local and holder.session is sender):
            found.setdefault(holder.session, []).append(holder)
    yield from found.items()


def _order(holder: Holder) -> int:
    return holder.order
