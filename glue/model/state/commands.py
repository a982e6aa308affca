"""Commands: what a client asks of the state machine, and how a batch of them becomes one log entry.

A command is a transaction of one or more operations. They take effect all or not at all, in the session of a client,
under a serial number. The log holds deltas: an update is stored as a patch, never as the resulting value.

    entry      [time in ms, [command, ...]]      time 0 unless the leader proposes the entry itself
    command    [session, serial, answered, [operation, ...]]      every serial up to `answered` has its answer
    operation  ["=", key, value]   ["-", key]   ["~", key, patch]
               ["?", key]          ["?", key, value]              expected: no value; this value
               ["@", key, revision]                               expected: this revision (0: no value)
               ["L", name, owner, lease in ms]   ["U", name, owner]   ["S", nonce]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from glue.errors import ModelError
from glue.model.state.patterns import check_key

COMMAND_OPERATIONS = 1024
"""Operations in one transaction at most."""

VALUE_LIMIT = 1 << 20
"""Bytes of JSON in a value, a patch or an expected value: an entry stays far below the limit of one message."""

COMMAND_LIMIT = 15 << 20
"""Bytes of one transaction as JSON. A leader refuses what exceeds the 16 MB that it holds uncommitted, so a larger one
would be tried in vain until its deadline."""

LEASE_LIMIT_MS = 86_400_000
"""The longest lease of a lock: a day. A lock for longer is better a key."""

COUNTER_LIMIT = 1 << 53
"""Limit of serials, sessions and times: every JSON library reads smaller integers exactly."""


class MalformedEntryError(ValueError):
    """Raised for bytes that are no entry or command. A receiver of such bytes counts and drops them."""


@dataclass(frozen=True, slots=True)
class Set:
    """Give a key this value."""

    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a key and its value. A missing key is ignored."""

    key: str


@dataclass(frozen=True, slots=True)
class Update:
    """Apply a JSON Merge Patch (RFC 7396) to a key's value; a missing key starts as an empty object."""

    key: str
    patch: Any


ABSENT = object()
"""Stands for no value at all; None is the JSON value null."""


@dataclass(frozen=True, slots=True)
class Expect:
    """Continue only if the key has this value, or has none if `value` is `ABSENT`."""

    key: str
    value: Any = ABSENT

    @property
    def absent(self) -> bool:
        """Whether no value is expected."""
        return self.value is ABSENT


@dataclass(frozen=True, slots=True)
class ExpectRevision:
    """Continue only if the key was last changed at this log index before the transaction; 0: if it had no value."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class AcquireLock:
    """Take a lock, or renew it as its owner, for this many milliseconds of committed time."""

    name: str
    owner: str
    lease_ms: int


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    """Release a lock. A free lock, and one of another owner, are left alone."""

    name: str
    owner: str


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Open a session; returns the present one of this nonce, if there is one."""

    nonce: str


Operation = Set | Delete | Update | Expect | ExpectRevision | AcquireLock | ReleaseLock | OpenSession


class Command:
    """Operations of one client, applied once however often they are proposed. Session 0 means no session."""

    __slots__ = ("answered", "operations", "serial", "session")

    def __init__(self, session: int, serial: int, answered: int, operations: list[Operation]) -> None:
        self.session = session
        self.serial = serial
        self.answered = answered
        self.operations = operations


# --------------------------------------------------------------------------------------------- encoding


def encode_command(command: Command) -> bytes:
    """Encode a command as JSON. Raises ModelError for what cannot be logged.

    An entry with one command that cannot be decoded has no effect, also of the other commands in it.
    """
    if not 1 <= len(command.operations) <= COMMAND_OPERATIONS:
        raise ModelError(f"{len(command.operations)} operations; expected 1 to {COMMAND_OPERATIONS}")
    operations = [_written(operation) for operation in command.operations]
    encoded = orjson.dumps([command.session, command.serial, command.answered, operations])
    if len(encoded) > COMMAND_LIMIT and not command.session:  # a session has checked it before it numbered it
        raise ModelError(f"a transaction of {len(encoded)} bytes; at most {COMMAND_LIMIT}: divide it")
    return encoded


