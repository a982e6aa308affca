"""Scenes on both sides of each limit of the doctor's rules, and of each condition in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from glue.doctor import EndpointSeen, InterfaceSeen, PathSeen, Seen, SenderSeen
from tests.doctor.scenes import (
    ATTIC,
    DOCTOR,
    ETHERNET,
    HALL,
    KITCHEN,
    LOOPBACK,
    alone_with_interface,
    at_hall,
    healthy,
    on_machine,
    on_ways,
    with_interface,
    with_sender,
)  # fmt: skip

HERE = (DOCTOR, KITCHEN)
ALL = (*HERE, HALL, ATTIC)
NONE = (0, 24)
OFF = replace(ETHERNET, up=False)


def counted(layer: str, count: int, *causes: str) -> Seen:
    return at_hall(counters={layer: dict.fromkeys(causes, count)})


def alone(**changes: Any) -> Seen:
    return replace(on_machine(**changes), endpoints=(DOCTOR,), senders=(), ways=())


def sealed(senders: tuple[SenderSeen, ...], others: tuple[EndpointSeen, ...], *causes: str) -> Seen:
    doctor = replace(DOCTOR, sealed=True, counters={"security": dict.fromkeys(causes, 1)})
    return replace(healthy(), sealed=True, senders=senders, endpoints=(doctor, *others), ways=())


def sender(**changes: Any) -> SenderSeen:
    return SenderSeen(**{"address": "10.0.0.9", "port": 37319, "id": "e0", "name": "garden", **changes})


def networks(*senders: SenderSeen, others: tuple[EndpointSeen, ...]) -> Seen:
    return replace(healthy(), senders=senders, endpoints=(DOCTOR, *others), ways=())


def elsewhere(*others: EndpointSeen, heard: int = 0, reason: str = "it was asked for") -> Seen:
    cards = (replace(ETHERNET, name="eth1", heard=heard), ETHERNET, replace(ETHERNET, name="eth2", heard=40), LOOPBACK)
    seen = on_machine(interfaces=cards, chosen="eth1", reason=reason)
    return replace(seen, endpoints=(DOCTOR, *others), senders=(), ways=())


def contained(*others: EndpointSeen, **changes: Any) -> Seen:
    veth = (replace(ETHERNET, kind="veth"),)
    seen = on_machine(**{"in_container": True, "interfaces": veth, **changes})
    return replace(seen, endpoints=(DOCTOR, *others), senders=(), ways=())


def firewalled(ways: Seen | None = None, **changes: Any) -> Seen:
    seen = ways or healthy()
    return replace(seen, machine=replace(seen.machine, **{"blocking": ("one rule", "another rule"), **changes}))


def by(*paths: PathSeen, **links: bool) -> Seen:
    return at_hall(links=links, paths=paths)


def path(peer: str, link: str, carries: bool = False, answers: bool = True) -> PathSeen:
    return PathSeen(peer=peer, link=link, carries=carries, answers=answers, round_trip=0.001)


TWO = tuple(replace(HALL, name=f"h{number}", id=f"h{number}", address=f"10.0.1.{number}") for number in range(1, 6))
V6 = replace(ETHERNET, ipv4=(), ipv6=("fd00::1/64",))
SCENES: dict[str, Seen] = {
    **{f"round trip {value}": on_ways((HALL,), (ATTIC,), round_trip=value) for value in (0.0299, 0.03, 1.0, 120.0)},
    "round trips of two": on_ways((HALL,), (ATTIC, KITCHEN), round_trip=0.05),
    **{f"round trip 0.06, load {load}": replace(seen := on_ways((HALL,), (ATTIC,), round_trip=0.06), endpoints=tuple(
        replace(one, load=load) if one is not KITCHEN else one for one in seen.endpoints)) for load in (0.5, 2.0, 2.1)},
    **{f"unicast {came} of 24": on_ways((HALL,), (ATTIC,), unicast=(came, 24)) for came in (0, 1, 12, 19, 20, 21, 22)},
    **{f"both {came} of 24": on_ways((HALL,), (ATTIC,), unicast=(came, 24), multicast=(came, 24))
       for came in (0, 11, 12, 21, 22, 23)},
    **{f"unicast {came} of 24 by two": on_ways(HERE, (HALL,), unicast=(came, 24)) for came in (21, 22)},
    "2 of 24 are lost": on_ways((HALL,), (ATTIC,), multicast=(22, 24), unicast=None),
    "3 of 24 are lost": on_ways((HALL,), (ATTIC,), multicast=(21, 24), unicast=None),
    "3 of 3, no unicast": on_ways((HALL,), (ATTIC,), multicast=(0, 24), unicast=None),
    "both directions lose": on_ways((HALL, ATTIC), (ATTIC, HALL), unicast=(12, 24)),
    "some lose more": on_ways((HALL,), (ATTIC, KITCHEN), unicast=(12, 24), multicast=(20, 24)),
    **{f"busy, {came} of 24": replace(on_ways((HALL,), (ATTIC,), unicast=(came, 24)), busy=True)
       for came in (14, 15, 20, 21, 22)},
    **{f"{sent} pings without an answer": on_ways((HALL,), (ATTIC,), unicast=(0, sent), multicast=(0, sent))
       for sent in (3, 4)},
    **{f"{sent} multicast pings lost": on_ways((HALL,), (ATTIC,), multicast=(0, sent), announced=None)
       for sent in (3, 4)},
    **{f"{sent} unicast pings lost": on_ways((HALL,), (ATTIC,), unicast=(0, sent)) for sent in (3, 4)},
    "no unicast was sent": on_ways((HALL,), (ATTIC,), unicast=None, large_unicast=None),
    **{f"large {came} of {of}": on_ways((HALL,), (ATTIC,), large_unicast=(came, of), large_multicast=(came, of))
       for came, of in ((0, 1), (0, 2), (1, 2), (0, 6))},
    **{f"large none, small {came} of 24": on_ways((HALL,), (ATTIC,), large_unicast=(0, 6), unicast=(came, 24))
       for came in (11, 12)},
    "large multicast alone is lost": on_ways((HALL,), (ATTIC,), large_multicast=(0, 6)),
    "large lost, other sizes": replace(seen := on_ways((HALL,), (ATTIC,), large_unicast=(0, 6)), endpoints=(
        *seen.endpoints[:2], replace(HALL, mtu=9000), replace(ATTIC, mtu=576, answered=False))),
    **{f"multicast silent for {value}": on_ways(HERE, (HALL,), multicast=NONE, announced=value)
       for value in (2.9, 3.0, 3.1)},
    "multicast silent for 5, asked every 2": replace(seen := on_ways((HALL,), HERE, multicast=NONE, announced=5.0),
        endpoints=tuple(replace(one, announce_interval=2.0) for one in seen.endpoints)),
    "multicast silent for 7, asked every 2": replace(seen := on_ways((HALL,), HERE, multicast=NONE, announced=7.0),
        endpoints=tuple(replace(one, announce_interval=2.0) for one in seen.endpoints)),
    "multicast of all is blocked": on_ways(ALL, ALL, multicast=NONE, announced=None),
    "multicast is blocked both ways and one": on_ways((*HERE, HALL), ALL, multicast=NONE, announced=None),
    "multicast from here": on_ways(HERE, (HALL, ATTIC), multicast=NONE, announced=None),
    "multicast to here": on_ways((HALL, ATTIC), HERE, multicast=NONE, announced=None),
    "multicast from two to two": on_ways((HALL, ATTIC), (*HERE, ATTIC), multicast=NONE, announced=None),
    "nothing to here, multicast to hall": on_ways((ATTIC,), (*HERE, HALL), multicast=NONE, unicast=NONE),
    "not known to the doctor": on_ways((HALL,), (DOCTOR,), known=False),
    "the doctor is not known": on_ways((DOCTOR,), (HALL,), known=False),
    "several do not know": on_ways((HALL,), (ATTIC, KITCHEN), known=False),
    "taken port": on_machine(failure="taken", port_taken=True),
    "failure and silence": on_machine(failure="no memory", looped=False),
    "failure alone": alone(failure="no memory"),
    "wanted is there": on_machine(wanted="eth0"),
    "wanted is not, nor any": on_machine(wanted="eth7", chosen=None, reason="", interfaces=()),
    "wanted is down": on_machine(wanted="eth0", chosen=None, interfaces=(LOOPBACK, OFF)),
    "wanted loopback": on_machine(wanted="lo", chosen="lo", interfaces=(LOOPBACK, OFF)),
    "none but loopback": alone(interfaces=(LOOPBACK,), chosen="lo", reason="lo, because no other can be used"),
    "two that cannot be used": alone(interfaces=(LOOPBACK, OFF, replace(V6, name="eth1")), chosen="lo"),
    "IPv6 group, IPv4 card": alone(interfaces=(LOOPBACK, ETHERNET), chosen="lo", is_ipv6=True),
    "IPv6 group, card in use": with_interface(ipv6=()),
    "IPv6 group": on_machine(is_ipv6=True, interfaces=(LOOPBACK, V6)),
    "IPv6 group without address": on_machine(is_ipv6=True),
    "no address at all": alone_with_interface(ipv4=()),
    "no carrier": with_interface(up=False, carrier=False),
    "carrier unknown": with_interface(up=False, carrier=None),
    "loopback in use": on_machine(chosen="lo"),
    "nothing chosen, another good": alone(chosen=None),
    **{f"bridge {name}": on_machine(chosen=name)
       for name in ("docker0", "podman1", "br-12", "br0", "cni0", "lxcbr0", "lxdbr0", "incusbr0", "flannel.1", "cali1",
                    "virbr0", "vmnet1", "vboxnet0", "vmenet0", "bridge100", "eth0")},
    "heard on two others": elsewhere(),
    "heard on another, and one here": elsewhere(KITCHEN),
    "heard on another, and one there": elsewhere(HALL),
    "heard on both": elsewhere(heard=1),
    "heard on loopback alone": alone(interfaces=(replace(LOOPBACK, heard=9), replace(ETHERNET, heard=0))),
    "container": contained(), "container with one here": contained(KITCHEN),
    "container with one there": contained(HALL),
    "container of the host": contained(interfaces=(ETHERNET,)), "veth": contained(in_container=False),
    "container without a card": contained(chosen="none"),
    "firewall": firewalled(), "firewall alone": firewalled(alone()), "firewall, not sent": firewalled(unsent={"x": 1}),
    "firewall, not looped": firewalled(looped=False), "firewall, looped unknown": firewalled(looped=None),
    "firewall, multicast": firewalled(on_ways((HALL,), (ATTIC,), multicast=NONE, announced=None)),
    "firewall, unicast": firewalled(on_ways((HALL,), (ATTIC,), unicast=NONE)),
    "firewall, unread": firewalled(firewall_read=False),
    "not sent for two reasons": on_machine(unsent={"ENETUNREACH": 3, "EACCES": 2, "x": 0}),
    "not sent, no reason": on_machine(unsent={"x": 0}), "not sent by the firewall": on_machine(unsent={"EACCES": 2}),
    "not looped": on_machine(looped=False), "looped unknown": on_machine(looped=None),
    "power saving unknown": with_interface(power_saving=None), "no power saving": with_interface(power_saving=False),
    **{f"{count} damaged frames": with_interface(errors=count) for count in (2, 3)},
    "strict, no stranger": on_machine(strict_reverse_path=True),
    "bridge that snoops": on_machine(snooping_without_querier=True),
    "bridge that snoops, silence": replace(seen := on_ways((HALL,), HERE, announced=9.0),
                                           machine=replace(seen.machine, snooping_without_querier=True)),
    **{f"address {address}": at_hall(address=address)
       for address in ("10.0.0.255", "10.0.1.0", "fd00::9", "fe80::9%eth0", "169.254.1.1", "nowhere", "")},
    "another subnet, here": at_hall(address="10.9.0.2", here=True),
    "another subnet by loopback": replace(at_hall(address="10.9.0.2"), machine=replace(healthy().machine, chosen="lo")),
    "another subnet, no net": replace(at_hall(address="10.9.0.2"), machine=on_machine(
        interfaces=(InterfaceSeen(name="eth0", ipv4=("10.0.0.1",)),)).machine),
    "another subnet, cut off": replace(seen := on_ways((ATTIC,), HERE, multicast=NONE, announced=None), endpoints=tuple(
        replace(one, address="10.9.0.3") if one.name == "attic" else one for one in seen.endpoints)),
    "another subnet, another is cut off": replace(seen := on_ways((ATTIC,), (KITCHEN, DOCTOR), multicast=NONE),
        endpoints=tuple(replace(one, address="10.9.0.2") if one.name == "hall" else one for one in seen.endpoints)),
    "another subnet of IPv6": replace(at_hall(address="fd01::2"), machine=on_machine(
        interfaces=(replace(V6, ipv4=("10.0.0.1/24",)),)).machine),
    "contacts": replace(healthy(), contacts=("a", "b", "c", "d", "e"), met=("b",)),
    "contacts that answered": replace(healthy(), contacts=("a",), met=("a",)),
    "not answered, proven": at_hall(answered=False), "neither": at_hall(answered=False, proven=False),
    "two neither": healthy(replace(HALL, answered=False, proven=False), replace(ATTIC, answered=False, proven=False)),
    **{f"buffer {granted} of {asked}": at_hall(buffer_granted=granted, buffer_asked=asked)
       for granted, asked in ((199_999, 300_000), (200_000, 300_000), (199_999, 199_999), (200_000, 200_000))},
    "buffer unknown": at_hall(buffer_granted=5, answered=False),
    "not joined": counted("network", 1, "not joined: b", "not joined: a", "x"),
    **{f"clock {offset}": at_hall(clock_offset=offset) for offset in (1.9, 2.0, -2.0, None)},
    "clock of all": healthy(replace(HALL, clock_offset=-5.0), replace(ATTIC, clock_offset=-4.0)),
    "clock of two of three": healthy(replace(HALL, clock_offset=-5.0), replace(ATTIC, clock_offset=7.0), KITCHEN),
    "clock of one of one": healthy(replace(HALL, clock_offset=-5.0)),
    **{f"clock set by {moved}": at_hall(clock_moved=moved) for moved in (1.9, 2.0, -2.0)},
    "clock set, no answer": at_hall(clock_moved=9.0, answered=False),
    **{f"waiting {waiting}": at_hall(waiting=waiting, receive_limit=1000) for waiting in (499, 500)},
    "waiting, no answer": at_hall(waiting=500, receive_limit=1000, answered=False),
    **{f"{count} malformed": counted("serialization", count, "malformed header") for count in (9, 10)},
    "malformed in discovery": counted("discovery", 5, "malformed header", "malformed body"),
    "malformed in security": counted("security", 5, "malformed", "refused: bad tag"),
    "full table": counted("discovery", 2, "peer table full", "too many peers on one host"),
    "buffer full": counted("network", 7, "not received: buffer full"),
    "interface lost": counted("network", 7, "interface lost"), "suspended": counted("discovery", 7, "suspended"),
    "versions of three": healthy(replace(HALL, version="2"), replace(ATTIC, version="1"), KITCHEN),
    "version unknown": at_hall(version=""), "version, no answer": at_hall(version="2", answered=False),
    "many": healthy(*TWO), "many silent": healthy(*[replace(one, answered=False) for one in TWO]),
    "one here": healthy(replace(HALL, here=True)), "one there": healthy(HALL),
    "network 2 beside three": networks(sender(network_id=2), others=(KITCHEN, HALL, ATTIC)),
    "network 2 beside two": networks(sender(network_id=2), others=(KITCHEN, HALL)),
    "network 2 of two": networks(sender(network_id=2), sender(network_id=2, id="f0", name=""), others=(KITCHEN,)),
    "networks 2 and 3": networks(sender(network_id=3), sender(network_id=2, id=None), others=()),
    "network of another version": networks(sender(network_id=3, version=2), others=()),
    "sealed sender": networks(sender(sealed=True, version=None), others=(HALL,)),
    "sealed sender of another network": networks(sender(sealed=True, network_id=2), others=(HALL,)),
    "plain sender": sealed((sender(),), (HALL,)), "plain sender beside two": sealed((sender(),), (HALL, ATTIC)),
    "sealed senders": sealed((sender(sealed=True),), (HALL,)),
    "plain sender of another network": sealed((sender(network_id=5),), (HALL,)),
    "another key": sealed((sender(sealed=True, key_id=1), sender(sealed=True, key_id=2, address="10.0.0.2", name="")),
                          (HALL,), "refused: another key", "refused: epoch is over"),
    "another key, unseen": sealed((), (HALL,), "refused: another key", "refused: epoch is over"),
    "epochs": healthy(replace(HALL, epoch=2), replace(ATTIC, epoch=3), replace(KITCHEN, epoch=5, answered=False)),
    "one epoch": healthy(replace(HALL, epoch=2), replace(ATTIC, epoch=2)),
    "version of the format": networks(sender(version=3), sender(version=2, name=""), others=(HALL,)),
    "not glue": networks(
        sender(version=None, count=3), sender(version=None, count=4, address="10.0.0.8"), others=(HALL,)),
    **{f"ttl {ttl}": with_sender(ttl=ttl) for ttl in (None, 0, 1, 2, 64)},
    "ttl of no glue": with_sender(ttl=5, version=None, sealed=True),
    **{f"{lives} lives": with_sender(lives=lives) for lives in (1, 2)},
    "lives without a name": with_sender(lives=2, name=""), "lives without an id": with_sender(lives=2, id=None),
    "name clash": counted("discovery", 1, "name clash"),
    "links": by(eth0=True, wlan0=False, wlan1=False, eth1=True), "links all down": by(eth0=False),
    "links all up": by(eth0=True),
    "paths": by(path("a", "x", True), path("a", "y", answers=False), path("e", "u", True), path("b", "x", True),
                path("b", "y", answers=False),
                path("c", "y", answers=False), path("d", "z", answers=False), path("d", "x"), x=True, y=True, z=False),
    "path, nobody carries": by(path("a", "x"), path("a", "y", answers=False), x=True, y=True),
}  # fmt: skip
