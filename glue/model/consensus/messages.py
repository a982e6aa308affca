"""The messages of consensus: plain values that never change, each with the sender's group, life and term.

The delivery of a message tells its sender. Messages may be lost, repeated, reordered and delayed. An `Append` goes to
all followers by one multicast, or to a single follower that lags. Every answer goes to one replica. The module `wire`
has the forms on the wire. Names and rules follow the Raft thesis (Ongaro 2014); the docstrings tell what differs.
"""

from __future__ import annotations

from dataclasses import dataclass

from glue.model.consensus.items import Ballot, LogEntry


@dataclass(slots=True)
class RequestVote:
    """A candidate's request for a vote in `term`.

    A `pre` request asks whether the vote would be granted, and changes nothing (thesis 9.6). The candidate's last entry
    has `last_index` and `last_term`. With `transfer` the leader asked for the election: voters answer even if they
    follow it.
    """

    group: str
    life: str
    term: int
    pre: bool
    transfer: bool
    last_index: int
    last_term: int


@dataclass(slots=True)
class Vote:
    """The answer to a `RequestVote`. `term` is the requested one if the vote is granted, else the voter's own."""

    group: str
    life: str
    term: int
    pre: bool
    granted: bool


@dataclass(slots=True)
class Append:
    """Entries that follow the one at `previous_index`; a heartbeat if there are none.

    `commit_index` is the leader's. `round` counts the leader's multicasts. Answers echo it, which tells the leader what
    was answered after a read was asked for (thesis 6.4).
    """

    group: str
    life: str
    term: int
    round: int
    previous_index: int
    previous_term: int
    commit_index: int
    entries: tuple[LogEntry, ...]


@dataclass(slots=True)
class Appended:
    """The answer to an `Append`. If `matches`, the log is durable and equal to the leader's up to `index`.

    Otherwise `index` is the largest at which the logs may agree, `index_term` is the term of the entry there, and
    `refused` is the `previous_index` of the append.
    """

    group: str
    life: str
    term: int
    round: int
    matches: bool
    index: int
    index_term: int
    refused: int


@dataclass(slots=True)
class InstallSnapshot:
    """A piece of a snapshot, from byte `offset` of `size`; the other fields are those of `items.Snapshot`."""

    group: str
    life: str
    term: int
    round: int
    index: int
    index_term: int
    configuration: bytes
    size: int
    offset: int
    data: bytes


@dataclass(slots=True)
class SnapshotReceived:
    """The answer to an `InstallSnapshot`: the first `offset` bytes of the snapshot at `index` have arrived."""

    group: str
    life: str
    term: int
    round: int
    index: int
    offset: int


@dataclass(slots=True)
class TimeoutNow:
    """The leader's request to a follower with a complete log to stand for election at once (thesis 3.10)."""

    group: str
    life: str
    term: int


@dataclass(slots=True)
class Forward:
    """Commands that a follower hands to the leader of `term`, each under its ticket; None asks for a read."""

    group: str
    life: str
    term: int
    tickets: tuple[int, ...]
    commands: tuple[bytes | None, ...]


@dataclass(slots=True)
class Forwarded:
    """The leader's answer to a `Forward`: the commands of these tickets were appended at `indices`, in `term`.

    With `is_read`, reads may be served once their indices are committed. With a `refusal` (a reason), nothing was
    appended and nothing will be.
    """

    group: str
    life: str
    term: int
    tickets: tuple[int, ...]
    indices: tuple[int, ...]
    is_read: bool
    refusal: str


@dataclass(slots=True)
class Offer:
    """The offer of a replica without a group to be one of `seats` voters; 0 for an observer."""

    scope: str
    life: str
    seats: int


@dataclass(slots=True)
class Welcome:
    """The news that a group exists, with the encoded configuration at its founding as `value`.

    A member answers an `Offer` with it, and the founder sends it to all.
    """

    scope: str
    life: str
    value: bytes


@dataclass(slots=True)
class Prepare:
    """Phase 1a of a founding: asks for a promise to ignore lower ballots."""

    scope: str
    life: str
    ballot: Ballot


@dataclass(slots=True)
class Promise:
    """Phase 1b: the promise, with the accepted value and its ballot. A refusal has a higher `ballot`."""

    scope: str
    life: str
    ballot: Ballot
    accepted: Ballot
    value: bytes


@dataclass(slots=True)
class Propose:
    """Phase 2a: proposes the voters (an encoded configuration)."""

    scope: str
    life: str
    ballot: Ballot
    value: bytes


@dataclass(slots=True)
class Accepted:
    """Phase 2b: the acceptance of a `Propose`."""

    scope: str
    life: str
    ballot: Ballot


FoundingMessage = Offer | Welcome | Prepare | Promise | Propose | Accepted
GroupMessage = (
    RequestVote | Vote | Append | Appended | InstallSnapshot | SnapshotReceived | TimeoutNow | Forward | Forwarded
)
Message = GroupMessage | FoundingMessage


def is_heartbeat(message: Message) -> bool:
    """Whether a message is a heartbeat or the answer to one, which may be lost because another follows soon."""
    return isinstance(message, Appended) or (isinstance(message, Append) and not message.entries)
