"""Which keeper a reader asks, how long it waits for each, and what it makes of lists: step by step."""

from __future__ import annotations

from collections import Counter
from itertools import count
from math import inf
from random import Random
from typing import Any

import pytest

from glue.history import keepers as module
from glue.history.reader import Reader
from glue.history.wire import EARLIEST, LATEST, SINCE, Page, Request
from glue.topics.bundle import MessageGroup

ONE, TWO, PUBLISHER = "1" * 16, "2" * 16, "a" * 16


class Luck(Random):
    """Chance that is always the same: in the middle."""

    def random(self) -> float:
        return 0.5

    def getrandbits(self, bits: int) -> int:
        return 1


class Desk:
    """A reader, and keepers that the test plays."""

    def __init__(self, *keepers: str, start: tuple[str, int] = (EARLIEST, 0)) -> None:
        self.statistics: Counter[str] = Counter()
        self.reader = Reader("t/#", start, 1 << 20, count(1).__next__, Luck(), self.statistics, "m" * 16)
        self.now = 0.0
        for keeper in keepers:
            self.reader.keepers.offered(0.0, keeper, 1, "t/#")

    def asked(self) -> tuple[str, Request] | None:
        found = self.reader.keepers.request(self.now, True, 1 << 20)
        assert found is None or found[1].kept
        return found

    def ask(self) -> tuple[str, Request]:
        found = self.asked()
        assert found is not None
        return found

    @property
    def due(self) -> float:
        return round(self.reader.keepers.deadline(True), 6)

    def wait(self) -> float:
        """Let the time come for the next request."""
        self.now = self.reader.keepers.deadline(True)
        return self.now

    def answer(self, asked: tuple[str, Request], life: int = 1, **fields: Any) -> bool:
        keeper, request = asked
        values = {"next": 1, "head": 1, "compared": 9, "answered": len(request.ranges), **fields}
        page = Page(request.id, values.pop("next"), values.pop("head"), False, **values)
        return self.reader.page(self.now, keeper, life, page)

    def listed(self, last: int = 5) -> tuple[str, Request]:
        """Let the first keeper list one stream; return what is asked for then."""
        assert self.answer(self.ask(), heads=[("t/a", last, PUBLISHER, 7, 1)])
        return self.ask()


def group(first: int, stop: int, topic: str = "t/a") -> MessageGroup:
    return MessageGroup(topic, first, 0, [b"x"] * (stop - first), 1)


def test_the_only_keeper_is_given_twice_as_long_after_each_silence_and_two_seconds_at_most() -> None:
    desk = Desk(ONE)
    first = desk.ask()
    assert (first[1].heads, first[1].pattern, first[1].after) == (True, "t/#", 0)
    times = []
    for _ in range(8):
        times.append(desk.wait())
        assert desk.ask() == first
    assert times == pytest.approx([0.05, 0.15, 0.35, 0.75, 1.55, 3.15, 5.15, 7.15])
    assert desk.statistics["keepers silent"] == 8
    assert desk.asked() is None
    assert desk.answer(first)
    assert desk.reader.keepers._keepers[ONE].silent_until == -inf


def test_of_several_keepers_another_one_is_asked_and_a_silent_one_passed_over() -> None:
    desk = Desk(ONE, TWO)
    keeper, request = first = desk.ask()
    desk.now = 0.0499
    assert desk.asked() is None
    desk.now = 0.05
    other, again = second = desk.ask()
    assert (other != keeper, again.heads) == (True, True)
    known = desk.reader.keepers._keepers
    assert known[keeper].silence == pytest.approx(0.1)
    assert known[keeper].silent_until == pytest.approx(5.05)
    assert desk.answer(second, heads=[("t/a", 5, PUBLISHER, 7, 1)])
    asked = desk.ask()
    assert asked[0] == other  # the silent one would be asked only if there were no other
    assert not desk.answer((keeper, request), life=2)
    assert desk.answer(first)  # late, and it is heard again
    assert known[keeper].silent_until == -inf
    assert known[keeper].silence == pytest.approx(0.1)
    for _ in range(2):
        desk.wait()
        desk.asked()
    assert max(known[one].silence for one in (ONE, TWO)) <= 0.2


def test_a_keeper_is_given_twice_the_time_of_its_last_answer() -> None:
    for took, silence in ((0.001, 0.05), (0.04, 0.08), (1.5, 2.0)):
        desk = Desk(ONE)
        asked = desk.ask()
        desk.now = took
        assert desk.answer(asked, heads=[("t/a", 5, PUBLISHER, 7, 1)])
        assert desk.reader.keepers._keepers[ONE].silence == pytest.approx(silence)
        desk.ask()
        assert desk.due == pytest.approx(took + silence)


