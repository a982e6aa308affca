"""Who said goodbye, and proved it, does not come back by what it sent before; who proved nothing may return."""

from __future__ import annotations

import math

from glue.contract import Leave
from tests.discovery.lan import pair
from tests.discovery.stranger import STRANGER, forged, strike
from tests.discovery.test_links import linked


def test_an_old_announcement_does_not_bring_back_one_that_left() -> None:
    lan, one, other = pair()
    lan.run(1.5)
    late = forged(other, "announce", other.address)
    lan.leave(other)
    lan.run(0.5)
    assert one.events == [("added", other.id), ("removed", other.id, "goodbye")] or one.known == set()
    before = len(one.events)
    for _ in range(5):
        strike(lan, one, late)
        lan.run(1.0)
    assert one.known == set()
    assert len(one.events) == before


def test_one_whose_goodbye_was_forged_before_it_proved_anything_is_found_again() -> None:
    lan, one, other = pair()
    strike(lan, one, forged(other, "announce", STRANGER), forged(other, "goodbye", STRANGER))
    lan.run(5.0)
    assert one.known == {other.id}


def test_one_whose_goodbye_was_forged_is_lost_later_as_any_other() -> None:
    lan, one, other = pair()
    strike(lan, one, forged(other, "goodbye", other.address))
    lan.run(1.0)
    lan.crash(other)
    lan.run(10.0)
    assert one.events == [("added", other.id), ("removed", other.id, "expired")]


def test_who_left_asks_nothing_more_on_the_paths_of_its_peers() -> None:
    endpoint = linked().with_both()
    endpoint.order(Leave())
    assert endpoint.layer.deadline == math.inf
    for _ in range(500):
        endpoint.advance(0.01)
        assert endpoint.sent == []
