"""Which frames of a channel FEC covers, and with how much: by the loss that its receivers have, or a fixed share.

FEC spares a receiver that lost a frame the wait for a round trip. So it goes where a round trip is worth something, and
where there is room: nothing else waits to be sent, and the windows are not full. A stream that fills the link gets
none, as repair symbols would only take room from data, and resends delay it little.

A message in many fragments is covered at once, in blocks of up to `FRAMES`. Small messages are gathered for an eighth
of a round trip and covered in common; a lone one is covered by a copy. There are as many repair symbols as make it
unlikely that more frames of a block are lost than there are symbols; what then is missing is sent again, once the
answer to the repair symbols is overdue. Receivers tell what they decoded, since that is lost, too.
"""

from __future__ import annotations

import math
from functools import lru_cache

from glue.contract import Outbound
from glue.transport import slow_receivers
from glue.transport.channel_state import ChannelState
from glue.transport.fec.code import FRAMES, ROWS
from glue.transport.fec.encoder import encoded, symbols_of
from glue.transport.fec.state import SPAN
from glue.transport.member import Member
from glue.transport.round_trip import GRANULARITY

LEAST = 0.005  # share of loss below which there is no parity: a message of 64 kB comes whole in three of four cases
MOST = 1 / 3  # share of loss above which there is none, either: it would double the traffic of a link that hardly works
WORTH = 0.01  # seconds of round trip from which on parity is sent unasked: a resend that costs less is hardly noticed
GATHER = 1 / 8  # of a round trip in which frames gather until they are covered: small beside what is spared
ENOUGH = 16  # frames that need not wait for others: for 10 % loss they take 38 % parity, 4 take 75 % and 64 take 22 %
FAILING = 0.01  # chance that parity does not suffice, for all groups of a burst together: so the p99 is without resends
HOPELESS = 0.5  # chance of that beyond which there is none at all
BURST = 4 * FRAMES  # frames covered at once at most: 330 kB, some 2 ms of work


def is_wanted(channel: ChannelState) -> bool:
    """Whether any frame that is sent now is to be covered, or one sent before is and was not yet."""
    fec = channel.fec
    return fec.active and (fec.at < math.inf or bool(fec.share or _loss(channel)))


def mended(channel: ChannelState, member: Member, total: int, now: float) -> bool:
    """Take the number of frames that a member had mended, less those that came late; False if it cannot be true."""
    if total > channel.next:
        return False
    meter = channel.fec.meters.get(member.peer)
    count = total - (meter.mended if meter else 0)
    if count:
        meter = channel.fec.lost(member.peer, count, channel.transmissions)
        meter.mended = total
        channel.statistics["frames lost and mended by parity"] += count
        if total > meter.most_mended:  # else it only fell for a while, by frames that parity had merely outrun
            member.window.lost(total - meter.most_mended)
            meter.most_mended = total
        if channel.kind == "group":
            slow_receivers.detach_if_lossy(channel, member, now)
    return True


def launched(channel: ChannelState, now: float, count: int) -> None:
    """Note that so many frames, from `channel.next` on, are sent just now, for the first time."""
    fec = channel.fec
    if fec.at == math.inf or not channel.flights:
        if not channel.attached or not (fec.share or _loss(channel)):
            return
        fec.first = channel.next
        fec.at = now + max(GATHER * max(m.round_trip.smoothed for m in channel.attached), GRANULARITY)
    if channel.next + count - fec.first >= ENOUGH:
        fec.at = min(fec.at, now + GRANULARITY)  # when they are on their way


def _loss(channel: ChannelState) -> float:
    """The worst loss among members far enough away, rounded up, so that few differ; 0 if not worth any FEC."""
    worst = 0.0
    for member in channel.attached:
        meter = channel.fec.meters.get(member.peer)
        if meter is not None and member.round_trip.smoothed >= WORTH:
            worst = max(worst, meter.share(channel.transmissions, member.uncounted))
    if not LEAST <= worst <= MOST:
        return 0.0
    return min(math.ceil((worst + math.sqrt(worst * (1 - worst) / SPAN)) * 200) / 200, 1.0)


def cover(channel: ChannelState, now: float) -> list[Outbound]:
    """The repair symbols that are due for what was sent, if they are worth it and there is room."""
    fec = channel.fec
    fec.at = math.inf
    flights = channel.flights.since(fec.first)
    count = channel.next - flights[0].first if flights else 0
    if not count or count > BURST or channel.waiting:
        return []
    blocks = -(-count // FRAMES)
    size = -(-count // blocks)
    rows = _rows(channel, size, blocks)
    symbols = symbols_of(flights) if rows else None
    if symbols is None:
        return []
    out = encoded(symbols, size, rows, now - flights[0].since, channel.number, flights[0].first, channel.destinations)
    channel.statistics["parity frames sent"] += sum(len(item.bodies) for item in out)
    for flight in flights:
        flight.covered_at = now
    for member in channel.attached:
        if member.missing(channel.next) and member.next >= flights[0].first:
            member.waiting_since = now  # nothing but what is covered is to be answered
    return out


def _rows(channel: ChannelState, count: int, blocks: int) -> int:
    share = channel.fec.share
    if share:
        return min(math.ceil(share * count), ROWS)
    loss = _loss(channel)
    return rows_for(count, loss, FAILING / blocks) if loss else 0


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
