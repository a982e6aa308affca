"""Receivers that cannot begin: they are tried again, not at once and not forever in vain."""

from __future__ import annotations

from typing import Any, ClassVar

import glue
from glue.endpoint.receiver_running import RETRY
from glue.simulation import World


class Moody(glue.Receiver):
    """Begins only while all is well."""

    idle = 0.5
    is_well: ClassVar[bool] = True
    heard: ClassVar[list[tuple[str, Any]]] = []

    def activate(self, context: glue.Context) -> None:
        if not self.is_well:
            raise OSError("not now")

    def receive(self, context: glue.Context, message: Any) -> None:
        self.heard.append((context.id, message))
        if message == "wait":
            context.after(3, "late", durable=True)
            context.after(6 * RETRY, "later", durable=True)


def test_a_receiver_with_timers_that_cannot_begin_is_tried_again_now_and_then() -> None:
    Moody.heard.clear()
    world = World(3)
    host = world.endpoint("host")
    kind = host.receivers("moody", Moody, host.model("plant", voters=1), partitions=2, idle=0.5)
    assert world.run_until(lambda: kind.owned == 2, 10)
    host.send("moody/x", "wait")
    world.run(2.0)
    assert kind.active == 0, "it is put away"
    Moody.is_well = False
    try:
        world.run(3 * RETRY)
        assert host.statistics["endpoint"]["receivers failed"] == 3
    finally:
        Moody.is_well = True
    world.run(RETRY)
    assert Moody.heard == [("x", "wait"), ("x", "late")]
    world.run(3 * RETRY)
    assert Moody.heard == [("x", "wait"), ("x", "late"), ("x", "later")]
