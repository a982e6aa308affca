"""A train whose last datagram ends within its header is no run, whatever is awaited."""

from __future__ import annotations

import pytest

from tests.serialization.runs import BODIES, arriving, received


@pytest.mark.parametrize("is_awaited", [True, False])
def test_a_last_datagram_that_is_shorter_than_its_header_goes_the_long_way(is_awaited: bool) -> None:
    datagrams = arriving()
    header = datagrams[-1].index(b"\n") + 1
    for size in (1, header // 2, header - 1):
        assert received([*datagrams[:-1], datagrams[-1][:size]], is_awaited) is None
    assert received([*datagrams[:-1], datagrams[-1][:header]], is_awaited) == [*BODIES[:-1], b""]
