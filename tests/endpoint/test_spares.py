"""Which messages a keeper stores, and which it holds for the case that another keeper dies."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import Delivery, Missed
from glue.endpoint import placed as spares
from glue.endpoint.keeper import Kept
from glue.endpoint.message import delivery_weight
from glue.endpoint.placed import SETTLE, PlacedKept

YOU = "1" * 16


def delivery(topic: str, sequence: int, payload: bytes) -> Delivery:
    return Delivery(topic, [payload], None, "you", YOU, 3, sequence, 50.0, False, ())


class Place:
    """What a keeper with a lease of 5 s stores of what it gets; it is chosen for some topics."""

    def __init__(self, *chosen: str, counts: bool = True) -> None:
        self.now = 100.0
        self.chosen = {*chosen}
        self.stored: list[int] = []
        self.counted: Counter[str] = Counter()
        owner: Any = SimpleNamespace(
            settled=lambda outcome, count: self.counted.update({outcome: count}),
            handled=lambda delivery: self.counted.update(done=1), keep=lambda delivery: self.counted.update(kept=1),
        )  # fmt: skip
        writer: Any = SimpleNamespace(submit=lambda delivery: self.stored.append(delivery.sequence))
        self.plain = Kept(writer, owner, counts)
        self.kept = PlacedKept(writer, owner, counts, self.chosen.__contains__, lambda: self.now, 5.0)
        self.missed: list[float] = []

    def get(self, sequence: int, topic: str, now: float, payload: bytes = b"x") -> None:
        self.now = now
        self.kept._deliver(delivery(topic, sequence, payload))

    def place(self, is_more: bool, now: float) -> list[int]:
        self.now = now
        self.stored.clear()
        self.kept.placed(is_more)
        return [*self.stored]


def test_a_keeper_stores_all_until_others_are_known_and_holds_what_they_keep() -> None:
    place = Place("mine")
    place.get(1, "other", 101.99)
    place.get(2, "other", 100.0 + SETTLE)
    place.get(3, "mine", 103.0)
    assert place.stored == [1, 3]
    assert place.counted == {"handled": 3, "done": 1}
    place.chosen.add("other")
    assert place.place(False, 104.0) == [2]
    assert place.counted == {"handled": 3, "done": 1, "kept": 1}
    assert place.place(False, 104.0) == []


def test_a_driver_that_counts_itself_is_told_what_waits() -> None:
    place = Place("mine", counts=False)
    place.get(1, "mine", 103.0)
    place.get(2, "other", 103.0)
    assert place.counted == {"handled": 2, "kept": 1}


def test_spares_are_held_for_two_leases_and_a_while() -> None:
    place = Place()
    place.get(1, "other", 103.0)
    place.get(2, "other", 103.5)
    assert place.place(False, 114.9) == []  # still none of ours
    place.chosen.add("other")
    assert place.place(False, 115.5) == [2]
    place = Place()
    place.get(1, "other", 103.0)
    place.get(2, "other", 115.0)
    place.get(3, "other", 115.1)
    place.chosen.add("other")
    place.now = 103.0
    assert place.place(False, 115.0) == [2, 3]


def test_after_another_keeper_came_all_is_stored_for_a_while() -> None:
    place = Place()
    assert place.place(True, 110.0) == []
    place.get(1, "other", 110.0 + SETTLE - 0.01)
    place.get(2, "other", 110.0 + SETTLE)
    assert place.stored == [1]
    assert place.place(False, 120.0) == []
    place.get(3, "other", 120.0)
    assert place.stored == []


def test_spares_have_a_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spares.SPARES == 16 << 20
    monkeypatch.setattr(spares, "SPARES", 2 * delivery_weight(delivery("other", 1, b"x" * 100)))
    place = Place()
    for sequence in (1, 2, 3):
        place.get(sequence, "other", 103.0, b"x" * 100)
    place.place(False, 103.0)
    place.get(4, "other", 103.0, b"x" * 100)
    place.chosen.add("other")
    assert place.place(False, 104.0) == [3, 4]
    place.chosen.clear()
    place.get(5, "other", 105.0, b"x" * 1000)  # larger than all that is held
    place.get(6, "other", 105.0, b"x" * 100)
    assert place.counted["done"] == 6
    place.chosen.add("other")
    assert place.place(False, 105.0) == [6]


def test_news_of_a_gap_has_the_keeper_compare_with_others() -> None:
    place = Place("mine")
    place.kept.on_missed = lambda: place.missed.append(place.now)
    place.kept._deliver(Missed("t", "you", YOU, 1, "lost", ()))
    assert (place.missed, place.counted) == ([100.0], {})


@pytest.mark.parametrize("counts", [False, True])
def test_what_is_stored_is_copied_out_of_a_buffer_that_is_used_again(counts: bool) -> None:
    place = Place("mine", counts=counts)
    for kept in (place.plain, place.kept):
        buffer = bytearray(b"xy")
        event = delivery("mine", 1, b"x")
        encoded: Any = [memoryview(buffer)]
        event.encoded = encoded
        kept._deliver(event)
        buffer[:] = b"zz"
        assert event.encoded == [b"xy"]
    assert place.counted == {"handled": 2, **({} if counts else {"kept": 2})}
    place.plain._deliver(Missed("t", "you", YOU, 1, "lost", ()))
    assert place.stored == [1, 1]
