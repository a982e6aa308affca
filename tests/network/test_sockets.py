"""`MulticastNetwork` on the loopback interface: several endpoints in one process are as good as several processes."""

from __future__ import annotations

import logging
import os
import select
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from glue.contract import Network, Train
from glue.errors import ConfigurationError, InterfaceError, PortInUseError
from glue.network import MulticastNetwork, list_interfaces
from tests.network.listening import datagrams_of, free_port, heard, heard_with_source, opened, quiet

LOOPBACK = next(interface.name for interface in list_interfaces() if interface.loopback)


@pytest.fixture
def group() -> str:
    return f"239.192.137.77:{free_port()}"


@pytest.fixture(params=[True, False], ids=["offload", "plain"])
def pair(request: pytest.FixtureRequest, group: str) -> Iterator[tuple[MulticastNetwork, MulticastNetwork]]:
    with (
        opened(LOOPBACK, group, offload=request.param) as first,
        opened(LOOPBACK, group, offload=request.param) as second,
    ):
        yield first, second


def test_it_is_a_network(group: str) -> None:
    with opened(LOOPBACK, group) as network:
        as_promised: Network = network
        assert as_promised.datagram_size == 1472


def test_everyone_on_the_machine_hears_a_multicast(pair: tuple[MulticastNetwork, MulticastNetwork]) -> None:
    first, second = pair
    first.send([Train(None, b"to all", 6)])
    assert heard_with_source(first, 1) == heard_with_source(second, 1) == [(first.unicast_address, b"to all")]


def test_a_unicast_is_heard_by_its_receiver_alone(pair: tuple[MulticastNetwork, MulticastNetwork]) -> None:
    first, second = pair
    first.send([Train(second.unicast_address, b"to you", 6)])
    assert heard_with_source(second, 1) == [(first.unicast_address, b"to you")]
    assert quiet(first)


@pytest.mark.parametrize("multicast", [True, False], ids=["multicast", "unicast"])
@pytest.mark.parametrize("length", [1, 1199, 1200, 1201, 64 * 1200, 150_000], ids=str)
def test_a_train_arrives_as_the_datagrams_it_is_made_of(
    pair: tuple[MulticastNetwork, MulticastNetwork], multicast: bool, length: int
) -> None:
    first, second = pair
    data = bytes(number * 7 % 251 for number in range(length))
    first.send([Train(None if multicast else second.unicast_address, data, 1200)])
    expected = [data[start : start + 1200] for start in range(0, length, 1200)]
    assert heard(second, len(expected)) == expected
    assert first.statistics["datagrams sent"] == second.statistics["datagrams received"] == len(expected)
    assert first.statistics["bytes sent"] == second.statistics["bytes received"] == length


def test_trains_of_different_sizes_do_not_mix(pair: tuple[MulticastNetwork, MulticastNetwork]) -> None:
    first, second = pair
    to = second.unicast_address
    first.send([Train(to, b"a" * 2000, 1000), Train(to, b"b" * 900, 300), Train(to, b"c", 1)])
    assert heard(second, 6) == [b"a" * 1000] * 2 + [b"b" * 300] * 3 + [b"c"]


def test_a_call_of_receive_is_bounded_and_nothing_is_lost(pair: tuple[MulticastNetwork, MulticastNetwork]) -> None:
    first, second = pair
    sent = [bytes([number]) * (1 + number % 2) for number in range(60)]  # sizes that do not coalesce
    first.send([Train(second.unicast_address, datagram, 2) for datagram in sent])
    second.wait(1.0)
    early = [payload for _, payload in datagrams_of(second.receive())]
    assert 1 <= len(early) <= 32
    assert early + heard(second, len(sent) - len(early)) == sent


def test_a_flood_of_unicast_does_not_keep_multicast_out(pair: tuple[MulticastNetwork, MulticastNetwork]) -> None:
    first, second = pair
    first.send([Train(second.unicast_address, b"x" * (1 + number % 2), 2) for number in range(100)])
    first.send([Train(None, b"to all", 6)])
    assert b"to all" in [payload for _, payload in datagrams_of(second.receive())]


def test_a_long_train_of_unicast_leaves_multicast_its_share(pair: tuple[MulticastNetwork, MulticastNetwork]) -> None:
    first, second = pair
    first.send([Train(second.unicast_address, b"x", 1)] * 100)
    to_all = [bytes(size) for size in range(1, 9)]  # none goes on with the one before
    first.send([Train(None, payload, 8) for payload in to_all])
    payloads = [payload for _, payload in datagrams_of(second.receive())]
    assert payloads == [b"x"] * 100 + to_all


def test_receive_needs_no_wait_before_it(pair: tuple[MulticastNetwork, MulticastNetwork]) -> None:
    first, second = pair
    first.send([Train(None, b"to all", 6), Train(second.unicast_address, b"to you", 6)])
    assert [payload for _, payload in datagrams_of(second.receive())] == [b"to you", b"to all"]
    assert list(second.receive()) == []


def test_the_file_descriptors_tell_when_there_is_something_to_receive(
    pair: tuple[MulticastNetwork, MulticastNetwork],
) -> None:
    first, second = pair
    filenos = second.filenos()
    assert select.select(filenos, [], [], 0)[0] == []
    first.send([Train(None, b"to all", 6)])
    assert len(select.select(filenos, [], [], 1.0)[0]) == 1


def test_wake_ends_the_wait_of_another_thread(group: str) -> None:
    with opened(LOOPBACK, group) as network:
        waiting = threading.Thread(target=network.wait, args=(None,))
        waiting.start()
        network.wake()
        waiting.join(5.0)
        assert not waiting.is_alive()


