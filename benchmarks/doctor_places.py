"""Networks for the doctor: hosts in namespaces with endpoints on them, and healthy networks of several kinds."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.results import ROOT
from tests.support.namespaces import Host, segment

READY = b"ready\n"
IPV6_GROUP = "[ff15::8901]:37320"


class Place:
    """Hosts on one segment. Leaving the segment ends all endpoints on it."""

    def __init__(self, hosts: list[Host]) -> None:
        self.hosts = hosts
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def endpoint(self, number: int, name: str, *, wait: bool = True, **options: Any) -> None:
        """Start an endpoint on the host of this number (from 1). What is no option of the process is a setting."""
        about = ("clock", "step", "version", "slow", "flood", "publish", "junk", "wire", "address")
        told = {key: options.pop(key) for key in about if key in options}
        told["settings"] = {"name": name, "interface": "eth0", **options}
        command = [sys.executable, "-m", "benchmarks.doctor_endpoint", json.dumps(told)]
        process = self.hosts[number - 1].popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
        )
        self.processes[name] = process
        if wait:
            self.wait(name)

    def wait(self, name: str) -> None:
        """Wait until an endpoint runs. Raises RuntimeError if it does not."""
        output = self.processes[name].stdout
        assert output is not None
        if output.readline() != READY:
            raise RuntimeError(f"{name} did not start")

    def iptables(self, number: int, *rules: str) -> None:
        """Add rules of the firewall on a host."""
        for rule in rules:
            self.hosts[number - 1].run(["iptables", "-w", *rule.split()])


@contextlib.contextmanager
def place(hosts: int) -> Iterator[Place]:
    """Make hosts on one segment for the time of the block."""
    with segment(hosts) as made:
        yield Place(made)


def new_key(stack: ExitStack, name: str = "group.key") -> str:
    """Make a key file."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    file = Path(folder, name)
    subprocess.run(
        [sys.executable, "-m", "glue.cmd.main", "key", "new", str(file)], check=True, capture_output=True, cwd=ROOT
    )
    return str(file)


def _pair(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(1, "kitchen")
    scene.endpoint(2, "hall")
    return []


def _three_hosts_with_traffic(scene: Place, stack: ExitStack) -> list[str]:
    for number, name in enumerate(("kitchen", "hall", "attic"), 1):
        scene.endpoint(number, name, publish=50)
    return []


def _sealed(scene: Place, stack: ExitStack) -> list[str]:
    key = new_key(stack)
    scene.endpoint(1, "kitchen", key=key)
    scene.endpoint(2, "hall", key=key)
    return ["--key", key]


def _other_id(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(1, "kitchen", network_id=4711)
    scene.endpoint(2, "hall", network_id=4711)
    return ["--network-id", "4711"]


def _ipv6(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(1, "kitchen", multicast_address=IPV6_GROUP)
    scene.endpoint(2, "hall", multicast_address=IPV6_GROUP)
    return ["--multicast-address", IPV6_GROUP]


def _one_host(scene: Place, stack: ExitStack) -> list[str]:
    for name in ("kitchen", "hall", "attic"):
        scene.endpoint(1, name)
    return []


def _nobody(scene: Place, stack: ExitStack) -> list[str]:
    return []


def _elsewhere(scene: Place, stack: ExitStack) -> list[str]:
    for name in ("hall", "attic"):
        scene.endpoint(2, name, announce_interval=2.0)
    return []


def _closed(scene: Place, stack: ExitStack) -> list[str]:
    scene.endpoint(1, "kitchen")
    scene.endpoint(2, "hall", doctor=False)
    return []


def _long_lists_of_rules(scene: Place, stack: ExitStack) -> list[str]:
    scene.iptables(
        1, "-A INPUT -i lo -j ACCEPT", "-A INPUT -p udp --dport 37319:37320 -j ACCEPT",
        "-A INPUT -p udp --dport 32768:60999 -j ACCEPT", "-A INPUT -m conntrack --ctstate INVALID -j DROP",
        "-A INPUT -p tcp --dport 22 -j DROP", "-P INPUT DROP",
    )  # fmt: skip
    return _pair(scene, stack)


Make = Callable[[Place, ExitStack], list[str]]

HEALTHY: tuple[tuple[str, int, Make], ...] = (
    ("two machines", 2, _pair),
    ("three machines with traffic", 3, _three_hosts_with_traffic),
    ("a key", 2, _sealed),
    ("another network id for all", 2, _other_id),
    ("IPv6", 2, _ipv6),
    ("all on one machine", 2, _one_host),
    ("nobody", 1, _nobody),
    ("none on this machine", 2, _elsewhere),
    ("one that may not tell", 2, _closed),
    ("a firewall that lets glue pass", 2, _long_lists_of_rules),
)
"""Networks without a fault: a kind, its hosts, and how to make it; the result has the options of the doctor."""
