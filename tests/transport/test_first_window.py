"""What is sent before anything was ever answered, and gets lost as a whole: found lost by one answered probe."""

from __future__ import annotations

import pytest

from glue.transport.round_trip import INITIAL
from tests.transport.network import Wire

UNANSWERED = 4 * INITIAL  # seconds: more than the first probe waits


@pytest.mark.parametrize("receivers", [1, 3])
@pytest.mark.parametrize("frames", [10, 100])
def test_a_first_window_that_is_wholly_lost_is_there_soon_after_the_first_answer(receivers: int, frames: int) -> None:
    wire = Wire(1 + receivers)
    began = wire.now
    wire.loses = lambda destination, entry: wire.now < began + 0.01 and entry[0] != "ack"
    wire.publish(0, list(range(1, 1 + receivers)), b"x", frames=frames)
    wire.run(UNANSWERED)
    assert all(len(wire.heard[id]) == frames for id in wire.ids[1:])
    assert wire.transports[wire.ids[0]].statistics["frames resent"] == frames


def test_an_answer_that_is_merely_late_has_little_sent_again() -> None:
    wire = Wire(2)
    wire.delay = UNANSWERED
    wire.publish(0, [1], b"x", frames=100)
    wire.run(1)
    assert len(wire.heard[wire.ids[1]]) == 100
    assert wire.transports[wire.ids[0]].statistics["frames resent"] <= 8


def test_a_late_answer_that_comes_piece_by_piece_has_no_more_sent_again_than_was_sent() -> None:
    wire = Wire(2)
    wire.delay, wire.jitter = UNANSWERED / 2, UNANSWERED
    wire.publish(0, [1], b"x", frames=100)
    wire.run(2)
    assert len(wire.heard[wire.ids[1]]) == 100
    assert wire.transports[wire.ids[0]].statistics["frames resent"] <= 100
