"""A message that comes by itself, and that nothing stands before, is not queued; no other layer or peer notices."""

from __future__ import annotations

from math import inf
from typing import Any

from glue.contract import CONSUMED, Downward, Inbound, Interest, Outbound, Receipted
from glue.transport import Transport
from glue.transport.fastpath import TransportFastPath
from glue.transport.reception import INCOMING
from glue.transport.wire import KEY
from tests.transport.network import Wire

COMPANY = Interest([], [])  # passes through; but who goes beside it does not go alone


def sent_alone(transport: Transport, now: float, item: Outbound) -> list[Downward]:
    """What goes down for an item that is the only one."""
    lone = TransportFastPath(transport).send_one(now, item)
    return transport.send(now, [item]) if lone is None else [lone]


def told(down: list[Downward]) -> list[tuple[Any, ...]]:
    return [(item.peers, item.bodies, item.header[KEY]) for item in down if isinstance(item, Outbound)]


def test_a_lone_message_leaves_as_one_in_company_does_until_the_window_is_full() -> None:
    alone, in_company = Wire(2), Wire(2)
    sent: list[list[tuple[Any, ...]]] = [[], []]
    for number in range(400):
        one, other = [Outbound((wire.ids[1],), [b"%d" % number]) for wire in (alone, in_company)]
        sent[0] += told(sent_alone(alone.transports[alone.ids[0]], alone.now, one))
        sent[1] += told(in_company.transports[in_company.ids[0]].send(in_company.now, [other, COMPANY]))
    assert sent[0] == sent[1]
    assert 100 < len(sent[0]) < 400
    assert alone.backlog == in_company.backlog


def test_a_lone_message_does_not_overtake_what_waits() -> None:
    wire = Wire(2)
    bodies = [b"%d" % number for number in range(1000)]
    for body in bodies:
        wire.publish(0, [1], body)
    wire.run(1)
    assert [body for _, body in wire.heard[wire.ids[1]]] == bodies
    assert wire.backlog == 0


def test_a_lone_message_that_is_too_old_is_not_sent() -> None:
    wire = Wire(2)
    wire.publish(0, [1], b"first")
    wire.run(0.1)
    transport = wire.transports[wire.ids[0]]
    assert not told(sent_alone(transport, wire.now, Outbound((wire.ids[1],), [b"late"], expires=wire.now - 1)))
    assert transport.statistics["frames expired unsent"] == 1


def test_who_waits_for_a_receipt_is_told_though_something_is_sent_between_the_acknowledgement_and_the_turn() -> None:
    wire = Wire(2)
    wire.publish(0, [1], b"first")
    wire.run(0.1)
    transport, peer = wire.transports[wire.ids[0]], wire.ids[1]
    receipt = object()
    frames = sent_alone(transport, wire.now, Outbound((peer,), [b"second"], receipts=[receipt]))[0]
    assert isinstance(frames, Outbound)
    number, sequence = frames.header[KEY][-2:]

    def acknowledgement(upto: int) -> Inbound:
        header = {KEY: ["ack", 0, 4096, number, upto]}
        return Inbound(peer, wire.incarnations[peer], None, header, [b"[]"], form=b"of an acknowledgement")

    transport.receive(wire.now, [acknowledgement(sequence)])
    assert TransportFastPath(transport).receive_one(wire.now, acknowledgement(sequence + 1)) is CONSUMED
    transport.send(wire.now, [COMPANY])
    up, _ = transport.receive(wire.now, [])
    assert [(news.receipt, news.peer) for news in up if isinstance(news, Receipted)] == [(receipt, peer)]


def acknowledged(transport: Transport, wire: Wire, peer: str, channel: int, upto: int) -> None:
    """An acknowledgement takes the fast path."""
    run = Inbound(peer, 1, None, {KEY: ["ack", 0, 4096, channel, upto]}, [b"[]"], form=b"of an acknowledgement")
    if TransportFastPath(transport).receive_one(wire.now, run) is None:
        transport.receive(wire.now, [run])


def test_an_acknowledgement_asks_for_a_turn_only_if_there_is_more_to_do() -> None:
    wire = Wire(2)
    transport, peer = wire.transports[wire.ids[0]], wire.ids[1]
    acknowledged(transport, wire, peer, 77, 1)  # of a channel long gone: from now on the form is known
    sent = [sent_alone(transport, wire.now, Outbound((peer,), [b"frame"] * 30))[0] for _ in range(3)]
    number, _ = told(sent)[0][2][-2:]
    acknowledged(transport, wire, peer, number, 30)
    transport.commit()
    assert wire.now < transport.deadline < wire.now + 1
    transport.send(wire.now, [Outbound((peer,), [b"frame"] * 60), Outbound((peer,), [b"frame"] * 60)])
    acknowledged(transport, wire, peer, number, 90)
    transport.commit()
    assert transport.deadline < wire.now  # the second of these waits for the window
    down = transport.receive(wire.now, [])[1]
    assert [len(bodies) for _, bodies, _ in told(down)] == [60]
    acknowledged(transport, wire, peer, number, 210)
    transport.commit()
    assert transport.deadline < wire.now  # it is done with
    transport.receive(wire.now, [])
    transport.commit()
    assert transport.deadline == inf


