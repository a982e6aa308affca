"""When frames to a receiver take another path: what the former one held is sent again if it has failed."""

from __future__ import annotations

import pytest

from glue.contract import PathChanged
from tests.transport.network import Wire


@pytest.mark.parametrize(("is_lost", "lost"), [(True, 5), (False, 0)])
def test_what_a_failed_path_held_is_sent_again_at_once(is_lost: bool, lost: int) -> None:
    wire = Wire(3)
    sender, receiver, other = wire.ids
    for destination in (1, 2):
        wire.publish(0, [destination], b"before")
    wire.run(0.1)
    wire.cut = {(sender, receiver), (sender, other)}
    for destination, frames in ((1, 5), (2, 3)):
        wire.publish(0, [destination], b"frame", frames)
    wire.cut.clear()
    statistics = wire.transports[sender].statistics
    wire.tell(sender, PathChanged(receiver, ("10.0.0.9", 1), is_lost))
    wire.run(0.0001)
    assert (statistics["frames lost with a path"], statistics["frames resent"]) == (lost, lost)
    wire.run(0.0021)
    assert len(wire.heard[receiver]) == 1 + lost
    assert len(wire.heard[other]) == 1
    wire.run(2.0)
    assert [body for _, body in wire.heard[receiver]] == [b"before"] + [b"frame"] * 5
    assert [body for _, body in wire.heard[other]] == [b"before"] + [b"frame"] * 3
    assert wire.backlog == 0
