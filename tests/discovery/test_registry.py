"""Discovery without multicast: by contacts, by a registry of any kind, and by DNS-SD on the loopback interface."""

from __future__ import annotations

import sys
from random import Random
from threading import Event

import pytest
import zeroconf
from zeroconf._dns import DNSPointer
from zeroconf._protocol.outgoing import DNSOutgoing
from zeroconf.const import _CLASS_IN, _FLAGS_AA, _FLAGS_QR_RESPONSE, _TYPE_PTR

from glue.contract import Address, Outbound, PeerAdded
from glue.discovery import Discovery, ServiceDiscovery
from glue.discovery.zeroconf_registry import SERVICE, ZeroconfRegistry
from glue.errors import MissingExtraError
from tests.discovery.lan import DELAY, Host, Lan, endpoint_id

PATIENCE = 10  # seconds until a test on real sockets gives up


class Directory:
    """What a registry service knows; each endpoint has its own view of it."""

    def __init__(self) -> None:
        self.views: list[View] = []

    def view(self, lan: Lan) -> View:
        return View(self, lan)


class View:
    """A registry; knows its endpoint's address once the endpoint is on the network."""

    def __init__(self, directory: Directory, lan: Lan) -> None:
        self.directory = directory
        self.lan = lan
        self.host: Host | None = None
        self.changes: list[tuple[Address, bool]] = []

    @property
    def address(self) -> Address:
        assert self.host is not None
        return self.host.address

    def register(self) -> None:
        for view in self.directory.views:
            view.changes.append((self.address, True))
            self.changes.append((view.address, True))
        self.directory.views.append(self)

    def poll(self) -> tuple[list[Address], list[Address]]:
        changes, self.changes = dict(self.changes), []
        return [a for a, is_found in changes.items() if is_found], [
            a for a, is_found in changes.items() if not is_found
        ]

    def close(self) -> None:
        self.directory.views.remove(self)
        for view in self.directory.views:
            view.changes.append((self.address, False))


def registered(lan: Lan, directory: Directory, number: int) -> Host:
    """An endpoint that finds its peers through the directory."""
    host = lan.add(number, make=ServiceDiscovery)
    view = directory.view(lan)
    view.host = host
    assert isinstance(host.layer, ServiceDiscovery)
    host.layer.attach(view)
    host.due = host.layer.deadline
    return host


def test_a_registry_that_is_given_at_once_gets_the_endpoint_and_is_looked_into() -> None:
    lan, directory = Lan(), Directory()
    known = registered(lan, directory, 0)
    view = directory.view(lan)
    view.host = lan.hosts[0]
    layer = ServiceDiscovery(endpoint_id=endpoint_id(1), incarnation=1, name="late", random=Random(1), registry=view)
    assert directory.views[1:] == [view]
    _, down = layer.receive(0.0, [])
    assert known.address in [frame.address for frame in down if isinstance(frame, Outbound)]


def plain(host: Host) -> Discovery:
    assert isinstance(host.layer, Discovery)
    return host.layer


def test_endpoints_in_one_registry_find_each_other_without_multicast() -> None:
    lan, directory = Lan(), Directory()
    hosts = [registered(lan, directory, number) for number in range(5)]
    lan.want(hosts[0], "a")
    lan.run(0.5)
    assert all(len(host.known) == 4 for host in hosts)
    assert hosts[3].interests(hosts[0].id) == {"a"}
    assert all(frame.address is not None for _, frame in lan.sent)


def test_peers_from_a_registry_are_kept_and_lost_as_over_multicast() -> None:
    lan, directory = Lan(seed=4, loss=0.2), Directory()
    one, two, three = [registered(lan, directory, number) for number in range(3)]
    lan.run(300)
    lan.want(one, "a")
    lan.run(2)
    assert two.interests(one.id) == {"a"}
    lan.crash(two)
    lan.run(6)
    lan.loss = 0
    lan.leave(three)
    lan.run(0.01)
    assert [event for event in one.events if event[0] == "removed"] == [
        ("removed", two.id, "expired"),
        ("removed", three.id, "goodbye"),
    ]
    assert len(directory.views) == 2


def test_who_left_the_registry_is_not_announced_to_any_more() -> None:
    lan, directory = Lan(), Directory()
    one, two = [registered(lan, directory, number) for number in range(2)]
    lan.run(1)
    lan.leave(two)
    lan.run(1)
    lan.sent.clear()
    lan.run(10)
    assert lan.sent == []
    assert one.known == set()


