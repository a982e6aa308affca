"""What was heard of each publisher on each topic, so that what is missing is noticed.

The reliable messages of a topic are counted on their own, the best-effort ones, too: a message's *position* is its
number among its kind, by default its sequence number. Reliable ones come in order: a jump is a gap, told at once. Best
effort may overtake: a jump is a gap if it is not filled within GRACE.

No false gaps: a stream begins with the first message heard; a subscription that is younger than the last message heard
is not told; a count that begins anew, after the publisher forgot the topic, is no jump.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf

from glue.topics.bundle import Group
from glue.topics.recent import Recent

STREAMS = 32_768
"""Streams in each of two generations, as many as `PUBLISHED_TOPICS`; some 300 bytes each: 20 MB."""

GRACE = 1.0
"""Seconds for which a best-effort message may be overtaken: far more than reordering on one segment takes."""

NOT_SENT = "not sent"
"""The cause of a gap when the publisher did not send: it had lost touch with this endpoint, or the message expired."""

OVERDUE = 16_384
"""Gaps that may yet be filled, at once: 3 MB. Further ones are told without waiting."""

LOST = "best effort"
"""The cause of a gap in what is sent with best effort."""


class Stream:
    """One topic of one life of a publisher. Pairs are for best effort, and for reliable messages."""

    __slots__ = ("expected", "heard_at", "incarnation", "last", "marks", "overdue")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.expected = [0, 0]  # the position that comes next; 0: none was heard
        self.marks = [0, 0]  # which subscriptions there were at the last message
        self.heard_at = -inf
        self.last = 0  # the highest sequence number heard
        self.overdue: list[Overdue] = []

    def go_on(self, now: float, sequence: int, count: int, mark: int) -> None:
        """Note so many reliable messages, the next ones, whose positions are their sequence numbers."""
        stop = sequence + count
        self.expected[True] = stop
        self.marks[True] = mark
        self.heard_at = now
        if stop > self.last:
            self.last = stop - 1


class Overdue:
    """Best-effort messages, of the positions from `first` to before `stop`, that have until `at` to come."""

    __slots__ = ("at", "count", "first", "mark", "peer", "stop", "stream", "topic")

    def __init__(self, at: float, peer: str, topic: str, stream: Stream, first: int, stop: int) -> None:
        self.at = at
        self.peer = peer
        self.topic = topic
        self.stream = stream
        self.first = first
        self.stop = stop
        self.count = stop - first  # still missing
        self.mark = stream.marks[False]


class Jump:
    """So many messages are missing; `mark` is that of the last message before."""

    __slots__ = ("cause", "count", "mark")

    def __init__(self, count: int, cause: str, mark: int) -> None:
        self.count = count
        self.cause = cause
        self.mark = mark


class Streams:
    """All streams heard lately."""

    __slots__ = ("_given_up", "_overdue", "_streams")

    def __init__(self) -> None:
        self._streams: Recent[tuple[str, str], Stream] = Recent(STREAMS)
        self._given_up: dict[str, tuple[float, str]] = {}  # by peer: when it last gave up anything, and why
        self._overdue: deque[Overdue] = deque()

    @property
    def deadline(self) -> float:
        """When the next gap in a best-effort stream is certain."""
        return self._overdue[0].at if self._overdue else inf

    def get(self, peer: str, topic: str) -> Stream | None:
        """The stream of a peer on a topic, if it was heard; then the topic is well-formed."""
        return self._streams.get((peer, topic))

    def give_up(self, now: float, peer: str, cause: str) -> None:
        """A peer, or a layer below, gave up some of what that peer sent; it is not known of which topic."""
        self._given_up[peer] = now, cause

    def forget(self, peer: str) -> None:
        """A peer is gone."""
        self._given_up.pop(peer, None)

    def heard(self, now: float, peer: str, incarnation: int, group: Group, is_reliable: bool, mark: int) -> Jump | None:
        """Note live messages; returns what is certainly missing before them."""
        key = peer, group.topic
        stream = self._streams.get(key)
        if stream is None or stream.incarnation != incarnation:
            stream = Stream(incarnation)
            self._streams.put(key, stream)
        count, sequence, position = len(group.payloads), group.sequence, group.position
        expected = stream.expected[is_reliable]
        if position < expected:
            if sequence < stream.last:
                self._overtaken(stream, position, position + count)
                return None
            stream.expected = [0, 0]  # the count begins anew
            expected = 0
        jump = None
        if expected and position > expected:
            if is_reliable:
                jump = Jump(position - expected, self._cause(peer, stream.heard_at), stream.marks[True])
            elif len(self._overdue) >= OVERDUE:
                jump = Jump(position - expected, LOST, stream.marks[False])
            else:
                stream.overdue.append(Overdue(now + GRACE, peer, group.topic, stream, expected, position))
                self._overdue.append(stream.overdue[-1])
        stream.expected[is_reliable] = position + count
        stream.marks[is_reliable] = mark
        stream.heard_at = now
        if sequence + count > stream.last:
            stream.last = sequence + count - 1
        return jump

    @staticmethod
    def _overtaken(stream: Stream, first: int, stop: int) -> None:
        """These came late, but they came."""
        for overdue in stream.overdue:
            overdue.count -= max(min(stop, overdue.stop) - max(first, overdue.first), 0)

    def _cause(self, peer: str, since: float) -> str:
        at, cause = self._given_up.get(peer, (-inf, ""))
        return cause if at >= since else NOT_SENT

    def overdue(self, now: float) -> Iterator[tuple[str, str, Jump]]:
        """Peers, topics, and what is by now certainly missing there of best-effort messages."""
        while self._overdue and self._overdue[0].at <= now:
            overdue = self._overdue.popleft()
            if overdue.at + GRACE < now:  # this host slept: what came meanwhile has yet to be looked at
                overdue.at = now + GRACE
                self._overdue.append(overdue)
                continue
            overdue.stream.overdue.remove(overdue)
            if overdue.count:
                yield overdue.peer, overdue.topic, Jump(overdue.count, LOST, overdue.mark)
