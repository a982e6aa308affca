"""Receivers that are there, and never acknowledge anything."""

from __future__ import annotations

from tests.transport.network import Wire


def test_groups_in_each_of_which_one_never_answers_leave_room_for_others() -> None:
    silent = 70
    wire = Wire(2 + silent)
    wire.cut = {(wire.ids[n], wire.ids[0]) for n in range(2, 2 + silent)}
    for number in range(2, 2 + silent):
        wire.publish(0, [1, number], b"%d" % number)
        wire.run(0.05)
    wire.run(1.0)
    assert [body for _, body in wire.heard[wire.ids[1]]] == [b"%d" % number for number in range(2, 2 + silent)]
    assert wire.backlog == 0
    assert "messages sent by unicast for want of a group" not in wire.transports[wire.ids[0]].statistics
