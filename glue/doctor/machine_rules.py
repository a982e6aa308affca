"""Rules about this machine: its interfaces, its firewall, its ports and rights."""

from __future__ import annotations

from collections.abc import Iterator

from glue.doctor.finding import FAULT, NOTE, WARNING, Finding
from glue.doctor.lanes import lanes
from glue.doctor.names import some
from glue.doctor.seen import InterfaceSeen, Seen

CONTAINER_NAMES = ("docker", "podman", "br-", "cni", "lxcbr", "lxdbr", "incusbr", "flannel", "cali")
MACHINE_NAMES = ("virbr", "vmnet", "vboxnet", "vmenet", "bridge")
ERRORS = 3  # damaged frames in the time of a diagnosis that are more than chance


def port_taken(seen: Seen) -> Iterator[Finding]:
    """A program has the port of the group, or the wanted unicast port, for itself."""
    if seen.machine.port_taken:
        yield Finding(
            "port-taken",
            FAULT,
            f"another program on this machine has the UDP port for itself: {seen.machine.failure}",
            f"find it with `ss -ulpn 'sport = :{seen.machine.port}'` and end it, or give all endpoints another "
            "--multicast-address",
        )


def interface_missing(seen: Seen) -> Iterator[Finding]:
    """The interface that was asked for does not exist."""
    machine = seen.machine
    if machine.wanted is not None and machine.interfaces and machine.interface(machine.wanted) is None:
        names = some([one.name for one in machine.interfaces]) or "none"
        yield Finding(
            "interface-missing",
            FAULT,
            f"the interface {machine.wanted} does not exist on this machine; there are {names}",
            "name one of these by --interface (or GLUE_INTERFACE), or leave it out: glue then chooses",
        )


def no_interface(seen: Seen) -> Iterator[Finding]:
    """Nothing but loopback can be used."""
    machine = seen.machine
    real = [one for one in machine.interfaces if not one.loopback]
    chosen = machine.interface(machine.chosen)
    if machine.wanted is not None or any(_obstacle(seen, one) is None for one in real):
        return
    if chosen is not None and not chosen.loopback:
        return
    why = some([f"{one.name} {_obstacle(seen, one)}" for one in real]) or "there is none but loopback"
    cure = "switch one on (`ip link set NAME up`) and give it an address"
    if any(_obstacle(seen, one) == "takes no multicast" for one in real):
        cure = "let it take multicast: `ip link set NAME multicast on`"
    elif any(one.ipv6 and not one.ipv4 for one in real) and not machine.is_ipv6:
        cure = "use an IPv6 group at all endpoints: --multicast-address '[ff15::8901]:37320'"
    yield Finding(
        "no-interface",
        FAULT,
        f"no network interface of this machine can be used, so endpoints here hear only each other: {why}",
        cure,
    )


def interface_unusable(seen: Seen) -> Iterator[Finding]:
    """The interface in use is down, has no address, or takes no multicast."""
    machine = seen.machine
    one = machine.interface(machine.chosen or machine.wanted)
    if one is None or one.loopback or (why := _obstacle(seen, one)) is None:
        return
    family = "an IPv6" if machine.is_ipv6 else "an IPv4"
    cures = {
        "is down": f"switch it on: `ip link set {one.name} up`",
        "has no carrier": "plug in the cable, or connect to the Wi-Fi",
        "takes no multicast": f"`ip link set {one.name} multicast on`, or another --interface",
    }
    cure = cures.get(why, f"give it {family} address, or use a group of the other family (--multicast-address)")
    yield Finding("interface-unusable", FAULT, f"the interface {one.name} {why}, so glue cannot use it", cure)


def wrong_interface(seen: Seen) -> Iterator[Finding]:
    """Endpoints are heard on another interface than on the one in use."""
    machine = seen.machine
    chosen = machine.interface(machine.chosen)
    elsewhere = [one for one in machine.interfaces if one.heard and one.name != machine.chosen and not one.loopback]
    if chosen is None or chosen.heard or not elsewhere or any(not one.here for one in seen.others):
        return
    best = max(elsewhere, key=lambda one: one.heard)
    yield Finding(
        "wrong-interface",
        FAULT,
        f"glue uses the interface {chosen.name}, but other endpoints are heard on {best.name}",
        f"--interface {best.name} (or GLUE_INTERFACE={best.name}) for the endpoints on this machine; "
        f"now: {machine.reason}",
    )


def container_bridge(seen: Seen) -> Iterator[Finding]:
    """The interface in use is the bridge of containers or virtual machines, which nobody outside hears."""
    name = seen.machine.chosen or ""
    if name.startswith(CONTAINER_NAMES):
        kind, cure = "containers", "run containers with `network_mode: host`"
    elif name.startswith(MACHINE_NAMES):
        kind, cure = "virtual machines", "connect them to the network of the host (bridged), not to one of their own"
    else:
        return
    yield Finding(
        "container-bridge",
        FAULT,
        f"glue uses {name}, a bridge for {kind} on this machine: endpoints outside of it are not heard there",
        f"--interface with the network card's name; {cure}",
    )


def container_network(seen: Seen) -> Iterator[Finding]:
    """The program runs in a container with a network of its own, and hears no endpoint."""
    machine = seen.machine
    chosen = machine.interface(machine.chosen)
    if machine.in_container and chosen is not None and chosen.kind == "veth":
        alone = not any(not one.here for one in seen.others)
        yield Finding(
            "container-network",
            WARNING if alone else NOTE,
            "this program runs in a container with a network of its own, which multicast of the LAN does not enter",
            "start the container with the network of the host: `docker run --network host`",
        )


