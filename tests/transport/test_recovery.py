"""Loss recovery of a channel, step by step: what is sent again, to whom, and when something is due."""

from __future__ import annotations

from math import inf

import pytest

from glue.contract import Outbound
from glue.transport import recovery
from glue.transport.member import Hole
from glue.transport.recovery import CROWD, MAX_HELD, PROBES, REPAIRS
from glue.transport.round_trip import INITIAL
from glue.transport.slow_receivers import SILENCE, attach
from glue.transport.window import Window
from glue.transport.wire import MAX_ATTEMPT
from tests.transport.sent import NOW, Held, Sent, told


def repaired(sent: Sent, now: float = NOW + 0.1) -> list[tuple[tuple[str, ...], list[int], int, int]]:
    return told(recovery.repairs(sent.channel, now))


def test_a_turn_repairs_what_the_window_has_room_for_the_first_frames_first() -> None:
    sent = Sent(1, 700)
    member = sent[0]
    member.lost = set(range(600))
    assert (PROBES, REPAIRS, CROWD, member.window.frames) == (2, 512, 12, 128)
    assert repaired(sent) == [(sent.ids, [*range(28)], 1, 0)], "a hundred others are under way"
    assert repaired(sent) == [(sent.ids, [28, 29], 1, 28)], "what was asked for by a probe leaves in any case"
    member.window.frames = 2048.0
    assert [len(frames) for _, frames, _, _ in repaired(sent)] == [REPAIRS]
    assert (len(member.lost), sent.statistics["frames resent"]) == (58, 542)
    assert (sent.channel.transmissions, member.holes[0].number, member.holes[29].number) == (1242, 700, 729)
    assert (member.holes[0].sent_at, member.holes[0].before) == (NOW + 0.1, NOW)


def test_what_is_sent_again_goes_flight_by_flight_and_counts_its_attempts() -> None:
    sent = Sent(1, 2, 3, 1)
    sent[0].lost = {1, 2, 3, 5}
    first = [(sent.ids, [1], 1, 1), (sent.ids, [2, 3], 1, 2), (sent.ids, [5], 1, 5)]
    assert repaired(sent) == first
    sent[0].lost = {2}
    assert repaired(sent) == [(sent.ids, [2], 2, 2)]
    sent[0].lost = {1, 2, 3}
    assert repaired(sent) == [(sent.ids, [1], 2, 1), (sent.ids, [2], 3, 2), (sent.ids, [3], 2, 3)]
    sent[0].holes[3].attempt, sent[0].lost = MAX_ATTEMPT + 5, {3}
    assert repaired(sent) == [(sent.ids, [3], MAX_ATTEMPT, 3)]
    assert (sent[0].attempts(3), repaired(sent)) == (MAX_ATTEMPT + 6, [])


def test_what_several_lost_goes_to_all_unless_one_is_served_on_its_own() -> None:
    sent = Sent(3, 4)
    a, b, _ = [(peer,) for peer in sent.ids]
    sent[0].lost, sent[1].lost = {0, 1, 2}, {1, 2, 3}
    assert repaired(sent) == [(a, [0], 1, 0), ((), [1, 2], 1, 1), (b, [3], 1, 3)]
    assert [[*sent[number].holes] for number in range(3)] == [[0, 1, 2], [1, 2, 3], []]
    assert sent.channel.flights.find(0).repaired == {*sent.ids[:2]}
    sent[0].lost, sent[1].lost = {0, 1}, {1}
    sent[0].holes[1].attempt = 4
    assert repaired(sent) == [(a, [0], 2, 0), ((), [1], 5, 1)]
    for reason in ("detached", "unicast"):
        sent[0].lost, sent[1].lost = {0}, {0}
        sent[1].holes.pop(0, None)
        sent.channel.unicast_only = reason == "unicast"
        sent[1].sent = 4
        sent.detach(1) if reason == "detached" else attach(sent[1])
        sent.channel.regroup()
        assert [peers for peers, *_ in repaired(sent)] == [a, b]
        assert sent[1].holes[0].before == (-inf if reason == "detached" else NOW), "it may be the first time"


@pytest.mark.parametrize("members", [CROWD - 1, CROWD])
def test_from_twelve_members_on_a_repair_goes_to_all_that_lack_the_frame(members: int) -> None:
    sent = Sent(members, 3)
    sent[0].lost = {1}
    for number in range(2, members):
        sent[number].take(0 if number % 2 else 3, [(1, 2)] if number % 2 else [])
    is_crowd = members == CROWD
    assert [peers for peers, *_ in repaired(sent)] == [() if is_crowd else (sent.ids[0],)]
    expected = [0, 1] if is_crowd else [0]
    assert [number for number in range(members) if 1 in sent[number].holes] == expected


