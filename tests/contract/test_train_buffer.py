"""Where trains arrive: what is read where, what the parts of datagrams are, and which views are kept."""

from __future__ import annotations

import pytest

from glue.contract.borrowed import Borrowed, GatherCache
from glue.contract.pieces import NEAR
from glue.contract.train_buffer import BORROWED, JOINED, LARGEST, LAYOUTS, STREAM, Arrived, TrainBuffer


def filled(size: int) -> TrainBuffer:
    buffer = TrainBuffer()
    buffer.memory[:size] = bytes([place % 251 for place in range(size)])
    return buffer


def test_places_are_made_once_two_trains_began_with_as_many_bytes() -> None:
    buffer = TrainBuffer()
    assert len(buffer.memory) == JOINED + LARGEST
    assert buffer.places(STREAM) == []
    places = buffer.places(STREAM)
    assert [len(place) for (place,) in places] == [JOINED + LARGEST - at for at in range(0, JOINED, STREAM)]
    assert buffer.places(STREAM) is places
    assert buffer.places(LARGEST) == []
    assert buffer.places(STREAM) == []
    assert len(buffer.places(STREAM)) == len(places)


@pytest.mark.parametrize("size", [9, 10, 12, 30, 31, 35])
def test_an_arrived_train_has_the_parts_that_its_datagrams_have(size: int) -> None:
    buffer = filled(size)
    data = bytes(buffer.memory[:size])
    datagrams = [data[at : at + 10] for at in range(0, size, 10)]
    arrived = Arrived(("10.0.0.1", 7), buffer, size, 10)
    assert (arrived.address, bytes(arrived.data), arrived.segment) == (("10.0.0.1", 7), data, 10)
    for at in (3, 10):
        heads, rests = arrived.split(at)
        assert bytes(heads) == b"".join(datagram[:at] for datagram in datagrams)
        assert [bytes(rest) for rest in rests] == [datagram[at:] for datagram in datagrams]
        assert [bytes(rest) for rest in arrived.rests(at)] == [datagram[at:] for datagram in datagrams]
    assert arrived.columns([0]) == [bytes([datagram[0] for datagram in datagrams])]


@pytest.mark.parametrize("size", [BORROWED - 1, BORROWED, BORROWED + 1, BORROWED + 500])
def test_the_bodies_of_long_trains_alone_stay_where_they_arrived(size: int) -> None:
    buffer = filled(size)
    data = bytes(buffer.memory[:size])
    rests = buffer.rests(size, 1000, 40)
    assert isinstance(rests, Borrowed) is (size >= BORROWED)
    expected = [data[at + 40 : at + 1000] for at in range(0, size, 1000)]
    assert (rests.size, rests.length, len(rests)) == (960, sum(map(len, expected)), len(expected))
    assert [*rests] == expected
    assert not isinstance(buffer.rests(size, 1000, 1000), Borrowed), "there is nothing but headers"


def test_a_last_datagram_without_a_body_adds_nothing() -> None:
    buffer = filled(BORROWED + 20)
    size = BORROWED // 1000 * 1000 + 1000 + 20  # 20 bytes of a header of 40
    buffer.memory[:size] = bytes(size)
    assert buffer.rests(size, 1000, 40).length == size // 1000 * 960


def test_views_are_kept_for_a_few_layouts_and_then_made_anew() -> None:
    buffer = filled(100)
    first = buffer._parts(10, 3)
    assert buffer._parts(10, 3) is first
    for at in range(4, 4 + LAYOUTS - 1):
        buffer._parts(20, at)
    assert (LAYOUTS, len(buffer._views)) == (8, 8)
    assert buffer._parts(10, 3) is first
    buffer._parts(10, 4)
    assert [*buffer._views] == [(10, 4)], "one more than there is room for: all are forgotten"


def borrowed(size: int, length: int, cache: GatherCache | None) -> tuple[bytes, Borrowed]:
    data = bytes([place % 251 for place in range(length)])
    views = [memoryview(data)[at : at + size] for at in range(0, length, size)]
    return data, Borrowed(views, size, length, cache)


def test_borrowed_pieces_are_copied_as_they_are_read() -> None:
    data, pieces = borrowed(100, 250, None)
    assert [pieces[0], pieces[2], [*pieces[1:]]] == [data[:100], data[200:], [data[100:200], data[200:]]]
    whole = pieces.whole()
    assert (len(whole), whole.size, [*whole]) == (1, 250, [data])
    owned = pieces.to_owned()
    assert (len(owned), owned.size, [*owned], isinstance(owned, Borrowed)) == (3, 100, [*pieces], False)
    for start in (0, 50, 100, 150):
        for stop in (start + 1, start + 50, 200, 250):
            assert pieces.joined(start, stop) == data[start:stop]


def test_large_copies_from_the_same_places_are_gathered_by_views_that_are_kept() -> None:
    cache = GatherCache()
    assert (cache.asked, cache.views) == ((0, 0, 0), [])
    data, pieces = borrowed(1000, 20_000, cache)
    size = NEAR + 1
    expected = [data[at : at + size] for at in (10, 10 + size)]
    for turn, kept in enumerate((0, 2, 2)):
        assert [*pieces.copies(10, size, 2)] == expected, turn
        assert (cache.asked, len(cache.views)) == ((10, size, 2), kept)
    assert [*pieces.copies(11, size, 2)] == [data[at : at + size] for at in (11, 11 + size)]
    assert (cache.asked, cache.views) == ((11, size, 2), [])
    for _ in range(2):
        assert [*pieces.copies(0, NEAR, 2)] == [data[:NEAR], data[NEAR : 2 * NEAR]]
    assert cache.asked == (11, size, 2), "smaller ones are cut"
