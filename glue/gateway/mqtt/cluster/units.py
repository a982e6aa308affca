"""What a door proposes to its cluster: units of operations under guards, which take effect all or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from glue.gateway.mqtt.cluster.keys import Owner
from glue.model.state import ABSENT, Delete, Expect, Operation, Set, Update

UNIT_SIZE = 128 << 10
"""Bytes of a unit of a session that gets nothing more."""

Done = Callable[[float], None]


class Unit:
    """Operations under guards; `committed` or `refused` is called with the time, unless the door is cut off."""

    def __init__(self, guards: Sequence[Operation], operations: Sequence[Operation] = ()) -> None:
        self.guards = list(guards)
        self.added = list(operations)
        self.committed: Done | None = None
        self.refused: Done | None = None
        self.size = sum(map(_size, operations))

    def add(self, *operations: Operation) -> None:
        """Add operations."""
        self.added += operations
        self.size += sum(map(_size, operations))

    @property
    def operations(self) -> list[Operation]:
        """All operations, without the guards."""
        return self.added


class SessionUnit(Unit):
    """What happened to one session, under its owner: events of a time become one patch of each key."""

    def __init__(self, hash: str, owner: Owner) -> None:
        super().__init__([Expect(f"o/{hash}", list(owner))])
        self.hash = hash
        self.owner = owner
        self._terms: dict[str, Any] = {}
        self._filters: dict[str, Any] = {}
        self._progress: dict[str, Any] = {}

    def note(self, name: str, more: Sequence[Any]) -> None:
        """Take an event of a door's log; see `glue.gateway.mqtt.stored`."""
        self.size += 48
        match name, more:
            case "open", (expiry, *_):
                self._terms = {"expiry": expiry, "away": None}
            case "sub", (topic_filter, options, since):
                self._filters[topic_filter] = [options, since]
                self.size += len(orjson.dumps(topic_filter))
            case "unsub", (topic_filter,):
                self._filters[topic_filter] = None
                self.size += len(orjson.dumps(topic_filter))
            case "next", (offset,):
                self._move(offset)
            case "sent", (following, sent):
                self._move(following)
                for number, offset, count, options in sent:
                    self._patch("sent", {str(number + one): [offset + one, options] for one in range(count)})
                    self.size += 24 * count
            case "ack", (ranges,):
                for number, count in ranges:
                    self._patch("sent", dict.fromkeys(map(str, range(number, number + count))))
                    self.size += 12 * count
            case "rec", (number,):
                self._patch("sent", {str(number): None})
                self._patch("rel", {str(number): 1})
            case "comp", (number,):
                self._patch("rel", {str(number): None})
            case "in", (numbers,):
                self._patch("in", dict.fromkeys(map(str, numbers), 1))
            case "rel", (number,):
                self._patch("in", {str(number): None})
            case "will", (None,):  # another one comes with the claim
                self.add(Delete(f"w/{self.hash}"))

    def _move(self, offset: int) -> None:
        self._progress["next"] = max(offset, self._progress.get("next", 0))

    def _patch(self, name: str, patch: dict[str, Any]) -> None:
        self._progress.setdefault(name, {}).update(patch)

    @property
    def operations(self) -> list[Operation]:
        """All operations, without the guards."""
        patches = [("a", self._terms), ("f", self._filters), ("p", self._progress)]
        return [*(Update(f"{kind}/{self.hash}", patch) for kind, patch in patches if patch), *self.added]


def claim(hash: str, present: Owner | None, owner: Owner, will: Any) -> Unit:
    """Return a unit by which a door becomes the owner of a session; `will` is the one that it expects there."""
    return Unit(
        [Expect(f"o/{hash}", ABSENT if present is None else list(present)), Expect(f"w/{hash}", _or_absent(will))],
        [Set(f"o/{hash}", list(owner))],
    )


def guarded(hash: str, present: Owner, will: Any) -> Unit:
    """Return a unit that expects a session as it is, with its will."""
    return Unit([Expect(f"o/{hash}", list(present)), Expect(f"w/{hash}", _or_absent(will))])


def forget(hash: str) -> list[Operation]:
    """Return what ends a session."""
    return [Delete(f"{kind}/{hash}") for kind in "oafpw"]


def _or_absent(value: Any) -> Any:
    return ABSENT if value is None else value


def _size(operation: Operation) -> int:
    match operation:
        case Set(key, value) | Update(key, value):
            return len(key) + len(orjson.dumps(value)) + 8
    return 64
