"""Single messages in a member's name, with numbers that cannot be: refused, counted, and nothing of them is stored."""

from __future__ import annotations

import pytest

from glue.model.consensus import Kind, LogEntry, Role, Stored, Vital
from glue.model.consensus.agreement import PRESENT
from glue.model.consensus.bounds import (
    BALLOT_JUMP,
    BALLOT_TOO_FAR,
    DOUBTED,
    INDEX_TOO_FAR,
    TERM_JUMP,
    TERM_TOO_FAR,
    Doubts,
)
from glue.model.consensus.messages import (
    Append,
    Appended,
    Forward,
    Forwarded,
    InstallSnapshot,
    Message,
    Prepare,
    Promise,
    Propose,
    RequestVote,
    SnapshotReceived,
    TimeoutNow,
    Vote,
    Welcome,
)
from glue.model.consensus.wire import MalformedMessageError, decode, encode
from glue.simulation.consensus import run_seed
from tests.model.member import GROUP, SCOPE, SETTINGS, VALUE, Member, configuration, life

HUGE = (1 << 62) - 1
HEAD = (GROUP, life("b"), HUGE)
FOUNDER = Stored(Vital(life("a")))

OF_TERMS = [
    Append(*HEAD, 1, 0, 0, 0, ()),
    Append(*HEAD, 1, 1, 1, 2, (LogEntry(2, HUGE, Kind.COMMAND, b"x"),)),
    Appended(*HEAD, 1, False, 0, 0, 0),
    RequestVote(*HEAD, False, True, HUGE, 1),
    RequestVote(*HEAD, True, False, 1, 1),
    Vote(*HEAD, False, False),
    InstallSnapshot(*HEAD, 1, 5, 1, VALUE, 1, 0, b"x"),
    SnapshotReceived(*HEAD, 1, 5, 1),
    TimeoutNow(*HEAD),
    Forward(*HEAD, (1,), (b"x",)),
    Forwarded(*HEAD, (1,), (5,), False, ""),
]
OF_INDICES = [
    Append(GROUP, life("b"), 1, HUGE, HUGE, 1, HUGE, ()),
    InstallSnapshot(GROUP, life("b"), 1, 1, HUGE, 1, VALUE, 1, 0, b"x"),
    RequestVote(GROUP, life("b"), 2, False, True, HUGE, 1),
    Forwarded(GROUP, life("b"), 1, (1,), (HUGE,), False, ""),
]


def name(message: Message) -> str:
    return type(message).__name__


@pytest.mark.parametrize("role", ["follower", "candidate", "leader"])
@pytest.mark.parametrize("message", OF_TERMS, ids=name)
def test_a_term_that_cannot_be_is_refused_by_every_role_and_not_stored(message: Message, role: str) -> None:
    member = Member("a", [1, 1])
    if role == "candidate":
        member.campaign()
    elif role == "leader":
        member.lead()
    before, writes = (member.role, member.term, member.log), len(member.writes)
    assert member.get(("b", decode(encode(message)))) == []
    assert ((member.role, member.term, member.log), len(member.writes)) == (before, writes)
    assert member.replica.statistics[TERM_TOO_FAR] == 1


@pytest.mark.parametrize("message", OF_INDICES, ids=name)
def test_an_index_that_cannot_be_is_refused_and_not_stored(message: Message) -> None:
    member = Member("a", [1, 1])
    assert member.get(("b", decode(encode(message)))) == []
    assert (member.term, member.last, member.writes) == (1, (3, 1), [])
    assert member.replica.statistics[INDEX_TOO_FAR] == 1


def test_a_member_that_was_away_for_years_follows_a_step_each_time_it_hears_so_for_half_a_timeout() -> None:
    member = Member("a", [1])
    term = 1 + 3 * TERM_JUMP
    for _ in range(30):
        member.get(member.append("b", term, (1, 1), [1]))
        member.wait(0.2)
    assert (member.term, member.replica.status.leader) == (term, "b")


def test_a_leader_is_brought_up_by_a_member_that_is_ahead_and_goes_on_answering() -> None:
    member = Member("a", [1])
    member.lead()
    ahead = "b", Appended(GROUP, life("b"), 2 + TERM_JUMP * 2, member.round, False, 0, 0, 0)
    member.get(ahead)
    member.now += 0.1
    member.get(ahead)
    assert (member.role, member.term) == (Role.LEADER, 2)
    member.now += 0.4
    member.get(ahead)
    assert (member.role, member.term) == (Role.FOLLOWER, 2 + TERM_JUMP)


