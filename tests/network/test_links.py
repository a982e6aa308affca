"""Several links with networks that the test plays: what leaves and comes by which of them, what opens and closes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import GroupOn, Train, on_link
from glue.errors import ConfigurationError, InterfaceError, PortInUseError
from glue.network import linked
from glue.network.linked import LinkedNetwork
from glue.network.multicast import MAINTENANCE_INTERVAL

HOST = ("10.0.0.9", 7000)


class Net:
    """The network of one link."""

    made: list[Net] = []  # noqa: RUF012  # of one test
    problems: dict[tuple[str, int], Exception] = {}  # noqa: RUF012

    def __init__(self, *, interface: str, listen_port: int, source: Any, **options: Any) -> None:
        if (problem := Net.problems.get((interface, listen_port))) is not None:
            raise problem
        self.interface, self.asked, self.options = interface, listen_port, options
        self.unicast_address = (source.address, listen_port or 5000)
        self.datagram_size, self.is_settled, self.is_broken, self.is_closed = 1_472, True, False, False
        self.statistics: Counter[str] = Counter()
        self.sent: list[tuple[Any, bytes, int]] = []
        self.trains: Sequence[Train] = ()
        self.maintained: list[float] = []
        self._reading, self._writing = os.pipe()
        Net.made.append(self)

    def filenos(self) -> list[int]:
        return [self._reading]

    def arrive(self, *trains: Train) -> None:
        self.trains = trains
        os.write(self._writing, b"x")

    def receive(self) -> Sequence[Train]:
        os.read(self._reading, 1)
        found, self.trains = self.trains, ()
        return found

    def send(self, trains: Sequence[Train]) -> None:
        self.sent += [(train.address, bytes(train.data), train.segment) for train in trains]
        self.statistics["bytes sent"] += sum(len(train.data) for train in trains)

    def take_broken(self) -> bool:
        found, self.is_broken = self.is_broken, False
        return found

    def maintain(self, now: float) -> None:
        self.maintained.append(now)

    def describe(self) -> dict[str, Any]:
        return {
            "addresses": [self.unicast_address[0]], "mtu": 1_500 if self.interface == "a" else 1_400, "listen_port": 7,
            "offload": True,
        }  # fmt: skip

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True
        os.close(self._reading)
        os.close(self._writing)


class Machine:
    """The interfaces of a machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.present: dict[str, Any] = {}
        for number, name in enumerate("ab"):
            self.plug(name, f"10.0.{number}.1", number)
        monkeypatch.setattr(linked, "MulticastNetwork", Net)
        monkeypatch.setattr(linked, "find_interface", lambda name, before: self.present.get(name))
        monkeypatch.setattr(linked, "list_interfaces", lambda: list(self.present.values()))

    def plug(self, name: str, address: str, number: int) -> None:
        addresses = [address] if address else []
        self.present[name] = SimpleNamespace(
            name=name, number=number, address=address, addresses=lambda family: addresses, ipv4=addresses, ipv6=[]
        )

    def open(self, *interfaces: str, port: int = 0) -> LinkedNetwork:
        return LinkedNetwork(
            interfaces=interfaces or ("a", "b"), multicast_address="239.1.2.3:7000", listen_port=port,
            receive_buffer=9, offload=True, sched_batch=False,
        )  # fmt: skip


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    Net.made, Net.problems = [], {}
    yield Machine(monkeypatch)
    for net in Net.made:
        if not net.is_closed:
            net.close()


def test_trains_leave_by_the_links_that_their_address_names(machine: Machine) -> None:
    made = machine.open()
    a, b = Net.made
    assert a.options == {
        "multicast_address": "239.1.2.3:7000", "receive_buffer": 9, "offload": True, "sched_batch": False,
    }  # fmt: skip
    for address, links in [
        (None, "ab"), ((), "ab"), (GroupOn(["b"]), "b"), (on_link(HOST, "a"), "a"), (HOST, "ab"),
        (on_link(HOST, "gone"), "ab"), (GroupOn(["gone"]), ""),
    ]:  # fmt: skip
        a.sent, b.sent = [], []
        made.send([Train(address, b"12345", 2)])
        plain = HOST if address and not isinstance(address, GroupOn) else address
        assert ([one for one, net in zip("ab", (a, b), strict=True) if net.sent]) == [*links]
        assert {one for net in (a, b) for one in net.sent} <= {(plain, b"12345", 2)}
    assert made.statistics == {"not sent: no interface": 3, "bytes sent": 50}
    made.close()
    made.close()
    assert a.is_closed
    assert b.is_closed


def test_what_comes_tells_its_link_and_own_trains_are_passed_by(machine: Machine) -> None:
    made = machine.open()
    a, b = Net.made
    assert [*made.receive()] == []
    a.arrive(Train(HOST, b"1", 1), Train(a.unicast_address, b"own", 3), Train(b.unicast_address, b"other", 5))
    b.arrive(Train(HOST, b"2", 1))
    found = made.receive()
    assert isinstance(found, tuple)
    assert [(train.address, bytes(train.data)) for train in found] == [
        (on_link(HOST, "a"), b"1"), (on_link(a.unicast_address, "a"), b"own"), (on_link(HOST, "b"), b"2"),
    ]  # fmt: skip
    assert made.statistics["own trains passed by"] == 1
    a.arrive()
    a.trains = iter([Train(HOST, b"lazy", 4)])  # type: ignore[assignment]
    lazy = made.receive()
    assert not isinstance(lazy, tuple)
    assert [bytes(train.data) for train in lazy] == [b"lazy"]
    made.close()