def test_a_probe_sends_the_first_two_missing_frames_and_each_fourth_the_invitation() -> None:
    sent = Sent(2, 9)
    member = sent[0]
    member.invite, member.invited = False, True
    member.take(2, [(5, 7)])
    for count in range(1, 9):
        recovery.probe(sent.channel, NOW + count, member)
        assert (member.backoff, member.waiting_since, member.lost, member.notice) == (count, NOW + count, {2, 3}, False)
        assert member.invite is (count % 4 == 0)
        member.invite = False
    member.invited = False
    recovery.probe(sent.channel, NOW, member)
    assert (member.invite, sent.statistics["probes"]) == (True, 9)
    member.skip = 2
    recovery.probe(sent.channel, NOW, member)
    assert member.notice
    member.take(4, [(5, 7)])
    member.notice, member.lost = False, set()
    recovery.probe(sent.channel, NOW, member)
    assert (member.notice, member.lost) == (False, {4}), "one gap alone"
    member.detached, member.sent, member.lost = True, 4, set()
    recovery.probe(sent.channel, NOW, member)
    assert member.lost == set(), "what it was not sent is not missing"
    alone = Sent(1, 1)
    alone[0].backoff = 3
    recovery.probe(alone.channel, NOW, alone[0])
    assert not alone[0].invite, "one receiver needs no invitation"


def test_a_receiver_that_lets_nothing_come_is_asked_while_anything_waits() -> None:
    sent = Sent(1, 4)
    member = sent[0]
    member.take(4, [])
    member.limit = 4
    assert not recovery.is_shut(sent.channel, member)
    sent.channel.submit(NOW, Outbound(sent.ids, [b"x"]), [])
    assert recovery.is_shut(sent.channel, member)
    sent.channel.release()
    assert recovery.due_at(sent.channel) == member.probe_at(), "also if nothing is on its way"
    member.limit = 5
    assert not recovery.is_shut(sent.channel, member)
    member.limit, member.held_by = 4, [Held()]
    assert not recovery.is_shut(sent.channel, member)
    member.held_by, member.answered_at = [], NOW
    for at in (NOW + 1, NOW + 2):
        recovery.ask(sent.channel, at, member)
        assert (member.asked_at, member.waiting_since, member.invite) == (NOW + 1, at, True)
    member.answered_at = NOW + 1
    recovery.ask(sent.channel, NOW + 3, member)
    assert (member.asked_at, member.backoff, sent.statistics["window probes"]) == (NOW + 3, 3, 3)


@pytest.mark.parametrize("is_lost", [True, False])
def test_nothing_is_known_of_another_path_and_what_the_former_lost_is_sent_again(is_lost: bool) -> None:
    sent = Sent(1, 6)
    member, window = sent[0], Window()
    member.take(1, [(3, 4)])
    member.round_trip.sample(0.5, 0.0)
    member.backoff, member.patience = 3, 0.1
    later = sent.channel.deadline
    recovery.path_changed(sent.channel, NOW + 1, member, window, is_lost)
    assert member.window is window
    assert (member.round_trip.measured, member.backoff, member.waiting_since, member.patience) == (False, 0, NOW + 1, 0)
    assert member.lost == ({1, 2, 4, 5} if is_lost else set())
    assert sent.statistics["frames lost with a path"] == (4 if is_lost else 0)
    assert sent.channel.deadline == NOW + 1 + member.round_trip.probe_timeout(0) != later


def test_after_an_answered_probe_twice_as_many_frames_as_were_answered_seem_lost() -> None:
    sent = Sent(1, 9)
    member = sent[0]
    member.holes[4] = Hole(0, NOW)
    recovery.follow(sent.channel, member, 3, 2)
    assert member.lost == {3, 5, 6}
    recovery.follow(sent.channel, member, 7, 5)
    assert member.lost == {3, 5, 6, 7, 8}
    member.detached, member.sent, member.lost = True, 6, set()
    recovery.follow(sent.channel, member, 3, 5)
    assert member.lost == {3, 5}


def test_what_was_sent_since_an_acknowledgement_came_is_waited_for_from_then_on() -> None:
    sent = Sent(1, 1, 1, 1)
    member = sent[0]
    member.take(1, [])
    for since, expected in ((NOW - 1, NOW - 0.001), (NOW, NOW)):
        member.waiting_since = since
        recovery.taken_late(sent.channel, sent.ids[0])
        assert member.waiting_since == pytest.approx(expected, abs=1e-9)
    recovery.taken_late(sent.channel, "unknown")
    member.take(3, [])
    member.waiting_since = 1.0
    recovery.taken_late(sent.channel, sent.ids[0])
    assert member.waiting_since == 1.0, "it misses nothing"


