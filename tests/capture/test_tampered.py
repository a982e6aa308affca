"""Sealed blocks of a capture that the key does not open after all: no frame is lost, and none is there twice."""

from __future__ import annotations

import pytest

from glue.capture.opened import FrameOpener
from glue.security.runs import OVERHEAD
from tests.security.pair import KEY
from tests.security.streams import SIZE, Stream
from tests.security.test_blocks import frame_of

SEALED = SIZE + OVERHEAD


@pytest.fixture
def stream() -> Stream:
    """A stream in which blocks are granted."""
    made = Stream()
    made.go_on_until_blocks()
    return made


def damaged(block: bytes) -> bytes:
    """A block with another last byte."""
    return block[:-1] + bytes([block[-1] ^ 1])


def test_the_beginning_of_a_block_whose_rest_is_damaged_is_there_before_it(stream: Stream) -> None:
    _, block = stream.block()
    opener = FrameOpener(KEY, 101)
    begun, rest = block[: 3 * SEALED], damaged(block)[3 * SEALED :]
    assert opener.open(frame_of(begun)) == []
    assert [frame[28:] for frame in opener.open(frame_of(rest)) or ()] == [begun, rest]
    assert opener.rest() == []


def test_the_next_block_in_a_frame_with_a_damaged_one_stays_there_alone(stream: Stream) -> None:
    first = stream.sealed(stream.plain()[: 8 * SIZE])
    plain, second = stream.block()
    opener = FrameOpener(KEY, 101)
    both = frame_of(damaged(first) + second[: 3 * SEALED])
    assert opener.open(both) is None, "to be written as it is"
    assert opener.rest() == []
    intact = FrameOpener(KEY, 101)
    assert len(intact.open(frame_of(first + second[: 3 * SEALED])) or ()) == 1
    assert [frame[28:] for frame in intact.open(frame_of(second[3 * SEALED :])) or ()] == [plain]
