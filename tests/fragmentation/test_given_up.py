"""What still comes of a message that was given up is late: counted so, never taken for a new message."""

from __future__ import annotations

import pytest

from glue.contract import PeerRemoved
from glue.fragmentation.assembly import EXPIRY, FINISHED, FRAGMENT_COST, MESSAGE_COST, RELIABLE_EXPIRY
from glue.fragmentation.layer import PEER_FACTOR
from tests.fragmentation.frames import OTHER, PEER, inbound, layer, received, run, singly


@pytest.mark.parametrize(("reliable", "expiry"), [(True, RELIABLE_EXPIRY), (False, EXPIRY)])
def test_the_rest_of_a_message_that_expired_is_late(reliable: bool, expiry: float) -> None:
    sender, receiver = layer(), layer()
    frames = singly(run(sender, bytes(1000), reliable=reliable))
    assert received(receiver, frames[:4], 10.0) == []
    assert receiver.deadline == 10.0 + expiry
    receiver.receive(10.0 + expiry - 0.01, [])
    assert receiver.statistics["messages expired incomplete"] == 0
    receiver.receive(10.0 + expiry, [])
    assert receiver.statistics["messages expired incomplete"] == 1
    assert receiver.deadline == float("inf")
    assert received(receiver, frames[4:], 10.0 + expiry + 1) == []
    assert receiver.statistics["late fragments"] == 6
    assert receiver.deadline == float("inf")
    assert received(receiver, [run(sender, b"x" * 500, reliable=reliable)], 11.0 + expiry) == [(PEER, b"x" * 500)]


@pytest.mark.parametrize("peers", [(PEER,), (PEER, OTHER, "d" * 16)])
def test_the_rest_of_a_message_that_was_dropped_over_budget_is_late(peers: tuple[str, ...]) -> None:
    """The message that waited longest goes; the others are completed. A peer has room for two, all for five."""
    limit, frame = 10_000, 1000
    most = 3 if len(peers) == 1 else 6
    assert PEER_FACTOR * limit < 3 * (MESSAGE_COST + 5 * (frame + FRAGMENT_COST)) < 1.5 * PEER_FACTOR * limit
    senders = {peer: layer(limit, frame) for peer in peers}
    receiver = layer(limit, frame)
    begun = []
    for number in range(most):
        assert receiver.statistics["messages dropped over budget"] == 0
        peer = peers[number % len(peers)]
        begun.append(singly(run(senders[peer], bytes([number]) * limit, peer=peer)))
        received(receiver, begun[-1][:5], float(number))
    assert receiver.statistics["messages dropped over budget"] == 1
    assert received(receiver, begun[0][5:], 50.0) == []
    assert receiver.statistics["late fragments"] == 5
    for frames in begun[1:]:
        assert len(received(receiver, frames[5:], 50.0)) == 1
    assert receiver.statistics["late fragments"] == 5


def test_so_many_numbers_of_finished_messages_are_remembered() -> None:
    sender, receiver = layer(), layer()
    first = run(sender, bytes(200))
    received(receiver, [first])
    for _ in range(FINISHED - 1):
        received(receiver, [run(sender, bytes(200))])
    received(receiver, [first])
    assert receiver.statistics["late fragments"] == 2
    received(receiver, [run(sender, bytes(200))])
    assert len(received(receiver, [first])) == 1


def test_what_a_peer_began_is_forgotten_with_it_and_gives_back_its_room() -> None:
    limit, frame = 10_000, 1000
    receiver = layer(limit, frame)
    for life in range(1, 20):
        sender = layer(limit, frame)
        for _ in range(2):
            frames = run(sender, bytes(limit // 2))
            received(receiver, [inbound(frames.header, *list(frames.bodies)[:-1], incarnation=life)])
        if life % 2:
            receiver.receive(0.0, [PeerRemoved(PEER, life, "a", "goodbye")])
    assert receiver.statistics["messages dropped over budget"] == 0
    assert receiver.statistics["messages dropped with their peer"] == 2 * 19


def test_a_peer_that_comes_back_in_the_same_life_goes_on_in_the_middle_of_a_message() -> None:
    sender, receiver = layer(), layer()
    frames = singly(run(sender, b"m" * 1000))
    received(receiver, frames[:5], 0.0)
    receiver.receive(1.0, [PeerRemoved(PEER, 1, "a", "expired")])
    assert received(receiver, frames[5:], RELIABLE_EXPIRY - 1) == [(PEER, b"m" * 1000)]
