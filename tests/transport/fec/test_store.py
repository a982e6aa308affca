"""What is kept for parity over all channels stays within its budget: who kept something least recently gives way."""

from __future__ import annotations

from collections import Counter

from glue.contract import Inbound
from glue.transport.fec.decoder import BUDGET, KEPT, RUN_COST, Mending, Store

SIZE = BUDGET // 8


def run(size: int, count: int = 1) -> Inbound:
    header = {"glue": [1, 1, "aa", 1, 1], "transport": ["data", 0, 0, 0, 0, 0, 1, 0]}
    return Inbound("aa", 1, ("10.0.0.1", 1), header, [bytes(size)] * count, 0.0)


def channels(count: int) -> tuple[Store, list[Mending], Counter[str]]:
    store, counted = Store(), Counter[str]()
    return store, [Mending(store, counted) for _ in range(count)], counted


def test_the_least_recent_gives_way() -> None:
    store, (a, b, c), counted = channels(3)
    for number in range(3):
        a.keep(run(SIZE), number)
        b.keep(run(SIZE), number)
    assert store.held == 6 * (SIZE + RUN_COST)
    c.keep(run(SIZE), 0)
    assert store.held == 7 * (SIZE + RUN_COST)
    b.keep(run(SIZE // 2), 3)
    a.keep(run(SIZE // 4), 3)
    c.keep(run(SIZE), 1)
    assert store.held == 3 * (SIZE + RUN_COST) + SIZE // 4 + RUN_COST + 2 * (SIZE + RUN_COST), "b was the least recent"
    assert not counted


def test_of_two_the_other_gives_way_and_one_alone_keeps_no_more_than_there_is() -> None:
    store, (a, b), counted = channels(2)
    for number in range(7):
        a.keep(run(SIZE), number)
    b.keep(run(2 * SIZE), 0)
    assert store.held == 2 * SIZE + RUN_COST
    for number in range(1, 8):
        b.keep(run(SIZE, 2 if number == 7 else 1), number)
    assert store.held <= BUDGET
    assert counted == {"frames not kept for parity": 3}


def test_a_channel_keeps_the_latest_frames_and_what_it_drops_is_free_again() -> None:
    store, (a,), _ = channels(1)
    for number in range(KEPT + 20):
        a.keep(run(10), number)
    assert store.held == KEPT * (10 + RUN_COST)
    assert not a.waiting
    a.drop()
    assert store.held == 0


def test_frames_are_kept_as_long_as_parity_may_come() -> None:
    _, (a,), _ = channels(1)
    a.keep(run(1, 4096), 0)
    assert not a.unused
    a.keep(run(1), 4096)
    assert a.unused
