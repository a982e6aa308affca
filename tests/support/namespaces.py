"""Hosts on one Ethernet segment, for tests: a network namespace each, with a cable to a bridge in one more namespace.

Every host has `lo` and `eth0` with the addresses 10.77.0.n/24 and fd77::n/64 (n from 1). The bridge forwards all
multicast. Names contain the process id, so parallel runs do not collide. Leaving the context removes every namespace
and ends every process started here, also after a failure. Each step is one batch of `ip` commands, because starting a
program takes most of the time.

    with segment(3) as (first, second, third):
        first.run(["ping", "-c1", second.address])
        with second.entered():
            ...  # sockets that this thread opens here are sockets of the second host
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

CAP_SYS_ADMIN = 21  # linux/capability.h
CLONE_NEWNET = 0x40000000
MULTICAST_ROUTE = "route replace 224.0.0.0/4 dev eth0"  # for programs that do not name an interface
PATIENCE = 5.0  # seconds a link has to come up, and a process to end once it is killed

_serial = itertools.count()


def unavailable() -> str | None:
    """Return why namespaces cannot be made here; None if they can."""
    if shutil.which("ip") is None:
        return "network namespaces need the command `ip` (iproute2)"
    if not _privileges() >> CAP_SYS_ADMIN & 1:
        return "network namespaces need root (the capability CAP_SYS_ADMIN)"
    return None


def _privileges() -> int:
    """Return the capabilities of this process, a bit each; root in a container has few of them."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(status.partition("CapEff:")[2].split()[0], 16)


# For a test or a module (`pytestmark`). In CI nothing is skipped: there the test fails, with the same reason.
needs_namespaces = pytest.mark.skipif(
    unavailable() is not None and os.environ.get("CI") != "true", reason=unavailable() or "available"
)


def ip(commands: Sequence[str], namespace: str | None = None) -> None:
    """Run `ip` commands (without the word "ip") in one batch. Raises RuntimeError with the output of one that fails."""
    inside = [] if namespace is None else ["-n", namespace]
    done = subprocess.run(
        ["ip", *inside, "-batch", "-"], input="\n".join(commands), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(inside)}: {done.stderr.strip()} in: {'; '.join(commands)}")


class Host:
    """One host of a segment, `number` from 1. Its processes end with the segment."""

    def __init__(self, number: int, prefix: str, switch: str) -> None:
        self.number = number
        self.namespace = f"{prefix}-{number}"
        self.address = f"10.77.0.{number}"
        self.ipv6_address = f"fd77::{number}"
        self.port = f"port{number}"
        self.switch = switch
        self._processes: list[subprocess.Popen[Any]] = []

    def run(self, command: Sequence[str], timeout: float = 30.0, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program on this host to its end; returns its output. Raises CalledProcessError if it fails."""
        options = {"check": True, "capture_output": True, **options}
        return subprocess.run(self._inside(command), text=True, timeout=timeout, **options)

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program on this host; its process id is that of the program itself."""
        process = subprocess.Popen(self._inside(command), start_new_session=True, **options)
        self._processes.append(process)
        return process

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Move this thread to this host for the block: its new sockets and processes belong to this host."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            inside = os.open(f"/run/netns/{self.namespace}", os.O_RDONLY)
            try:
                _enter(inside)
                yield
            finally:
                _enter(before)
                os.close(inside)
        finally:
            os.close(before)

    def ip(self, *commands: str) -> None:
        """Run `ip` commands on this host."""
        ip(commands, self.namespace)

    def link_down(self) -> None:
        """Switch eth0 off."""
        self.ip("link set eth0 down")

    def link_up(self) -> None:
        """Switch eth0 on again, with the IPv6 address and the route that it lost."""
        self.ip("link set eth0 up", f"addr replace {self.ipv6_address}/64 dev eth0 nodad", MULTICAST_ROUTE)
        self.wait_until_connected()

    def unplug(self) -> None:
        """Pull the cable: eth0 stays on, without a carrier."""
        ip([f"link set {self.port} down"], self.switch)

    def plug(self) -> None:
        """Plug the cable in again."""
        ip([f"link set {self.port} up"], self.switch)
        self.wait_until_connected()

    def isolate(self, isolated: bool = True) -> None:
        """Forward nothing between this host and other isolated hosts. All other traffic passes as before."""
        ip([f"link set {self.port} type bridge_slave isolated {'on' if isolated else 'off'}"], self.switch)

    def block_multicast(self) -> None:
        """Let the switch send no multicast to this host. Broadcast, which ARP needs, passes."""
        ip([f"link set {self.port} type bridge_slave mcast_flood off"], self.switch)

    def remove_interface(self) -> None:
        """Remove eth0 from the machine."""
        self.ip("link del eth0")

    def add_interface(self) -> None:
        """Add a new eth0, with another index, and connect it to the switch."""
        ip(
            [
                f"link add {self.port} type veth peer name eth0 netns {self.namespace}",
                f"link set {self.port} master br0 up",
            ],
            self.switch,
        )
        self.ip(
            "link set lo up",
            f"addr add {self.address}/24 dev eth0",
            f"addr add {self.ipv6_address}/64 dev eth0 nodad",
            "link set eth0 up",
            MULTICAST_ROUTE,
        )
        self.wait_until_connected()

    def wait_until_up(self, interface: str = "eth0") -> None:
        """Wait until an interface that is switched on has found its carrier."""
        _wait_for(lambda: _link(self.namespace, interface)["operstate"] == "UP")

    def wait_until_connected(self) -> None:
        """Wait until eth0 is up and the switch forwards for it. A busy kernel takes its time."""
        self.wait_until_up()
        _wait_for(lambda: _link(self.switch, self.port)["linkinfo"]["info_slave_data"]["state"] == "forwarding")

    def end_processes(self) -> None:
        """End the processes that `popen` started, with their children."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        self._processes.clear()

    def _inside(self, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *command]


@contextlib.contextmanager
def segment(hosts: int) -> Iterator[list[Host]]:
    """Make hosts on one segment for the time of the block. Raises RuntimeError where namespaces cannot be made."""
    reason = unavailable()
    if reason is not None:
        raise RuntimeError(reason)
    prefix = f"glue-{os.getpid()}-{next(_serial)}"
    switch = f"{prefix}-switch"
    made = [Host(number, prefix, switch) for number in range(1, hosts + 1)]
    namespaces = [switch, *(host.namespace for host in made)]
    with contextlib.ExitStack() as cleanup:
        for namespace in namespaces:
            cleanup.callback(_remove, namespace)
        ip([f"netns add {namespace}" for namespace in namespaces])
        ip(["link add br0 type bridge mcast_snooping 0", "link set br0 up"], switch)
        for host in made:
            cleanup.callback(host.end_processes)
            with host.entered():  # otherwise eth0 looks for duplicates of its address for a second
                Path("/proc/sys/net/ipv6/conf/default/accept_dad").write_text("0")
            host.add_interface()
        yield made


def _remove(namespace: str) -> None:
    if Path("/run/netns", namespace).exists():
        ip([f"netns del {namespace}"])


def _link(namespace: str, interface: str) -> dict[str, Any]:
    """Return the description of an interface by `ip`."""
    command = ["ip", "-n", namespace, "-json", "-details", "link", "show", interface]
    link: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)[0]
    return link


def _wait_for(reached: Callable[[], bool]) -> None:
    """Wait for a state. Raises RuntimeError if it is not reached within `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > deadline:
            raise RuntimeError("a link did not come up")
        time.sleep(0.01)


def _enter(namespace: int) -> None:
    """Move this thread to a network namespace (os.setns, which Python has from 3.12 on)."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns failed")
