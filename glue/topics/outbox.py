"""The outbox of bundles: gathers groups of messages for the same peers into few bundles.

One bundle is open for each flow (set of peers and class) and reliability. A bundle closes when it is full, and at
`flush`, at the end of each turn. No message waits for others: an idle publisher sends each message at once, and a busy
publisher has many messages in one turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from itertools import accumulate

import orjson

from glue.contract import Flow, Outbound
from glue.topics.bundle import (
    BUNDLE_MESSAGES,
    BUNDLE_SIZE,
    GROUP_SIZE,
    LENGTH_SIZE,
    UNORDERED_SIZE,
    MessageGroup,
    body_of,
)
from glue.topics.metadata import metadata_entry


class Bundle:
    """An open bundle. `size` is an upper bound of its encoded size in bytes."""

    __slots__ = ("after", "count", "expires", "flow", "groups", "receipts", "reliable", "size")

    def __init__(self, flow: Flow, reliable: bool) -> None:
        self.flow = flow
        self.reliable = reliable
        self.groups: list[MessageGroup] = []
        self.size = 0
        self.count = 0
        self.expires = 0.0
        self.after: tuple[Flow, ...] = ()
        self.receipts: tuple[Hashable, ...] = ()

    def take(self, group: MessageGroup, limit: int, expires: float, after: tuple[Flow, ...]) -> bool:
        """Add a group if it fits; return whether it did. An empty bundle takes a single message of any size.

        The bundle owns the group and may merge it with the group before.
        """
        last = self.groups[-1] if self.groups else None
        if last is not None and not last.is_continued_by(group):
            last = None
        size, messages = cost(group, last), len(group.payloads)
        fits = self.size + size <= limit and self.count + messages <= BUNDLE_MESSAGES
        if not fits and (self.groups or messages > 1):
            return False
        if last is None:
            self.groups.append(group)
        else:
            last.merge(group)
        self.size += size
        self.count += messages
        self.expires = max(self.expires, expires)
        if after:
            self.after = tuple(dict.fromkeys(self.after + after))
        return True

    def outbound(self) -> Outbound:
        """The bundle, encoded; it lives as long as the longest-lived of its messages."""
        peers, priority = self.flow
        body = body_of(self.groups)
        return Outbound(
            peers, body, None, self.reliable, self.expires, self.after, None, self.count, self.receipts, priority
        )


class BundleOutbox:
    """Groups in, Outbounds out. `frame_size`: the largest best-effort bundle, so that none is fragmented."""

    __slots__ = ("_closed", "_open", "frame_size")

    def __init__(self) -> None:
        self.frame_size = BUNDLE_SIZE
        self._open: dict[tuple[Flow, bool], Bundle] = {}
        self._closed: list[Bundle] = []

    def add(self, flow: Flow, reliable: bool, group: MessageGroup, expires: float, after: tuple[Flow, ...]) -> None:
        """Add a group to the bundles of its flow; groups may be merged and split, messages keep their order."""
        limit = BUNDLE_SIZE if reliable else self.frame_size
        for other in after:  # close first any bundle here that this group must not overtake
            if (other, True) in self._open:
                self._closed.append(self._open.pop((other, True)))
        if self._bundle(flow, reliable).take(group, limit, expires, after):
            return
        sizes = map(len, group.payloads)
        if group.length is None:
            sizes = map(LENGTH_SIZE.__add__, sizes)
        ends = list(accumulate(sizes, initial=0))
        start = 0
        while start < len(group.payloads):
            bundle = self._bundle(flow, reliable)
            stop = bisect_right(ends, ends[start] + limit - bundle.size - entry_size(group)) - 1
            stop = min(stop, start + BUNDLE_MESSAGES - bundle.count)
            part = group.part(start, max(stop, start + 1))
            if bundle.take(part, limit, expires, after):
                start += len(part.payloads)
            else:
                self._closed.append(self._open.pop((flow, reliable)))

    def receipt(self, flow: Flow, receipt: Hashable) -> None:
        """Attach a receipt to the open reliable bundle of this flow, for the message added last."""
        self._open[flow, True].receipts += (receipt,)

    def flush(self) -> list[Outbound]:
        """Close everything; returns what was closed since the last flush, in order for each flow."""
        if not self._open:
            return []
        done = [bundle.outbound() for bundle in (*self._closed, *self._open.values())]
        self._closed.clear()
        self._open.clear()
        return done

    def _bundle(self, flow: Flow, reliable: bool) -> Bundle:
        key = (flow, reliable)
        bundle = self._open.get(key)
        if bundle is None:
            bundle = self._open[key] = Bundle(flow, reliable)
        return bundle


def entry_size(group: MessageGroup) -> int:
    """The most bytes of a group's entry in a bundle, without payloads and their lengths."""
    size = GROUP_SIZE + text_size(group.topic) + (0 if group.type is None else text_size(group.type))
    if group.metadata is not None:
        size += len(orjson.dumps(metadata_entry(group.metadata)))
    return size if group.ordered else size + UNORDERED_SIZE


def cost(group: MessageGroup, last: MessageGroup | None) -> int:
    """The most bytes that a group adds to a bundle when merged into `last`; None if it is not merged."""
    size = group.size
    if last is None:
        size += entry_size(group)
        listed = 0 if group.length is not None else len(group.payloads)
    elif last.length is not None and last.length == group.length:
        listed = 0
    else:  # from now on the index lists each length
        listed = len(group.payloads) + (0 if last.length is None else len(last.payloads))
    return size + LENGTH_SIZE * listed


def text_size(text: str) -> int:
    """Bytes of a string in JSON."""
    return len(orjson.dumps(text))
