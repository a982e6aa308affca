"""Streams, one for each publisher and topic: reports gaps and drops late messages.

Reliable and best-effort messages of a topic are counted separately. The *position* of a message is its number in the
count of its kind; by default, position and sequence number are equal.

Reliable messages are handed up in strictly increasing order. A jump in their positions is a gap, reported at once. A
late reliable message is dropped. Late messages come after a long stop of this host, when the publisher has given this
endpoint up and has begun a new channel: the host may read the new channel before older messages in another socket.
Best-effort messages may be reordered: a jump is a gap only if it is not filled within GRACE.

False gaps are avoided. A stream begins with the first message received. A subscription learns only of gaps after a
message received in its time. A restarted count, after the publisher forgot the topic, is no jump.

A single wrong number does no lasting harm. A jump beyond the reach of an honest publisher is refused until the next
bundle continues from there (as RFC 3550, appendix A.1, for restarted sources). A smaller jump looks like a gap, and all
later messages seem late. If only late messages arrive for DOUBT seconds, the stream begins anew.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from math import inf

from glue.topics.bundle import MessageGroup
from glue.topics.recent import GenerationalCache

STREAMS = 32_768
"""Streams in each of two generations, as many as `PUBLISHED_TOPICS`; some 400 bytes each: 26 MB."""

GRACE = 1.0
"""Seconds for which a best-effort message may be overtaken: far more than reordering on one segment takes."""

NOT_SENT = "not sent"
"""The cause of a gap when the publisher did not send: it had lost touch with this endpoint, or the message expired."""

OVERDUE = 16_384
"""Gaps that may yet be filled, at once: 3 MB. Further ones are told without waiting."""

LOST = "best effort"
"""The cause of a gap in what is sent with best effort."""

FASTEST = 10_000_000
"""Messages a second that no publisher exceeds: ten times what the fastest stream of small ones reaches."""

LEAP = 1 << 20
"""Messages that may be missing at once whatever the time that passed: a tenth of a second of the fastest publisher."""

DOUBT = 10.0
"""Seconds for which nothing but late messages comes, after which it is the stream that is wrong. The backlog of a
socket, 32 MB, is read in less."""

DOUBT_STEP = 2.5
"""Seconds between two late bundles that count at most: more of them are a stop of this host, or of the publisher."""


class Stream:
    """One topic of one life of a publisher. Pairs are for best effort, and for reliable messages."""

    __slots__ = (
        "doubt", "expected", "incarnation", "last", "marks", "overdue", "plain", "received_at", "refused",
        "refused_at",
    )  # fmt: skip

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.expected = [0, 0]  # the position that comes next; 0: none was received
        self.last = [0, 0]  # the highest sequence number received
        self.marks = [0, 0]  # which subscriptions there were at the last message
        self.received_at = [-inf, -inf]
        self.plain = 0  # the number of the next reliable message if it may go the fast path; 0: none may
        self.overdue: list[Overdue] = []
        self.refused = 0  # the sequence number that goes on from what was refused last
        self.refused_at = -inf
        self.doubt = 0.0  # seconds for which nothing but late messages came, stops left out

    def go_on(self, now: float, sequence: int, count: int, mark: int) -> None:
        """Note the next `count` reliable messages, on a stream with positions equal to sequence numbers."""
        stop = sequence + count
        self.expected[True] = self.plain = stop
        self.last[True] = stop - 1
        self.marks[True] = mark
        self.received_at[True] = now

    def take(self, now: float, kind: bool, sequence: int, position: int, count: int, mark: int) -> None:
        """Note `count` messages, reliable or not (`kind`), from this number and position on."""
        self.expected[kind] = position + count
        last = sequence + count - 1
        if last > self.last[kind]:
            self.last[kind] = last
        self.marks[kind] = mark
        self.received_at[kind] = now
        if kind:  # a plain message has no position of its own
            self.plain = position + count if position == sequence else 0

    def begin_anew(self) -> None:
        """Forget the count: the next message is the first."""
        self.expected = [0, 0]
        self.last = [0, 0]
        self.received_at = [-inf, -inf]
        self.plain = 0
        self.refused, self.doubt = 0, 0.0

    def is_believable(self, now: float, kind: bool, sequence: int, position: int, count: int) -> bool:
        """Whether an honest publisher can have reached these numbers, or they continue the last refused numbers."""
        farthest = LEAP + FASTEST * (now - self.received_at[kind])
        if position - self.expected[kind] <= farthest and sequence - self.last[kind] - 1 <= farthest:
            return True
        goes_on = sequence == self.refused
        self.refused, self.refused_at = sequence + count, now
        return goes_on

    def is_wrong(self, now: float, sequence: int, count: int) -> bool:
        """Note late messages; return whether only late messages arrived for DOUBT seconds: the count is wrong then."""
        if self.received_at[True] >= self.refused_at or sequence < self.refused:
            self.doubt = 0.0
        else:
            self.doubt += min(now - self.refused_at, DOUBT_STEP)
        self.refused, self.refused_at = sequence + count, now
        return self.doubt >= DOUBT


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
    """A gap of `count` messages; `mark` counts the subscriptions at the last message before the gap."""

    __slots__ = ("cause", "count", "mark")

    def __init__(self, count: int, cause: str, mark: int) -> None:
        self.count = count
        self.cause = cause
        self.mark = mark


class Streams:
    """The streams received lately, by peer and topic."""

    __slots__ = ("_given_up", "_overdue", "_statistics", "_streams")

    def __init__(self, statistics: Counter[str]) -> None:
        self._statistics = statistics
        self._streams: GenerationalCache[tuple[str, str], Stream] = GenerationalCache(STREAMS)
        self._given_up: dict[str, tuple[float, str]] = {}  # by peer: when it last gave up anything, and why
        self._overdue: deque[Overdue] = deque()

    @property
    def deadline(self) -> float:
        """When the next gap in a best-effort stream is certain."""
        return self._overdue[0].at if self._overdue else inf

    def get(self, peer: str, topic: str) -> Stream | None:
        """The stream of a peer on a topic, if anything of it was received; then the topic is well-formed."""
        return self._streams.get((peer, topic))

    def give_up(self, now: float, peer: str, cause: str) -> None:
        """Note that messages of a peer, on unknown topics, were given up by the peer or by a layer below."""
        self._given_up[peer] = now, cause

    def forget(self, peer: str) -> None:
        """A peer is gone."""
        self._given_up.pop(peer, None)

    def receive(
        self, now: float, peer: str, incarnation: int, group: MessageGroup, is_reliable: bool, mark: int
    ) -> tuple[int, Jump | None]:
        """Note live messages; return how many leading messages to drop, and any certain gap before the rest."""
        stream = self._streams.get((peer, group.topic))
        if stream is None or stream.incarnation != incarnation:
            stream = self._begin(peer, incarnation, group.topic)
        sequence, position, count = group.sequence, group.position, len(group.payloads)
        expected, last, dropped = stream.expected[is_reliable], stream.last[is_reliable], 0
        if is_reliable and group.ordered and sequence <= last:
            dropped = min(last + 1 - sequence, count)
            if dropped < count or not stream.is_wrong(now, sequence, count):
                self._statistics["messages too late"] += dropped
            else:
                self._statistics["streams begun anew"] += 1
                stream.begin_anew()
                expected = last = dropped = 0
            if dropped == count:
                return count, None
            sequence, position, count = sequence + dropped, position + dropped, count - dropped
        if position < expected:
            if sequence <= last:
                if not is_reliable:
                    self._overtaken(stream, position, position + count)
                return 0, None
            stream.expected = [0, 0]  # the publisher forgot the topic, and counts anew
            expected = stream.plain = 0
        jump = None
        if expected and (position > expected or sequence > last + 1):
            if not stream.is_believable(now, is_reliable, sequence, position, count):
                self._statistics["messages numbered out of bounds"] += count
                return count + dropped, None
            if position > expected:
                jump = self._jump(now, peer, group.topic, stream, is_reliable, expected, position)
        stream.take(now, is_reliable, sequence, position, count, mark)
        return dropped, jump

    def replayed(self, now: float, peer: str, incarnation: int, topic: str, sequence: int) -> None:
        """Note a kept value that was handed up: what was published before it comes too late from now on."""
        stream = self._streams.get((peer, topic))
        if stream is None or stream.incarnation != incarnation:
            stream = self._begin(peer, incarnation, topic)
        farthest = stream.last[True] + LEAP + FASTEST * (now - stream.received_at[True])
        if stream.last[True] < sequence <= farthest:
            stream.last[True] = sequence
            stream.plain = 0

    def _begin(self, peer: str, incarnation: int, topic: str) -> Stream:
        stream = Stream(incarnation)
        self._streams.put((peer, topic), stream)
        return stream

    def _jump(
        self, now: float, peer: str, topic: str, stream: Stream, is_reliable: bool, expected: int, position: int
    ) -> Jump | None:
        """The gap between two positions; None for best effort, where late messages may still fill the gap."""
        count = position - expected
        if is_reliable:
            return Jump(count, self._cause(peer, stream.received_at[True]), stream.marks[True])
        if len(self._overdue) >= OVERDUE:
            return Jump(count, LOST, stream.marks[False])
        stream.overdue.append(Overdue(now + GRACE, peer, topic, stream, expected, position))
        self._overdue.append(stream.overdue[-1])
        return None

    @staticmethod
    def _overtaken(stream: Stream, first: int, stop: int) -> None:
        """Subtract late best-effort messages from the open gaps."""
        for overdue in stream.overdue:
            overdue.count -= max(min(stop, overdue.stop) - max(first, overdue.first), 0)

    def _cause(self, peer: str, since: float) -> str:
        at, cause = self._given_up.get(peer, (-inf, ""))
        return cause if at >= since else NOT_SENT

    def overdue(self, now: float) -> Iterator[tuple[str, str, Jump]]:
        """Peers, topics, and what is by now certainly missing there of best-effort messages."""
        while self._overdue and self._overdue[0].at <= now:
            overdue = self._overdue.popleft()
            if overdue.at + GRACE < now:  # this host slept: messages may wait in its socket
                overdue.at = now + GRACE
                self._overdue.append(overdue)
                continue
            overdue.stream.overdue.remove(overdue)
            if overdue.count:
                yield overdue.peer, overdue.topic, Jump(overdue.count, LOST, overdue.mark)
