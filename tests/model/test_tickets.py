"""The tickets of what was asked of a replica."""

from __future__ import annotations

from glue.model.consensus.items import Outcome
from glue.model.consensus.tickets import Tickets


def test_only_the_life_that_was_asked_can_refuse() -> None:
    tickets = Tickets(start=1, timeout=4.0)
    ticket = tickets.open(0.0)
    tickets.asked([ticket], "the life that led")
    tickets.refused([ticket], "a later life", "no leader is known here")
    assert tickets.resolved == []
    tickets.refused([ticket], "the life that led", "no leader is known here")
    assert [resolution.outcome for resolution in tickets.resolved] == [Outcome.REFUSED]


def test_nothing_is_kept_of_a_ticket_that_ended_before_it_could_be_asked() -> None:
    tickets = Tickets(start=1, timeout=4.0)
    ticket = tickets.open(0.0)
    tickets.expire(5.0)
    tickets.asked([ticket], "a life")
    tickets.refused([ticket], "a life", "no leader is known here")
    assert [resolution.outcome for resolution in tickets.resolved] == [Outcome.UNKNOWN]
    assert not tickets._asked
