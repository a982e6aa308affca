"""When a keeper asks which other keeper for what, and when it stops: in exact times, on both sides of each bound."""

from __future__ import annotations

from collections import Counter
from itertools import count
from math import inf
from random import Random
from typing import Any

import pytest

from glue.history import healing as module
from glue.history.healing import Healer
from glue.history.source import EMPTY
from glue.history.wire import HEAD_ROOM, RANGES, Page, Request, json_size
from glue.storage import MemoryLog, Record
from glue.topics.bundle import MessageGroup

ONE, TWO, PUBLISHER = "1" * 16, "2" * 16, "a" * 16
LIFE = 7
NONE, SOME = "0" * 16, "f" * 16


class Luck(Random):
    """Chance that a test has in hand."""

    value = 0.0

    def random(self) -> float:
        return self.value


class Keeper:
    """A keeper of "t/#" whose others the test plays."""

    def __init__(self) -> None:
        self.log = MemoryLog("0" * 16)
        self.luck = Luck()
        self.statistics: Counter[str] = Counter()
        self.has_room = True
        self.healer = Healer(
            self.log, lambda topic: topic != "t/not mine", lambda: self.has_room, count(1).__next__, self.luck,
            self.statistics,
        )  # fmt: skip
        self.healer.patterns["t/#"] = lambda topic: topic.startswith("t/")
        self.now = 100.0

    def meet(self, *peers: str, is_keeper: bool = True, life: int = 1) -> None:
        for peer in peers:
            self.healer.met(self.now, peer, life, f"name of {peer[0]}", "t/#", is_keeper)

    def asked(self) -> tuple[str, Request] | None:
        return self.healer.advance(self.now, 5000.0)

    def ask(self) -> tuple[str, Request]:
        found = self.asked()
        assert found is not None
        return found

    def answer(self, asked: tuple[str, Request], life: int = 1, **fields: Any) -> list[Record]:
        peer, request = asked
        values: dict[str, Any] = {"answered": len(request.ranges), **fields}
        page = Page(request.id, values.pop("next", 1), values.pop("head", 1), False, **values)
        records = self.healer.page(self.now, peer, life, page)
        assert records is not None
        return records

    def differs(self, digests: tuple[str, str, str] = (SOME, NONE, NONE)) -> tuple[str, Request]:
        """Let the next comparison find a difference; return what is asked then."""
        asked = self.ask()
        assert asked[1].digest
        self.answer(asked, digests=digests)
        return self.ask()

    def store(self, records: list[Record]) -> None:
        self.log.append(records)
        self.log.sync()


def group(first: int, stop: int, topic: str = "t/a") -> MessageGroup:
    return MessageGroup(topic, first, first * 1_000_000, [b"x"] * (stop - first), 1)


def heads(*found: tuple[str, int, int]) -> list[tuple[str, int, str, int, int]]:
    """Streams of one publisher: topic, last and first number."""
    return [(topic, last, PUBLISHER, LIFE, first) for topic, last, first in found]


def test_a_request_is_asked_five_times_each_time_after_twice_as_long() -> None:
    keeper = Keeper()
    keeper.meet(ONE)
    assert keeper.healer.deadline == 100.0
    first = keeper.ask()
    times = []
    for doubt in (0, 0, 1, 1):
        assert (ONE in keeper.healer.compared(keeper.now, "t/#")[1]) or doubt
        keeper.now = keeper.healer.deadline
        times.append(round(keeper.now - 100.0, 6))
        assert keeper.ask() == first
    assert times == [0.1, 0.3, 0.7, 1.5]
    assert keeper.statistics["requests for history repeated"] == 4
    keeper.now = keeper.healer.deadline
    assert (round(keeper.now - 100.0, 6), keeper.asked()) == (3.1, None)
    assert keeper.healer.page(keeper.now, ONE, 1, Page(first[1].id, 1, 1, False)) is None  # too late
    assert keeper.healer.deadline == pytest.approx(keeper.now + 0.75)
    assert keeper.healer.compared(keeper.now, "t/#") == (set(), {ONE})


