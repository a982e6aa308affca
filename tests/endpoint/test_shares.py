"""The messages of a share that no delivery has, as they were too old or could not be decoded."""

from __future__ import annotations

import pytest

from glue.consumers.membership import Taken
from glue.contract import Delivery
from glue.endpoint.consumer_room import _missing
from glue.topics.bundle import MessageGroup


@pytest.mark.parametrize(
    ("delivered", "missing"),
    [([(7, 4)], []), ([(7, 2), (9, 2)], []), ([(7, 1), (10, 1)], [2, 3]), ([(8, 3)], [1]), ([], [1, 2, 3, 4])],
)
def test_what_is_missing_of_a_share_is_found(delivered: list[tuple[int, int]], missing: list[int]) -> None:
    group = MessageGroup("t", 7, 0, [b"a", b"b", b"c", b"d"], None)
    taken = Taken("m", 1, False, group, "p" * 16, "publisher", 1)
    deliveries = [
        Delivery("t", [b""] * count, None, "publisher", "p" * 16, 1, first, 0.0, False, ())
        for first, count in delivered
    ]
    assert _missing(taken, deliveries) == missing
