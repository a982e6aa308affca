"""The replicated state: keys, values, sessions and locks, changed only by committed entries.

Everything here is a function of the log: the only clock is the leader's stamp in an entry. Replicas that applied the
same entries have the same `digest`, which tests compare, and make the same snapshot byte for byte.

Values are kept as JSON text: a reader cannot change them, and a snapshot needs no new encoding.
"""

from __future__ import annotations

import hashlib
from math import inf
from typing import Any

import orjson

from glue.model.state.commands import (
    AcquireLock,
    Command,
    Delete,
    Expect,
    ExpectRevision,
    MalformedEntryError,
    OpenSession,
    Operation,
    ReleaseLock,
    Set,
    Update,
    decode_entry,
)
from glue.model.state.locks import Locks
from glue.model.state.patch import merge
from glue.model.state.patterns import Pattern
from glue.model.state.results import OK, REFUSED, Result
from glue.model.state.sessions import Sessions

FORMAT = 1
"""Version of the snapshot format; others are refused."""

STATE_LIMIT = 512 << 20
"""Bytes of keys and values. Beyond this, a command that adds to them is refused, on all replicas alike."""

VALUE_LIMIT = 4 << 20
"""Bytes of a value that results from updates."""

Entry = tuple[bytes, int]
"""A value as JSON, and the log index at which it was last changed."""


class Conflict(list[Any]):
    """The values that a mergeable key was given at the same time in different places; the next `set` decides."""


class Change:
    """A change of a key's value at log index `index`; mergeable keys are in no log and have index 0.

    The past is not `live`: the state at the start of a watch, or after a gap that a snapshot bridged. The `document` is
    the value as JSON, None if the key was deleted. With `is_conflict` it is the list of values in conflict.
    """

    __slots__ = ("document", "index", "is_conflict", "key", "live")

    def __init__(
        self, key: str, document: bytes | None, index: int, live: bool = True, is_conflict: bool = False
    ) -> None:
        self.key = key
        self.document = document
        self.index = index
        self.live = live
        self.is_conflict = is_conflict

    @property
    def past(self) -> Change:
        """Return a copy of this change that is marked as not live."""
        return Change(self.key, self.document, self.index, False, self.is_conflict)

    @property
    def deleted(self) -> bool:
        """Whether the key has no value any more."""
        return self.document is None

    @property
    def value(self) -> Any:
        """A fresh copy of the value; None if the key was deleted, a `Conflict` if several values are in conflict."""
        if self.document is None:
            return None
        value = orjson.loads(self.document)
        return Conflict(value) if self.is_conflict else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Change) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        what = "deleted" if self.document is None else f"= {self.document.decode():.80}"
        return f"<Change {self.key} {what} at {self.index}>"


class Applied:
    """The effects of one entry: a result for each command in order, the changes, and the locks that became free."""

    __slots__ = ("changes", "commands", "released", "results")

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.results: list[Result] = []
        self.changes: list[Change] = []
        self.released: list[str] = []


