"""Places of losses: what pairs of endpoints with losses have in common.

A single lossy pair tells little. If all pairs of one endpoint lose and others do not, the endpoint's link is the place.
If its datagrams to all others are lost, the place is its outgoing side. If it misses datagrams from all others, the
place is its incoming side. If all pairs lose, the place is the segment. Pairs with the highest rates are explained
first, then the rest. Two pairs that either of two links explains have no place: the two are all that is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

Pair = tuple[str, str]

LEAST_SENT = 50
"""Least datagrams of a pair for a conclusion from its share of losses."""
LEAST_LOST = 3
"""Least losses of a lossy pair. Fewer are chance."""
SIMILAR = 5.0
"""Largest ratio of loss rates of pairs explained together.

The effect of one cause on several links varies less than this, and the effects of two causes mostly vary more.
"""

EVERYTHING, BOTH, OUTGOING, INCOMING = "everything", "both", "outgoing", "incoming"


class Place(NamedTuple):
    """Place of losses: `kind` is one of the four above, and `endpoint` is "" for everything."""

    kind: str
    endpoint: str
    pairs: frozenset[Pair]


def places(counts: Mapping[Pair, tuple[int, int]], notable: float) -> list[Place]:
    """Return the places that explain the losses of (sender, receiver) with counts (sent, lost), the most lossy first.

    Pairs that lose a smaller share than `notable` are sound. With only two endpoints the list is empty, because the
    pair is all that is known.
    """
    measured = {pair: lost / sent for pair, (sent, lost) in counts.items() if sent >= LEAST_SENT}
    lossy = {pair: rate for pair, rate in measured.items() if rate >= notable and counts[pair][1] >= LEAST_LOST}
    known = frozenset(measured)
    if len({name for pair in known for name in pair}) < 3:
        return []
    found: list[Place] = []
    explained: frozenset[Pair] = frozenset()
    while len(lossy) > 1:
        worst = max(lossy.values())
        high = frozenset(pair for pair, rate in lossy.items() if rate * SIMILAR >= worst)
        here = list(_explanations(high, explained, known))
        found += here
        explained |= high
        lossy = {pair: rate for pair, rate in lossy.items() if pair not in high}
    return found


def _explanations(high: frozenset[Pair], before: frozenset[Pair], known: frozenset[Pair]) -> Iterator[Place]:
    """Yield places that explain the pairs `high`. Pairs of `before` lose even more, and may also have these causes."""
    if high | before == known and len(high) > 2:
        yield Place(EVERYTHING, "", high)
        return
    names = sorted({name for pair in high for name in pair})
    left = high
    for kind in (BOTH, OUTGOING, INCOMING):
        whole = {name: _pairs_of(name, kind, known) for name in names}
        whole = {name: pairs for name, pairs in whole.items() if pairs <= high | before}
        for name, pairs in whole.items():
            new = pairs & left
            if len(new) > 1 and not any(whole[other] & left == new for other in whole if other != name):
                yield Place(kind, name, new)
                left -= new


def _pairs_of(name: str, kind: str, known: frozenset[Pair]) -> frozenset[Pair]:
    """Return the known pairs that a place concerns. An endpoint with pairs of one way only has no `BOTH`."""
    sends = frozenset(pair for pair in known if pair[0] == name)
    receives = frozenset(pair for pair in known if pair[1] == name)
    both = sends | receives if sends and receives else frozenset[Pair]()
    return {BOTH: both, OUTGOING: sends, INCOMING: receives}[kind]
