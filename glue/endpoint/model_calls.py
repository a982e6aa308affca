"""The calls of a model: each one's question, and what its answer means.

A call ends in one of three ways. It returns: committed, and nothing acknowledged is ever lost again. It raises
RefusedError (MinorityError where the voters are out of reach): nothing was changed, for certain. Or it raises
UnknownOutcomeError: it may have happened, or may still happen.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from glue.endpoint.core import id_of
from glue.errors import ConfigurationError, ForbiddenError, MinorityError, RefusedError, UnknownOutcomeError
from glue.model.questions import (
    Committed,
    Ending,
    Found,
    Question,
    Read,
    Refused,
    Remove,
    Synchronize,
    Transfer,
    Unknown,
    WatchPattern,
    Write,
)
from glue.model.state import (
    ABSENT,
    AcquireLock,
    Change,
    Command,
    Expect,
    Operation,
    Pattern,
    ReleaseLock,
    Set,
    check_key,
    encode_command,
)

TIMEOUT = 10.0
"""Seconds that a call waits: some elections."""

GRACE = 2.0
"""Seconds that an answer may be late, on a busy machine, before the outcome is taken to be unknown."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's value with its revision (the log index of the last change) and its age.

    `age` is 0.0 for a linearizable read. For a stale read, `age` is the seconds since this endpoint last heard from
    a leader. A mergeable key has neither revision nor age: the value is this endpoint's local state.
    """

    key: str
    value: Any
    revision: int
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelCall(Generic[Result]):
    """A question to the model, and the function that makes the call's result of the answer; it may raise."""

    question: Question
    result: Callable[[Ending | None], Result]


def write(*operations: Operation, patient: bool = False) -> ModelCall[int]:
    """Commit these operations together; the result is the log index. Raises ModelError for what cannot be logged."""
    encode_command(Command(0, 0, 0, list(operations)))
    return ModelCall(Write(operations, patient), committed)


def compare_and_set(key: str, expected: Any, value: Any) -> ModelCall[int]:
    """Set a key if it has the expected value; `ABSENT` expects none."""
    return write(Expect(key) if expected is ABSENT else Expect(key, expected), Set(key, value))


def read_entry(key: str) -> ModelCall[Entry | None]:
    """Read one key."""
    return ModelCall(Read(check_key(key)), _entry)


def read_items(pattern: str) -> ModelCall[dict[str, Any]]:
    """Read the values of all keys that match a pattern."""
    return ModelCall(Read(check_pattern(pattern)), _items)


def synchronize() -> ModelCall[int]:
    """Exchange the mergeable keys with another endpoint."""
    return ModelCall(Synchronize(), committed)


def transfer(name: str) -> ModelCall[int]:
    """Hand the leadership to the endpoint of this name."""
    return ModelCall(Transfer(id_of(name)), committed)


def remove(name: str) -> ModelCall[int]:
    """Take the endpoint of this name out of the voters."""
    return ModelCall(Remove(id_of(name)), committed)


def watch(subscription: Hashable, pattern: str) -> ModelCall[int]:
    """Tell a subscription of every change of the keys that match."""
    return ModelCall(WatchPattern(subscription, pattern), committed)


def take_lock(name: str, owner: str, lease: float) -> ModelCall[tuple[int, float]]:
    """Take a lock once its holder has released it; the result is as for `locked`."""
    return ModelCall(Write([AcquireLock(name, owner, lease_ms(lease))], patient=True), locked)


def renew_lock(name: str, owner: str, lease: float) -> ModelCall[int]:
    """Renew the lease of a lock; the result is the lock's token, which is new if the lock was lost meanwhile."""
    return ModelCall(Write([AcquireLock(name, owner, lease_ms(lease))]), committed)


def release_lock(name: str, owner: str) -> ModelCall[int]:
    """Give a lock back."""
    return ModelCall(Write([ReleaseLock(name, owner)]), committed)


def check_pattern(pattern: str) -> str:
    """Return the pattern. Raises ModelError if it is malformed."""
    return Pattern(pattern).text


def lease_ms(lease: float) -> int:
    """Return a lease in the log's unit. Raises ConfigurationError."""
    if not isinstance(lease, (int, float)) or not 0.001 <= lease <= 86_400:
        raise ConfigurationError(f"lease={lease!r}: expected 0.001 to 86400 seconds")
    return int(lease * 1000)


# ------------------------------------------------------------------------------------------------ answers


def committed(ending: Ending | None) -> int:
    """Return the log index of a write. Raises RefusedError, MinorityError, ForbiddenError or UnknownOutcomeError."""
    match ending:
        case Committed(index):
            return index
        case Refused(reason, forbidden=True):
            raise ForbiddenError(reason)
        case Refused(reason, unreachable):
            raise (MinorityError if unreachable else RefusedError)(reason)
        case Found():
            return 0
    raise UnknownOutcomeError(ending.reason if isinstance(ending, Unknown) else "no answer came in time")


def locked(ending: Ending | None) -> tuple[int, float]:
    """Return the token of a lock and a time (monotonic seconds) from which others count its lease, or from later.

    That is not the time of the call, which may have waited for another holder for longer than the lease. Raises what
    `committed` raises.
    """
    return committed(ending), ending.since if isinstance(ending, Committed) else 0.0


def found(ending: Ending | None) -> list[Change]:
    """Return what a read found. Raises MinorityError or RefusedError; a read never changes anything."""
    if isinstance(ending, Found):
        return ending.entries
    if isinstance(ending, Refused):
        raise (MinorityError if ending.unreachable else RefusedError)(ending.reason)
    raise MinorityError("no answer came in time")


def _entry(ending: Ending | None) -> Entry | None:
    return next((Entry(change.key, change.value, change.index) for change in found(ending)), None)


def _items(ending: Ending | None) -> dict[str, Any]:
    return {change.key: change.value for change in found(ending)}
