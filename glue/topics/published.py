"""Records of the topics published by this endpoint: last sequence number, and flows used.

A message's identity is (endpoint, incarnation, topic, sequence). Order within a topic needs the flows. Transport orders
messages only within a flow (set of peers and class). When a topic moves to another flow, its next message must not
overtake messages to the same receivers in the older flows (`Outbound.after`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from glue.contract import LARGE, NORMAL, Flow
from glue.topics.recent import GenerationalCache

PUBLISHED_TOPICS = 32_768
"""Topics in each of two generations; one that 32,768 others followed may be forgotten. Some 300 bytes each: 20 MB."""

FORGOTTEN_FLOWS = 256
"""Flows that forgotten topics went in: more than transport keeps streams for."""


class LoneRoute:
    """How lone messages of a topic go, as long as nothing changes; see `fastpath`."""

    __slots__ = ("changes", "peers", "priority", "topic")

    def __init__(self, changes: int, topic: bytes, flow: Flow) -> None:
        self.changes = changes  # of patterns, until it was made
        self.topic = topic  # as JSON
        self.peers, self.priority = flow  # all receivers; none: use the ordinary way


class PublishedTopic:
    """The record of one topic published to.

    `sequence` is the last number given. `sent` lists the flows used, newest last. `priority` is the latest class.
    `counts` holds the numbers of best-effort and of reliable messages.
    """

    __slots__ = ("counts", "lone_route", "priority", "sent", "sequence")

    def __init__(self, sequence: int, sent: tuple[Flow, ...]) -> None:
        self.priority = NORMAL
        self.sequence = sequence
        self.sent = sent
        self.counts = [0, 0]
        self.lone_route: LoneRoute | None = None

    def number(self, count: int, is_reliable: bool) -> tuple[int, int]:
        """Number `count` messages; return the first sequence number, and its position among its reliability."""
        if not is_reliable:
            self.lone_route = None
        first, position = self.sequence + 1, self.counts[is_reliable] + 1
        self.sequence += count
        self.counts[is_reliable] += count
        return first, position

    @property
    def is_all_reliable(self) -> bool:
        """Whether no message was best effort; then a sequence number is also a place among the reliable messages."""
        return self.sequence == self.counts[True]

    def classify(self, wanted: int) -> int:
        """Return the class of the next messages. A LARGE topic does not return to NORMAL: each change costs a wait."""
        if wanted == NORMAL and self.priority == LARGE:
            return LARGE
        self.priority = wanted
        self.lone_route = None
        return wanted


class PublishedTopics:
    """The topics published to. `peers` is the table, kept by another, of the peers there are now."""

    __slots__ = ("_forgotten", "_peers", "_sequence", "_topics", "known", "statistics")

    def __init__(self, peers: Mapping[str, Any], statistics: Counter[str]) -> None:
        self._peers = peers
        self.statistics = statistics
        self._topics: GenerationalCache[str, PublishedTopic] = GenerationalCache(PUBLISHED_TOPICS, self._forget)
        self.known = self._topics.get  # the record of a topic if there is one; then its name is well-formed
        self._sequence = 0  # the last number of any forgotten topic
        self._forgotten: tuple[Flow, ...] = ()  # which forgotten topics went in

    def topic(self, name: str) -> PublishedTopic:
        """The record of a topic, created if there is none.

        A new topic counts from 1. Once topics were forgotten, new records continue after the highest forgotten number.
        The topic may be a forgotten one, and no identity may be used twice.
        """
        topic = self._topics.get(name)
        if topic is None:
            topic = PublishedTopic(self._sequence, self._forgotten)
            self._topics.put(name, topic)
        return topic

    def follow(self, topic: PublishedTopic, flow: Flow) -> tuple[Flow, ...]:
        """Note that the topic uses `flow` now; return the flows that the next message must not overtake."""
        if topic.sent and topic.sent[-1] == flow:
            return ()
        peers = set(flow[0])
        after = tuple(before for before in topic.sent if before != flow and not peers.isdisjoint(before[0]))
        topic.sent = self._still_needed((*topic.sent, flow))
        topic.lone_route = None
        return after

    def _still_needed(self, sent: Iterable[Flow]) -> tuple[Flow, ...]:
        """The newest flow, and each flow that is the newest for a present peer."""
        needed: list[Flow] = []
        covered: set[str] = set()
        for flow in reversed(tuple(sent)):
            if not needed or any(peer in self._peers and peer not in covered for peer in flow[0]):
                needed.append(flow)
                covered.update(flow[0])
        return tuple(reversed(needed))

    def _forget(self, topics: Iterable[PublishedTopic]) -> None:
        flows = dict.fromkeys(self._forgotten)
        for topic in topics:
            self.statistics["topics forgotten"] += 1
            self._sequence = max(self._sequence, topic.sequence)
            flows.update(dict.fromkeys(topic.sent))
        present = [flow for flow in flows if not self._peers.keys().isdisjoint(flow[0])]
        self._forgotten = tuple(present[-FORGOTTEN_FLOWS:])
