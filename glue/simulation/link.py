"""One direction between two hosts: the effect of conditions and randomness on each datagram.

Datagrams that leave together and arrive together form one train, as from a kernel's receive offload. Datagrams with
another fate travel alone.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from glue.simulation.conditions import FRAME_OVERHEAD, Conditions
from glue.simulation.host import Host
from glue.simulation.randomness import RandomStreams
from glue.simulation.recorded import RecordedOutcomes

Outcome = Literal[
    "arrived", "lost", "queue full", "cut", "sender down", "receiver down", "buffer full", "unknown destination"
]
"""Outcome of a datagram. Each datagram gets exactly one."""

Arrival = tuple[float, bytes, int]
"""True time of arrival, concatenated datagrams, and the length of each datagram but the last."""


class Port:
    """A transmitter with a limited `rate` (bytes/s) and a `queue` of bounded length (seconds) before it (drop tail)."""

    __slots__ = ("_busy_until", "queue", "rate")

    def __init__(self, rate: float, queue: float) -> None:
        self.rate = rate
        self.queue = queue
        self._busy_until = 0.0

    def departures(self, now: float, data: bytes, segment: int) -> list[float | None]:
        """Queue these datagrams. Return the time at which each has left the port, None if the queue was full."""
        return [self._departure(now, len(datagram)) for datagram in split(data, segment)]

    def _departure(self, now: float, size: int) -> float | None:
        start = max(now, self._busy_until)
        if start - now > self.queue:
            return None
        self._busy_until = start + (size + FRAME_OVERHEAD) / self.rate
        return self._busy_until


class Link:
    """The way from `source` to `destination`, and its counts.

    - "sent", "duplicated": every datagram once, and every additional copy once. Each of these counts once more under
      its `Outcome`, when the fate is known.
    - "held back", "corrupted": datagrams with these faults.
    - "sent bytes", "arrived bytes": bytes of payload.
    """

    __slots__ = (
        "_conditions", "_is_bad", "_is_plain", "_rng", "counters", "destination", "is_blocked", "is_partitioned",
        "outcomes", "port", "source",
    )  # fmt: skip

    def __init__(self, source: Host, destination: Host, seed: int) -> None:
        self.source = source
        self.destination = destination
        self.counters: Counter[str] = Counter()
        self.is_blocked = False
        self.is_partitioned = False
        self.port: Port | None = None
        self.outcomes: RecordedOutcomes | None = None
        self._conditions = Conditions()
        self._is_plain = True
        self._rng = RandomStreams(seed, f"link {source.address} {destination.address}")
        self._is_bad = False

    @property
    def is_cut(self) -> bool:
        """Whether no datagram passes."""
        return self.is_blocked or self.is_partitioned

    def set_conditions(self, conditions: Conditions, port: Port | None) -> None:
        """Apply these conditions from now on. `port` is the transmitter that the datagrams have passed, if any."""
        self._conditions = conditions
        self._is_plain = conditions.is_plain
        self.port = port
        self._is_bad = False

    def carry(
        self, now: float, data: bytes, segment: int, departures: list[float | None] | None
    ) -> tuple[list[Arrival], list[tuple[bytes, Outcome]]]:
        """Decide the fate of datagrams that leave now or at `departures`. Return arrivals and losses."""
        if self.outcomes is not None:
            return self._carry_as_recorded(self.outcomes, now, data, segment)
        conditions, strikes = self._conditions, self._rng.strikes
        if self._is_plain:
            return [(now + conditions.delay, data, segment)], []
        together: dict[float, list[bytes]] = {}
        copies: list[Arrival] = []
        missing: list[tuple[bytes, Outcome]] = []
        for number, datagram in enumerate(split(data, segment)):
            # Every random decision is made for every datagram, also for a lost one. Otherwise one fault would shift the
            # random numbers of the others.
            is_lost, is_held_back = self._loses(), strikes("reorder", conditions.reorder)
            jitter = self._jitter("jitter")
            copy_jitter = self._jitter("jitter of the copy") if strikes("duplicate", conditions.duplicate) else None
            flip = self._rng.draw("corrupt bit") if strikes("corrupt", conditions.corrupt) else None
            departure = now if departures is None else departures[number]
            if departure is None or is_lost:
                missing.append((datagram, "queue full" if departure is None else "lost"))
                continue
            if flip is not None and datagram:
                self.counters["corrupted"] += 1
                datagram = flipped(datagram, int(flip * 8 * len(datagram)))
            time = departure + conditions.delay
            if copy_jitter is not None:
                self.counters["duplicated"] += 1
                copies.append((time + copy_jitter, datagram, len(datagram) or 1))
            if is_held_back:
                self.counters["held back"] += 1
                time += conditions.reorder_delay
            together.setdefault(time + jitter, []).append(datagram)
        arrivals = [(time, b"".join(datagrams), segment) for time, datagrams in together.items()]
        return arrivals + copies, missing

    def _carry_as_recorded(
        self, outcomes: RecordedOutcomes, now: float, data: bytes, segment: int
    ) -> tuple[list[Arrival], list[tuple[bytes, Outcome]]]:
        together: dict[float, list[bytes]] = {}
        missing: list[tuple[bytes, Outcome]] = []
        for datagram in split(data, segment):
            time = outcomes.arrival(now)
            if time is None:
                missing.append((datagram, "lost"))
            else:
                together.setdefault(time, []).append(datagram)
        return [(time, b"".join(datagrams), segment) for time, datagrams in together.items()], missing

    def _loses(self) -> bool:
        burst, strikes = self._conditions.burst, self._rng.strikes
        is_lost = strikes("loss", self._conditions.loss)
        if burst is not None:
            if strikes("burst", burst.leave if self._is_bad else burst.enter):
                self._is_bad = not self._is_bad
            if self._is_bad:
                is_lost = strikes("loss in a burst", burst.loss)
        return is_lost

    def _jitter(self, purpose: str) -> float:
        jitter = self._conditions.jitter
        return jitter * self._rng.draw(purpose) if jitter else 0.0


def flipped(datagram: bytes, bit: int) -> bytes:
    """Return the datagram with one bit flipped."""
    changed = bytearray(datagram)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


def split(data: bytes, segment: int) -> list[bytes]:
    """Return the datagrams of a train. Empty data is one empty datagram, as for a socket."""
    if len(data) <= segment:
        return [data]
    return [data[start : start + segment] for start in range(0, len(data), segment)]
