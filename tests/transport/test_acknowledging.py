"""When it is acknowledged: seldom, as each time costs both sides a turn; and when asked, as none can be relied upon."""

from __future__ import annotations

import pytest

from glue.contract import Accept
from glue.transport.acknowledger import MOST, MOST_OF_GROUP
from glue.transport.round_trip import MAX_PROBE
from glue.transport.wire import WINDOW
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


@pytest.mark.parametrize("receivers", [[1], [1, 2]], ids=["one", "several"])
def test_who_was_stopped_goes_on_though_the_acknowledgement_that_says_so_is_lost(receivers: list[int]) -> None:
    wire = Wire(3)
    sender, receiver = wire.ids[0], wire.ids[1]
    wire.send(receiver, Accept(False))
    for _ in range(100):
        wire.publish(0, receivers, b"frame", 100)
    wire.run(10)
    assert 0 < len(wire.heard[receiver]) < 10_000
    asked = wire.transports[sender].statistics["window probes"]
    assert 10 / MAX_PROBE <= asked < 10 / MAX_PROBE + 10
    wire.cut = {(receiver, sender)}
    wire.send(receiver, Accept(True))
    wire.run(1)
    wire.cut.clear()
    wire.run(2)
    assert [len(wire.heard[wire.ids[number]]) for number in receivers] == [10_000] * len(receivers)
    assert wire.backlog == 0


@pytest.mark.parametrize("receivers", [[1], [1, 2]], ids=["one", "several"])
def test_what_is_published_while_nothing_may_come_goes_on_its_way_too(receivers: list[int]) -> None:
    wire = Wire(3)
    sender, receiver = wire.ids[0], wire.ids[1]
    wire.send(receiver, Accept(False))
    for _ in range(WINDOW // 64):
        wire.publish(0, receivers, b"frame", 64)
    wire.run(1)
    assert wire.backlog == 0
    wire.publish(0, receivers, b"last")
    wire.cut = {(receiver, sender)}
    wire.send(receiver, Accept(True))
    wire.run(1)
    wire.cut.clear()
    wire.run(1)
    assert wire.heard[receiver][-1] == (sender, b"last")
    assert wire.backlog == 0
