"""Each option that the two sockets get, in order, for both families, with a socket that the test plays."""

from __future__ import annotations

import errno
import socket
import struct
import sys
from typing import Any

import pytest

import glue
from glue.contract import RENDEZVOUS_PORT
from glue.network import sockets
from glue.network.group import parse_group
from glue.network.interfaces import Interface

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="plays sockets of Linux")
FOUR, SIX = parse_group("239.192.137.1:40000"), parse_group("[ff15::1]:40000")
ETH = Interface("eth7", 7, ("192.0.2.2", "192.0.2.3"), ("fe80::2", "2001:db8::2"))
HERE = socket.inet_aton("192.0.2.2")


class Played:
    """A socket that notes what it is asked, refuses some of it, and grants buffers up to a limit."""

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.refuses: dict[Any, int] = {}
        self.limits: dict[int, int] = {}
        self.granted: dict[int, int] = {}

    def __call__(self, family: int, kind: int) -> Played:
        self.did.append(("open", family, kind))
        if (code := self.refuses.get(family)) is not None:
            raise OSError(code, "refused")
        return self

    def settimeout(self, timeout: float | None) -> None:
        self.did.append(("timeout", timeout))

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        self.did.append((level, option, value))
        if (code := self.refuses.get((level, option))) is not None:
            raise OSError(code, "refused")
        if isinstance(value, int):
            self.granted[option] = min(2 * value, self.limits.get(option, 1 << 40))

    def getsockopt(self, level: int, option: int, size: int = 0) -> Any:
        if size:
            assert (level, option, size) == (socket.SOL_SOCKET, 55, 36)
            return struct.pack("@9I", *range(1, 9), 77)
        return self.granted.get(option, 0)

    def bind(self, address: Any) -> None:
        self.did.append(("bind", address))
        if (code := self.refuses.get(address)) is not None:
            raise OSError(code, "refused")

    def close(self) -> None:
        self.did.append("close")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    made = Played()
    monkeypatch.setattr(socket, "socket", made)
    monkeypatch.setattr(sys, "platform", "linux")
    return made


