"""Several interfaces at once, whose sockets, states and notices are given: what is opened, used, counted and told."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

import pytest

from glue.contract import GroupOn, Train
from glue.errors import ConfigurationError, InterfaceError, PortInUseError
from glue.network import linked
from glue.network.interfaces import Interface
from glue.network.linked import LinkedNetwork
from tests.network.machine import BARE, WLAN0, Machine, Notices, Sockets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="several interfaces need Linux")

Make = Callable[..., LinkedNetwork]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(linked, "MulticastNetwork", lambda **options: Sockets(made, **options))
    monkeypatch.setattr(linked, "InterfaceChanges", lambda: Notices(made))
    monkeypatch.setattr(linked, "find_interface", made.find)
    monkeypatch.setattr(linked, "list_interfaces", lambda: [*made.interfaces.values()])
    monkeypatch.setattr("time.monotonic", lambda: made.now)
    return made


@pytest.fixture
def make(machine: Machine) -> Iterator[Make]:
    """Makes a network over eth0 and wlan0."""
    networks: list[LinkedNetwork] = []

    def made(*interfaces: str, group: str = "239.1.2.3:4567", **options: Any) -> LinkedNetwork:
        options = {"listen_port": 0, "receive_buffer": 1 << 20, "offload": True, **options}
        network = LinkedNetwork(interfaces=interfaces or ("eth0", "wlan0"), multicast_address=group, **options)
        networks.append(network)
        return network

    yield made
    for network in networks:
        network.close()
        network.close()


def sent(sockets: Sockets) -> list[tuple[Any, bytes]]:
    found = [(train.address, bytes(train.data)) for train in sockets.sent]
    sockets.sent.clear()
    return found


def changes_of(network: LinkedNetwork) -> list[tuple[str, bool]]:
    told: list[tuple[str, bool]] = []
    network.follow_links(lambda name, is_up: told.append((name, is_up)))
    return told


def test_the_links_share_a_port_where_it_is_free(machine: Machine, make: Make) -> None:
    network = make(sched_batch=False)
    assert machine.tried == [("eth0", 0), ("wlan0", 5001)]
    options = {"multicast_address": "239.1.2.3:4567", "receive_buffer": 1 << 20, "offload": True, "sched_batch": False}
    assert machine.opened[0].options == options
    assert changes_of(network) == []
    machine.troubles["wlan0"] = PortInUseError("taken")
    machine.tried.clear()
    make()
    assert machine.tried == [("eth0", 0), ("wlan0", 5001), ("wlan0", 0)]
    machine.tried.clear()
    make("eth0", "eth0", listen_port=77)
    assert machine.tried == [("eth0", 77)]


def test_a_port_in_use_is_an_error_at_first_and_a_counter_later(machine: Machine, make: Make) -> None:
    machine.troubles["wlan0"] = PortInUseError("taken")
    with pytest.raises(PortInUseError, match="taken"):
        make(listen_port=77)
    assert [sockets.is_closed for sockets in machine.opened] == [True]
    machine.interfaces["wlan0"] = BARE
    network = make(listen_port=77)
    assert network.statistics["links not opened"] == 0
    machine.interfaces["wlan0"] = WLAN0
    network.maintain(101.0)
    network.maintain(102.0)
    assert network.statistics["links not opened"] == 2
    machine.troubles.clear()
    network.maintain(103.0)
    assert [sockets.unicast_address for sockets in machine.opened[1:]] == [("10.0.0.2", 77), ("10.1.0.2", 77)]


@pytest.mark.parametrize(
    "trouble", [ConfigurationError("no IPv6"), InterfaceError("gone"), OSError(99, "Cannot assign requested address")]
)
def test_one_link_that_cannot_be_opened_leaves_the_other(
    machine: Machine, make: Make, trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    machine.troubles["eth0"] = trouble
    with caplog.at_level(logging.WARNING):
        network = make()
    assert f"link eth0: {trouble}" in caplog.text
    assert network.statistics["links not opened"] == 1
    assert network.unicast_address == ("10.1.0.2", 5002)
    assert changes_of(network) == [("eth0", False)]
    assert network.describe()["present"] is True


def test_without_any_link_the_address_is_the_wildcard_and_nothing_is_sent(machine: Machine, make: Make) -> None:
    machine.interfaces = {"eth0": Interface("eth0", 2)}
    for group, address, size in (
        ("239.1.2.3:4567", ("0.0.0.0", 77), 1472), ("[ff15::1]:4567", ("::", 77, 0, 0), 1452),
    ):  # fmt: skip
        network = make(group=group, listen_port=77)
        assert network.unicast_address == address
        assert network.datagram_size == size
        network.send([Train(None, b"abcdefg", 3), Train(("10.0.0.9", 1), b"ab", 2)])
        assert network.statistics == {"not sent: no interface": 4}
    closed = {"up": False, "address": "", "listen_port": 0, "bytes_sent": 0, "bytes_received": 0}
    assert network.describe() == {
        "interface": "eth0, wlan0", "reason": "eth0 and wlan0, as asked for", "present": False, "addresses": [],
        "links": {"eth0": closed, "wlan0": closed},
        "group": "[ff15::1]:4567", "listen_port": 77, "mtu": 1500, "datagram_size": 1452,
    }  # fmt: skip


def test_each_destination_has_its_links(machine: Machine, make: Make) -> None:
    network = make()
    eth0, wlan0 = machine.opened
    for address, first, second in (
        (None, None, None), ((), (), ()), (GroupOn(["eth0"]), (), ...), (GroupOn(["wlan0", "other"]), ..., ()),
        (("10.0.0.9%eth0", 1), ("10.0.0.9", 1), ...), (("10.0.0.9%wlan0", 1), ..., ("10.0.0.9", 1)),
        (("10.0.0.9", 1), ("10.0.0.9", 1), ("10.0.0.9", 1)), (("10.0.0.9%other", 1), ("10.0.0.9", 1), ("10.0.0.9", 1)),
    ):  # fmt: skip
        network.send([Train(address, b"data", 2)])
        expected = [[] if to is ... else [(to, b"data")] for to in (first, second)]
        assert [sent(eth0), sent(wlan0)] == expected, address
    network.send([Train(GroupOn([]), b"datum", 2)])
    assert network.statistics == {"bytes sent": 20, "not sent: no interface": 3}
    eth0.is_settled = False
    machine.is_changed = True
    network.maintain(101.0)
    network.send([Train(None, b"a", 1), Train(("10.0.0.9%eth0", 1), b"b", 1), Train(("10.0.0.9%wlan0", 1), b"c", 1)])
    assert (sent(eth0), sent(wlan0)) == ([], [(None, b"a"), (("10.0.0.9", 1), b"c")])
    assert network.unicast_address == ("10.1.0.2", 5001)


def test_a_train_is_put_together_once_unless_each_link_seals_its_own(machine: Machine, make: Make) -> None:
    network = make()
    asked: list[str] = []

    class Watched(Train):
        def __init__(self, address: Any) -> None:
            super().__init__(address, b"abcd", 2)

        @property
        def data(self) -> bytes:
            asked.append("data")
            return b"abcd"

        @data.setter
        def data(self, value: bytes) -> None: ...

        def chunks(self, extra: int = 0) -> Any:
            asked.append(f"chunks {extra}")
            return (b"ab", b"cd")

    network.send([Watched(())])
    assert asked == ["data"]
    asked.clear()
    network.send([Watched(None)])
    assert asked == []
    (whole, one), (_, other) = (sockets.sent for sockets in machine.opened)
    assert (whole.segment, one.segment, whole.address) == (2, 2, ())
    assert [*one.chunks(7), *other.chunks()] == [b"ab", b"cd", b"ab", b"cd"]
    assert bytes(one.data) == b"abcd"
    assert asked == ["chunks 7", "chunks 0", "data"]


def test_what_arrives_names_its_link_and_what_is_ones_own_is_passed_by(machine: Machine, make: Make) -> None:
    network = make()
    eth0, wlan0 = machine.opened
    assert network.filenos() == network.filenos()
    assert network.receive() == ()
    eth0.arrived = (Train(("10.0.0.9", 7), b"a", 1), Train(eth0.unicast_address, b"b", 1))
    wlan0.arrived = (Train(("10.1.0.9", 7), b"c", 1), Train(eth0.unicast_address, b"d", 1))
    eth0.becomes_readable()
    wlan0.becomes_readable()
    found = network.receive()
    assert found.__class__ is tuple
    assert [(train.address, train.data) for train in found] == [
        (("10.0.0.9%eth0", 7), b"a"), (("10.0.0.2%eth0", 5001), b"b"), (("10.1.0.9%wlan0", 7), b"c"),
    ]  # fmt: skip
    assert network.statistics["own trains passed by"] == 1
    wlan0.arrived = iter([Train(("10.1.0.9", 7), b"e", 1)])
    wlan0.becomes_readable()
    later = network.receive()
    assert not isinstance(later, tuple | GeneratorType)
    assert [(train.address, train.data) for train in later] == [(("10.1.0.9%wlan0", 7), b"e")]


def test_only_so_many_addresses_are_remembered(machine: Machine, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "ADDRESSES", 2)
    network = make()
    link = network._links["eth0"]
    for number in range(5):
        plain = (f"10.0.0.{number}", 7)
        assert link.tagged(plain) == link.tagged(plain) == (f"10.0.0.{number}%eth0", 7)
        network.send([Train(link.tagged(plain), b"x", 1)] * 2)
        assert (len(link.addresses), len(network._ways)) == (1 + number % 2,) * 2
    assert [address for address, _ in sent(machine.opened[0])[-2:]] == [("10.0.0.4", 7)] * 2


def test_the_links_are_looked_at_after_a_notice_after_a_while_and_while_one_is_down(
    machine: Machine, make: Make
) -> None:
    network = make()
    told = changes_of(network)
    eth0, wlan0 = machine.opened
    assert machine.looks == 1
    assert network.maintain(109.9) == pytest.approx(111.0)
    assert (machine.looks, eth0.maintained[-1]) == (1, 109.9)
    network.maintain(110.0)
    assert machine.looks == 2
    network.maintain(119.9)
    assert machine.looks == 2
    machine.is_changed = True
    network.maintain(119.9)
    assert machine.looks == 3
    assert len(wlan0.maintained) == len(eth0.maintained) == 1 + 4 + 2
    wlan0.is_settled = False
    machine.now = 120.0
    os.eventfd_write(machine.notices, 1)
    network.receive()
    assert (machine.looks, told) == (4, [("wlan0", False)])
    network.receive()
    assert machine.looks == 4
    network.maintain(120.1)
    assert machine.looks == 5, "one is down"
    wlan0.is_settled = True
    network.maintain(120.2)
    network.maintain(120.3)
    assert (machine.looks, told) == (6, [("wlan0", False), ("wlan0", True)])


def test_a_link_that_cannot_send_is_looked_at_but_not_for_every_train(machine: Machine, make: Make) -> None:
    network = make()
    eth0, _ = machine.opened
    for now, looks in ((200.0, 2), (200.09, 2), (200.1, 3), (200.15, 3), (200.25, 4)):
        machine.now, eth0.is_broken = now, True
        network.send([Train(("10.0.0.9%eth0", 1), b"x", 1)])
        assert (machine.looks, eth0.is_broken) == (looks, False)
    network.send([Train(("10.0.0.9%eth0", 1), b"x", 1)])
    machine.now = 300.0
    network.send([Train(("10.0.0.9%eth0", 1), b"x", 1)])
    assert machine.looks == 4


@pytest.mark.parametrize("address", [None, ("10.0.0.9", 1)])
def test_links_that_go_at_once_while_something_is_sent_are_counted(machine: Machine, make: Make, address: Any) -> None:
    network = make()
    told = changes_of(network)
    eth0, wlan0 = machine.opened
    eth0.is_broken = True
    machine.interfaces.clear()
    machine.now = 200.0
    network.send([Train(address, b"abcde", 2), Train(("10.0.0.9%eth0", 1), b"x", 1)])
    assert (len(eth0.sent), wlan0.sent, eth0.is_closed, wlan0.is_closed) == (1, [], True, True)
    assert network.statistics["not sent: no interface"] == 4
    assert told == [("eth0", False), ("wlan0", False)]


@pytest.mark.parametrize(
    ("now", "is_same", "is_up"),
    [
        (Interface("wlan0", 3, ("10.9.9.9", "10.1.0.2")), True, True),
        (Interface("wlan0", 3, ("10.9.9.9",)), False, True),
        (Interface("wlan0", 4, ("10.1.0.2",)), False, True),
        (Interface("wlan0", 3, (), ("fd01::2",)), False, False),
        (None, False, False),
    ],
)
def test_the_sockets_of_a_link_stay_while_its_device_and_address_do(
    machine: Machine, make: Make, now: Interface | None, is_same: bool, is_up: bool
) -> None:
    network = make()
    told = changes_of(network)
    _, wlan0 = machine.opened
    machine.interfaces["wlan0"] = now or BARE
    if now is None:
        del machine.interfaces["wlan0"]
    wlan0.statistics["bytes received"] = 5
    machine.is_changed = True
    network.maintain(101.0)
    assert wlan0.is_closed != is_same
    assert len(machine.opened) == 2 + (not is_same and is_up)
    assert told == ([] if is_up else [("wlan0", False)])
    assert network.datagram_size == (1400 if is_up else 1472)
    assert network.statistics == {"bytes sent": 20 + 10 * (not is_same and is_up), "bytes received": 5}
    links = network.describe()["links"]
    assert (links["wlan0"]["up"], links["eth0"]["up"]) == (is_up, True)
    machine.opened[0].arrived = (Train(("10.1.0.2", 5001), b"from itself", 11),)
    machine.opened[0].becomes_readable()
    is_own = now is not None and "10.1.0.2" in now.ipv4
    assert len([*network.receive()]) == (not is_own)


def test_what_is_described_is_of_all_links(machine: Machine, make: Make) -> None:
    network = make()
    machine.opened[1].statistics["bytes received"] = 7
    told = network.describe()
    assert told["links"] == {
        "eth0": {"up": True, "address": "10.0.0.2", "listen_port": 5001, "bytes_sent": 10, "bytes_received": 0},
        "wlan0": {"up": True, "address": "10.1.0.2", "listen_port": 5001, "bytes_sent": 10, "bytes_received": 7},
    }
    assert (told["mtu"], told["datagram_size"], told["listen_port"]) == (1428, 1400, 5001)
    assert (told["addresses"], told["present"], told["offload"]) == (["10.0.0.2", "10.1.0.2"], True, True)
    assert network.unicast_address == ("10.0.0.2", 5001)


def test_a_wait_is_as_long_and_as_patient_as_it_is_asked_to_be(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    network, asked = make(), list[tuple[Any, bool]]()
    monkeypatch.setattr(network._waiter, "wait", lambda timeout, patient: asked.append((timeout, patient)))
    network.wait(1.5)
    network.wait(None, True)
    assert asked == [(1.5, False), (None, True)]


def test_a_forked_child_closes_its_copies(machine: Machine, make: Make) -> None:
    network = make()
    epoll = network.filenos()[0]
    os.fstat(epoll)
    lock = network._waiter._closing
    network._after_fork()
    assert network._waiter._closing is not lock, "another thread may have held it"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(epoll)
    assert machine.forked == machine.opened
    assert all(sockets.is_closed for sockets in machine.opened)
    network.wake()


def test_other_systems_have_one_interface(monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigurationError, match="several interfaces at once need Linux"):
        make()
