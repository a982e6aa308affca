"""Detached members: which are detached, what is given up for them, and how the others fare."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from glue.contract import Accept, FrameGap, Inbound, Undelivered
from glue.transport.slow_receivers import GIVEN_UP, KEPT, SILENCE
from glue.transport.wire import KEY, WINDOW
from tests.transport.network import Wire
from tests.transport.streams import BODY, silence, stream


def publish(wire: Wire, destinations: list[int], size: int) -> int:
    """About so many bytes in messages of 100 frames, as fast as the windows let them; returns how many messages."""
    count = size // (100 * len(BODY))
    for _ in range(count):
        wire.publish(0, destinations, BODY, frames=100)
        wire.run(0.01)
    return count


def test_a_silent_member_holds_up_the_others_for_a_moment_only() -> None:
    wire = Wire(4)
    publish(wire, [1, 2, 3], 100_000)
    silence(wire, 3)
    wire.publish(0, [1, 2, 3], BODY, frames=10_000)
    wire.run(SILENCE + 0.4)
    assert len(wire.heard[wire.ids[1]]) == len(wire.heard[wire.ids[2]]) == 10_100
    assert wire.backlog == 0


@pytest.mark.parametrize("delay", [0.05, 0.15, 0.4])
def test_members_far_away_are_not_taken_for_silent_and_one_that_is_holds_up_the_others_for_a_moment_only(
    delay: float,
) -> None:
    wire = Wire(4)
    wire.delay = delay
    statistics = wire.transports[wire.ids[0]].statistics
    for _ in range(5):
        wire.publish(0, [1, 2, 3], BODY, frames=100)
        wire.run(4 * delay)
    assert not any(cause.startswith("members detached") for cause in statistics)
    silence(wire, 3)
    wire.publish(0, [1, 2, 3], BODY, frames=2000)
    wire.run(30 * delay)
    assert statistics["members detached: silent"] == 1
    assert len(wire.heard[wire.ids[1]]) == len(wire.heard[wire.ids[2]]) == 2500
    assert wire.backlog == 0


def test_a_member_that_comes_back_in_time_gets_all_it_missed() -> None:
    wire = Wire(4)
    publish(wire, [1, 2, 3], 100_000)
    silence(wire, 3)
    messages = 1 + publish(wire, [1, 2, 3], 5_000_000)
    wire.cut = set()
    wire.run(5)
    messages += publish(wire, [1, 2, 3], 200_000)
    wire.run(1)
    assert len(wire.heard[wire.ids[3]]) == 100 * messages
    assert not any(isinstance(item, FrameGap) for item in wire.news[wire.ids[3]])
    assert wire.transports[wire.ids[0]].statistics["members attached again"] == 1


def test_for_a_member_that_stays_away_some_is_kept_and_both_ends_are_told_how_much_was_given_up() -> None:
    wire = Wire(4)
    publish(wire, [1, 2, 3], 100_000)
    silence(wire, 3)
    messages = 1 + publish(wire, [1, 2, 3], 2 * KEPT)
    wire.cut = set()
    wire.run(5)
    messages += publish(wire, [1, 2, 3], 200_000)
    wire.run(1)
    heard = len(wire.heard[wire.ids[3]])
    gaps = [item for item in wire.news[wire.ids[3]] if isinstance(item, FrameGap)]
    given_up = [item for item in wire.news[wire.ids[0]] if isinstance(item, Undelivered)]
    assert heard + sum(gap.count for gap in gaps) == 100 * messages
    assert 100 * sum(item.count for item in given_up) == sum(gap.count for gap in gaps)
    assert heard % 100 == 0  # whole messages
    assert KEPT // 2 <= (heard - 300) * len(BODY) <= KEPT + 200_000


@pytest.mark.parametrize("seconds", [0.12, 0.16, 0.2])
def test_who_was_stopped_for_a_moment_loses_nothing_however_much_is_published(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glue.transport.slow_receivers.KEPT", 4 << 20)
    wire = Wire(4)
    messages = stream(wire, 0.1)
    for _ in range(3):  # it is no longer waited for once 0.3 s are over, but again whenever it has caught up
        silence(wire, 3)
        messages += stream(wire, seconds)
        wire.cut = set()
        messages += stream(wire, 0.5)
    wire.run(2)
    assert [len(wire.heard[id]) for id in wire.ids[1:]] == [100 * messages] * 3
    assert not any(isinstance(item, FrameGap) for item in wire.news[wire.ids[3]])
    assert wire.transports[wire.ids[0]].statistics["members detached: silent"] > 0


def test_who_stays_silent_is_waited_for_a_moment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.transport.slow_receivers.KEPT", 1 << 20)
    wire = Wire(4)
    messages = stream(wire, 0.1)
    silence(wire, 3)
    messages += stream(wire, 0.25)
    another = wire.heard[wire.ids[1]]
    assert len(another) < 100 * (messages - 25)  # some 2.5 MB wait with the sender
    for _ in range(3):
        messages += stream(wire, 1)
        assert len(another) >= 100 * (messages - 10)


@pytest.mark.parametrize("is_removed", [False, True])
def test_what_was_given_up_is_in_the_accounting_at_once_and_once(
    is_removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glue.transport.slow_receivers.KEPT", 1 << 20)
    wire = Wire(4)
    sender = wire.transports[wire.ids[0]]
    wire.publish(0, [1, 2, 3], BODY)
    wire.run(0.1)
    silence(wire, 3)
    messages = 1
    for _ in range(30):
        messages += stream(wire, 0.1)
        book = {cause: count for cause, count in sender.statistics.items() if cause.startswith("messages ")}
        assert min(book.values()) >= 0
        assert sum(book.values()) + sender.unfinished == 3 * messages
    assert book["messages lost: receiver too slow"] > 0
    if is_removed:
        wire.remove(wire.ids[0], wire.ids[3], "expired")
    else:
        wire.cut = set()
    wire.run(3)
    book = {cause: count for cause, count in sender.statistics.items() if cause.startswith("messages ")}
    assert sum(book.values()) == 3 * messages
    heard = sum(len(bodies) for bodies in wire.heard.values()) - 3  # the first messages are of one frame
    assert 100 * (book["messages delivered"] + book.get("messages repaired", 0) - 3) == heard


def test_a_publisher_all_of_whose_receivers_are_silent_waits_for_them() -> None:
    wire = Wire(3)
    publish(wire, [1, 2], 100_000)
    silence(wire, 1)
    silence(wire, 2)
    publish(wire, [1, 2], 4 * KEPT // 3)
    assert wire.backlog > KEPT
    wire.cut = set()
    wire.run(20)
    assert wire.backlog == 0
    assert wire.transports[wire.ids[0]].statistics["frames given up for detached members"] == 0


def test_a_skip_of_an_unknown_channel_or_back_in_time_changes_nothing() -> None:
    wire = Wire(2)
    wire.publish(0, [1], b"first")
    wire.run(1)
    for channel, sequence in ((99, 5), (1, 0), (1, 1), (1, 1 << 50)):
        wire.tell(wire.ids[1], Inbound(wire.ids[0], 1, None, {KEY: ["skip", channel, sequence]}, [b""]))
    wire.publish(0, [1], b"second")
    wire.run(1)
    assert [body for _, body in wire.heard[wire.ids[1]]] == [b"first", b"second"]
    assert wire.news[wire.ids[1]][1:] == []


def test_who_had_all_beyond_what_was_given_up_is_not_said_to_have_lost_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.transport.slow_receivers.KEPT", 1 << 20)
    wire = Wire(4)
    late = wire.ids[3]
    wire.loses = lambda destination, entry: destination == late and entry[-1] == 150
    messages = stream(wire, 2)
    wire.run(2)
    given_up = sum(item.count for item in wire.news[wire.ids[0]] if isinstance(item, Undelivered))
    assert given_up > 0
    assert len(wire.heard[late]) // 100 == messages - given_up


def test_a_message_larger_than_what_is_kept_is_given_up_as_a_whole_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glue.transport.slow_receivers.KEPT", 1 << 20)
    wire = Wire(4)
    publish(wire, [1, 2, 3], 100_000)
    silence(wire, 3)
    wire.publish(0, [1, 2, 3], BODY, frames=10_000)
    wire.run(5)
    wire.cut = set()
    wire.run(5)
    given_up = sum(item.count for item in wire.news[wire.ids[0]] if isinstance(item, Undelivered))
    assert len(wire.heard[wire.ids[3]]) == 100 + 10_000 * (1 - given_up)


def test_who_never_answered_is_silent_as_soon_as_it_shows_how_quickly_others_do() -> None:
    wire = Wire(3)
    wire.delay = 0.01
    silence(wire, 2)
    wire.cut.add((wire.ids[1], wire.ids[0]))
    wire.publish(0, [1, 2], BODY)
    wire.run(SILENCE + 0.02)
    wire.cut.discard((wire.ids[1], wire.ids[0]))
    for _ in range(6):
        wire.publish(0, [1, 2], BODY)
        wire.run(0.001)
    wire.run(2 * wire.delay + 0.004)
    assert wire.transports[wire.ids[0]].statistics["members detached: silent"] == 1


def detach_for_loss(wire: Wire) -> None:
    """Let the first of two receivers lose a fifth, until the sender detaches it; then nothing is lost any more."""
    places = itertools.count()
    wire.loses = lambda destination, entry: destination == wire.ids[1] and not next(places) % 5
    while not wire.transports[wire.ids[0]].statistics["members detached: lossy"]:
        publish(wire, [1, 2], 200_000)
    wire.loses = lambda destination, entry: False


def test_one_that_was_detached_for_loss_is_served_on_when_the_only_other_member_dies() -> None:
    wire = Wire(3)
    statistics = wire.transports[wire.ids[0]].statistics
    detach_for_loss(wire)
    silence(wire, 2)
    publish(wire, [1, 2], 5_000_000)
    wire.run(2.0)
    heard = len(wire.heard[wire.ids[1]])
    wire.publish(0, [1, 2], BODY)
    wire.run(0.1)
    assert len(wire.heard[wire.ids[1]]) == heard + 1
    assert statistics["members detached: silent"] == 1


def test_the_place_of_a_dead_member_is_taken_by_one_that_keeps_up_not_by_a_slow_one_that_answers_as_often() -> None:
    wire = Wire(4)
    statistics = wire.transports[wire.ids[0]].statistics
    places, random = itertools.count(), Random(1)
    wire.loses = lambda destination, entry: destination == wire.ids[1] and not next(places) % 5
    while not statistics["members detached: lossy"]:
        publish(wire, [1, 2, 3], 200_000)
    silence(wire, 2)
    publish(wire, [1, 2, 3], 2_000_000)
    wire.cut = set()
    wire.loses = lambda destination, entry: destination == wire.ids[1] and random.random() < 0.7
    wire.run(0.3)  # the second has all by now, but is not attached at once
    assert not statistics["members attached again"]
    silence(wire, 3)
    heard = len(wire.heard[wire.ids[2]])
    wire.publish(0, [1, 2, 3], BODY, frames=WINDOW + 1000)
    wire.run(SILENCE + 0.3)
    assert len(wire.heard[wire.ids[2]]) == heard + WINDOW + 1000
    assert not statistics["members attached again"]


@pytest.mark.parametrize("receivers", [2, 3])
def test_a_member_that_lets_nothing_more_come_holds_up_the_others_only_while_it_answers(receivers: int) -> None:
    wire = Wire(receivers + 1)
    destinations = list(range(1, receivers + 1))
    wire.send(wire.ids[receivers], Accept(False))
    publish(wire, destinations, 5_000_000)
    wire.run(5)
    heard = [len(wire.heard[id]) for id in wire.ids[1:]]
    assert max(heard) < 5000
    assert wire.backlog
    wire.run(2)
    silence(wire, receivers)
    wire.run(GIVEN_UP + 0.6)
    assert [len(wire.heard[id]) for id in wire.ids[1:]] == [*[5000] * (receivers - 1), heard[-1]]
    assert wire.backlog == 0


def test_a_member_without_room_is_not_given_up_for_a_pause_of_the_publisher_and_one_lost_question() -> None:
    wire = Wire(3)
    wire.send(wire.ids[2], Accept(False))
    publish(wire, [1, 2], 4_000_000)
    wire.publish(0, [1, 2], BODY, frames=WINDOW - 4000)
    wire.run(5)
    silence(wire, 2)
    wire.publish(0, [1, 2], BODY)
    wire.run(0.6)
    wire.cut = set()
    wire.send(wire.ids[2], Accept(True))
    wire.run(1)
    assert [len(wire.heard[id]) for id in wire.ids[1:]] == [WINDOW + 1] * 2
    assert not any(cause.startswith("members detached") for cause in wire.transports[wire.ids[0]].statistics)


def test_a_detached_member_that_has_all_takes_the_place_of_one_without_room_that_dies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glue.transport.slow_receivers.TRIAL", 30.0)
    wire = Wire(3)
    detach_for_loss(wire)
    wire.send(wire.ids[2], Accept(False))
    wire.publish(0, [1, 2], BODY, frames=WINDOW + 100)
    wire.run(0.5)  # only the second is asked for room by now
    heard = len(wire.heard[wire.ids[1]])
    silence(wire, 2)
    wire.run(GIVEN_UP + 0.6)
    assert len(wire.heard[wire.ids[1]]) > heard
    assert wire.backlog == 0


def test_a_detached_member_is_sent_what_the_only_attached_one_gets_by_unicast() -> None:
    wire = Wire(3)
    detach_for_loss(wire)
    wire.run(0.2)
    behind = []
    for _ in range(50):
        wire.publish(0, [1, 2], BODY)
        wire.run(1.5 * wire.delay)
        behind.append(len(wire.heard[wire.ids[2]]) - len(wire.heard[wire.ids[1]]))
    assert not wire.transports[wire.ids[0]].statistics["members attached again"]
    assert behind == [0] * 50
