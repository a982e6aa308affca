"""Tests of the cable: each fault on real frames, as the cable counts it and as real sockets see it.

Each test has two namespaces without IPv6, with neighbours known beforehand. No other frame crosses the cable and
changes the sequence of random numbers.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from glue.errors import ConfigurationError
from glue.simulation import Burst, Conditions
from glue.simulation.conditions import FRAME_OVERHEAD
from tests.support.cable import Cable, CableError

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.skipif(
        os.environ.get("CI") != "true" and (os.geteuid() != 0 or not Path("/dev/net/tun").exists()),
        reason="needs root and /dev/net/tun, to make namespaces and TAP devices",
    ),
]

SO_RCVBUFFORCE = 33  # socket(7): beyond rmem_max, for root
PORT = 4242
COUNT = 1000
SIZE = 100
FRAME = SIZE + FRAME_OVERHEAD
PATIENCE = 20.0
"""Seconds to wait for an expected event before the test fails; it comes in milliseconds."""


@dataclass
class Side:
    """One end of the cable."""

    namespace: str
    device: str
    address: str
    link_address: str


SIDES = tuple(
    Side(f"glue-cable-{os.getpid()}-{name}", "cable0", f"10.79.0.{number}", f"02:00:00:00:00:0{number}")
    for number, name in ((1, "a"), (2, "b"))
)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def namespaces() -> Iterator[None]:
    with ExitStack() as stack:
        for side in SIDES:
            ip("netns", "add", side.namespace)
            stack.callback(ip, "netns", "delete", side.namespace)
            for which in ("all", "default"):
                inside(side, "sysctl", "-qw", f"net.ipv6.conf.{which}.disable_ipv6=1")
        yield


def inside(side: Side, *command: str) -> None:
    subprocess.run(["ip", "netns", "exec", side.namespace, *command], check=True, capture_output=True)


@contextmanager
def cable(**faults: Any) -> Iterator[Cable]:
    """Make a cable between the two namespaces, with addresses, up."""
    a, b = SIDES
    with Cable(a.namespace, a.device, b.namespace, b.device, **faults) as laid:
        for own, other in ((a, b), (b, a)):
            ip("-n", own.namespace, "link", "set", own.device, "address", own.link_address, "up")
            ip("-n", own.namespace, "address", "add", f"{own.address}/24", "dev", own.device)
            neighbour = (other.address, "lladdr", other.link_address, "dev", own.device)
            ip("-n", own.namespace, "neighbour", "add", *neighbour, "nud", "permanent")
        yield laid


def udp_socket(side: Side) -> socket.socket:
    """Return a bound UDP socket in the namespace of a side; a thread of its own enters it."""

    def make() -> socket.socket:
        with open(f"/run/netns/{side.namespace}", "rb") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {side.namespace}")
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        endpoint.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        endpoint.bind((side.address, PORT))
        endpoint.settimeout(PATIENCE)
        return endpoint

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


@dataclass
class Run:
    """The result of `COUNT` numbered datagrams each way: numbers in order of arrival, and the cable's counts."""

    at_a: list[int]
    at_b: list[int]
    counts: dict[str, dict[str, int]]


def exchange(count: int = COUNT, **faults: Any) -> Run:
    with cable(**faults) as laid, udp_socket(SIDES[0]) as a, udp_socket(SIDES[1]) as b:
        for number in range(count):
            datagram = number.to_bytes(SIZE, "big")
            a.sendto(datagram, (SIDES[1].address, PORT))
            b.sendto(datagram, (SIDES[0].address, PORT))
        counts = settled(laid, count)
        return Run(received(a, counts["b"]), received(b, counts["a"]), counts)


