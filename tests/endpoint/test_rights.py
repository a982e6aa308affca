"""Each call of an endpoint asks the rules first, for its own action and each of its topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import glue
from glue.simulation import SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk


@dataclass
class Door:
    is_open: bool


class Guard:
    """Rules that forbid one topic."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def require(self, action: str, topic: str) -> None:
        self.asked.append((action, topic))
        if topic == "forbidden":
            raise glue.ForbiddenError(f"{action} {topic}")


CALLS: list[tuple[str, Callable[[SimulatedEndpoint], Any]]] = [
    ("subscribe", lambda one: one.subscribe("forbidden")),
    ("subscribe", lambda one: one.subscribe(["t", "forbidden"])),
    ("publish", lambda one: one.publish("forbidden", 1)),
    ("publish", lambda one: one.announce("forbidden")),
    ("publish", lambda one: one.will("forbidden", 1)),
    ("publish", lambda one: one.topic("forbidden", qos=glue.EVENT).announce()),
    ("publish", lambda one: one.request("forbidden", 1)),
    ("respond", lambda one: one.respond("forbidden", print)),
    ("keep", lambda one: one.keep("forbidden", directory=SimulatedDisk(one.world.random("disk")))),
    ("read", lambda one: one.model("forbidden", voters=1)),
    ("subscribe", lambda one: one.topic("forbidden", Door).subscribe()),
]


@pytest.mark.parametrize(("action", "call"), CALLS)
def test_a_call_asks_the_rules(action: str, call: Callable[[SimulatedEndpoint], Any]) -> None:
    one: Any = World().endpoint("one")
    guard = one._core.guard = Guard()
    with pytest.raises(glue.ForbiddenError) as caught:
        call(one)
    assert str(caught.value) == f"{action} forbidden"
    assert guard.asked[-1] == (action, "forbidden")


def test_a_voter_has_to_be_allowed_to_write_all_of_a_model() -> None:
    for observer, asked in ((True, [("read", "m")]), (False, [("read", "m"), ("write", "m/#")])):
        one: Any = World().endpoint("one")
        guard = one._core.guard = Guard()
        one.model("m", observer=observer, **({} if observer else {"voters": 1}))
        assert guard.asked == asked
