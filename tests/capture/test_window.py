"""Messages of a trace wait for their turn as long as one that was sent again may take, and no longer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from glue.capture.messages import Published
from glue.capture.ordering import WINDOW_NS, ordered


def published(time_ns: int, sequence: int) -> Published:
    return Published(time_ns, "a" * 16, 1, "t", sequence, b"x", False, None, False, None, True, 0)


@pytest.mark.parametrize(("apart", "taken"), [(WINDOW_NS - 1, 3), (WINDOW_NS, 2)])
def test_a_message_comes_once_the_window_is_over(apart: int, taken: int) -> None:
    pulled = 0

    def trace() -> Iterator[Published]:
        nonlocal pulled
        for time_ns, sequence in ((0, 1), (apart, 2), (2 * WINDOW_NS, 3)):
            pulled += 1
            yield published(time_ns, sequence)

    assert next(ordered(trace())).sequence == 1
    assert pulled == taken