def test_a_wake_that_comes_early_is_not_lost(group: str) -> None:
    with opened(LOOPBACK, group) as network:
        network.wake()
        network.wait(None)
        assert list(network.receive()) == []


def test_more_wakes_than_a_pipe_holds_do_no_harm(group: str) -> None:
    with opened(LOOPBACK, group) as network:
        for _ in range(70_000):
            network.wake()
        network.wait(None)
        network.send([Train(None, b"still here", 10)])
        assert heard(network, 1) == [b"still here"]


def test_a_wait_for_a_time_gone_by_returns_at_once(group: str) -> None:
    with opened(LOOPBACK, group) as network:
        network.wait(-1.0)
        assert list(network.receive()) == []


def is_open(number: int) -> bool:
    """Whether a file descriptor belongs to an open file."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_closing_twice_and_waking_afterwards_do_no_harm(group: str) -> None:
    with opened(LOOPBACK, group) as network:
        numbers = [*network.filenos()]
        network.close()
        network.close()
        network.wake()
        assert not any(is_open(number) for number in numbers)


def test_no_descriptor_is_left_of_a_closed_network(group: str) -> None:
    with opened(LOOPBACK, group) as network:
        descriptors = *network.filenos(), *network._changes.filenos, network._waiter.wake_fileno
        assert len({*descriptors}) >= 3
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_a_group_is_left_when_the_network_is_closed(group: str) -> None:
    with opened(LOOPBACK, group) as first:
        with opened(LOOPBACK, group):
            pass
        first.send([Train(None, b"still here", 10)])
        assert heard(first, 1) == [b"still here"]


def test_a_port_that_is_taken_is_named(group: str) -> None:
    with opened(LOOPBACK, group) as first:
        port = first.unicast_address[1]
        taken = f"listen_port={port}: the port is taken by another program"
        with pytest.raises(PortInUseError, match=taken), opened(LOOPBACK, group, listen_port=port):
            pass


def test_a_group_port_that_another_program_does_not_share_is_named(group: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as selfish:
        selfish.bind(("", int(group.rpartition(":")[2])))
        with pytest.raises(PortInUseError, match="multicast_address"), opened(LOOPBACK, group):
            pass


def test_the_group_port_cannot_be_the_listen_port(group: str) -> None:
    port = int(group.rpartition(":")[2])
    with pytest.raises(ConfigurationError, match="port of the group"), opened(LOOPBACK, group, listen_port=port):
        pass


def test_the_listen_port_asked_for_is_used(group: str) -> None:
    port = free_port()
    with opened(LOOPBACK, group, listen_port=port) as network:
        assert network.unicast_address == ("127.0.0.1", port)


def test_an_unknown_interface_is_answered_with_those_that_exist(group: str) -> None:
    with pytest.raises(InterfaceError, match=f"no-such-thing.*exist are.*{LOOPBACK}"), opened("no-such-thing", group):
        pass


def test_without_a_name_an_interface_is_chosen_and_the_reason_logged(
    group: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="glue.network"), opened(None, group) as network:
        assert network.describe()["reason"] in caplog.text


def test_a_system_with_nothing_that_only_linux_has_is_served_as_well(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "plan9")
    with opened(LOOPBACK, group) as first, opened(LOOPBACK, group) as second:
        assert first.describe()["offload"] == {"UDP_SEGMENT": False, "UDP_GRO": False}
        first.send([Train(None, bytes(5000), 1400), Train(second.unicast_address, b"to you", 6)])
        assert heard(second, 5) == [b"to you", bytes(1400), bytes(1400), bytes(1400), bytes(800)]
        first.maintain(0.0)
        assert first.statistics["memberships"] == 1


def test_what_is_too_large_for_a_datagram_is_counted(pair: tuple[MulticastNetwork, MulticastNetwork]) -> None:
    first, second = pair
    first.send([Train(second.unicast_address, bytes(70_000), 70_000), Train(second.unicast_address, b"next", 4)])
    assert first.statistics["not sent: EMSGSIZE"] == 1
    assert heard(second, 1) == [b"next"]


def test_an_empty_datagram_is_counted_and_dropped(pair: tuple[MulticastNetwork, MulticastNetwork]) -> None:
    network = pair[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"", network.unicast_address)
        stranger.sendto(b"next", network.unicast_address)
    assert heard(network, 1) == [b"next"]
    assert network.statistics["not received: empty"] == 1


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="only Linux tells how much it dropped")
def test_what_the_kernel_drops_for_a_full_buffer_is_counted(group: str) -> None:
    with opened(LOOPBACK, group) as sender, opened(LOOPBACK, group, receive_buffer=1 << 16) as slow:
        sender.send([Train(slow.unicast_address, bytes(1000), 1000)] * 1000)
        slow.maintain(0.0)
        dropped = slow.statistics["not received: buffer full"]
        assert dropped > 0
        assert len(heard(slow, 1000 - dropped)) == 1000 - dropped
        slow.maintain(1.0)
        assert slow.statistics["not received: buffer full"] == dropped


def test_the_effective_configuration_is_told(group: str) -> None:
    with opened(LOOPBACK, group, receive_buffer=1 << 17) as network:
        told = network.describe()
        assert told["interface"] == LOOPBACK
        assert told["reason"] == f"{LOOPBACK}, as asked for"
        assert told["addresses"][0] == "127.0.0.1"
        assert told["group"] == group
        assert told["datagram_size"] == network.datagram_size
        assert told["receive_buffer"] == {"asked": 1 << 17, "granted": 1 << 17}
    with opened(LOOPBACK, group, offload=False) as network:
        assert network.describe()["offload"] == {"UDP_SEGMENT": False, "UDP_GRO": False}
