"""Replay of the datagrams that reached an endpoint, through the endpoint's own layers in virtual time.

The stack gets each datagram at its time of capture. In between it gets its timers, as from a driver. The stack
subscribes when the endpoint's own announcements in the trace do. Datagrams that the stack sends are dropped: the real
endpoint's acknowledgements took effect in the trace already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from glue.contract import Address, Delivery, PeerAdded, PeerRemoved, Request, Subscribe, Train, Unsubscribe
from glue.endpoint.core import EndpointCore
from glue.settings import Settings

DATAGRAM_SIZE = 1472  # Ethernet's 1,500 bytes less 20 of IPv4 and 8 of UDP
MOST_TURNS = 10_000
"""Most turns for timers between two datagrams. An hour of silence has some thousand."""


class Captured(NamedTuple):
    """A datagram at an endpoint's home.

    - `time`: nanoseconds since 1970.
    - `data`: the datagram; b"" for the endpoint's own announcements.
    - `operations`: set for the endpoint's own announcements. The number of the first operation, and "+pattern" or
      "-pattern" of each.
    """

    time: int
    source: Address
    data: bytes
    operations: tuple[int, tuple[str, ...]] | None = None


@dataclass
class Replayed:
    """Events that the application would have seen, in order, and the layers' counters.

    `messages` are (time, topic, publisher, first sequence, count). `peers` are (time, name, event). Times are
    nanoseconds since 1970.
    """

    messages: list[tuple[int, str, str, int, int]] = field(default_factory=list)
    peers: list[tuple[int, str, str]] = field(default_factory=list)
    statistics: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def message_count(self) -> int:
        """Number of delivered messages."""
        return sum(count for *_, count in self.messages)


def replay(
    datagrams: Iterable[Captured], settings: Settings, wait: Callable[[int], object] = lambda time: None
) -> Replayed:
    """Run the trace through the layers of an endpoint with these settings, the name included.

    The `datagrams` are in the order of capture at the endpoint's home, with the endpoint's own announcements. `wait` is
    called with the time of each datagram before the datagram is handled, so that a replay can follow a clock.
    """
    core = EndpointCore(settings, Random(0), 0.0, {})
    core.stack.fit(DATAGRAM_SIZE)
    core.stack.commit()
    told, zero, known = Replayed(), None, 0
    for datagram in datagrams:
        zero = datagram.time if zero is None else zero
        wait(datagram.time)
        now = (datagram.time - zero) / 1e9
        _let_pass(core, told, zero, now)
        if datagram.operations is None:
            _turn(core, told, zero, now, [Train(datagram.source, datagram.data, len(datagram.data) or 1)], [])
        else:
            first, operations = datagram.operations
            new = operations[max(0, known - first) :]
            known = max(known, first + len(operations))
            _turn(core, told, zero, now, [], [_request(operation) for operation in new])
    told.statistics = core.stack.statistics
    return told


def _request(operation: str) -> Request:
    pattern = operation[1:]
    return Subscribe(pattern, pattern) if operation[0] == "+" else Unsubscribe(pattern)


def _let_pass(core: EndpointCore, told: Replayed, zero: int, until: float) -> None:
    """Run the stack's due timers up to a time."""
    for _ in range(MOST_TURNS):
        due = core.stack.deadline
        if due > until:
            return
        _turn(core, told, zero, due, [], [])


def _turn(
    core: EndpointCore, told: Replayed, zero: int, now: float, trains: list[Train], requests: list[Request]
) -> None:
    events, _ = core.stack.turn(now, trains, requests)
    core.stack.commit()
    time = zero + round(now * 1e9)
    for event in events:
        if isinstance(event, Delivery):
            told.messages.append((time, event.topic, event.publisher, event.sequence, len(event.payloads)))
        elif isinstance(event, PeerAdded):
            told.peers.append((time, event.name, "restarted" if event.restarted else "found"))
        elif isinstance(event, PeerRemoved):
            told.peers.append((time, event.name, event.reason))