def test_links_that_go_and_come_are_told_and_keep_what_they_counted(machine: Machine) -> None:
    made, told = machine.open(), list[tuple[str, bool]]()
    made.follow_links(lambda name, is_up: told.append((name, is_up)))
    a, b = Net.made
    assert (made.unicast_address, made.datagram_size, told) == (("10.0.0.1", 5000), 1_472, [])
    b.datagram_size = 1_000
    assert made.datagram_size == 1_000
    made.send([Train((), b"1234", 4)])
    del machine.present["a"]
    made._look(10.0)
    assert (told, a.is_closed, made.unicast_address) == ([("a", False)], True, ("10.0.1.1", 5000))
    assert made.statistics == {"bytes sent": 8}
    assert made.describe() == {
        "interface": "a, b", "reason": "a and b, as asked for", "present": True, "addresses": ["10.0.1.1"],
        "links": {
            "a": {"up": False, "address": "", "listen_port": 0, "bytes_sent": 0, "bytes_received": 0},
            "b": {"up": True, "address": "10.0.1.1", "listen_port": 5000, "bytes_sent": 4, "bytes_received": 0},
        },
        "group": "239.1.2.3:7000", "listen_port": 7, "mtu": 1_400, "datagram_size": 1_000, "offload": True,
    }  # fmt: skip
    b.is_settled = False
    made._look(11.0)
    assert (told[1:], made.unicast_address[0]) == ([("b", False)], "0.0.0.0")
    b.is_settled = True
    machine.plug("a", "", 0)
    made._look(12.0)
    assert (told[2:], len(Net.made)) == ([("b", True)], 2), "it has no address yet"
    machine.plug("a", "10.0.0.7", 0)
    made._look(13.0)
    again = Net.made[2]
    assert (told[3:], again.asked, again.unicast_address) == ([("a", True)], 5000, ("10.0.0.7", 5000))
    machine.plug("a", "10.0.0.7", 99)
    made._look(14.0)
    assert (again.is_closed, len(Net.made), told[4:]) == (True, 4, []), "another device of that name"
    del machine.present["a"], machine.present["b"]
    made._look(15.0)
    assert (made.describe()["present"], made.describe()["mtu"], made.datagram_size) == (False, 1_500, 1_472)
    assert made.statistics["bytes sent"] == 8
    made.close()


def test_the_links_are_looked_after_regularly_and_after_a_failed_send(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = machine.open()
    looks: list[float] = []
    look = made._look

    def looked(now: float) -> None:
        looks.append(now)
        look(now)

    monkeypatch.setattr(made, "_look", looked)
    begun = made._look_at
    a, _ = Net.made
    assert made.maintain(begun - 0.1) == begun - 0.1 + MAINTENANCE_INTERVAL
    assert (looks, a.maintained[-1]) == ([], begun - 0.1)
    made.maintain(begun)
    assert looks == [begun]
    made.maintain(begun + 0.1)
    assert looks == [begun]
    a.is_settled = False
    look(begun + 0.2)
    made.maintain(begun + 0.3)
    assert looks == [begun, begun + 0.3], "one is down"
    a.is_settled = True
    look(begun + 0.4)
    clock = [100.0]
    monkeypatch.setattr(linked.time, "monotonic", lambda: clock[0])  # type: ignore[attr-defined]
    for now, count in ((100.0, 3), (100.05, 3), (100.2, 4)):
        clock[0], a.is_broken = now, True
        made.send([Train(on_link(HOST, "a"), b"1", 1)])
        assert len(looks) == count, now
    made.close()


def test_a_port_in_use_ends_the_start_and_later_only_the_link(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    Net.problems = {("b", 7001): PortInUseError("in use")}
    with pytest.raises(PortInUseError):
        machine.open(port=7001)
    assert Net.made[0].is_closed
    Net.problems = {("b", 5000): PortInUseError("in use")}
    made = machine.open()
    assert [net.asked for net in Net.made[1:]] == [0, 0], "any free port, if that of the other link is taken"
    made.close()
    Net.problems = {("b", 5000): InterfaceError("x"), ("b", 0): InterfaceError("no way")}
    made = machine.open()
    assert made.statistics == {"links not opened": 1}
    assert caplog.messages[-1] == "link b: no way"
    assert made.describe()["links"]["b"]["up"] is False
    made.close()


def test_interfaces_that_do_not_exist_are_waited_for_unless_none_does(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InterfaceError, match=r"'x', 'y'.*there are no such interfaces"):
        machine.open("x", "y")
    made = machine.open("a", "x")
    assert made.describe()["links"]["x"]["up"] is False
    made.close()
    monkeypatch.setattr(linked.sys, "platform", "darwin")  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match="need Linux"):
        machine.open()


def test_addresses_are_remembered_up_to_a_bound(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert linked.ADDRESSES == 4_096
    monkeypatch.setattr(linked, "ADDRESSES", 2)
    made = machine.open()
    link = made._links["a"]
    for number in range(5):
        address = ("10.0.0.1", number)
        assert link.tagged(address) is link.tagged(address)
        assert len(link.addresses) <= 2
        made.send([Train(address, b"1", 1)])
        assert len(made._ways) <= 2
    made.close()
