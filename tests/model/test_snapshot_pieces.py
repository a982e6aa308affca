"""Snapshots that come in pieces: which pieces belong together, and what becomes of the commands that they contain."""

from __future__ import annotations

from glue.model.consensus import Outcome
from glue.model.consensus.messages import Forwarded, InstallSnapshot, SnapshotReceived
from tests.model.member import GROUP, VALUE, Member, life


def test_pieces_of_one_snapshot_are_never_joined_to_those_of_another() -> None:
    member = Member("a", [2, 2])
    member.get(member.append("b", 2, (12, 2), commit=12))

    def piece(index: int, offset: int, data: bytes) -> list[int]:
        message = InstallSnapshot(GROUP, life("b"), 2, 1, index, 2, VALUE, 4, offset, data)
        return [one.offset for one in member.get(("b", message)) if isinstance(one, SnapshotReceived)]

    assert piece(9, 0, b"ol") == [2]
    assert (piece(12, 0, b"ne"), piece(12, 2, b"w!")) == ([2], [4])  # the leader has made another one meanwhile
    assert [(snapshot.index, snapshot.data) for snapshot in member.restored] == [(12, b"new!")]


def test_a_snapshot_goes_on_where_its_pieces_end_though_some_come_twice_or_too_early() -> None:
    member = Member("a", [2, 2])
    member.get(member.append("b", 2, (9, 2), commit=9))
    told = []
    for offset, data in ((0, b"ab"), (4, b"ef"), (0, b"ab"), (2, b"cd"), (2, b"cd"), (4, b"ef"), (4, b"ef")):
        message = InstallSnapshot(GROUP, life("b"), 2, 1, 9, 2, VALUE, 6, offset, data)
        told += [one.offset for one in member.get(("b", message)) if isinstance(one, SnapshotReceived)]
    assert told == [2, 2, 2, 4, 4, 6, 6]
    assert [snapshot.data for snapshot in member.restored] == [b"abcdef"]


def test_a_command_whose_entry_came_with_a_snapshot_is_told_as_unknown_at_once() -> None:
    member = Member("a", [2])
    member.get(member.append("b", 2, (2, 2), commit=2))
    ticket = member.propose()
    member.get()
    member.get(("b", Forwarded(GROUP, life("b"), 2, (ticket,), (5,), False, "")))
    member.get(member.append("b", 2, (9, 2), commit=9), member.piece("b", 2, 9, 2))
    assert [(one.ticket, one.outcome) for one in member.resolved] == [(ticket, Outcome.UNKNOWN)]
