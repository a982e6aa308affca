"""`glue topics --list`: each topic in use stands in the list once, with types, publishers, subscribers and rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import glue
from glue.cmd.topic_list import Listener, Roles, entries
from glue.simulation import World


@dataclass
class Temperature:
    celsius: float


def test_topics_with_and_without_messages_are_listed() -> None:
    world = World()
    kitchen, hall, lister = (world.endpoint(name) for name in ("kitchen", "hall", "lister"))
    listener, roles = Listener(), Roles()
    lister.watch_presence("#", roles)
    lister.subscribe("#", listener)
    assert world.run_until(lambda: len(lister.peers) == len(kitchen.peers) == 2, 5)
    typed = kitchen.topic("home/kitchen/temperature", Temperature)
    hall.topic("home/+/temperature", Temperature).subscribe()
    hall.subscribe("home/#", str)
    hall.subscribe("jobs/#", str, group="workers")
    gone = hall.subscribe("gone/#")
    kitchen.announce("garden/#", publish_every=2)
    kitchen.publish("home/kept", {"on": True}, retain=True)
    world.run(0.1)
    gone.close()
    for number in range(4):
        typed.publish(Temperature(float(number)))
    kitchen.publish("home/raw", b"12345", properties={"a": "b"})
    world.run(1)
    found = {row["topic"]: row for row in entries(cast(glue.Endpoint, lister), listener, roles, 2.0)}
    assert [*found] == ["home/kept", "home/kitchen/temperature", "home/raw", "garden/#", "jobs/#"]
    assert shown(found["home/kitchen/temperature"]) == ([typed.type], ["kitchen"], ["hall"], 2.0, 30.0)
    assert shown(found["home/raw"]) == ([], ["kitchen"], ["hall"], 0.5, 2.5)
    assert shown(found["garden/#"]) == ([], ["kitchen"], [], 0.0, 0.0)
    assert shown(found["jobs/#"]) == ([], [], ["hall"], 0.0, 0.0)


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("types", "publishers", "subscribers", "rate", "bytes_rate"))
