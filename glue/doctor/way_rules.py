"""Rules about the ways between machines, each direction by itself: multicast, unicast, size, loss and delay."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from glue.doctor.finding import FAULT, NOTE, WARNING, Finding
from glue.doctor.lanes import Lane, lanes, place
from glue.doctor.names import machine, pairs, seconds
from glue.doctor.seen import Seen

LOSS = 0.05
LEAST_LOST = 3
"""Loss counts from this share on, and this number of pings: one ping may always be lost for a short reason."""
BUSY_LOSS = 0.2  # the share where this machine is too busy to tell what is lost from what is late
SLOW = 0.03  # seconds of the shortest of 20 round trips: an Ethernet has 0.0005, a Wi-Fi 0.005


def multicast_stopped(seen: Seen) -> Iterator[Finding]:
    """Multicast came, and comes no more: IGMP snooping without a querier."""
    found = [lane for lane in lanes(seen) if lane.is_multicast_dead and not lane.is_unicast_dead]
    stopped = [lane for lane in found if lane.silent is not None]
    if stopped:
        silence = min(lane.silent for lane in stopped if lane.silent is not None)
        yield Finding(
            "multicast-stopped",
            FAULT,
            f"multicast {_named(seen, stopped)} came until {seconds(silence)} ago and stopped, while unicast works",
            "a switch with IGMP snooping and no querier forgets the group after some minutes: switch on a querier on "
            "the switch or router, or switch IGMP snooping off; else look for a firewall that was started then",
            {"lanes": [_facts(lane) for lane in stopped]},
        )


def multicast_blocked(seen: Seen) -> Iterator[Finding]:
    """Multicast does not come in some direction, though unicast does."""
    every = lanes(seen)
    dead = [lane for lane in every if lane.is_multicast_dead and not lane.is_unicast_dead and lane.silent is None]
    if not dead:
        return
    details = {"lanes": [_facts(lane) for lane in dead]}
    directions = {(lane.source, lane.target) for lane in dead}
    both = [lane for lane in dead if (lane.target, lane.source) in directions]
    if len(both) == len(dead):
        yield Finding(
            "multicast-blocked",
            FAULT,
            f"multicast is blocked in both directions between {_ends(seen, dead)}, while unicast works",
            "let the access point or switch pass multicast (client isolation, IGMP snooping); or give the endpoints "
            "each other's addresses: peers=[…] or --peer HOST",
            details,
        )
        return
    one_way = [lane for lane in dead if (lane.target, lane.source) not in directions]
    deaf = _common(every, one_way, lambda lane: lane.target)
    mute = _common(every, one_way, lambda lane: lane.source)
    if deaf is not None:
        verdict = f"no multicast comes in at {machine(seen, deaf)}, while unicast does and its own multicast is heard"
        cure = (
            f"look for a firewall or the membership of the group at {machine(seen, deaf)} (`glue doctor` there reads "
        )
        cure += "its rules), then for IGMP snooping at its port of the switch"
    elif mute is not None:
        verdict = f"the multicast of {machine(seen, mute)} reaches nobody, while its unicast does and it hears others"
        cure = (
            f"look for a firewall at {machine(seen, mute)} that drops multicast going out, and its port of the switch"
        )
    else:
        verdict = f"multicast {_named(seen, one_way)} does not come, in this direction only, while unicast works"
        cure = "look for a firewall at the receiver, then for IGMP snooping at its port of the switch or access point"
    yield Finding("multicast-one-way", FAULT, verdict, cure, details)


def unicast_blocked(seen: Seen) -> Iterator[Finding]:
    """Unicast does not come in some direction, though multicast does."""
    dead = [lane for lane in lanes(seen) if lane.is_unicast_dead and not lane.is_multicast_dead]
    if dead:
        yield Finding(
            "unicast-blocked",
            FAULT,
            f"unicast {_named(seen, dead)} does not come, while multicast does: endpoints see each other, but no data",
            "a firewall lets only the group's port in: let UDP pass to the ports of the endpoints (37319, or "
            "--listen-port for a fixed one)",
            {"lanes": [_facts(lane) for lane in dead]},
        )


def nothing_comes(seen: Seen) -> Iterator[Finding]:
    """Neither multicast nor unicast comes in a direction."""
    dead = [lane for lane in lanes(seen) if lane.is_unicast_dead and lane.is_multicast_dead]
    if dead:
        yield Finding(
            "nothing-comes",
            FAULT,
            f"nothing {_named(seen, dead)} comes, neither by multicast nor by unicast",
            "look for a firewall at the receiver that drops UDP",
            {"lanes": [_facts(lane) for lane in dead]},
        )


def large_lost(seen: Seen) -> Iterator[Finding]:
    """Datagrams that fill a frame do not come, though small ones do: the MTU differs on the way."""
    found = [lane for lane in lanes(seen) if _is_cut(lane.unicast, lane.large_unicast)]
    found += [lane for lane in lanes(seen) if lane not in found and _is_cut(lane.multicast, lane.large_multicast)]
    if not found:
        return
    sizes = sorted({one.mtu for one in seen.endpoints if one.answered})
    told = f" (the interfaces' MTUs are {', '.join(map(str, sizes))})" if len(sizes) > 1 else ""
    yield Finding(
        "large-lost",
        FAULT,
        f"large datagrams {_named(seen, found)} do not come, while small ones do: the MTU on the way is smaller than "
        f"that of the sender{told}",
        "set the same MTU at all interfaces and at the switch (`ip link set NAME mtu 1500`); a tunnel or VPN between "
        "needs a smaller one everywhere",
        {"lanes": [_facts(lane) for lane in found], "mtus": sizes},
    )


def loss(seen: Seen) -> Iterator[Finding]:
    """A part of the pings is lost."""
    found = [lane for lane in lanes(seen) if _is_lossy(lane, BUSY_LOSS if seen.busy else LOSS)]
    if not found:
        return
    worst = max(found, key=lambda lane: lane.lost[0] / lane.lost[1])
    share = worst.lost[0] / worst.lost[1]
    one_way = (worst.target, worst.source) not in {(lane.source, lane.target) for lane in found}
    yield Finding(
        "loss",
        FAULT if share >= 0.1 else WARNING,
        f"{share:.0%} of the datagrams {_named(seen, [worst])} are lost{', in this direction only' if one_way else ''}",
        "Wi-Fi: move closer, another channel, wire the busiest machine; Ethernet: change the cable, look for a full "
        "link or a port at 100 Mb/s half duplex",
        {"lanes": [_facts(lane) for lane in found]},
    )


def slow(seen: Seen) -> Iterator[Finding]:
    """Even the fastest round trip takes long."""
    found = [lane for lane in lanes(seen) if _is_slow(seen, lane)]
    if found and not seen.busy:
        worst = max(found, key=lambda lane: lane.round_trip or 0.0)
        yield Finding(
            "slow",
            WARNING,
            f"even the fastest of 20 round trips {_named(seen, [worst])} took {seconds(worst.round_trip or 0.0)}",
            "Wi-Fi: switch power saving off; a full queue: find who fills the link (`glue spy`); a VPN or a far bridge "
            "takes its time",
            {"lanes": [_facts(lane) for lane in found]},
        )


def busy(seen: Seen) -> Iterator[Finding]:
    """The machine was too busy for a judgement of loss and delay."""
    unsure = [lane for lane in lanes(seen) if _is_lossy(lane, LOSS) or _is_slow(seen, lane)]
    if seen.busy and any(not _is_lossy(lane, BUSY_LOSS) for lane in unsure):
        yield Finding(
            "busy",
            NOTE,
            "this machine is so busy that what is lost cannot be told from what is late",
            "call the doctor again when less is running, or on another machine",
        )


def unknown_to_peer(seen: Seen) -> Iterator[Finding]:
    """An endpoint knows another one that does not know it, although something comes."""
    found = [
        (way.source, way.target)
        for way in seen.ways
        if not way.known and (source := seen.endpoint(way.source)) and not source.is_doctor
    ]
    for source_id, target_id in found[:1]:
        source, target = seen.endpoint(source_id), seen.endpoint(target_id)
        if source is not None and target is not None and not target.is_doctor:
            yield Finding(
                "not-known",
                WARNING,
                f"{target.name} does not know {source.name}, though both run and can be asked",
                "nothing of it comes there: look at the findings about this way; a table full of peers is counted",
            )


def _is_cut(small: tuple[int, int], large: tuple[int, int]) -> bool:
    return large[0] == 0 and large[1] >= 2 and 2 * small[0] >= small[1] > 0


def _is_lossy(lane: Lane, share: float) -> bool:
    lost, of = lane.lost
    return lost >= LEAST_LOST and lost >= share * of


def _is_slow(seen: Seen, lane: Lane) -> bool:
    """Whether round trips take long, even for machines as busy as these: their programs wait for each other."""
    ends = lane.source, lane.target
    load = max([one.load for one in seen.endpoints if place(one) in ends], default=0.0)
    return lane.round_trip is not None and lane.round_trip >= SLOW * max(1.0, load)


def _common(every: list[Lane], dead: list[Lane], end: Callable[[Lane], str]) -> str | None:
    """The machine at this end of all dead lanes, if all its lanes, at least two, are among them."""
    ends = {end(lane) for lane in dead}
    if len(ends) != 1:
        return None
    (one,) = ends
    of_it = [lane for lane in every if end(lane) == one]
    return one if len(of_it) == len(dead) >= 2 else None


def _named(seen: Seen, found: list[Lane]) -> str:
    return pairs(seen, [(lane.source, lane.target) for lane in found])


def _ends(seen: Seen, found: list[Lane]) -> str:
    ends = sorted({end for lane in found for end in (lane.source, lane.target)})
    return " and ".join(machine(seen, end) for end in ends[:3])


def _facts(lane: Lane) -> dict[str, object]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in lane._asdict().items()}


WAY_RULES = (
    nothing_comes, multicast_stopped, multicast_blocked, unicast_blocked, large_lost, loss, slow, busy, unknown_to_peer,
)  # fmt: skip
