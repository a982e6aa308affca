"""Receivers that lose their memory: a new life under the same id, or a channel that the receiver forgot."""

from __future__ import annotations

import pytest

from glue.contract import NORMAL, Flow, Inbound, Outbound, PeerAdded
from glue.transport.reception import INCOMING
from glue.transport.wire import KEY
from tests.transport.network import Wire


def flow(wire: Wire, *receivers: int) -> Flow:
    return tuple(wire.ids[number] for number in sorted(receivers)), NORMAL


def say(wire: Wire, number: int, where: Flow, *after: Flow) -> None:
    wire.send(wire.ids[0], Outbound(where[0], [b"%d" % number], after=after))


def heard_by(wire: Wire, number: int) -> list[int]:
    return [int(body) for _, body in wire.heard[wire.ids[number]]]


def forget_channels(wire: Wire, number: int) -> None:
    """Let a receiver forget all channels of the sender, as if it had too many to remember."""
    wire.transports[wire.ids[number]].sources[wire.ids[0]].channels.clear()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize("receivers", [(1,), (1, 2)])
def test_a_receiver_that_forgot_a_channel_gets_the_rest_of_it_in_order(
    receivers: tuple[int, ...], loss: float, seed: int
) -> None:
    wire = Wire(3, seed=seed, loss=loss)
    all_of_them, alone = flow(wire, *receivers), flow(wire, 1)
    for number in range(20):
        say(wire, number, all_of_them)
    wire.run(5)
    wire.cut = {(wire.ids[0], wire.ids[1])}
    say(wire, 20, all_of_them)
    forget_channels(wire, 1)
    wire.run(0.01)
    wire.cut = set()
    for number in range(21, 60):
        where, other = (alone, all_of_them) if number % 7 < 3 else (all_of_them, alone)
        say(wire, number, where, *([other] if where != other else []))
        wire.run(0.05)
    wire.run(20)
    assert wire.transports[wire.ids[0]].statistics["channels restarted"]
    assert heard_by(wire, 1) == list(range(60))
    assert wire.backlog == 0


@pytest.mark.parametrize("first_lost", [0, 7])
@pytest.mark.parametrize("receivers", [(1,), (1, 2)])
def test_what_waits_behind_a_gap_is_not_forgotten_for_the_sake_of_newer_channels(
    receivers: tuple[int, ...], first_lost: int
) -> None:
    wire = Wire(3)
    for number in range(first_lost):
        say(wire, number, flow(wire, *receivers))
    wire.run(1)
    wire.loses = lambda destination, entry: destination == wire.ids[1] and entry[-1] == first_lost
    for number in range(first_lost, 50):
        say(wire, number, flow(wire, *receivers))
    wire.run(0.1)
    for channel in range(1000, 1000 + INCOMING):
        wire.tell(wire.ids[1], Inbound(wire.ids[0], 1, None, {KEY: ["data", 0, 0, 0, 0, 0, channel, 0]}, [b"-1"]))
    wire.loses = lambda destination, entry: False
    wire.run(5)
    assert [number for number in heard_by(wire, 1) if number >= 0] == list(range(50))
    assert wire.transports[wire.ids[1]].statistics["channels forgotten"] > 0
    assert wire.transports[wire.ids[0]].statistics["channels restarted"] == 0


def test_a_new_channel_is_heard_although_all_that_are_remembered_have_a_gap() -> None:
    wire = Wire(2)
    for channel in range(1000, 1000 + INCOMING):
        wire.tell(wire.ids[1], Inbound(wire.ids[0], 1, None, {KEY: ["data", 0, 0, 0, 0, 0, channel, 1]}, [b"-1"]))
    for number in range(50):
        say(wire, number, flow(wire, 1))
    wire.run(5)
    assert heard_by(wire, 1) == list(range(50))
    assert wire.transports[wire.ids[0]].statistics["channels restarted"] == 0


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("receivers", [(1,), (1, 2)])
def test_what_a_former_life_acknowledged_counts_for_nothing_in_the_next(receivers: tuple[int, ...], seed: int) -> None:
    wire = Wire(3, seed=seed, loss=0.2, duplicate=0.3, jitter=0.1)
    where = flow(wire, *receivers)
    for number in range(30):
        say(wire, number, where)
        wire.run(0.003)
    wire.restart(0, 1)  # while acknowledgements of the former life are on their way
    for number in range(30, 60):
        say(wire, number, where)
        wire.run(0.003)
    wire.run(20)
    assert [number for number in heard_by(wire, 1) if number >= 30] == list(range(30, 60))
    assert wire.backlog == 0


def test_what_takes_another_channel_is_as_old_as_it_is() -> None:
    wire = Wire(2)
    say(wire, 0, flow(wire, 1))
    wire.run(1)
    wire.cut = {(wire.ids[0], wire.ids[1])}
    forget_channels(wire, 1)
    say(wire, 1, flow(wire, 1))
    wire.run(0.5)
    wire.cut = set()
    wire.run(5)
    assert wire.transports[wire.ids[0]].statistics["channels restarted"] == 1
    assert heard_by(wire, 1) == [0, 1]
    assert wire.ages[wire.ids[1]][1] > 0.5


@pytest.mark.parametrize("answers", [False, True])
def test_what_is_owed_to_a_former_life_is_not_told_to_the_next(answers: bool) -> None:
    wire = Wire(2)
    for number in range(3):
        wire.publish(1, [0], b"%d" % number)
    wire.run(0.0015)  # they have come, and are acknowledged soon
    wire.restart(0, 1)
    wire.cut = {(wire.ids[1], wire.ids[0])}
    for number in range(3, 6):
        wire.publish(1, [0], b"%d" % number)
    if answers:
        wire.publish(0, [1], b"an answer, which may carry acknowledgements")
    wire.run(0.01)
    wire.cut = set()
    wire.run(5)
    assert heard_by(wire, 0) == [*range(6)]


def test_a_receiver_that_is_back_hears_nothing_late_of_what_it_was_said_to_have_lost() -> None:
    wire = Wire(4)
    all_of_them = flow(wire, 1, 2, 3)
    say(wire, 0, all_of_them)
    wire.run(1)
    wire.cut = {(wire.ids[0], other) for other in wire.ids[1:]}
    say(wire, 1, all_of_them)
    wire.run(0.01)
    wire.remove(wire.ids[0], wire.ids[3], "expired")
    wire.tell(wire.ids[0], PeerAdded(wire.ids[3], 1, "back", ("10.0.0.1", 1)))
    wire.cut = set()
    say(wire, 2, flow(wire, 3))
    wire.run(5)
    assert [heard_by(wire, number) for number in (1, 2, 3)] == [[0, 1], [0, 1], [0, 2]]


def test_channels_that_are_done_with_leave_nothing_behind() -> None:
    wire = Wire(3)
    for number in range(100):
        say(wire, number, flow(wire, 1, 2))
        say(wire, number, flow(wire, 2))
        wire.cut = {(wire.ids[0], wire.ids[2])} if number % 3 else set()
        wire.run(0.1)
        wire.remove(wire.ids[0], wire.ids[2], "goodbye")
        wire.tell(wire.ids[0], PeerAdded(wire.ids[2], 1, "back", ("10.0.0.1", 1)))
    wire.run(5)
    sender = wire.transports[wire.ids[0]]
    assert heard_by(wire, 1) == list(range(100))
    assert (len(sender.channels), sender.busy, sender.unfinished) == (0, {}, 0)
    assert (sender._by_number, sender._replaced) == ({}, {})
