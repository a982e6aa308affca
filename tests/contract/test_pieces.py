"""Equal pieces: cut apart, left together, and collected by views."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.contract.borrowed import Borrowed, GatherCache
from glue.contract.pieces import NEAR, Pieces, Views, cut, fresh_memory, joined, total

DATA = bytes(range(250))


def pieces_of(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def parts_of(data: bytes, ends: list[int], shared: bool) -> list[bytes | memoryview]:
    """The same bytes in several parts."""
    bounds = [0, *sorted(min(end, len(data)) for end in ends), len(data)]
    parts = [data[start:stop] for start, stop in pairwise(bounds)]
    return [memoryview(part) for part in parts] if shared else [*parts]


@given(st.integers(1, 250), st.integers(1, 300), st.lists(st.integers(0, 250), max_size=4), st.booleans())
def test_pieces_are_those_that_were_cut(length: int, size: int, ends: list[int], shared: bool) -> None:
    data = DATA[:length]
    expected = pieces_of(data, size)
    pieces = Pieces(parts_of(data, ends, shared), size, len(expected))
    assert list(pieces) == expected == cut(data, size)
    assert [pieces[place] for place in range(len(pieces))] == expected
    assert (len(pieces), pieces[-1], total(pieces)) == (len(expected), expected[-1], length)
    memory = fresh_memory(length + size)
    for start in range(0, length + 1, size):
        laid = pieces.copy_to(memory, start, start + 2 * size)
        assert memory[:laid] == data[start : start + 2 * size]


@given(
    st.integers(1, 250),
    st.integers(1, 60),
    st.lists(st.integers(0, 250), max_size=4),
    st.booleans(),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_a_slice_of_pieces_holds_those_pieces(
    length: int, size: int, ends: list[int], shared: bool, start: int, stop: int
) -> None:
    data = DATA[:length]
    expected = pieces_of(data, size)
    part = Pieces(parts_of(data, ends, shared), size, len(expected))[start:stop]
    assert list(part) == expected[start:stop]
    assert (len(part), part.length) == (len(expected[start:stop]), sum(map(len, expected[start:stop])))


def test_pieces_may_be_empty() -> None:
    assert list(Pieces([], 0, 3)) == [b""] * 3
    assert list(Pieces([b"aa", b"bb"], 2, 3)) == [b"aa", b"bb", b""]
    assert Pieces([b""], 0, 3)[1] == b""


@pytest.mark.parametrize("place", [3, -4])
def test_there_is_no_piece_beyond_the_last(place: int) -> None:
    with pytest.raises(IndexError):
        Pieces([b"aab", b"bc"], 2, 3)[place]


def test_a_few_of_many_pieces_that_are_bytes_do_not_keep_the_others() -> None:
    (part,) = Pieces([bytes(1000)], 10, 100)[:2].parts
    assert part == bytes(20)
    assert type(part) is bytes


def test_unless_they_are_shared_and_so_are_slices_of_slices() -> None:
    data = bytes(1000)
    (part,) = Pieces([data], 10, 100, shared=True)[1:9][1:4].parts
    assert part == bytes(30)
    assert type(part) is memoryview
    assert part.obj is data


def test_a_slice_of_views_shares_their_memory() -> None:
    memory = bytearray(b"aabbcc")
    (part,) = Pieces([memoryview(memory)], 2, 3)[1:].parts
    memory[2:] = b"ddee"
    assert part == b"ddee"


@given(
    st.integers(1, 250),
    st.lists(st.integers(0, 250), max_size=4),
    st.booleans(),
    st.integers(0, 250),
    st.integers(1, 60),
    st.integers(0, 9),
    st.integers(1, 9),
)
def test_pieces_of_another_size_are_joined_from_several_parts(
    length: int, ends: list[int], shared: bool, start: int, size: int, count: int, together: int
) -> None:
    data = DATA[:length]
    count = min(count, max(0, length - start) // size)
    copies = Pieces(parts_of(data, ends, shared), 10, -(-length // 10)).copies(start, size, count, together)
    assert [*copies] == [data[at : at + size] for at in range(start, start + size * count, size)]
    assert len(copies) == count
    assert {*map(type, copies)} <= {bytes}


@pytest.mark.parametrize("size", [1, 16, 1000, NEAR])
def test_who_goes_through_small_pieces_has_few_of_them_at_a_time(size: int) -> None:
    count = (256 << 10) // size
    data = DATA * (count * size // len(DATA) + 1)
    at = len(data) // 2
    copies = Pieces([data[:at], data[at:]], size, count).copies(0, size, count, count // 3)
    tracemalloc.start()
    place = 0
    for piece in copies:
        assert piece == data[place : place + size]
        place += size
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert place == count * size
    assert most < 8 * NEAR


@given(
    st.integers(1, 250), st.integers(1, 60), st.integers(0, 250), st.integers(1, 60), st.integers(0, 9),
    st.integers(1, 9),
)  # fmt: skip
def test_what_is_asked_of_lent_memory_is_a_copy(
    length: int, size: int, start: int, other: int, count: int, together: int
) -> None:
    memory = bytearray(DATA[:length])
    expected = pieces_of(DATA[:length], size)
    borrowed = Borrowed(Views(memoryview(memory), size, 0, size).of(length), size, length)
    whole = borrowed.whole()
    count = min(count, max(0, length - start) // other)
    copies = borrowed.copies(start, other, count, together)
    cut = [borrowed[place] for place in range(len(borrowed))], [*borrowed[:1], *borrowed[1:]]
    found = [*borrowed], *cut, [*borrowed.to_owned()], [*whole], [whole[0]], [*whole.to_owned()]
    assert (len(borrowed), len(whole), total(borrowed), total(whole)) == (len(expected), 1, length, length)
    memory[:] = bytes(length)
    assert found == (*[expected] * 4, *[[DATA[:length]]] * 3)
    assert [*copies] == [DATA[at : at + other] for at in range(start, start + other * count, other)]


@given(st.integers(0, 250), st.integers(1, 60), st.integers(0, 60))
def test_pieces_are_split_at_the_same_place(length: int, size: int, at: int) -> None:
    data, at = DATA[:length], min(at, size)
    expected = pieces_of(data, size)
    first, second = b"".join(piece[:at] for piece in expected), b"".join(piece[at:] for piece in expected)
    assert (joined(data, size, 0, at), joined(data, size, at, size)) == (first, second)


@given(st.lists(st.integers(0, 250), min_size=1, max_size=8), st.integers(1, 60), st.integers(0, 60))
def test_views_that_are_kept_show_what_stands_there_now(sizes: list[int], piece: int, start: int) -> None:
    buffer = bytearray(len(DATA))
    start = min(start, piece)
    views = Views(memoryview(buffer), piece, start, piece)
    for number, size in enumerate(sizes):
        buffer[:size] = bytes([number]) * size
        found = views.of(size)
        assert b"".join(found) == b"".join(one[start:] for one in pieces_of(bytes(buffer[:size]), piece))


@pytest.mark.parametrize(("size", "other"), [(3000, 9000), (5000, NEAR + 1), (5000, 70_000)])
def test_what_is_asked_of_the_same_places_again_is_what_then_stands_there(size: int, other: int) -> None:
    memory = bytearray(290_000)
    views, joins = Views(memoryview(memory), size, 100, size), GatherCache()

    def found(length: int, start: int, count: int) -> list[bytes]:
        borrowed = Borrowed(views.of(length), size - 100, length - 100 * -(-length // size), joins)
        return [*borrowed.whole().copies(start, other, count, 3)]

    for turn in range(9):
        memory[:] = b"".join([b"%d of %d, " % (place, turn) for place in range(30_000)])[: len(memory)]
        length = 280_123 if turn > 6 else 200_000
        start, count = (20, 1 + turn // 2) if turn < 4 else (30, 2)
        bodies = b"".join([memory[at + 100 : min(at + size, length)] for at in range(0, length, size)])
        expected = [bodies[at : at + other] for at in range(start, start + count * other, other)]
        assert found(length, start, count) == expected
