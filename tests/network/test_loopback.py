"""Multicasts are returned to the sending machine only where another endpoint may receive them there."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from glue.contract import TO_PEERS, Address, Train
from glue.network.loopback import MulticastLoopback
from glue.network.sender import Sender
from glue.network.sockets import OPTIONS
from tests.network.listening import free_port, heard, opened

HERE: dict[int, str] = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def sending(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """A socket that sends to itself, in place of a group."""
    with socket.socket(request.param, socket.SOCK_DGRAM) as made:
        made.bind((HERE[request.param], 0))
        yield made


def loops(sending: socket.socket) -> bool:
    """Whether the kernel's multicast loopback is on."""
    options = OPTIONS[sending.family]
    return bool(sending.getsockopt(options.level, options.loop))


def test_to_peers_nothing_comes_back_until_another_is_heard_on_this_machine(sending: socket.socket) -> None:
    loopback = MulticastLoopback(sending)
    loopback.set_addresses([HERE[sending.family]])
    sender = Sender(sending, 65507, False, Counter(), loopback)
    sender.destination = own = sending.getsockname()

    def comes_back(to: Address | None, size: int = 3) -> bool:
        sender.send([Train(to, bytes(size), 3)])
        return loops(sending)

    assert [comes_back(to) for to in (None, TO_PEERS, TO_PEERS, None, TO_PEERS)] == [True, False, False, True, False]
    assert not comes_back(own), "what goes to one changes nothing"
    assert not comes_back(TO_PEERS, 7)
    for address in (own, ("192.0.2.7", *own[1:]), ("192.0.2.7", own[1] + 1, *own[2:])):
        loopback.received_from(address)
        assert not comes_back(TO_PEERS)
    loopback.received_from((own[0], own[1] + 1, *own[2:]))
    assert [comes_back(to) for to in (TO_PEERS, None, TO_PEERS)] == [True, True, True]
    assert sender.statistics["datagrams sent"] == 15


def test_ones_own_is_what_comes_from_ones_port_at_any_address_of_this_machine(sending: socket.socket) -> None:
    loopback = MulticastLoopback(sending)
    loopback.set_addresses([HERE[sending.family], "192.0.2.1"])
    own = sending.getsockname()
    assert loopback.is_own(own)
    assert loopback.is_own(("192.0.2.1", *own[1:]))
    assert not loopback.is_own(("192.0.2.2", *own[1:]))
    assert not loopback.is_own((own[0], own[1] + 1, *own[2:]))
    loopback.received_from(("192.0.2.1", own[1] + 1))
    assert loopback.is_needed


@pytest.mark.parametrize("count", [1, 2], ids=["a datagram", "several"])
@pytest.mark.parametrize("to_all", [True, False], ids=["to all", "to this one"])
def test_a_neighbour_is_noticed_by_whatever_comes_from_it(to_all: bool, count: int) -> None:
    host, port = "239.192.1.77", free_port()
    with (
        opened("lo", f"{host}:{port}") as network,
        socket.socket(fileno=os.dup(network.filenos()[0])) as sending,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as neighbour,
    ):
        network.send([Train(TO_PEERS, b"data", 4)])
        assert heard(network, 1) == [b"data"], "loopback brings back everything"
        assert not loops(sending)
        neighbour.bind(("127.0.0.1", 0))
        neighbour.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        for _ in range(count):
            neighbour.sendto(b"hello", (host, port) if to_all else network.unicast_address)
        assert heard(network, count) == [b"hello"] * count
        network.send([Train(TO_PEERS, b"data", 4)])
        assert loops(sending)


def test_a_socket_that_refuses_is_used_as_it_is(sending: socket.socket) -> None:
    with socket.socket(sending.family, socket.SOCK_DGRAM) as other:
        other.bind((HERE[other.family], 0))
        loopback = MulticastLoopback(other)
    loopback.prepare(False)
    loopback.prepare(True)
