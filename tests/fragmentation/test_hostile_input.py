"""Fragments that lie, contradict each other or never end: counted and dropped, within a budget of bytes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glue.contract import Inbound
from glue.fragmentation.assembly import FRAGMENT_COST, MESSAGE_COST
from tests.fragmentation.frames import FRAME, LIMIT, OTHER, PEER, inbound, layer, received, run, singly

FULL = bytes(FRAME)

MALFORMED: dict[str, tuple[list[Any], list[bytes]]] = {
    "nothing": ([], [FULL]),
    "too short": ([1, FRAME, 300], [FULL]),
    "too long": ([1, FRAME, 300, 0, 0], [FULL]),
    "a string": (["1", FRAME, 300, 0], [FULL]),
    "a float": ([1, FRAME, 300.0, 0], [FULL]),
    "true": ([1, FRAME, 300, True], [FULL]),
    "null": ([None, FRAME, 300, 0], [FULL]),
    "a list": ([[1], FRAME, 300, 0], [FULL]),
    "a negative number": ([-1, FRAME, 300, 0], [FULL]),
    "a negative index": ([1, FRAME, 300, -1], [FULL]),
    "a negative size": ([1, -FRAME, 300, 0], [FULL]),
    "a size of zero": ([1, 0, 300, 0], [b""]),
    "a number over 2^53": ([1 << 53, FRAME, 300, 0], [FULL]),
    "a message that needs no fragments": ([1, FRAME, FRAME, 0], [FULL]),
    "a message of nothing": ([1, FRAME, 0, 0], [b""]),
    "a message over the limit": ([1, FRAME, LIMIT + 1, 0], [FULL]),
    "a message of 2^32 bytes": ([1, FRAME, 1 << 32, 0], [FULL]),
    "a fragment beyond the end": ([1, FRAME, 300, 3], [FULL]),
    "a fragment far beyond the end": ([1, FRAME, 300, 1 << 50], [FULL]),
    "fragments that run beyond the end": ([1, FRAME, 300, 2], [FULL, FULL]),
    "a fragment too short": ([1, FRAME, 300, 0], [FULL[1:]]),
    "a fragment too long": ([1, FRAME, 300, 0], [FULL + b"x"]),
    "an empty fragment": ([1, FRAME, 300, 1], [b""]),
    "a last fragment too long": ([1, FRAME, 250, 2], [FULL]),
}


@pytest.mark.parametrize(("entry", "bodies"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_is_counted_and_dropped(entry: list[Any], bodies: list[bytes]) -> None:
    receiver = layer()
    assert received(receiver, [inbound({"fragment": entry}, *bodies)]) == []
    assert receiver.statistics == {"malformed fragments": 1}


def test_a_message_with_a_short_fragment_in_its_middle_is_dropped_when_it_is_put_together() -> None:
    receiver = layer()
    assert received(receiver, [inbound({"fragment": [1, FRAME, 300, 0]}, FULL, FULL[1:], FULL)]) == []
    assert receiver.statistics == {"fragments received": 3, "malformed fragments": 1}


@pytest.mark.parametrize("claim", [[0, FRAME, 301, 1], [0, FRAME - 1, 300, 1], [0, FRAME, 250, 1]])
def test_a_fragment_at_odds_with_the_first_one_of_its_message_is_dropped(claim: list[int]) -> None:
    receiver = layer()
    body = bytes(range(256))[:250] + bytes(50)
    first, *others = singly(run(layer(), body))
    lie = inbound({"fragment": claim}, b"!" * claim[1])
    assert received(receiver, [first, lie, *others]) == [(PEER, body)]
    assert receiver.statistics["fragments at odds with their message"] == 1


def test_the_first_fragment_for_a_place_wins() -> None:
    receiver = layer()
    pieces = singly(run(layer(), bytes(300)))
    forged = [inbound(piece.header, b"!" * FRAME) for piece in pieces]
    assert received(receiver, [pieces[0], forged[0], pieces[2], forged[2], pieces[1]]) == [(PEER, bytes(300))]
    assert receiver.statistics["duplicate fragments"] == 2


def first_fragment(number: int, peer: str = PEER) -> Inbound:
    return inbound({"fragment": [number, FRAME, LIMIT, number % 100]}, FULL, peer=peer)


@pytest.mark.parametrize(("peers", "count", "budget"), [(1, 100_000, 2 * LIMIT), (100, 20_000, 4 * LIMIT)])
def test_first_fragments_without_end_stay_within_the_budget(peers: int, count: int, budget: int) -> None:
    receiver = layer()
    names = [f"{number:016x}" for number in range(peers)]
    for number in range(count):
        receiver.receive(0.0, [first_fragment(number, names[number % peers])])
    kept = count - receiver.statistics["messages dropped over budget"]
    assert budget // 2 < kept * (MESSAGE_COST + FRAGMENT_COST + FRAME) <= budget


def test_a_message_is_charged_no_less_than_it_takes() -> None:
    receiver = layer(limit=1 << 30)
    claims = [[number, FRAME, 10 * FRAME, place] for number in range(1000) for place in (2, 4, 6)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for claim in claims:
            receiver.receive(0.0, [inbound({"fragment": claim}, bytes(FRAME))])
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1000 * (MESSAGE_COST + 3 * (FRAGMENT_COST + FRAME))


def test_others_are_served_while_one_fills_its_budget() -> None:
    receiver = layer()
    body = bytes(3000)
    pieces = singly(run(layer(), body, OTHER))
    heard = []
    for number in range(3000):
        heard += received(receiver, [first_fragment(number), *pieces[number : number + 1]])
    assert heard == [(OTHER, body)]


def test_of_too_many_messages_the_one_untouched_for_longest_is_given_up() -> None:
    receiver = layer()
    first, *others = singly(run(layer(), bytes(300)))
    received(receiver, [first])
    for number in range(1, 3000):
        received(receiver, [first_fragment(number)])
    assert received(receiver, others) == []


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.lists(
                st.one_of(st.integers(0, 5), st.integers(-(2**64), 2**64), st.sampled_from([FRAME, 300]), st.none()),
                max_size=5,
            ),
            st.lists(st.sampled_from([FULL, b"", b"x"]), min_size=1, max_size=4),
        ),
        max_size=10,
    )
)
def test_nothing_a_peer_sends_raises(frames: list[tuple[list[Any], list[bytes]]]) -> None:
    receiver = layer()
    for entry, bodies in frames:
        received(receiver, [inbound({"fragment": entry}, *bodies)])
    received(receiver, [], now=1000.0)
