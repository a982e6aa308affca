"""What a peer publishes where nothing is to be published is dropped, and leaves nothing that waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import glue
from glue.contract import Delivery, Event, PeerInterest, Publication
from glue.endpoint.fork import heirs
from glue.simulation import SimulatedEndpoint, World
from glue.simulation.disk import SimulatedDisk


@dataclass
class Door:
    is_open: bool


class Interests:
    """An observer that notes the interests of peers."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def note(self, now: float, event: Event) -> Sequence[Delivery]:
        if isinstance(event, PeerInterest):
            self.found += [one for one in event.added if one.startswith("$glue/")]
        return ()


BEGIN: dict[str, Callable[[SimulatedEndpoint, World], Any]] = {
    "announce": lambda endpoint, world: endpoint.announce("t", publish_every=1),
    "respond": lambda endpoint, world: endpoint.respond("t", lambda request: None),
    "remember": lambda endpoint, world: endpoint.remember("t"),
    "keep": lambda endpoint, world: endpoint.keep("t"),
    "keep on a disk": lambda endpoint, world: endpoint.keep("t", directory=SimulatedDisk(world.random("disk"))),
    "will": lambda endpoint, world: endpoint.will("t", "gone"),
    "offer": lambda endpoint, world: endpoint.topic("t", qos=glue.EVENT).announce(),
    "request": lambda endpoint, world: endpoint.topic("t", qos=glue.EVENT).subscribe(),
    "type": lambda endpoint, world: endpoint.topic("t", Door).publish(Door(True)),
    "typed subscription": lambda endpoint, world: endpoint.topic("t", Door).subscribe(),
    "consumer": lambda endpoint, world: endpoint.subscribe("t", consumer="c"),
    "receipt": lambda endpoint, world: endpoint.publish("t", 1, receipt=True, acks="disk"),
}


@pytest.mark.parametrize("name", BEGIN)
def test_what_is_published_to_an_interest_of_glue_leaves_nothing_that_waits(name: str) -> None:
    world = World()
    one, other = world.endpoint("one"), world.endpoint("other")
    seen = Interests()
    other._core.observers.add(seen)
    assert world.run_until(lambda: one.peers and other.peers, 5)
    BEGIN[name](one, world)
    world.run(1.0)
    topics = [found for found in seen.found if "+" not in found and "#" not in found]
    assert topics
    before = one.accounting.arrived
    for topic in topics:
        other._order_quietly(Publication(topic, [b"stray"], world.time, False, 5))
    world.run(1.0)
    assert one.accounting.arrived >= before + len(topics)
    assert one.accounting.waiting == 0, one.accounting
    assert one._core.waiting == 0


def test_all_that_has_a_lock_gets_a_new_one_in_a_forked_child() -> None:
    """Else the child waits for ever, where another thread of its parent held the lock at the fork."""
    world = World()
    one, other = world.endpoint("one"), world.endpoint("other")
    assert world.run_until(lambda: one.peers and other.peers, 5)
    keeper = one.keep("t", directory=SimulatedDisk(world.random("disk")))
    one.subscribe("t", deadline=5, qos=glue.EVENT)
    one.subscribe("t", consumer="c")
    one.publish("t", 1, delay=5)
    other.will("t", "gone")
    world.run(1.0)
    here: Any = one
    core = here._core
    assert core.history is not None
    parts = [
        core.requests, core.durability, core.history, core.wills.holder, here._matching, here._delays, here._consuming,
        keeper._kept, *here._deadlines.values(),
    ]  # fmt: skip
    for part in parts:
        assert part in heirs, part
        name = "lock" if hasattr(part, "lock") else "_lock"
        before = getattr(part, name)
        part._after_fork()
        assert getattr(part, name) is not before, part
