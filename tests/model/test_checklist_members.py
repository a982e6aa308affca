"""The rows of the Raft checklist about reads, snapshots, members and groups; each test has its row's number."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import pytest

from glue.model.consensus import Configuration, Kind, Outcome, Role, Stored, Vital
from glue.model.consensus.messages import (
    Append,
    Appended,
    Forward,
    Forwarded,
    InstallSnapshot,
    Offer,
    RequestVote,
    SnapshotReceived,
    Vote,
    Welcome,
)
from glue.simulation.consensus import Cluster
from tests.model.clusters import cluster, leader_of, votes
from tests.model.member import GROUP, SCOPE, SETTINGS, VALUE, Member, configuration, life


def outcomes(member: Member) -> list[tuple[int, Outcome]]:
    return [(resolution.ticket, resolution.outcome) for resolution in member.resolved]


def change(member: Member, wanted: Configuration) -> tuple[str, Append]:
    """The leader `a` appends a configuration behind all that the member has."""
    leader, append = member.append("a", max(2, member.term), member.last, [max(2, member.term)])
    entry = dataclasses.replace(append.entries[0], kind=Kind.CONFIGURATION, data=wanted.encode())
    return leader, dataclasses.replace(append, entries=(entry,))


# ------------------------------------------------------------------------------------------------- reads


def test_row_27_a_read_waits_for_a_majority_that_was_asked_afterwards() -> None:
    member = Member("a")
    member.lead_and_commit()
    earlier = member.round
    ticket = member.replica.read(member.now)
    said = member.get()
    assert [message.round for message in said if isinstance(message, Append)] == [earlier + 1]
    member.get(member.acknowledge("b", 2, round=earlier))
    assert outcomes(member) == []
    member.get(member.acknowledge("b", 2, round=earlier + 1))
    assert outcomes(member) == [(ticket, Outcome.READABLE)]


def test_row_27_and_for_an_entry_of_the_leaders_own_term() -> None:
    member = Member("a", [2])
    member.lead()
    ticket = member.replica.read(member.now)
    member.get()
    member.get(member.acknowledge("b", 2))  # a majority follows, but what is committed is not known
    assert outcomes(member) == []
    member.get(member.acknowledge("b", 3))
    assert [(o.ticket, o.outcome, o.index) for o in member.resolved] == [(ticket, Outcome.READABLE, 3)]


@pytest.mark.parametrize("stands_still", [True, False])
def test_row_28_a_leader_that_was_stopped_serves_no_stale_read(stands_still: bool) -> None:
    made = cluster()
    stopped = made.nodes[leader_of(made)]
    stopped.pause()
    if stands_still:
        stopped.clock.adjust(made.time, drift=-0.999)  # suspended, and its clock with it
    assert made.run_until(lambda: leader_of(made) != stopped.peer, 20.0)
    made.propose(made.nodes[leader_of(made)], b"newer")
    made.run(1.0)
    made.partition([stopped.peer], [peer for peer in made.nodes if peer != stopped.peer])
    stopped.clock.adjust(made.time, drift=0.0)
    stopped.resume(is_deaf=True)
    readable = made.history.counters[Outcome.READABLE]
    made.read(stopped)
    made.run(5.0)
    assert made.history.counters[Outcome.READABLE] == readable
    assert made.history.counters[Outcome.REFUSED] >= 1


def test_row_29_a_command_that_the_network_repeats_is_appended_once() -> None:
    member = Member("a")
    member.lead_and_commit()
    forward = Forward(GROUP, life("c"), member.term, (7, 8), (b"x", None))
    answers = [message for message in member.get(("c", forward), ("c", forward)) if isinstance(message, Forwarded)]
    assert [answer.indices for answer in answers] == [(3,)]
    assert member.last[0] == 3
    member.get(member.append("b", 9, member.last))
    assert not [message for message in member.get(("c", forward)) if isinstance(message, Forwarded)]  # nor refused


def test_row_29_a_leader_that_lost_its_disk_refuses_nothing_that_it_may_have_taken_before() -> None:
    member = Member("b", [2])
    member.get(member.append("a", 3, member.last))
    ticket = member.replica.propose(member.now, b"x")
    member.get()
    refusal = Forwarded(GROUP, "a new life", 0, (ticket,), (0,), False, "no leader is known here")
    member.get(("a", refusal))
    assert outcomes(member) == []
    member.get(("a", dataclasses.replace(refusal, life=life("a"), term=member.term)))
    assert outcomes(member) == [(ticket, Outcome.REFUSED)]


# --------------------------------------------------------------------------------------------- snapshots


def test_row_31_a_snapshot_comes_with_its_last_entry_and_its_configuration() -> None:
    member = Member("b", [2])
    member.get(member.append("a", 3, (9, 3), commit=9))
    (answer,) = member.get(member.piece("a", 3, 9, 3, voters="abd"))
    assert isinstance(answer, SnapshotReceived)
    assert (answer.offset, member.last, member.commit_index) == (5, (9, 3), 9)
    assert member.replica.configuration == configuration("abd")
    write = member.writes[-1]
    assert write.snapshot is not None
    assert (write.snapshot.index, write.snapshot.term, write.base, write.entries) == (9, 3, (9, 3), [])
    assert [snapshot.data for snapshot in member.restored] == [b"state"]


def test_row_31_what_was_committed_in_the_same_call_is_not_applied_on_top_of_the_snapshot() -> None:
    member = Member("b", [2, 2])
    lacking = member.append("a", 2, (9, 2), commit=9)
    member.get(member.append("a", 2, (3, 2), commit=3), lacking, member.piece("a", 2, 9, 2))
    assert [snapshot.index for snapshot in member.restored] == [9]
    assert member.committed == []


def test_row_31_a_second_snapshot_of_the_same_entry_is_not_taken() -> None:
    member = Member("a")
    member.lead_and_commit()
    index = member.commit_index
    for data in (b"first", b"second"):
        member.snapshot(data)
    kept = member.replica._core.log.snapshot
    assert kept is not None
    assert (kept.index, kept.data) == (index, b"first")


def test_row_32_an_older_snapshot_is_ignored_and_what_follows_a_newer_one_stays() -> None:
    member = Member("b", [2, 2, 2])
    member.get(member.append("a", 2, (4, 2), commit=3))
    member.get(member.piece("a", 2, 2, 2))
    assert (member.restored, member.last) == ([], (4, 2))
    member.get(member.piece("a", 2, 4, 2))
    member.get(member.append("a", 2, (4, 2), [2]))
    late = Member("b", [2, 2, 2])
    late.get(late.append("a", 2, (9, 2), commit=3), late.piece("a", 2, 3, 2))
    assert (late.last, late.commit_index) == ((4, 2), 3)


def test_row_33_a_snapshot_arrives_in_spite_of_loss_and_compaction() -> None:
    made = Cluster(5)
    settings = dataclasses.replace(SETTINGS, compact_after=500, trailing=0, snapshot_piece=20)
    for peer in "abc":
        made.add(peer, settings)
    assert made.run_until(lambda: made.leader() is not None, 20.0)
    lagging = next(node for node in made.nodes.values() if node is not made.leader())
    made.partition([lagging.peer], [peer for peer in made.nodes if peer != lagging.peer])
    made.net.loss, made.net.duplicate = 0.2, 0.3

    def busy(number: int = 0) -> None:
        leader = made.leader()
        if leader is not None:
            made.propose(leader, b"command %d" % number)
        if made.time < 100:
            made.after(0.2, busy, number + 1)

    busy()
    made.run(20.0)
    made.heal()
    assert made.run_until(lambda: lagging.commit_index >= made.watch.commit_index - 3 > 50, 60.0)
    assert lagging.replica is not None
    assert lagging.replica.snapshot is not None


# ----------------------------------------------------------------------------------------------- members


def test_row_35_one_change_at_a_time_and_none_before_the_first_commit() -> None:
    member = Member("a", voters="abcd")
    member.lead("b", "c")
    early = member.replica.remove(member.now, "d")
    member.get()
    member.get(*[member.acknowledge(peer, 2) for peer in "bcd"])
    first, second = member.replica.remove(member.now, "d"), member.replica.remove(member.now, "c")
    member.get()
    assert [(o.ticket, o.reason) for o in member.resolved] == [
        (early, "the leader is new and has not committed anything yet"),
        (second, "another change of members is under way"),
    ]
    member.get(member.acknowledge("b", 3))
    assert outcomes(member)[2:] == [(first, Outcome.COMMITTED)]


def test_row_36_every_old_majority_meets_every_new_one() -> None:
    """There are no joint changes: one voter at a time, for which one majority is enough."""
    for size in range(1, 6):
        old = configuration("abcdef"[:size])
        newer = [old.without(peer) for peer in old.voters] + [old.with_learner("g", "1").promoted("g")]
        for new in newer:
            if new.voters:
                assert new.is_single_step_from(old)
                for some in combinations(sorted(old.voters), old.quorum):
                    for others in combinations(sorted(new.voters), new.quorum):
                        assert set(some) & set(others)
    assert not configuration("abc").is_single_step_from(configuration("abcde"))
    assert not configuration("abd").is_single_step_from(configuration("abc"))
    relived = Configuration({**configuration("abc").voters, "c": "another life"}, {})
    assert not relived.is_single_step_from(configuration("abc"))


def test_row_37_a_configuration_counts_from_its_append_and_not_when_it_is_cut_off() -> None:
    member = Member("b")
    member.get(change(member, configuration("ab")))
    assert (member.replica.configuration, member.commit_index) == (configuration("ab"), 0)
    member.get(member.append("c", 9, (1, 1), [9]))
    assert member.replica.configuration == configuration("abc")


def test_row_38_learners_do_not_count_but_vote_when_they_are_asked() -> None:
    learner = Member("d", learners="d")
    learner.wait(20.0)
    assert learner.role is Role.FOLLOWER
    assert votes(learner.get(learner.ask("b", 2, (5, 1)))) == [(2, False, True)]  # b may know that it is a voter now
    member = Member("a", voters="abc", learners="d")
    member.campaign()
    member.get(member.vote("d", member.term))
    assert member.role is Role.CANDIDATE
    member.get(member.vote("c", member.term))
    member.get(member.acknowledge("d", 2))
    assert member.commit_index == 0


def test_row_38_a_learner_is_promoted_only_when_it_knows_that_it_is_one() -> None:
    """Else the entry that promotes it may need the vote of one who takes itself for a stranger."""
    member = Member("a")
    member.lead_and_commit()
    member.get(member.acknowledge("d", 2))
    member.replica.admit(member.now, "d")
    member.get()
    member.get(member.acknowledge("b", 3), member.acknowledge("d", 2))
    member.wait(0.5)
    assert (member.commit_index, member.replica.configuration) == (3, configuration("abc", "d"))
    member.get(member.acknowledge("b", 3), member.acknowledge("d", 3))
    member.wait(0.5)
    assert member.replica.configuration == configuration("abcd")


def test_row_39_a_removed_leader_steps_down_after_the_commit() -> None:
    member = Member("a")
    member.lead_and_commit()
    member.get(member.acknowledge("c", 2))
    ticket = member.replica.remove(member.now, "a")
    member.get()
    member.get(member.acknowledge("b", 3))
    assert (member.role, member.commit_index) == (Role.LEADER, 2)  # it does not count itself
    said = member.get(member.acknowledge("c", 3))
    assert [message.commit_index for message in said if isinstance(message, Append)] == [3]
    assert (member.role, outcomes(member)) == (Role.FOLLOWER, [(ticket, Outcome.COMMITTED)])
    member.wait(30.0)
    assert member.role is Role.FOLLOWER


def test_row_39_a_leader_stands_again_while_its_removal_is_not_committed() -> None:
    """The other voter of two has a shorter log, so it cannot be elected without it (thesis, figure 4.6)."""
    made = cluster(2)
    leader = made.nodes[leader_of(made)]
    (other,) = (node for node in made.nodes.values() if node is not leader)
    made.partition([leader.peer], [other.peer])
    assert leader.replica is not None
    leader.replica.remove(leader.now, leader.peer)
    leader.step([])
    made.run(0.1)
    leader.crash()
    leader.restart()
    made.heal()
    made.run(20.0)
    assert leader_of(made) == other.peer
    assert leader.replica.configuration.voters.keys() == {other.peer}


def test_row_39_a_removed_member_does_not_disturb() -> None:
    made = cluster()
    leader = made.nodes[leader_of(made)]
    removed = next(peer for peer in made.nodes if peer != leader.peer)
    made.partition([removed], [peer for peer in made.nodes if peer != removed])
    assert leader.replica is not None
    leader.replica.remove(leader.now, removed)
    leader.arm()
    made.run(20.0)  # it never hears of its removal, and would be elected
    elections = made.watch.elections
    made.heal()
    made.run(20.0)
    assert (leader_of(made), made.watch.elections) == (leader.peer, elections)


# --------------------------------------------------------------------------------- determinism, lives, groups


def test_row_42_all_have_the_same_state_after_the_same_entries() -> None:
    made = cluster(5)
    for number in range(40):
        made.propose(made.nodes["abcde"[number % 5]], b"%d" % number)
        made.run(0.05)
    made.run(2.0)
    digests = {node.machine.digest for node in made.nodes.values()}
    assert (len(digests), len(made.watch.commands)) == (1, 40)


def test_row_45_one_that_was_wiped_has_no_vote_until_it_is_admitted_again() -> None:
    made = cluster()
    leader = leader_of(made)
    wiped, other = (made.nodes[peer] for peer in made.nodes if peer != leader)
    wiped.crash()
    assert wiped.disk is not None
    wiped.disk.wipe()
    made.nodes[leader].crash()
    wiped.restart()
    made.run(30.0)  # the other one and the wiped one would be a majority
    assert made.leader() is None
    assert other.replica is not None
    made.nodes[leader].restart()
    assert made.run_until(lambda: other.configuration.voters.get(wiped.peer) == wiped.life, 30.0)
    assert not other.configuration.learners


def test_row_45_an_answer_of_another_life_counts_for_nothing() -> None:
    member = Member("a")
    member.campaign()
    member.get(("b", Vote(GROUP, "another life", member.term, False, True)))
    assert member.role is Role.CANDIDATE
    member.get(member.vote("c", member.term))
    member.get(("b", Appended(GROUP, "another life", member.term, member.round, True, 2, 0, 0)))
    assert member.commit_index == 0


def test_row_45_a_late_message_of_a_former_life_does_not_throw_out_the_present_one() -> None:
    member = Member("a")
    member.lead_and_commit()
    member.get(("b", Appended(GROUP, "a former life", member.term, member.round, True, 2, 0, 0)))
    for _ in range(10):
        member.get(member.acknowledge("b", 2), member.acknowledge("c", 2))
        member.wait(0.2)
    assert member.replica.configuration == configuration()


def test_row_46_messages_of_another_group_are_counted_and_dropped() -> None:
    member = Member("a")
    before = member.replica.status
    other = "1/plant/another"
    assert member.get(
        ("b", Append(other, life("b"), 9, 1, 1, 1, 1, ())),
        ("b", RequestVote("2/plant/x", life("b"), 9, False, True, 9, 9)),
        ("b", InstallSnapshot(other, life("b"), 9, 1, 9, 9, configuration().encode(), 1, 0, b"x")),
    ) == []  # fmt: skip
    assert (member.replica.status, member.replica.statistics["messages of another group"]) == (before, 3)


def test_row_46_one_without_a_group_joins_none_of_another_network_or_model() -> None:
    member = Member("a", stored=Stored(Vital(life("a"))))
    assert member.get(("b", Welcome("2/plant", life("b"), VALUE))) == []
    assert member.replica.status.role is Role.FOUNDING
    assert member.replica.statistics["messages of another model or network"] == 1
    welcome = ("b", Welcome(SCOPE, life("b"), VALUE))
    assert member.get(welcome) == [Offer(SCOPE, life("a"), 0)]
    before = member.role  # a lone message may be a stray
    member.get(welcome)
    assert before is Role.FOUNDING
    assert member.role is Role.FOLLOWER
