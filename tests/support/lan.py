"""Endpoints on loopback that receive only from each other, and an ear that waits for messages."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import glue
from glue.endpoint.options import Priority
from tests.support.loopback import loopback_environment

PATIENCE = 60.0
"""Seconds to wait for an expected event before the test fails; it comes in milliseconds."""


def private_network() -> dict[str, Any]:
    """Return the settings of endpoints on a network of their own."""
    environment = loopback_environment()
    return {
        "interface": environment["GLUE_INTERFACE"],
        "multicast_address": environment["GLUE_MULTICAST_ADDRESS"],
        "network_id": int(environment["GLUE_NETWORK_ID"]),
    }


class Lan:
    """A private network on loopback; its endpoints end with the test."""

    def __init__(self) -> None:
        self.settings = private_network()
        self._endpoints: list[glue.Endpoint] = []

    def make(self, name: str | None = None, **settings: Any) -> glue.Endpoint:
        """Return an endpoint that is not started."""
        self._endpoints.append(glue.Endpoint(name, **{**self.settings, **settings}))
        return self._endpoints[-1]

    def start(self, name: str | None = None, **settings: Any) -> glue.Endpoint:
        """Return a running endpoint."""
        return self.make(name, **settings).start()

    def pair(self, **settings: Any) -> tuple[glue.Endpoint, glue.Endpoint]:
        """Return two running endpoints, "a" and "b", with these settings."""
        return self.start("a", **settings), self.start("b", **settings)

    def close(self) -> None:
        """Close all endpoints without waiting for acknowledgements, but wait for their threads."""
        for endpoint in self._endpoints:
            endpoint.close(timeout=0)
        for thread in threading.enumerate():
            if thread.name.startswith("glue"):
                thread.join(PATIENCE)


class Ear:
    """A handler that records the items that it was called with, in order."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self._changed = threading.Condition()

    def __call__(self, item: Any) -> None:
        with self._changed:
            self.heard.append(item)
            self._changed.notify_all()

    def wait(self, count: int = 1) -> list[Any]:
        """Wait for `count` items; returns all items so far."""
        self.wait_until(lambda heard: len(heard) >= count)
        return self.heard

    def wait_until(self, condition: Callable[[list[Any]], bool]) -> None:
        """Wait until a condition on the items so far holds."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.heard), PATIENCE), f"heard only {self.heard!r:.500}"

    @property
    def payloads(self) -> list[Any]:
        """The payloads of the messages so far."""
        return [message.payload for message in self.heard]


def listen(endpoint: glue.Endpoint, pattern: str, *publishers: glue.Endpoint) -> Ear:
    """Subscribe an ear to a pattern. If `publishers` must know of it first, the pattern must be a topic."""
    ear = Ear()
    endpoint.subscribe(pattern, ear)
    for publisher in publishers:
        assert publisher.wait_for_subscribers(pattern, 1, PATIENCE)
    return ear


def fill(endpoint: glue.Endpoint, topic: str, size: int = 10_000, priority: Priority = "normal") -> int:
    """Publish until the queue is full, and stays full; returns how many messages were accepted."""
    accepted, refused = 0, False
    while accepted < 10_000:
        try:
            endpoint.publish(topic, bytes(size), priority=priority, block=False)
        except glue.WouldBlockError:
            if refused:
                return accepted
            refused = not endpoint.flush(0.1)  # by then the receiver has taken what it can
        else:
            accepted, refused = accepted + 1, False
    raise AssertionError("the queue is never full")


def wait_until_full(endpoint: glue.Endpoint) -> None:
    """Wait until a publisher in another thread has filled the queue."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            endpoint.publish("to nobody", b"", block=False)
        except glue.WouldBlockError:
            return
    raise AssertionError("the queue was never full")


def glue_threads() -> set[str]:
    """Return the names of glue's running threads."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("glue")}


def open_sockets() -> set[str]:
    """Return the open sockets and pipes of this process; none on systems without /proc.

    In a process whose tests use Spark, connections by TCP are left out: Py4J makes and ends them whenever Python
    collects an object of Java's, in the middle of any test.
    """
    found = set()
    has_java = _has_java()
    for descriptor in Path("/proc/self/fd").glob("*"):
        try:
            target = os.readlink(descriptor)
            if target.startswith("pipe:") or (
                target.startswith("socket:") and not (has_java and _is_tcp(int(descriptor.name)))
            ):
                found.add(target)
        except OSError:  # it was the descriptor of the directory, or was closed meanwhile
            continue
    return found


def _has_java() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None


def _is_tcp(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        return copy.type == socket.SOCK_STREAM and copy.family in (socket.AF_INET, socket.AF_INET6)
