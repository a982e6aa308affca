"""Lets a benchmark of publish/subscribe systems run glue beside its neighbours.

The harness puts its own `adapters` module on the path; what it calls is described there. All settings are the
library's defaults but for the interface and, for retained topics, `retain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from adapters import Adapter  # type: ignore[import-not-found]

import glue

Callback = Callable[[bytes], None]


class Glue(Adapter):  # type: ignore[misc]
    """One glue endpoint behind the harness's interface."""

    reliable = True
    packages = ("glue",)
    history = frozenset({"last"})

    def open(self, role: str, host_ip: str, peers: Sequence[str], broker_ip: str, profile: str, depth: int) -> None:
        """Join the network on eth0; peers find each other."""
        self._endpoint = glue.Endpoint(f"{role}-{host_ip}", interface="eth0").start()
        self._retain = profile == "retained"

    def subscribe(self, topic: str, callback: Callback) -> None:
        """Call back with the payload of each message."""
        self._endpoint.subscribe(topic, callback, payload_only=True)

    def subscribe_all(self, topics: Sequence[str], callback: Callback) -> None:
        """One wildcard covers "prefix/..."."""
        self.subscribe(topics[0].partition("/")[0] + "/#", callback)

    def publish(self, topic: str, payload: bytes) -> None:
        """Reliable; blocks while the queue is full."""
        self._endpoint.publish(topic, payload, retain=self._retain)

    def publish_many(self, topic: str, payloads: Iterable[bytes]) -> None:
        """A stream on one topic."""
        self._endpoint.publish_many(topic, payloads)

    def flush(self) -> None:
        """Whatever is published leaves at once; nothing is held back."""

    def close(self) -> None:
        """Leave the network."""
        self._endpoint.close()
