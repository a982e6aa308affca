"""The parts that a log may remove: by age, by bytes, and by the number of messages of each topic.

A rule is for a set of topics; a topic without a rule is kept for ever, one with several rules by the most generous. The
count 1 is compaction: of each topic the last message stays.

Removing costs reading, so it happens by segments: a wholly outdated segment is removed, and a segment at least half
outdated is written anew. So up to twice as much as the rules say stays on the disk, and a segment more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from glue.storage.log import Topics
from glue.storage.records import Record
from glue.storage.segment import SegmentIndex
from glue.storage.segments import Segment

WORTH = 0.5
"""The share of a segment that must be outdated before it is written anew: each byte is copied once on average."""

Outdated = Callable[[Record, int], bool]
"""Whether a record with its offset may be removed."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long messages of some topics are kept: the first limit that is reached counts; None means no limit.

    * `age`: seconds since they were published.
    * `size`: bytes of records of all these topics together.
    * `count`: messages of each topic.
    """

    topics: Topics
    age: float | None = None
    size: int | None = None
    count: int | None = None


class _Later:
    """The messages in later segments, counted from the newest on."""

    def __init__(self, retentions: Sequence[Retention]) -> None:
        self.messages: Counter[str] = Counter()
        self.bytes = [0] * len(retentions)

    def add(self, index: SegmentIndex, retentions: Sequence[Retention]) -> None:
        """Count a segment."""
        for topic, part in index.topics.items():
            self.messages[topic] += part.count
        for number, retention in enumerate(retentions):
            if retention.size is not None:
                self.bytes[number] += sum(part.size for topic, part in index.topics.items() if retention.topics(topic))


def outdated_segments(
    segments: Sequence[Segment],
    index_of: Callable[[Segment], SegmentIndex],
    retentions: Sequence[Retention],
    now: float,
) -> Iterator[tuple[Segment, Outdated]]:
    """Finished segments that are worth to be written anew, newest first, each with the test of its records."""
    if not retentions:
        return
    later = _Later(retentions)
    for position in range(len(segments) - 1, -1, -1):
        segment = segments[position]
        index = index_of(segment)
        if position < len(segments) - 1 and index.topics:
            newest: dict[str, float] = {}
            for stream, part in index.streams.items():
                newest[stream.topic] = max(newest.get(stream.topic, 0.0), part.last_at)
            dead = {
                topic for topic in index.topics
                if _is_outdated(topic, newest.get(topic, 0.0), later.messages[topic], later, retentions, now)
            }  # fmt: skip
            worth = _worth(index, dead, later, retentions)
            if worth >= WORTH:
                messages = Counter(later.messages)
                yield segment, _test(dead, index, messages, retentions)
        later.add(index, retentions)


def _is_outdated(topic: str, at: float, after: int, later: _Later, retentions: Sequence[Retention], now: float) -> bool:
    """Whether no rule keeps a message of this age, with so many after it on its topic."""
    rules = [(number, rule) for number, rule in enumerate(retentions) if rule.topics(topic)]
    return bool(rules) and all(
        (rule.age is not None and at < now - rule.age)
        or (rule.count is not None and after >= rule.count)
        or (rule.size is not None and later.bytes[number] >= rule.size)
        for number, rule in rules
    )


def _limit(topic: str, retentions: Sequence[Retention]) -> int | None:
    """The number of messages of a topic that its rules keep, None for all."""
    counts = [rule.count for rule in retentions if rule.topics(topic)]
    return max((count for count in counts if count is not None), default=None) if None not in counts else None


def _worth(index: SegmentIndex, dead: set[str], later: _Later, retentions: Sequence[Retention]) -> float:
    """The share of a segment's bytes that is outdated, about."""
    outdated = total = 0.0
    for topic, part in index.topics.items():
        total += part.size
        if topic in dead:
            outdated += part.size
        elif (limit := _limit(topic, retentions)) is not None:
            kept = max(limit - later.messages[topic], 0)
            outdated += part.size * max(part.count - kept, 0) / part.count
    return outdated / total if total else 0.0


def _test(dead: set[str], index: SegmentIndex, messages: Counter[str], retentions: Sequence[Retention]) -> Outdated:
    """Return the test of a segment's records, which must be tested in order."""
    left = {topic: part.count + messages[topic] for topic, part in index.topics.items()}
    limits = {topic: _limit(topic, retentions) for topic in index.topics}

    def is_outdated(record: Record, offset: int) -> bool:
        topic = record.topic
        if topic in dead:
            return True
        left[topic] = left.get(topic, 0) - len(record.payloads)
        limit = limits.get(topic)
        return limit is not None and left[topic] >= limit

    return is_outdated
