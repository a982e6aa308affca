"""The rows of the Raft checklist about terms, votes and elections; each test has its row's number.

What holds over whole runs (rows 1 and 26 above all) the swarm asserts at every step; here is one case of each.
"""

from __future__ import annotations

import dataclasses

import pytest

from glue.model.consensus import Outcome, Role
from glue.model.consensus.messages import Append, Appended, RequestVote, TimeoutNow
from glue.simulation.consensus import Cluster
from tests.model.clusters import cluster, leader_of, votes
from tests.model.member import GROUP, SETTINGS, Member, life


def requests(said: list[object]) -> list[RequestVote]:
    return [message for message in said if isinstance(message, RequestVote)]


def term_of(made: Cluster, peer: str) -> int:
    replica = made.nodes[peer].replica
    assert replica is not None
    return replica.status.term


def test_row_01_a_term_has_one_leader() -> None:
    a, b = Member("a", term=4), Member("b", term=4)
    for member, other in ((a, "c"), (b, "c")):
        member.campaign("c")
        assert member.term == 5
        member.get(member.vote(other, 5, granted=member is a))
    assert (a.role, b.role) == (Role.LEADER, Role.CANDIDATE)
    b.get(*[("a", message) for message in a.wait(0.3) if isinstance(message, Append)])
    assert (b.role, b.replica.status.leader) == (Role.FOLLOWER, "a")


def test_row_04_no_vote_is_told_before_it_is_durable() -> None:
    member = Member("a")
    member.syncs = False
    assert votes(member.get(member.ask("b", 2, (1, 1)))) == []
    assert member.writes[-1].vital is not None
    assert member.writes[-1].vital.vote == "b"
    assert votes(member.sync()) == [(2, False, True)]


def test_row_04_the_own_candidacy_waits_for_the_disk_too() -> None:
    member = Member("a")
    member.stand()
    member.syncs = False
    said = member.get(member.vote("b", 2, pre=True))
    assert [request for request in requests(said) if not request.pre] == []
    assert [request.term for request in requests(member.sync())] == [2]


def test_row_07_a_candidate_tells_of_durable_entries_only() -> None:
    member = Member("a")
    member.syncs = False
    member.get(member.append("b", 2, (1, 1), [2, 2]))
    assert requests(member.stand()) == []  # nothing is told while entries are on their way to the disk
    assert {(ask.last_index, ask.last_term) for ask in requests(member.sync())} == {(3, 2)}


def test_row_08_stepping_down_in_a_term_keeps_its_vote_and_a_higher_term_clears_it() -> None:
    member = Member("a")
    member.campaign()
    member.get(member.append("c", 2, (1, 1)))  # somebody else was elected
    assert member.role is Role.FOLLOWER
    member.now += 10
    assert votes(member.get(member.ask("b", 2, (9, 9)))) == [(2, False, False)]
    assert votes(member.get(member.ask("b", 3, (9, 9)))) == [(3, False, True)]
    assert member.writes[-1].vital is not None
    assert (member.writes[-1].vital.term, member.writes[-1].vital.vote) == (3, "b")


@pytest.mark.parametrize(
    ("last", "granted"), [((3, 2), True), ((4, 2), True), ((2, 2), False), ((9, 1), False), ((1, 3), True)]
)
@pytest.mark.parametrize("pre", [False, True])
def test_row_09_a_vote_goes_to_a_log_that_is_up_to_date(last: tuple[int, int], granted: bool, pre: bool) -> None:
    member = Member("a", [2, 2])
    assert [answer[2] for answer in votes(member.get(member.ask("b", 4, last, pre=pre)))] == [granted]


def test_row_10_one_vote_in_a_term_and_the_same_one_again() -> None:
    member = Member("a")
    asked = [member.ask("b", 2, (1, 1)), member.ask("b", 2, (1, 1)), member.ask("c", 2, (5, 1))]
    assert votes(member.get(*asked)) == [(2, False, True), (2, False, True), (2, False, False)]


def test_row_11_messages_of_the_past_change_nothing_and_are_told_the_term() -> None:
    member = Member("a", [3], term=5)
    before = member.replica.status
    answers = member.get(
        member.ask("b", 4, (9, 9)), member.ask("b", 4, (9, 9), pre=True), member.append("c", 4, (2, 3), [4], commit=3)
    )
    assert [answer.term for answer in answers] == [5, 5, 5]
    assert (member.replica.status, member.log, member.writes) == (before, [(1, 1), (2, 3)], [])


def test_row_15_votes_of_another_term_or_of_the_pre_vote_do_not_count() -> None:
    member = Member("a", term=4)
    member.campaign()
    member.get(member.vote("b", 4), member.vote("c", 5, pre=True), member.vote("b", 6, pre=True))
    assert (member.role, member.term) == (Role.CANDIDATE, 5)
    member.get(member.vote("c", 5))
    assert member.role is Role.LEADER


