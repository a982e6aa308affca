"""The limits of an HTTP door, with their arithmetic. Times are in seconds, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from glue.gateway.descriptors import OTHER_FILES

MOUNTED: Final = "x-glue-mounted"
"""A header that takes away the rights of a client of this machine: another server has passed the request on."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one door."""

    body: int = 16 << 20
    """The largest body of a request; a message of glue may be larger, but such programs join the network themselves."""

    header: int = 16 << 10
    """The request line, and each header line."""

    connections: int = 2_000
    """Connections of clients at a time; at 30 kB each they take 60 MB. Further ones are closed at once."""

    request_time: float = 30.0
    """Time for the body of a request to arrive."""

    keep_alive: float = 75.0
    """How long an idle connection stays open."""

    streams: int = 1_000
    """Streams of clients at a time: server-sent events, NDJSON and websockets."""

    send_time: float = 30.0
    """How long a stream waits for a client that reads nothing; then it is cut."""

    ping: float = 15.0
    """Time between two signs of life on a quiet stream: proxies close connections that are quiet for a minute."""

    recent_bytes: int = 64 << 20
    """Recent messages for streams, payloads and some 200 bytes each; a client that reads more slowly misses some."""

    last_values: int = 100_000
    """Topics whose last value the door remembers while a stream covers them."""

    subscriptions: int = 10_000
    """Subscriptions, at some 5 kB each: 50 MB."""

    attempts: int = 2_000
    """Deliveries under way at a time; at 50 kB each they take 100 MB."""

    doubtful: int = 200
    """Those of them to subscribers that failed before: they may wait for a timeout each and must not hold up others."""

    parallel: int = 64
    """The largest `parallel` of a subscription."""

    idempotency_keys: int = 200_000
    """Keys that are remembered, at some 250 bytes each: 50 MB. The oldest is forgotten first."""

    idempotency_time: float = 86_400.0
    """How long a key is remembered."""

    request_timeout: float = 60.0
    """The longest `timeout` of a request that goes through the door."""

    history: int = 1_000
    """Messages in an answer of history."""


def fitted(limits: Limits, files: int) -> Limits:
    """Return the limits of a process that may have so many open files: each connection and each delivery is one.

    Without a file left, the log could store nothing, and the endpoint could not look at its network.
    """
    room, wanted = max(files - OTHER_FILES, 16), limits.connections + limits.attempts
    if wanted <= room:
        return limits
    connections = max(8, limits.connections * room // wanted)
    attempts = max(8, room - connections)
    return replace(limits, connections=connections, attempts=attempts, doubtful=min(limits.doubtful, attempts // 2))
