"""What a door makes of sessions, retained messages and late messages of another door, right or damaged.

A session with everything that one can have is handed over; each part of its value is then replaced by other values.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from tests.support import mqtt
from tests.support.bounds import changed
from tests.support.mqtt import Bench

HOUR = b"\x11\x00\x00\x0e\x10"
OTHERS: tuple[Any, ...] = (None, -1, 3, 65_536, 1.5, "a/#", [], {"a": 1})


def full() -> Bench:
    """A door where a client is away that has messages of each kind, and with retained messages."""
    old = Bench()
    old.broker.wall_clock = lambda: 1e9
    will, raw = ("w/s", b"gone", 1, True), HOUR + b"\x21\0\x03"
    away = old.subscriber(
        ("t/#", 2), ("u/+", 4 + 1), ("$share/g/v", 1), client_id="s", version=5, clean=False, raw=raw, will=will
    )
    publisher = old.connect("p", 5)
    for number in range(1, 5):
        publisher.send(mqtt.publish(f"t/{number}", b"%d" % number, number % 3, number, version=5))
    first, *_ = [message for message in away.messages() if message.qos == 2]
    away.send(mqtt.acknowledge(5, first.number), mqtt.publish("x", b"mine", 2, 9, version=5))
    away.read()
    away.leave()
    old.pass_time(10)
    more = b"\x02\0\0\0\x64\x26\0\x01k\0\x01v\x09\0\x02cd"
    publisher.send(
        *(mqtt.publish("u/1", b"waits %d" % number, 1, 10 + number, version=5, raw=more) for number in range(2))
    )
    for topic, qos in (("r/1", 0), ("r/2", 1)):
        publisher.send(mqtt.publish(topic, b"kept", qos, 30, True, version=5, raw=more))
    return old


def other_door() -> Bench:
    """A door that knows nothing yet."""
    new = Bench(now=2_000.0)
    new.broker.wall_clock = lambda: 1e9 + 5
    return new


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all parts of a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))


def outcome(bench: Bench, kind: str, value: Any) -> str:
    """What a door makes of a value: its session as it would hand it over again, retained messages, and counters."""
    broker, now = bench.broker, bench.now
    value = json.loads(json.dumps(value))  # as it travels
    if kind == "session":
        broker.give(now, value)
    elif kind == "retained":
        broker.give_retained(now, value)
    else:
        bench.subscriber(("nothing", 0), client_id="s", version=5, clean=False, raw=HOUR).leave()
        broker.give_late(now, "s", value)
    told = [broker.taken(now, name, "door") for name in sorted(broker.sessions)], broker.retained_values(now)
    counts = {what: count for what, count in sorted(broker.statistics.items()) if count}
    return f"{told} {counts}"


def mqtt_moves() -> str:
    """Return the record."""
    old = full()
    values = {"retained": old.broker.retained_values(old.now), "session": old.broker.taken(old.now, "s", "new")}
    values["late"] = values["session"]["queue"]
    lines = []
    for kind, value in values.items():
        right = outcome(other_door(), kind, value)
        lines += [f"{kind}: {str(value)[:900]}", f"  becomes {right[:900]}"]
        for path in filter(None, leaves(value)):
            answers = []
            for other in OTHERS:
                try:
                    answers.append(outcome(other_door(), kind, changed(value, path, other)))
                except Exception as error:
                    answers.append(f"raises {error!r}")
            kinds = Counter(
                "raises" if one.startswith("raises") else "malformed" if "malformed" in one else "taken"
                for one in answers
            )
            told = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
            lines.append(f"  {'/'.join(map(str, path))}: {told} [{crc32(repr(answers).encode()):08x}]")
    return "\n".join(lines) + "\n"
