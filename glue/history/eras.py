"""Digests of what a keeper has, by era: streams with a message of the last minute, of the last hour, and the others.

Two keepers compare digests instead of lists, and lists only of eras that differ. The asking keeper gives the borders,
so both divide alike. A stream counts with all durable numbers, also numbers that retention has removed: removed
messages are not fetched again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from glue.contract.hashing import blake2s
from glue.storage import Stream

HOT, WARM = 60, 3600
"""Seconds since the last message of a stream, up to which it is hot, and warm."""

Borders = tuple[int, int]
"""The earliest times of hot and of warm streams, in microseconds since 1970."""

Digests = tuple[str, str, str]
"""The digests of the hot, the warm and the cold era: 16 hex digits each."""

Hashes = dict[Stream, tuple[int, int, int, int]]
"""Hashes by stream, with what tells that a stream has changed since."""

STREAMS = 1024
"""Streams that are looked at in one step: 1 ms."""

KNOWN = 200_000
"""Streams whose hashes are remembered, at some 300 bytes: 60 MB for a keeper of so many streams; cleared when full."""


def borders(unix_time: float) -> Borders:
    """The borders of eras at a time of the wall clock."""
    return max(1, int((unix_time - HOT) * 1e6)), max(1, int((unix_time - WARM) * 1e6))


def era_of(last_at: float, limits: Borders) -> int:
    """The era of a stream with its last message at this time: 0 hot, 1 warm, 2 cold."""
    at = int(last_at * 1e6)
    return 0 if at >= limits[0] else 1 if at >= limits[1] else 2


def in_steps(streams: Iterator[tuple[Stream, Any]]) -> Iterator[list[tuple[Stream, Any]]]:
    """Yield streams with their states, `STREAMS` at a time."""
    while some := [*islice(streams, STREAMS)]:
        yield some


class EraSums:
    """The digests of streams, which are added some at a time. `looked` is how many were looked at for that."""

    def __init__(self, limits: Borders) -> None:
        self.limits = limits
        self.looked = 0
        self._sums = [0, 0, 0]

    def add(self, streams: Iterable[tuple[Stream, Any]], hashes: Hashes) -> None:
        """Add streams with their `StreamState`s; `hashes` are those of earlier digests."""
        if len(hashes) > KNOWN:
            hashes.clear()
        for stream, state in streams:
            ranges = [*state.durable]
            if ranges:
                self._sums[era_of(state.last_at, self.limits)] ^= _hash(stream, ranges, hashes)

    def add_all(
        self, streams: Iterator[tuple[Stream, Any]], wanted: Callable[[str], bool], hashes: Hashes
    ) -> Iterator[None]:
        """Add those of some topics, in small steps."""
        for some in in_steps(streams):
            self.add((one for one in some if wanted(one[0].topic)), hashes)
            self.looked += len(some)
            if len(some) == STREAMS:
                yield

    @property
    def digests(self) -> Digests:
        """The digests of all that was added, in any order."""
        hot, warm, cold = self._sums
        return f"{hot:016x}", f"{warm:016x}", f"{cold:016x}"


def _hash(stream: Stream, ranges: list[tuple[int, int]], hashes: Hashes) -> int:
    total = sum([stop - start for start, stop in ranges])
    known = hashes.get(stream)
    if known is not None and known[:3] == (len(ranges), ranges[-1][1], total):
        return known[3]
    text = f"{stream.origin}/{stream.life}/{ranges}/{stream.topic}"
    found = int.from_bytes(blake2s(text.encode(), digest_size=8).digest(), "big")
    hashes[stream] = len(ranges), ranges[-1][1], total, found
    return found