def test_the_multicast_socket_shares_its_port_and_hears_its_group_alone(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    reuse = (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sockets.open_multicast_socket(FOUR)
    opened = [("open", socket.AF_INET, socket.SOCK_DGRAM), ("timeout", None)]
    assert played.did == [*opened, reuse, (socket.IPPROTO_IP, 49, 0), ("bind", ("239.192.137.1", 40000))]
    played.did.clear()
    played.refuses[("239.192.137.1", 40000)] = errno.EADDRNOTAVAIL
    sockets.open_multicast_socket(FOUR, ETH)
    bound = (socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth7")
    tries = [("bind", ("239.192.137.1", 40000)), ("bind", ("0.0.0.0", 40000))]
    assert played.did == [*opened, reuse, (socket.IPPROTO_IP, 49, 0), bound, *tries]
    played.did.clear()
    sockets.open_multicast_socket(SIX)
    only = (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    assert played.did == [
        ("open", socket.AF_INET6, socket.SOCK_DGRAM), ("timeout", None), only, reuse, (socket.IPPROTO_IPV6, 29, 0),
        ("bind", ("::", 40000)),
    ]  # fmt: skip
    played.did.clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    played.refuses.clear()
    sockets.open_multicast_socket(FOUR, ETH)
    assert played.did == [
        *opened, reuse, (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1), ("bind", ("239.192.137.1", 40000)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("port", "group", "source", "bound"),
    [
        (0, FOUR, None, [("0.0.0.0", RENDEZVOUS_PORT)]),
        (5000, FOUR, None, [("0.0.0.0", 5000)]),
        (0, parse_group(f"239.192.137.1:{RENDEZVOUS_PORT}"), None, [("0.0.0.0", 0)]),
        (0, SIX, None, [("::", RENDEZVOUS_PORT)]),
        (0, FOUR, ETH, [("192.0.2.2", RENDEZVOUS_PORT)]),
        (5000, SIX, ETH, [("fe80::2", 5000, 0, 7)]),
        (5000, SIX, Interface("eth8", 8, (), ("2001:db8::2",)), [("2001:db8::2", 5000, 0, 0)]),
    ],
)
def test_the_unicast_socket_sends_on_one_segment_and_never_in_fragments(
    played: Played, port: int, group: Any, source: Interface | None, bound: list[Any]
) -> None:
    sockets.open_unicast_socket(group, port, source)
    is_six = group.family == socket.AF_INET6
    level = socket.IPPROTO_IPV6 if is_six else socket.IPPROTO_IP
    through = (level, 76 if is_six else 50, socket.htonl(source.number)) if source is not None else None
    expected = [
        *[("bind", address) for address in bound], *([through] if through else []),
        (level, socket.IPV6_MULTICAST_HOPS if is_six else socket.IP_MULTICAST_TTL, 1),
        (level, socket.IPV6_MULTICAST_LOOP if is_six else socket.IP_MULTICAST_LOOP, 1),
        (level, 23 if is_six else 10, 3),
        (socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 0, 20_000)),
    ]  # fmt: skip
    assert played.did[3 if is_six else 2 :] == expected


def test_another_port_is_taken_where_the_usual_one_is_not_to_be_had(played: Played) -> None:
    played.refuses[("0.0.0.0", RENDEZVOUS_PORT)] = errno.EADDRINUSE
    sockets.open_unicast_socket(FOUR, 0)
    assert [one for one in played.did if one[0] == "bind"] == [
        ("bind", ("0.0.0.0", RENDEZVOUS_PORT)), ("bind", ("0.0.0.0", 0)),
    ]  # fmt: skip


def test_what_cannot_be_bound_is_closed_and_said(played: Played) -> None:
    for code, kind, words in (
        (errno.EADDRINUSE, glue.PortInUseError, "the port is taken by another program"),
        (errno.EACCES, glue.ConfigurationError, "refused"),
    ):
        for address in (("239.192.137.1", 40000), ("0.0.0.0", 40000), ("0.0.0.0", 5000)):
            played.refuses[address] = code
        played.did.clear()
        with pytest.raises(kind) as caught:
            sockets.open_unicast_socket(FOUR, 5000)
        assert f"listen_port=5000: {words}; choose another, or 0 for any free one" in str(caught.value)
        assert played.did[-1] == "close"
        with pytest.raises(kind) as caught:
            sockets.open_multicast_socket(FOUR)
        said = f"multicast_address='239.192.137.1:40000': {words}; choose another port for the group"
        assert said in str(caught.value)
        assert played.did[-1] == "close"
    played.refuses[socket.AF_INET6] = errno.EAFNOSUPPORT
    with pytest.raises(glue.ConfigurationError, match="no such address family"):
        sockets.open_multicast_socket(SIX)


def test_groups_are_joined_left_and_sent_through_by_index_or_address(played: Any) -> None:
    by_index, by_address = FOUR.packed + bytes(4) + struct.pack("@i", 7), FOUR.packed + HERE
    level = socket.IPPROTO_IP
    sockets.join(played, FOUR, ETH)
    sockets.leave(played, FOUR, ETH)
    sockets.send_through(played, FOUR, ETH)
    through = FOUR.packed + HERE + struct.pack("@i", 7)
    assert played.did == [
        (level, socket.IP_ADD_MEMBERSHIP, by_index), (level, socket.IP_DROP_MEMBERSHIP, by_index),
        (level, socket.IP_MULTICAST_IF, through),
    ]  # fmt: skip
    played.did.clear()
    played.refuses[level, socket.IP_ADD_MEMBERSHIP] = errno.EADDRINUSE  # joined already
    played.refuses[level, socket.IP_DROP_MEMBERSHIP] = errno.EADDRNOTAVAIL
    sockets.join(played, FOUR, ETH)
    sockets.leave(played, FOUR, ETH)
    assert [value for _, _, value in played.did] == [by_index, by_address] * 2
    played.refuses[level, socket.IP_ADD_MEMBERSHIP] = errno.ENODEV
    with pytest.raises(OSError, match="refused"):
        sockets.join(played, FOUR, ETH)
    played.did.clear()
    sockets.send_through(played, FOUR, Interface("eth8", 8))
    assert played.did[-1][2] == FOUR.packed + bytes(4) + struct.pack("@i", 8)
    played.did.clear()
    six = SIX.packed + struct.pack("@I", 7)
    sockets.join(played, SIX, ETH)
    sockets.leave(played, SIX, ETH)
    sockets.send_through(played, SIX, ETH)
    assert played.did == [
        (socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, six), (socket.IPPROTO_IPV6, socket.IPV6_LEAVE_GROUP, six),
        (socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, struct.pack("@I", 7)),
    ]  # fmt: skip


def test_buffers_are_asked_for_with_force_then_as_granted(played: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    played.granted = {socket.SO_RCVBUF: 2 * 212_992}
    played.limits = {socket.SO_RCVBUF: 2 * 212_992, socket.SO_SNDBUF: 1 << 40}
    assert sockets.raise_receive_buffer(played, 32 << 20) == 212_992
    assert played.did == [(socket.SOL_SOCKET, 33, 32 << 20), (socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 20)]
    played.did.clear()
    played.granted = {socket.SO_SNDBUF: 8 << 20}  # as the forced one was taken
    assert sockets.raise_send_buffer(played) == 4 << 20
    assert played.did == [(socket.SOL_SOCKET, 32, 4 << 20)]
    played.did.clear()
    assert sockets.raise_send_buffer(played, 1 << 40) == (1 << 30) - 1
    played.granted, played.limits = {socket.SO_RCVBUF: 1}, {}
    played.did.clear()
    played.refuses[socket.SOL_SOCKET, socket.SO_RCVBUF] = errno.ENOBUFS
    monkeypatch.setattr(sys, "platform", "darwin")
    assert sockets.raise_receive_buffer(played, 256 << 10) == 1
    assert [value >> 10 for _, _, value in played.did] == [256, 128, 64]  # less is of no use
    monkeypatch.setattr(sys, "platform", "linux")
    assert sockets.kernel_drops(played) == 77
