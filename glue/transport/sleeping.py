"""Sleep, of peers and of this endpoint: what the transport layer does for `sleepers` and for `waking`."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from glue.contract import Downward, Inbound, Outbound, Sleep, Upward
from glue.transport.acknowledger import Acknowledger
from glue.transport.channel import Channel
from glue.transport.channel_state import OWN_SLEEP, PEER_ASLEEP
from glue.transport.incoming import IncomingPeer
from glue.transport.outcomes import Outcomes
from glue.transport.reception import Handler
from glue.transport.sleepers import Sleepers
from glue.transport.waking import Report, Waking, decode_ends
from glue.transport.wire import WAITED, WAKE

_woken, _waited = WAKE.getter("cycle"), WAITED.getter("cycle", "waited", "dropped")


class Sleeping:
    """The sleepers among the peers, and the moments in which this endpoint wakes up."""

    def __init__(
        self,
        channels: dict[int, Channel],
        busy: dict[int, Channel],
        sources: dict[str, IncomingPeer],
        outcomes: Outcomes,
        acknowledger: Acknowledger,
    ) -> None:
        """The tables are those of the transport layer: sending channels, the busy ones, and peers as senders."""
        self.sleepers = Sleepers(channels, outcomes)
        self.waking = Waking(sources)
        self.reports: list[Outbound] = []  # to sleepers; they leave behind what waited for them
        self.handlers: dict[str, Handler] = {"wake": self._on_wake, "waited": self._on_waited}
        self._channels = channels
        self._busy = busy
        self._statistics = outcomes.statistics
        self._acknowledger = acknowledger

    def is_urgent(self, peers: tuple[str, ...]) -> bool:
        """Whether this endpoint, or the only peer of a channel, sleeps most of the time."""
        return self.waking.is_used or (len(peers) == 1 and peers[0] in self.sleepers.table)

    def pause_of(self, peers: tuple[str, ...]) -> str:
        """Why a new channel to these peers begins with a pause; empty if it does not."""
        if self.sleepers.is_asleep(peers):
            return PEER_ASLEEP
        return OWN_SLEEP if self.waking.is_asleep else ""

    def split(self, item: Outbound) -> Iterator[Outbound]:
        """Yield the messages that go instead of one for several peers, sleepers among them."""
        return self.sleepers.split(item) if item.reliable else self.sleepers.without(item)

    def note(self, now: float, peer: str, cycle: int) -> None:
        """A peer that is awake for moments only fell asleep, or is awake."""
        for channel in self.sleepers.note(now, peer, cycle):
            if self.waking.is_asleep:
                channel.paused = OWN_SLEEP
            if not channel.idle:
                self._busy[channel.number] = channel
        if (report := self.sleepers.report(peer)) is not None:
            self.reports.append(report)

    def forget(self, peer: str) -> None:
        """A peer is gone."""
        self.sleepers.forget(peer)
        self.waking.gone(peer)

    def advance(self, now: float, up: list[Upward]) -> list[Downward]:
        """Return the reports for sleepers and the questions to peers; tell above when all that waited has come."""
        down: list[Downward] = [*self.reports]
        self.reports.clear()
        if self.waking.deadline < inf:
            if awake := self.waking.finished(now):
                up.append(awake)
            down += self.waking.due(now)
        return down

    def order(self, now: float, item: Sleep) -> list[Downward]:
        """Fall asleep, after all acknowledgements; or wake up, and ask the peers for what waited."""
        if item.cycle % 2:
            self.waking.fall_asleep()
            for channel in self._channels.values():
                channel.paused = channel.paused or OWN_SLEEP
            self._acknowledger.hurry()
            return [*self._acknowledger.due(now), item]
        self.waking.begin(now, item.cycle)
        for channel in self._channels.values():
            if channel.paused == OWN_SLEEP:
                channel.resume(now)
        return [item, *self.waking.due(now)]

    def _on_wake(self, now: float, run: Inbound, entry: list[Any], source: IncomingPeer, up: list[Upward]) -> None:
        """A peer has woken up, and asks for what waited."""
        if self.sleepers.may_wake(run.peer, _woken(entry)):
            self.note(now, run.peer, _woken(entry))
        else:
            self._statistics["questions of peers that do not sleep"] += 1

    def _on_waited(self, now: float, run: Inbound, entry: list[Any], source: IncomingPeer, up: list[Upward]) -> None:
        """A peer reports what waited there for this endpoint."""
        cycle, waited, dropped = _waited(entry)
        for body in run.bodies:
            if (ends := decode_ends(body)) is None:
                self._statistics["malformed entries"] += 1
            else:
                self.waking.take(now, run.peer, cycle, Report(waited, dropped, ends))
