"""What stores a keeper's messages in virtual time: when it syncs, and what a pause and the end of a life change."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from glue.simulation.hosts import Hosts
from glue.simulation.keeping import PAUSED, STEP, SimulatedWriter
from tests.simulation.machines import Listener

DUE = 0.005


class Log:
    """Something that keeps: a sync is due `DUE` seconds after what is stored, and once more at `rest`."""

    def __init__(self) -> None:
        self.deadline = inf
        self.did: list[tuple[str, Any]] = []
        self.committed: list[tuple[float, float]] = []
        self.rest = inf

    def store(self, now: float, deliveries: list[Any]) -> None:
        self.did.append(("store", deliveries))
        self.deadline = min(self.deadline, now + DUE)

    def store_records(self, now: float, records: list[Any]) -> None:
        self.did.append(("records", records))
        self.deadline = min(self.deadline, now + DUE)

    def commit(self, now: float, unix_time: float) -> None:
        self.committed.append((now, unix_time))
        self.deadline = self.rest if now < self.rest else inf

    def close(self, now: float) -> None:
        self.did.append(("close", now))


class Desk:
    """A writer on a host whose clock is ten seconds ahead."""

    def __init__(self) -> None:
        self.world = Hosts(1)
        self.world.run(1.0)
        self.host = self.world.add(Listener(), offset=10.0)
        self.log = Log()
        self.is_alive = True
        self.handled: list[Any] = []
        log: Any = self.log
        self.writer: Any = SimulatedWriter(log, self.handled.append, self.host, self.world, lambda: self.is_alive)

    @property
    def synced(self) -> list[Any]:
        """When it synced, in true time."""
        return [pytest.approx(now - 10.0) for now, _ in self.log.committed]


def test_what_arrives_is_stored_at_once_and_synced_together_when_due() -> None:
    desk = Desk()
    desk.writer.submit("first")
    assert (desk.log.did, desk.handled, desk.log.committed) == ([("store", ["first"])], ["first"], [])
    desk.world.run(0.004)
    desk.writer.store(["record"])
    assert (desk.log.did[1:], desk.handled) == ([("records", ["record"])], ["first"])
    desk.world.run(DUE - 0.004)
    assert desk.log.committed == []
    desk.world.run(1.0)
    assert desk.synced == [1.0 + DUE + STEP]
    assert desk.log.committed[0][1] == pytest.approx(desk.host.unix_time - (desk.world.time - 1.0 - DUE - STEP))
    desk.writer.store(["later"])
    desk.world.run(1.0)
    assert len(desk.synced) == 2


def test_a_sync_that_is_awaited_does_not_wait_for_the_one_that_is_planned() -> None:
    desk = Desk()
    desk.writer.submit("first")
    desk.log.deadline = -inf
    desk.writer.store([])
    desk.world.run(STEP)
    assert desk.synced == [1.0 + STEP]


def test_a_paused_host_syncs_once_it_goes_on() -> None:
    desk, other = Desk(), Desk()
    called: list[float] = []
    desk.writer.submit("first")
    other.writer.call(lambda: called.append(other.world.time))
    for one in (desk, other):
        one.host.pause()
        one.world.run(0.2)
    assert (desk.log.committed, called) == ([], [])
    for one in (desk, other):
        one.host.resume()
        one.world.run(PAUSED)
    assert (len(desk.log.committed), len(called)) == (1, 1)
    for one in (desk, other):
        one.world.run(1.0)
    assert (len(desk.log.committed), len(called)) == (1, 1)


def test_what_is_called_is_called_soon_and_may_make_a_sync_due() -> None:
    desk = Desk()

    def store() -> None:
        desk.log.store(desk.host.now, ["called"])

    desk.writer.call(store)
    assert desk.log.did == []
    desk.world.run(STEP)
    assert desk.log.did == [("store", ["called"])]
    desk.world.run(DUE + 2 * STEP)
    assert len(desk.log.committed) == 1


def test_it_commits_once_for_what_is_planned_several_times() -> None:
    desk = Desk()
    desk.writer.submit("first")
    desk.host.pause()
    desk.world.run(0.02)
    desk.host.resume()
    desk.writer.store(["second"])
    desk.world.run(1.0)
    assert desk.synced == [1.02 + STEP], "not again when the pause was to be looked at"
    again = Desk()
    again.log.rest = 71.0
    for _ in range(5):
        again.writer.store([])
        again.world.run(1.0)
    again.world.run(60.0)
    assert len(again.synced) == 5 + 1, "each sync plans the next cleaning, which happens once"


@pytest.mark.parametrize("how", ["closed", "dead"])
def test_after_its_end_nothing_is_synced_or_called(how: str) -> None:
    desk = Desk()
    called: list[int] = []
    desk.writer.submit("first")
    desk.writer.call(lambda: called.append(1))
    if how == "closed":
        desk.writer.close(3.0)
        assert desk.log.did[-1] == ("close", 11.0)
    desk.is_alive = how != "dead"
    desk.world.run(1.0)
    assert (desk.log.committed, called) == ([], [])