def test_an_answer_held_back_for_long_tells_only_that_frames_arrived() -> None:
    sent = Sent(1, 2, 2)
    member = sent[0]
    assert recovery.arrived(sent.channel, NOW + 0.5, member, 2, MAX_HELD) == inf
    assert (member.latest, member.round_trip.measured) == (2, False)
    assert recovery.arrived(sent.channel, NOW + 0.5, member, 1, 0.05) == pytest.approx(0.451)
    assert (member.latest, member.round_trip.measured) == (2, True)


def test_holes_are_what_is_missing_before_what_arrived() -> None:
    sent = Sent(1, 3, 3, 3)
    member = sent[0]
    member.latest = 7
    member.take(1, [(2, 3)])
    recovery.find_holes(sent.channel, member, 5)
    assert [*member.holes] == [1, 3, 4]
    recovery.find_holes(sent.channel, member, 9)
    assert ([*member.holes], member.searched_to) == ([1, 3, 4, 5, 6], 7)
    assert [member.holes[sequence].number for sequence in (1, 3, 6)] == [1, 3, 6]
    other = Sent(2, 5)
    other[0].latest, other[0].sent = 4, 2
    other.detach(0)
    recovery.find_holes(other.channel, other[0], 5)
    assert [*other[0].holes] == [0, 1], "a detached member was not sent the others"


def test_losses_are_counted_and_fec_delays_the_wait_for_what_is_sent_again() -> None:
    for covered in (False, True):
        sent = Sent(1, 8)
        member = sent[0]
        member.told, member.latest, member.waiting_since = 8, 7, 1.0
        member.take(0, [(2, 8)])
        for sequence in (0, 1):
            member.holes[sequence] = Hole(sequence, NOW, NOW + 0.01 if covered else -inf)
        recovery.find_lost(sent.channel, NOW + 0.005, member)
        assert member.lost == (set() if covered else {0, 1})
        recovery.find_lost(sent.channel, NOW + 0.01, member)
        assert (member.lost, sent.statistics["frames lost"], member.window._lost) == ({0, 1}, 2, 2)
        assert member.waiting_since == (NOW + 0.01 if covered else 1.0)
        assert sent.channel.fec.meters[sent.ids[0]].share(1000, 0) > 0


def test_when_something_may_be_due() -> None:
    nothing = Sent(1)
    assert recovery.due_at(nothing.channel) == inf
    alone = Sent(1, 2)
    assert recovery.due_at(alone.channel) == alone[0].probe_at() == NOW + alone[0].round_trip.probe_timeout(0)
    assert alone[0].round_trip.probe_timeout(0) > INITIAL
    alone[0].backoff = 2
    assert recovery.due_at(alone.channel) == NOW + alone[0].round_trip.probe_timeout(2)
    alone[0].round_trip.sample(0.001, 0.0)
    alone[0].backoff = 9
    assert recovery.due_at(alone.channel) == alone[0].probe_at() > NOW + SILENCE, "nobody waits for it"
    alone[0].check_at = NOW + 0.001
    assert recovery.due_at(alone.channel) == NOW + 0.001
    alone.channel.fec.at = NOW
    assert recovery.due_at(alone.channel) == NOW
    group = Sent(2, 2)
    for number in range(2):
        group[number].round_trip.sample(0.001, 0.0)
        group[number].backoff = 9
    assert recovery.due_at(group.channel) == min(NOW + SILENCE, group[0].probe_at())
    group[0].waiting_since = group[1].waiting_since = NOW + 9
    assert recovery.due_at(group.channel) == NOW + SILENCE
    group[0].held_by = [Held()]
    group[0].waiting_since, group[0].backoff = NOW, 0
    assert recovery.due_at(group.channel) == NOW + SILENCE
    group[0].held_by, group[0].detached, group[0].answered_at = [], True, NOW - 1
    assert recovery.due_at(group.channel) == min(group[0].probe_at(), NOW + SILENCE), "one served on its own is probed"
    group[0].detached, group[0].waiting_since, group[0].answered_at = False, NOW + 9, NOW - 0.05
    assert recovery.due_at(group.channel) == NOW + SILENCE - 0.05
    group[0].take(2, [])
    assert recovery.due_at(group.channel) == NOW + SILENCE, "it has all"
    group[1].take(2, [])
    assert recovery.due_at(group.channel) == inf


def test_an_acknowledgement_moves_a_deadline_only_if_something_may_be_due_before() -> None:
    sent = Sent(1, 2)
    timeout = sent[0].round_trip.probe_timeout(0)
    assert recovery.is_due_before(sent.channel, NOW, sent[0], NOW + timeout + 1e-6)
    assert not recovery.is_due_before(sent.channel, NOW, sent[0], NOW + timeout)
    sent.channel.flights.clear()
    assert recovery.is_due_before(sent.channel, NOW, sent[0], NOW)
    group = Sent(2, 2)
    assert recovery.is_due_before(group.channel, NOW, group[0], NOW), "the timeouts of others decide for one of them"