def test_keepers_are_compared_with_one_after_another_each_about_once_in_so_many_seconds() -> None:
    keeper = Keeper()
    keeper.luck.value = 0.5
    keeper.meet(ONE)
    keeper.now += 0.01
    keeper.meet(TWO)
    assert keeper.healer.deadline == pytest.approx(100.025)
    assert keeper.asked() is None
    compared = []
    for _ in range(4):
        keeper.now = keeper.healer.deadline
        asked = keeper.ask()
        compared.append((asked[0], round(keeper.now - 100.0, 3)))
        keeper.answer(asked, digests=(NONE, NONE, NONE))
        assert keeper.asked() is None
    assert compared == [(ONE, 0.025), (TWO, 0.035), (ONE, 2.025), (TWO, 2.035)]
    assert keeper.healer.compared(keeper.now, "t/#") == ({ONE, TWO}, set())
    assert keeper.healer.compared(keeper.now + 2.98, "t/+") == ({ONE, TWO}, set())
    assert keeper.healer.compared(keeper.now + 3.0, "t/+") == ({TWO}, {ONE})
    assert keeper.healer.compared(keeper.now, "u") == (set(), set())
    for luck, wait in ((0.0, 1.5), (1.0, 2.5)):
        keeper.luck.value = luck
        keeper.now = keeper.healer.deadline
        keeper.answer(keeper.ask(), digests=(NONE, NONE, NONE))
        assert keeper.asked() is None
        assert max(one.check_at for one in keeper.healer._partners.values()) == pytest.approx(keeper.now + wait)


def test_of_several_keepers_that_are_due_the_one_that_waits_longest_comes_first() -> None:
    for order in ((ONE, TWO), (TWO, ONE)):
        keeper = Keeper()
        for peer in order:
            keeper.meet(peer)
            keeper.now += 0.01
        assert keeper.ask()[0] == order[0]


def test_only_eras_that_differ_are_asked_about_and_settled_ones_not_again() -> None:
    keeper = Keeper()
    keeper.meet(ONE)
    asked = keeper.differs((SOME, NONE, SOME))
    assert (asked[1].era, asked[1].after, asked[1].eras) == (0, 0, (4_940_000_000, 1_400_000_000))
    assert keeper.statistics["eras of keepers that differed"] == 2
    keeper.answer(asked, next=3, head=5)
    asked = keeper.ask()
    assert (asked[1].era, asked[1].after) == (0, 3)
    keeper.answer(asked, next=5, head=5)
    asked = keeper.ask()
    assert (asked[1].era, asked[1].after) == (2, 0)
    keeper.answer(asked, next=0, head=5)  # it does not go on
    assert keeper.asked() is None
    keeper.now += 1.0
    asked = keeper.ask()
    keeper.answer(asked, digests=(SOME, NONE, SOME))  # as before, and there was nothing to fetch
    assert keeper.asked() is None
    assert keeper.statistics["eras of keepers that differed"] == 2
    keeper.now += 1.0
    assert keeper.differs((SOME, SOME, SOME))[1].era == 0


def test_what_is_missing_is_asked_for_by_number_and_taken_if_it_was_asked_for() -> None:
    keeper = Keeper()
    keeper.store([Record(PUBLISHER, "p", LIFE, "t/a", number, [b"x"]) for number in (2, 4)])
    keeper.meet(ONE)
    asked = keeper.differs((NONE, NONE, SOME))
    keeper.answer(asked, heads=heads(("t/a", 5, 1), ("t/b", 3, 2), ("t/c", 0, 1), ("u", 9, 1), ("t/not mine", 9, 1)))
    peer, request = keeper.ask()
    assert [one[:3] for one in request.ranges] == [("t/a", 1, 1), ("t/a", 3, 3), ("t/a", 5, 5), ("t/b", 2, 3)]
    assert {one[3:] for one in request.ranges} == {(0, PUBLISHER, LIFE)}
    assert (request.kept, request.room) == (True, 1 << 17)
    groups = [group(1, 2), group(5, 7), group(2, 3, "t/b"), group(1, 2, "t/z")]
    records = keeper.answer((peer, request), groups=groups, origins=[(PUBLISHER, "p", LIFE, 4)], answered=3, head=9)
    assert [(one.topic, one.sequence, one.origin, one.name, one.life, one.flags) for one in records] == [
        ("t/a", 1, PUBLISHER, "p", LIFE, 8), ("t/b", 2, PUBLISHER, "p", LIFE, 8),
    ]  # fmt: skip
    assert keeper.statistics["messages of history not asked for"] == 3
    assert keeper.statistics["messages fetched by keepers"] == 2
    _, request = keeper.ask()  # of what was not answered as a whole, the rest
    assert [one[:3] for one in request.ranges] == [("t/b", 3, 3)]
    keeper.answer((peer, request), answered=1)
    assert keeper.asked() is None
    assert keeper.healer.deadline == keeper.now + 0.02  # until what was fetched is stored
    keeper.store(records)
    keeper.now += 0.02
    assert keeper.asked() is None
    assert keeper.healer.deadline == pytest.approx(keeper.now + 0.25)  # again soon, as something was fetched


