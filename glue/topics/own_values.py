"""The retained values that this endpoint published: kept, and sent to late joiners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import inf

from glue.topics.bundle import MessageGroup, milliseconds
from glue.topics.held import HeldParcels
from glue.topics.limits import Limits
from glue.topics.outbox import BundleOutbox
from glue.topics.published import PublishedTopics
from glue.topics.retained import RetainedValues, kept, retained
from glue.topics.wrapped import LIMITED, interval_of, limited, unwrapped


class OwnValues:
    """The table of one life of an endpoint."""

    __slots__ = ("_identity", "_limits", "_outbox", "_published", "_statistics", "table")

    def __init__(
        self,
        identity: tuple[str, str, int],
        published: PublishedTopics,
        outbox: BundleOutbox,
        limits: Limits,
        statistics: Counter[str],
    ) -> None:
        """`identity` is name, id and incarnation."""
        self.table = RetainedValues()
        self._identity = identity
        self._published = published
        self._outbox = outbox
        self._limits = limits
        self._statistics = statistics

    def keep(self, group: MessageGroup, expires: float) -> None:
        """Keep the last message of a group for late joiners; without room, count a refusal and keep nothing."""
        if not group.payloads[-1]:
            self.table.discard(group.topic, self._identity[1])
        elif not self.table.put(retained(group, *self._identity, expires)):
            self._statistics["retained values refused: too many"] += 1

    def keep_limited(self, interests: Iterable[str]) -> None:
        """Keep the values for new limited interests on wrapped topics, too, with sequence numbers of those topics."""
        if not self._limits:
            return
        for interest in interests:
            asked = interval_of(interest) if interest.startswith(LIMITED) else None
            if asked is None:
                continue
            for topic in self.table.topics([interest]):  # left by an earlier interest, and maybe old
                if not self.table.of(unwrapped(topic)):
                    self.table.drop(topic)
            for value in list(self.table.matching([asked[1]], -inf)):
                topic = limited(asked[0], value.topic)
                known = self.table.get(topic, value.publisher_id)
                if known is None or known.payload is not value.payload:
                    number, _ = self._published.topic(topic).number(1, True)
                    if not self.table.put(value.wrapped(topic, number)):
                        self._statistics["retained values refused: too many"] += 1

    def replay(self, now: float, peer: str, patterns: list[str], held: HeldParcels | None) -> None:
        """Send a peer the kept values for its new interests, except on topics in `held.retained`."""
        if self._limits.samples is not None:
            self._limits.samples.begin(now, peer, patterns, self.table)
        for value in self.table.matching(patterns, now):
            if held is not None and value.topic in held.retained:
                continue
            group = kept(value)
            if value.expires < inf:
                group.lifespan_ms = milliseconds(value.expires - now)
            topic = self._published.topic(value.topic)
            flow = (peer,), topic.priority
            after = self._published.follow(topic, flow)
            self._outbox.add(flow, True, group, value.expires, after)
            self._statistics["messages owed"] += 1
            self._statistics["retained values replayed"] += 1
