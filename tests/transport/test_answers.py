"""Questions and answers: what stands between a datagram's arrival and the answer to it, and what does not."""

from __future__ import annotations

from math import inf

from glue.contract import Downward, Inbound, Outbound, PeerAdded, Receipted, Upward
from glue.transport import Transport
from glue.transport.fastpath import TransportFastPath
from tests.transport.network import Wire, endpoint_id

ADDRESS = ("10.0.0.1", 1)


def test_what_data_acknowledges_is_read_after_the_data_has_been_answered() -> None:
    one, two = (Transport(endpoint_id=endpoint_id(number)) for number in (0, 1))
    one.receive(0.0, [PeerAdded(endpoint_id(1), 1, "two", ADDRESS)])
    two.receive(0.0, [PeerAdded(endpoint_id(0), 1, "one", ADDRESS)])

    def pass_on(down: list[Downward], source: int, receiver: Transport, now: float) -> list[Upward]:
        frames = [Inbound(endpoint_id(source), 1, ADDRESS, i.header, i.bodies) for i in down if isinstance(i, Outbound)]
        return receiver.receive(now, [*frames])[0]

    assert pass_on(one.send(1.0, [Outbound((endpoint_id(1),), [b"ping"])]), 0, two, 1.001)
    assert pass_on(two.send(1.001, [Outbound((endpoint_id(0),), [b"pong"])]), 1, one, 1.002)
    assert one.statistics["acknowledgements received"] == 0
    one.commit()
    assert one.deadline == -inf
    assert one.send(1.1, [Outbound((endpoint_id(1),), [b"ping"])])
    one.receive(1.2, [])
    one.commit()
    assert one.backlog == 4
    assert one.deadline < 1.25, "the round trip is the one measured when the answer came"


def test_answers_that_follow_each_other_need_no_turn_between_them() -> None:
    wire = Wire(2)
    asker, answerer = (wire.transports[id] for id in wire.ids)
    form = b"of data to one peer"
    wire.publish(0, [1], b"hello")
    wire.publish(1, [0], b"hello")
    wire.run(0.1)

    def pass_on(source: int, receiver: Transport, body: bytes) -> None:
        sender, peer = wire.transports[wire.ids[source]], wire.ids[1 - source]
        (item,) = sender.send(wire.now, [Outbound((peer,), [body])])
        assert isinstance(item, Outbound)
        frames = Inbound(wire.ids[source], 1, ADDRESS, item.header, item.bodies, form=form)
        assert (
            TransportFastPath(receiver).receive_one(wire.now + 0.001, frames)
            or receiver.receive(wire.now + 0.001, [frames])[0]
        )
        wire.now += 0.001

    for _ in range(3):
        pass_on(0, answerer, b"ping")
        pass_on(1, asker, b"pong")
    asker.send(wire.now, [Outbound((wire.ids[1],), [b"ping"])])
    asker.commit()
    assert wire.now < asker.deadline < wire.now + 1
    assert asker.backlog == 4, "what the answer acknowledged is done with"


def test_who_takes_long_to_answer_does_not_say_it_twice() -> None:
    one, two = (Transport(endpoint_id=endpoint_id(number)) for number in (0, 1))
    one.receive(0.0, [PeerAdded(endpoint_id(1), 1, "two", ADDRESS)])
    two.receive(0.0, [PeerAdded(endpoint_id(0), 1, "one", ADDRESS)])
    now = 1.0
    for _ in range(2):
        for source, (sender, hearer) in enumerate(((one, two), (two, one))):
            item = Outbound((endpoint_id(1 - source),), [b"..."])
            lone = TransportFastPath(sender).send_one(now, item)
            down = sender.send(now, [item]) if lone is None else [lone]
            sender.commit()
            assert sender.deadline > now, "there is nothing to ask for yet"
            frames = [
                Inbound(endpoint_id(source), 1, ADDRESS, i.header, i.bodies) for i in down if isinstance(i, Outbound)
            ]
            assert hearer.receive(now + 0.001, [*frames])[0]
            now += 0.03  # that is how long its handler takes


def test_a_receipt_is_told_although_its_acknowledgement_came_with_data_and_others_are_sent_to_first() -> None:
    wire = Wire(3)
    here, there, _ = wire.ids
    wire.publish(0, [1], b"question", receipts=("receipt",))
    wire.run(0.0015)
    wire.publish(1, [0], b"answer, with the acknowledgement")
    answer = next(item for source, destination, item in wire.sent if (source, destination) == (there, here))
    transport = wire.transports[here]
    transport.receive(wire.now, [Inbound(there, 1, None, answer.header, answer.bodies)])
    transport.commit()
    assert transport.backlog == 0
    wire.publish(0, [2], b"to another")
    wire.run(0.0)
    assert [item.receipt for item in wire.news[here] if isinstance(item, Receipted)] == ["receipt"]
