"""The requests of a reader to keepers that come and go."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

from glue.history.reader import Reader
from glue.history.wire import EARLIEST, Page, Request

ONE, TWO, PUBLISHER = "1" * 16, "2" * 16, "a" * 16


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


def listing(request: Request, last: int) -> Page:
    """All streams of a keeper: one, with so many messages."""
    return Page(request.id, 1, 1, True, heads=[("t/a", last, PUBLISHER, 7, 1)])


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
