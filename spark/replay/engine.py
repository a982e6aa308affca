"""What an endpoint's layers make of the datagrams that reached it: the same code as on that day, in virtual time.

The stack is given each datagram at the time it was captured, and between them its timers, as a driver would. It
subscribes when the endpoint's own announcements in the trace say so. What it sends goes nowhere: that the real
endpoint acknowledged is in the trace, as the others' reactions to it are.
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
"""Turns of timers between two datagrams: an hour's silence has some thousand."""


class Captured(NamedTuple):
    """A datagram at an endpoint's home: `time` in nanoseconds since 1970; `operations` if it is its own announcement.

    Operations are told as (number of the first, "+pattern" or "-pattern" of each); `data` of own datagrams is not
    needed.
    """

    time: int
    source: Address
    data: bytes
    operations: tuple[int, tuple[str, ...]] | None = None


@dataclass
class Replayed:
    """What the application would have seen, in order, and the layers' counters.

    `messages` are (time, topic, publisher, sequence of the first, how many); `peers` (time, name, what happened).
    Times are nanoseconds since 1970.
    """

    messages: list[tuple[int, str, str, int, int]] = field(default_factory=list)
    peers: list[tuple[int, str, str]] = field(default_factory=list)
    statistics: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def message_count(self) -> int:
        """How many messages were delivered."""
        return sum(count for *_, count in self.messages)


def replay(
    datagrams: Iterable[Captured], settings: Settings, wait: Callable[[int], object] = lambda time: None
) -> Replayed:
    """Run the trace through the layers of an endpoint with these settings, its name among them.

    `datagrams` in the order they were captured at its home, its own among them. `wait`
    is called with the time of each datagram before it is taken, to go at the speed of a clock.
    """
    core = EndpointCore(settings, Random(0), 0.0, {})
    core.stack.fit(DATAGRAM_SIZE)
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
    """Obey the stack's timers up to a time."""
    for _ in range(MOST_TURNS):
        due = core.stack.deadline
        if due > until:
            return
        _turn(core, told, zero, due, [], [])


def _turn(
    core: EndpointCore, told: Replayed, zero: int, now: float, trains: list[Train], requests: list[Request]
) -> None:
    events, _ = core.stack.turn(now, trains, requests)
    time = zero + round(now * 1e9)
    for event in events:
        if isinstance(event, Delivery):
            told.messages.append((time, event.topic, event.publisher, event.sequence, len(event.payloads)))
        elif isinstance(event, PeerAdded):
            told.peers.append((time, event.name, "restarted" if event.restarted else "found"))
        elif isinstance(event, PeerRemoved):
            told.peers.append((time, event.name, event.reason))
