"""The FEC policy: which frames of a channel get repair symbols, and how many, by the loss seen or a fixed share.

FEC spares a receiver the round trip of a resend. Therefore the policy adds repair symbols where a round trip costs
noticeable time, and only while there is room: no other frame waits to be sent, and the windows are not full. A stream
that fills the link gets none, as repair symbols would take room from data, and a resend delays such a stream little.

A message in many fragments is covered at once, in source blocks of up to `SOURCE_SYMBOLS` frames. Small messages
gather for an eighth of a round trip and share a block; the repair symbol of a lone frame is a copy. The number of
repair symbols is chosen so that a block rarely loses more frames than it has symbols. Frames that stay missing are
resent once the answer to the repair symbols is overdue. Receivers report how many frames they decoded, because the
network lost these frames, too.
"""

from __future__ import annotations

import math
from functools import lru_cache

from glue.contract import Outbound
from glue.transport import slow_receivers
from glue.transport.channel_state import ChannelState
from glue.transport.fec import REPAIR_SYMBOLS, SOURCE_SYMBOLS
from glue.transport.fec.state import SPAN
from glue.transport.member import Member
from glue.transport.round_trip import GRANULARITY

LEAST = 0.005  # share of loss below which FEC is off: three of four messages of 64 kB arrive whole
MOST = 1 / 3  # share of loss above which FEC is off: the link hardly works, and its traffic would double
WORTH = 0.01  # seconds of round trip below which FEC is off: a faster resend is hardly noticed
GATHER = 1 / 8  # of a round trip for which frames gather until they are covered: short beside the round trip spared
ENOUGH = 16  # frames that wait for no more: at 10 % loss they need 38 % repair symbols, 4 need 75 % and 64 need 22 %
FAILING = 0.01  # accepted chance that a burst needs a resend all the same: the 99th percentile is then free of resends
HOPELESS = 0.5  # chance of a resend beyond which FEC is off
BURST = 4 * SOURCE_SYMBOLS  # frames covered at once at most: 330 kB, some 2 ms of work


def is_wanted(channel: ChannelState) -> bool:
    """Whether FEC (forward error correction) is on, or still owes parity for frames sent before."""
    fec = channel.fec
    return fec.active and (fec.at < math.inf or bool(fec.share or _loss(channel)))


def recovered(channel: ChannelState, member: Member, total: int, now: float) -> bool:
    """Take a member's report of how many frames it decoded, late arrivals deducted; False if it cannot be true."""
    if total > channel.next:
        return False
    meter = channel.fec.meters.get(member.peer)
    count = total - (meter.recovered if meter else 0)
    if count:
        meter = channel.fec.lost(member.peer, count, channel.transmissions)
        meter.recovered = total
        channel.statistics["frames lost and recovered by FEC"] += count
        if total > meter.most_recovered:  # else the report had only fallen for a while, by late arrivals
            member.window.lost(total - meter.most_recovered)
            meter.most_recovered = total
        if channel.kind == "group":
            slow_receivers.detach_if_lossy(channel, member, now)
    return True


def launched(channel: ChannelState, now: float, count: int) -> None:
    """Plan to cover frames that are sent just now for the first time, `count` of them from `channel.next` on."""
    fec = channel.fec
    if fec.at == math.inf or not channel.flights:
        if not channel.attached or not (fec.share or _loss(channel)):
            return
        fec.first = channel.next
        fec.at = now + max(GATHER * max(m.round_trip.smoothed for m in channel.attached), GRANULARITY)
    if channel.next + count - fec.first >= ENOUGH:
        fec.at = min(fec.at, now + GRANULARITY)  # when they are on their way


def _loss(channel: ChannelState) -> float:
    """Return the worst loss among members far enough away, rounded up to few distinct values; 0 for no FEC."""
    worst = 0.0
    for member in channel.attached:
        meter = channel.fec.meters.get(member.peer)
        if meter is not None and member.round_trip.smoothed >= WORTH:
            worst = max(worst, meter.share(channel.transmissions, member.uncounted))
    if not LEAST <= worst <= MOST:
        return 0.0
    return min(math.ceil((worst + math.sqrt(worst * (1 - worst) / SPAN)) * 200) / 200, 1.0)


def cover(channel: ChannelState, now: float) -> list[Outbound]:
    """Return the repair symbols that are due, if there is room and a benefit."""
    fec = channel.fec
    fec.at = math.inf
    flights = channel.flights.since(fec.first)
    count = channel.next - flights[0].first if flights else 0
    if not count or count > BURST or channel.waiting:
        return []
    blocks = -(-count // SOURCE_SYMBOLS)
    size = -(-count // blocks)
    rows = _rows(channel, size, blocks)
    if not rows:
        return []
    from glue.transport.fec.encoder import encoded, symbols_of  # imported here: most links lose nothing

    found = symbols_of(flights)
    if found is None:
        return []
    out = encoded(now, *found, size, rows, channel.number, flights[0].first, channel.destinations)
    channel.statistics["parity frames sent"] += sum(len(item.bodies) for item in out)
    for flight in flights:
        flight.covered_at = now
    for member in channel.attached:
        if member.missing(channel.next) and member.next >= flights[0].first:
            member.waiting_since = now  # only covered frames wait for an acknowledgement
    return out


def _rows(channel: ChannelState, count: int, blocks: int) -> int:
    share = channel.fec.share
    if share:
        return min(math.ceil(share * count), REPAIR_SYMBOLS)
    loss = _loss(channel)
    return symbols_needed(count, loss, FAILING / blocks) if loss else 0


@lru_cache(maxsize=1024)
def symbols_needed(count: int, loss: float, failing: float) -> int:
    """Return the fewest repair symbols for `count` frames with a chance of at most `failing` to need a resend.

    Never more symbols than frames, nor than REPAIR_SYMBOLS; 0 if even these most likely do not suffice.
    """
    most, chance = min(count, REPAIR_SYMBOLS), 1.0
    for rows in range(1, most + 1):
        frames = count + rows
        chance = 1 - sum(math.comb(frames, k) * loss**k * (1 - loss) ** (frames - k) for k in range(rows + 1))
        if chance <= failing:
            return rows
    return most if chance <= HOPELESS else 0
