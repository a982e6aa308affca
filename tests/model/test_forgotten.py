"""A leader follows many observers, and forgets those that fell silent, so that there is room for others."""

from __future__ import annotations

from glue.model.consensus.leader import OBSERVERS
from tests.model.member import SETTINGS, Member

REFUSED = "followers refused, too many"


def heartbeats(member: Member, seconds: float) -> None:
    """Let time pass while the voters answer."""
    for _ in range(round(seconds / SETTINGS.heartbeat)):
        member.wait(SETTINGS.heartbeat)
        member.get(member.acknowledge("b", member.last[0]), member.acknowledge("c", member.last[0]))


def test_observers_that_were_silent_for_ten_election_timeouts_make_room() -> None:
    member = Member("a")
    member.lead_and_commit()
    member.get(*[member.acknowledge(f"x{number}", member.last[0]) for number in range(OBSERVERS + 3)])
    refused = member.replica.statistics[REFUSED]
    assert refused > 0
    heartbeats(member, 5 * SETTINGS.election_timeout)
    member.get(member.acknowledge("late", member.last[0]))
    assert member.replica.statistics[REFUSED] == refused + 1
    heartbeats(member, 6 * SETTINGS.election_timeout)
    member.get(member.acknowledge("late", member.last[0]))
    assert member.replica.statistics[REFUSED] == refused + 1
