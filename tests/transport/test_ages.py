"""How old a message is when it arrives, in seconds."""

from __future__ import annotations

import pytest

from tests.transport.network import Wire


def test_what_was_resent_tells_how_long_it_was_under_way() -> None:
    wire = Wire(2, parity=0.0)
    sender, receiver = wire.ids
    wire.publish(0, [1], b"x")
    wire.run(1.0)
    wire.cut = {(sender, receiver)}
    wire.publish(0, [1], b"y")
    began = wire.now
    wire.run(0.5)
    wire.cut = set()
    wire.run(3.0)
    assert [body for _, body in wire.heard[receiver]] == [b"x", b"y"]
    latest = [item.header["transport"] for source, _, item in wire.sent if source == sender][-1]
    assert wire.ages[receiver][-1] == pytest.approx(latest[2] / 1000, abs=1e-9)
    assert 0.4 < wire.ages[receiver][-1] < wire.now - began
