"""The topics of the network, as samples show them: last value, rate, size, and who publishes.

Samples carry the sequence numbers of the messages themselves. So two samples of a publisher tell how many messages it
has published between them, however many of them came here.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

TOPICS: Final = 50_000
"""Topics that are shown, at some 1.2 kB each beside their values: 60 MB. What comes on others is counted."""
SOURCES: Final = 64
"""Publishers of one topic that are told apart."""
PATIENCE: Final = 2.0
"""A topic counts as slower than measured once it was silent for so many times its last pause, and a second."""


class Sample(NamedTuple):
    """One sample of a topic."""

    topic: str
    payload: Any
    size: int
    """Bytes of the payload as it travelled."""
    type: str
    """The type tag, or the name of the codec, or "json", "text" or "bytes"."""
    publisher: str
    publisher_id: str
    incarnation: int
    sequence: int
    published_at: float
    """The publisher's wall clock (Unix seconds)."""
    retained: bool = False
    codec: str = ""
    """The name of the codec of the payload, which is still encoded; "" for bytes and JSON."""


class Source:
    """One publisher of one topic."""

    __slots__ = ("at", "count", "incarnation", "name", "pause", "rate", "received_at", "sequence")

    def __init__(self, name: str, incarnation: int, sequence: int, at: float, now: float) -> None:
        self.name = name
        self.incarnation = incarnation
        self.sequence = sequence
        self.at = at  # the publisher's clock
        self.received_at = now
        self.rate: float | None = None  # messages a second; None: not known yet
        self.pause = 0.0  # seconds between the last two samples
        self.count = 0  # messages since the first sample

    def take(self, sequence: int, at: float, now: float) -> bool:
        """Take another sample of the same life; returns False for an older one, which was overtaken."""
        if sequence < self.sequence:
            return False
        count, elapsed = sequence - self.sequence, at - self.at
        self.count += count
        if count:
            self.pause = now - self.received_at
            if elapsed > 0:
                self.rate = count / elapsed
            elif self.pause > 0:
                self.rate = count / self.pause
        self.sequence, self.at, self.received_at = sequence, at, now
        return True

    def rate_at(self, now: float) -> float:
        """Messages a second; less and less while nothing comes any more."""
        if self.rate is None:
            return 0.0
        silence = now - self.received_at
        if silence <= PATIENCE * self.pause + 1:
            return self.rate
        return min(self.rate, 1 / silence)


class Topic:
    """One topic."""

    __slots__ = (
        "changed", "codec", "mean_size", "name", "payload", "published_at", "received_at", "retained", "size",
        "sources", "type",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.payload: Any = None
        self.type = self.codec = ""
        self.size = 0
        self.mean_size = 0.0
        self.retained = False
        self.published_at = self.received_at = 0.0
        self.sources: dict[str, Source] = {}
        self.changed = False  # since it was last printed

    def rate_at(self, now: float) -> float:
        """Messages a second of all publishers."""
        return sum([source.rate_at(now) for source in self.sources.values()])

    @property
    def is_rate_known(self) -> bool:
        """Whether two samples of any publisher came."""
        return any(source.rate is not None for source in self.sources.values())

    @property
    def count(self) -> int:
        """Messages since the first sample."""
        return sum([source.count for source in self.sources.values()])


class Bus:
    """All topics seen so far, by name. `fresh` lists those that are new since the last call of `take_fresh`."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.samples = 0
        self.left_out = 0
        self._fresh: list[Topic] = []

    def take(self, now: float, sample: Sample) -> Topic | None:
        """Take a sample; returns its topic, None if there is no room for it."""
        self.samples += 1
        topic = self.topics.get(sample.topic)
        if topic is None:
            if len(self.topics) >= TOPICS:
                self.left_out += 1
                return None
            topic = self.topics[sample.topic] = Topic(sample.topic)
            topic.mean_size = sample.size
            self._fresh.append(topic)
        source = topic.sources.get(sample.publisher_id)
        if source is None or source.incarnation != sample.incarnation:
            if source is not None or len(topic.sources) < SOURCES:
                topic.sources[sample.publisher_id] = Source(
                    sample.publisher, sample.incarnation, sample.sequence, sample.published_at, now
                )
        elif not source.take(sample.sequence, sample.published_at, now):
            return topic  # the value that is shown is newer
        topic.payload, topic.type, topic.size, topic.codec = sample.payload, sample.type, sample.size, sample.codec
        topic.mean_size += (sample.size - topic.mean_size) / 8
        topic.retained = sample.retained
        topic.published_at, topic.received_at = sample.published_at, now
        topic.changed = True
        return topic

    def take_fresh(self) -> list[Topic]:
        """Return the topics that are new since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def forget(self, publisher_id: str) -> None:
        """Let a publisher go that left; its topics stay, with the last value."""
        for topic in self.topics.values():
            topic.sources.pop(publisher_id, None)

    def take_changed(self, most: int) -> list[Topic]:
        """Return topics with samples since they were last returned, `most` at most; the others come next time."""
        found: list[Topic] = []
        for topic in self.topics.values():
            if topic.changed:
                if len(found) >= most:
                    break
                topic.changed = False
                found.append(topic)
        return found
