"""The kinds of mergeable values: counters, sets, registers, and values that show their conflicts.

Every value is a set of *events*, each the content of one write under its dot. A write removes old events, seen by its
replica, and adds new ones. Two replicas merge by keeping the events of both. If
only one replica has an event and the other replica has seen the dot, the event is dropped (the causal CRDTs of Almeida
et al., 2018). There are no tombstones: a dot that was seen and has no event was removed. Counters and sets follow
Shapiro, Preguiça, Baquero and Zawirski, "Conflict-free Replicated Data Types" (2011).

The kinds differ in what a write supersedes and in how events are read. A deletion removes only what its replica has
seen: concurrent writes of other replicas stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import orjson

from glue.errors import ModelError
from glue.model.mergeable.clock import LOGICAL_LIMIT, STAMP_LIMIT, Stamp
from glue.model.mergeable.context import Dot
from glue.model.state import Delete, Operation, Set, Update, merge
from glue.model.state.commands import VALUE_LIMIT
from glue.model.state.patterns import KEY_LIMIT

COUNTER_LIMIT = 1 << 53
"""Limit of what one life has added to a counter: every JSON library reads smaller integers exactly."""

Reading = tuple[bytes | None, bool]
"""A value as JSON (None: no value), and whether it is a list of values in conflict."""

Effect = tuple[list[Dot], list[Any]]
"""The effect of a write: the events that it supersedes, and the contents of new events."""

NOTHING: Reading = (None, False)


class BeyondError(ValueError):
    """Raised for a number beyond what honest replicas reach."""


class Value:
    """The value of one key, as a set of events: one for each write that still counts.

    Merging adds and removes events by `put` and `drop`; `effect` tells which ones a program's write adds and removes.
    """

    __slots__ = ("_reading", "events")
    name: ClassVar[str]

    def __init__(self) -> None:
        self.events: dict[Dot, Any] = {}
        self._reading: Reading | None = NOTHING

    def put(self, dot: Dot, content: Any) -> None:
        """Add an event."""
        self.events[dot] = content
        self._reading = None

    def drop(self, dot: Dot) -> Any:
        """Remove an event; returns its content."""
        self._reading = None
        return self.events.pop(dot)

    @property
    def reading(self) -> Reading:
        """The value, computed when it is first asked for."""
        if self._reading is None:
            self._reading = self._read() if self.events else NOTHING
        return self._reading

    @property
    def conflict(self) -> list[bytes]:
        """The values of concurrent writes, the value of `reading` first; empty if there is only one value."""
        return []

    def effect(self, operation: Operation, life: str, stamp: Stamp) -> Effect:
        """Return the effect of an operation. Raises ModelError if this kind does not have it."""
        match operation:
            case Delete():
                return list(self.events), []
            case Set(key, value):
                return self._set(key, value, stamp)
            case Update(key, delta):
                return self._update(key, delta, life, stamp)
        raise ModelError(f"{operation!r:.80}: a condition needs a majority, but the key is mergeable; leave it out")

    @staticmethod
    def weight(content: Any) -> int:
        """Bytes of a content, besides the cost of every event."""
        return 0

    @staticmethod
    def check(content: Any) -> Any:
        """Check and convert a content from the network. Raises ValueError or TypeError if it is malformed."""
        raise NotImplementedError

    @staticmethod
    def plain(content: Any) -> Any:
        """Convert a content for the network; the inverse of `check`."""
        return content

    def _read(self) -> Reading:
        raise NotImplementedError

    def _set(self, key: str, value: Any, stamp: Stamp) -> Effect:
        raise NotImplementedError

    def _update(self, key: str, delta: Any, life: str, stamp: Stamp) -> Effect:
        raise NotImplementedError


class Counter(Value):
    """A sum. Each life has one event with its total; the next addition of this life supersedes the event."""

    __slots__ = ()
    name = "counter"

    @staticmethod
    def check(content: Any) -> Any:
        if content.__class__ is not int or abs(content) >= COUNTER_LIMIT:
            raise ValueError
        return content

    def _read(self) -> Reading:
        return b"%d" % sum(self.events.values()), False

    def _set(self, key: str, value: Any, stamp: Stamp) -> Effect:
        raise ModelError(f"{key!r:.80} is a counter, which is not set but added to: update(key, 1), or add(key, 1)")

    def _update(self, key: str, delta: Any, life: str, stamp: Stamp) -> Effect:
        if delta.__class__ is not int:
            raise ModelError(f"{key!r:.80} is a counter; expected an integer to add, not {delta!r:.80}")
        own = [dot for dot in self.events if dot[0] == life]
        added = delta + sum(self.events[dot] for dot in own)
        if abs(added) >= COUNTER_LIMIT:
            raise ModelError(f"{key!r:.80}: one endpoint may add less than {COUNTER_LIMIT} in all")
        return own, [added]


class ObservedSet(Value):
    """A set of strings. An element is present while it has an event; an addition wins over a concurrent removal."""

    __slots__ = ("_dots",)
    name = "set"

    def __init__(self) -> None:
        super().__init__()
        self._dots: dict[str, set[Dot]] = {}

    def put(self, dot: Dot, content: Any) -> None:
        super().put(dot, content)
        self._dots.setdefault(content, set()).add(dot)

    def drop(self, dot: Dot) -> Any:
        element = super().drop(dot)
        self._dots[element].discard(dot)
        if not self._dots[element]:
            del self._dots[element]
        return element

    @staticmethod
    def weight(content: Any) -> int:
        return len(content)

    @staticmethod
    def check(content: Any) -> Any:
        if content.__class__ is not str or len(content.encode()) > KEY_LIMIT:
            raise ValueError
        return content

    def _read(self) -> Reading:
        return orjson.dumps(sorted(self._dots)), False

    def _set(self, key: str, value: Any, stamp: Stamp) -> Effect:
        if not isinstance(value, (list, tuple)):
            raise ModelError(f"{key!r:.80} is a set; expected a list of strings, not {value!r:.80}")
        return list(self.events), sorted(set(_elements(key, value)))

    def _update(self, key: str, delta: Any, life: str, stamp: Stamp) -> Effect:
        if not isinstance(delta, dict) or not all(change is True or change is None for change in delta.values()):
            raise ModelError(f"{key!r:.80} is a set; expected {{element: True to add it, None to remove it}}")
        elements = _elements(key, delta)
        superseded = [dot for element in elements for dot in self._dots.get(element, ())]
        return superseded, [element for element in elements if delta[element]]


def _elements(key: str, elements: Iterable[Any]) -> list[str]:
    found = list(elements)
    try:
        return [ObservedSet.check(element) for element in found]
    except ValueError:  # includes UnicodeEncodeError
        raise ModelError(f"{key!r:.80} is a set; its elements are strings of up to {KEY_LIMIT} bytes") from None


class MultiValue(Value):
    """A value that shows its conflicts: a write supersedes everything seen before, so only concurrent writes remain."""

    __slots__ = ()
    name = "multi"

    @staticmethod
    def weight(content: Any) -> int:
        return len(content)

    @staticmethod
    def check(content: Any) -> Any:
        return _document(content)

    @staticmethod
    def plain(content: Any) -> Any:
        return orjson.Fragment(content)

    def _read(self) -> Reading:
        several = self.conflict
        return (b"[%b]" % b",".join(several), True) if several else (next(iter(self.events.values())), False)

    @property
    def conflict(self) -> list[bytes]:
        """The different values, sorted; empty if all writes have the same value."""
        distinct = sorted(set(self.events.values()))
        return distinct if len(distinct) > 1 else []

    def _set(self, key: str, value: Any, stamp: Stamp) -> Effect:
        return list(self.events), [_encoded(key, value)]

    def _update(self, key: str, delta: Any, life: str, stamp: Stamp) -> Effect:
        document, is_conflict = self.reading
        if is_conflict:
            raise ModelError(f"{key!r:.80} has {len(self.conflict)} values in conflict; set the one that is to be")
        return self._set(key, merge(None if document is None else orjson.loads(document), delta), stamp)


class Register(MultiValue):
    """A value of which the last write wins, by hybrid time. `conflict` has the losers until the next write."""

    __slots__ = ()
    name = "register"

    @staticmethod
    def weight(content: Any) -> int:
        return len(content[1])

    @staticmethod
    def check(content: Any) -> Any:
        milliseconds, number, value = content
        for part, limit in ((milliseconds, STAMP_LIMIT), (number, LOGICAL_LIMIT)):
            if part.__class__ is not int or not part >= 0:
                raise ValueError
            if part >= limit:
                raise BeyondError
        return (milliseconds, number), _document(value)

    @staticmethod
    def plain(content: Any) -> Any:
        stamp, document = content
        return [*stamp, orjson.Fragment(document)]

    def _read(self) -> Reading:
        return max(self.events.items(), key=_recency)[1][1], False

    @property
    def conflict(self) -> list[bytes]:
        latest_first = sorted(self.events.items(), key=_recency, reverse=True)
        distinct = list(dict.fromkeys(document for _, (_, document) in latest_first))
        return distinct if len(distinct) > 1 else []

    def _set(self, key: str, value: Any, stamp: Stamp) -> Effect:
        return list(self.events), [(stamp, _encoded(key, value))]


def _recency(event: tuple[Dot, Any]) -> tuple[Stamp, Dot]:
    """Order events by stamp; the dot decides between equal stamps, on all replicas alike."""
    dot, (stamp, _) = event
    return stamp, dot


def _encoded(key: str, value: Any) -> bytes:
    try:
        return _document(value)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"the value for key {key!r:.80}: {error or 'too large'}; at most {VALUE_LIMIT} bytes"
        ) from None


def _document(value: Any) -> bytes:
    """Encode a value as JSON with sorted object keys, so that equal values give equal bytes."""
    options = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
    document = orjson.dumps(value, option=options)
    if len(document) > VALUE_LIMIT:
        raise ValueError(f"{len(document)} bytes")
    return document


KINDS: dict[str, type[Value]] = {kind.name: kind for kind in (Counter, ObservedSet, Register, MultiValue)}
"""The kinds by their names in programs."""
