"""Acknowledgements that cannot be true are counted, and change nothing."""

from __future__ import annotations

from glue.contract import Inbound
from glue.transport.wire import KEY
from tests.transport.network import Wire

COUNTER = "acknowledgements of what was never sent"


def test_an_acknowledgement_of_what_was_never_sent_is_counted() -> None:
    wire = Wire(2)
    wire.publish(0, [1], b"x")
    wire.run(1.0)
    sender, receiver = wire.ids
    channel = next(item.header[KEY][-2] for source, _, item in wire.sent if source == sender)
    counters = wire.transports[sender].statistics
    for upto, count in ((1, 0), (2, 1), (99, 2)):
        wire.tell(sender, Inbound(receiver, 1, None, {KEY: ["ack", 0, 4096, channel, upto]}, [b"[]"]))
        assert counters[COUNTER] == count
    wire.publish(0, [1], b"y")
    wire.run(1.0)
    assert wire.heard[receiver] == [(sender, b"x"), (sender, b"y")]
    assert wire.backlog == 0
