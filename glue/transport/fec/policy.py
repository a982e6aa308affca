"""Which frames of a channel get parity, and how much: by the loss that its receivers have, or a fixed share.

Parity spares a round trip to whoever waits for a lost frame. So it goes where a round trip is worth something, and
where there is room: nothing else waits to be sent, and the windows are not full. A stream that fills the link gets
none, as parity would only take room from data, and resends delay it little.

A message in many fragments is covered at once, in groups of up to `FRAMES`. Small messages are gathered for an eighth
of a round trip and covered in common; a lone one is covered by a copy. There are as many parity blocks as make it
unlikely that more frames of a group are lost than there are blocks; what then is missing is sent again, once the
answer to the parity is overdue. Receivers tell what parity mended, since that is lost, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from glue.contract import Outbound, advanced
from glue.transport import slow_receivers
from glue.transport.fec.code import FRAMES, ROWS, protect, symbol_of
from glue.transport.flight import Flight
from glue.transport.round_trip import GRANULARITY
from glue.transport.wire import KEY, MAX_AGE_MS

if TYPE_CHECKING:
    from glue.transport.channel import Channel
    from glue.transport.member import Member

LEAST = 0.005  # share of loss below which there is no parity: a message of 64 kB comes whole in three of four cases
MOST = 1 / 3  # share of loss above which there is none, either: it would double the traffic of a link that hardly works
WORTH = 0.01  # seconds of round trip from which on parity is sent unasked: a resend that costs less is hardly noticed
GATHER = 1 / 8  # of a round trip in which frames gather until they are covered: small beside what is spared
ENOUGH = 16  # frames that need not wait for others: for 10 % loss they take 38 % parity, 4 take 75 % and 64 take 22 %
FAILING = 0.01  # chance that parity does not suffice, for all groups of a burst together: so the p99 is without resends
HOPELESS = 0.5  # chance of that beyond which there is none at all
BURST = 4 * FRAMES  # frames covered at once at most: 330 kB, some 2 ms of work
MEASURED = 100  # frames before which no loss is known; the standard error of 10 % is then 3 %
SPAN = 1000  # frames over which loss is measured; then half of them are forgotten


class Meter:
    """The share of frames that one receiver loses; kept from its first loss on, so that it costs nothing before."""

    __slots__ = ("_lost", "_since", "_uncounted", "mended", "most_mended")

    def __init__(self, sent: int) -> None:
        self._since = max(sent - MEASURED, 0)  # transmissions before this are forgotten
        self._lost = 0.0
        self._uncounted = 0  # that of the member, as far as it is counted by now
        self.mended = 0  # frames that it has told were mended, and are not known to have come late
        self.most_mended = 0  # the most that this ever was

    def lost(self, count: int) -> None:
        """So many frames did not arrive; negative if they did after all."""
        self._lost += count

    def share(self, sent: int, uncounted: int) -> float:
        """The share lost of what was sent lately, `sent` transmissions having been made in all; 0 if not yet known."""
        self._lost = max(self._lost + uncounted - self._uncounted, 0.0)
        self._uncounted = uncounted
        frames = sent - self._since
        if frames < MEASURED:
            return 0.0
        share = min(self._lost / frames, 1.0)
        if frames > SPAN:
            self._since = sent - SPAN // 2
            self._lost = share * (SPAN // 2)
        return share


class Protection:
    """The parity of one channel: `cover` it at `at`."""

    __slots__ = ("_first", "_meters", "_share", "active", "at")

    def __init__(self, share: float | None) -> None:
        """`share`: parity blocks for each frame; None to go by the loss seen, 0 for never."""
        self._share = share
        self._meters: dict[str, Meter] = {}
        self._first = 0  # from this frame on nothing was covered
        self.active = bool(share)  # whether to be told of what is sent
        self.at = math.inf  # when what was sent is to be covered

    def is_wanted(self, channel: Channel) -> bool:
        """Whether anything that is sent now is to be covered, or was and is not yet."""
        return self.active and (self.at < math.inf or bool(self._share or self._loss(channel)))

    def lost(self, channel: Channel, member: Member, count: int) -> None:
        """A member lost so many frames."""
        meter = self._meters.get(member.peer)
        if meter is None:
            meter = self._meters[member.peer] = Meter(channel.transmissions)
            self.active = self._share != 0
        meter.lost(count)

    def mended(self, channel: Channel, member: Member, total: int, now: float) -> bool:
        """A member had so many frames mended since the channel began, less those that came late; False if untrue."""
        if total > channel.next:
            return False
        meter = self._meters.get(member.peer)
        count = total - (meter.mended if meter else 0)
        if count:
            self.lost(channel, member, count)
            meter = self._meters[member.peer]
            meter.mended = total
            channel.statistics["frames lost and mended by parity"] += count
            if total > meter.most_mended:  # else it only fell for a while, by frames that parity had merely outrun
                member.window.lost(total - meter.most_mended)
                meter.most_mended = total
            if channel.kind == "group":
                slow_receivers.note_loss(channel, member, now)
        return True

    def launched(self, channel: Channel, now: float, count: int) -> None:
        """So many frames, from `channel.next` on, are sent just now, for the first time."""
        if self.at == math.inf or not channel.flights:
            if not channel.attached or not (self._share or self._loss(channel)):
                return
            self._first = channel.next
            self.at = now + max(GATHER * max(m.round_trip.smoothed for m in channel.attached), GRANULARITY)
        if channel.next + count - self._first >= ENOUGH:
            self.at = min(self.at, now + GRANULARITY)  # when they are on their way

    def _loss(self, channel: Channel) -> float:
        """The worst loss among those far enough away, rounded up, so that few differ; 0 if not worth any parity."""
        worst = 0.0
        for member in channel.attached:
            meter = self._meters.get(member.peer)
            if meter is not None and member.round_trip.smoothed >= WORTH:
                worst = max(worst, meter.share(channel.transmissions, member.uncounted))
        if not LEAST <= worst <= MOST:
            return 0.0
        return min(math.ceil((worst + math.sqrt(worst * (1 - worst) / SPAN)) * 200) / 200, 1.0)

    def cover(self, channel: Channel, now: float) -> list[Outbound]:
        """The parity that is due for what was sent, if it is worth it and there is room."""
        self.at = math.inf
        flights = channel.flights.since(self._first)
        count = channel.next - flights[0].first if flights else 0
        if not count or count > BURST or channel.waiting:
            return []
        groups = -(-count // FRAMES)
        size = -(-count // groups)
        rows = self._rows(channel, size, groups)
        symbols = _symbols(flights) if rows else None
        if symbols is None:
            return []
        age = min(int((now - flights[0].since) * 1000), MAX_AGE_MS)
        out = []
        for start in range(0, count, size):
            group = symbols[start : start + size]
            entry = ["parity", age, channel.number, flights[0].first + start, len(group), 0]
            blocks = protect(group, rows)
            out += [Outbound(peers, blocks, {KEY: entry}) for peers in channel.destinations]
        channel.statistics["parity frames sent"] += sum(len(item.bodies) for item in out)
        for flight in flights:
            flight.covered_at = now
        for member in channel.attached:
            if member.missing(channel.next) and member.next >= flights[0].first:
                member.waiting_since = now  # nothing but what is covered is to be answered
        return out

    def _rows(self, channel: Channel, count: int, groups: int) -> int:
        if self._share:
            return min(math.ceil(self._share * count), ROWS)
        loss = self._loss(channel)
        return rows_for(count, loss, FAILING / groups) if loss else 0


def _symbols(flights: Sequence[Flight]) -> list[bytes] | None:
    """The frames of flights as symbols; None if any is too long."""
    symbols = []
    for flight in flights:
        header = flight.item.header
        for index, body in enumerate(flight.item.bodies):
            symbol = symbol_of(advanced(header, index) if header else header, body)
            if symbol is None:
                return None
            symbols.append(symbol)
    return symbols


@lru_cache(maxsize=1024)
def rows_for(count: int, loss: float, failing: float) -> int:
    """The fewest parity blocks for so many frames of which no more are lost than that, but for a chance of `failing`.

    Never more blocks than frames, nor than ROWS; 0 if these most likely do not suffice.
    """
    most, chance = min(count, ROWS), 1.0
    for rows in range(1, most + 1):
        frames = count + rows
        chance = 1 - sum(math.comb(frames, k) * loss**k * (1 - loss) ** (frames - k) for k in range(rows + 1))
        if chance <= failing:
            return rows
    return most if chance <= HOPELESS else 0
