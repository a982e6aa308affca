"""Shared by the tests with real sockets: opening a network, and collecting what it hears as single datagrams."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from glue.contract import Address, Train
from glue.network import MulticastNetwork

PATIENCE = 5.0  # seconds until a datagram that did not come is taken for lost


def datagrams_of(trains: Iterable[Train]) -> list[tuple[Address | None, bytes]]:
    """Source and payload of each datagram of these trains."""
    return [
        (train.address, bytes(train.data[start : start + train.segment]))
        for train in trains
        for start in range(0, len(train.data), train.segment)
    ]


def heard_with_source(network: MulticastNetwork, count: int) -> list[tuple[Address | None, bytes]]:
    """The next `count` datagrams and where they came from; fewer if they do not come."""
    heard: list[tuple[Address | None, bytes]] = []
    deadline = time.monotonic() + PATIENCE
    while len(heard) < count and time.monotonic() < deadline:
        network.wait(0.1)
        heard += datagrams_of(network.receive())
    return heard


def heard(network: MulticastNetwork, count: int) -> list[bytes]:
    """The next `count` datagrams; fewer if they do not come."""
    return [payload for _, payload in heard_with_source(network, count)]


def quiet(network: MulticastNetwork) -> bool:
    """Whether nothing is waiting to be received. Within one machine what was sent has arrived."""
    return not list(network.receive())


def free_port() -> int:
    """A port for a group of this test alone, so that tests running side by side do not hear each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def opened(
    interface: str | None,
    group: str,
    listen_port: int = 0,
    receive_buffer: int = 1 << 20,
    offload: bool = True,
    sched_batch: bool = True,
) -> Iterator[MulticastNetwork]:
    """A network, closed afterwards."""
    network = MulticastNetwork(
        interface=interface,
        multicast_address=group,
        listen_port=listen_port,
        receive_buffer=receive_buffer,
        offload=offload,
        sched_batch=sched_batch,
    )
    try:
        yield network
    finally:
        network.close()
