"""The rows of the Raft checklist about appending, acknowledging and committing; each test has its row's number."""

from __future__ import annotations

import dataclasses

from glue.model.consensus import Kind, Outcome, Role
from glue.model.consensus.messages import (
    Appended,
    Forward,
    Forwarded,
    Vote,
)
from tests.model.member import GROUP, SETTINGS, Member, appends, life


def acknowledged(said: list[object]) -> list[tuple[bool, int]]:
    return [(answer.matches, answer.index) for answer in said if isinstance(answer, Appended)]


def test_row_02_entries_of_older_terms_are_committed_only_by_one_of_the_own() -> None:
    member = Member("a", [2])  # figure 8: an entry of term 2, not committed
    member.syncs = False
    member.stand()
    member.get(member.vote("b", 3, pre=True))
    member.sync()
    member.get(member.vote("b", 3))
    assert (member.role, member.last) == (Role.LEADER, (3, 3))
    member.get(member.acknowledge("b", 2))
    assert member.commit_index == 0  # although a majority has entry 2
    member.get(member.acknowledge("b", 3), member.acknowledge("c", 3))
    assert member.commit_index == 3


def test_row_03_a_new_leader_appends_an_entry_of_its_own_term() -> None:
    member = Member("a", [2, 2])
    member.lead()
    index, term = member.last
    assert (index, term) == (4, 3)
    assert member.replica._core.log.entries(4, 4)[0].kind == Kind.NOTHING
    member.get(member.acknowledge("b", 4))
    assert [entry.data for entry in member.committed] == [b"2.2", b"3.2"]


def test_row_05_entries_are_acknowledged_when_they_are_durable() -> None:
    member = Member("b")
    member.syncs = False
    assert acknowledged(member.get(member.append("a", 2, (1, 1), [2, 2]))) == []
    assert acknowledged(member.sync()) == [(True, 3)]


def test_row_06_a_leader_sends_at_once_and_counts_itself_when_it_has_synced() -> None:
    member = Member("a")
    member.lead_and_commit()
    member.syncs = False
    member.propose()
    assert [append.entries[0].index for _, append in appends(member.addressed())] == [3]
    member.get(member.acknowledge("b", 3))
    assert member.commit_index == 2
    member.sync()
    assert member.commit_index == 3


def test_row_06_a_lone_voter_too() -> None:
    member = Member("a", voters="a", settings=dataclasses.replace(SETTINGS, voters=1))
    member.wait(2.5)
    assert (member.role, member.commit_index) == (Role.LEADER, 2)
    member.syncs = False
    ticket = member.propose()
    member.get()
    assert member.resolved == []
    member.sync()
    assert [(resolution.ticket, resolution.outcome) for resolution in member.resolved] == [(ticket, Outcome.COMMITTED)]


def test_row_12_entries_are_taken_only_behind_the_right_one() -> None:
    member = Member("b", [2, 2, 2])
    refused = [member.append("a", 3, (9, 3), [3]), member.append("a", 3, (4, 3), [3])]
    assert acknowledged(member.get(*refused)) == [(False, 4), (False, 3)]
    assert acknowledged(member.get(member.append("a", 3, (3, 2), [3]))) == [(True, 4)]
    assert member.log == [(1, 1), (2, 2), (3, 2), (4, 3)]


def test_row_12_nor_behind_a_snapshot_of_another_term() -> None:
    member = Member("b", [2])
    member.get(member.append("a", 3, (9, 3), commit=9))
    member.get(member.piece("a", 3, 9, 3))
    assert acknowledged(member.get(member.append("a", 3, (9, 2), [3]))) == [(False, 8)]
    assert acknowledged(member.get(member.append("a", 3, (9, 3), [3]))) == [(True, 10)]


def test_row_12_what_is_committed_is_never_cut_off() -> None:
    member = Member("b", [2, 2])
    member.get(member.append("a", 2, (3, 2), commit=3))
    assert member.get(member.append("c", 9, (2, 2), [9])) == []  # nobody who was elected says so
    assert (member.log, member.replica.statistics["entries that contradict what is committed"]) == (
        [(1, 1), (2, 2), (3, 2)], 1,
    )  # fmt: skip


