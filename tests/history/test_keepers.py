"""The requests of a reader to keepers that come and go."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

from glue.history.reader import Reader
from glue.history.wire import EARLIEST, Page, Request
from glue.topics.bundle import MessageGroup

ONE, TWO, THREE, PUBLISHER = "1" * 16, "2" * 16, "3" * 16, "a" * 16


def reader_of(*keepers: str) -> Reader:
    """A reader that knows these keepers of everything."""
    reader = Reader("t/#", (EARLIEST, 0), 1 << 20, count(1).__next__, Random(1), Counter(), "m" * 16)
    for keeper in keepers:
        reader.keepers.offered(0.0, keeper, 1, "t/#")
    return reader


def asked(reader: Reader, now: float) -> tuple[str, Request]:
    """The one request that is due."""
    ((keeper, request),) = reader.advance(now)
    return keeper, request


def listing(request: Request, last: int, compared: int = 1) -> Page:
    """All streams of a keeper: one, with so many messages."""
    return Page(request.id, 1, 1, True, heads=[("t/a", last, PUBLISHER, 7, 1)], compared=compared)


def test_the_last_untried_keeper_leaves_before_it_is_asked() -> None:
    reader = reader_of(ONE, TWO)
    first, request = asked(reader, 0.0)
    assert reader.page(0.0, first, 1, listing(request, 5))
    keeper, request = asked(reader, 0.0)
    assert request.ranges
    assert reader.page(0.0, keeper, 1, Page(request.id, 1, 1, True, answered=1))  # it has none of these messages
    reader.keepers.lost(TWO if keeper == ONE else ONE, 1)
    now = 0.0
    for _ in range(20):  # the one that is left is asked until what is missing counts as gone
        now += 0.2
        for peer, request in reader.advance(now):
            assert peer == keeper
            reader.page(now, peer, 1, Page(request.id, 1, 1, True, answered=len(request.ranges)))
    assert reader._statistics["messages of history gone"] == 5
    assert not reader.keepers.behind


def test_a_keeper_that_may_lack_something_does_not_end_the_listing() -> None:
    reader = reader_of(ONE, TWO)
    first, request = asked(reader, 0.0)
    lacking = listing(request, 5)
    lacking.compared = 0  # it was cut off, and has not compared with the other one since
    assert reader.page(0.0, first, 1, lacking)
    assert reader.advance(0.0) == []
    second, request = asked(reader, 0.05)
    assert second != first
    assert reader.page(0.05, second, 1, listing(request, 9))
    assert not reader.keepers.is_listing
    _, request = asked(reader, 0.05)
    assert request.ranges[0][:3] == ("t/a", 1, 9)


def test_a_silent_keeper_is_waited_for_two_seconds_at_most() -> None:
    reader = reader_of(ONE, TWO)
    first, request = asked(reader, 0.0)
    due, now = [(first, request)], 0.0
    while reader.keepers.is_listing and now < 10:
        for keeper, one in due:
            if keeper == first:  # it may lack something, and the other one is silent
                page = listing(one, 5)
                page.compared = 0
                reader.page(now, first, 1, page)
        now += 0.01
        due = reader.advance(now)
    assert 1.9 < now < 2.6


def test_nothing_counts_as_gone_before_each_keeper_was_asked_after_the_time_to_settle() -> None:
    reader = reader_of(ONE, TWO)
    first, request = asked(reader, 0.0)
    reader.page(0.0, first, 1, listing(request, 5))
    keeper, request = asked(reader, 0.0)
    reader.page(0.0, keeper, 1, Page(request.id, 1, 1, True, answered=1))  # the messages are on their way to it
    other, request = asked(reader, 0.0)
    assert other != keeper
    assert reader.page(2.0, other, 1, Page(request.id, 1, 1, True, answered=1))  # it was silent, and has none
    assert reader._statistics["messages of history gone"] == 0
    found = {peer for now in (2.2, 2.4) for peer, request in reader.advance(now) if request.ranges}
    assert found <= {keeper, other}
    assert found


def test_a_keeper_that_takes_long_gives_no_other_one_more_time() -> None:
    reader = reader_of(ONE, TWO, THREE)
    first, request = asked(reader, 0.0)
    second, request = asked(reader, 0.05)
    assert reader.page(0.14, second, 1, listing(request, 5, 2))
    now, (keeper, request) = 0.14, asked(reader, 0.14)
    if keeper == second:
        now = 0.2
        assert reader.page(now, second, 1, Page(request.id, 1, 1, True, answered=1))
        keeper, request = asked(reader, now)
    assert keeper not in (first, second)
    later, _ = asked(reader, now + 0.051)  # it is silent, too
    assert later != keeper


def test_a_silent_keeper_holds_up_no_topic_of_another_one_and_may_answer_late() -> None:
    reader = reader_of(ONE, TWO)
    good, request = asked(reader, 0.0)
    page = listing(request, 5)
    page.heads = [*page.heads, ("t/b", 10**6, PUBLISHER, 7, 1)]
    assert reader.page(0.0, good, 1, page)
    now, latest, given, late = 0.0, 0.0, 0, None
    while now < 3.0:
        for keeper, request in reader.advance(now):
            topics = [one[0] for one in request.ranges]
            if keeper != good:
                late = request if "t/a" in topics else late
                continue
            page = Page(request.id, 1, 1, True)
            if "t/b" in topics:  # one message at a time, so that it is asked again; it has none of t/a
                given, latest = given + 1, now
                page.groups, page.origins = [group("t/b", given, 1)], [(PUBLISHER, "p", 7, 1)]
                page.answered = 1 if topics[0] == "t/a" else 0
            elif topics:
                page.answered = 1
            reader.page(now, keeper, 1, page)
        assert now < latest + 0.25
        now += 0.01
    assert late is not None
    page = Page(late.id, 1, 1, True, [group("t/a", 1, 5)], [(PUBLISHER, "p", 7, 1)], answered=len(late.ranges))
    assert reader.page(now, TWO if good == ONE else ONE, 1, page)
    assert reader.pushed == given + 5


def group(topic: str, first: int, count: int) -> MessageGroup:
    return MessageGroup(topic, first, 0, [b"x"] * count, 1)


def cut_off() -> Reader:
    """A reader that had five messages of a publisher, was cut off for 10 s, and finds a keeper first."""
    reader = reader_of()
    reader.offered(0.0, PUBLISHER, 7, "publisher", "t/#")
    ((_, request),) = reader.advance(0.0)
    assert reader.page(0.0, PUBLISHER, 7, Page(request.id, 6, 6, True, [group("t/a", 1, 5)]))
    reader.lost(PUBLISHER, 7, "expired")
    reader.keepers.offered(10.0, ONE, 1, "t/#")
    return reader


def keepers_answer(reader: Reader, now: float) -> None:
    """The keepers know of nine messages, and have none of them."""
    for keeper, request in reader.advance(now):
        page = Page(request.id, 1, 1, True, answered=len(request.ranges))
        page.heads = [("t/a", 9, PUBLISHER, 7, 1)] if request.heads else []
        reader.page(now, keeper, 1, page)


def test_what_no_keeper_has_may_come_with_its_publisher_that_was_silent() -> None:
    reader = cut_off()
    now = 10.0
    while now < 12.0:
        keepers_answer(reader, now)
        now += 0.05
    assert reader._statistics["messages of history gone"] == 0
    reader.offered(now, PUBLISHER, 7, "publisher", "t/#")
    while now < 16.0 and reader.pushed < 9:
        for peer, request in reader.advance(now):
            page = Page(request.id, 10, 10, True, answered=len(request.ranges))
            if peer == PUBLISHER and request.ranges:
                page.groups = [group("t/a", request.ranges[0][1], 10 - request.ranges[0][1])]
            elif request.heads:
                page.heads = [("t/a", 9, PUBLISHER if request.kept else "", 7, 1)]
            reader.page(now, peer, 7 if peer == PUBLISHER else 1, page)
        now += 0.05
    assert reader.pushed == 9
    assert reader._statistics["messages of history gone"] == 0


def test_what_no_keeper_has_is_gone_if_its_publisher_stays_silent() -> None:
    reader = cut_off()
    now = 10.0
    while now < 20.0 and not reader._statistics["messages of history gone"]:
        keepers_answer(reader, now)
        now += 0.05
    assert reader._statistics["messages of history gone"] == 4
    assert now < 15.0
