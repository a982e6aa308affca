"""The FEC encoder: frames that were sent as source symbols, and repair symbols of them as frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from glue.contract import Outbound, advanced
from glue.transport.fec.code import encode, symbol_of
from glue.transport.flight import Flight
from glue.transport.wire import KEY, MAX_AGE_MS, PARITY

SPREAD = 0.05
"""Seconds by which ages in a block may differ. A recovered frame counts as old as the oldest frame of its block, and a
message with a short lifespan must not be dropped for that."""
SHARE = 1 / 4
"""The same as a share of the oldest age, if that is more: blocks then stay few, however long messages waited."""


def symbols_of(flights: Iterable[Flight]) -> tuple[list[bytes], list[float]] | None:
    """The frames of flights as source symbols, and when each was handed to transport; None if any is too long."""
    symbols, since = [], []
    for flight in flights:
        header = flight.item.header
        for index, body in enumerate(flight.item.bodies):
            symbol = symbol_of(advanced(header, index) if header else header, body)
            if symbol is None:
                return None
            symbols.append(symbol)
            since.append(flight.since)
    return symbols, since


def blocks_of(now: float, since: Sequence[float], size: int) -> Iterator[tuple[int, int]]:
    """Blocks of at most `size` frames of similar age, each as its first place and the place behind its last."""
    start, youngest = 0, 0.0
    for place, at in enumerate(since):
        if place == start or place - start == size or at > youngest:
            if place > start:
                yield start, place
            start, youngest = place, at + max(SPREAD, SHARE * (now - at))
    yield start, len(since)


def encoded(
    now: float,
    symbols: Sequence[bytes],
    since: Sequence[float],
    size: int,
    rows: int,
    channel: int,
    first: int,
    destinations: Sequence[tuple[str, ...]],
) -> list[Outbound]:
    """Repair symbols, up to `rows` for each block of up to `size` frames from `first` on, to each destination.

    `since`: when each frame was handed to transport, in order.
    """
    out = []
    for start, stop in blocks_of(now, since, size):
        age_ms = min(int((now - since[start]) * 1000), MAX_AGE_MS)
        entry = PARITY.pack(age_ms=age_ms, channel=channel, first=first + start, count=stop - start)
        bodies = encode(symbols[start:stop], min(rows, stop - start))
        out += [Outbound(peers, bodies, {KEY: entry}) for peers in destinations]
    return out
