"""Counts of received messages per publisher and topic, with the missing ones.

A publisher numbers the messages of each topic. A jump in the numbers is a gap, and a step back is a repeated or late
message. A late joiner starts at the first number that it receives, and a restarted publisher starts again.
"""

from __future__ import annotations

import glue
from glue.cmd.output import printable, table

STREAM_LIMIT = 10_000
"""Streams that are counted: some 3 MB. Messages of further streams are shown, but not counted."""


class StreamTally:
    """The messages of a publisher on a topic, during one life."""

    __slots__ = ("first", "last", "missing", "publisher", "received", "repeated", "retained", "topic")

    def __init__(self, publisher: str, topic: str) -> None:
        self.publisher = publisher
        self.topic = topic
        self.first: int | None = None
        self.last: int | None = None
        self.received = 0
        self.missing = 0
        self.repeated = 0
        self.retained = 0

    def add(self, message: glue.Message) -> str:
        """Count a message; returns what is wrong with its number, "" if nothing."""
        if message.retained:
            self.retained += 1
            return ""
        self.received += 1
        last, self.last = self.last, message.sequence
        if last is None:
            self.first = message.sequence
            return ""
        if message.sequence <= last:
            self.repeated += 1
            return f"out of order or repeated: #{message.sequence} after #{last}"
        gap = message.sequence - last - 1
        self.missing += gap
        return f"gap: {gap} missing before #{message.sequence}" if gap else ""


class Tally:
    """All streams received so far."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, int, str], StreamTally] = {}

    def add(self, message: glue.Message) -> str:
        """Count a message; returns what is wrong with its number, "" if nothing."""
        key = (message.publisher_id, message.incarnation, message.topic)
        stream = self._streams.get(key)
        if stream is None:
            stream = StreamTally(message.publisher, message.topic)
            if len(self._streams) < STREAM_LIMIT:
                self._streams[key] = stream
        return stream.add(message)

    def received_of(self, publisher_id: str) -> int:
        """Return the number of live messages of a publisher."""
        return sum(stream.received for (who, _, _), stream in self._streams.copy().items() if who == publisher_id)

    def fields(self) -> list[dict[str, object]]:
        """Return the streams for programs."""
        return [{name: getattr(stream, name) for name in StreamTally.__slots__} for stream in self._streams.values()]

    def lines(self) -> list[str]:
        """Return the streams as a table for people."""
        if not self._streams:
            return ["nothing received"]
        rows = [["publisher", "topic", "received", "first", "last", "missing", "repeated", "retained"]]
        for stream in sorted(self._streams.values(), key=lambda stream: (stream.publisher, stream.topic)):
            first, last = ("" if number is None else str(number) for number in (stream.first, stream.last))
            counts = map(str, (stream.missing, stream.repeated, stream.retained))
            names = (printable(stream.publisher, 24), printable(stream.topic, 40))
            rows.append([*names, str(stream.received), first, last, *counts])
        return table(rows)
