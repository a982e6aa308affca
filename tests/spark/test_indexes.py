"""Indexes of bundles in fragments: whole once all pieces up to the newline are there, and never too many of them."""

from __future__ import annotations

import itertools

import pytest

from spark.read import indexes
from spark.read.indexes import Bundle, Indexes

BUNDLE: Bundle = (7, 1, 1, "a")


@pytest.mark.parametrize("order", [*itertools.permutations(range(4))])
def test_an_index_is_whole_with_its_last_piece_in_whatever_order(order: tuple[int, ...]) -> None:
    pieces, found = [b"{one", b",two", b"}\npay", b"lo\nad"], Indexes()
    told = [found.add(BUNDLE, place, pieces[place]) for place in order]
    needed = max(order.index(place) for place in range(3))
    assert told[: needed + 1] == [None] * needed + [b"{one,two}\n"]


def test_what_never_becomes_whole_is_forgotten_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "MOST_OPEN", 3)
    found = Indexes()
    for number in range(5):
        assert found.add((number, 1, 1, "a"), 0, b"x") is None
    assert found.firsts() == [2, 3, 4]
    monkeypatch.setattr(indexes, "MOST_BYTES", 10)
    found.add((3, 1, 1, "a"), 1, b"0123456")
    assert found.firsts() == [2, 4, 3]
    found.add((9, 1, 1, "a"), 0, b"01")
    assert found.firsts() == [3, 9]
    assert found.add((3, 1, 1, "a"), 2, b"\n") == b"x0123456\n"