def test_row_16_the_own_vote_that_comes_after_losing_is_ignored() -> None:
    member = Member("a")
    member.stand()
    member.syncs = False
    member.get(member.vote("b", 2, pre=True))  # the vote for itself is on its way to the disk
    member.get(member.append("c", 2, (1, 1)))
    member.sync()
    assert (member.role, member.replica.status.leader) == (Role.FOLLOWER, "c")


def test_row_18_each_election_has_a_timeout_of_its_own() -> None:
    timeouts = set()
    member = Member("a")
    for _ in range(20):
        member.get(member.append("b", 2, (1, 1)))
        timeouts.add(round(member.replica.deadline - member.now, 6))
    assert len(timeouts) == 20
    assert all(1.0 <= timeout <= 2.0 for timeout in timeouts)


def test_row_20_one_that_was_cut_off_does_not_depose_when_it_comes_back() -> None:
    made = cluster()
    leader = leader_of(made)
    lonely = next(peer for peer in made.nodes if peer != leader)
    term = term_of(made, leader)
    made.partition([lonely], [peer for peer in made.nodes if peer != lonely])
    made.run(30.0)
    assert term_of(made, lonely) == term  # asking whether it would be elected has changed no term
    made.heal()
    made.run(5.0)
    assert (leader_of(made), term_of(made, leader)) == (leader, term)


def test_row_21_one_with_a_smaller_term_can_still_be_elected() -> None:
    member = Member("a", [2], term=2)
    member.stand()
    member.get(member.vote("b", 7, pre=True, granted=False))  # b's term is higher, its log is not
    assert (member.role, member.term) == (Role.FOLLOWER, 7)
    asked = requests(member.stand())
    assert {(ask.term, ask.pre) for ask in asked} == {(8, True)}
    b = Member("b", [2], term=7)
    assert votes(b.get(("a", asked[-1]))) == [(8, True, True)]


def test_row_22_members_with_and_without_the_pre_vote_elect_a_leader() -> None:
    made = Cluster(3)
    for peer, pre_vote in (("a", True), ("b", False), ("c", True)):
        made.add(peer, dataclasses.replace(SETTINGS, pre_vote=pre_vote))
    for _ in range(4):
        assert made.run_until(lambda: made.leader() is not None, 20.0)
        crashed = made.nodes[leader_of(made)]
        crashed.crash()
        made.run(0.1)
        assert made.run_until(lambda: made.leader() is not None, 20.0)
        crashed.restart()
        made.run(3.0)


def test_row_23_a_leader_without_a_majority_steps_down_within_one_timeout() -> None:
    member = Member("a")
    member.lead_and_commit()
    elected = member.now
    member.wait(0.5)
    heard = member.now
    member.get(member.acknowledge("c", 2))
    while member.role is Role.LEADER:
        member.wait(0.01)
    assert elected + 1.0 < member.now <= heard + 1.0 + 0.011
    assert member.replica.statistics["stepped down without a majority"] == 1


def test_row_24_votes_are_not_given_while_a_leader_is_heard() -> None:
    member = Member("a")
    member.get(member.append("b", 2, (1, 1)))
    member.now += 0.9
    assert member.get(member.ask("c", 9, (9, 9)), member.ask("c", 9, (9, 9), pre=True)) == []
    assert member.term == 2
    assert votes(member.get(member.ask("c", 9, (9, 9), transfer=True))) == [(9, False, True)]  # but if it wishes so


def test_row_25_one_that_is_stuck_in_a_higher_term_is_freed() -> None:
    leader, stuck = Member("a"), Member("c", term=9)
    leader.lead_and_commit()
    heartbeat = next(message for message in leader.wait(0.25) if isinstance(message, Append))
    (answer,) = stuck.get(("a", heartbeat))
    assert isinstance(answer, Appended)
    leader.get(("c", answer))
    assert (leader.role, leader.term) == (Role.FOLLOWER, 9)  # so that the next term is above the stuck one's


@pytest.mark.parametrize("seed", range(5))
def test_row_26_a_leader_stays_where_only_some_reach_some(seed: int) -> None:
    made = cluster(5, seed)
    leader = leader_of(made)
    others = [peer for peer in made.nodes if peer != leader]
    near, far = others[:2], others[2:]
    ways = {(leader, near[0]), (leader, near[1]), (near[0], near[1]), (near[0], far[0]), (near[1], far[1])}
    reach = ways | {(b, a) for a, b in ways}
    made.net.blocked = {(a, b) for a in made.nodes for b in made.nodes if (a, b) not in reach}
    elections = made.watch.elections
    made.run(60.0)
    assert (leader_of(made), made.watch.elections) == (leader, elections)
    made.propose(made.nodes[leader], b"still here")
    assert made.run_until(lambda: b"still here" in made.watch.commands, 5.0)


def test_row_40_a_transfer_stops_commands_times_out_and_goes_on() -> None:
    member = Member("a")
    member.lead_and_commit()
    member.get(member.acknowledge("c", 2))
    ticket = member.replica.transfer(member.now, "c")
    said = member.addressed()
    assert [to for to, message in said if isinstance(message, TimeoutNow)] == ["c"]
    refused = member.propose()
    member.get(member.acknowledge("b", 2), member.acknowledge("c", 2))
    assert {resolution.ticket for resolution in member.resolved} == {refused}
    for _ in range(6):
        member.wait(0.2)
        member.get(member.acknowledge("b", 2), member.acknowledge("c", 2))
    assert [resolution.ticket for resolution in member.resolved] == [refused, ticket]
    member.propose()
    member.get()
    assert member.last[0] == 3


