"""The moment in which this endpoint wakes up: it asks its peers for what waited, and knows when all has come.

Each peer is asked directly, besides the announcement to all, and asked again until it has reported and all that waited
there has come. The time between two questions follows the answers. A peer that did not answer the last time is waited
for in the next two moments for a few questions only, and then no more until it answers by itself.
"""

from __future__ import annotations

from math import inf

import orjson

from glue.contract import Awake, Outbound
from glue.transport.incoming import IncomingPeer
from glue.transport.wire import KEY, WAKE

FIRST = 0.01  # seconds until peers are asked again, as long as none has answered
MARGIN = 1.25  # later, so many times the time of an answer
LEAST, MOST = 0.002, 0.1  # seconds between questions at least and at most; the time doubles with each
PATIENCE = 0.5  # seconds without a report or a message, after which those that are missing count as silent
LONGEST = 60.0  # seconds of a moment in any case: 64 MiB at 1 MB/s
MOST_ENDS = 32  # channels in one report; a peer uses one for each class
MOST_SILENT = 1024  # peers remembered as silent
TRIES = 3  # moments in a row in which a silent peer is waited for,
BRIEFLY = 4  # from the second on for so many questions


class Report:
    """A peer's report on the messages that waited: counts, and for each channel the frame after the last of them."""

    __slots__ = ("dropped", "ends", "waited")

    def __init__(self, waited: int, dropped: int, ends: list[int]) -> None:
        self.waited = waited
        self.dropped = dropped
        self.ends = ends

    def is_complete(self, source: IncomingPeer | None) -> bool:
        """Whether all that waited at the peer has come from there."""
        if source is None:
            return False
        for channel, stop in zip(self.ends[::2], self.ends[1::2], strict=True):
            incoming = source.channels.get(channel)
            if stop and (incoming is None or incoming.next < stop):
                return False
        return True


class Waking:
    """The state of waking up; between two moments its `deadline` is infinite."""

    def __init__(self, sources: dict[str, IncomingPeer]) -> None:
        """`sources` are the peers as senders."""
        self.is_asleep = self.is_used = False  # now; ever
        self._sources = sources
        self._cycle = 0
        self._awaited: dict[str, Report | None] = {}
        self._done: dict[str, Report] = {}
        self._silent: dict[str, int] = {}  # moments in a row without an answer
        self._asks_at = self._ends_at = self._until = inf
        self._began_at = 0.0
        self._wait = self._trip = FIRST
        self._had = 0

    @property
    def deadline(self) -> float:
        """When peers are asked again, or the wait ends."""
        return min(self._asks_at, self._ends_at, self._until)

    def fall_asleep(self) -> None:
        """Wait for nobody any more."""
        self.is_asleep = self.is_used = True
        self._awaited, self._done = {}, {}
        self._asks_at = self._ends_at = self._until = inf

    def begin(self, now: float, cycle: int) -> None:
        """Wake up."""
        self.is_asleep = False
        self._cycle = cycle
        self._awaited = {peer: None for peer in self._sources if self._silent.get(peer, 0) < TRIES}
        self._done = {}
        self._wait = self._trip
        self._asks_at, self._ends_at = now, now + PATIENCE
        self._began_at, self._had = now, self._count()

    def due(self, now: float) -> list[Outbound]:
        """Ask those that have not reported, or whose messages are missing."""
        if now < self._asks_at:
            return []
        self._asks_at = now + self._wait
        self._wait = min(2 * self._wait, MOST)
        asked = [peer for peer in self._awaited if peer in self._sources]
        return [Outbound((peer,), [b""], {KEY: WAKE.pack(cycle=self._cycle)}) for peer in asked]

    def take(self, now: float, peer: str, cycle: int, report: Report) -> None:
        """Take the report of a peer."""
        self._silent.pop(peer, None)
        if cycle != self._cycle or self._ends_at == inf:
            return
        if not self._done and not any(self._awaited.values()):  # the first
            self._trip = self._wait = min(max(MARGIN * (now - self._began_at), LEAST), MOST)
            self._asks_at = max(now, self._began_at + self._wait)
        if peer not in self._done:
            if self._awaited.get(peer) is None:
                self._ends_at = now + PATIENCE
            self._awaited[peer] = report

    def gone(self, peer: str) -> None:
        """A peer is gone."""
        self._awaited.pop(peer, None)
        self._silent.pop(peer, None)

    def finished(self, now: float) -> Awake | None:
        """Return the news once all has come, or those that are missing were silent for too long."""
        if self._ends_at == inf:
            return None
        for peer, report in [*self._awaited.items()]:
            if report is not None and report.is_complete(self._sources.get(peer)):
                self._done[peer] = report
                del self._awaited[peer]
        had, before = self._count(), self._had
        self._had = had
        if had != before:
            self._ends_at = now + PATIENCE
        ends_at = min(self._ends_at, self._began_at + LONGEST)
        if all(report is None and peer in self._silent for peer, report in self._awaited.items()):
            ends_at = min(ends_at, self._began_at + BRIEFLY * self._trip)
        if self._awaited and now < ends_at:
            self._until = ends_at
            return None
        reports = [*self._done.values(), *filter(None, self._awaited.values())]
        silent = [peer for peer in self._sources if peer not in self._done]
        for peer in [peer for peer in silent if self._awaited.get(peer) is None]:
            if peer in self._silent or len(self._silent) < MOST_SILENT:
                self._silent[peer] = self._silent.get(peer, 0) + 1
        self._asks_at = self._ends_at = self._until = inf
        waited, dropped = sum([one.waited for one in reports]), sum([one.dropped for one in reports])
        publishers = sum([one.waited > 0 or one.dropped > 0 for one in reports])
        return Awake(self._cycle, waited, dropped, publishers, silent)

    def _count(self) -> int:
        """How many frames the peers that are waited for have sent so far."""
        sources = [self._sources[peer] for peer in self._awaited if peer in self._sources]
        return sum([one.next + one.ranges.size for source in sources for one in source.channels.values()])


def decode_ends(body: bytes) -> list[int] | None:
    """The channels and frames of a report; None if the body is not that."""
    try:
        ends = orjson.loads(body)
    except ValueError:
        return None
    if ends.__class__ is not list or len(ends) % 2 or len(ends) > 2 * MOST_ENDS:
        return None
    return ends if all(value.__class__ is int and value >= 0 for value in ends) else None