def settled(laid: Cable, count: int) -> dict[str, dict[str, int]]:
    """Return the counts once every frame has arrived or was dropped."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        counts = laid.read_counts()
        if all(way["sent"] >= count and not way["in flight"] for way in counts.values()):
            break
        time.sleep(0.002)
    assert [way["sent"] for way in counts.values()] == [count, count]
    for way in counts.values():
        outcomes = ("arrived", "lost", "queue full", "refused", "in flight")
        assert way["sent"] + way["duplicated"] == sum(way[outcome] for outcome in outcomes)
    return counts


def received(endpoint: socket.socket, counts: dict[str, int]) -> list[int]:
    """Return the numbers that arrived, without corrupted ones, which the kernel drops for their checksum."""
    return [int.from_bytes(endpoint.recv(2048), "big") for _ in range(counts["arrived"] - counts["corrupted"])]


def test_a_cable_without_faults_carries_everything_in_order_and_counts_it() -> None:
    run = exchange()
    assert run.at_a == run.at_b == list(range(COUNT))
    assert run.counts["a"] == run.counts["b"]
    assert {name: count for name, count in run.counts["a"].items() if count} == {
        "sent": COUNT,
        "sent bytes": COUNT * FRAME,
        "arrived": COUNT,
        "arrived bytes": COUNT * FRAME,
    }


def test_which_frames_are_lost_depends_on_the_seed_alone() -> None:
    first, again, other = exchange(loss=0.2), exchange(loss=0.2, jitter=0.001), exchange(loss=0.2, seed=2)
    for way, numbers in (("a", first.at_b), ("b", first.at_a)):
        assert first.counts[way]["lost"] == COUNT - len(numbers) == pytest.approx(0.2 * COUNT, rel=0.25)
    assert first.at_a != first.at_b
    assert sorted(again.at_a) == first.at_a
    assert sorted(again.at_b) == first.at_b
    assert other.at_b != first.at_b


def test_each_direction_has_faults_of_its_own() -> None:
    run = exchange(loss=1.0, back=Conditions(duplicate=1.0))
    assert run.at_b == []
    assert sorted(run.at_a) == sorted([*range(COUNT), *range(COUNT)])
    assert (run.counts["a"]["lost"], run.counts["b"]["duplicated"]) == (COUNT, COUNT)


def test_losses_come_in_bursts() -> None:
    run = exchange(burst=Burst(enter=0.02, leave=0.2))
    bursts = [later - earlier - 1 for earlier, later in pairwise(run.at_b) if later - earlier > 1]
    assert run.counts["a"]["lost"] == pytest.approx(COUNT * 0.02 / 0.22, rel=0.5)
    assert sum(bursts) / len(bursts) == pytest.approx(5, rel=0.5)


def test_what_is_held_back_arrives_all_the_same_and_is_overtaken() -> None:
    run = exchange(reorder=0.1, reorder_delay=0.05)
    assert sorted(run.at_b) == list(range(COUNT)) != run.at_b
    assert run.counts["a"]["held back"] == pytest.approx(0.1 * COUNT, rel=0.3)


def test_a_delay_is_never_shorter_than_asked_for() -> None:
    with cable(delay=0.05, jitter=0.01), udp_socket(SIDES[0]) as a, udp_socket(SIDES[1]) as b:
        before = time.monotonic()
        a.sendto(b"there", (SIDES[1].address, PORT))
        b.sendto(b.recv(100), (SIDES[0].address, PORT))
        assert a.recv(100) == b"there"
        assert time.monotonic() - before >= 0.1


def test_a_rate_drops_what_does_not_fit_its_queue() -> None:
    before = time.monotonic()
    run = exchange(rate=FRAME * 1000.0, queue=0.05)
    passed = time.monotonic() - before
    assert run.counts["a"]["queue full"] > 0
    assert 50 <= len(run.at_b) <= 1000 * passed + 1
    assert run.at_b == sorted(run.at_b)


def test_corrupted_frames_do_not_reach_a_socket() -> None:
    run = exchange(back=Conditions(), corrupt=0.1)
    assert run.counts["a"]["corrupted"] == pytest.approx(0.1 * COUNT, rel=0.3)
    assert len(run.at_b) == COUNT - run.counts["a"]["corrupted"]


def test_a_cable_takes_its_devices_with_it() -> None:
    with cable() as laid:
        inside(SIDES[0], "ip", "link", "show", "cable0")
    assert set(laid.counts) == {"a", "b"}
    assert laid.stop() == laid.counts
    with pytest.raises(subprocess.CalledProcessError):
        inside(SIDES[0], "ip", "link", "show", "cable0")


def test_a_cable_to_nowhere_says_so() -> None:
    with (
        pytest.raises(CableError, match="/run/netns/glue-nowhere: No such file"),
        Cable(SIDES[0].namespace, "cable0", "glue-nowhere", "cable0"),
    ):
        pass
    with pytest.raises(ConfigurationError, match=r"loss=2: expected a probability"):
        Cable("a", "cable0", "b", "cable0", loss=2)
