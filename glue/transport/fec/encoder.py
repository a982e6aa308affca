"""The FEC encoder: frames that were sent as source symbols, and repair symbols of them as frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glue.contract import Outbound, advanced
from glue.transport.fec.code import encode, symbol_of
from glue.transport.flight import Flight
from glue.transport.wire import KEY, MAX_AGE_MS, PARITY


def symbols_of(flights: Iterable[Flight]) -> list[bytes] | None:
    """The frames of flights as source symbols; None if any is too long."""
    symbols = []
    for flight in flights:
        header = flight.item.header
        for index, body in enumerate(flight.item.bodies):
            symbol = symbol_of(advanced(header, index) if header else header, body)
            if symbol is None:
                return None
            symbols.append(symbol)
    return symbols


def encoded(
    symbols: Sequence[bytes],
    size: int,
    rows: int,
    age: float,
    channel: int,
    first: int,
    destinations: Sequence[tuple[str, ...]],
) -> list[Outbound]:
    """Repair symbols, `rows` for each block of `size` frames from `first` on, as frames to each destination.

    `age`: seconds since the first message was handed to transport.
    """
    age_ms = min(int(age * 1000), MAX_AGE_MS)
    out = []
    for start in range(0, len(symbols), size):
        block = symbols[start : start + size]
        entry = PARITY.pack(age_ms=age_ms, channel=channel, first=first + start, count=len(block))
        bodies = encode(block, rows)
        out += [Outbound(peers, bodies, {KEY: entry}) for peers in destinations]
    return out
