"""Places where a benchmark's endpoints run, each in its own process: on loopback, or each on its own host.

Hosts are network namespaces on one bridge, or two namespaces joined by a cable that loses frames. A place removes
everything it has made when its `with` block ends, also after a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.results import ROOT
from tests.support.cable import Cable
from tests.support.loopback import loopback_environment
from tests.support.namespaces import segment

COMMAND = [sys.executable, "-m", "benchmarks.node"]
PATIENCE = 90.0  # seconds for an answer; no command takes half as long
FAREWELL = 3.0  # seconds for a process to end by itself

Answer = dict[str, Any]


class NodeError(RuntimeError):
    """The process of an endpoint failed, did not answer, or died. The message says which."""


class Node:
    """Handle of an endpoint's process; see `benchmarks.node`."""

    def __init__(self, name: str, interface: str, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self._interface = interface
        self._process = process
        self._received = b""

    def open(self, **settings: Any) -> Answer:
        """Start the endpoint with these settings."""
        return self.call("open", name=self.name, interface=self._interface, **settings)

    def call(self, do: str, **arguments: Any) -> Answer:
        """Send a command and return its answer. Raises NodeError."""
        self.send(do, **arguments)
        return self.receive()

    def send(self, do: str, **arguments: Any) -> None:
        """Send a command. A later `receive` returns its answer. Raises NodeError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise NodeError(f"{self.name} died: {error}") from error

    def receive(self) -> Answer:
        """Return the next answer. Raises NodeError."""
        assert self._process.stdout is not None
        until = time.monotonic() + PATIENCE
        while b"\n" not in self._received:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not data:
                raise NodeError(f"{self.name} died" if ready else f"{self.name} did not answer in {PATIENCE:.0f} s")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise NodeError(f"{self.name}: {answer['error']}")
        return answer

    def stop(self) -> None:
        """Stop the process (SIGSTOP) until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue the process (SIGCONT)."""
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End the process, by SIGKILL after 3 s."""
        with contextlib.suppress(NodeError):
            self.send("close")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(FAREWELL)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Place:
    """Environment of endpoints. `spawn` starts the process of the next endpoint."""

    def __init__(self, interface: str, start: Callable[[int, Sequence[str]], subprocess.Popen[bytes]]) -> None:
        """`start` runs a command on the host with this index, from 0."""
        self.interface = interface
        self._start = start
        self._nodes: list[Node] = []

    def spawn(self) -> Node:
        """Start a process on the next host. Its endpoint is still to be opened."""
        index = len(self._nodes)
        node = Node(f"node-{index + 1}", self.interface, self._start(index, COMMAND))
        self._nodes.append(node)
        return node

    def open(self, count: int, **settings: Any) -> list[Node]:
        """Start `count` processes and open their endpoints with these settings."""
        nodes = [self.spawn() for _ in range(count)]
        for node in nodes:
            node.open(**settings)
        return nodes

    def end(self) -> None:
        """End all processes."""
        for node in self._nodes:
            node.end()


PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT}


@contextlib.contextmanager
def loopback(hosts: int) -> Iterator[Place]:
    """Run all endpoints on loopback, on a free port and network id. `hosts` is ignored."""
    environment = loopback_environment()
    place = Place(
        environment["GLUE_INTERFACE"],
        lambda index, command: subprocess.Popen(command, env=environment, **PIPES),
    )
    try:
        yield place
    finally:
        place.end()


@contextlib.contextmanager
def namespaces(hosts: int) -> Iterator[Place]:
    """Run each endpoint on its own host, on one bridge. Raises RuntimeError without the right to make namespaces."""
    with segment(hosts) as made:
        place = Place("eth0", lambda index, command: made[index].popen(command, **PIPES))
        try:
            yield place
        finally:
            place.end()


@contextlib.contextmanager
def lossy_cable(loss: float, delay: float, **faults: Any) -> Iterator[Place]:
    """Join two hosts by a cable with loss and delay.

    `loss` is the share of lost frames in each direction, and `delay` is in seconds. Other `faults` are fields of
    `glue.simulation.Conditions`.
    """
    device = "cable0"
    faults = {"loss": loss, "delay": delay, **faults}
    with segment(2) as made, Cable(made[0].namespace, device, made[1].namespace, device, **faults):
        for host in made:
            host.ip(f"addr add 10.78.0.{host.number}/24 dev {device}", f"link set {device} up")
        place = Place(device, lambda index, command: made[index].popen(command, **PIPES))
        try:
            yield place
        finally:
            place.end()


PLACES = {"loopback": loopback, "namespaces": namespaces}
