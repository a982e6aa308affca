"""All mergeable keys of one model at one replica: takes local writes and merges the writes of others.

A *delta* is a piece of state: events, and the context of all writes that it covers. The merge rule is that of whole
states (Almeida et al., 2018). An event stays if both sides have it, or if the other side has not seen the write.
Therefore deltas may come late, twice or in any order. A deletion leaves only a number in the context, and the numbers
of one life join to a single interval (after Bieniusa et al., "An Optimized Conflict-free Replicated Set", 2012).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from glue.errors import ModelError
from glue.model.mergeable.clock import HybridClock
from glue.model.mergeable.context import Context, Dot
from glue.model.mergeable.prefixes import Prefixes
from glue.model.mergeable.values import NOTHING, Reading, Register, Value
from glue.model.state import Operation, Pattern
from glue.model.storage.memory import LIFE_BITS

SIZE_LIMIT = 32 << 20
"""Bytes beyond which local writes are refused. The whole state must fit into one message of at most 256 MB."""

MERGED_LIMIT = 4 * SIZE_LIMIT
"""Bytes beyond which merging is refused: parts of a divided network may each have filled up before."""

EVENT_COST = 200
"""Bytes that an event costs besides its content, as measured for a counter in CPython."""

CONTEXT_LIMIT = 16_384
"""Intervals of the context, one for each life that ever wrote: 0.5 MB in a digest."""

AHEAD = "events merged of a clock that is far ahead"


class Delta:
    """A piece of state: a `context` of writes, and their live events by key.

    Further live events are named in `kept`: the receiver has their contents already.
    """

    __slots__ = ("context", "events", "kept")

    def __init__(self, context: Context, events: dict[str, list[tuple[Dot, Any]]], kept: Context | None = None) -> None:
        self.context = context
        self.events = events
        self.kept = Context() if kept is None else kept


class Store:
    """The mergeable keys of one life of a replica.

    The `mark` is a hash of the dots of all live events, and `version` counts changes. If `is_watched` is false, `write`
    and `merge` do not report former readings.
    """

    def __init__(self, prefixes: Prefixes, life: str, statistics: Counter[str]) -> None:
        self.prefixes = prefixes
        self.life = life
        self.statistics = statistics
        self.context = Context()
        self.clock = HybridClock()
        self.size = 0
        self.mark = 0
        self.version = 0
        self.is_watched = False
        self._values: dict[str, Value] = {}
        self._live: dict[str, dict[int, str]] = {}  # keys of live events, by life and number

    # ---------------------------------------------------------------------------------------------- reading

    def __len__(self) -> int:
        return len(self._values)

    def reading(self, key: str) -> Reading:
        """Return the value of a key."""
        value = self._values.get(key)
        return NOTHING if value is None else value.reading

    def match(self, pattern: Pattern) -> list[tuple[str, Reading]]:
        """Return all keys that match, with their values, in order of key."""
        if pattern.key is not None:
            found = self._values.get(pattern.key)
            return [] if found is None else [(pattern.key, found.reading)]
        return [(key, self._values[key].reading) for key in sorted(self._values) if pattern.matches(key)]

    def conflicts(self, pattern: Pattern) -> dict[str, list[bytes]]:
        """Return the matching keys with several concurrent values; the value that reads give comes first."""
        return {
            key: several
            for key, value in sorted(self._values.items())
            if pattern.matches(key) and (several := value.conflict)
        }

    # ---------------------------------------------------------------------------------------------- writing

    def write(self, wall_ms: int, operations: Sequence[Operation]) -> tuple[Context, dict[str, Reading]]:
        """Do all of these operations, or none; returns the touched dots, and the former readings by key.

        Raises ModelError for operations that a key's kind does not have, or if there is no more room.
        """
        stamp = self.clock.stamp(wall_ms)
        effects = {}
        for operation in operations:
            key = getattr(operation, "key", "")
            kind = self.prefixes.kind(key)
            if kind is None or key in effects:
                raise ModelError(f"{key!r:.80}: a transaction of mergeable keys has each key once, and no others")
            value = self._values.get(key) or kind()
            effects[key] = value.effect(operation, self.life, stamp)
        if any(contents for _, contents in effects.values()) and self.size >= SIZE_LIMIT:
            raise ModelError(f"the mergeable keys take {SIZE_LIMIT} bytes already; delete some")
        touched, before = Context(), dict[str, Reading]()
        for key, (superseded, contents) in effects.items():
            self._note(key, before)
            for dot in superseded:
                self._drop(key, dot)
                touched.add(dot)
            for content in contents:
                dot = (self.life, self.context.last(self.life) + 1)
                self.context.add(dot)
                self._put(key, dot, content)
                touched.add(dot)
        return touched, before

    def renew(self, life: str) -> Context:
        """Continue in another life, and move the live events of the present one to it; returns the touched dots.

        Replicas that were told of later writes of the former life would never take these, and may have dropped earlier
        ones. The events have new dots and their old contents and stamps, so every replica takes them.
        """
        former, self.life = self.life, life
        touched = Context()
        for number, key in sorted(self._live.get(former, {}).items()):
            dot = (former, number)
            content = self._values[key].events[dot]
            self._drop(key, dot)
            renewed = (life, self.context.last(life) + 1)
            self.context.add(renewed)
            self._put(key, renewed, content)
            touched.add(dot)
            touched.add(renewed)
        return touched

    # ---------------------------------------------------------------------------------------------- merging

    def merge(self, delta: Delta, wall_ms: int) -> dict[str, Reading] | None:
        """Merge a delta; returns the former readings of changed keys, or None if the delta was refused and counted."""
        dots = [dot for events in delta.events.values() for dot, _ in events]
        refusal = self._refusal(delta, dots)
        if refusal:
            self.statistics[refusal] += 1
            return None
        before: dict[str, Reading] = {}
        living = set(dots)
        for life, start, stop in delta.context.intervals():
            for number in self._living_between(life, start, stop):
                dot = (life, number)
                if dot not in living and dot not in delta.kept:
                    key = self._live[life][number]
                    self._note(key, before)
                    self._drop(key, dot)
        for key, events in delta.events.items():
            for dot, content in events:
                if dot not in self.context:
                    self._note(key, before)
                    self._put(key, dot, content)
                    self._follow(key, content, wall_ms)
        if not delta.context <= self.context:
            self.context.update(delta.context)
            self.version += 1
        return before

    def _note(self, key: str, before: dict[str, Reading]) -> None:
        if self.is_watched and key not in before:
            before[key] = self.reading(key)

    def _refusal(self, delta: Delta, dots: Sequence[Dot]) -> str:
        """Return why a delta is refused; "" if it is not."""
        if delta.context.last(self.life) > self.context.last(self.life):
            return "deltas refused: writes of ours that we never made"
        if not delta.kept <= self.context:
            return "deltas refused: meant for another life"
        if self._joined_size(delta.context) > CONTEXT_LIMIT:
            return "deltas refused: too many lives"
        if self.size > MERGED_LIMIT and delta.events:
            return "deltas refused: no room"
        if any(dot not in delta.context for dot in dots) or len(dots) != len(set(dots)):
            return "deltas refused: events beyond their context, or twice"
        return ""

    def _joined_size(self, other: Context) -> int:
        """Return the number of intervals of both contexts joined, or an upper bound that is within the limit."""
        most = self.context.size + other.size
        if most <= CONTEXT_LIMIT or other <= self.context:
            return min(most, CONTEXT_LIMIT)
        joined = self.context.copy()
        joined.update(other)
        return joined.size

    def _living_between(self, life: str, start: int, stop: int) -> Iterable[int]:
        """Return the numbers of live events in an interval, by the shorter of two ways."""
        live = self._live.get(life)
        if not live:
            return ()
        if stop - start < len(live):
            return [number for number in range(start, stop) if number in live]
        return [number for number in live if start <= number < stop]

    def _follow(self, key: str, content: Any, wall_ms: int) -> None:
        if self.prefixes.kind(key) is Register and not self.clock.follow(content[0], wall_ms):
            self.statistics[AHEAD] += 1

    def _put(self, key: str, dot: Dot, content: Any) -> None:
        value = self._values.get(key)
        if value is None:
            kind = self.prefixes.kind(key)
            assert kind is not None, "decoding has looked"
            value = self._values[key] = kind()
            self.size += EVENT_COST + len(key)
        value.put(dot, content)
        self._live.setdefault(dot[0], {})[dot[1]] = key
        self.size += EVENT_COST + value.weight(content)
        self.mark ^= hashed(dot)
        self.version += 1

    def _drop(self, key: str, dot: Dot) -> None:
        value, (life, number) = self._values[key], dot
        self.size -= EVENT_COST + value.weight(value.drop(dot))
        if not value.events:
            del self._values[key]
            self.size -= EVENT_COST + len(key)
        del self._live[life][number]
        if not self._live[life]:
            del self._live[life]
        self.mark ^= hashed(dot)
        self.version += 1

    # ----------------------------------------------------------------------------------------------- deltas

    def whole(self) -> Delta:
        """Return the whole state as one delta."""
        return self.since(Context())

    def delta(self, touched: Context) -> Delta:
        """Return a delta with the present state of these dots."""
        events: dict[str, list[tuple[Dot, Any]]] = {}
        for life, start, stop in touched.intervals():
            for number in self._living_between(life, start, stop):
                self._add_event((life, number), events)
        return Delta(touched, events)

    def since(self, context: Context) -> Delta:
        """Return the delta that a replica with this context needs to reach the state of this one."""
        events: dict[str, list[tuple[Dot, Any]]] = {}
        kept = Context()
        for life, live in self._live.items():
            for number in sorted(live):
                if (life, number) in context:
                    kept.add((life, number))
                else:
                    self._add_event((life, number), events)
        return Delta(self.context.copy(), events, kept)

    def _add_event(self, dot: Dot, events: dict[str, list[tuple[Dot, Any]]]) -> None:
        key = self._live[dot[0]][dot[1]]
        events.setdefault(key, []).append((dot, self._values[key].events[dot]))

    def is_like(self, context: Context, mark: int) -> bool:
        """Whether a replica with this context and this mark has the same state."""
        return mark == self.mark and context == self.context


def hashed(dot: Dot) -> int:
    """Hash a dot, the same in every process. The mark is the exclusive or of these hashes."""
    return int.from_bytes(hashlib.blake2s(b"%b %d" % (dot[0].encode(), dot[1]), digest_size=LIFE_BITS // 8).digest())
