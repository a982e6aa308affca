"""The messages of consensus: plain values, never changed once made, each with the sender's group, life and term.

Who sent a message is known from the envelope that carried it. All of them may be lost, repeated, reordered and
delayed at will. `Append` goes to all followers by one multicast, or to one that lags; every answer goes to one.
The forms on the wire are in `wire.py`. Names and rules follow the Raft thesis (Ongaro 2014); of what differs the
docstrings tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from glue.model.consensus.items import Ballot, LogEntry


@dataclass(slots=True)
class RequestVote:
    """A candidate asks for a vote in `term`; `pre`: whether it would get it, which changes nothing (thesis 9.6).

    `last_index` and `last_term` are those of its last durable entry. `transfer` says that the leader itself asked
    it to stand, so that a voter that hears the leader answers all the same.
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
    """The answer: for a granted one `term` is the one that was asked for, otherwise the voter's own."""

    group: str
    life: str
    term: int
    pre: bool
    granted: bool


@dataclass(slots=True)
class Append:
    """Entries that follow the one at `previous_index`; a heartbeat if there are none.

    `commit_index` is the leader's. `round` counts the leader's heartbeats and is echoed, so that the leader knows
    what was answered after a read was asked for (thesis 6.4).
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
    """The answer: `matches` and the log is the leader's up to `index` and durable so far; or it is not.

    If not, `index` is the largest at which it could match, `index_term` the term of the entry there, and `refused`
    the `previous_index` that did not.
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
    """A piece of a snapshot, from byte `offset` of `size`; what it is of as in `items.Snapshot`."""

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
    """The answer: of the snapshot of `index` the bytes before `offset` are there."""

    group: str
    life: str
    term: int
    round: int
    index: int
    offset: int


@dataclass(slots=True)
class TimeoutNow:
    """The leader asks a follower that has all it has to stand for election at once (thesis 3.10)."""

    group: str
    life: str
    term: int


@dataclass(slots=True)
class Forward:
    """A follower hands commands to the leader of `term`, each under a ticket of its own; None asks to read."""

    group: str
    life: str
    term: int
    tickets: tuple[int, ...]
    commands: tuple[bytes | None, ...]


@dataclass(slots=True)
class Forwarded:
    """The leader's answer: the commands of these tickets were appended at `indices`, with the term of the answer.

    Or a read may be served once its index is committed. With a `refusal` (a reason) nothing was appended, and
    nothing will be.
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
    """Somebody without a group is there, and would be one of `seats` voters (0: an observer)."""

    scope: str
    life: str
    seats: int


@dataclass(slots=True)
class Welcome:
    """The group exists; `value` is the encoded configuration with which it was founded.

    The answer of a member to an `Offer`, and what the founder tells all.
    """

    scope: str
    life: str
    value: bytes


@dataclass(slots=True)
class Prepare:
    """Phase 1a of the founding: will you heed no lower ballot than this?"""

    scope: str
    life: str
    ballot: Ballot


@dataclass(slots=True)
class Promise:
    """Phase 1b: yes; and this is what was accepted, in which ballot. For a refusal `ballot` is a higher one."""

    scope: str
    life: str
    ballot: Ballot
    accepted: Ballot
    value: bytes


@dataclass(slots=True)
class Propose:
    """Phase 2a: let these be the voters (an encoded configuration)."""

    scope: str
    life: str
    ballot: Ballot
    value: bytes


@dataclass(slots=True)
class Accepted:
    """Phase 2b: so be it."""

    scope: str
    life: str
    ballot: Ballot


FoundingMessage = Offer | Welcome | Prepare | Promise | Propose | Accepted
GroupMessage = (
    RequestVote | Vote | Append | Appended | InstallSnapshot | SnapshotReceived | TimeoutNow | Forward | Forwarded
)
Message = GroupMessage | FoundingMessage


def is_heartbeat(message: Message) -> bool:
    """Whether it is a heartbeat, or the answer to one: at rest it may get lost, as the next one comes soon."""
    return isinstance(message, Appended) or (isinstance(message, Append) and not message.entries)
