"""The order of a topic while its receivers change: what waits for what, and what need not."""

from __future__ import annotations

import pytest

from glue.contract import BULK, NORMAL, URGENT, Flow, Outbound
from glue.transport.layer import GROUPS
from tests.transport.network import Wire

MANY = 14  # endpoints: their sets of three are more than there are groups


def flow(wire: Wire, *receivers: int, priority: int = NORMAL) -> Flow:
    return tuple(wire.ids[number] for number in sorted(receivers)), priority


def say(wire: Wire, body: bytes, where: Flow, *after: Flow, expires: float = float("inf")) -> None:
    peers, priority = where
    wire.send(wire.ids[0], Outbound(peers, [body], after=after, priority=priority, expires=expires))


def heard_by(wire: Wire, number: int) -> list[bytes]:
    return [body for _, body in wire.heard[wire.ids[number]] if not body.startswith(b"other")]


def use_all_groups(wire: Wire) -> None:
    """Multicast to so many sets of receivers that no group is left; to the last endpoints, which are cut off."""
    first = len(wire.ids) - 12
    sets = [(a, b) for a in range(first, len(wire.ids)) for b in range(first, a)]
    wire.cut = {(wire.ids[0], id) for id in wire.ids[first:]}
    for pair in sets[:GROUPS]:
        say(wire, b"other", flow(wire, *pair))
    assert len(sets) > GROUPS


def release_groups(wire: Wire) -> None:
    """Let those who were cut off be gone, so that all groups are free again."""
    for id in wire.ids[-12:]:
        wire.remove(wire.ids[0], id, "expired")


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("then", [(1, 2), (1,), (1, 3), (1, 2, 3)])
@pytest.mark.parametrize("priority", [NORMAL, URGENT])
def test_what_had_to_go_by_unicast_for_want_of_a_group_is_not_overtaken(
    free: bool, then: tuple[int, ...], priority: int
) -> None:
    wire = Wire(16, seed=5)
    use_all_groups(wire)
    wire.cut.add((wire.ids[0], wire.ids[1]))
    both, next_flow = flow(wire, 1, 2), flow(wire, *then, priority=priority)
    say(wire, b"first", both)
    assert wire.transports[wire.ids[0]].statistics["messages sent by unicast for want of a group"] == 1
    wire.run(0.01)
    wire.cut.remove((wire.ids[0], wire.ids[1]))
    if free:
        release_groups(wire)
    say(wire, b"second", next_flow, *([both] if next_flow != both else []))
    wire.run(10)
    assert heard_by(wire, 1) == [b"first", b"second"]
    assert heard_by(wire, 2) == ([b"first", b"second"] if 2 in then else [b"first"])


def test_a_message_that_expires_before_it_is_sent_holds_up_nothing_that_was_to_follow_it() -> None:
    wire = Wire(3)
    wire.cut = {(wire.ids[0], wire.ids[1])}
    both, one = flow(wire, 1, 2), flow(wire, 1)
    say(wire, b"first", one)
    say(wire, b"short-lived", both, one, expires=wire.now + 1)
    say(wire, b"lasting", one, both)
    wire.run(2)
    wire.cut = set()
    wire.run(3)
    assert heard_by(wire, 1) == [b"first", b"lasting"]
    assert wire.backlog == 0


def test_what_follows_a_message_that_expired_while_it_waited_does_not_overtake_what_that_waited_for() -> None:
    wire = Wire(3)
    wire.loses = lambda destination, entry: destination == wire.ids[1] and entry[0] == "data"
    both, one = flow(wire, 1, 2), flow(wire, 1)
    say(wire, b"first", one)
    say(wire, b"short-lived", both, one, expires=wire.now + 0.01)
    wire.run(0.05)
    say(wire, b"lasting", both)
    wire.run(0.5)
    wire.loses = lambda destination, entry: False
    wire.run(3)
    assert heard_by(wire, 1) == [b"first", b"lasting"]
    assert wire.backlog == 0