def test_a_list_goes_on_until_its_end_and_is_looked_at_again_after_four_seconds() -> None:
    desk = Desk(ONE)
    heads = [(f"t/{n}", 0, PUBLISHER, 7, 1) for n in range(64)]
    assert desk.answer(desk.ask(), heads=heads, next=64, head=200)
    assert desk.due == 0.0
    asked = desk.ask()
    assert asked[1].after == 64
    assert desk.answer(asked, heads=heads[:63], next=127, head=200)
    assert desk.due == 0.05  # few of them: a list that may never end
    assert desk.asked() is None
    desk.now = 0.05
    asked = desk.ask()
    assert asked[1].after == 127
    listing = [desk.reader.keepers.is_listing]
    assert desk.answer(asked, heads=heads[:1], next=200, head=200)
    listing.append(desk.reader.keepers.is_listing)
    assert listing == [True, False]
    assert (desk.asked(), desk.due) == (None, 4.05)
    desk.now = 4.05
    asked = desk.ask()
    assert (asked[1].after, asked[1].start) == (0, (EARLIEST, 0))
    assert desk.answer(asked, heads=heads[:1], next=0, head=200)  # it does not go on
    assert desk.due == 8.05


def test_what_is_missing_is_asked_for_and_what_nobody_has_is_gone_after_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (module.AGAIN, module.SETTLE) == (0.2, 1.0)
    monkeypatch.setattr(module, "AGAIN", 0.25)  # which sums up exactly
    desk = Desk(ONE)
    desk.now = 8.0
    asked = desk.listed()
    assert asked[1].ranges == [("t/a", 1, 5, 0, PUBLISHER, 7)]
    origins = [(PUBLISHER, "p", 7, 2)]
    desk.answer(asked, groups=[group(1, 3), group(1, 2, "t/z")], origins=origins, answered=0)
    assert desk.statistics["messages of history not asked for"] == 1
    again: tuple[str, Request] | None = desk.ask()
    assert again is not None
    assert again[1].ranges == [("t/a", 3, 5, 0, PUBLISHER, 7)]
    times = []
    while again is not None and again[1].ranges:
        times.append(desk.now)
        desk.answer(again)
        desk.wait()
        again = desk.asked()
    assert times == [8.0, 8.25, 8.5, 8.75, 9.0]
    assert desk.statistics["messages of history gone"] == 3


def test_a_reader_from_now_on_learns_where_streams_end_and_asks_for_nothing() -> None:
    desk = Desk(ONE, start=(LATEST, 0))
    assert (desk.reader.keepers.is_counting, desk.reader.keepers.is_listing) == (True, False)
    asked = desk.ask()
    assert asked[1].start == (LATEST, 0)
    assert desk.answer(asked, heads=[("t/a", 5, PUBLISHER, 7, 1), ("u", 5, PUBLISHER, 7, 1)])
    ((key, stream),) = [*desk.reader._streams]
    assert (key, stream.next, stream.skipped) == ((PUBLISHER, 7, "t/a"), 6, (1, 6))
    assert (desk.reader.keepers.is_counting, desk.asked(), desk.due) == (False, None, 4.0)


def test_what_is_older_than_wanted_is_left_out_of_streams_listed_at_the_beginning() -> None:
    desk = Desk(ONE, start=(SINCE, 30_000_000))
    asked = desk.ask()
    assert asked[1].start == (SINCE, 30_000_000)
    desk.answer(asked, heads=[("t/a", 9, PUBLISHER, 7, 4)])
    ((_, stream),) = [*desk.reader._streams]
    assert (stream.oldest, stream.next, stream.want) == (30.0, 4, 10)
    assert desk.ask()[1].ranges == [("t/a", 4, 9, 0, PUBLISHER, 7)]


def test_keepers_that_leave_take_their_requests_with_them() -> None:
    desk = Desk(ONE, TWO)
    keeper, request = desk.listed()
    assert request.ranges
    desk.reader.keepers.lost(keeper, 2)  # of another life
    assert desk.asked() is None
    desk.reader.keepers.withdrawn(keeper, "t/other")
    assert desk.asked() is None
    desk.reader.keepers.withdrawn(keeper, "t/#")
    other, again = desk.ask()
    assert (other != keeper, again.ranges) == (True, request.ranges)
    desk.reader.keepers.lost(other, 1)
    assert (desk.asked(), desk.due) == (None, inf)
    assert desk.reader.keepers.covered("t/x")
    assert not desk.reader.keepers.covers("t/x")
    assert not desk.reader.keepers.covered("u")


def test_a_late_list_of_a_keeper_that_was_passed_over_cuts_no_list_short() -> None:
    desk = Desk(ONE, TWO)
    first = desk.ask()
    desk.now = 0.05
    second = desk.ask()
    for asked in (first, second):
        assert desk.answer(asked, heads=[("t/a", 5, PUBLISHER, 7, 1)], next=1, head=2)
    desk.wait()
    keeper, request = desk.ask()
    assert (keeper, request.heads, request.after) == (first[0], True, 0), "it speaks again, and tells all"
    assert desk.reader.keepers.is_listing


def test_a_keeper_keeps_a_topic_only_as_long_as_one_of_its_patterns_is_for_it() -> None:
    desk = Desk(ONE)
    desk.reader.keepers.offered(0.0, ONE, 1, "t/b", replicas=1)
    desk.reader.keepers.withdrawn(ONE, "t/#")
    assert [desk.reader.keepers.covers(topic) for topic in ("t/a", "t/b")] == [False, True]
    assert desk.reader.keepers._keepers.target(0.0, (), "t/a") == ONE
