"""Frames as they come in on their channels: handed up in order, mended by parity, and when they are acknowledged."""

from __future__ import annotations

from collections import Counter
from typing import Any

from glue.contract import Gap, Inbound, Upward
from glue.transport.acknowledger import Acknowledger
from glue.transport.incoming import BUDGET, Budget, Incoming, Source
from glue.transport.mending import Mending, Store

INCOMING = 256  # channels remembered per peer: more than a peer has alive (64 groups, and a unicast one of each class)


class Reception:
    """The receiving ends of all channels, as far as they share anything."""

    __slots__ = ("_acknowledger", "_budget", "_kept", "_statistics")

    def __init__(self, statistics: Counter[str], acknowledger: Acknowledger) -> None:
        self._statistics = statistics
        self._acknowledger = acknowledger
        self._budget = Budget()  # for frames behind gaps
        self._kept = Store()  # for parity, and frames that it may need

    def open(self, source: Source, peer: str, channel: int) -> Incoming:
        """The receiving end of a channel that is new here."""
        if len(source.channels) >= INCOMING:
            self._forget_one(source)
        incoming = source.channels[channel] = Incoming(peer, channel, self._budget)
        return incoming

    def _forget_one(self, source: Source) -> None:
        """Forget the channel that was not used for longest, of those that hold nothing if there is any.

        What waits behind a gap was acknowledged: the sender may count on it. Channels that are alive are far fewer than
        `INCOMING`, and used several times a second while they have a gap; so if all have one, the first is a dead one.
        """
        channels = source.channels
        found = next((number for number, incoming in channels.items() if not incoming.ranges), next(iter(channels)))
        forgotten = channels.pop(found)
        if forgotten.ranges:
            self._statistics["frames forgotten with their channel"] += forgotten.ranges.size
        forgotten.drop()
        self._statistics["channels forgotten"] += 1

    def take(
        self, now: float, run: Inbound, incoming: Incoming, attempt: int, age_ms: int, sequence: int, up: list[Upward]
    ) -> None:
        """Hand up what is in order, and settle when to acknowledge."""
        run.age = age_ms / 1000
        if self._budget.held > BUDGET and sequence != incoming.next:
            self._statistics["frames beyond the budget for gaps"] += len(run.bodies)
            return
        ready = incoming.take(now, run, sequence)
        for part in ready:
            up.append(part)
            self._statistics["frames received"] += len(part.bodies)
        if incoming.outcome:
            self._statistics[incoming.outcome] += 1
        at_once = attempt > 0 or not ready or incoming.outcome != "" or incoming.ranges.size > 0
        self._acknowledger.taken(now, incoming, len(run.bodies), at_once)
        if incoming.mending is not None:
            self._keep(now, run, incoming, incoming.mending, sequence, attempt, up)

    def skip(self, now: float, incoming: Incoming, sequence: int, up: list[Upward]) -> None:
        """Go on from `sequence`: the sender gave up what is missing before it."""
        given_up, ready = incoming.skip(now, sequence)
        if given_up:
            self._statistics["frames given up by their sender"] += given_up
            up.append(Gap(incoming.peer, given_up, "given up"))
        up += ready
        self._statistics["frames received"] += sum(len(part.bodies) for part in ready)
        self._acknowledger.now(incoming)

    def _keep(
        self,
        now: float,
        run: Inbound,
        incoming: Incoming,
        mending: Mending,
        sequence: int,
        attempt: int,
        up: list[Upward],
    ) -> None:
        """These frames may serve to mend others, or show that what was mended was not lost."""
        if incoming.outcome and not attempt:
            incoming.mended -= mending.came_late(sequence, len(run.bodies))
        mending.keep(run, sequence)
        if mending.waiting:
            self._mend(now, run, incoming, mending, attempt, up)
        if mending.unused:
            mending.drop()
            incoming.mending = None

    def take_parity(self, now: float, run: Inbound, incoming: Incoming, entry: list[Any], up: list[Upward]) -> None:
        """Parity has come: see what it mends."""
        if incoming.mending is None:
            incoming.mending = Mending(self._kept, self._statistics)
        incoming.mending.add(now, incoming, entry, run.bodies)
        self._mend(now, run, incoming, incoming.mending, 0, up)

    def _mend(
        self, now: float, run: Inbound, incoming: Incoming, mending: Mending, attempt: int, up: list[Upward]
    ) -> None:
        """Take what parity gives back, now that `run` has come; the sender knows what was lost if that is a resend."""
        for sequence, frame in mending.mended(now, incoming, run):
            incoming.mended += not attempt
            self._statistics["frames mended by parity"] += 1
            self.take(now, frame, incoming, 1, int(frame.age * 1000), sequence, up)
            incoming.newest_mended(now)
