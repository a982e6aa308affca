"""Adapter with which a benchmark of publish/subscribe systems runs glue.

The harness provides the module `adapters`, which describes the methods. All settings are glue's defaults, except the
interface, and the memory of the publisher for topics with history.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from adapters import Adapter  # type: ignore[import-not-found]

import glue

if TYPE_CHECKING:
    from subprocess import Popen

KEY_FILE = "plant.key"

Callback = Callable[[bytes], None]


class Glue(Adapter):  # type: ignore[misc]
    """One glue endpoint behind the harness's interface."""

    reliable = True
    _keeper: Popen[bytes] | None = None
    packages = ("glue-lan",)
    history = frozenset({"last", "history"})
    secure = True

    @staticmethod
    def keys(ips: Sequence[str], workdir: str) -> None:
        """Make the key of a group."""
        from glue.endpoint.secrets import write_secret
        from glue.security import new_key

        write_secret(f"{workdir}/{KEY_FILE}", new_key(os.urandom).to_text())

    def open(
        self,
        role: str,
        host_ip: str,
        peers: Sequence[str],
        broker_ip: str,
        profile: str,
        depth: int,
        secure: bool = False,
    ) -> None:
        """Start an endpoint on eth0, with the key if `secure`. glue finds peers, so most arguments are ignored."""
        key = f"{os.environ['BENCH_DIR']}/{KEY_FILE}" if secure else None
        self._endpoint = glue.Endpoint(f"{role}-{host_ip}", interface="eth0", key=key).start()
        self._is_reading = profile == "retained"
        if self._is_reading and role == "pub":
            self._endpoint.remember("#", last=depth)
        if profile == "durable" and role == "pub":
            self._keep()

    def _keep(self) -> None:
        """Keep topics in another process, as a keeper that survives its publishers."""
        import subprocess  # imported here: no part of what it takes to import glue
        from pathlib import Path

        command = [sys.executable, "-m", "glue.cmd.keep", "d/#", "--data-dir", f"{os.environ['BENCH_DIR']}/log"]
        root = Path(glue.__file__).parents[1]
        self._keeper = subprocess.Popen(
            [*command, "--interface", "eth0", "--json"], stdout=subprocess.DEVNULL, cwd=root
        )  # fmt: skip
        self._endpoint.wait_for_keepers("d/1/256", 1, 10)

    def subscribe(self, topic: str, callback: Callback) -> None:
        """Call `callback` with the payload of each message."""
        start = "earliest" if self._is_reading else None
        self._endpoint.subscribe(topic, callback, payload_only=True, start=start)

    def subscribe_all(self, topics: Sequence[str], callback: Callback) -> None:
        """Subscribe to all topics with one wildcard. The topics have the form "prefix/..."."""
        self.subscribe(topics[0].partition("/")[0] + "/#", callback)

    def publish(self, topic: str, payload: bytes) -> None:
        """Publish reliably. The call waits while the queue is full."""
        self._endpoint.publish(topic, payload)

    def publish_many(self, topic: str, payloads: Iterable[bytes]) -> None:
        """Publish many messages on one topic."""
        self._endpoint.publish_many(topic, payloads)

    def serve(self, topic: str, handler: Callable[[bytes], bytes]) -> None:
        """Answer each request with `handler(payload)`."""
        self._endpoint.respond(topic, lambda request: handler(request.payload))

    def request(self, topic: str, payload: bytes) -> bytes:
        """Ask, and wait for the reply."""
        reply: bytes = self._endpoint.request(topic, payload)
        return reply

    def request_many(self, topic: str, payloads: Iterable[bytes], outstanding: int) -> int:
        """Ask with at most `outstanding` unanswered requests; returns how many were answered."""
        replies = self._endpoint.request_many(topic, payloads, outstanding=outstanding)
        return sum(reply.error is None for reply in replies)

    def publish_durable(self, topic: str, payloads: Iterable[bytes], outstanding: int) -> list[float]:
        """Publish, wait until a keeper has each message on disk, and return the µs that each of them took."""
        started: list[int] = []
        times: list[float] = []

        def noting() -> Iterator[bytes]:
            for payload in payloads:
                started.append(time.perf_counter_ns())
                yield payload

        for count in self._endpoint.publish_durable(topic, noting(), outstanding=outstanding):
            now = time.perf_counter_ns()
            times += [(now - start) / 1000 for start in started[len(times) : count]]
        return times

    def replay(self, topic: str, callback: Callback) -> None:
        """Call `callback` with the payload of each message that is kept, from the first on."""
        self._endpoint.subscribe(topic, callback, payload_only=True, start="earliest")

    def flush(self) -> None:
        """Do nothing, because glue holds no message back."""

    def close(self) -> None:
        """Leave the network."""
        self._endpoint.close()
        if self._keeper is not None:
            self._keeper.terminate()
            self._keeper.wait()
