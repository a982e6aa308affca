"""When to acknowledge: at once, after a short delay, or with data that goes the other way anyway.

A gap, a duplicate, a resent frame or a long run is acknowledged in the same turn. Anything else may wait for
`ACK_DELAY`, in the hope of data to the same peer that carries the acknowledgement for nothing.
"""

from __future__ import annotations

import math
from collections import Counter, deque

from glue.contract import Outbound
from glue.transport.incoming import Incoming
from glue.transport.round_trip import ACK_DELAY
from glue.transport.wire import KEY, MAX_HELD_US, encode_ranges

ACK_EVERY = 96  # frames: more than two full trains are acknowledged at once, whatever the delay


class Acknowledger:
    """Which channels owe an acknowledgement, and since when."""

    __slots__ = ("_late", "_owing", "_prompt", "_statistics", "accepting")

    def __init__(self, statistics: Counter[str]) -> None:
        self.accepting = True  # whether windows are opened further
        self._statistics = statistics
        self._late: deque[tuple[float, Incoming]] = deque()  # delayed acknowledgements by time due
        self._owing: dict[str, Incoming] = {}  # by peer: what data to that peer can carry
        self._prompt: dict[int, Incoming] = {}  # to be acknowledged in this turn

    @property
    def deadline(self) -> float:
        """When the first delayed acknowledgement is due."""
        return self._late[0][0] if self._late else math.inf

    def taken(self, now: float, incoming: Incoming, at_once: bool) -> None:
        """Frames came on a channel: acknowledge them at once, or soon."""
        if at_once or incoming.unacknowledged >= ACK_EVERY:
            self._prompt[id(incoming)] = incoming
        elif not incoming.acknowledge_at:
            incoming.acknowledge_at = at = now + ACK_DELAY
            self._late.append((at, incoming))
            self._owing[incoming.peer] = incoming

    def forget(self, peer: str) -> None:
        """A peer is gone: owe it nothing."""
        self._owing.pop(peer, None)

    def due(self, now: float) -> list[Outbound]:
        """The acknowledgements that cannot wait, and those that have waited."""
        late = self._late
        while late and late[0][0] <= now:
            at, incoming = late.popleft()
            if incoming.acknowledge_at == at:
                self._prompt[id(incoming)] = incoming
        if not self._prompt:
            return []
        prompt, self._prompt = self._prompt, {}
        self._statistics["acknowledgements sent"] += len(prompt)
        return [self._acknowledgement(now, incoming) for incoming in prompt.values()]

    def _acknowledgement(self, now: float, incoming: Incoming) -> Outbound:
        held = self._held(now, incoming)
        body = encode_ranges(list(incoming.ranges), incoming.next)
        entry = ["ack", held, incoming.window(self.accepting), incoming.channel, incoming.next]
        return Outbound((incoming.peer,), [body], {KEY: entry})

    def _held(self, now: float, incoming: Incoming) -> int:
        """Note that it is acknowledged now; return for how long the newest frame had to wait, in µs."""
        incoming.acknowledge_at = 0.0
        incoming.unacknowledged = 0
        if self._owing.get(incoming.peer) is incoming:
            del self._owing[incoming.peer]
        held = int((now - incoming.newest_at) * 1e6)
        return held if held < MAX_HELD_US else MAX_HELD_US

    def carry(self, now: float, item: Outbound) -> None:
        """Let data to a single peer carry the acknowledgement that is owed to it."""
        incoming = self._owing.get(item.peers[0])
        if incoming is not None and self.accepting and not incoming.ranges:
            incoming.window(True)
            item.header[KEY][3:6] = [incoming.channel, incoming.next, self._held(now, incoming)]
            self._statistics["acknowledgements carried by data"] += 1
