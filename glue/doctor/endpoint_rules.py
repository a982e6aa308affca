"""Rules about single endpoints: what they told, and what they did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_interface

from glue.doctor.finding import FAULT, NOTE, WARNING, Finding
from glue.doctor.lanes import lanes
from glue.doctor.names import of, seconds, some
from glue.doctor.seen import EndpointSeen, Seen

SMALL_BUFFER = 200_000  # bytes: 0.016 s of a full link of 100 Mb/s; Linux gives 212,992 unless it is told otherwise
CLOCKS = 2.0  # seconds by which clocks may differ
WAITING = 0.5  # share of `receive_limit`
DAMAGED = 10  # malformed datagrams that are more than chance


def contact_silent(seen: Seen) -> Iterator[Finding]:
    """An address that was given does not answer."""
    silent = [one for one in seen.contacts if one not in seen.met]
    if silent:
        yield Finding(
            "contact-silent",
            FAULT,
            f"no endpoint answers at {some(silent)}",
            "is the program running there, with this network id and key? does a firewall there let UDP in? Its port is "
            "37319 unless another endpoint of that machine has it",
        )


def no_answer_by_unicast(seen: Seen) -> Iterator[Finding]:
    """Announcements come by multicast, but unicast does not come, or ours does not get there."""
    found = [one for one in seen.others if not one.answered and not one.proven]
    if found:
        yield Finding(
            "one-way-to-doctor",
            FAULT,
            f"{some([of(one) for one in found])} is heard by multicast, but no unicast passes between it and here",
            "a firewall here or there lets only the group's port pass: let UDP pass to the ports of the endpoints",
        )


def other_subnet(seen: Seen) -> Iterator[Finding]:
    """An endpoint is in another subnet: multicast with TTL 1 does not get there."""
    found = in_other_subnet(seen)
    if found:
        places = {one.address for one in found}
        is_cut_off = any(lane.is_multicast_dead and {lane.source, lane.target} & places for lane in lanes(seen))
        yield Finding(
            "other-subnet",
            FAULT if is_cut_off else WARNING,
            f"{some([of(one) for one in found])} is in another subnet than this machine: multicast has TTL 1 and does "
            "not pass a router",
            "use one segment; else name an endpoint that runs always as a peer: peers=[…], --peer HOST",
        )


def in_other_subnet(seen: Seen) -> list[EndpointSeen]:
    """The endpoints whose address is in no subnet of the interface in use."""
    chosen = seen.machine.interface(seen.machine.chosen)
    if chosen is None or chosen.loopback:
        return []
    nets = [net for text in (*chosen.ipv4, *chosen.ipv6) if "/" in text and (net := ip_interface(text).network)]
    if not nets:
        return []
    found = []
    for one in seen.others:
        try:
            address = ip_address(one.address.partition("%")[0])
        except ValueError:
            continue
        same = [net for net in nets if net.version == address.version]
        if same and not one.here and not address.is_link_local and not any(address in net for net in same):
            found.append(one)
    return found


def buffer_full(seen: Seen) -> Iterator[Finding]:
    """A socket's receive buffer was full."""
    for one, count in _counted(seen, "network", "not received: buffer full"):
        yield Finding(
            "buffer-full",
            WARNING,
            f"the receive buffer of {of(one)} was full: {count:,} datagrams were dropped there, by its own system",
            f"`sysctl net.core.rmem_max=33554432` on that machine and start it again (it has {one.buffer_granted:,} "
            f"bytes of {one.buffer_asked:,}); does something keep the program from running?",
            {"dropped": count, "granted": one.buffer_granted},
        )


def small_buffer(seen: Seen) -> Iterator[Finding]:
    """A socket's receive buffer is small."""
    for one in seen.endpoints:
        if one.answered and one.buffer_granted < one.buffer_asked:
            yield Finding(
                "buffer-limited",
                WARNING if one.buffer_granted < SMALL_BUFFER else NOTE,
                f"the system of {of(one)} granted a receive buffer of {one.buffer_granted:,} bytes instead of "
                f"{one.buffer_asked:,}",
                "`sysctl net.core.rmem_max=33554432` there",
            )
        elif one.answered and one.buffer_granted < SMALL_BUFFER:
            yield Finding(
                "buffer-small",
                WARNING,
                f"{of(one)} has a receive buffer of only {one.buffer_granted:,} bytes: bursts will be lost there",
                "raise its setting receive_buffer (GLUE_RECEIVE_BUFFER)",
            )


def not_joined(seen: Seen) -> Iterator[Finding]:
    """The system refused the membership of the group."""
    for one in seen.endpoints:
        found = {cause for cause in one.counters.get("network", {}) if cause.startswith("not joined")}
        if found:
            yield Finding(
                "not-joined",
                FAULT,
                f"the system of {of(one)} refused to join the group ({sorted(found)[0].partition(': ')[2]})",
                "`sysctl net.ipv4.igmp_max_memberships=100` there; is the interface up?",
            )


def interface_lost(seen: Seen) -> Iterator[Finding]:
    """An endpoint's interface was gone at times."""
    for one, count in _counted(seen, "network", "interface lost"):
        yield Finding(
            "interface-lost",
            NOTE,
            f"the interface of {of(one)} was gone {count} times",
            "look at the log of that machine: a cable, a USB adapter, a Wi-Fi that goes away",
        )


