"""What an application asks of a model, and the answers it gets: how each call is said to have ended.

A write is `Committed`, `Refused` or `Unknown`, and nothing in between: what may have happened is never called a
failure. A read is `Found` or `Refused`, since asking again does no harm.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glue.model.state import Change, Operation


@dataclass(slots=True)
class Write:
    """Operations to be committed together; `patient`: wait for a lock that somebody else holds."""

    operations: Sequence[Operation]
    patient: bool = False


@dataclass(slots=True)
class Read:
    """All keys that match a pattern, as of a moment between question and answer."""

    pattern: str


@dataclass(slots=True)
class WatchPattern:
    """Tell `token` (as `Delivery` of `Change`) what matches the pattern now, and every change from now on."""

    token: Hashable
    pattern: str


@dataclass(slots=True)
class Unwatch:
    """Stop that."""

    token: Hashable


@dataclass(slots=True)
class Transfer:
    """Hand the leadership to the endpoint of this id."""

    peer: str


@dataclass(slots=True)
class Remove:
    """Take the endpoint of this id out of the group, with its vote."""

    peer: str


@dataclass(slots=True)
class Synchronize:
    """Wait until another replica has of the mergeable keys what this one has, and the other way round."""


Question = Write | Read | WatchPattern | Unwatch | Transfer | Remove | Synchronize


@dataclass(frozen=True, slots=True)
class Committed:
    """It happened once, at this log index; of a lock `index` is the fencing token.

    `since`: when it was first tried (monotonic seconds), before which it cannot have happened.
    """

    index: int
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Refused:
    """It did not happen and never will. `unreachable`: for want of a majority, rather than by its own conditions."""

    reason: str
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have happened, or happen yet."""

    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a read found, by key."""

    entries: list[Change]


Ending = Committed | Refused | Unknown | Found
