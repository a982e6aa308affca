"""The known streams of a log: the held messages, so that none is stored twice, and the durable ones.

Bounded: a stream costs some 500 bytes. Once more than `STREAMS` are known, the streams that were silent longest are
forgotten. A message of a forgotten stream that comes again is stored again.
"""

from __future__ import annotations

from collections.abc import Iterator

from glue.contract.ranges import RangeSet
from glue.storage.log import StreamState, Topics
from glue.storage.records import Record, Stream

STREAMS = 200_000
"""Streams that are remembered: 100 MB at 500 bytes each."""


class Streams:
    """The streams of a log."""

    __slots__ = ("_fresh", "_states", "_synced", "forgotten")

    def __init__(self) -> None:
        self.forgotten = 0
        self._states: dict[Stream, StreamState] = {}  # the one that changed last is the last
        self._fresh: list[tuple[StreamState, int, int]] = []  # stored, and not yet durable
        self._synced = 0  # notes before these

    def __len__(self) -> int:
        return len(self._states)

    def state(self, stream: Stream) -> StreamState | None:
        """The known state of a stream."""
        return self._states.get(stream)

    def of(self, topics: Topics) -> Iterator[tuple[Stream, StreamState]]:
        """The streams of these topics."""
        return ((stream, state) for stream, state in [*self._states.items()] if topics(stream.topic))

    def missing(self, record: Record) -> list[Record]:
        """The parts of a record that are not held."""
        state = self._states.get(record.stream)
        if state is None or state.held.stop <= record.sequence:
            return [record]
        return [record.part(start, stop) for start, stop in state.held.gaps(record.sequence, record.stop)]

    def take(self, record: Record) -> list[Record]:
        """Note that a record is stored; returns the parts not held before, to be stored."""
        parts = self.missing(record)
        for part in parts:
            self.note(part.stream, part.name, part.sequence, part.stop, part.published_at, part.clock)
        return parts

    def note(
        self, stream: Stream, name: str, start: int, stop: int, at: float, clock: int, is_durable: bool = False
    ) -> StreamState:
        """Note messages that are stored."""
        state = self._states.pop(stream, None)
        if state is None:
            state = StreamState(name)
            if len(self._states) >= STREAMS:
                self._forget()
        self._states[stream] = state
        state.held.add(start, stop)
        state.last_at = max(state.last_at, at)
        state.clock = max(state.clock, clock)
        if is_durable:
            state.durable.add(start, stop)
        else:
            self._fresh.append((state, start, stop))
        return state

    def restore(self, stream: Stream, name: str, held: RangeSet, at: float, clock: int, first_kept: int) -> None:
        """Take over the state of a stream with durable messages."""
        durable = RangeSet()
        durable.replace([*held])
        self._states[stream] = StreamState(name, held, durable, at, clock, first_kept)

    def undo(self, noted: int) -> None:
        """Forget the notes since there were so many, of messages that could not be stored."""
        count = max(noted - self._synced, 0)
        for state, start, stop in self._fresh[count:]:
            state.held.remove(start, stop)
        del self._fresh[count:]

    def lose(self, stream: Stream, start: int, stop: int) -> None:
        """Note that messages are damaged: they are held no more."""
        state = self._states.get(stream)
        if state is not None:
            state.held.remove(start, stop)
            state.durable.remove(start, stop)

    def synced(self, noted: int | None = None) -> None:
        """All noted messages are durable, or those up to a number of notes, as `noted` counted them."""
        count = len(self._fresh) if noted is None else max(noted - self._synced, 0)
        for state, start, stop in self._fresh[:count]:
            state.durable.add(start, stop)
        del self._fresh[:count]
        self._synced += count

    @property
    def noted(self) -> int:
        """How many notes there were: a sync that begins now makes these durable, whatever other syncs end before."""
        return self._synced + len(self._fresh)

    def removed(self, stream: Stream, stop: int) -> None:
        """Note that retention has removed the messages below `stop`."""
        state = self._states.get(stream)
        if state is not None:
            state.first_kept = max(state.first_kept, stop)

    def _forget(self) -> None:
        del self._states[next(iter(self._states))]
        self.forgotten += 1