def test_what_waits_for_a_less_urgent_message_goes_on_when_that_expires() -> None:
    wire = Wire(2)
    normal, bulk, urgent = (flow(wire, 1, priority=priority) for priority in (NORMAL, BULK, URGENT))
    say(wire, b"first", normal)
    say(wire, b"short-lived", bulk, normal, expires=wire.now)
    say(wire, b"lasting", urgent, bulk)
    wire.run(3)
    assert heard_by(wire, 1) == [b"first", b"lasting"]
    assert wire.backlog == 0


def test_a_receiver_whose_invitation_came_late_is_soon_as_fast_as_the_others() -> None:
    wire = Wire(3)
    wire.cut = {(wire.ids[0], wire.ids[2])}
    for number in range(200):
        wire.publish(0, [1, 2], b"%d" % number)
        wire.run(0.005)
    wire.cut, wire.loss = set(), 0.2
    wire.run(3)
    assert heard_by(wire, 2) == heard_by(wire, 1) == [b"%d" % number for number in range(200)]


def test_a_receiver_that_is_away_does_not_hold_up_those_who_hear_on_without_it() -> None:
    wire = Wire(3)
    both, one = flow(wire, 1, 2), flow(wire, 1)
    wire.cut = {(wire.ids[0], wire.ids[2])}
    say(wire, b"for both", both)
    say(wire, b"for one", one, both)
    wire.run(1)
    assert heard_by(wire, 1) == [b"for both", b"for one"]


@pytest.mark.parametrize("early", [False, True])
def test_a_stopped_receiver_does_not_hold_up_those_whom_another_joins_and_gets_all_in_order(early: bool) -> None:
    wire = Wire(10)
    eight, nine = flow(wire, *range(1, 9)), flow(wire, *range(1, 10))
    say(wire, b"0", eight)
    wire.run(1)
    wire.cut = {(wire.ids[0], wire.ids[1])}
    for number in range(1, 5):
        say(wire, b"%d" % number, eight)
    if not early:
        wire.run(0.5)
    say(wire, b"5", nine, eight)
    wire.run(0.5 if early else 0.05)
    assert heard_by(wire, 9) == [b"5"]
    assert all(heard_by(wire, number) == [b"%d" % n for n in range(6)] for number in range(2, 9))
    say(wire, b"6", nine)
    wire.run(1)
    assert heard_by(wire, 9) == [b"5", b"6"]
    wire.cut = set()
    wire.run(1)
    say(wire, b"7", nine)
    wire.run(1)
    assert heard_by(wire, 1) == [b"%d" % number for number in range(8)]
    wire.run(5)
    assert wire.backlog == 0
    assert all(transport.deadline == float("inf") for transport in wire.transports.values())


def test_what_is_given_up_for_a_stopped_receiver_does_not_let_it_overtake_what_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glue.transport.slow_receivers.KEPT", 1 << 20)
    wire = Wire(6)
    three, four, five = flow(wire, 1, 2, 3), flow(wire, 1, 2, 3, 4), flow(wire, 1, 2, 3, 4, 5)
    say(wire, b"0", three)
    wire.run(1)
    wire.cut = {(wire.ids[0], wire.ids[1])}
    say(wire, b"1", three)
    wire.run(0.5)
    say(wire, b"2", four, three)
    say(wire, b"3", five, four)
    for _ in range(2000):
        say(wire, b"other" * 200, four)
    wire.run(5)
    assert wire.transports[wire.ids[0]].statistics["messages lost: receiver too slow"] > 0
    wire.cut = set()
    wire.run(20)
    assert heard_by(wire, 1) == [b"0", b"1", b"3"]
    assert heard_by(wire, 2) == [b"0", b"1", b"2", b"3"]
    assert wire.backlog == 0
    assert all(transport.deadline == float("inf") for transport in wire.transports.values())