def test_what_is_sent_again_is_what_was_handed_down_whatever_those_below_made_of_it() -> None:
    wire = Wire(2)
    wire.publish(0, [1], b"first")
    wire.run(0.1)
    transport = wire.transports[wire.ids[0]]
    frames = TransportFastPath(transport).send_one(wire.now, Outbound((wire.ids[1],), [b"plain"], {"above": [1]}))
    assert frames is not None
    frames.bodies, frames.header["above"] = [b"encrypted"], [2]
    transport.commit()
    wire.now = transport.deadline
    (resent,) = [item for item in transport.receive(wire.now, [])[1] if isinstance(item, Outbound)]
    assert (resent.bodies, resent.header["above"]) == ([b"plain"], [1])


def way_after_losses(delay: float) -> Downward | None:
    """How a lone message leaves after many of which one in 25 was lost; None if it is to be queued."""
    wire = Wire(2, loss=0.04)
    wire.delay = delay
    for number in range(3000):
        wire.publish(0, [1], b"%d" % number)
        wire.run(0.001)
    wire.loss = 0.0
    wire.run(10 * delay)
    assert [body for _, body in wire.heard[wire.ids[1]]] == [b"%d" % number for number in range(3000)]
    return TransportFastPath(wire.transports[wire.ids[0]]).send_one(wire.now, Outbound((wire.ids[1],), [b"x"]))


def test_after_a_loss_a_lone_message_leaves_at_once_unless_it_is_to_be_covered_by_parity() -> None:
    assert way_after_losses(0.0005) is not None
    assert way_after_losses(0.02) is None


def test_only_frames_that_come_next_and_for_the_first_time_are_awaited() -> None:
    wire = Wire(2)
    transport, peer = wire.transports[wire.ids[0]], wire.ids[1]

    path = TransportFastPath(transport)

    def run(
        sequence: int, attempt: int = 0, incarnation: int = wire.incarnations[peer], form: bytes | None = b"data"
    ) -> Inbound:
        entry = ["data", attempt, 0, 0, 0, 0, 1, sequence]
        return Inbound(peer, incarnation, None, {KEY: entry}, [b"frame"], form=form)

    assert not path.awaits(run(0))  # nothing is known of the form of its header, nor of its channel
    transport.receive(wire.now, [run(0)])
    assert path.awaits(run(1))
    assert not path.awaits(run(0))
    assert not path.awaits(run(2))
    assert not path.awaits(run(1, attempt=1))
    assert not path.awaits(run(1, incarnation=wire.incarnations[peer] + 1))
    assert not path.awaits(run(1, form=None))
    acknowledgement = Inbound(peer, wire.incarnations[peer], None, {KEY: ["ack", 0, 4096, 1, 1]}, [b"[]"], form=b"ack")
    transport.receive(wire.now, [acknowledgement])
    assert not path.awaits(acknowledgement)
    transport.receive(wire.now, [run(3)])
    assert not path.awaits(run(1))  # as something is missing, it may be sent again
    transport.receive(wire.now, [run(1), run(2)])
    assert path.awaits(run(4))


def test_a_channel_whose_frames_all_take_the_fast_path_is_not_taken_for_the_least_recently_used() -> None:
    wire = Wire(2)
    transport, peer = wire.transports[wire.ids[0]], wire.ids[1]
    wire.publish(1, [0], b"frame")
    header = wire.sent[0][2].header

    def frame(channel: int, sequence: int) -> Inbound:
        entry = [*header[KEY][:-2], channel, sequence]
        return Inbound(peer, wire.incarnations[peer], None, {KEY: entry}, [b"frame"], form=b"of a frame")

    fast = TransportFastPath(transport)
    for channel in range(1, INCOMING + 1):
        transport.receive(wire.now, [frame(channel, 0)])
    assert fast.receive_one(wire.now, frame(1, 1)) is not None
    transport.receive(wire.now, [frame(INCOMING + 1, 0)])  # another one has to be forgotten
    assert fast.receive_one(wire.now, frame(1, 2)) is not None
    assert fast.receive_one(wire.now, frame(2, 1)) is None
