"""How often is acknowledged: each time costs both sides a turn."""

from __future__ import annotations

import pytest

from glue.transport.acknowledger import MOST, MOST_OF_GROUP
from tests.transport.network import Wire


@pytest.mark.parametrize(("receivers", "apart"), [([1], MOST), ([1, 2], MOST_OF_GROUP)], ids=["one", "several"])
def test_in_a_long_stream_so_many_frames_are_acknowledged_at_once(receivers: list[int], apart: int) -> None:
    wire = Wire(3)
    counts = []
    for _ in range(2):
        for _ in range(300):
            wire.publish(0, receivers, b"frame", 64)
            wire.run(0.0001)
        counts.append(wire.transports[wire.ids[1]].statistics["acknowledgements sent"])
    wire.run(1)
    assert counts[1] - counts[0] == pytest.approx(300 * 64 / apart, abs=2)
    assert wire.backlog == 0
