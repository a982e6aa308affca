"""The oracle of a swarm: what was published, which endpoints must receive it, and whether what they receive is right.

A reliable message is owed to each peer that its publisher knew as a subscriber when publishing. The debt is
remitted when the publisher is told that the peer is gone, when either of them crashes, and when the peer no longer
wants the topic; until the next delivery proves otherwise, that message may then arrive or not. Whatever arrives
must be what was published, and nothing reliable may come twice or out of order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from glue import Gap, Message

Life = tuple[str, int]
"""Endpoint id and incarnation."""

Stream = tuple[Life, str]
"""A life of a publisher, and a topic."""


class Entry:
    """One message: its size in bytes, how it was published, and the lives that it was sent to."""

    __slots__ = ("is_reliable", "is_retained", "size", "takers")

    def __init__(self, size: int, is_reliable: bool, is_retained: bool, takers: set[Life]) -> None:
        self.size = size
        self.is_reliable = is_reliable
        self.is_retained = is_retained
        self.takers = takers


class Oracle:
    """All that was published in a world, and the debts that are open."""

    def __init__(self) -> None:
        self.entries: defaultdict[Stream, list[Entry]] = defaultdict(list)
        self.debts: defaultdict[tuple[Life, Life], dict[tuple[str, int], None]] = defaultdict(dict)
        self.heard = 0

    def payload(self, publisher: Life, topic: str, size: int) -> bytes:
        """What the publisher's next message on the topic is to say."""
        return content(publisher, topic, len(self.entries[publisher, topic]) + 1, size)

    def published(self, publisher: Life, topic: str, entry: Entry, owed_to: set[Life]) -> None:
        """A message was published."""
        entries = self.entries[publisher, topic]
        entries.append(entry)
        for peer in owed_to:
            self.debts[publisher, peer][topic, len(entries)] = None

    def received(self, receiver: Life, message: Message) -> Entry:
        """A life of an endpoint heard this; returns what was published. Raises AssertionError if it was not that."""
        publisher = message.publisher_id, message.incarnation
        entries = self.entries[publisher, message.topic]
        assert 0 < message.sequence <= len(entries), f"{message} was never published"
        entry = entries[message.sequence - 1]
        wanted = content(publisher, message.topic, message.sequence, entry.size)
        assert message.payload == wanted, f"{message} is not what was published: {wanted!r:.80}"
        self.debts[publisher, receiver].pop((message.topic, message.sequence), None)
        self.heard += 1
        return entry

    def part(self, publisher: Life, receiver: Life) -> None:
        """The publisher takes the receiver for gone."""
        self.debts.pop((publisher, receiver), None)

    def bury(self, life: Life) -> None:
        """A life has ended: nothing more is owed by it, or to it."""
        for lives in [lives for lives in self.debts if life in lives]:
            del self.debts[lives]

    def remit_topics(self, receiver: Life, unwanted: Callable[[str], bool]) -> None:
        """The receiver no longer wants such topics."""
        for (_, peer), debts in self.debts.items():
            if peer == receiver:
                for debt in [debt for debt in debts if unwanted(debt[0])]:
                    del debts[debt]

    @property
    def open(self) -> dict[tuple[Life, Life], list[tuple[str, int]]]:
        """Topics and sequences still owed, by publisher and receiver."""
        return {lives: list(debts) for lives, debts in self.debts.items() if debts}


class Listener:
    """Checks what one subscription hears, and what it is told that it misses."""

    def __init__(self, oracle: Oracle, receiver: Life) -> None:
        self._oracle = oracle
        self._receiver = receiver
        self._told: Counter[tuple[str, str]] = Counter()  # by publisher's id and topic: missing before what comes next
        self._told_of_best_effort: Counter[tuple[str, str]] = Counter()
        self._first_best_effort: dict[Stream, int] = {}
        self._best_effort: set[tuple[Stream, int]] = set()  # heard live
        self._last_reliable: dict[Stream, int] = {}  # of those that were heard live
        self._had: set[tuple[Stream, int]] = set()
        self._last: defaultdict[Stream, int] = defaultdict(int)
        self._last_kept: defaultdict[Stream, int] = defaultdict(int)

    def __call__(self, message: Message) -> None:
        entry = self._oracle.received(self._receiver, message)
        stream = (message.publisher_id, message.incarnation), message.topic
        assert (stream, message.sequence) not in self._had, f"{message} came twice"
        self._had.add((stream, message.sequence))
        assert entry.is_retained or not message.retained, f"{message} was not to be kept"
        if not entry.is_reliable:
            if not message.retained:
                self._first_best_effort.setdefault(stream, message.sequence)
                self._best_effort.add((stream, message.sequence))
            return
        if not message.retained:
            self._check_gap(stream, message)
        if message.retained:
            assert message.sequence > self._last_kept[stream], f"{message} was told after #{self._last_kept[stream]}"
        else:
            assert message.sequence > self._last[stream], f"{message} came after #{self._last[stream]}"
        self._last[stream] = max(self._last[stream], message.sequence)
        if entry.is_retained:
            self._last_kept[stream] = max(self._last_kept[stream], message.sequence)

    def miss(self, gap: Gap) -> None:
        """This subscription was told that it misses something."""
        told = self._told_of_best_effort if gap.cause == "best effort" else self._told
        told[gap.publisher_id, gap.topic] += gap.count

    def _check_gap(self, stream: Stream, message: Message) -> None:
        """What was told is exactly what is missing between two reliable messages."""
        last = self._last_reliable.get(stream)
        entries = self._oracle.entries[stream]
        between = entries[last : message.sequence - 1] if last is not None else []
        missing = sum(entry.is_reliable for entry in between)
        told = self._told.pop((message.publisher_id, message.topic), 0)
        assert told == missing, f"{missing} are missing between #{last} and {message}, told were {told}"
        self._last_reliable[stream] = message.sequence

    def check_best_effort(self) -> None:
        """At the end: no more is said to be missing of best effort than is."""
        missing: Counter[tuple[str, str]] = Counter()
        for stream, first in self._first_best_effort.items():
            entries = enumerate(self._oracle.entries[stream], 1)
            numbers = [number for number, entry in entries if not entry.is_reliable and number > first]
            (publisher, _), topic = stream
            missing[publisher, topic] += sum((stream, number) not in self._best_effort for number in numbers)
        for key, told in self._told_of_best_effort.items():
            assert told <= missing[key], f"told of {told} missing of best effort, {missing[key]} are: {key}"


def content(publisher: Life, topic: str, sequence: int, size: int) -> bytes:
    """The payload of this message: `size` bytes that no other message has, but for the very short ones."""
    seal = f"{publisher[0]} {publisher[1]} {topic} {sequence}|".encode()
    return (seal * (size // len(seal) + 1))[:size]
