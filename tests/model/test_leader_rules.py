"""What a leader refuses, when it hands over, and when it looks for its majority: on both sides of each bound."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import pytest

from glue.model.consensus import Outcome, Role
from glue.model.consensus import leader as module
from glue.model.consensus.log import ENTRY_OVERHEAD
from glue.model.consensus.messages import Append, Appended, Forward, Forwarded, TimeoutNow
from tests.model.member import GROUP, SETTINGS, Member, configuration, life


def led(voters: str = "abc", learners: str = "", **settings: Any) -> Member:
    """A leader of which all voters have all."""
    member = Member("a", voters=voters, learners=learners, settings=dataclasses.replace(SETTINGS, **settings))
    member.lead(*voters[1 : len(voters) // 2 + 1])
    member.get(*[member.acknowledge(peer, member.last[0]) for peer in voters[1:]])
    assert member.commit_index == member.last[0]
    return member


def endings(member: Member) -> list[tuple[int, Outcome, str]]:
    found = [(one.ticket, one.outcome, one.reason) for one in member.resolved]
    member.resolved.clear()
    return found


def asked_to_stand(said: list[tuple[str | None, Any]]) -> list[str | None]:
    return [to for to, message in said if isinstance(message, TimeoutNow)]


def test_a_leader_hands_over_once_the_next_has_all_and_asks_with_each_heartbeat() -> None:
    member = led()
    member.propose()
    member.get()
    ticket = member.replica.transfer(member.now, "b")
    assert asked_to_stand(member.addressed()) == []
    refused = member.propose()
    member.get(("c", Forward(GROUP, life("c"), member.term, (1,), (b"x",))))
    ((_, outcome, reason),) = endings(member)
    assert (outcome, reason) == (Outcome.REFUSED, "the leadership is being handed over")
    assert refused != ticket
    assert asked_to_stand(member.addressed(member.acknowledge("c", 3))) == []
    assert asked_to_stand(member.addressed(member.acknowledge("b", 3))) == ["b"]
    assert asked_to_stand(member.addressed(member.acknowledge("b", 3))) == []
    assert [outcome for _, outcome, _ in endings(member)] == [Outcome.COMMITTED]
    began = member.now
    asked: list[float] = []
    while not (ended := endings(member)):
        member.now = member.replica.deadline
        asked += [round(member.now - began, 6)] * len(asked_to_stand(member.addressed()))
        member.get(member.acknowledge("b", 3), member.acknowledge("c", 3))
    assert ended == [(ticket, Outcome.REFUSED, "the other one did not take over in time")]
    assert member.now - began == pytest.approx(SETTINGS.election_timeout)
    assert len(asked) in (4, 5)
    again = member.replica.transfer(member.now, "b")
    assert asked_to_stand(member.addressed()) == ["b"]
    assert endings(member) == []
    assert again != ticket


@pytest.mark.parametrize("peer", ["a", "d", "z"])
def test_a_leader_hands_over_to_another_voter_alone(peer: str) -> None:
    member = led(learners="d")
    ticket = member.replica.transfer(member.now, peer)
    member.get()
    words = "that is no other voter, or a transfer is under way"
    assert endings(member) == [(ticket, Outcome.REFUSED, words)]
    first, second = member.replica.transfer(member.now, "b"), member.replica.transfer(member.now, "c")
    assert asked_to_stand(member.addressed()) == ["b"]
    assert endings(member) == [(second, Outcome.REFUSED, words)]
    assert first != second


def test_what_is_not_committed_is_bounded_to_the_byte_and_given_free() -> None:
    overhead = ENTRY_OVERHEAD
    member = led(uncommitted_limit=2 * overhead + 300)
    first = [member.propose(bytes(100)), member.propose(bytes(201 + overhead)), member.propose(bytes(200))]
    member.get()
    assert endings(member) == [
        (first[1], Outcome.REFUSED, "too much is not committed yet: the followers do not keep up")
    ]
    assert member.replica.statistics["commands refused, too many uncommitted"] == 1
    index = member.last[0]
    member.get(member.acknowledge("b", index))
    assert [outcome for _, outcome, _ in endings(member)] == [Outcome.COMMITTED] * 2
    member.propose(bytes(2 * overhead + 300))
    member.get()
    assert (endings(member), member.last[0]) == ([], index + 1)


def test_forwarded_commands_are_placed_together_or_refused_together() -> None:
    member = led(uncommitted_limit=1000)

    def told(message: Forward) -> list[Any]:
        found = [one for one in member.get(("c", message)) if isinstance(one, Forwarded)]
        return [(one.tickets, one.indices, one.is_read, one.refusal) for one in found]

    last = member.last[0]
    assert told(Forward(GROUP, life("c"), member.term, (7, 8, 9), (b"x", None, b"y"))) == [
        ((7, 9), (last + 1, last + 2), False, "")
    ]
    assert told(Forward(GROUP, life("c"), member.term, (7, 8, 9), (b"x", None, b"y"))) == []
    assert member.replica.statistics["forwarded commands again"] == 1
    assert member.last[0] == last + 2
    full = told(Forward(GROUP, life("c"), member.term, (17, 18), (bytes(600), bytes(600))))
    assert full == [((17, 18), (0, 0), False, "too much is not committed yet: the followers do not keep up")]
    assert member.last[0] == last + 2


@pytest.mark.parametrize(
    ("voters", "removed", "answering", "is_removed"),
    [
        ("abc", "c", "b", True), ("abc", "b", "b", False), ("abc", "b", "bc", True), ("abcd", "d", "bc", True),
        ("abcd", "b", "bd", True), ("abcde", "b", "bc", False), ("abcde", "e", "bc", True),
    ],
)  # fmt: skip
def test_a_member_is_removed_if_the_others_that_answer_are_a_majority(
    voters: str, removed: str, answering: str, is_removed: bool
) -> None:
    member = led(voters)
    member.wait(0.9)
    member.get(*[member.acknowledge(peer, 2) for peer in answering])
    member.wait(0.1)  # the others have not answered for a second
    ticket = member.replica.remove(member.now, removed)
    member.get()
    if not is_removed:
        assert endings(member) == [(ticket, Outcome.REFUSED, "too few of the others answer")]
        assert member.replica.configuration == configuration(voters)
        return
    assert (endings(member), member.replica.configuration) == ([], configuration(voters.replace(removed, "")))
    member.get(*[member.acknowledge(peer, 3) for peer in answering])
    if {*answering} != {removed}:
        assert endings(member) == [(ticket, Outcome.COMMITTED, "")]


def test_who_is_no_member_is_not_removed_and_who_follows_is_admitted() -> None:
    member = led()
    tickets = [
        member.replica.remove(member.now, "z"), member.replica.admit(member.now, "b"),
        member.replica.admit(member.now, "d"),
    ]  # fmt: skip
    member.get()
    assert endings(member) == [
        (tickets[0], Outcome.REFUSED, "that is no member"),
        (tickets[1], Outcome.REFUSED, "b is a member already, or does not follow"),
        (tickets[2], Outcome.REFUSED, "d is a member already, or does not follow"),
    ]
    member.get(member.acknowledge("d", 2))
    ticket = member.replica.admit(member.now, "d")
    member.get()
    assert (endings(member), member.replica.configuration) == ([], configuration("abc", "d"))
    member.get(member.acknowledge("b", 3))
    assert endings(member) == [(ticket, Outcome.COMMITTED, "")]


def test_a_leader_steps_down_an_election_timeout_after_the_last_answers_of_a_majority() -> None:
    for voters, answering, is_leader in (("abc", "b", True), ("abcde", "b", False), ("abcde", "bd", True)):
        member = led(voters)
        began = member.now
        for _ in range(12):
            member.wait(0.25)
            if member.role is Role.LEADER:
                member.get(*[member.acknowledge(peer, 2) for peer in answering])
        assert (member.role is Role.LEADER) == is_leader, voters
        assert member.replica.statistics["stepped down without a majority"] == 1 - is_leader
        assert member.now - began == pytest.approx(3.0)
    member = led()
    began = member.now
    while member.role is Role.LEADER:
        member.now = member.replica.deadline
        member.get()
    assert 1.0 <= member.now - began <= 1.0 + SETTINGS.heartbeat


def test_so_many_observers_are_served_and_those_that_fall_silent_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.OBSERVERS == 256
    monkeypatch.setattr(module, "OBSERVERS", 1)
    member = led()
    progress = member.replica._core.actor._progress  # type: ignore[attr-defined]
    for peer in ("x", "y", "z"):
        member.get(member.acknowledge(peer, 2))
    assert {*progress} == {"b", "c", "x", "y"}  # one in place of the leader itself
    counted = "followers refused, too many"
    assert member.replica.statistics[counted] == 1
    assert member.replica.statistics["acknowledgements that do not count"] == 1
    began = member.now
    while member.now < began + 9.9:
        member.wait(0.1)
        member.get(member.acknowledge("b", 2), member.acknowledge("y", 2))
    assert {*progress} == {"b", "c", "x", "y"}
    for _ in range(6):
        member.wait(0.1)
        member.get(member.acknowledge("b", 2), member.acknowledge("y", 2))
    assert {*progress} == {"b", "c", "y"}  # c is a voter


def test_acknowledgements_of_what_was_never_sent_do_not_count() -> None:
    member = led()
    counted = "acknowledgements that do not count"
    member.propose()
    member.get()
    round = member.round
    for index, echoed, is_counted in ((4, round, False), (3, round + 1, False), (3, round, True)):
        before = member.replica.statistics[counted]
        member.get(("b", Appended(GROUP, life("b"), member.term, echoed, True, index, 0, 0)))
        assert (member.commit_index == 3) == is_counted
        assert member.replica.statistics[counted] - before == 1 - is_counted


def test_heartbeats_come_one_interval_after_the_latest_append() -> None:
    member = led()
    began = member.now
    sent: list[float] = []
    while member.now < began + 1.0:
        member.now = member.replica.deadline
        sent += [round(member.now - began, 6) for one in member.get() if isinstance(one, Append)]
        member.get(member.acknowledge("b", 2), member.acknowledge("c", 2))
    intervals = [round(later - earlier, 6) for earlier, later in pairwise(sent)]
    assert set(intervals) == {SETTINGS.heartbeat}
    member.wait(0.15)
    member.propose()
    member.get()
    at = member.now
    member.now = min(member.replica.deadline, at + 1.0)
    while not [one for one in member.get() if isinstance(one, Append)]:
        member.now = member.replica.deadline
    assert member.now - at == pytest.approx(SETTINGS.heartbeat)


def test_reads_that_wait_at_a_leader_end_with_its_office_here_and_at_the_followers() -> None:
    member = led()
    ticket = member.replica.read(member.now)
    member.get(("c", Forward(GROUP, life("c"), member.term, (7,), (None,))))
    assert endings(member) == [], "a majority has to confirm the leader first"
    said = member.addressed(member.append("b", member.term + 1, member.last))
    assert endings(member) == [(ticket, Outcome.REFUSED, module.DEPOSED)]
    (told,) = [(to, one.tickets, one.refusal) for to, one in said if isinstance(one, Forwarded)]
    assert told == ("c", (7,), module.DEPOSED)
