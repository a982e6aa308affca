"""What consensus and its surroundings say to each other: entries, snapshots, what is to be stored, what came of it.

The driver of a `Replica` hands in messages and the time and gets an `Output`, which it obeys in this order:

1. send `messages` (they depend on nothing that is not yet stored);
2. restore the state machine from `restore`, if there is one, then apply `committed` in order;
3. settle the tickets in `resolved` (whatever they tell is applied by then);
4. `storage.write(write)` and `storage.sync()`, then `replica.synced(now, write.number)`, whose own Output holds what
   had to wait for the disk. Several writes may share one sync: reporting a number reports all before it.

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
    from glue.model.consensus.messages import Message


class Kind(int, Enum):
    """What an entry of the log holds."""

    COMMAND = 0
    NOTHING = 1
    CONFIGURATION = 2


@dataclass(slots=True)
class Entry:
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
    entries: Sequence[Entry] = ()
    snapshot: Snapshot | None = None
    base: tuple[int, int] = (0, 0)


class Stored(NamedTuple):
    """What a storage held when it was opened: `base` is index and term of the entry before the first one."""

    vital: Vital
    snapshot: Snapshot | None = None
    entries: Sequence[Entry] = ()
    base: tuple[int, int] = (0, 0)


class Role(Enum):
    """What a replica is at the moment."""

    FOUNDING = "founding"
    """It belongs to no group yet: it looks for one, or for enough others to found one."""
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Fate(Enum):
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
class Outcome:
    """The fate of one ticket, the index it concerns (0: none), and the reason if it is not a good one."""

    ticket: int
    fate: Fate
    index: int = 0
    reason: str = ""


class Status(NamedTuple):
    """What a replica knows of itself and its leader ("" while it knows of none)."""

    role: Role
    term: int
    leader: str
    commit_index: int


class Output:
    """What one call of a `Replica` asks for; see the module for the order in which it is obeyed.

    - `messages`: (receiver's endpoint id, message); None as receiver means all that follow this group: one
      multicast, of which each receiver takes what concerns it.
    - `write`: what must become durable, or None.
    - `restore`: a snapshot that the state machine must take on before `committed`, or None.
    - `committed`: the commands committed now, each exactly once in a life of the replica and in order of index;
      indices have holes where entries carry no command. After a restart they begin again after the snapshot that
      storage held.
    - `resolved`: outcomes of tickets.
    - `status`: the new status if role, term or leader changed, or None.
    - `wants_snapshot`: the log has grown so long that the driver should call `Replica.take_snapshot` with what the
      state machine is after `committed` was applied.
    """

    __slots__ = ("committed", "messages", "resolved", "restore", "status", "wants_snapshot", "write")

    def __init__(self) -> None:
        self.messages: list[tuple[str | None, Message]] = []
        self.write: Write | None = None
        self.restore: Snapshot | None = None
        self.committed: list[Entry] = []
        self.resolved: list[Outcome] = []
        self.status: Status | None = None
        self.wants_snapshot = False
