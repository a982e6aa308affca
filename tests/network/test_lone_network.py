"""A network without sockets: which socket is read when and how it is waited for, and how it follows its interface."""

from __future__ import annotations

import errno
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from glue.errors import InterfaceError
from glue.network import batch_scheduling, multicast
from glue.network.choice import Choice
from glue.network.waiter import GATHER
from tests.network.lone_network import CARD, LOOPBACK, MULTICAST, OTHER, UNICAST, LoneNetwork, System

NONE = CARD.replaced(ipv4=())
DOWN = CARD.replaced(up=False)

# ------------------------------------------------------------------------------------------------ what is read, and how


@pytest.mark.parametrize(("ready", "woken", "fresh", "reads"), [
    ([UNICAST], False, False, [("unicast", 24, False, True)]), ([UNICAST], False, True, [("unicast", 24, True, True)]),
    ([MULTICAST], False, True, [("multicast", 32, True, True)]), ([OTHER], False, False, []), ([], True, False, []),
    ([UNICAST, MULTICAST], False, False, [("unicast", 24, False, True), ("multicast", 32, False, True)]),
    ([UNICAST], True, False, [("unicast", 24, False, False)]),
    ([MULTICAST], True, False, [("multicast", 32, False, False)]),
])  # fmt: skip
def test_after_a_wait_what_became_readable_is_read(ready: list[int], woken: bool, fresh: bool, reads: Any) -> None:
    network = LoneNetwork(ready=ready)
    network._waiter.woken, network._waiter.fresh = woken, fresh
    network.wait(3.0)
    assert network.done() == [("wait", 3.0, False)]
    assert network.received() == [name for name, *_ in reads]
    assert network.done() == reads
    both: list[Any] = [("unicast", 24, False, False), ("multicast", 32, False, False)]
    assert network.received() == ["unicast", "multicast"], "without a wait before, both are read"
    assert network.done() == both


def test_what_was_kept_needs_no_wait_and_is_received_first() -> None:
    network = LoneNetwork(ready=[MULTICAST])
    network._unicast_receiver.kept = "kept"
    network.wait(3.0)
    assert network.done() == []
    assert network.received() == ["unicast"]
    network._unicast_receiver.kept = None
    network.wait(3.0)
    network._unicast_receiver.kept = "kept meanwhile"
    assert network.received() == ["unicast", "multicast"]


Told = tuple[int, bool, bool]
NO: Told = (0, False, False)


@pytest.mark.parametrize(("unicast", "multicast_", "patience", "is_patient"), [
    (NO, NO, 7.0, False), ((1, False, False), NO, 0.0, False), ((2, False, False), NO, GATHER, False),
    ((3, False, False), NO, GATHER, False), ((4, False, False), NO, 0.0, False), ((4, True, False), NO, 0.0, False),
    ((1, True, False), NO, GATHER, False), (NO, (1, False, False), 0.0, False), (NO, (1, True, False), GATHER, False),
    (NO, (2, False, False), GATHER, False), ((1, False, False), (1, False, False), GATHER, False),
    (NO, (5, False, False), GATHER, False), ((1, True, True), NO, 0.0, True), (NO, (1, True, True), 0.0, True),
])  # fmt: skip
def test_how_to_wait_is_told_by_what_came_before(
    unicast: Told, multicast_: Told, patience: float, is_patient: bool
) -> None:
    network = LoneNetwork()
    parts = network._unicast_receiver, network._multicast_receiver
    for part, told in zip(parts, (unicast, multicast_), strict=True):
        part.reads, part.coalesced, part.rested = told
    network.wait(3.0)
    assert (network.done(), network._waiter.patience) == ([("wait", 3.0, is_patient)], patience)
    assert [(part.reads, part.rested, part.streams) for part in parts] == [(0, False, False)] * 2
    network.wait(None, patient=True)
    assert network.done() == [("wait", None, True)]


