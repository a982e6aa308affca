"""A message that comes by itself, and that nothing stands before, is not queued; nobody else may notice."""

from __future__ import annotations

from typing import Any

from glue.contract import Downward, Interest, Outbound
from glue.transport.wire import KEY
from tests.transport.network import Wire

COMPANY = Interest([], [])  # passes through; but who goes beside it does not go alone


def told(down: list[Downward]) -> list[tuple[Any, ...]]:
    return [(item.peers, item.bodies, item.header[KEY]) for item in down if isinstance(item, Outbound)]


def test_a_lone_message_leaves_as_one_in_company_does_until_the_window_is_full() -> None:
    alone, in_company = Wire(2), Wire(2)
    sent: list[list[tuple[Any, ...]]] = [[], []]
    for number in range(400):
        for wire, into, company in ((alone, sent[0], []), (in_company, sent[1], [COMPANY])):
            message = Outbound((wire.ids[1],), [b"%d" % number])
            into += told(wire.transports[wire.ids[0]].send(wire.now, [message, *company]))
    assert sent[0] == sent[1]
    assert 100 < len(sent[0]) < 400
    assert alone.backlog == in_company.backlog


def test_a_lone_message_does_not_overtake_what_waits() -> None:
    wire = Wire(2)
    bodies = [b"%d" % number for number in range(1000)]
    for body in bodies:
        wire.publish(0, [1], body)
    wire.run(1)
    assert [body for _, body in wire.heard[wire.ids[1]]] == bodies
    assert wire.backlog == 0


def test_a_lone_message_that_is_too_old_is_not_sent() -> None:
    wire = Wire(2)
    wire.publish(0, [1], b"first")
    wire.run(0.1)
    transport = wire.transports[wire.ids[0]]
    assert not told(transport.send(wire.now, [Outbound((wire.ids[1],), [b"late"], expires=wire.now - 1)]))
    assert transport.statistics["frames expired unsent"] == 1
