"""The shared subscriptions of one endpoint, as publisher and as member, for the topics layer.

As a publisher it keeps a dispatcher for each group of each pattern. The same name with another pattern is another
group, as in MQTT 5. As a member it gathers acknowledgements of what handlers are done with, and sends them at the end
of a turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from math import inf
from typing import TYPE_CHECKING, Protocol

from glue.contract import HIGH, Acknowledge, Event, Undelivered
from glue.topics.bundle import LIVE, MessageGroup, common_length, milliseconds
from glue.topics.index import Index
from glue.topics.shared.wire import (
    DONE,
    Acknowledgement,
    decode_done,
    encode_done,
    parse_interest,
    parse_topic,
    topic_of,
)
from glue.topics.wrapped import unwrapped

if TYPE_CHECKING:  # imported with the first group: most publishers know none
    from glue.topics.shared.dispatcher import Dispatcher

GROUPS = 4096
"""Groups known at once, at some 2 kB each; members of more get nothing, which is counted."""
MEMBERS = 32_768
"""Members of all groups, at some 1 kB each: 32 MB."""
ABANDONED = "no member of the group"
"""The cause of loss when a group has had no member for long."""

GroupId = tuple[str, str]
"""The name of a group, and its pattern."""


class Shared:
    """Messages of one topic as the content of a job."""

    __slots__ = ("group", "priority")

    def __init__(self, group: MessageGroup, priority: int) -> None:
        self.group = group
        self.priority = priority

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return self.group.size

    def part(self, start: int, stop: int) -> Shared:
        """The messages from `start` to before `stop`."""
        return Shared(self.group.part(start, stop), self.priority)


class Sender(Protocol):
    """Sends messages to one endpoint alone."""

    def send(self, peer: str | None, group: MessageGroup, priority: int, expires: float) -> int:
        """Send messages to a peer, to this endpoint if it is None; returns the number of the first."""


class Sharing:
    """The groups that this endpoint publishes to, and the acknowledgements owed to other publishers."""

    __slots__ = (
        "_endpoint_id", "_index", "_members", "_statistics", "dispatchers", "owed", "sender",
    )  # fmt: skip

    sender: Sender
    """Set by the topics layer."""

    def __init__(self, endpoint_id: str, statistics: Counter[str]) -> None:
        self._endpoint_id = endpoint_id
        self._statistics = statistics
        self._index: Index[GroupId] = Index()
        self.dispatchers: dict[GroupId, Dispatcher] = {}
        self._members: dict[str, GroupId] = {}  # by interest
        self.owed: dict[str, list[Acknowledgement]] = {}  # to be sent, by publisher

    def __bool__(self) -> bool:
        """Whether any group is known, or an acknowledgement owed."""
        return bool(self.dispatchers or self.owed)

    @property
    def deadline(self) -> float:
        """When the next group without members is given up."""
        return min([dispatcher.deadline for dispatcher in self.dispatchers.values()], default=inf)

    @property
    def size(self) -> int:
        """Bytes of payload that no member has acknowledged."""
        return sum([dispatcher.size for dispatcher in self.dispatchers.values()])

    @property
    def count(self) -> int:
        """Messages that no member has acknowledged."""
        return sum([dispatcher.count for dispatcher in self.dispatchers.values()])

    # --------------------------------------------------------------------------------------------- members

    def add(self, endpoint_id: str, interest: str) -> None:
        """Take the interest of a member."""
        found = parse_interest(endpoint_id, interest)
        if found is None:
            self._statistics["malformed interest"] += 1
            return
        name, member, pattern = found
        group = name, pattern
        is_full = group not in self.dispatchers and len(self.dispatchers) >= GROUPS
        if is_full or len(self._members) >= MEMBERS:
            self._statistics["members of groups refused: too many"] += 1
            return
        if group not in self.dispatchers:
            from glue.topics.shared.dispatcher import Dispatcher

            self.dispatchers[group] = Dispatcher(self._statistics)
            self._index.add(pattern, group)
        self._members[interest] = group
        self.dispatchers[group].join(member)

    def remove(self, interest: str) -> None:
        """Drop the interest of a member, which has left or died."""
        group = self._members.pop(interest, None)
        if group is not None:
            self.dispatchers[group].leave(interest.split("/", 5)[3])

    def doubt(self, news: Undelivered) -> None:
        """Something sent to a peer was given up: others get what its members have not acknowledged."""
        for interest, group in self._members.items():
            member = interest.split("/", 5)[3]
            if member.startswith(f"{news.peer}-") and news.cause != "peer removed":
                self.dispatchers[group].leave(member)
                self.dispatchers[group].join(member)

    def give_up(self, now: float, up: list[Event]) -> None:
        """Forget groups that have had no member for long; tell of the messages lost."""
        for group, dispatcher in list(self.dispatchers.items()):
            if dispatcher.deadline <= now:
                del self.dispatchers[group]
                self._index.remove(group[1], group)
                lost = dispatcher.give_up()
                if lost:
                    self._statistics["shared messages lost: " + ABANDONED] += lost
                    up.append(Undelivered("", lost, ABANDONED))

    # ------------------------------------------------------------------------------------ as the publisher

    def wants(self, topic: str) -> bool:
        """Whether any group wants a topic."""
        return bool(self._index.match(topic))

    def members(self, topic: str) -> list[str]:
        """Ids of the peers with a member that may get messages on this topic."""
        members = [member for group in self._index.match(topic) for member in self.dispatchers[group].members]
        ids = [member.partition("-")[0] for member in members]
        return [id for id in ids if id != self._endpoint_id]

    def offer(self, group: MessageGroup, priority: int, expires: float, key: str | None) -> bool:
        """Take messages for the groups that want them; returns whether there is any."""
        ids = self._index.match(group.topic)
        for id in ids:
            own = group.part(0, len(group.payloads))  # a list of its own: that of the group may grow in the outbox
            own.retain, own.ordered = LIVE, True
            self.dispatchers[id].offer(Shared(own, priority), len(own.payloads), key, expires)
        return bool(ids)

    def dispatch(self, now: float, peers: Container[str]) -> None:
        """Send members what they have credit for, and the acknowledgements that this endpoint owes to `peers`."""
        for (name, _), dispatcher in self.dispatchers.items():
            for member, job in dispatcher.assign(now):
                shared: Shared = job.content
                group = shared.group
                sent = group.part(0, len(group.payloads))  # which the outbox may merge with others
                sent.topic = topic_of(name, member, job.is_again, group.topic)
                if job.expires < inf:
                    sent.lifespan_ms = milliseconds(max(0.0, job.expires - now))
                endpoint_id = member.partition("-")[0]
                peer = None if endpoint_id == self._endpoint_id else endpoint_id
                topic = sent.topic
                dispatcher.sent(now, member, topic, self.sender.send(peer, sent, shared.priority, job.expires), job)
        done, self.owed = self.owed, {}
        for publisher, entries in done.items():
            if publisher in peers:
                payloads = encode_done(entries)
                answer = MessageGroup(DONE + publisher, 1, 0, payloads, common_length(payloads))
                self.sender.send(publisher, answer, HIGH, inf)

    def takes(self, now: float, peer: str, group: MessageGroup) -> bool:
        """Handle acknowledgements, and count a wrapped topic with nothing inside; return False for other groups."""
        if group.topic.startswith(DONE):
            self._take_done(now, peer, group)
            return True
        is_empty = not unwrapped(group.topic)
        if is_empty:
            self._statistics["malformed wrapped topic"] += 1
        return is_empty

    def _take_done(self, now: float, peer: str, group: MessageGroup) -> None:
        """Take acknowledgements of a peer."""
        for payload in group.payloads:
            try:
                entries = decode_done(payload)
            except ValueError:
                self._statistics["malformed acknowledgement of shared messages"] += 1
                continue
            for entry in entries:
                self._acknowledged(now, peer, entry)

    def _acknowledged(self, now: float, endpoint_id: str, entry: Acknowledgement) -> None:
        topic, first, last = entry
        found = parse_topic(topic)
        if found is None or found[1].partition("-")[0] != endpoint_id:
            self._statistics["malformed acknowledgement of shared messages"] += 1
            return
        for (name, _), dispatcher in self.dispatchers.items():
            if name == found[0] and found[1] in dispatcher.members:
                dispatcher.acknowledge(now, found[1], topic, first, last)

    # --------------------------------------------------------------------------------------- as the member

    def done(self, now: float, item: Acknowledge) -> None:
        """A handler is done with messages that this endpoint got as a member."""
        entry = item.topic, item.first, item.last
        if item.publisher_id == self._endpoint_id:
            self._acknowledged(now, self._endpoint_id, entry)
            return
        entries = self.owed.setdefault(item.publisher_id, [])
        if entries and entries[-1][0] == item.topic and entries[-1][2] + 1 == item.first:
            entries[-1] = item.topic, entries[-1][1], item.last
        else:
            entries.append(entry)
