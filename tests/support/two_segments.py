"""Hosts on two Ethernet segments: those of `namespaces.segment`, with one more cable each, to another bridge.

Every host has `eth1` beside `eth0`, with the address 10.79.0.n/24.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.namespaces import Host, ip, segment


def second_port(host: Host) -> str:
    """Return the name of the port that a host has at the second bridge."""
    return f"second{host.number}"


def second_address(host: Host) -> str:
    """Return the address of a host on the second segment."""
    return f"10.79.0.{host.number}"


def switch_of(host: Host) -> str:
    """Return the namespace of the bridges."""
    return host.namespace.rpartition("-")[0] + "-switch"


def cut(host: Host, interface: str, is_cut: bool = True) -> None:
    """Let the switch drop all that comes from, and goes to, eth0 or eth1 of a host. The carrier stays."""
    port, bridge = (host.port, "br0") if interface == "eth0" else (second_port(host), "br1")
    ip([f"link set {port} {'nomaster' if is_cut else f'master {bridge}'}"], switch_of(host))


@contextlib.contextmanager
def join(hosts: list[Host]) -> Iterator[None]:
    """Make one segment of both for the time of the block: every multicast comes to both interfaces of each host.

    Each interface answers for its own address alone, as docs/two-networks.md advises. Else a neighbour may take the
    address of one for that of the other, and for up to a minute after that one went down.
    """
    switch = switch_of(hosts[0])
    for host in hosts:
        with host.entered():
            for name, value in (("arp_ignore", "1"), ("arp_announce", "2")):
                Path(f"/proc/sys/net/ipv4/conf/all/{name}").write_text(value)
    ip(
        [
            "link add join0 type veth peer name join1",
            "link set join0 master br0 up",
            "link set join1 master br1 up",
        ],
        switch,
    )
    try:
        yield
    finally:
        ip(["link del join0"], switch)


@contextlib.contextmanager
def two_segments(count: int) -> Iterator[list[Host]]:
    """Make hosts on two segments for the time of the block."""
    with segment(count) as hosts:
        switch = switch_of(hosts[0])
        ip(
            [
                "link add br1 type bridge mcast_snooping 0 forward_delay 0 stp_state 0",
                "link set br1 up",
                *(f"link add {second_port(host)} type veth peer name eth1 netns {host.namespace}" for host in hosts),
                *(f"link set {second_port(host)} master br1 up" for host in hosts),
            ],
            switch,
        )
        for host in hosts:
            host.ip(f"addr add {second_address(host)}/24 dev eth1", "link set eth1 up")
            host.wait_until_up("eth1")
        yield hosts
