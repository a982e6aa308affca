"""Headers that count: written, compared and measured as if each had been written by itself."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glue.serialization.runs import are_run, run_length, spans_of, train_of, widened

PERIODIC = [0, 7, 95, 998, 9_989, 9_999, 10_000, 19_995, 99_990, 9_999_990, 10**12 - 3]


def header(values: list[int], widths: list[int]) -> bytes:
    """One with a counter for each value, in a field so wide."""
    entries = [
        b'"%d":["x",%*d]' % (place, width, value)
        for place, (value, width) in enumerate(zip(values, widths, strict=True))
    ]
    return b"{%b}\n" % b",".join(entries)


def headers(values: list[int], widths: list[int], count: int) -> list[bytes]:
    """Those of so many frames."""
    return [header([value + index for value in values], widths) for index in range(count)]


def wide_enough(values: list[int], count: int) -> list[int]:
    return [len(str(value + count - 1)) for value in values]


values_of = st.lists(st.one_of(st.sampled_from(PERIODIC), st.integers(0, 10**15)), min_size=1, max_size=3)


@given(values_of, st.integers(2, 300), st.binary(max_size=3))
@example([9_990], 2, b"x")
@example([5], 25_000, b"")  # longer than any ready-made column
@example([9_999_990, 0], 12_000, b"")
def test_a_train_is_its_frames_each_behind_a_header_of_its_own(values: list[int], count: int, body: bytes) -> None:
    expected = headers(values, wide_enough(values, count), count)
    train = train_of(expected[0], spans_of(expected[0]), [body] * count)
    assert train == b"".join([head + body for head in expected])


@given(values_of, st.integers(2, 300), st.data())
@example([0], 25_000, None)
def test_a_run_is_as_long_as_its_headers_count(values: list[int], count: int, data: st.DataObject | None) -> None:
    widths = wide_enough(values, count)
    heads = headers(values, widths, count)
    spans = spans_of(heads[0])
    assert are_run(b"".join(heads), heads[0], spans)
    assert run_length(b"".join(heads), 0, heads[0], spans) == count
    if data is None:
        return
    broken = data.draw(st.integers(1, count - 1))
    heads[broken] = heads[broken].replace(b'"x"', b'"y"', 1)
    assert not are_run(b"".join(heads), heads[0], spans)
    assert run_length(b"".join(heads), 0, heads[0], spans) == broken
    if broken + 1 < count:
        assert run_length(b"".join(heads), (broken + 1) * len(heads[0]), heads[broken + 1], spans) == count - broken - 1


@given(st.integers(1, 15), st.integers(1, 9), st.integers(1, 20), st.booleans())
def test_a_run_ends_where_a_counter_grows_out_of_its_field(width: int, before: int, beyond: int, is_last: bool) -> None:
    """What follows is as long, as it starts again from zero; and in another counter all goes on."""
    values = [
        [10**width - before + index if index < before else index - before, index] for index in range(before + beyond)
    ]
    widths = [width, 2]
    if is_last:
        values, widths = [one[::-1] for one in values], widths[::-1]
    heads = [header(one, widths) for one in values]
    text, spans = b"".join(heads), spans_of(heads[0])
    assert not are_run(text, heads[0], spans)
    assert run_length(text, 0, heads[0], spans) == before


@pytest.mark.parametrize(
    ("head", "count", "wide"),
    [(b"[8]", 2, b"[8]"), (b"[8]", 3, b"[ 8]"), (b"[ 8]", 92, b"[ 8]"), (b"[ 8]", 93, b"[  8]"), (b"[99]", 1, b"[99]")],
)
def test_a_field_is_as_wide_as_the_last_number_and_no_wider(head: bytes, count: int, wide: bytes) -> None:
    assert widened(head, spans_of(head), count) == (wide, spans_of(wide))
