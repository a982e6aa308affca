"""Where losses happen: which pairs of endpoints have in common what explains theirs.

A pair that loses says little by itself. If all pairs of one endpoint lose and the others do not, it is that endpoint's
link; if all that one sends gets lost on the way to everybody, its outgoing side; if one loses what everybody sends, its
incoming side; if everybody loses of everybody, the segment. The pairs with the highest rates are explained first, then
what is left of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

Pair = tuple[str, str]

LEAST_SENT = 50
"""Datagrams between two before anything is concluded from the share that got lost."""
LEAST_LOST = 3
"""Losses before a pair counts as one that loses: fewer are chance."""
SIMILAR = 5.0
"""Pairs are explained together with those that lose up to so many times as much: what one cause takes of several links
varies less, and what two causes take mostly varies more."""

EVERYTHING, BOTH, OUTGOING, INCOMING = "everything", "both", "outgoing", "incoming"


class Place(NamedTuple):
    """Where losses happen: `kind` is one of the four above; `endpoint` is empty for everything."""

    kind: str
    endpoint: str
    pairs: frozenset[Pair]


def places(counts: Mapping[Pair, tuple[int, int]], notable: float) -> list[Place]:
    """What explains the losses of (sender, receiver) with counts (sent, lost), the most lossy first.

    Pairs that lose less than `notable` of what was sent are sound. Of two endpoints nothing is said: there the pair is
    all that is known.
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
    """What explains the pairs `high`; `before` are those that lose even more, and may have this cause besides."""
    if high | before == known and len(high) > 2:
        yield Place(EVERYTHING, "", high)
        return
    names = sorted({name for pair in high for name in pair})
    left = high
    for kind in (BOTH, OUTGOING, INCOMING):
        for name in names:
            pairs = frozenset(pair for pair in known if _is_of(pair, name, kind))
            ways = {pair[0] == name for pair in pairs}
            if len(pairs) > 1 and len(ways) == (2 if kind == BOTH else 1) and pairs <= high | before:
                new = pairs & left
                if len(new) > 1:
                    yield Place(kind, name, new)
                    left -= new


def _is_of(pair: Pair, name: str, kind: str) -> bool:
    sends, receives = pair[0] == name, pair[1] == name
    return {BOTH: sends or receives, OUTGOING: sends, INCOMING: receives}[kind]