@pytest.mark.parametrize(("streams", "allowed", "entered", "did"), [
    (True, True, True, ["enter", "wait", "leave"]), (True, True, False, ["enter", "wait"]),
    (False, True, True, ["wait"]), (True, False, True, ["wait"]),
])  # fmt: skip
def test_a_multicast_stream_is_waited_for_in_batch_scheduling_and_what_ends_it_ends_that(
    streams: bool, allowed: bool, entered: bool, did: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = LoneNetwork(_sched_batch=allowed)
    monkeypatch.setattr(batch_scheduling, "enter", lambda: network.note("enter") or entered)
    monkeypatch.setattr(batch_scheduling, "leave", lambda: network.note("leave"))
    network._multicast_receiver.streams = streams
    network.wait(3.0)
    assert [one if isinstance(one, str) else one[0] for one in network.done()] == did
    network._multicast_receiver.streams = streams
    network._waiter.wait = lambda timeout, patient: 1 // 0
    with pytest.raises(ZeroDivisionError):
        network.wait(3.0)
    assert network.done() == [one for one in did if one != "wait"]


def test_an_interface_that_cannot_send_is_told_once() -> None:
    network = LoneNetwork()
    assert not network.take_broken()
    network._sender.is_broken = True
    assert [network.take_broken(), network.take_broken()] == [True, False]


# ------------------------------------------------------------------------------------------------------- its interface


@pytest.fixture
def network() -> LoneNetwork:
    return LoneNetwork()


@pytest.fixture
def system(network: LoneNetwork, monkeypatch: pytest.MonkeyPatch) -> System:
    return System(network, monkeypatch)


def test_an_interface_is_looked_at_after_a_notice_a_while_or_as_long_as_it_is_not_used(system: System) -> None:
    network = system.network
    looks = []
    for now, is_changed, joined in (
        (999.0, False, CARD), (999.0, True, CARD), (1000.0, False, CARD), (1008.9, False, CARD), (1009.0, False, CARD),
        (1010.0, False, CARD), (1019.0, False, CARD), (1020.0, False, None), (1021.0, False, None),
    ):  # fmt: skip
        network.is_changed, network._joined = is_changed, joined
        assert network.maintain(now) == now + 1.1
        looks.append(("find", "eth0") in network.done())
    assert looks == [False, True, False, False, True, False, True, True, True]


def test_refusals_are_forgotten_each_minute(system: System) -> None:
    network = system.network
    times = (999.9, 1000.0, 1059.9, 1060.0, 1061.0)
    assert [bool(network.maintain(now) and "forget refusals" in network.done()) for now in times] == [
        False, True, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("interface", "joined", "automatic", "is_settled"), [
    (CARD, CARD, False, True), (CARD, CARD, True, True), (None, None, False, False), (CARD, None, False, False),
    (DOWN, DOWN, False, False), (LOOPBACK, LOOPBACK, False, True), (LOOPBACK, LOOPBACK, True, False),
])  # fmt: skip
def test_a_network_is_settled_on_an_interface_that_works_and_was_wanted(
    interface: Any, joined: Any, automatic: bool, is_settled: bool
) -> None:
    assert LoneNetwork(_interface=interface, _joined=joined, _automatic=automatic).is_settled is is_settled


@pytest.mark.parametrize(("present", "best", "chosen"), [
    (CARD, CARD.replaced(name="eth1"), CARD), (DOWN, CARD.replaced(name="eth1"), "eth1"),
    (LOOPBACK, CARD.replaced(name="eth1"), "eth1"), (None, CARD.replaced(name="eth1"), "eth1"),
    (LOOPBACK, DOWN.replaced(name="eth1"), LOOPBACK), (LOOPBACK, LOOPBACK, LOOPBACK), (DOWN, CARD, DOWN),
    (LOOPBACK, InterfaceError("none"), LOOPBACK), (None, InterfaceError("none"), None),
])  # fmt: skip
def test_a_chosen_interface_is_left_for_a_better_one_only_if_it_fails(
    present: Any, best: Any, chosen: Any, system: System, caplog: pytest.LogCaptureFixture
) -> None:
    network = system.network
    network._choice = Choice(LOOPBACK if present is LOOPBACK else CARD, "before")
    system.best = best if isinstance(best, Exception) else Choice(best, f"{best.name} is the best one")
    before = network._choice
    with caplog.at_level(logging.INFO, "glue.network"):
        found = network._reconsider(present)
    if chosen == "eth1":
        assert (found, network._choice) == (best, system.best)
        assert caplog.messages == [f"interface eth1 is the best one (before: {before.interface.name})"]
    else:
        assert (found, network._choice, caplog.messages) == (chosen, before, [])


def test_only_a_network_that_was_not_told_its_interface_chooses_another(system: System) -> None:
    network = system.network
    system.found, other = DOWN, CARD.replaced(name="eth1")
    system.best = Choice(other, "it works")
    network._look()
    assert network._interface == DOWN
    network._automatic = True
    network._look()
    assert (network._interface, network.describe()["interface"]) == (other, "eth1")


JOIN = [("join", "multicast", "eth0"), ("send_through", "unicast", "eth0")]


def test_a_change_of_the_interface_is_followed_and_nothing_else(system: System) -> None:
    network = system.network
    network._look()
    assert network.done() == [("find", "eth0")]
    system.found = CARD.replaced(ipv4=("10.0.0.9",), mtu=1300)
    network._look()
    assert network.done() == [
        ("find", "eth0"), ("leave", "multicast", "eth0"), "forget refusals", *JOIN, ("own", "10.0.0.9")
    ]  # fmt: skip
    assert (network.datagram_size, network.unicast_address) == (1272, ("10.0.0.9", 4321))
    assert network.statistics == {"memberships": 1}
    system.found = None
    network._look()
    assert network.done()[1:] == [("leave", "multicast", "eth0"), "forget refusals"]
    assert network.statistics == {"memberships": 1, "interface lost": 1}
    assert (network._sender.destination, network.describe()["present"], network.describe()["addresses"]) == (
        None, False, [],
    )  # fmt: skip
    network._look()
    assert network.done() == [("find", "eth0")]
    system.found = CARD
    network._look()
    assert network.done()[1:] == ["forget refusals", *JOIN, ("own", "10.0.0.7", "10.0.0.8")]
    assert network._sender.destination == ("239.192.137.1", 37320)


@pytest.mark.parametrize(("number", "cause"), [(errno.ENODEV, "ENODEV"), (None, "unknown error")])
def test_an_interface_that_is_not_joined_is_tried_again_and_told_once(
    number: int | None, cause: str, system: System, caplog: pytest.LogCaptureFixture
) -> None:
    network = system.network
    network._interface = network._joined = None
    system.trouble = OSError(number, "No such device") if number else OSError()
    for times in (1, 2):
        network._look()
        assert network.statistics == {f"not joined: {cause}": times}
    assert (network._joined, network._sender.destination, network.is_settled) == (None, None, False)
    told = "No such device" if number else None
    assert caplog.messages == [f"eth0: cannot join 239.192.137.1:37320: {told}; waiting for that to change"]
    system.trouble = None
    network._look()
    assert (network.statistics["memberships"], network.is_settled) == (1, True)


@pytest.mark.parametrize(("interface", "group", "told"), [
    (CARD, "239.192.137.1:37320", ["eth0: joined 239.192.137.1:37320 as 10.0.0.7"]),
    (DOWN, "239.192.137.1:37320", ["eth0: down; waiting for that to change"]),
    (NONE, "239.192.137.1:37320", ["eth0: no IPv4 address; waiting for that to change"]),
    (CARD, "[ff15::1]:37320", ["eth0: joined [ff15::1]:37320 as 2001:db8::7"]),
    (LOOPBACK.replaced(multicast=False), "[ff15::1]:37320", [
        "lo: joined [ff15::1]:37320 as ::1",
        "lo carries no IPv6 multicast on this system; use an IPv4 group there",
    ]),
    (LOOPBACK, "[ff15::1]:37320", ["lo: joined [ff15::1]:37320 as ::1"]),
    (LOOPBACK.replaced(multicast=False), "239.192.137.1:37320", ["lo: joined 239.192.137.1:37320 as 127.0.0.1"]),
    (None, "239.192.137.1:37320", ["interface eth0 is gone; waiting for it"]),
])  # fmt: skip
def test_what_became_of_the_interface_is_logged(
    interface: Any, group: str, told: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    network = LoneNetwork(group=group, _interface=None, _joined=None)
    System(network, monkeypatch)
    with caplog.at_level(logging.INFO, "glue.network"):
        network._attach(interface)
    assert caplog.messages == told
    caplog.clear()
    with caplog.at_level(logging.INFO, "glue.network"):
        network._attach(interface)
    assert caplog.messages == ([] if interface else told)
    is_usable = interface is not None and interface.addresses(network._group.family)
    assert (network._sender.destination is not None) == bool(is_usable)


def test_what_the_kernel_dropped_is_counted_once_for_each_socket(system: System) -> None:
    network = system.network
    counted = []
    for unicast, of_group in (
        (None, None), (3, 0), (3, 4), (3, 4), (None, 5), (0xFFFFFFFE, 5), (0xFFFFFFFE, 5), (1, 5), (1, 6)
    ):  # fmt: skip
        system.drops = {"unicast": unicast, "multicast": of_group}
        before = network.statistics["not received: buffer full"]
        network.maintain(0.0)
        counted.append(network.statistics["not received: buffer full"] - before)
    assert counted == [0, 3, 4, 0, 1, 0xFFFFFFFB, 0, 3, 1]


def test_what_is_described_is_what_was_granted() -> None:
    network = LoneNetwork(_mtu=9000)
    assert network.describe() == {
        "interface": "eth0", "reason": "for a reason", "present": True, "addresses": ["10.0.0.7", "10.0.0.8"],
        "group": "239.192.137.1:37320", "listen_port": 4321, "mtu": 9000, "datagram_size": 1472,
        "receive_buffer": {"asked": 3000, "granted": 2000}, "send_buffer": {"asked": 4 << 20, "granted": 1000},
        "offload": {"UDP_SEGMENT": False, "UDP_GRO": True},
    }  # fmt: skip
    assert LoneNetwork(_mtu=1280, group="[ff15::1]:37320").datagram_size == 1232
    assert LoneNetwork(_interface=NONE).unicast_address == ("0.0.0.0", 4321)
    assert LoneNetwork(_interface=None, group="[ff15::1]:37320").unicast_address == ("::", 4321, 0, 0)
    assert multicast.LARGEST_MTU == 1500


def test_trains_wakes_and_sessions_go_to_the_parts_and_a_forked_child_closes_its_copies() -> None:
    network = LoneNetwork()
    trains: Any = ["train"]
    network.send(trains)
    network.wake()
    assert network.done() == [("send", trains), "wake"]
    network._unicast_receiver.keep = network._unicast_receiver.take = network._sender.post = None
    part = network.session_part()
    assert (part._waiter, part._fileno, part._receiver, part._sender) == (
        network._waiter, UNICAST, network._unicast_receiver, network._sender,
    )  # fmt: skip
    cleanup: Any = SimpleNamespace(close=lambda: network.note("close"))
    network._cleanup = cleanup
    network._waiter.renew_lock = lambda: network.note("new lock")
    network._after_fork()
    network.close()
    assert network.done() == ["new lock", "close", "close"]