def test_a_contact_that_is_not_there_yet_is_met_when_it_comes() -> None:
    lan = Lan()
    one = lan.add(1, multicast=False)
    lan.run(1)
    assert plain(one).contact(("10.0.2.2", 40002)) != []
    assert plain(one).contact(("10.0.2.2", 40002)) == []
    lan.run(10)
    two = lan.add(2, multicast=False)
    assert two.address == ("10.0.2.2", 40002)
    lan.run(1.2)
    assert one.known == {two.id}
    assert two.known == {one.id}
    plain(one).forget(two.address)
    lan.run(20)
    assert one.known == {two.id}


def test_an_endpoint_on_multicast_can_have_contacts_too() -> None:
    lan = Lan()
    lan.is_dropped = lambda source, host, frame: frame.address is None
    one, two = lan.add(1), lan.add(2)
    plain(one).contact(two.address)
    lan.run(2 * DELAY + 1e-6)
    assert one.known == {two.id}
    assert two.known == {one.id}


def test_data_to_all_goes_to_each_peer_as_an_item_of_its_own() -> None:
    lan, directory = Lan(), Directory()
    hosts = [registered(lan, directory, number) for number in range(3)]
    lan.run(1)
    items = hosts[0].layer.send(lan.now, [Outbound((), [b"x"], {"transport": [1]}, reliable=False, expires=9.0)])
    assert [item.address for item in items] == [host.address for host in hosts[1:]]
    items[0].header["serialization"] = []
    assert items[1].header == {"transport": [1]}
    assert [(item.reliable, item.expires, item.bodies) for item in items] == 2 * [(False, 9.0, [b"x"])]


# ------------------------------------------------------------------------------------------- real DNS-SD


def registry(number: int, network_id: int = 1) -> ZeroconfRegistry:
    return ZeroconfRegistry(
        endpoint_id=endpoint_id(number),
        incarnation=number,
        network_id=network_id,
        name="ü" * 127,
        address=("127.0.0.1", 30000 + number),
        interfaces=["127.0.0.1"],
    )


def wait_for(view: ZeroconfRegistry, found: set[Address], lost: set[Address], patience: float = PATIENCE) -> bool:
    """Poll until all of these were found and lost."""
    for _ in range(int(patience * 20)):
        more, less = view.poll()
        found.difference_update(more)
        lost.difference_update(less)
        if not found and not lost:
            return True
        Event().wait(0.05)
    return False


def test_dns_sd_brings_endpoints_of_one_network_id_together() -> None:
    one, two, foreign = registry(1), registry(2), registry(3, network_id=2)
    try:
        foreign.register()
        one.register()
        two.register()
        assert wait_for(one, {("127.0.0.1", 30002)}, set())
        assert wait_for(two, {("127.0.0.1", 30001)}, set())
        two.close()
        assert wait_for(one, set(), {("127.0.0.1", 30002)})
        assert one.poll() == ([], [])
    finally:
        for each in (one, two, foreign):
            each.close()


def test_services_that_do_not_answer_hold_up_no_other() -> None:
    one, two = registry(1), registry(2)
    ghosts = zeroconf.Zeroconf(interfaces=["127.0.0.1"])
    try:
        one.register()
        news = DNSOutgoing(_FLAGS_QR_RESPONSE | _FLAGS_AA)
        for number in range(PATIENCE):
            name = f"ghost {number}.{SERVICE}"
            news.add_answer_at_time(DNSPointer(SERVICE, _TYPE_PTR, _CLASS_IN, 4500, name), 0)
        ghosts.send(news)
        assert not wait_for(one, {("127.0.0.1", 30003)}, set(), patience=0.5)  # long enough to have heard of them
        two.register()
        assert wait_for(one, {("127.0.0.1", 30002)}, set())
    finally:
        for each in (one, two, ghosts):
            each.close()


def test_without_zeroconf_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeroconf", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'glue-lan\[zeroconf\]"):
        registry(1)


def test_without_a_registry_an_endpoint_is_found_by_those_who_have_its_address() -> None:
    lan = Lan()
    one, two = lan.add(1, make=ServiceDiscovery), lan.add(2, multicast=False)
    plain(two).contact(one.address)
    lan.run(2 * DELAY + 1e-6)
    assert [type(item) for item in one.told] == [PeerAdded]