def test_row_40_who_is_asked_to_lead_stands_at_once() -> None:
    member = Member("c")
    member.get(member.append("a", 2, (1, 1), [2]))
    said = member.get(("a", TimeoutNow(GROUP, life("a"), 2)))
    assert [(ask.term, ask.pre, ask.transfer) for ask in requests(said)] == [(3, False, True)]


def test_row_23_a_leader_at_rest_looks_for_its_majority_when_it_is_awake_for_a_heartbeat() -> None:
    a = Member("a")
    a.lead_and_commit("b")
    wakes, end = 0, a.now + 20.0
    while a.replica.deadline < end:
        a.now = a.replica.deadline
        wakes += 1
        if a.get():
            a.get(a.acknowledge("b", a.last[0]))
    assert a.role is Role.LEADER
    assert wakes <= 102  # a heartbeat each 0.2 s, the commit index once, and no timer beside these


def test_one_with_the_longer_log_that_hears_no_leader_stands_when_another_one_asks_in_vain() -> None:
    member = Member("a", [2, 2])
    asked = [member.ask("b", 3, (2, 2), pre=True)]
    assert requests(member.get(member.append("c", 2, (3, 2)), *asked)) == [], "a leader is heard"
    member.now += 1.0
    said = member.get(*asked)
    assert votes(said) == [(2, True, False)]
    assert [(request.pre, request.last_index) for request in requests(said)] == [(True, 3)]


def test_a_candidate_that_lost_a_vote_to_another_one_begins_anew_after_two_heartbeats_at_most() -> None:
    member = Member("a")
    member.campaign()
    member.get(member.vote("b", 2, granted=False))
    said = requests(member.wait(2 * SETTINGS.heartbeat))
    assert (3, True) in [(request.term, request.pre) for request in said]


def test_a_candidate_with_slow_disks_waits_for_votes_that_are_on_their_way() -> None:
    member = Member("a")
    member.campaign()
    member.wait(0.5)  # until another candidate's disk had its own vote
    member.get(member.vote("b", 2, granted=False))
    member.wait(0.45)  # more than two heartbeats
    member.get(member.vote("c", 2))
    assert (member.role, member.term) == (Role.LEADER, 2)


def test_one_that_has_no_vote_and_asks_in_vain_makes_nobody_stand() -> None:
    member = Member("a", [2, 2])
    member.get(member.append("c", 2, (3, 2)))
    member.now += 1.0
    assert requests(member.get(member.ask("z", 3, (2, 2), pre=True))) == []


def test_a_follower_that_gave_its_vote_gives_the_candidate_time_to_win() -> None:
    member = Member("a", [2])
    member.get(member.ask("b", 3, (1, 1)))  # refused, as its log is too short; but the term begins
    member.now = member.replica.deadline - 0.001
    (vote,) = member.get(member.ask("c", 3, (2, 2)))
    assert vote.granted
    assert member.replica.deadline >= member.now + SETTINGS.election_timeout


def test_an_observer_knows_no_leader_any_more_once_that_is_silent_and_refuses_at_once() -> None:
    member = Member("d")
    member.get(member.append("b", 2, (1, 1)))
    member.propose()
    assert [type(one).__name__ for one in member.get()] == ["Forward"]
    member.wait(2 * SETTINGS.election_timeout + 0.1)
    assert (member.role, member.replica.status.leader) == (Role.FOLLOWER, "")
    ticket = member.propose()
    assert member.get() == []
    assert (member.resolved[-1].ticket, member.resolved[-1].outcome) == (ticket, Outcome.REFUSED)


def test_a_candidate_asks_again_with_each_heartbeat_as_its_requests_may_be_lost() -> None:
    member = Member("a")
    member.stand()
    began, asked = member.now, 0
    while member.now - began < SETTINGS.election_timeout:
        asked += sum(isinstance(one, RequestVote) for one in member.get())
        member.now = member.replica.deadline
    assert asked >= SETTINGS.election_timeout / SETTINGS.heartbeat - 1


def test_who_refused_before_the_vote_may_give_its_vote_afterwards() -> None:
    member = Member("a", voters="abcde")
    member.stand()
    term = member.term + 1
    member.get(member.vote("d", term - 1, pre=True, granted=False), member.vote("e", term - 1, pre=True, granted=False))
    member.get(member.vote("b", term, pre=True), member.vote("c", term, pre=True))
    roles = [member.role]
    for votes_then in ([member.vote("b", term, granted=False)], [member.vote("d", term), member.vote("e", term)]):
        member.get(*votes_then)
        roles.append(member.role)
    assert roles == [Role.CANDIDATE, Role.CANDIDATE, Role.LEADER], "one refusal is no majority"
    assert member.term == term
