"""The order of what waits for a peer that sleeps, though some of it becomes too old or gives way meanwhile."""

from __future__ import annotations

import gc

import pytest

from glue.contract import NORMAL, URGENT, Outbound, PeerSleeps
from glue.transport import sleepers
from glue.transport.barrier import Barrier
from glue.transport.wire import KEY
from tests.transport.network import Wire
from tests.transport.sent import NOW, Sent
from tests.transport.test_order import flow, heard_by, say

LARGE = bytes(1000)


def asleep() -> Wire:
    wire = Wire(2)
    for cycle in (0, 1):
        wire.tell(wire.ids[0], PeerSleeps(wire.ids[1], cycle))
    return wire


def wake(wire: Wire) -> list[bytes]:
    wire.tell(wire.ids[0], PeerSleeps(wire.ids[1], 2))
    wire.run(3)
    assert wire.backlog == 0
    return heard_by(wire, 1)


def test_what_follows_a_message_that_became_too_old_does_not_overtake_what_came_before_it() -> None:
    wire = asleep()
    normal, urgent = flow(wire, 1), flow(wire, 1, priority=URGENT)
    say(wire, b"first", normal)
    say(wire, b"short-lived", normal, expires=wire.now + 1)
    say(wire, b"lasting", urgent, normal)
    wire.run(2)
    assert wake(wire) == [b"first", b"lasting"]


@pytest.mark.parametrize("is_late", [False, True])
def test_what_follows_it_waits_for_what_it_waited_for(is_late: bool) -> None:
    wire = asleep()
    normal, urgent = flow(wire, 1), flow(wire, 1, priority=URGENT)
    say(wire, b"first", normal)
    say(wire, b"short-lived", urgent, normal, expires=wire.now + 1)
    wire.run(2)
    if is_late:
        wire.loses = lambda destination, entry: entry[0] == "data"
        wire.tell(wire.ids[0], PeerSleeps(wire.ids[1], 2))
        wire.loses = lambda destination, entry: False
    say(wire, b"lasting", urgent)
    assert wake(wire) == [b"first", b"lasting"]


def test_what_gives_way_leaves_the_order_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleepers, "HELD_FOR_ONE", 2500)
    wire = asleep()
    normal, urgent = flow(wire, 1, priority=NORMAL), flow(wire, 1, priority=URGENT)
    say(wire, b"1" + LARGE, urgent)
    say(wire, b"2" + LARGE, normal, urgent)
    say(wire, b"3" + LARGE, urgent, normal)
    assert [body[:1] for body in wake(wire)] == [b"2", b"3"]


def test_what_comes_after_a_message_that_was_too_large_does_not_overtake_what_came_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sleepers, "HELD_FOR_ONE", 500)
    wire = asleep()
    normal, urgent = flow(wire, 1, priority=NORMAL), flow(wire, 1, priority=URGENT)
    say(wire, b"first", normal)
    say(wire, LARGE, urgent, normal)
    say(wire, b"lasting", urgent)
    assert wake(wire) == [b"first", b"lasting"]


@pytest.mark.parametrize("is_begun", [False, True])
def test_what_gives_way_for_long_leaves_nothing_behind(is_begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleepers, "HELD_FOR_ONE", 10_000)
    wire = Wire(2)
    urgent, normal = flow(wire, 1, priority=URGENT), flow(wire, 1, priority=NORMAL)
    wire.tell(wire.ids[0], PeerSleeps(wire.ids[1], 0))
    begun = [b"begun"] * (1000 if is_begun else 0)
    if begun:
        wire.loses = lambda destination, entry: True
        wire.send(wire.ids[0], Outbound(urgent[0], [*begun], priority=URGENT))
    wire.tell(wire.ids[0], PeerSleeps(wire.ids[1], 1))
    for number in range(100):
        wire.run(0.001)
        say(wire, b"%d" % (2 * number) + LARGE, urgent, normal)
        wire.run(0.001)
        say(wire, b"%d" % (2 * number + 1) + LARGE, normal, urgent)
    gc.collect()
    barriers = [one for one in gc.get_objects() if one.__class__ is Barrier]
    assert len(barriers) < 30
    wire.loses = lambda destination, entry: False
    left = [body.replace(LARGE, b"") for body in wake(wire)]
    assert left[: len(begun)] == begun
    assert [int(body) for body in left[len(begun) :]] == [*range(200 - len(left) + len(begun), 200)]
    assert len(left) > len(begun) + 2 or is_begun


def test_what_goes_another_way_keeps_its_age_and_its_end() -> None:
    sent, other = Sent(1, 2), Sent(1)
    for body, expires in ((b"too old", NOW + 1), (b"lasting", NOW + 9)):
        sent.channel.submit(NOW, Outbound(sent.ids, [body], messages=1, expires=expires), [])
    sent.channel.hand_over(sent.ids[0], other.channel)
    under_way, lasting = other.channel.pump(NOW + 5)
    assert [[*item.bodies] for item in (under_way, lasting)] == [[b"00000", b"00001"], [b"lasting"]]
    assert [item.header[KEY][2] for item in (under_way, lasting)] == [5000, 5000]
    assert other.statistics["messages lost: expired"] == 1