def test_row_12_an_older_append_that_comes_late_cuts_nothing_off() -> None:
    member = Member("b")
    first, second = member.append("a", 2, (1, 1), [2]), member.append("a", 2, (2, 2), [2, 2])
    member.get(first, second)
    assert acknowledged(member.get(first)) == [(True, 2)]
    assert member.last == (4, 2)


def test_row_13_a_follower_commits_only_what_this_message_vouches_for() -> None:
    member = Member("b", [2, 2, 2])  # of which 3 and 4 may be another leader's
    member.get(member.append("a", 3, (1, 1), [2], commit=4))
    assert member.commit_index == 2
    assert [entry.index for entry in member.committed] == [2]


def test_row_14_late_repeated_and_impossible_acknowledgements_do_no_harm() -> None:
    member = Member("a")
    member.lead_and_commit()
    for _ in range(3):
        member.propose()
    member.get()
    member.get(member.acknowledge("b", 5), member.acknowledge("b", 3), member.acknowledge("b", 5))
    assert member.commit_index == 5
    late = [
        member.refuse("b", 2, 1, 1),
        member.refuse("b", 4, 3, 2),
        member.acknowledge("c", 99),
        member.acknowledge("c", 9, term=1),
        member.acknowledge("c", 5, round=member.round + 9),
    ]
    assert appends(member.addressed(*late)) == []
    assert (member.commit_index, member.role) == (5, Role.LEADER)
    member.propose()
    member.replica.read(member.now)
    member.get()
    member.get()
    assert (member.commit_index, member.resolved[3:]) == (5, [])  # nobody has acknowledged or answered these


def test_row_14_an_older_acknowledgement_that_comes_late_takes_nothing_back() -> None:
    member = Member("a", voters="abcde")
    member.lead_and_commit("b", "c")
    member.propose()
    member.get()
    member.get(member.acknowledge("b", 3), member.acknowledge("b", 2))
    member.get(member.acknowledge("c", 3))
    assert member.commit_index == 3


def test_row_17_a_write_of_what_was_cut_off_meanwhile_is_no_match() -> None:
    member = Member("b", [])
    member.syncs = False
    member.get(member.append("a", 2, (1, 1), [2]))
    first = member.writes[-1].number
    member.get(member.append("c", 3, (1, 1), [3]))
    member.get(member.append("a", 4, (1, 1), [2, 4]))  # the same entry again, but the disk may hold the other one
    assert member.replica._core.journal.durable_index == 1
    assert acknowledged(member.sync(first)) == [(True, 2)]  # told the leader of term 2, which is one no more
    assert member.replica._core.journal.durable_index == 1
    member.sync()
    assert member.replica._core.journal.durable_index == 3


def test_row_19_a_heartbeat_does_not_commit_what_does_not_match() -> None:
    member = Member("b", [2])
    member.get(member.append("a", 3, (3, 3), commit=3), member.append("a", 3, (2, 3), commit=2))
    assert member.commit_index == 0
    member.get(member.append("a", 3, (1, 1), commit=3))
    assert member.commit_index == 1


def test_row_30_what_may_have_happened_is_told_as_unknown() -> None:
    member = Member("a")
    member.lead_and_commit()
    ticket = member.propose()
    member.get()
    member.now += 0.1
    member.get(member.append("b", 9, (2, 2), []))  # another leader, which may have that entry or not
    assert member.resolved == []
    member.wait(6.0)
    assert [(resolution.ticket, resolution.outcome) for resolution in member.resolved] == [(ticket, Outcome.UNKNOWN)]


def test_row_30_what_another_entry_has_replaced_is_told_as_refused() -> None:
    member = Member("a")
    member.lead_and_commit()
    ticket = member.propose()
    member.get()
    member.get(member.append("b", 9, (2, 2), [9], commit=3))
    assert [(resolution.ticket, resolution.outcome) for resolution in member.resolved] == [(ticket, Outcome.REFUSED)]


def test_row_30_who_may_have_led_before_it_was_started_does_not_refuse_what_was_for_the_leader() -> None:
    for vote, is_refused in (("a", False), ("b", True)):
        member = Member("a", [2], term=2, vote=vote)
        said = member.get(("c", Forward(GROUP, life("c"), 2, (7,), (b"x",))))
        assert [bool(answer.refusal) for answer in said if isinstance(answer, Forwarded)] == [True] * is_refused


