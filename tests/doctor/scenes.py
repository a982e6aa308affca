"""A healthy network as the doctor sees it, and changes to it: two machines, with the doctor on the first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from glue.doctor import EndpointSeen, InterfaceSeen, MachineSeen, Seen, SenderSeen, Way

CHOICE = "eth0 (10.0.0.1), because it carries the default route"
ETHERNET = InterfaceSeen(name="eth0", ipv4=("10.0.0.1/24",), heard=12)
LOOPBACK = InterfaceSeen(name="lo", loopback=True, ipv4=("127.0.0.1/8",))
ALL, LARGE = (24, 24), (6, 6)

DOCTOR = EndpointSeen(name="doctor", id="d0", is_doctor=True, here=True, version="0.1.0")
KITCHEN = EndpointSeen(name="kitchen", id="a0", here=True, address="10.0.0.1", version="0.1.0")
HALL = EndpointSeen(name="hall", id="b0", address="10.0.0.2", version="0.1.0")
ATTIC = EndpointSeen(name="attic", id="c0", address="10.0.0.3", version="0.1.0")


def way(source: EndpointSeen, target: EndpointSeen, **changes: Any) -> Way:
    """A way on which everything comes."""
    facts = {"multicast": ALL, "unicast": ALL, "large_multicast": LARGE, "large_unicast": LARGE, "announced": 0.4}
    return Way(source=source.id, target=target.id, round_trip=0.0004, **{**facts, **changes})


def healthy(*endpoints: EndpointSeen) -> Seen:
    """A network without a fault."""
    every = (DOCTOR, *(endpoints or (KITCHEN, HALL)))
    return Seen(
        machine=MachineSeen(interfaces=(LOOPBACK, ETHERNET), chosen="eth0", reason=CHOICE),
        endpoints=every,
        senders=tuple(SenderSeen(address=one.address, port=37319, id=one.id, name=one.name) for one in every[1:]),
        ways=tuple(way(source, target) for source in every for target in every if source is not target),
        seconds=3.5,
    )


def on_machine(**changes: Any) -> Seen:
    """The healthy network, with something else on this machine."""
    seen = healthy()
    return replace(seen, machine=replace(seen.machine, **changes))


def with_interface(**changes: Any) -> Seen:
    """The healthy network, with another state of the interface."""
    return on_machine(interfaces=(LOOPBACK, replace(ETHERNET, **changes)))


def alone_with_interface(**changes: Any) -> Seen:
    """A machine whose only interface is in this state, so that loopback was chosen."""
    seen = on_machine(interfaces=(LOOPBACK, replace(ETHERNET, heard=0, **changes)), chosen="lo")
    return replace(seen, endpoints=(DOCTOR,), senders=(), ways=())


def at_hall(**changes: Any) -> Seen:
    """The healthy network, with something else at the endpoint of the other machine."""
    return healthy(KITCHEN, replace(HALL, **changes))


def on_ways(sources: tuple[EndpointSeen, ...], targets: tuple[EndpointSeen, ...], **changes: Any) -> Seen:
    """Three machines, with something else on the ways from these to those."""
    seen = healthy(KITCHEN, HALL, ATTIC)
    chosen, aimed = {one.id for one in sources}, {one.id for one in targets}
    ways = tuple(replace(one, **changes) if one.source in chosen and one.target in aimed else one for one in seen.ways)
    return replace(seen, ways=ways)


def with_sender(**changes: Any) -> Seen:
    """The healthy network, with one more that sends to the group."""
    seen = healthy()
    facts = {"address": "10.0.0.9", "port": 37319, "id": "e0", "name": "garden", **changes}
    return replace(seen, senders=(*seen.senders, SenderSeen(**facts)))
