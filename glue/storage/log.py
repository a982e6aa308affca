"""The interface of a log of topics: history, consumers and doors use it, files and memory implement it.

One log holds all topics of a keeper, interleaved in the order of arrival. Each message has an *offset*, its number in
this log, counted from 0. Offsets are never used twice, also after messages were removed. A reader is no object here: it
holds a position, the pair of the log's id and the offset of the next message, and asks with it. So a log costs the same
with one reader and with thousands. A position is valid at one keeper alone. At another keeper, a reader names its
messages by streams and sequences (`StreamState`), or begins at a time and drops known messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, Protocol

from glue.contract.ranges import RangeSet
from glue.storage.records import Record, Stream

Topics = Callable[[str], bool]
"""Whether a topic is wanted."""


def every_topic(topic: str) -> bool:
    """All topics are wanted."""
    return True


READ_SIZE = 1 << 20
"""Bytes of payload that a call of `read` returns at most by default, a first larger record aside."""


class Reading(NamedTuple):
    """The result of a read: records with the offset of their first message, and the offset to go on from."""

    records: list[tuple[int, Record]]
    next: int


@dataclass(slots=True)
class StreamState:
    """The state of one stream in a log. Callers only read this object.

    * `held`: the sequence numbers of all messages that the log has ever stored, removed ones included. So a message
      that retention has removed is not fetched again.
    * `durable`: the part of `held` that survives a power cut.
    * `name`: the publisher's name.
    * `last_at`: `published_at` of the newest record. `clock`: the largest hybrid logical clock.
    * `first_kept`: a message below this number is not stored any more.
    """

    name: str
    held: RangeSet = field(default_factory=RangeSet)
    durable: RangeSet = field(default_factory=RangeSet)
    last_at: float = 0.0
    clock: int = 0
    first_kept: int = 1


class Log(Protocol):
    """A log of topics at one keeper. Not thread-safe, unless the implementation says so."""

    @property
    def id(self) -> str:
        """16 hex digits, drawn when the log was made. Another id means that all positions are void."""

    @property
    def first(self) -> int:
        """The offset of the oldest message that may be stored; `end` if there is none."""

    @property
    def end(self) -> int:
        """The offset that the next message gets."""

    @property
    def durable(self) -> int:
        """Every message with an offset below this one survives a power cut."""

    @property
    def size(self) -> int:
        """Bytes that are stored."""

    @property
    def failure(self) -> str:
        """Why nothing is stored any more, "" if all is well. Reading still works."""

    def append(self, records: Sequence[Record]) -> int:
        """Store records, without the messages that are stored already; returns `end`.

        The messages are durable once `durable` has reached this number. Raises StorageError, or StorageFullError, after
        which nothing of these records is stored.
        """

    def read(
        self, topics: Topics, offset: int, size: int = READ_SIZE, before: float = inf, until: int | None = None
    ) -> Reading:
        """Return the records of some topics from `offset` on, in the order of the log.

        Only durable messages are returned, so that no position runs ahead of what a power cut leaves. It stops after
        `size` bytes of payload, at the offset `until`, or before the first record published later than `before` (Unix
        seconds). A record that begins before `offset` is cut. Once there is no more, `Reading.next` is `durable`, or
        `until`. An offset outside of the log means its next end. Raises StorageError.
        """

    def walk(self, topics: AbstractSet[str], offset: int, size: int, steps: int) -> Reading:
        """Return durable records of some topics from `offset` on, with little work: a millisecond or two.

        It stops after `size` bytes of payload, before the first record that is `steps` messages of the log away, or
        earlier. Once there is no more, `Reading.next` is `durable`. Raises StorageError.
        """

    def near(self, numbers: Mapping[Stream, int], offset: int) -> tuple[int | None, int]:
        """Look in a part of the log from `offset` on for messages that have the number of their stream, or a later one.

        Returns an offset in this part before which there is none, or None without one; and where the next part begins,
        which is `end` or more after the last part. Raises StorageError.
        """

    def offset_at(self, time: float) -> int:
        """Return the offset of the first record published at or after this time (Unix seconds), or `end`."""

    def locate(self, stream: Stream, sequence: int) -> int | None:
        """Return the offset of a message, or of the next stored message of the stream; None if there is none."""

    def first_of(self, numbers: Mapping[Stream, int]) -> int | None:
        """Return the first offset of a message that has the number of its stream or a later one; None without one."""

    def streams(self, topics: Topics) -> Iterator[tuple[Stream, StreamState]]:
        """All streams of these topics that the log knows, in no particular order. Do not append meanwhile."""

    def state(self, stream: Stream) -> StreamState | None:
        """Return the state of one stream; None for an unknown stream."""
