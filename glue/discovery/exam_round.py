"""Pings between peers: which are sent when, and what came of those of each peer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from glue.discovery.exam_wire import MULTICAST, Ping, Pong, Round, is_large, large_count

PROOF = 0.1  # seconds before the first ping, in which peers return a token: others get no pings by unicast
PING_SPACING = 0.035  # seconds from one ping of a round to the next: 20 take 0.7 s
PINGED = 640
"""Pairs that are measured at most: an endpoint with n peers pings 640 / n of them, at least 4, by unicast. With all
pairs of 25 endpoints that makes 20 x 25 x 25 / 0.7 s = 18,000 datagrams a second of 150 bytes, 21 Mb/s."""
LEAST_PINGED = 4
PEERS = 1024  # whose pings are counted


class RoundSender:
    """The pings of one round that this endpoint still has to send."""

    def __init__(self, now: float, order: Round, peers: Sequence[str]) -> None:
        """`peers` in random order."""
        self.order = order
        self.due = now + PROOF
        self.chosen = peers[: max(LEAST_PINGED, PINGED // max(len(peers), 1))]
        self.peers: Sequence[str] = ()  # those of them that are pinged by unicast, from the first ping on
        self._place = 0

    def next(self, now: float) -> int:
        """The place of the ping to send now."""
        self.due = now + PING_SPACING
        self._place += 1
        return self._place - 1

    @property
    def has_begun(self) -> bool:
        """Whether a ping was sent."""
        return self._place > 0

    @property
    def is_over(self) -> bool:
        """Whether all have been sent."""
        return self._place >= self.order.pings


class Heard:
    """The result of the pings of one peer in one round. Bit n of a number stands for the ping at place n."""

    __slots__ = ("multicast", "number", "pings", "unicast")

    def __init__(self, number: int, pings: int) -> None:
        self.number = number
        self.pings = pings
        self.multicast = self.unicast = 0

    def facts(self) -> dict[str, Any]:
        """For each way and size, how many pings came, of how many."""
        large, found = large_count(self.pings), {}
        for way, bits in ("multicast", self.multicast), ("unicast", self.unicast):
            places = [place for place in range(self.pings) if bits >> place & 1]
            got = sum(map(is_large, places))
            found[way] = [len(places) - got, self.pings - large]
            found[f"large_{way}"] = [got, large]
        return {"heard": self.number, **found}


class Links:
    """The latest round: what this endpoint sent, and what came from each peer."""

    def __init__(self) -> None:
        self.sent_number = self.pings = self.count = 0
        self._pinged: frozenset[str] = frozenset()
        self._sent_at: list[float] = []
        self._heard: dict[str, Heard] = {}
        self._round_trips: dict[str, tuple[int, float, float]] = {}  # pongs, the shortest, and their sum

    def begin(self, order: Round, peers: Sequence[str]) -> None:
        """Forget the previous round of this endpoint."""
        self.sent_number, self.pings = order.number, order.pings
        self.count = 0
        self._pinged = frozenset(peers)
        self._sent_at = [math.nan] * order.pings
        self._round_trips.clear()

    def sent(self, now: float, place: int) -> None:
        """Record when a ping left."""
        self._sent_at[place] = now
        self.count = place + 1

    def receive(self, now: float, peer: str, ping: Ping) -> None:
        """Count a ping of a peer."""
        heard = self._heard.get(peer)
        if heard is None or heard.number != ping.number:
            if heard is None and len(self._heard) >= PEERS:
                del self._heard[next(iter(self._heard))]
            heard = self._heard[peer] = Heard(ping.number, ping.of)
        if ping.place < heard.pings:
            if ping.by == MULTICAST:
                heard.multicast |= 1 << ping.place
            else:
                heard.unicast |= 1 << ping.place

    def receive_pong(self, now: float, peer: str, pong: Pong) -> bool:
        """Measure a round trip; False if this endpoint sent no such ping."""
        if pong.number != self.sent_number or pong.place >= self.pings or peer not in self._pinged:
            return False
        trip = now - self._sent_at[pong.place]
        if math.isnan(trip):
            return False
        pongs, shortest, total = self._round_trips.get(peer, (0, math.inf, 0.0))
        self._round_trips[peer] = (min(pongs + 1, self.pings), min(shortest, trip), total + trip)
        return True

    def of(self, peer: str) -> dict[str, Any]:
        """The quality of the way from and to a peer: pings that came, of how many, and the round trip in seconds."""
        found: dict[str, Any] = {"pinged": peer in self._pinged}
        if (heard := self._heard.get(peer)) is not None:
            found |= heard.facts()
        if peer in self._round_trips:
            pongs, shortest, total = self._round_trips[peer]
            found |= {"pongs": pongs, "round_trip": round(shortest, 6), "mean_round_trip": round(total / pongs, 6)}
        return found