def test_requests_and_what_is_wanted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper()
    holes = range(2, 200, 2)
    keeper.store([Record(PUBLISHER, "p", LIFE, "t/a", number, [b"x"]) for number in holes])
    keeper.meet(ONE)
    asked = keeper.differs((NONE, NONE, SOME))
    keeper.answer(asked, heads=heads(("t/a", 198, 1)))
    _, request = keeper.ask()
    assert [one[1] for one in request.ranges] == [*range(1, 128, 2)]  # 64 gaps of one stream
    keeper.answer((ONE, request))
    assert keeper.asked() is None
    keeper.now += 1.0
    long = "t/" + "ä" * 10_000
    each = json_size(long)
    few = HEAD_ROOM // each
    asked = keeper.differs((SOME, NONE, NONE))
    keeper.answer(asked, heads=[(long, 2 * n, f"{n:016x}", LIFE, 2 * n) for n in range(1, 20)])
    _, request = keeper.ask()
    assert len(request.ranges) == few > 1
    keeper.answer((ONE, request))
    assert len(keeper.ask()[1].ranges) == few
    keeper = Keeper()
    keeper.meet(ONE)
    asked = keeper.differs()
    keeper.answer(asked, heads=heads(*((f"t/{n}", 1, 1) for n in range(RANGES + 1))))
    _, request = keeper.ask()
    assert len(request.ranges) == RANGES
    monkeypatch.setattr(module, "WANTED", 3)
    keeper.answer((ONE, request), answered=0)
    assert len(keeper.healer._work.wanted) == 3  # type: ignore[union-attr]


def test_a_keeper_that_gives_nothing_again_and_again_is_taken_to_have_nothing() -> None:
    keeper = Keeper()
    keeper.meet(ONE)
    asked = keeper.differs()
    keeper.answer(asked, heads=heads(("t/a", 5, 1)))
    pages = 0
    while (again := keeper.asked()) is not None:
        pages += 1
        keeper.answer(again, answered=0)
    assert pages == EMPTY + 1 == 65


def test_what_is_not_durable_after_half_a_minute_counts_as_refused() -> None:
    keeper = Keeper()
    keeper.meet(ONE)
    asked = keeper.differs()
    keeper.answer(asked, heads=heads(("t/a", 1, 1)))
    asked = keeper.ask()
    assert len(keeper.answer(asked, groups=[group(1, 2)], origins=[(PUBLISHER, "p", LIFE, 1)])) == 1
    for seconds in (0.0, 29.9):
        keeper.now += seconds
        assert keeper.asked() is None
        assert keeper.healer.deadline == pytest.approx(keeper.now + 0.02)
    keeper.now += 0.1
    assert keeper.asked() is None
    assert keeper.healer.deadline == pytest.approx(keeper.now + 0.25)
    assert keeper.healer.compared(100.0, "t/#") == (set(), {ONE})


def test_a_long_comparison_gives_way_only_to_one_that_is_due() -> None:
    for others, seconds, goes_on in (((), 6.0, True), ((TWO,), 5.0, True), ((TWO,), 5.01, False)):
        keeper = Keeper()
        keeper.meet(ONE)
        asked = keeper.differs()
        keeper.answer(asked, next=1, head=9)
        keeper.now += 0.0001
        keeper.meet(*others)
        keeper.now = 100.0 + seconds
        peer, request = keeper.ask()
        assert (peer, request.heads) == ((ONE, True) if goes_on else (TWO, False))
        if not goes_on:
            keeper.answer((peer, request), digests=(NONE, NONE, NONE))
            assert keeper.asked() is None
            assert keeper.healer.deadline == pytest.approx(105.26)  # a quarter of a second later it begins anew


