"""The direct model adds nothing: programs above it see topics as they are."""

from __future__ import annotations

from math import inf

from glue.contract import Event, Layer, Leave, PeerInterest, Publication, Request, Undelivered
from glue.model.direct import Direct


def test_everything_passes_through_unchanged_both_ways() -> None:
    direct: Layer[Event, Event, Request, Request] = Direct()
    events: list[Event] = [Undelivered("peer", 1, "expired"), PeerInterest("peer", ["a"], [])]
    requests: list[Request] = [Publication("a", [b""], 0.0), Leave()]
    assert direct.receive(0.0, events) == (events, [])
    assert direct.send(0.0, requests) == requests


def test_it_holds_nothing_and_needs_no_room_and_no_timer() -> None:
    direct = Direct()
    assert (direct.deadline, direct.backlog, direct.fit(1400)) == (inf, 0, 1400)
    assert direct.statistics.total() == 0
