"""The sending end of a channel, step by step: acknowledgements, what waits, sleep, and members that leave."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from glue.contract import NORMAL, Outbound, Receipted, Undelivered
from glue.transport.channel import HURRIED, HURRY, Channel
from glue.transport.channel_state import OWN_SLEEP, PEER_ASLEEP
from glue.transport.member import Hole
from glue.transport.slow_receivers import TRIAL
from glue.transport.window import Window
from glue.transport.wire import KEY, MAX_AGE_MS, WINDOW
from tests.transport.sent import NOW, Held, Sent, told


def message(sent: Sent, count: int = 1, **options: Any) -> Outbound:
    return Outbound(sent.ids, [b"12345"] * count, {"other": [1]}, **options)


def acknowledged(sent: Sent, upto: int, *ranges: tuple[int, int], now: float = NOW, **more: Any) -> bool:
    peer = sent.ids[more.pop("number", 0)]
    return sent.channel.acknowledge(now, peer, upto, [*ranges], more.get("window", WINDOW), more.get("held", 0.0))


def news(sent: Sent) -> list[tuple[Any, ...]]:
    """What the application is told of: peer, number of messages or receipt, cause."""
    found = [
        (one.peer, one.count if isinstance(one, Undelivered) else one.receipt, one.cause)
        for one in sent.channel.outcomes.news
        if isinstance(one, Undelivered | Receipted)
    ]
    sent.channel.outcomes.news.clear()
    return found


def test_an_acknowledgement_of_what_was_never_sent_is_refused_and_counted() -> None:
    sent = Sent(1, 4)
    sent[0].backoff = 1
    assert not acknowledged(sent, 5)
    assert (sent[0].regressions, sent[0].next, sent[0].answered_at) == (1, 0, NOW)
    assert sent.channel.acknowledge(NOW, "gone", 99, [], WINDOW, 0.0), "of a removed member: late, not wrong"
    assert acknowledged(sent, 1, (2, 3), (3, 9), (9, 12), now=NOW + 1)
    assert ([*sent[0].ranges], sent.statistics["ranges of what was never sent"]) == ([(2, 3), (3, 4)], 1)
    assert sent[0].answered_at == NOW + 1


def test_an_older_acknowledgement_changes_nothing_unless_the_receiver_is_to_be_told_to_go_on() -> None:
    sent = Sent(1, 9)
    acknowledged(sent, 4, window=10)
    assert (sent[0].next, sent[0].limit) == (4, WINDOW), "a promise is never taken back"
    sent[0].backoff = 2
    acknowledged(sent, 3, window=WINDOW, now=NOW + 1)
    assert (sent[0].next, sent[0].limit, sent[0].regressions, sent[0].notice) == (4, WINDOW, 1, False)
    sent[0].skip = 4
    acknowledged(sent, 3, now=NOW + 2)
    assert (sent[0].notice, sent[0].regressions, sent[0].answered_at) == (True, 1, NOW + 2)
    acknowledged(sent, 5, window=2 * WINDOW, now=NOW + 3)
    assert (sent[0].next, sent[0].limit, sent[0].invited) == (5, 5 + WINDOW, True)
    sent[0].backoff, sent[0].notice = 1, False
    acknowledged(sent, 4)
    assert (sent[0].notice, sent[0].regressions) == (False, 1), "it has gone on already"


@pytest.mark.parametrize(("held", "trip"), [(0.0, 0.5), (0.05, 0.45), (0.099999, None)])
def test_a_clean_acknowledgement_measures_the_way_and_opens_the_window(held: float, trip: float | None) -> None:
    sent = Sent(1, 100, 100)
    assert sent.channel.deadline < NOW + 0.5
    member = sent[0]
    member.invited, member.backoff, member.regressions = True, 3, 2
    acknowledged(sent, 150, held=held, now=NOW + 0.5)
    assert (member.backoff, member.regressions) == (0, 0)
    assert member.round_trip.measured is (trip is not None)
    if trip is not None:
        assert member.round_trip.latest == pytest.approx(trip)
    assert (member.latest, member.next, member.waiting_since, member.window.frames) == (149, 150, NOW + 0.5, 256 + 22)
    assert (sent.channel.base, sent.channel.size, sent.channel.messages) == (150, 500, 1)
    assert sent.channel.deadline <= member.probe_at()
    acknowledged(sent, 200, now=NOW + 0.6)
    assert (sent.channel.deadline, sent.channel.idle) == (inf, True)


def test_messages_are_released_and_counted_when_the_last_member_has_them() -> None:
    sent = Sent(3, 2, 1)
    sent.detach(2)
    acknowledged(sent, 3)
    assert (sent.channel.base, sent.channel.needed, sent.statistics["messages delivered"]) == (0, 0, 0)
    acknowledged(sent, 2, number=1)
    assert (sent.channel.base, sent.channel.needed, sent.channel.size) == (2, 0, 5)
    acknowledged(sent, 2, number=2)
    assert (sent.channel.base, sent.channel.needed, sent.statistics["messages delivered"]) == (2, 2, 3)
    acknowledged(sent, 3, number=1)
    acknowledged(sent, 3, number=2)
    assert (sent.statistics["messages delivered"], sent.channel.idle) == (6, True)
    sent.detach(1)
    assert sent.channel.destinations == [sent.ids[:1]], "one that is left goes by unicast"


def test_what_waits_and_what_is_under_way_counts_as_backlog_except_for_who_sleeps() -> None:
    sent = Sent(2, 3)
    sent.channel.submit(NOW, message(sent, 4, messages=2), [])
    channel = sent.channel
    assert (channel.backlog, channel.size, channel.unfinished, channel.messages) == (35, 35, 6, 6)
    assert (channel.end, channel.waiting, channel.newest) == (7, True, channel.droppable)
    channel.paused = OWN_SLEEP
    assert (channel.backlog, channel.unfinished, channel.resting, channel.deadline) == (35, 6, True, inf)
    channel.paused = PEER_ASLEEP
    assert (channel.backlog, channel.size, channel.unfinished, channel.messages) == (0, 35, 0, 6)
    assert (channel.pump(NOW), channel.send_now(NOW, message(sent))) == ([], None)
    channel.resume(NOW)
    assert (channel.paused, channel.backlog, channel.unfinished) == ("", 0, 6), "nobody waited for that"
    channel.submit(NOW, message(sent), [])
    assert channel.backlog == 5
    channel.paused = OWN_SLEEP
    channel.resume(NOW)
    assert channel.backlog == 5


def test_after_a_sleep_all_that_was_under_way_leaves_again_at_once() -> None:
    sent = Sent(2, 4)
    sent[0].take(1, [(2, 3)])
    sent[0].backoff, sent[0].waiting_since = 5, 1.0
    sent[1].sent = 2
    sent.detach(1)
    sent.channel.resume(NOW + 9)
    assert [sent[number].lost for number in range(2)] == [{1, 3}, {0, 1}]
    assert (sent[0].backoff, sent[0].waiting_since, sent[0].answered_at) == (0, NOW + 9, NOW + 9)
    assert sent[0].round_trip.is_urgent


def test_who_waits_is_sent_again_what_is_under_way_for_longer_than_a_round_trip() -> None:
    assert (HURRY, HURRIED) == (0.02, 8)
    sent = Sent(1, 12)
    sent.channel.hurry(NOW + HURRY - 1e-6)
    assert sent[0].lost == set()
    sent.channel.hurry(NOW + HURRY + 1e-6)
    assert sent[0].lost == set(range(8)), "what is acknowledged then shows the rest"
    sent[0].lost = set()
    sent[0].take(2, [(3, 11)])
    sent[0].round_trip.sample(0.1, 0.0)
    hole = sent[0].holes[2] = Hole(2, NOW + 1)
    hole.attempt = 2
    delay = sent[0].round_trip.loss_delay()
    sent.channel.hurry(NOW + delay + 1e-6)
    assert sent[0].lost == {11}
    sent.channel.hurry(NOW + 1 + 4 * delay - 1e-6)
    assert sent[0].lost == {11}
    sent.channel.hurry(NOW + 1 + 4 * delay + 1e-6)
    assert sent[0].lost == {2, 11}


def test_messages_that_wait_are_dropped_the_oldest_first_and_those_that_are_too_old() -> None:
    sent = Sent(1)
    for expires in (inf, NOW - 1, NOW, NOW + 1):
        sent.channel.submit(NOW, message(sent, 2, expires=expires), [])
    sent.channel._queue[0].offset = 1  # it has begun
    assert sent.channel.drop_expired(NOW) == 1
    assert (sent.channel.size, sent.statistics["frames expired unsent"]) == (30, 2)
    assert news(sent) == [(sent.ids[0], 1, "expired")]
    pending = sent.channel.droppable
    assert pending is sent.channel._queue[1]
    barrier = sent.channel.barrier()
    assert sent.channel.drop(sent.channel.newest).expires == NOW + 1
    assert (barrier.stop, sent.channel.size, sent.channel.end) == (None, 20, 3), "what came before it waits"


def test_the_age_of_a_frame_is_told_in_milliseconds_since_the_message_came() -> None:
    sent = Sent(1, 3)
    flight = sent.channel.flights.find(0)
    for since, now, age in ((NOW, NOW + 1.5, 1500), (NOW, NOW - 1, 0), (0.0, 1e9, MAX_AGE_MS), (NOW, NOW, 0)):
        flight.since = since
        (one,) = [sent.channel.frames(now, flight, 1, 2, 0, sent.ids)]
        assert (one.header[KEY][:3], told([one])) == (["data", 0, age], [(sent.ids, [1, 2], 0, 1)])


def test_a_message_is_sent_at_once_only_if_nothing_stands_before_it() -> None:
    def tried(what: str) -> Outbound | None:
        sent = Sent(1, 2)
        item, member = message(sent, 3), sent[0]
        if what == "queue":
            sent.channel.submit(NOW, message(sent), [])
        elif what == "lost":
            member.lost = {0}
        elif what == "window":
            member.window.frames = 4.9
        elif what == "promise":
            member.limit = 4
            sent.channel.renewed_limit()
        found = sent.channel.send_now(NOW, item)
        assert (sent.channel.next, item.header) == (2 if found is None else 5, {"other": [1]})
        return found

    for what in ("queue", "lost", "window", "promise"):
        assert tried(what) is None
    out = tried("nothing")
    assert out is not None
    assert (out.peers, [*out.bodies], out.header["other"]) == (Sent(1).ids, [b"12345"] * 3, [1])
    assert told([out])[0][2:] == (0, 2)
    sent = Sent(1)
    sent[0].window.frames, sent[0].limit = 3.0, 3
    sent.channel.renewed_limit()
    assert sent.channel.send_now(NOW, message(sent, 3)) is not None, "the window is as large as that"
    sent[0].window.frames, sent[0].limit = 8.0, 4  # more was promised since
    assert sent.channel.send_now(NOW, message(sent)) is not None
    assert (sent.channel.size, sent.channel.messages) == (20, 2)
    sent[0].limit = 9
    sent.channel.paused = OWN_SLEEP
    assert sent.channel.send_now(NOW, message(sent)) is None
    group = Sent(3, 2)
    for number in range(3):
        group[number].invite = False
    assert group.channel.send_now(NOW, message(group)) is not None
    group[1].invite = True
    assert group.channel.send_now(NOW, message(group)) is None


def test_a_member_that_leaves_is_told_of_and_holds_up_nobody_any_more() -> None:
    sent = Sent(3, 2, 2)
    sent.channel.submit(NOW, message(sent, 3, receipts=("later",)), [])
    sent[0].take(4, [])
    sent[1].take(2, [(3, 4)])
    sent[2].take(4, [])
    for number in (0, 2):
        sent.detach(number)
    assert sent.channel.remove(sent.ids[1], "peer removed") == 3 + 2 - 1
    assert news(sent) == [(sent.ids[1], 2, "peer removed"), (sent.ids[1], "later", "peer removed")]
    assert sent.statistics["messages lost: peer removed"] == 2
    assert [member.detached for member in sent.channel.members.values()] == [False, False], "one has to be served"
    assert (sent.channel.base, sent.channel.needed, sent.channel.flights.open_size) == (4, 4, 0)
    assert sent.channel.remove(sent.ids[0], None) == 3
    assert news(sent) == [], "it gets the rest on another channel"
    assert sent.channel.remove(sent.ids[2], "gone") == 3
    assert news(sent) == [(sent.ids[2], 1, "gone"), (sent.ids[2], "later", "gone")]
    assert (sent.channel.size, sent.channel.attached, sent.channel.idle, sent.channel.messages) == (0, [], True, 0)


def test_what_a_member_had_before_it_left_has_arrived() -> None:
    sent = Sent(2)
    for receipt in ("had", "lacks"):
        sent.channel.launch(NOW, message(sent, 2, receipts=(receipt,)), 10, NOW, True)
    sent[0].take(2, [])
    sent.channel.flights.find(2).forgone = frozenset(sent.ids[:1])
    assert sent.channel.messages == 3
    sent.channel.remove(sent.ids[0], "gone")
    assert news(sent) == [(sent.ids[0], "had", ""), (sent.ids[0], 1, "gone"), (sent.ids[0], "lacks", "gone")]
    assert sent.channel.messages == 2
    assert not sent.channel.idle
    sent.channel.remove(sent.ids[1], "gone")
    assert (sent.channel.idle, sent.channel.base, sent.channel.needed, sent.channel.deadline) == (True, 4, 4, inf)


@pytest.mark.parametrize(("upto", "first"), [(1, [1, 2]), (2, [2]), (3, [])])
def test_another_channel_takes_over_what_a_member_lacks_in_order(upto: int, first: list[int]) -> None:
    sent = Sent(2, 3, 2)
    sent[0].take(upto, [(4, 5)])
    of_sent = sent.channel.barrier()
    sent.channel.submit(NOW - 5, message(sent, 2, expires=NOW + 1), [])
    of_all = sent.channel.barrier()
    flow, statistics = sent.channel.flow, sent.statistics
    other = Channel(8, flow, sent.ids[:1], lambda priority: Window(priority), statistics, sent.channel.outcomes)
    sent.channel.hand_over(sent.ids[0], other)
    assert [*sent.channel.members] == [sent.ids[1]]
    assert other.newest.item.expires == NOW + 1
    out = other.pump(NOW)
    assert [frames for _, frames, _, _ in told(out)] == [*([first] if first else []), [3, 4], [12345] * 2]
    assert [item.header[KEY][2] for item in out] == [*([1] if first else []), 0, 5000], "ages count from the beginning"
    for left, expected in ((3, (True, True)), (2, (False, True)), (1, (False, True)), (0, (False, False))):
        other.acknowledge(NOW, sent.ids[0], len(first) + 4 - left, [], WINDOW, 0.0)
        assert (of_sent.holds_one(sent.ids[0]), of_all.holds_one(sent.ids[0])) == expected


def test_a_former_member_that_is_back_overhears_nothing() -> None:
    sent = Sent(3, 2)
    for peer in (sent.ids[0], "stranger"):
        sent.channel.avoid(peer)
        assert (sent.channel.unicast_only, sent.channel.destinations) == (False, [()])
    sent.channel.remove(sent.ids[0], None)
    sent.channel.avoid(sent.ids[0])
    assert (sent.channel.unicast_only, sent.channel.destinations) == (True, [(peer,) for peer in sent.ids[1:]])
    sent.detach(1)
    assert sent.channel.destinations == [(sent.ids[2],)]


def test_when_time_has_passed_each_member_is_looked_after_by_itself() -> None:
    sent = Sent(4, 2)
    for number in range(4):
        sent[number].round_trip.sample(0.001, 0.0)
    sent[1].take(2, [])
    sent[2].held_by = [Held()]
    sent[3].answered_at = NOW + 1
    sent.channel.due(NOW + 0.2)
    assert [sent[number].backoff for number in range(4)] == [1, 0, 0, 1]
    assert [sent[number].detached for number in range(4)] == [True, False, False, False]
    assert (sent.statistics["members detached: silent"], sent[0].return_at) == (1, NOW + 0.2 + TRIAL)
    assert sent.channel.flow[1] == NORMAL
