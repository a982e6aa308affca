"""A keeper fetches what it misses no faster than its disk stores, and says only then that it has it."""

from __future__ import annotations

from collections import Counter
from itertools import count
from math import inf
from random import Random
from typing import Any

import pytest

from glue.history import eras, healing
from glue.history.healing import AGAIN, INTERVAL, TURN, Healer
from glue.history.kept import KeptHistory
from glue.history.wire import Page, Request
from glue.storage import MemoryLog, Record
from glue.topics.bundle import MessageGroup

ONE, TWO, PUBLISHER = "1" * 16, "2" * 16, "a" * 16
TOPIC, LIFE = "t/a", 7


class Disk:
    """A keeper's log whose disk is synced on demand, with a healer; `stored` are the records that it was given."""

    def __init__(self) -> None:
        self.log = MemoryLog("0" * 16, syncs=False)
        self.has_room = True
        luck = Random(1)
        self.healer = Healer(self.log, lambda topic: True, lambda: self.has_room, count(1).__next__, luck, Counter())
        self.healer.patterns["t/#"] = lambda topic: topic.startswith("t/")
        self.stored: list[Record] = []

    def meet(self, now: float, *peers: str, is_keeper: bool = True) -> None:
        for peer in peers:
            self.healer.met(now, peer, 1, "name", "t/#", is_keeper)

    def asked(self, now: float) -> Request | None:
        found = self.healer.advance(now, now)
        return None if found is None else found[1]

    def answer(self, now: float, peer: str, request: Request, last: int, until: int) -> None:
        """Answer as a peer that has the numbers to `last` of one stream, and gives those before `until`."""
        page = Page(request.id, 1, 1, True, answered=len(request.ranges))
        origin = PUBLISHER if request.kept else ""
        if request.digest:
            page.digests = (f"{last:016x}", "", "")
        elif request.heads:
            page.heads = [(TOPIC, last, origin, LIFE if origin else 0, 1)]
        else:
            first = request.ranges[0][1]
            page.groups = [MessageGroup(TOPIC, first, 0, [b"x"] * (until - first), 1)]
            page.origins = [(origin, "name", LIFE, 1)] if origin else []
            page.answered = 0 if until <= last else 1
        records = self.healer.page(now, peer, 1, page)
        assert records is not None
        self.stored += records

    def run(self, now: float, peer: str, last: int) -> float:
        """Answer all that is asked now, with all that is asked for; returns the time."""
        while (request := self.asked(now)) is not None:
            now += 0.001
            self.answer(now, peer, request, last, last + 1)
        return now


def test_a_keeper_claims_to_have_what_another_has_only_once_it_is_durable() -> None:
    disk = Disk()
    disk.meet(0.0, ONE)
    now = disk.run(0.1, ONE, 5)
    assert len(disk.stored) == 1
    assert disk.healer.compared(now, "t/#") == (set(), {ONE})  # nothing is stored yet
    disk.log.append(disk.stored)
    now = disk.run(now + 0.1, ONE, 5)
    assert disk.healer.compared(now, "t/#") == (set(), {ONE})  # and now the power may still fail
    disk.log.sync()
    now = disk.run(now + 0.1, ONE, 5)
    assert disk.healer.compared(now, "t/#") == ({ONE}, set())


def test_what_waits_for_the_disk_is_not_fetched_from_another_keeper_too() -> None:
    disk = Disk()
    disk.meet(0.0, ONE, TWO)
    now, first = 0.1, None
    for _ in range(2):  # digests, last numbers
        found = disk.healer.advance(now, now)
        assert found is not None
        first = found[0]
        disk.answer(now, first, found[1], 9, 10)
    request = disk.asked(now)
    assert request is not None
    now += TURN + 1.0  # a slow network; then it is the other keeper's turn
    disk.answer(now, first or "", request, 9, 5)
    assert disk.asked(now) is None
    disk.log.append(disk.stored)
    disk.log.sync()
    found = disk.healer.advance(now + 0.1, now)
    assert found is not None
    assert found[0] != first
    assert found[1].digest


def test_a_keeper_whose_disk_was_full_fetches_once_there_is_room() -> None:
    disk = Disk()
    disk.has_room = False
    disk.meet(0.0, ONE)
    now = 0.1
    for _ in range(3):
        now = disk.run(now + 2 * INTERVAL, ONE, 5)
    assert not disk.stored
    disk.has_room = True
    disk.run(now + 2 * INTERVAL, ONE, 5)
    assert sum(len(record.payloads) for record in disk.stored) == 5


def test_a_publisher_that_remembers_is_asked_once_there_is_room() -> None:
    disk = Disk()
    disk.has_room = False
    disk.meet(0.0, PUBLISHER, is_keeper=False)
    now = disk.run(0.1, PUBLISHER, 5)
    assert not disk.stored
    disk.has_room = True
    for _ in range(4):
        now = disk.run(now + max(AGAIN, INTERVAL), PUBLISHER, 5)
    assert sum(len(record.payloads) for record in disk.stored) == 5