def versions(seen: Seen) -> Iterator[Finding]:
    """Endpoints run different releases."""
    found: dict[str, list[EndpointSeen]] = {}
    for one in seen.endpoints:
        if one.answered and one.version:
            found.setdefault(one.version, []).append(one)
    if len(found) > 1:
        rare = min(found, key=lambda version: (len(found[version]), version))
        others = some(sorted(set(found) - {rare}))
        yield Finding(
            "versions-differ",
            WARNING,
            f"{some([of(one) for one in found[rare]])} runs glue {rare}, others {others}",
            "install one release everywhere",
        )


def clocks(seen: Seen) -> Iterator[Finding]:
    """Wall clocks differ."""
    found = [one for one in seen.others if one.clock_offset is not None and abs(one.clock_offset) >= CLOCKS]
    if found:
        worst = max(found, key=lambda one: abs(one.clock_offset or 0.0))
        offset = worst.clock_offset or 0.0
        everybody = len(found) == len([one for one in seen.others if one.answered]) > 1
        who = "the clock of this machine" if everybody else f"the clock of {of(worst)}"
        ahead = (offset > 0) is not everybody
        yield Finding(
            "clock-off",
            WARNING,
            f"{who} is {seconds(abs(offset))} {'ahead' if ahead else 'behind'}: times of messages are wrong by that",
            "switch on time synchronization (NTP) there; glue delivers all the same",
        )


def clock_steps(seen: Seen) -> Iterator[Finding]:
    """A wall clock was set while the endpoint ran."""
    for one in seen.endpoints:
        if one.answered and abs(one.clock_moved) >= CLOCKS:
            direction = "forward" if one.clock_moved > 0 else "back"
            yield Finding(
                "clock-stepped",
                WARNING,
                f"the clock of {of(one)} was set {direction} by {seconds(abs(one.clock_moved))} while it ran",
                "start time synchronization before the program; let it slew, not step",
            )


def overloaded(seen: Seen) -> Iterator[Finding]:
    """An endpoint does not handle what it receives."""
    for one in seen.others:
        if one.answered and one.waiting >= WAITING * one.receive_limit:
            yield Finding(
                "overloaded",
                WARNING,
                f"{of(one)} handles its messages too slowly: {one.waiting:,} bytes wait for its handlers, and senders "
                "have to wait for it",
                'make its handlers faster, or subscribe with policy="drop_oldest"',
            )


def damaged(seen: Seen) -> Iterator[Finding]:
    """An endpoint gets damaged or foreign datagrams."""
    for one in seen.endpoints:
        count = one.counted("serialization", "malformed header") + one.counted(
            "security", "malformed", "refused: bad tag"
        )
        count += one.counted("discovery", "malformed header", "malformed body")
        if one.answered and count >= DAMAGED:
            yield Finding(
                "malformed",
                WARNING,
                f"{of(one)} dropped {count:,} datagrams that were damaged or not glue's",
                "another program sends to the port of this group or endpoint, or a box between damages datagrams",
            )


def full_tables(seen: Seen) -> Iterator[Finding]:
    """An endpoint knows as many peers as it can."""
    for one, count in _counted(seen, "discovery", "peer table full", "too many peers on one host"):
        yield Finding(
            "too-many-peers",
            WARNING,
            f"{of(one)} refused {count:,} announcements, because it knows as many peers as it can",
            "divide the network by network ids; a program that starts endpoints again and again fills the table",
        )


def suspended(seen: Seen) -> Iterator[Finding]:
    """An endpoint did not run for longer than its interval."""
    for one, count in _counted(seen, "discovery", "suspended"):
        yield Finding(
            "suspended",
            NOTE,
            f"{of(one)} was stopped for more than a second {count} times (suspended, or its machine too busy)",
            "give it more of the processor, or let the machine not sleep",
        )


def silent(seen: Seen) -> Iterator[Finding]:
    """Endpoints that are there, but do not answer the doctor."""
    found = [one for one in seen.others if not one.answered and one.proven]
    if found:
        yield Finding(
            "silent",
            NOTE,
            f"{some([of(one) for one in found])} is there and receives, but answers no questions",
            "it has the setting doctor=False, or an earlier release: its own view is missing here",
        )


def alone(seen: Seen) -> Iterator[Finding]:
    """No other endpoint is heard at all."""
    if not seen.others and not seen.machine.failure:
        yield Finding(
            "alone",
            NOTE,
            "no other endpoint is heard here",
            "start one on each machine (`glue endpoint`), and call the doctor again; where multicast is blocked, name "
            "its address: --peer HOST",
        )


def _counted(seen: Seen, layer: str, *causes: str) -> Iterator[tuple[EndpointSeen, int]]:
    for one in seen.endpoints:
        if one.answered and (count := one.counted(layer, *causes)):
            yield one, count


EARLY_ENDPOINT_RULES: tuple[Callable[[Seen], Iterator[Finding]], ...] = (
    contact_silent, no_answer_by_unicast, not_joined, other_subnet,
)  # fmt: skip
ENDPOINT_RULES: tuple[Callable[[Seen], Iterator[Finding]], ...] = (
    buffer_full, overloaded, clocks, clock_steps, versions, small_buffer, damaged, full_tables,
    interface_lost, suspended, silent, alone,
)  # fmt: skip
