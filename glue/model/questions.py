"""The questions of an application to a model, and the endings of its calls.

A write ends as `Committed`, `Refused` or `Unknown`: an effect that is possible is never reported as a failure. A read
ends as `Found` or `Refused`, because repeating a read is harmless.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glue.model.state import Change, Operation


@dataclass(slots=True)
class Write:
    """Commit these operations together. A `patient` write waits for a lock that another session holds."""

    operations: Sequence[Operation]
    patient: bool = False


@dataclass(slots=True)
class Read:
    """Read all keys that match a pattern, as of a moment between question and answer."""

    pattern: str


@dataclass(slots=True)
class WatchPattern:
    """Send `token` what matches the pattern now, and every later change, as a `Delivery` of `Change` objects."""

    token: Hashable
    pattern: str


@dataclass(slots=True)
class Unwatch:
    """End the watch of this token."""

    token: Hashable


@dataclass(slots=True)
class Transfer:
    """Hand the leadership to the endpoint of this id."""

    peer: str


@dataclass(slots=True)
class Remove:
    """Remove the endpoint of this id, and its vote, from the group."""

    peer: str


@dataclass(slots=True)
class Synchronize:
    """Wait until this replica and another one have the same mergeable keys."""


Question = Write | Read | WatchPattern | Unwatch | Transfer | Remove | Synchronize


@dataclass(frozen=True, slots=True)
class Committed:
    """The write took effect once, at this log index. The index of a lock is its fencing token.

    `since` is the time of the first try (monotonic seconds): the write took effect no earlier.
    """

    index: int
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Refused:
    """The call has no effect, now or later.

    `unreachable` is true if a majority was missing, `forbidden` if the rules do not allow it.
    """

    reason: str
    unreachable: bool = False
    forbidden: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The write may have taken effect, or may still do so."""

    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """The entries that a read found, by key."""

    entries: list[Change]


Ending = Committed | Refused | Unknown | Found
