"""What consensus and its surroundings say to each other: entries, snapshots, what is to be stored, what came of it.

Members are named by endpoint id. A *life* is the identity of one replica's storage: 16 hex digits drawn when the
storage is created, so that an endpoint whose storage was lost is not mistaken for the one that voted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from glue.model.consensus.configuration import Configuration


class Kind(int, Enum):
    """What an entry of the log holds."""

    COMMAND = 0
    NOTHING = 1
    CONFIGURATION = 2


@dataclass(slots=True)
class LogEntry:
    """One entry of the log. `data` is the command's bytes, nothing, or an encoded configuration."""

    index: int
    term: int
    kind: int
    data: bytes


@dataclass(slots=True)
class Snapshot:
    """The state machine's state after `index`, the term of that entry, and the configuration in force there."""

    index: int
    term: int
    configuration: Configuration
    data: bytes


class Vital(NamedTuple):
    """The small facts that a replica must never forget; stored whole whenever one of them changes.

    `group` is the group that it belongs to ("" before it is founded or found), `vote` the candidate voted for in
    `term` ("" for none). `promised`, `accepted` and `value` are those of an acceptor in the founding of a group
    (see `founding.py`): two ballots and the configuration accepted with the second.
    """

    life: str
    group: str = ""
    term: int = 0
    vote: str = ""
    promised: Ballot = (0, "")
    accepted: Ballot = (0, "")
    value: bytes = b""


Ballot = tuple[int, str]
"""A founder's ballot: a round and the founder's endpoint id."""


class Write(NamedTuple):
    """What is to be made durable, all of it or nothing.

    `entries` replace whatever the log holds from the first one's index on. With a `snapshot`, they are all that
    remains of the log, and the entry before the first of them is `base` (index and term).
    """

    number: int
    vital: Vital | None = None
    entries: Sequence[LogEntry] = ()
    snapshot: Snapshot | None = None
    base: tuple[int, int] = (0, 0)


class Stored(NamedTuple):
    """What a storage held when it was opened: `base` is index and term of the entry before the first one."""

    vital: Vital
    snapshot: Snapshot | None = None
    entries: Sequence[LogEntry] = ()
    base: tuple[int, int] = (0, 0)


class Role(Enum):
    """What a replica is at the moment."""

    FOUNDING = "founding"
    """It belongs to no group yet: it looks for one, or for enough others to found one."""
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Outcome(Enum):
    """What became of a ticket."""

    COMMITTED = "committed"
    """The command is in the log of a quorum, at `index`, and was handed over in `Output.committed`."""
    REFUSED = "refused"
    """It had no effect and will have none."""
    UNKNOWN = "unknown"
    """It may have happened, or may happen yet; who retries must make it harmless to happen twice."""
    READABLE = "readable"
    """For a read: all that was committed before it was asked for is applied now (`index` and before)."""


@dataclass(slots=True)
class Resolution:
    """The outcome of one ticket, the index it concerns (0: none), and the reason if it is not a good one."""

    ticket: int
    outcome: Outcome
    index: int = 0
    reason: str = ""


class Status(NamedTuple):
    """What a replica knows of itself and its leader ("" while it knows of none)."""

    role: Role
    term: int
    leader: str
    commit_index: int