def test_an_observer_whose_term_was_raised_by_a_stray_message_is_served_again() -> None:
    member = Member("a", [1])
    member.lead()
    ahead = "x", Appended(GROUP, life("x"), member.term + 7, member.round, False, 0, 0, 0)
    member.get(ahead)
    before = member.role
    member.now += 0.5
    member.get(ahead)
    assert (before, member.term) == (Role.LEADER, 9)


def test_doubts_are_bounded() -> None:
    doubts = Doubts(0.5)
    assert not any(doubts.is_repeated(0.0, f"{number}") for number in range(DOUBTED + 1))
    assert not doubts.is_repeated(0.6, "0"), "forgotten with the others"
    assert doubts.is_repeated(0.6, f"{DOUBTED}")


# -------------------------------------------------------------------------------------------------- snapshots


def test_a_snapshot_that_nobody_needs_is_not_taken() -> None:
    member = Member("a", [2, 2])
    member.get(member.append("b", 2, (3, 2), commit=3), member.piece("b", 2, 9, 2))
    assert (member.restored, member.commit_index, member.last) == ([], 3, (3, 2))
    assert member.replica.statistics["snapshots refused: nothing is known to be missing"] == 1


def test_a_snapshot_that_no_state_can_be_made_of_is_not_taken() -> None:
    member = Member("a", [2, 2], accepts=lambda data: data != b"state")
    member.get(member.append("b", 2, (9, 2), commit=9), member.piece("b", 2, 9, 2))
    assert (member.restored, member.last) == ([], (3, 2))
    assert member.replica.statistics["snapshots refused: no state that can be read"] == 1


@pytest.mark.parametrize(
    "message",
    [
        InstallSnapshot(GROUP, "l", 3, 1, 5, 4, VALUE, 1, 0, b"x"),
        InstallSnapshot(GROUP, "l", 3, 1, 5, 3, configuration("").encode(), 1, 0, b"x"),
        Append(GROUP, "l", 3, 1, 5, 4, 5, ()),
        RequestVote(GROUP, "l", 3, False, False, 5, 4),
    ],
    ids=name,
)
def test_a_message_that_contradicts_itself_is_none(message: Message) -> None:
    with pytest.raises(MalformedMessageError):
        decode(encode(message))


# ------------------------------------------------------------------------------------------------------ reads


def test_answers_to_reads_that_nobody_asked_for_are_not_kept() -> None:
    member = Member("a", [1])
    for number in range(100):
        member.get(("b", Forwarded(GROUP, life("b"), 1, (number,), (1000,), True, "")))
    assert member.replica._core.tickets._reading == []


# --------------------------------------------------------------------------------------------------- founding


def test_a_ballot_that_cannot_be_is_refused_and_not_stored() -> None:
    member = Member("a", stored=FOUNDER)
    far = (HUGE, "b")
    member.get(("b", Prepare(SCOPE, life("b"), far)), ("b", Propose(SCOPE, life("b"), far, VALUE)))
    assert (member.writes, member.replica.statistics[BALLOT_TOO_FAR]) == ([], 2)
    member.get(("b", Promise(SCOPE, life("b"), far, (0, ""), b"")))
    assert member.replica._core.actor._ballot == (BALLOT_JUMP, "")  # type: ignore[attr-defined]


def test_a_founder_that_is_ahead_is_followed_a_step_if_it_goes_on() -> None:
    member = Member("a", stored=FOUNDER)
    ballot = (2 * BALLOT_JUMP, "b")
    for _ in range(2):
        member.get(("b", Prepare(SCOPE, life("b"), ballot)))
        member.now += 0.6
    assert member.get(("b", Prepare(SCOPE, life("b"), ballot)))[-1].ballot == ballot


def test_a_lone_welcome_binds_nobody_to_a_group_that_does_not_exist() -> None:
    member = Member("a", stored=FOUNDER)
    member.get(("b", Welcome(SCOPE, life("b"), configuration("xyz").encode())))
    assert (member.role, member.writes) == (Role.FOUNDING, [])
    member.wait(PRESENT * SETTINGS.heartbeat)
    member.get(("b", Welcome(SCOPE, life("b"), configuration("xyz").encode())))
    assert member.role is Role.FOUNDING, "the first welcome was too long ago"
    for _ in range(2):
        member.get(("c", Welcome(SCOPE, life("c"), VALUE)))
    assert (member.role, member.replica._core.group) == (Role.FOLLOWER, GROUP)


# ------------------------------------------------------------------------------------------------------ swarm


@pytest.mark.parametrize("seed", range(40))
def test_a_group_under_faults_and_forged_messages_makes_progress_afterwards(seed: int) -> None:
    result = run_seed(seed, forged=True)
    assert result.violation == ""


def test_a_run_with_forged_messages_forges() -> None:
    assert sum(run_seed(7, forged=True).faults.values()) > sum(run_seed(7).faults.values())
