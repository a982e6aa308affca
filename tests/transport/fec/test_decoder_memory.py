"""The memory of all FEC decoders stays within its budget: the least recently used decoder gives way."""

from __future__ import annotations

from collections import Counter

from glue.contract import Inbound
from glue.transport.fec.decoder import BUDGET, KEPT, RUN_COST, Decoder, DecoderMemory

SIZE = BUDGET // 8


def run(size: int, count: int = 1) -> Inbound:
    header = {"glue": [1, 1, "aa", 1, 1], "transport": ["data", 0, 0, 0, 0, 0, 1, 0]}
    return Inbound("aa", 1, ("10.0.0.1", 1), header, [bytes(size)] * count, 0.0)


def channels(count: int) -> tuple[DecoderMemory, list[Decoder], Counter[str]]:
    memory, counted = DecoderMemory(), Counter[str]()
    return memory, [Decoder(memory, counted) for _ in range(count)], counted


def test_the_least_recently_used_decoder_gives_way() -> None:
    memory, (a, b, c), counted = channels(3)
    for number in range(3):
        a.keep(run(SIZE), number)
        b.keep(run(SIZE), number)
    assert memory.held == 6 * (SIZE + RUN_COST)
    c.keep(run(SIZE), 0)
    assert memory.held == 7 * (SIZE + RUN_COST)
    b.keep(run(SIZE // 2), 3)
    a.keep(run(SIZE // 4), 3)
    c.keep(run(SIZE), 1)
    assert memory.held == 3 * (SIZE + RUN_COST) + SIZE // 4 + RUN_COST + 2 * (SIZE + RUN_COST), "b was the least recent"
    assert not counted


def test_of_two_decoders_the_other_gives_way_and_one_alone_stays_within_the_budget() -> None:
    memory, (a, b), counted = channels(2)
    for number in range(7):
        a.keep(run(SIZE), number)
    b.keep(run(2 * SIZE), 0)
    assert memory.held == 2 * SIZE + RUN_COST
    for number in range(1, 8):
        b.keep(run(SIZE, 2 if number == 7 else 1), number)
    assert memory.held <= BUDGET
    assert counted == {"frames not kept for FEC": 3}


def test_a_decoder_keeps_the_latest_frames_and_frees_what_it_drops() -> None:
    memory, (a,), _ = channels(1)
    for number in range(KEPT + 20):
        a.keep(run(10), number)
    assert memory.held == KEPT * (10 + RUN_COST)
    assert not a.waiting
    a.drop()
    assert memory.held == 0


def test_frames_are_kept_as_long_as_repair_symbols_may_come() -> None:
    _, (a,), _ = channels(1)
    a.keep(run(1, 4096), 0)
    assert not a.unused
    a.keep(run(1), 4096)
    assert a.unused
