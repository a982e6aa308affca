"""`glue topics --list`: each topic in use stands in the list once, with types, publishers, subscribers and rates."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from glue.cmd.topic_list import entries
from glue.spying.bus import Bus, Sample
from glue.spying.roles import Announced, Roles
from tests.support.lan import PATIENCE, Ear, Lan


def test_topics_with_and_without_messages_are_listed() -> None:
    bus, roles = Bus(), Roles()
    for one in (
        Announced("home/kitchen/temperature", "publisher", "kitchen", "Temperature"),
        Announced("home/+/temperature", "subscriber", "hall", "Temperature"),
        Announced("home/#", "subscriber", "hall"),
        Announced("jobs/#", "subscriber", "hall"),
        Announced("garden/#", "publisher", "kitchen"),
        Announced("ask/#", "responder", "kitchen"),
    ):
        roles.change(one, True)
    for second in (1.0, 3.0):
        number = int(2 * second)
        bus.take(second, Sample("home/kitchen/temperature", 21.5, 15, "json", "kitchen", "k", 1, number, second))
    bus.take(3.0, Sample("home/raw", b"12345", 5, "bytes", "attic", "a", 1, 7, 3.0, False, "msgpack"))
    found = {row["topic"]: row for row in entries(bus, roles, 3.0)}
    assert [*found] == ["home/kitchen/temperature", "home/raw", "garden/#", "jobs/#"]
    assert shown(found["home/kitchen/temperature"]) == (["Temperature"], ["kitchen"], ["hall"], [], 2.0, 30.0)
    assert shown(found["home/raw"]) == ([], ["attic"], ["hall"], ["msgpack"], 0.0, 0.0)
    assert shown(found["garden/#"]) == ([], ["kitchen"], [], [], 0.0, 0.0)
    assert shown(found["jobs/#"]) == ([], [], ["hall"], [], 0.0, 0.0)


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("types", "publishers", "subscribers", "codecs", "rate", "bytes_rate"))


def test_the_list_is_no_subscriber(lan: Lan) -> None:
    kitchen, hall = lan.pair()
    heard = Ear()
    hall.subscribe("home/#", heard)
    assert kitchen.wait_for_subscribers("home/lamp", 1, timeout=PATIENCE)
    kitchen.publish("home/kept", "on", retain=True)
    seen: set[str] = set()
    kitchen.watch_presence("#", lambda change: seen.add(f"{change.kind} {change.pattern}"))
    options = [f"--{name.replace('_', '-')}={lan.settings[name]}" for name in ("interface", "network_id")]
    options += [f"--multicast-address={lan.settings['multicast_address']}", "--duration=1.5", "--json"]
    command = [sys.executable, "-m", "glue.cmd.topics", "--list", *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    [listed] = [line for line in map(json.loads, ran.stdout.splitlines()) if line["event"] == "topics"]
    assert [(row["topic"], row["publishers"], row["subscribers"]) for row in listed["topics"]] == [
        ("home/kept", [kitchen.name], [hall.name])
    ]
    assert "subscriber #" not in seen
    assert any(change.startswith("subscriber home/#") for change in seen)
