"""What a door knows of its cluster: the committed sessions, messages, wills and doors, built from changes in order.

All doors see the same changes in the same order, so that all have the same view sooner or later. What a door decides
from an old view is refused by the model, as it expects another owner.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from glue.gateway.mqtt.cluster.keys import (
    Entry,
    Owner,
    Progress,
    check_text,
    check_will,
    mark,
    offset_of,
    read_entry,
    read_owner,
    read_progress,
    read_terms,
)
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.stored import read_run_value
from glue.gateway.mqtt.subscriptions import shared_parts
from glue.gateway.mqtt.timers import Timers
from glue.model.state import Change
from glue.topics.index import Index


class Moved(NamedTuple):
    """A session has another owner."""

    hash: str
    before: Owner | None
    after: Owner | None


class Committed(NamedTuple):
    """A batch of a door is committed."""

    door: int
    number: int


class Kept(NamedTuple):
    """A retained message is the newest of its topic; an empty payload clears it."""

    run: Publish


Event = Moved | Committed | Kept | Entry


class Replica:
    """The view of one door. `wall_clock` is Unix time."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self.owners: dict[str, Owner] = {}
        self.terms: dict[str, dict[str, float]] = {}
        self.wills: dict[str, dict[str, Any]] = {}
        self.doors: dict[int, str] = {}
        self.batches: dict[int, int] = {}
        self.retained: dict[str, str] = {}
        self.overdue: dict[str, bytes] = {}
        """Retained messages whose lifetime is over, as `expire` found it: their values as JSON, by hash."""
        self.patterns: dict[str, int] = {}
        """How many subscriptions use each topic filter."""
        self.messages = self.bytes = 0
        """Of all runs in the log."""
        self.end = 0
        self.statistics: Counter[str] = Counter()
        """Counters by cause; those of a door are its broker's."""
        self._wall_clock = wall_clock
        self._filters: dict[str, dict[str, Any]] = {}
        self._index: Index[str] = Index()
        self._progress: dict[str, bytes | Progress] = {}
        self._entries: dict[int, Entry] = {}
        self._offsets: list[int] = []  # of entries, also of some that are gone
        self._by_key: dict[str, int] = {}
        self._lifetimes = Timers()  # of retained messages, by hash

    # ----------------------------------------------------------------------------------------- sessions

    def filters(self, hash: str) -> dict[str, Any]:
        """Options and first offset of a session's subscriptions, by topic filter."""
        return self._filters.get(hash, {})

    def progress(self, hash: str) -> Progress:
        """What of a session was sent."""
        found = self._progress.get(hash, b"null")
        if isinstance(found, bytes):
            try:
                found = read_progress(orjson.loads(found))
            except (ValueError, TypeError, KeyError, IndexError, AttributeError):
                self.statistics["malformed changes of the cluster"] += 1
                found = read_progress(None)
            self._progress[hash] = found
        return found

    def wanting(self, topic: str) -> tuple[str, ...]:
        """The sessions with a subscription of QoS 1 or 2 that matches a topic; shared ones do not count."""
        return self._index.match(topic)

    # ----------------------------------------------------------------------------------------- messages

    def __iter__(self) -> Iterator[Entry]:
        """The runs in the log, in order."""
        entries = self._entries
        return (entries[offset] for offset in self._offsets if offset in entries)

    def read(self, offset: int, size: int) -> tuple[list[Entry], int]:
        """The runs from an offset on, some `size` bytes of them, and the offset to go on from."""
        offsets, found = self._offsets, []
        place = bisect_left(offsets, offset)
        if place and (before := self._entries.get(offsets[place - 1])) is not None and before.end > offset:
            found.append(_rest(before, offset))
        for at in offsets[place:]:
            if (entry := self._entries.get(at)) is not None:
                if size <= 0:
                    return found, at
                found.append(entry)
                size -= entry.run.size
        return found, self.end

    # ------------------------------------------------------------------------------------------ changes

    def apply(self, now: float, changes: Sequence[Change]) -> Iterator[Event]:
        """Take committed changes, all of an index at once; yields what follows, in an order that all doors share.

        The view is the one after all changes that come before an event. Changes of the past are one step: they tell
        the outcome alone, so that a message may have a smaller index than a subscription that is older.
        """
        for _, group in groupby(changes, key=lambda change: change.index if change.live else -1):
            entries: list[Entry] = []
            batches: list[Committed] = []
            index = 0
            for change in group:
                index = max(index, change.index)
                try:
                    yield from self._take(now, change, entries, batches)
                except (ValueError, TypeError, KeyError, IndexError, AttributeError):
                    self.statistics["malformed changes of the cluster"] += 1
            self.end = max(self.end, offset_of(index + 1, 0, 0))
            for entry in sorted(entries, key=lambda entry: entry.run.offset):
                self._add(entry)
                yield entry
            yield from batches

    def _take(self, now: float, change: Change, entries: list[Entry], batches: list[Committed]) -> Iterable[Event]:
        kind, _, rest = change.key.partition("/")
        if kind == "p":
            self._set(self._progress, rest, change.document)
            return ()
        value = change.value
        if kind == "m":
            if value is None:
                self._remove(change.key)
            else:
                entries.append(read_entry(value, change.key, change.index, now - self._wall_clock()))
        elif kind == "b":
            self.batches[int(rest)] = int(value)
            batches.append(Committed(int(rest), int(value)))
        elif kind == "o":
            before, after = self.owners.get(rest), None if value is None else read_owner(value)
            self._set(self.owners, rest, after)
            return (Moved(rest, before, after),)
        elif kind == "f":
            self._subscribe(rest, value or {})
        elif kind == "a":
            self._set(self.terms, rest, None if value is None else read_terms(value))
        elif kind == "w":
            if value is not None:
                check_will(value)
            self._set(self.wills, rest, value)
        elif kind == "d":
            self._set(self.doors, int(rest), value if value is None else check_text(value))
        elif kind == "r":
            return self._retain(now, rest, change)
        return ()

    @staticmethod
    def _set(table: dict[Any, Any], key: Any, value: Any) -> None:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def _subscribe(self, hash: str, after: dict[str, Any]) -> None:
        after = {name: [int(options), int(since)] for name, (options, since) in after.items()}
        before = self._filters.get(hash, {})
        for name in sorted(before.keys() ^ after.keys()):
            pattern = shared_parts(name)[1]
            count = self.patterns.get(pattern, 0) + (1 if name in after else -1)
            self._set(self.patterns, pattern, count or None)
        were, are = _stored(before), _stored(after)
        for pattern in sorted(were - are):
            self._index.remove(pattern, hash)
        for pattern in sorted(are - were):
            self._index.add(pattern, hash)
        self._set(self._filters, hash, after or None)

    def _retain(self, now: float, hash: str, change: Change) -> Iterable[Event]:
        self.overdue.pop(hash, None)
        self._lifetimes.call_off(hash)
        document = change.document
        if document is None:
            topic = self.retained.pop(hash, None)
            return () if topic is None else (Kept(Publish(topic, (b"",), 0, True)),)
        run = read_run_value(change.value, now - self._wall_clock())
        self.retained[mark(run.topic)] = run.topic
        if run.expires < float("inf"):
            self._lifetimes.at(run.expires, lambda now: self.overdue.update({hash: document}), hash)
        return (Kept(run),)

    def _add(self, entry: Entry) -> None:
        offset = entry.run.offset
        entry.wanted = (mark(entry.to),) if entry.to else self.wanting(entry.run.topic)
        self._entries[offset] = entry
        self._offsets.append(offset)
        self._by_key[entry.key] = offset
        self.messages += entry.run.count
        self.bytes += entry.run.size

    def _remove(self, key: str) -> None:
        offset = self._by_key.pop(key, None)
        if offset is None:
            return
        entry = self._entries.pop(offset)
        self.messages -= entry.run.count
        self.bytes -= entry.run.size
        if len(self._offsets) > 64 + 2 * len(self._entries):
            self._offsets = [offset for offset in self._offsets if offset in self._entries]

    # ---------------------------------------------------------------------------------------- clearing

    def expire(self, now: float) -> None:
        """Find the retained messages whose lifetime is over."""
        self._lifetimes.advance(now)

    def is_done(self, now: float, entry: Entry) -> bool:
        """Whether no session needs a run any more."""
        if entry.run.expires <= now:
            return True
        wanting = entry.wanted if entry.to else self.wanting(entry.run.topic)
        return not any(
            hash in self.owners and hash in wanting and self.progress(hash).floor < entry.end for hash in entry.wanted
        )


def _stored(filters: dict[str, Any]) -> set[str]:
    """The topic filters whose messages are kept for a session."""
    return {name for name, (options, _) in filters.items() if options & 3 and not shared_parts(name)[0]}


def _rest(entry: Entry, offset: int) -> Entry:
    """The messages of a run from an offset on."""
    run = entry.run.part(offset - entry.run.offset, entry.run.count)
    return Entry(run, entry.sender, entry.to, entry.identifiers)
