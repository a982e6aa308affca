"""The streams that a reader follows: bounded, and fair to those that tell of them.

A stream is *sure* once a message of it came, from its publisher or from a keeper, or once two keepers tell of it. Until
then, a single keeper tells of it, truly or not. In a full table, streams that are not sure give way first, those of the
keeper that tells of the most. Sure streams count for their publisher if they came live, else for the keeper that told
of them. Where a publisher or a keeper has more than its share, its streams give way to those of others, and the stream
that was quiet for longest first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from glue.history.stream import Key, Stream

SHARE = 8
"""The part of the table, an eighth, above which a publisher or a keeper makes room for others."""


class Streams:
    """The streams of one reader, at most `limit`."""

    __slots__ = ("_known", "_limit", "_sure", "_unsure")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[Key, Stream] = OrderedDict()  # the one that was quiet for longest first
        self._sure = Shares(limit // SHARE)
        self._unsure = Shares(limit // SHARE)

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[tuple[Key, Stream]]:
        return iter(self._known.items())

    def get(self, key: Key) -> Stream | None:
        """Return a stream; None for an unknown one."""
        return self._known.get(key)

    def told(self, key: Key, keeper: str) -> Stream | None:
        """Return a stream that a keeper tells of; None for an unknown one."""
        stream = self._known.get(key)
        if stream is not None and stream.is_unsure and stream.teller != keeper:
            self.confirm(key, stream, is_live=False)
        return stream

    def add(self, key: Key, stream: Stream) -> tuple[Key, Stream] | None:
        """Add a stream; returns the stream that gives way, perhaps the new one."""
        gone = self._giving_way(key, stream) if len(self._known) >= self._limit else None
        if gone != key:
            left = None if gone is None else (gone, self.remove(gone))
            self._known[key] = stream
            self._shares(stream).add(sender(key, stream), key)
            return left
        return key, stream

    def _giving_way(self, key: Key, stream: Stream) -> Key:
        if self._unsure:
            most = self._unsure.most()
            return key if stream.is_unsure and most in (None, stream.teller) else self._unsure.newest(most)
        if stream.is_unsure:
            return key
        most = self._sure.most()
        return next(iter(self._known)) if most is None else self._sure.quietest(most)

    def remove(self, key: Key) -> Stream:
        """Forget a stream."""
        stream = self._known.pop(key)
        self._shares(stream).remove(sender(key, stream), key)
        return stream

    def confirm(self, key: Key, stream: Stream, is_live: bool) -> None:
        """Note that messages of a stream came, or that a second keeper tells of it."""
        if key in self._known:
            self._shares(stream).remove(sender(key, stream), key)
            stream.is_unsure = False
            stream.teller = "" if is_live else stream.teller
            self._shares(stream).add(sender(key, stream), key)

    def note_live(self, key: Key, stream: Stream) -> None:
        """Note that a stream is not quiet."""
        if stream.teller:
            self.confirm(key, stream, is_live=True)
        if len(self._known) > self._limit // 2:
            self._known.move_to_end(key)
            self._sure.move_to_end(key[0], key)

    def _shares(self, stream: Stream) -> Shares:
        return self._unsure if stream.is_unsure else self._sure


def sender(key: Key, stream: Stream) -> str:
    """Return the id of the endpoint that a stream counts for."""
    return stream.teller or key[0]


class Shares:
    """Streams by the endpoint that they count for, and the endpoints that have more than their share."""

    __slots__ = ("_above", "_keys", "_share")

    def __init__(self, share: int) -> None:
        self._share = share
        self._keys: dict[str, OrderedDict[Key, None]] = {}
        self._above: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def add(self, who: str, key: Key) -> None:
        """Add a stream."""
        keys = self._keys.setdefault(who, OrderedDict())
        keys[key] = None
        if len(keys) > self._share:
            self._above.add(who)

    def remove(self, who: str, key: Key) -> None:
        """Remove a stream."""
        keys = self._keys[who]
        del keys[key]
        if len(keys) <= self._share:
            self._above.discard(who)
        if not keys:
            del self._keys[who]

    def move_to_end(self, who: str, key: Key) -> None:
        """Note that a stream is not quiet."""
        self._keys[who].move_to_end(key)

    def most(self) -> str | None:
        """The endpoint with the most streams; None if none has more than its share."""
        return max(self._above, key=lambda who: (len(self._keys[who]), who), default=None)

    def quietest(self, who: str) -> Key:
        """The stream of an endpoint that was quiet for longest."""
        return next(iter(self._keys[who]))

    def newest(self, who: str | None) -> Key:
        """The latest stream of an endpoint, or of any with None."""
        return next(reversed(self._keys[next(iter(self._keys)) if who is None else who]))