def test_a_publisher_that_remembers_is_asked_once_and_again_after_a_gap() -> None:
    keeper = Keeper()
    keeper.meet(PUBLISHER, is_keeper=False, life=LIFE)
    peer, request = keeper.ask()
    assert (peer, request.heads, request.digest, request.kept, request.after) == (PUBLISHER, True, False, False, 0)
    keeper.answer((peer, request), LIFE, heads=[("t/a", 2, "", 0, 0)], next=4, head=9)
    _, request = keeper.ask()
    assert request.ranges == [("t/a", 1, 2, 0, "", 0)]
    (record,) = keeper.answer((peer, request), LIFE, groups=[group(1, 3)])
    assert (record.origin, record.name, record.life) == (PUBLISHER, "name of a", LIFE)
    keeper.store([record])
    _, request = keeper.ask()
    assert (request.heads, request.after) == (True, 4)
    keeper.answer((peer, request), LIFE, next=9, head=9)
    assert keeper.asked() is None
    keeper.now = keeper.healer.deadline
    keeper.answer(keeper.ask(), LIFE, next=9, head=9)
    assert (keeper.asked(), keeper.healer.deadline) == (None, inf)
    assert keeper.healer.compared(keeper.now, "t/#") == (set(), set())  # it is no keeper
    keeper.luck.value = 0.5
    keeper.healer.hurry(keeper.now)
    assert keeper.healer.deadline == pytest.approx(keeper.now + 0.075)


def test_a_publisher_is_asked_for_all_patterns_again_if_what_it_has_of_the_first_found_no_room() -> None:
    keeper = Keeper()
    keeper.healer.patterns["u"] = lambda topic: topic == "u"
    keeper.meet(PUBLISHER, is_keeper=False, life=LIFE)
    keeper.healer.met(keeper.now, PUBLISHER, LIFE, "name", "u", False)
    asked = keeper.ask()
    keeper.has_room = False
    keeper.answer(asked, LIFE, heads=[(asked[1].pattern.replace("#", "a"), 2, "", 0, 0)])
    keeper.has_room = True
    assert keeper.asked() is None
    keeper.now = keeper.healer.deadline
    assert keeper.now < 102.0
    patterns = set()
    for _ in range(2):
        asked = keeper.ask()
        patterns.add(asked[1].pattern)
        keeper.answer(asked, LIFE)
    assert patterns == {"t/#", "u"}
    assert (keeper.asked(), keeper.healer.deadline) == (None, inf)


def test_partners_that_part_or_begin_a_new_life_answer_no_more() -> None:
    keeper = Keeper()
    keeper.healer.met(keeper.now, ONE, 1, "name", "u", True)
    assert keeper.healer.deadline == inf  # nothing in common
    keeper.meet(ONE)
    keeper.healer.met(keeper.now, ONE, 1, "name", "t/a", True)
    asked = keeper.ask()
    page = Page(asked[1].id, 1, 1, False, digests=(NONE, NONE, NONE))
    assert keeper.healer.page(keeper.now, TWO, 1, page) is None
    assert keeper.healer.page(keeper.now, ONE, 2, page) is None
    keeper.healer.parted(ONE, "t/a", True)
    assert keeper.healer.deadline == pytest.approx(100.1)
    keeper.healer.parted(ONE, "t/#", False)
    keeper.healer.parted(ONE, "t/#", True)
    assert keeper.healer.deadline == inf
    assert keeper.healer.page(keeper.now, ONE, 1, page) is None
    keeper.meet(ONE)
    keeper.ask()
    keeper.meet(ONE, life=2)
    keeper.healer.lost(ONE)
    assert (keeper.healer.deadline, keeper.asked()) == (inf, None)


def test_a_partner_that_is_lost_before_it_answers_holds_up_no_other() -> None:
    keeper = Keeper()
    keeper.meet(ONE)
    keeper.ask()
    keeper.now += 0.01
    keeper.meet(TWO)
    keeper.healer.lost(ONE)
    assert keeper.healer.deadline <= keeper.now
    assert keeper.ask()[0] == TWO


def test_a_keeper_that_misses_something_claims_to_have_all_of_nobody_until_it_has_compared_anew() -> None:
    keeper = Keeper()
    keeper.meet(ONE)
    keeper.answer(keeper.ask(), digests=(NONE, NONE, NONE))
    keeper.asked()
    assert keeper.healer.compared(keeper.now, "t/#") == ({ONE}, set())
    keeper.healer.hurry(keeper.now)
    assert keeper.healer.compared(keeper.now, "t/#") == (set(), {ONE})
