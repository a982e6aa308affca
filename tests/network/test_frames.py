"""What a train looks like on the cable: single Ethernet frames, that stay on the segment and are never cut by IP.

The host's eth0 is a TAP device here, which has no offloads of its own, and the test reads what leaves it.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from glue.contract import Train
from tests.network.listening import opened
from tests.support.namespaces import Host, needs_namespaces, segment

pytestmark = [pytest.mark.namespaces, needs_namespaces]

GROUP, PORT = "239.192.137.1", 37320
TUNSETIFF = 0x400454CA  # linux/if_tun.h
IFF_TAP, IFF_NO_PI = 0x2, 0x1000
ETHERNET_HEADER, UDP_HEADER = 14, 8
DONT_FRAGMENT = 0x4000


class Frame(NamedTuple):
    """A UDP datagram to the group as it was seen on the cable."""

    ttl: int
    fragment: int
    source: str
    payload: bytes


@contextmanager
def tap_as_eth0(host: Host) -> Iterator[int]:
    """Give the host a TAP device for its eth0; what leaves it is read from the file descriptor."""
    host.remove_interface()
    with host.entered():  # the device belongs to where the file was opened
        fileno = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        with host.entered():
            fcntl.ioctl(fileno, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TAP | IFF_NO_PI))
        host.ip(f"addr add {host.address}/24 dev eth0", "link set eth0 up")
        yield fileno
    finally:
        os.close(fileno)


def frames(fileno: int, count: int) -> list[Frame]:
    """The next `count` datagrams to the group; fewer if they do not come. Other frames are skipped."""
    seen: list[Frame] = []
    while len(seen) < count and select.select([fileno], [], [], 5.0)[0]:
        packet = os.read(fileno, 70_000)[ETHERNET_HEADER:]
        if packet[0] >> 4 == 4 and packet[16:20] == socket.inet_aton(GROUP) and packet[9] == socket.IPPROTO_UDP:
            (fragment,) = struct.unpack_from("!H", packet, 6)
            payload = packet[(packet[0] & 15) * 4 + UDP_HEADER :]
            seen.append(Frame(packet[8], fragment, socket.inet_ntoa(packet[12:16]), payload))
    return seen


@pytest.mark.parametrize("offload", [True, False], ids=["offload", "plain"])
def test_each_datagram_of_a_train_is_a_frame_of_its_own(offload: bool) -> None:
    with (
        segment(1) as (host,),
        tap_as_eth0(host) as cable,
        host.entered(),
        opened("eth0", f"{GROUP}:{PORT}", offload=offload) as network,
    ):
        size = network.datagram_size
        data = bytes(range(250)) * 400
        network.send([Train(None, data, size)])
        expected = [data[start : start + size] for start in range(0, len(data), size)]
        seen = frames(cable, len(expected))
        assert [frame.payload for frame in seen] == expected
        assert {(frame.ttl, frame.fragment, frame.source) for frame in seen} == {(1, DONT_FRAGMENT, host.address)}
        assert network.statistics["datagrams sent"] == len(expected)
