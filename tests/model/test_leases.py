"""A lease across a change of leader: never shorter than its owner thinks, and over at last."""

from __future__ import annotations

import pytest

from glue.model.clock import STAMP_INTERVAL, LeaderClock
from glue.model.state import AcquireLock, State, encode_entry
from tests.model.state.client import Client

LEASE_MS = 10_000


class Reign:
    """A leader that stamps entries of a state by a monotonic clock of its own."""

    def __init__(self, state: State, started_at: float) -> None:
        self.state = state
        self.clock = LeaderClock()
        self.now = started_at
        self.clock.role(self.now, False, state.time_ms)
        self.clock.role(self.now, True, state.time_ms)

    def pass_time(self, seconds: float) -> list[str]:
        """Let time pass; an entry is stamped twice a second, and whenever that is due."""
        released, until = [], self.now + seconds
        while self.now < until:
            due = max(self.clock.due(self.state), self.now)
            self.now = min(due, self.now + 0.5, until)
            entry = encode_entry(self.clock.stamp(self.now), [])
            released += self.state.apply(self.state.index + 1, entry).released
        return released


def taken(client: Client) -> None:
    assert client.run(AcquireLock("door", "ann", LEASE_MS)).results[0].code == "ok"


@pytest.mark.parametrize("second", [5.0, 100.0, 1e6])
def test_the_next_leader_counts_on_where_the_log_stands_whatever_its_own_clock_shows(second: float) -> None:
    client = Client()
    first = Reign(client.state, 100.0)
    taken(client)
    assert first.pass_time(6.0) == []
    later = Reign(client.state, second)
    assert later.pass_time(LEASE_MS / 1000 - 6.0 - 0.1) == []
    assert later.pass_time(1.0 + 2 * STAMP_INTERVAL) == ["door"]


def test_a_leader_that_lost_its_office_and_has_it_again_does_not_count_the_time_between() -> None:
    client = Client()
    first = Reign(client.state, 100.0)
    taken(client)
    first.pass_time(5.0)
    first.clock.role(first.now, False, client.state.time_ms)
    first.now += 1000.0
    first.clock.role(first.now, True, client.state.time_ms)
    assert first.pass_time(4.0) == []
    assert first.pass_time(3.0 + STAMP_INTERVAL) == ["door"]


def test_being_told_again_that_it_leads_changes_nothing() -> None:
    client = Client()
    first = Reign(client.state, 100.0)
    taken(client)
    for _ in range(9):
        assert first.pass_time(1.0) == []
        first.clock.role(first.now, True, client.state.time_ms)
    assert first.pass_time(1.0 + STAMP_INTERVAL + 0.1) == ["door"]


def test_a_lock_that_is_taken_under_one_leader_and_first_stamped_under_the_next_has_its_whole_lease() -> None:
    client = Client()
    Reign(client.state, 100.0)
    taken(client)  # that leader falls before it stamps anything
    later = Reign(client.state, 7.0)
    assert later.pass_time(LEASE_MS / 1000 - 0.1) == []
    assert later.pass_time(2 * STAMP_INTERVAL) == ["door"]


def test_the_time_of_a_state_is_that_of_its_snapshot_too() -> None:
    client = Client()
    first = Reign(client.state, 100.0)
    taken(client)
    first.pass_time(6.0)
    copy = State.restore(client.state.snapshot())
    later = Reign(copy, 3.0)
    assert later.pass_time(3.9) == []
    assert later.pass_time(3.0) == ["door"]


def test_a_stamp_is_due_when_the_first_of_several_leases_ends_and_while_one_waits_to_begin() -> None:
    """At rest nothing else brings a stamp, so without these nobody would ever get the lock."""
    client = Client()
    client.state.apply(client.state.index + 1, encode_entry(1_000_000, []))  # of the leader before
    clock = LeaderClock()
    clock.role(500.0, True, client.state.time_ms)
    names = {"late": 30_000, "soon": 5_000, "between": 20_000}
    for name, lease_ms in names.items():
        client.run(AcquireLock(name, "ann", lease_ms))
    begun = clock.due(client.state)
    assert begun <= 500.0 + STAMP_INTERVAL
    now = max(begun, 500.0)
    ends: list[tuple[str, float]] = []
    while len(ends) < 3 and now < 600.0:
        released = client.state.apply(client.state.index + 1, encode_entry(clock.stamp(now), [])).released
        ends += [(name, now - 500.0) for name in released]
        now = clock.due(client.state)
    assert [name for name, _ in ends] == ["soon", "between", "late"]
    for name, at in ends:
        assert names[name] / 1000 <= at <= names[name] / 1000 + STAMP_INTERVAL


def test_a_renewal_keeps_the_token_and_begins_the_lease_anew() -> None:
    client = Client()
    reign = Reign(client.state, 100.0)
    taken(client)
    token = client.state.locks.holder("door")
    assert token is not None
    reign.pass_time(8.0)
    taken(client)
    renewed = client.state.locks.holder("door")
    assert renewed is not None
    assert renewed.token == token.token
    assert reign.pass_time(9.5) == []
    assert reign.pass_time(2.0) == ["door"]


def test_a_lease_ends_on_time_while_others_are_renewed_again_and_again() -> None:
    """A renewal waits for a stamp to begin, and must not put off the end of another lease."""
    client = Client()
    clock = LeaderClock()
    clock.role(0.0, True, client.state.time_ms)
    client.run(AcquireLock("door", "ann", 2_500))
    began, now, released = None, 0.0, list[str]()
    while not released and now < 10.0:
        client.run(AcquireLock("other", "bob", LEASE_MS))
        if clock.due(client.state) <= now:
            began = now if began is None else began
            entry = encode_entry(clock.stamp(now), [])
            released = client.state.apply(client.state.index + 1, entry).released
        now += 0.05
    assert began is not None
    assert released == ["door"]
    assert now - began <= 2.5 + 3 * 0.05
