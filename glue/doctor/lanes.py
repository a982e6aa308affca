"""Ways between endpoints, summed by the machines that they run on: what is wrong there concerns all of them alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from glue.doctor.seen import EndpointSeen, Seen, Way

Came = tuple[int, int]
"""How many came, of how many."""

ENOUGH = 4  # pings that have to be sent before their absence says something


class Lane(NamedTuple):
    """One direction between two machines, which are addresses."""

    source: str
    target: str
    multicast: Came
    unicast: Came
    large_multicast: Came
    large_unicast: Came
    round_trip: float | None
    silent: float | None
    """Seconds for which multicast has not come although it once did; None: it comes, or never came."""
    known: bool

    @property
    def is_multicast_dead(self) -> bool:
        """Whether none of enough pings came by multicast."""
        return self.multicast[0] == 0 and self.multicast[1] >= ENOUGH

    @property
    def is_unicast_dead(self) -> bool:
        """Whether none of enough pings came by unicast."""
        return self.unicast[0] == 0 and self.unicast[1] >= ENOUGH

    @property
    def lost(self) -> Came:
        """Small pings that were lost, of how many, on the kinds of way that work."""
        ways = [way for way in (self.multicast, self.unicast) if way[0]]
        return sum(of - came for came, of in ways), sum(of for _, of in ways)


def lanes(seen: Seen) -> list[Lane]:
    """Sum the ways by machines; those within this or another machine are left out."""
    found: dict[tuple[str, str], list[Way]] = {}
    addresses = {one.id: place(one) for one in seen.endpoints}
    for way in seen.ways:
        source, target = addresses.get(way.source), addresses.get(way.target)
        if source is not None and target is not None and source != target:
            found.setdefault((source, target), []).append(way)
    intervals = {one.id: one.announce_interval for one in seen.endpoints}
    return [_lane(source, target, ways, intervals) for (source, target), ways in sorted(found.items())]


def place(endpoint: EndpointSeen) -> str:
    """The machine of an endpoint: all endpoints here are on one."""
    return "" if endpoint.here else endpoint.address or endpoint.id


def _lane(source: str, target: str, ways: list[Way], intervals: dict[str, float]) -> Lane:
    trips = [way.round_trip for way in ways if way.round_trip is not None]
    silent = [
        way.announced
        for way in ways
        if way.announced is not None and way.announced > max(3.0, 3 * intervals.get(way.source, 1.0))
    ]
    return Lane(
        source,
        target,
        _sum(way.multicast for way in ways),
        _sum(way.unicast or (0, 0) for way in ways),
        _sum(way.large_multicast for way in ways),
        _sum(way.large_unicast or (0, 0) for way in ways),
        min(trips, default=None),
        min(silent, default=None),
        all(way.known for way in ways),
    )


def _sum(counts: Iterable[Came]) -> Came:
    came, of = 0, 0
    for one in counts:
        came, of = came + one[0], of + one[1]
    return came, of


def ways_of(number: int, pings: int, links: dict[str, Any], doctor: str = "") -> list[Way]:
    """Make ways of what endpoints told: `links` has the section "links" by id. The round must be `number`.

    `doctor` is the id of the endpoint that was told all this: unicast came there from whoever told something. A peer
    may tell anything: what is not as it should be is left out.
    """
    sent = {id: _sent(number, pings, one) for id, one in links.items()}
    found = []
    for target, section in links.items():
        heard = {id: one for one in _peers(section) if isinstance(id := one.get("id"), str)}
        for source, count in sent.items():
            if source != target and count:
                told = _peer(links[source], target)
                if target != doctor and told is not None and told.get("verified") is False:
                    told = {**told, "pinged": True}  # a token never came back from there: pings would not, either
                found.append(_way(number, count, source, target, heard.get(source), told))
    return found


def _way(
    number: int, count: int, source: str, target: str, heard: dict[str, Any] | None, told: dict[str, Any] | None
) -> Way:
    large = count // 5
    came = heard if heard is not None and heard.get("heard") == number else {}
    pinged = bool(told and told.get("pinged"))
    trip, announced = (told or {}).get("round_trip"), (heard or {}).get("announced")
    return Way(
        source=source,
        target=target,
        multicast=(_came(came, "multicast"), count - large),
        large_multicast=(_came(came, "large_multicast"), large),
        unicast=(_came(came, "unicast"), count - large) if pinged else None,
        large_unicast=(_came(came, "large_unicast"), large) if pinged else None,
        round_trip=float(trip) if isinstance(trip, int | float) else None,
        announced=float(announced) if isinstance(announced, int | float) else None,
        known=heard is not None,
    )


def _peers(section: Any) -> list[dict[str, Any]]:
    peers = section.get("peers") if isinstance(section, dict) else None
    return [one for one in peers if isinstance(one, dict)] if isinstance(peers, list) else []


def _peer(section: Any, id: str) -> dict[str, Any] | None:
    return next((one for one in _peers(section) if one.get("id") == id), None)


def _sent(number: int, pings: int, section: Any) -> int:
    """How many pings of this round an endpoint has sent."""
    if not isinstance(section, dict) or section.get("round") != number:
        return 0
    sent = section.get("sent")
    return min(sent, pings) if isinstance(sent, int) and sent > 0 else 0


def _came(came: dict[str, Any], way: str) -> int:
    pair = came.get(way)
    return pair[0] if isinstance(pair, list) and pair and isinstance(pair[0], int) and pair[0] >= 0 else 0
