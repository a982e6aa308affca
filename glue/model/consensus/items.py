"""Values that consensus exchanges with its driver: entries, snapshots, writes, outcomes and status.

Members are named by endpoint id. A *life* identifies the storage of one replica: 16 hex digits, drawn when the storage
is created. An endpoint without its old storage has a new life, so its former vote does not count twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from glue.model.consensus.configuration import Configuration


class Kind(int, Enum):
    """The content of a log entry."""

    COMMAND = 0
    NOTHING = 1
    CONFIGURATION = 2


@dataclass(slots=True)
class LogEntry:
    """One entry of the log. `data` is a command, an encoded configuration, or empty."""

    index: int
    term: int
    kind: int
    data: bytes


@dataclass(slots=True)
class Snapshot:
    """The state after the entry at `index`, with the term and the configuration in force there."""

    index: int
    term: int
    configuration: Configuration
    data: bytes


class Vital(NamedTuple):
    """The small facts that a replica must never forget, stored whole whenever one changes.

    The replica's `group` is "" before it was founded or found. In `term` the replica voted for `vote`, "" for none. The
    fields `promised`, `accepted` and `value` are those of a Paxos acceptor in a founding (see `founder.py`): two
    ballots, and the configuration accepted with the second.
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


class DurableWrite(NamedTuple):
    """The facts and entries of one write, which become durable all together or not at all.

    The `entries` replace the log from the first entry's index on. With a `snapshot` they are all that remains of the
    log. In that case `base` is index and term of the entry before them.
    """

    number: int
    vital: Vital | None = None
    entries: Sequence[LogEntry] = ()
    snapshot: Snapshot | None = None
    base: tuple[int, int] = (0, 0)


class Stored(NamedTuple):
    """The content of a storage when it was opened; `base` is index and term of the entry before the first."""

    vital: Vital
    snapshot: Snapshot | None = None
    entries: Sequence[LogEntry] = ()
    base: tuple[int, int] = (0, 0)


class Role(Enum):
    """The role of a replica."""

    FOUNDING = "founding"
    """The replica has no group yet, and looks for one or for enough others to found one."""
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Outcome(Enum):
    """The outcome of a ticket."""

    COMMITTED = "committed"
    """The command is in the logs of a majority, at `index`, and was handed over in `Output.committed`."""
    REFUSED = "refused"
    """The command or read has no effect, now or later."""
    UNKNOWN = "unknown"
    """The command may have taken effect, or may still do so: a retry must be harmless."""
    READABLE = "readable"
    """A read may be served: everything committed before it was asked for is applied now, up to `index`."""


@dataclass(slots=True)
class Resolution:
    """The outcome of one ticket, its index (0: none), and the reason of a refusal."""

    ticket: int
    outcome: Outcome
    index: int = 0
    reason: str = ""


class Status(NamedTuple):
    """The role, term, leader and commit index of a replica; `leader` is "" if none is known."""

    role: Role
    term: int
    leader: str
    commit_index: int