class State:
    """One replica's copy of the state, as of log index `index` and committed time `time_ms`."""

    def __init__(self) -> None:
        self.index = 0
        self.time_ms = 0
        self.size = 0
        self.sessions = Sessions()
        self.locks = Locks()
        self._values: dict[str, Entry] = {}

    # ---------------------------------------------------------------------------------------------- reading

    def get(self, key: str) -> Entry | None:
        """Return a key's value as JSON with its revision; None if it has none."""
        return self._values.get(key)

    def match(self, pattern: Pattern) -> list[Change]:
        """Return all keys that match, with their values and revisions, in order of key."""
        if pattern.key is not None:
            entry = self._values.get(pattern.key)
            return [] if entry is None else [Change(pattern.key, *entry)]
        prefix, matches = pattern.prefix, pattern.matches
        found = [key for key in self._values if key.startswith(prefix) and matches(key)]
        return [Change(key, *self._values[key]) for key in sorted(found)]

    def __len__(self) -> int:
        return len(self._values)

    @property
    def next_expiry(self) -> float:
        """The committed time (ms) at which a lease or session ends; 0 if one waits for a stamp to begin."""
        return min(self.locks.next_expiry, self.sessions.next_expiry)

    @property
    def digest(self) -> str:
        """A hash of the whole state, equal on replicas that applied the same entries."""
        return hashlib.blake2s(self.snapshot()).hexdigest()

    # --------------------------------------------------------------------------------------------- applying

    def apply(self, index: int, entry: bytes) -> Applied:
        """Apply the committed entry at this log index. An empty entry (a new leader's) changes nothing.

        Never raises for the content: a malformed entry is malformed on every replica, and has no effect.
        """
        applied = Applied()
        self.index = index
        if not entry:
            return applied
        try:
            time_ms, applied.commands = decode_entry(entry)
        except MalformedEntryError:
            return applied
        if time_ms:
            self.time_ms = max(self.time_ms, time_ms)
            self.sessions.stamp(self.time_ms)
            applied.released += self.locks.stamp(self.time_ms)
        for command in applied.commands:
            applied.results.append(self._command(command, applied))
        return applied

    def _command(self, command: Command, applied: Applied) -> Result:
        if not command.session:
            return self._transaction(command, applied)
        known = self.sessions.known(command.session, command.serial, command.answered)
        if known is not None:
            return known
        result = self._transaction(command, applied)
        self.sessions.remember(command.session, command.serial, result)
        return result

    def _transaction(self, command: Command, applied: Applied) -> Result:
        """Do all operations or none: values change aside, and are put in place once no operation was refused."""
        changed: dict[str, bytes | None] = {}
        for operation in command.operations:
            refusal = self._try(operation, changed)
            if refusal:
                return Result(REFUSED, self.index, refusal)
        grown = sum(self._growth(key, document) for key, document in changed.items())
        if grown > 0 and self.size + grown > STATE_LIMIT:
            return Result(REFUSED, self.index, f"the state is full: {STATE_LIMIT} bytes")
        self.size += grown
        for key, document in changed.items():
            self._put(key, document, applied)
        index = self.index
        for operation in command.operations:
            index = self._coordinate(operation, applied) or index
        return Result(OK, index)

    def _try(self, operation: Operation, changed: dict[str, bytes | None]) -> str:
        """Try one operation on top of the changes so far; returns why it is refused, or ""."""
        match operation:
            case Set(key, value):
                changed[key] = orjson.dumps(value)
            case Delete(key):
                changed[key] = None
            case Update(key, patch):
                return self._try_update(key, patch, changed)
            case Expect(key):
                now = self._document(key, changed)
                wanted = None if operation.absent else orjson.dumps(operation.value, option=orjson.OPT_SORT_KEYS)
                if wanted != (now if now is None else canonical(now)):
                    return f"{key!r} has another value" if now is not None else f"{key!r} has no value"
            case ExpectRevision(key, revision):
                found = self._values.get(key)
                actual = 0 if found is None else found[1]
                if actual != revision:
                    return f"{key!r} is at revision {actual}"
            case AcquireLock(name, owner):
                return self.locks.refusal(name, owner)
        return ""

    def _try_update(self, key: str, patch: Any, changed: dict[str, bytes | None]) -> str:
        now = self._document(key, changed)
        try:
            document = orjson.dumps(merge(None if now is None else orjson.loads(now), patch))
        except (TypeError, ValueError):
            return f"the update of {key!r} leads to a value nested too deep"
        if len(document) > VALUE_LIMIT:
            return f"the update of {key!r} leads to a value of {len(document)} bytes; at most {VALUE_LIMIT}"
        changed[key] = document
        return ""

    def _document(self, key: str, changed: dict[str, bytes | None]) -> bytes | None:
        if key in changed:
            return changed[key]
        found = self._values.get(key)
        return None if found is None else found[0]

    def _growth(self, key: str, document: bytes | None) -> int:
        found = self._values.get(key)
        before = 0 if found is None else len(key) + len(found[0])
        return (0 if document is None else len(key) + len(document)) - before

    def _put(self, key: str, document: bytes | None, applied: Applied) -> None:
        if document is not None:
            self._values[key] = (document, self.index)
        elif self._values.pop(key, None) is None:
            return
        applied.changes.append(Change(key, document, self.index))

    def _coordinate(self, operation: Operation, applied: Applied) -> int:
        """Carry out a lock or session operation; returns the number for the client, or 0."""
        match operation:
            case AcquireLock(name, owner, lease_ms):
                return self.locks.take(name, owner, self.index, lease_ms)
            case ReleaseLock(name, owner):
                if self.locks.release(name, owner):
                    applied.released.append(name)
            case OpenSession(nonce):
                return self.sessions.open(nonce)
        return 0

    # -------------------------------------------------------------------------------------------- snapshots

    def snapshot(self) -> bytes:
        """Encode the whole state as one JSON document, the same bytes on every replica."""
        values = [[key, index, orjson.Fragment(document)] for key, (document, index) in sorted(self._values.items())]
        return orjson.dumps(
            {
                "format": FORMAT,
                "index": self.index,
                "time": self.time_ms,
                "session": self.sessions.last_number,
                "sessions": self.sessions.as_list(),
                "expiry": None if self.locks.next_expiry == inf else self.locks.next_expiry,
                "locks": self.locks.as_list(),
                "values": values,
            }
        )

    @classmethod
    def restore(cls, snapshot: bytes) -> State:
        """Return the state in a snapshot. Raises MalformedEntryError for bytes that are no snapshot."""
        state = cls()
        try:
            document = orjson.loads(snapshot)
            if document["format"] != FORMAT:
                raise MalformedEntryError(f"snapshot of format {document['format']!r:.80}; expected {FORMAT}")
            state.index, state.time_ms = document["index"], document["time"]
            if type(state.index) is not int or type(state.time_ms) is not int or type(document["session"]) is not int:
                raise TypeError("numbers expected")
            state.sessions.load(document["session"], document["sessions"])
            state.locks.load(document["expiry"], document["locks"])
            state._values = {key: (orjson.dumps(value), index) for key, index, value in document["values"]}
            state.size = sum(len(key) + len(value) for key, (value, _) in state._values.items())
        except (ValueError, TypeError, KeyError) as error:
            raise MalformedEntryError(f"not a snapshot: {error!r:.200}") from None
        return state


def canonical(document: bytes) -> bytes:
    """Return a JSON document with sorted object keys, for comparison."""
    if document[:1] not in b"{[":
        return document
    return orjson.dumps(orjson.loads(document), option=orjson.OPT_SORT_KEYS)
