"""Helpers: messages to frames, and frames up to another fragmentation layer."""

from __future__ import annotations

from glue.contract import Header, Inbound, Outbound, Upward, advanced
from glue.fragmentation import Fragmentation

FRAME = 100  # bytes
LIMIT = 1 << 20
PEER, OTHER = "a" * 16, "b" * 16


def layer(limit: int = LIMIT, frame: int = FRAME) -> Fragmentation:
    made = Fragmentation(message_limit=limit)
    made.fit(frame)
    return made


def run(sender: Fragmentation, body: bytes, peer: str = PEER, reliable: bool = True) -> Inbound:
    """A message as the run of frames that arrives at the peers of its sender."""
    (sent,) = sender.send(0.0, [Outbound(("c" * 16,), [body], reliable=reliable)])
    assert isinstance(sent, Outbound)
    return inbound(sent.header, *sent.bodies, peer=peer)


def inbound(header: Header, *bodies: bytes, peer: str = PEER, incarnation: int = 1, age: float = 0.0) -> Inbound:
    return Inbound(peer, incarnation, None, dict(header), list(bodies), age)


def singly(run: Inbound) -> list[Inbound]:
    """Each frame of a run on its own."""
    return [
        inbound(advanced(run.header, place), body, peer=run.peer, incarnation=run.incarnation, age=run.age)
        for place, body in enumerate(run.bodies)
    ]


def received(receiver: Fragmentation, items: list[Inbound], now: float = 0.0) -> list[tuple[str, bytes]]:
    """The messages that go up: the peer and the body of each."""
    given: list[Upward] = [*items]
    up, down = receiver.receive(now, given)
    assert down == []
    return [(item.peer, body) for item in up if isinstance(item, Inbound) for body in item.bodies]
