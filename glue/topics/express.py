"""A message by itself, on a topic that messages went on before: most of what it needs is ready.

What topics do with a publication serves streams: groups that are merged, bundles that fill, routes that change. A lone
plain message differs from the one before it on its topic in its numbers and its payload alone, so of all that only
the numbering is done anew. Whatever is out of the ordinary goes the long way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from math import inf

import orjson

from glue.contract import Lane, Outbound, Publication, Request
from glue.topics.bundle import encode_lone
from glue.topics.index import Index
from glue.topics.published import PublishedTopics, Way


class Express:
    """Lone messages of one endpoint: to peers only, by the way that the message before them took."""

    __slots__ = ("_peers", "_published", "_statistics", "_subscriptions")

    def __init__(
        self,
        published: PublishedTopics,
        peers: Index[str],
        subscriptions: Index[Hashable],
        statistics: Counter[str],
    ) -> None:
        self._published = published
        self._peers = peers
        self._subscriptions = subscriptions
        self._statistics = statistics

    def take(self, item: Request) -> Outbound | None:
        """What goes down for a lone message; None, and nothing is done, if this is none or has to go the long way."""
        if not isinstance(item, Publication) or not _is_plain(item):
            return None
        topic = self._published.known(item.topic)
        if topic is None or not topic.sent:
            return None
        way, lane = topic.way, topic.sent[-1]
        if way is None or way.lane is not lane or way.changes != self._peers.changes + self._subscriptions.changes:
            way = topic.way = self._way(item.topic, lane)
        if not way.is_open or lane[1] != item.priority or topic.sequence != topic.counts[True]:
            return None
        sequence, _ = topic.number(1, True)
        self._statistics["messages published"] += 1
        self._statistics["messages owed"] += len(lane[0])
        body = encode_lone(way.topic, sequence, int(item.published_at * 1e6), item.payloads[0], item.json)
        return Outbound(lane[0], [body], None, True, inf, (), None, 1, (), item.priority)

    def _way(self, topic: str, lane: Lane) -> Way:
        is_open = lane[0] == self._peers.match(topic) and not self._subscriptions.match(topic)
        return Way(self._peers.changes + self._subscriptions.changes, orjson.dumps(topic), lane, is_open)


def _is_plain(item: Publication) -> bool:
    """Whether it is one message, and no option is set but that it may be JSON."""
    return (
        len(item.payloads) == 1
        and item.reliable
        and item.ordered
        and not item.retain
        and item.type is None
        and item.lifespan is None
        and item.receipt is None
    )