def encode_entry(time_ms: int, commands: list[bytes]) -> bytes:
    """Build a log entry of encoded commands, with the leader's committed time (ms), or 0."""
    return b"[%d,[%b]]" % (time_ms, b",".join(commands))


def _written(operation: Operation) -> list[Any]:
    match operation:
        case Set(key, value):
            return ["=", check_key(key), _json(value, key)]
        case Delete(key):
            return ["-", check_key(key)]
        case Update(key, patch):
            return ["~", check_key(key), _json(patch, key)]
        case Expect(key):
            return ["?", check_key(key)] if operation.absent else ["?", check_key(key), _json(operation.value, key)]
        case ExpectRevision(key, revision):
            if revision.__class__ is not int or not 0 <= revision < COUNTER_LIMIT:
                raise ModelError(f"the revision of key {key!r:.80}: {revision!r:.80}; expected a whole number from 0")
            return ["@", check_key(key), revision]
        case AcquireLock(name, owner, lease_ms):
            if not 0 < lease_ms <= LEASE_LIMIT_MS:
                raise ModelError(f"lock {name!r:.80}: a lease of {lease_ms} ms; expected 1 to {LEASE_LIMIT_MS}")
            return ["L", check_key(name, "lock"), owner, lease_ms]
        case ReleaseLock(name, owner):
            return ["U", check_key(name, "lock"), owner]
        case OpenSession(nonce):
            return ["S", nonce]
    raise ModelError(f"{operation!r:.80} is no operation; expected Set, Delete, Update, Expect or ExpectRevision")


def _json(value: Any, key: str) -> orjson.Fragment:
    try:
        document = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the value for key {key!r:.80}: {error}; a value is a JSON value") from None
    if len(document) > VALUE_LIMIT:
        raise ModelError(f"the value for key {key!r:.80}: {len(document)} bytes; at most {VALUE_LIMIT}")
    return orjson.Fragment(document)


# --------------------------------------------------------------------------------------------- decoding


def decode_entry(entry: bytes) -> tuple[int, list[Command]]:
    """Decode an entry's time (ms) and commands. Raises MalformedEntryError."""
    document = _document(entry)
    match document:
        case [int(time_ms), [*commands]] if 0 <= time_ms < COUNTER_LIMIT:
            return time_ms, [_command(command) for command in commands]
    raise MalformedEntryError("not an entry")


def decode_command(command: bytes) -> Command:
    """Decode one command. Raises MalformedEntryError."""
    return _command(_document(command))


def _document(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except ValueError:
        raise MalformedEntryError("not JSON") from None


def _command(document: Any) -> Command:
    match document:
        case [int(session), int(serial), int(answered), [_, *_] as operations] if (
            min(session, serial, answered) >= 0
            and max(session, serial, answered) < COUNTER_LIMIT
            and len(operations) <= COMMAND_OPERATIONS
        ):
            return Command(session, serial, answered, [_operation(operation) for operation in operations])
    raise MalformedEntryError("not a command")


def _operation(document: Any) -> Operation:
    try:
        match document:
            case ["=", key, value]:
                return Set(check_key(key), _checked(value))
            case ["~", key, patch]:
                return Update(check_key(key), _checked(patch))
            case ["-", key]:
                return Delete(check_key(key))
            case ["?", key]:
                return Expect(check_key(key))
            case ["?", key, value]:
                return Expect(check_key(key), _checked(value))
            case ["@", key, int(revision)]:
                return ExpectRevision(check_key(key), revision)
            case ["L", name, str(owner), int(lease)] if 0 < lease <= LEASE_LIMIT_MS and 0 < len(owner) <= 128:
                return AcquireLock(check_key(name), owner, lease)
            case ["U", name, str(owner)]:
                return ReleaseLock(check_key(name), owner)
            case ["S", str(nonce)] if 0 < len(nonce) <= 128:
                return OpenSession(nonce)
    except (ModelError, TypeError, ValueError):
        pass
    raise MalformedEntryError("not an operation")


def _checked(value: Any) -> Any:
    """Return the value, if it can be encoded again: nested at most 254 deep, which also bounds the work of a merge."""
    if isinstance(value, (dict, list)) and len(orjson.dumps(value)) > VALUE_LIMIT:
        raise ValueError
    return value
