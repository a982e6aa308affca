"""Streams to receivers of which some are silent."""

from __future__ import annotations

from tests.transport.network import Wire

BODY = bytes(1000)


def silence(wire: Wire, number: int) -> None:
    """Nothing more reaches an endpoint, or comes from it."""
    wire.cut |= {(id, wire.ids[number]) for id in wire.ids} | {(wire.ids[number], id) for id in wire.ids}


def stream(wire: Wire, seconds: float) -> int:
    """20 MB/s, as long as less than 4 MB wait to be acknowledged; returns how many messages of 100 frames that were."""
    count, until = 0, wire.now + seconds
    while wire.now < until:
        if wire.backlog < 4 << 20:
            wire.publish(0, [1, 2, 3], BODY, frames=100)
            count += 1
        wire.run(0.005)
    return count