def firewall(seen: Seen) -> Iterator[Finding]:
    """A rule of the firewall drops what glue needs."""
    machine = seen.machine
    if machine.blocking:
        hurts = any(lane.is_multicast_dead or lane.is_unicast_dead for lane in lanes(seen))
        level = FAULT if hurts or not seen.others or machine.looped is False or machine.unsent else WARNING
        yield Finding(
            "firewall",
            level,
            f"a rule of the firewall on this machine drops datagrams of glue: {machine.blocking[0]}",
            f"let UDP pass to and from port {machine.port} and the ports of the endpoints, by multicast and unicast "
            "(ufw: `ufw allow proto udp from any to any`)",
            {"rules": list(machine.blocking)},
        )
    elif not machine.firewall_read:
        yield Finding(
            "firewall-unread",
            NOTE,
            "the rules of the firewall could not be read",
            "run `glue doctor` as root to have them read",
        )


def sending_refused(seen: Seen) -> Iterator[Finding]:
    """The system refuses to send."""
    refused = {cause: count for cause, count in seen.machine.unsent.items() if count}
    if refused:
        cause = max(refused, key=lambda one: refused[one])
        is_firewall = "EPERM" in cause or "EACCES" in cause
        yield Finding(
            "sending-refused",
            FAULT,
            f"this machine refuses to send datagrams of glue ({cause}, {refused[cause]} times)",
            "a firewall forbids it: let UDP out" if is_firewall else "look after the interface and its routes",
            {"causes": refused},
        )


def not_looped(seen: Seen) -> Iterator[Finding]:
    """The doctor's own multicast does not come back, so even endpoints on one machine do not hear each other."""
    machine = seen.machine
    if machine.looped is False and not machine.failure:
        yield Finding(
            "multicast-not-looped",
            FAULT,
            f"multicast that this machine sends on {machine.chosen} does not come back to it, so not even its own "
            "endpoints hear each other",
            "a firewall of this machine drops multicast that comes in; or the interface lost its membership",
        )


def failure(seen: Seen) -> Iterator[Finding]:
    """No endpoint can be started, for another reason than those above."""
    if seen.machine.failure and not seen.machine.port_taken:
        yield Finding("no-endpoint", FAULT, f"no endpoint can be started here: {seen.machine.failure}", "see above")


def power_saving(seen: Seen) -> Iterator[Finding]:
    """The Wi-Fi card in use sleeps between beacons, and multicast waits or is lost."""
    one = seen.machine.interface(seen.machine.chosen)
    if one is not None and one.power_saving:
        yield Finding(
            "power-saving",
            WARNING,
            f"the Wi-Fi card {one.name} saves power: multicast comes late there, or is lost",
            f"`iw dev {one.name} set power_save off` (NetworkManager: wifi.powersave = 2)",
        )


def damaged_frames(seen: Seen) -> Iterator[Finding]:
    """The card counts frames as damaged."""
    one = seen.machine.interface(seen.machine.chosen)
    if one is not None and one.errors >= ERRORS:
        yield Finding(
            "damaged-frames",
            WARNING,
            f"the interface {one.name} counted {one.errors} damaged frames in {seen.seconds:.0f} s",
            "change the cable or the port of the switch; look at both ends' speed and duplex (`ethtool`)",
        )


def reverse_path(seen: Seen) -> Iterator[Finding]:
    """Strict filtering by the reverse path drops what comes from another subnet."""
    if seen.machine.strict_reverse_path and _strangers(seen):
        yield Finding(
            "reverse-path",
            WARNING,
            "this machine drops datagrams whose source it would reach by another interface (rp_filter = 1), and there "
            "are endpoints in another subnet",
            "`sysctl net.ipv4.conf.all.rp_filter=2`, or addresses of one subnet",
        )


def own_bridge(seen: Seen) -> Iterator[Finding]:
    """The machine is a switch itself, with IGMP snooping."""
    if seen.machine.snooping_without_querier:
        stopped = any(lane.silent is not None for lane in lanes(seen))
        yield Finding(
            "own-bridge",
            WARNING if stopped else NOTE,
            f"{seen.machine.chosen} is a bridge with IGMP snooping and without a querier: multicast may end after "
            "minutes",
            f"`ip link set {seen.machine.chosen} type bridge mcast_querier 1` (or mcast_snooping 0)",
        )


def no_capture(seen: Seen) -> Iterator[Finding]:
    """The user may not capture."""
    if not seen.machine.may_capture:
        yield Finding(
            "no-capture",
            NOTE,
            "this user has no right to record what passes an interface",
            "`glue record` needs root, or `setcap cap_net_raw+ep` for the Python interpreter",
        )


def _obstacle(seen: Seen, one: InterfaceSeen) -> str | None:
    """Why an interface cannot be used."""
    if not one.up:
        return "has no carrier" if one.carrier is False else "is down"
    if not (one.ipv6 if seen.machine.is_ipv6 else one.ipv4):
        return f"has no {'IPv6' if seen.machine.is_ipv6 else 'IPv4'} address"
    return None if one.multicast or one.loopback else "takes no multicast"


def _strangers(seen: Seen) -> bool:
    from glue.doctor.endpoint_rules import in_other_subnet

    return bool(in_other_subnet(seen))


MACHINE_RULES = (
    port_taken, interface_missing, no_interface, interface_unusable, container_bridge, wrong_interface, firewall,
    sending_refused, not_looped, failure, container_network,
)  # fmt: skip
LATER_MACHINE_RULES = reverse_path, own_bridge, power_saving, damaged_frames, no_capture