def test_row_41_uncommitted_bytes_and_appends_in_flight_are_bounded() -> None:
    settings = dataclasses.replace(SETTINGS, uncommitted_limit=1000, append_limit=200, in_flight_limit=600)
    member = Member("a", [1] * 50, settings=settings)
    member.lead_and_commit()
    tickets = [member.propose(bytes(100)) for _ in range(20)]
    member.get()
    assert [resolution.outcome for resolution in member.resolved] == [Outcome.REFUSED] * len(member.resolved)
    assert 0 < len(tickets) - len(member.resolved) <= 1000 // 100
    first = appends(member.addressed(member.refuse("c", member.last[0], 5, 1)))
    assert [(to, len(append.entries) > 0) for to, append in first if to == "c"] == [("c", True)]  # to find where it is
    more = appends(member.addressed(member.acknowledge("c", 6)))
    assert len([to for to, _ in more if to == "c"]) == 2  # with the first one three of 200 bytes


def test_row_01_two_leaders_of_one_term_are_counted_not_obeyed() -> None:
    member = Member("b")
    member.get(member.append("a", 2, (1, 1), [2]))
    assert member.get(member.append("c", 2, (1, 1), [2, 2])) == []
    assert member.replica.statistics["two leaders in one term"] == 1


def test_row_11_an_answer_of_a_higher_term_from_a_member_ends_a_leadership() -> None:
    member = Member("a")
    member.lead_and_commit()
    stranger = Appended(member.replica._core.group, "another life", 99, 1, False, 0, 0, 0)
    member.get(("b", stranger))
    assert member.role is Role.LEADER
    member.get(member.refuse("b", 1, 0, 0, term=99))
    assert (member.role, member.term) == (Role.FOLLOWER, 99)
    assert not [message for message in member.get() if isinstance(message, Vote)]


def test_a_new_commit_index_travels_with_the_next_append_or_alone_a_moment_later() -> None:
    member = Member("a")
    member.lead_and_commit()
    member.wait(0.01)
    member.propose()
    member.get()
    assert appends(member.addressed(member.acknowledge("b", 3))) == []
    member.propose()
    ((_, append),) = appends(member.addressed())
    assert (append.commit_index, len(append.entries)) == (3, 1)
    assert appends(member.addressed(member.acknowledge("b", 4))) == []
    assert [(append.commit_index, append.entries) for append in member.wait(0.002)] == [(4, ())]


def test_a_new_commit_index_is_told_at_once_if_a_follower_asked_for_the_command() -> None:
    member = Member("a")
    member.lead_and_commit()
    member.wait(0.01)
    member.get(("c", Forward(GROUP, life("c"), member.term, (1,), (b"x",))))
    ((_, append),) = appends(member.addressed(member.acknowledge("b", 3)))
    assert (append.commit_index, append.entries) == (3, ())


def test_a_leader_at_rest_wakes_once_for_each_heartbeat() -> None:
    member = Member("a", voters="a", settings=dataclasses.replace(SETTINGS, voters=1))
    member.wait(2.5)
    member.propose()  # puts off the heartbeat, so that it no longer falls together with what else is done in turn
    member.get()
    member.wait(2.0)
    wakes: list[float] = []
    while len(wakes) < 20:
        member.now = member.replica.deadline
        member.get()
        wakes.append(member.now)
    assert wakes[-1] - wakes[0] > 14 * SETTINGS.heartbeat, "one for each, and one a second that looks for the majority"


def test_row_17_what_was_durable_and_cut_off_does_not_vouch_for_later_entries() -> None:
    member = Member("a", [2] * 9)  # all of it is on the disk
    member.get(member.append("b", 3, (2, 2), [3]))  # in the place of most of it
    member.lead("c")
    member.get(member.acknowledge("c", 4))
    assert member.commit_index == 4
    member.syncs = False
    member.propose()
    member.get()
    member.get(member.acknowledge("c", 5))
    assert member.commit_index == 4, "of three disks, one has it"
    member.sync()
    assert member.commit_index == 5