def test_a_comparison_of_many_streams_takes_short_turns_and_comes_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eras, "STREAMS", 4)
    monkeypatch.setattr(healing, "MANY", 5)
    disk, other = Disk(), Disk()
    for one, topics in ((disk, range(10)), (other, reversed(range(10)))):
        one.log.append([Record(PUBLISHER, "name", LIFE, f"t/{topic}", 1, [b"x"], 1e9) for topic in topics])
        one.log.sync()
    disk.meet(0.0, ONE)
    assert [disk.asked(0.1) for _ in range(2)] == [None, None]
    assert disk.healer.deadline == -inf, "it goes on in the next turn"
    request = disk.asked(0.1)
    assert request is not None
    sums = eras.EraSums(request.eras or (0, 0))
    for _ in KeptHistory(other.log).add_to(sums, lambda topic: True):
        pass
    assert disk.healer.page(0.2, ONE, 1, Page(request.id, 0, 0, True, digests=sums.digests)) == []
    assert disk.asked(0.2) is None, "nothing differs"
    assert 1.5 * INTERVAL < disk.healer.deadline - 0.2 < 2.5 * INTERVAL, "twice as many streams, so half as often"


def many(disk: Disk, count: int, *patterns: str) -> None:
    """Fill a log with streams, of which the keeper counts one in each turn."""
    disk.log.append([Record(PUBLISHER, "name", LIFE, f"t/{topic}", 1, [b"x"], 1e9) for topic in range(count)])
    disk.log.sync()
    for pattern in patterns:
        disk.healer.patterns[pattern] = lambda topic: True


def played(disk: Disk, now: float, until: float, turn: float) -> float:
    """Answer each request at once, as one that has the same; a turn of the keeper takes so many seconds."""
    while now < until:
        found = disk.healer.advance(now, now)
        if found is not None:
            digests = disk.healer._work.sums.digests if disk.healer._work is not None else None
            assert disk.healer.page(now, found[0], 1, Page(found[1].id, 0, 0, True, digests=digests)) == []
        now = max(now + turn, min(disk.healer.deadline, until))
    return now


def test_partners_are_all_compared_with_however_long_counting_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eras, "STREAMS", 1)
    disk = Disk()
    many(disk, 100, "t/+")
    disk.meet(0.0, ONE, TWO)
    played(disk, 0.1, 60.0, 0.1)  # 10 s for each pattern
    assert min(partner.compared_at for partner in disk.healer._partners.values()) > 0.0


def test_a_hurry_does_not_make_a_keeper_count_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "MANY", 10)
    disk = Disk()
    many(disk, 210)  # so about every 21 s
    disk.meet(0.0, ONE)
    now, counted = 0.1, 0
    monkeypatch.setattr(eras.EraSums, "digests", property(lambda self: ("", "", "")))
    good = eras.EraSums.add_all

    def add_all(*given: Any) -> Any:
        nonlocal counted
        counted += 1
        return good(*given)

    monkeypatch.setattr(eras.EraSums, "add_all", add_all)
    while now < 60.0:
        disk.healer.hurry(now)
        now = played(disk, now, now + 1.0, 0.01)
    assert 10 <= counted <= 13, "once in 5 s"


def test_a_partner_that_looks_at_many_streams_is_asked_less_often() -> None:
    disk = Disk()
    disk.meet(0.0, ONE)
    for looked, rest in ((10_000, INTERVAL), (150_000, 15.0), (10**12, 60.0), (0, INTERVAL)):
        now = disk.healer.deadline
        request = disk.asked(now)
        assert request is not None
        page = Page(request.id, 0, looked, True, digests=eras.EraSums((0, 0)).digests)
        assert disk.healer.page(now, ONE, 1, page) == []
        assert disk.asked(now) is None
        assert 0.7 * rest < disk.healer.deadline - now < 1.3 * rest, looked
        assert disk.healer.compared(now + rest, "t/#") == ({ONE}, set())
        assert disk.healer.compared(now + 1.6 * rest, "t/#") == (set(), {ONE})


def test_a_partner_that_answered_late_is_not_silent_while_the_next_pattern_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(eras, "STREAMS", 20)
    disk = Disk()
    many(disk, 30, "t/+")
    disk.meet(0.0, ONE)
    assert disk.asked(0.1) is None
    request = disk.asked(0.1)
    assert request is not None
    for _ in range(2):
        assert disk.asked(disk.healer.deadline) is request
    (partner,) = disk.healer._partners.values()
    partner.compared_at = now = disk.healer.deadline
    assert disk.healer.compared(now, "t/#") == (set(), {ONE}), "two requests were not answered"
    work = disk.healer._work
    assert work is not None
    assert disk.healer.page(now, ONE, 1, Page(request.id, 0, 0, True, digests=work.mine)) == []
    assert disk.asked(now) is None, "it counts"
    assert disk.healer.compared(now, "t/#") == ({ONE}, set())


def test_only_streams_that_both_keep_count() -> None:
    disk = Disk()
    many(disk, 6)
    disk.healer._is_mine = lambda topic: topic in ("t/1", "t/4")
    disk.healer.patterns["t/#"] = lambda topic: topic != "t/4"
    disk.meet(0.0, ONE)
    assert disk.asked(0.1) is not None
    work = disk.healer._work
    assert work is not None
    sums = eras.EraSums(work.sums.limits)
    sums.add(disk.log.streams(lambda topic: topic == "t/1"), {})
    assert work.mine == sums.digests != ("0" * 16,) * 3
