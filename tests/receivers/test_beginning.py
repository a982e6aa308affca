"""Receivers that cannot begin, or whose store fails: they are tried again, not at once and not forever in vain."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any, ClassVar

import pytest

import glue
from glue.endpoint.receiver_running import RETRY
from glue.simulation import World
from tests.receivers.desk import Desk, Shelf
from tests.receivers.test_turns import batch, serving


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


def test_a_receiver_with_durable_timers_is_woken_until_its_store_works() -> None:
    desk, shelf = Desk(), Shelf()
    shelf.timed = ["x"]
    shelf.documents["x"] = {"state": {"a": 1}, "timers": [[1105.0, "ring"]]}
    kind = serving(desk, shelf)
    assert (shelf.calls[1:], desk.got) == ([("load", 0, "x")], [])
    (activation,) = kind.activations.values()
    assert activation.receiver is not None
    kind.stop(activation)
    desk.run()
    assert kind.activations == {}
    shelf.calls.clear()
    shelf.error = OSError("away")
    kind.wake("x")
    desk.run()
    assert (len(shelf.calls), desk.statistics["receivers fenced off"], kind.activations) == (1, 1, {})
    desk.tick()
    assert (len(shelf.calls), desk.statistics["receivers fenced off"]) == (2, 2)
    shelf.error = None
    desk.tick()
    assert (len(shelf.calls), [*kind.activations]) == (3, ["x"])
    desk.tick()
    assert len(shelf.calls) == 3
    desk.time = 105.0
    desk.tick()
    assert desk.got == [("x", "ring")]


def test_a_durable_timer_rings_although_the_store_failed_at_a_message_before_it() -> None:
    desk, shelf = Desk(), Shelf()
    shelf.timed = ["x"]
    shelf.documents["x"] = {"timers": [[1105.0, "ring"]]}
    serving(desk, shelf)
    shelf.error, desk.held = OSError("away"), []
    desk.deliver(batch(1, 1, ("x", {"keep": 5})))
    desk.run()
    desk.tick(5.0)
    (resume,) = desk.held
    shelf.error = desk.held = None
    resume(None, None)
    desk.tick()
    desk.tick()
    assert desk.got == [("x", {"keep": 5}), ("x", "ring")], "though its sender does not send the first one again"


def test_a_receiver_with_durable_timers_that_cannot_be_made_is_tried_again() -> None:
    desk, shelf, made = Desk(), Shelf(), []

    def fail() -> None:
        made.append(desk.time)
        raise OSError("not now")

    kind = serving(desk, shelf)
    shelf.documents["x"] = {"timers": [[1101.0, "ring"]]}
    kind.factory = fail
    kind.wake("x")
    desk.run()
    for _ in range(11):
        desk.tick(1.0)
    assert made == [100.0, 105.0, 110.0]


@pytest.mark.parametrize("where", ["activate", "receive", "deactivate"])
@pytest.mark.parametrize("error", [SystemExit, CancelledError])
def test_a_receiver_that_exits_or_looks_at_a_cancelled_task_fails_on_its_message_alone(
    where: str, error: type[BaseException]
) -> None:
    desk, got = Desk(), []

    class Moody:
        is_well = False

        def fail(self, place: str) -> None:
            if place == where and not Moody.is_well:
                raise error

        def activate(self, context: glue.Context) -> None:
            self.fail("activate")

        def receive(self, context: glue.Context, message: int) -> None:
            self.fail("receive")
            got.append(message)

        def deactivate(self, context: glue.Context) -> None:
            self.fail("deactivate")

    kind = serving(desk)
    kind.factory = Moody
    for number in (1, 2):
        desk.runtime.send_text("sum/x", number)
        desk.run()
        if where == "deactivate" and number == 1:
            kind.stop(kind.activations["x"])
            desk.run()
        Moody.is_well = True
    assert got == ([1, 2] if where == "deactivate" else [2])
    assert not kind.activations["x"].is_scheduled
