"""Helpers: frames to datagrams and back, and what a run of frames says frame by frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from glue.contract import Header, Inbound, Outbound, Train, advanced
from glue.serialization import Serialization

SENDER, READER = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"
ADDRESS = ("10.0.0.1", 4000)

Frame = tuple[str, int, Any, Header, bytes]
"""Peer, incarnation, address, header, body."""


def writer(counter: int = 0, network_id: int = 1, endpoint_id: str = SENDER, incarnation: int = 77) -> Serialization:
    return Serialization(endpoint_id=endpoint_id, incarnation=incarnation, network_id=network_id, counter=counter)


def reader() -> Serialization:
    return Serialization(endpoint_id=READER, incarnation=1, network_id=1)


def outbound(bodies: Iterable[bytes], header: Header | None = None) -> Outbound:
    return Outbound((), list(bodies), header, address=ADDRESS)


def train(datagrams: list[bytes]) -> Train:
    """Datagrams of one size, the last of which may be shorter, as they arrive together."""
    segment = len(datagrams[0])
    assert all(len(datagram) == segment for datagram in datagrams[:-1])
    assert len(datagrams[-1]) <= segment
    return Train(ADDRESS, memoryview(b"".join(datagrams)), segment)


def cut(train: Train) -> list[bytes]:
    """The datagrams of a train."""
    data = bytes(train.data)
    return [data[at : at + train.segment] for at in range(0, len(data), train.segment or 1)]


def written(bodies: Iterable[bytes], header: Header | None = None, **options: Any) -> list[bytes]:
    """The datagrams of one run of frames."""
    (sent,) = writer(**options).send(0.0, [outbound(bodies, header)])
    return cut(sent)


def frames(runs: list[Inbound]) -> list[Frame]:
    """What the runs say, frame by frame."""
    return [
        (run.peer, run.incarnation, run.address, advanced(run.header, place), body)
        for run in runs
        for place, body in enumerate(run.bodies)
    ]


def read(datagrams: list[bytes], layer: Serialization | None = None) -> list[Inbound]:
    """The runs in datagrams that arrive together."""
    up, down = (layer or reader()).receive(0.0, [train(datagrams)])
    assert down == []
    return up


def read_alone(datagrams: list[bytes], layer: Serialization) -> list[Frame]:
    """The naive twin of reading a train: each datagram on its own."""
    up, _ = layer.receive(0.0, [Train(ADDRESS, datagram, len(datagram)) for datagram in datagrams])
    return frames(up)
