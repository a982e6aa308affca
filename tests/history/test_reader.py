"""The order of what a reader hands over."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

import pytest

from glue.contract import Delivery, Missed
from glue.history.reader import Reader
from glue.history.source import CHECK, FOUND_LATE, GRACE, LEFT, RETURN, weight
from glue.history.stream import Key, Stream
from glue.history.table import Streams
from glue.history.wire import EARLIEST, LAST, LATEST, Page, Start
from glue.topics.bundle import MessageGroup

PUBLISHER = "a" * 16


def live(number: int) -> Delivery:
    return Delivery("t/a", [number], None, "publisher", PUBLISHER, 7, number, 0.0, False, ())


def reader_from(start: Start) -> Reader:
    return Reader("t/#", start, 1 << 20, count(1).__next__, Random(1), Counter(), "m" * 16)


@pytest.mark.parametrize(("start", "wait"), [((EARLIEST, 0), GRACE), ((LATEST, 0), RETURN)])
def test_messages_keep_their_order_when_the_wait_for_an_offer_ends_with_one_of_them(start: Start, wait: float) -> None:
    reader = reader_from(start)
    if start[0] == LATEST:  # a keeper was there, and is lost
        reader.keepers.offered(0.0, "1" * 16, 1, "t/#")
        reader.keepers.lost("1" * 16, 1)
    for number in (5, 6):
        reader.live(0.0, live(number))
    reader.live(wait, live(7))  # before the timer was looked at
    reader.advance(wait)
    reader.live(wait + 1, live(8))
    assert [delivery.payloads[0] for delivery in reader.ready if isinstance(delivery, Delivery)] == [5, 6, 7, 8]


def test_a_message_that_was_overtaken_comes_first_although_others_are_held() -> None:
    reader = reader_from((EARLIEST, 0))
    for number in (3, 2, 1):
        reader.live(0.0, live(number))
    assert [delivery.payloads[0] for delivery in reader.ready if isinstance(delivery, Delivery)] == [1, 2, 3]


def test_what_was_held_gives_its_room_back_when_it_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.history.sequencer.HELD", 2 * weight(live(1)))
    reader = reader_from((EARLIEST, 0))
    for topic in range(10):
        for number in (3, 2, 1):
            delivery = live(number)
            delivery.topic = f"t/{topic}"
            reader.live(0.0, delivery)
    handed_over = [delivery.payloads[0] for delivery in reader.ready if isinstance(delivery, Delivery)]
    assert handed_over == [1, 2, 3] * 10


def test_what_was_held_gives_its_room_back_when_its_stream_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.history.sequencer.HELD", 2 * weight(live(1)))
    monkeypatch.setattr("glue.history.sequencer.STREAMS", 1)
    reader = reader_from((EARLIEST, 0))
    for topic, numbers in (("t/a", (3, 2)), ("t/b", (3, 2)), ("t/c", (3, 2, 1))):
        for number in numbers:
            delivery = live(number)
            delivery.topic = topic
            reader.live(0.0, delivery)
    handed_over = [(one.topic, one.payloads[0]) for one in reader.ready if isinstance(one, Delivery)]
    assert handed_over == [("t/c", number) for number in (1, 2, 3)]


def test_streams_that_came_live_give_no_way_because_one_keeper_told_of_them_all() -> None:
    streams = Streams(16)

    def add(number: int, teller: str) -> Key:
        key, stream = (f"{number:016x}", 7, "t/a"), Stream("publisher")
        stream.teller, stream.is_unsure = teller, bool(teller)
        left = streams.add(key, stream)
        streams.note_live(key, stream)
        return key if left is None else left[0]

    first = add(1, "")
    for number in range(2, 17):
        add(number, "1" * 16 if number > 10 else "")
    assert add(17, "") == first


def test_what_a_publisher_remembers_of_before_its_live_messages_is_told_once_if_it_is_found_late() -> None:
    reader = reader_from((EARLIEST, 0))
    reader.live(0.0, live(4))
    reader.advance(GRACE)
    reader.offered(1.0, PUBLISHER, 7, "publisher", "t/#")
    for place, numbers in enumerate(((2, 3), (4, 5)), 1):
        ((_, request),) = reader.advance(1.0)
        groups = [MessageGroup("t/a", number, number, [b"%d" % number], 1, json=True) for number in numbers]
        assert reader.page(1.0, PUBLISHER, 7, Page(request.id, place, 2, True, groups))
    assert [
        (event.count, event.cause) if isinstance(event, Missed) else event.payloads for event in reader.ready
    ] == [[4], (2, FOUND_LATE), [5]]  # fmt: skip


def test_the_last_messages_are_those_before_what_came_live_though_the_list_of_a_keeper_is_behind() -> None:
    reader = reader_from((LAST, 3))
    reader.keepers.offered(0.0, "1" * 16, 1, "t/#")
    ((keeper, request),) = reader.advance(0.0)
    reader.live(0.0, live(16))
    page = Page(request.id, 1, 1, True, heads=[("t/a", 10, PUBLISHER, 7, 8)])
    assert reader.page(0.0, keeper, 1, page)
    ((_, request),) = reader.advance(0.0)
    assert [one[1:3] for one in request.ranges] == [(13, 15)]


def test_what_is_missing_before_a_live_message_is_asked_for_though_no_keeper_has_listed_its_stream() -> None:
    reader = reader_from((EARLIEST, 0))
    reader.keepers.offered(0.0, "1" * 16, 1, "t/#")
    ((keeper, request),) = reader.advance(0.0)
    reader.live(0.0, live(5))
    assert reader.page(0.0, keeper, 1, Page(request.id, 0, 0, True))
    ((_, request),) = reader.advance(0.0)
    assert [one[:3] for one in request.ranges] == [("t/a", 1, 4)]


def test_what_was_held_while_history_was_read_goes_on_when_the_publisher_falls_silent() -> None:
    reader = reader_from((EARLIEST, 0))
    reader.offered(0.0, PUBLISHER, 7, "publisher", "t/#")
    reader.advance(0.0)
    for number in (1, 3):
        reader.live(0.0, live(number))
    assert not reader.ready
    reader.lost(PUBLISHER, 7, "expired")
    assert [delivery.payloads for delivery in reader.ready if isinstance(delivery, Delivery)] == [[1]]


def test_what_follows_a_live_message_that_was_late_is_looked_up_if_history_was_begun_after_it() -> None:
    reader = reader_from((LATEST, 0))
    reader.offered(0.0, PUBLISHER, 7, "publisher", "t/#")
    ((_, request),) = reader.advance(0.0)
    assert reader.page(0.0, PUBLISHER, 7, Page(request.id, 2, 2, True))  # from now on: after two messages
    reader.live(0.1, live(1))  # it was on its way, and the second one is lost
    assert reader.advance(0.1) == []
    ((_, request),) = reader.advance(2 * CHECK)
    assert (request.heads, request.after) == (True, 0)
    assert reader.page(5.0, PUBLISHER, 7, Page(request.id, 2, 2, True, heads=[("t/a", 2, "", 0, 0)]))
    ((_, request),) = reader.advance(5.0)
    assert [entry[:3] for entry in request.ranges] == [("t/a", 2, 2)]
    group = MessageGroup("t/a", 2, 2, [b"2"], 1, json=True)
    assert reader.page(5.0, PUBLISHER, 7, Page(request.id, 2, 2, True, [group], answered=1))
    assert [delivery.payloads[0] for delivery in reader.ready if isinstance(delivery, Delivery)] == [1, 2]


def handed(reader: Reader) -> list[object]:
    """The messages that were handed over, and the causes of gaps."""
    return [one.cause if isinstance(one, Missed) else one.payloads[0] for one in reader.ready]


def test_a_publisher_that_was_silent_and_began_anew_is_read_from_the_beginning_of_its_life() -> None:
    reader = reader_from((LATEST, 0))
    reader.offered(0.0, PUBLISHER, 7, "publisher", "t/#")
    ((_, request),) = reader.advance(0.0)
    assert reader.page(0.0, PUBLISHER, 7, Page(request.id, 2, 2, True))
    reader.lost(PUBLISHER, 7, "expired")
    reader.offered(5.0, PUBLISHER, 8, "publisher", "t/#")
    ((_, request),) = reader.advance(5.0)
    assert (request.heads, request.ranges, request.start, request.after) == (False, (), (EARLIEST, 0), 0)
    groups = [MessageGroup("t/a", 1, 5, [b"1"], 1, json=True)]
    assert reader.page(5.0, PUBLISHER, 8, Page(request.id, 1, 1, True, groups))
    assert handed(reader) == [1]


def test_what_waits_for_a_pattern_goes_on_when_its_publisher_serves_that_no_more() -> None:
    reader = reader_from((EARLIEST, 0))
    for pattern in ("t/a", "t/b"):
        reader.offered(0.0, PUBLISHER, 7, "publisher", pattern)
    ((_, request),) = reader.advance(0.0)
    assert reader.page(0.0, PUBLISHER, 7, Page(request.id, 0, 0, True))
    for number in (1, 3):
        reader.live(0.1, live(number))
    assert handed(reader) == [1], "the second one is asked for"
    reader.withdrawn(PUBLISHER, "t/b")
    assert handed(reader) == [1]
    reader.withdrawn(PUBLISHER, "t/a")
    assert handed(reader) == [1, LEFT, 3]


def test_what_was_missed_is_told_when_a_publisher_comes_back_without_its_history() -> None:
    reader = reader_from((EARLIEST, 0))
    reader.offered(0.0, PUBLISHER, 7, "publisher", "t/#")
    ((_, request),) = reader.advance(0.0)
    assert reader.page(0.0, PUBLISHER, 7, Page(request.id, 0, 0, True))
    reader.live(0.1, live(1))
    reader.lost(PUBLISHER, 7, "expired")
    reader.live(5.0, live(3))
    assert handed(reader) == [1], "it may still serve its history"
    reader.advance(5.0 + RETURN)
    assert handed(reader) == [1, LEFT, 3]
