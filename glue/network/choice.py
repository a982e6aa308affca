"""Which interface to use, and why: the one asked for, or the best by a fixed order, with the reason as a sentence.

A real network card comes before what software made, the one that carries the default route first; loopback is the
last resort. Nothing is sent to find out, so it works the same on a network without internet. Default routes are
read from /proc, not asked of `netifaces.gateways()`: that starts other programs, installs a handler on the root
logger, and is not implemented on macOS. Where /proc is missing, the order of the indexes decides.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence

from glue.contract.frozen import Frozen
from glue.contract.near import near
from glue.errors import InterfaceError
from glue.network.interfaces import Interface, has_virtual_name, list_interfaces

# "thread-self", because the threads of one process may be in different network namespaces.
ROUTES: dict[int, str] = {
    socket.AF_INET: "/proc/thread-self/net/route",
    socket.AF_INET6: "/proc/thread-self/net/ipv6_route",
}
FAMILY_NAMES: dict[int, str] = {socket.AF_INET: "IPv4", socket.AF_INET6: "IPv6"}
NAMES_IN_REASON = 6  # a container host has hundreds of interfaces; a sentence has not


class Choice(Frozen):
    """The interface chosen, and the reason as a sentence for the operator."""

    interface: Interface
    reason: str


def choose_interface(name: str | None, family: int = socket.AF_INET) -> Choice:
    """The interface of this name, or without a name the best one for an address family.

    An interface asked for by name is accepted even while it is down or has no address. Raises InterfaceError,
    naming the interfaces that exist, if there is none of that name, or none at all to choose from.
    """
    interfaces = list_interfaces()
    if name is not None:
        return named(interfaces, name, family)
    return best(interfaces, family, default_route_interfaces(family))


def named(interfaces: Sequence[Interface], name: str, family: int) -> Choice:
    """The interface that was asked for; InterfaceError if there is none of that name."""
    for interface in interfaces:
        if interface.name == name:
            trouble = obstacle(interface, family)
            at_present = f"; at present it cannot be used: {trouble}" if trouble else ""
            return Choice(interface, f"{name}, as asked for{at_present}")
    meant = near(name, [interface.name for interface in interfaces])
    raise InterfaceError(f"interface={name!r}: there is no such interface; {existing(interfaces)}{meant}")


def best(interfaces: Sequence[Interface], family: int, default_routes: Sequence[str]) -> Choice:
    """The best interface of a table, given the names of those with a default route, best route first."""

    def order(interface: Interface) -> tuple[bool, bool, int, int]:
        route = default_routes.index(interface.name) if interface.name in default_routes else len(default_routes)
        return has_virtual_name(interface.name), interface.virtual, route, interface.number

    usable = [i for i in interfaces if not i.loopback and obstacle(i, family) is None]
    if not usable:
        return _last_resort(interfaces, family)
    chosen = min(usable, key=order)
    others = [i for i in interfaces if not i.loopback and i is not chosen]
    return Choice(chosen, _reason(chosen, family, default_routes) + _passed_over(others, family))


def obstacle(interface: Interface, family: int) -> str | None:
    """Why an interface cannot be used for multicast of this family at present; None if it can."""
    checks = (
        (interface.up, "down"),
        (bool(interface.addresses(family)), f"no {FAMILY_NAMES[family]} address"),
        (interface.multicast or interface.loopback, "no multicast"),
    )
    return next((trouble for good, trouble in checks if not good), None)


def default_route_interfaces(family: int) -> list[str]:
    """The names of the interfaces with a default route, the best route first; empty where the system does not tell."""
    try:
        with open(ROUTES[family]) as table:
            lines = table.read().splitlines()
    except OSError:
        return []
    routes = ipv6_default_routes(lines) if family == socket.AF_INET6 else ipv4_default_routes(lines)
    return list(dict.fromkeys(name for _, name in sorted(routes)))


def ipv4_default_routes(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(metric, interface name) of each default route in the text of /proc/net/route (proc(5))."""
    for line in lines:
        match line.split():
            case [name, "00000000", _, _, _, _, metric, "00000000", *_]:
                yield int(metric), name


def ipv6_default_routes(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(metric, interface name) of each default route in the text of /proc/net/ipv6_route.

    Without the entry on lo, which stands for "unreachable" and is always there.
    """
    nowhere = "0" * 32
    for line in lines:
        match line.split():
            case [destination, "00", _, _, _, metric, _, _, _, name] if destination == nowhere and name != "lo":
                yield int(metric, 16), name


def _last_resort(interfaces: Sequence[Interface], family: int) -> Choice:
    loopbacks = [i for i in interfaces if i.loopback]
    if not loopbacks:
        raise InterfaceError(f"no network interface can be used; {existing(interfaces)}")
    chosen = min(loopbacks, key=lambda interface: (obstacle(interface, family) is not None, interface.number))
    reason = f"{chosen.name}, because no other interface can be used: only programs on this machine are heard"
    return Choice(chosen, reason + _passed_over([i for i in interfaces if not i.loopback], family))


def _reason(chosen: Interface, family: int, default_routes: Sequence[str]) -> str:
    address = chosen.addresses(family)[0]
    if chosen.name in default_routes:
        return f"{chosen.name} ({address}), because it carries the default route"
    if has_virtual_name(chosen.name):
        return f"{chosen.name} ({address}), because nothing better than a virtual interface is up"
    return f"{chosen.name} ({address}), because it is up, has an address and takes multicast"


def _passed_over(others: Sequence[Interface], family: int) -> str:
    if not others:
        return ""
    notes = [f"{i.name} ({obstacle(i, family) or ('virtual' if i.virtual else 'usable too')})" for i in others]
    more = [f"{len(notes) - NAMES_IN_REASON} more"] if len(notes) > NAMES_IN_REASON else []
    return "; passed over: " + ", ".join(notes[:NAMES_IN_REASON] + more)


def existing(interfaces: Sequence[Interface]) -> str:
    return "those that exist are " + (", ".join(i.name for i in interfaces) or "none")
