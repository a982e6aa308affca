"""What a recorder is given, from the first to the last message of a recorded pattern."""

from __future__ import annotations

from math import inf
from typing import Any

from glue.contract import Record
from glue.topics.bundle import LIVE
from glue.topics.fastpath import TopicsFastPath
from tests.topics.parties import added, message, topics, wants


def test_a_recorder_is_given_numbered_messages_until_its_pattern_ends() -> None:
    layer, seen = topics(), list[tuple[Any, ...]]()
    layer.receive(0.0, [added("ann"), wants("ann", "#")])

    def record(now: float, group: Any, expires: float) -> None:
        seen.append((now, group.topic, group.sequence, group.payloads, group.retain, expires))

    layer.send(0.0, [message("a/b", b"before"), Record("a/+", record), message("b", b"another")])
    layer.send(1.0, [message("a/b", b"1", b"2", lifespan=5.0), message("a/b", b"3", retain=True)])
    layer.send(2.0, [Record("b", record), Record("a/+", None), message("a/b", b"after"), message("b", b"4")])
    assert seen == [
        (1.0, "a/b", 2, [b"1", b"2"], LIVE, 6.0), (1.0, "a/b", 4, [b"3"], LIVE, inf), (2.0, "b", 2, [b"4"], LIVE, inf),
    ]  # fmt: skip


def test_a_recorded_topic_leaves_the_fast_path_for_as_long() -> None:
    layer, seen = topics(), list[bytes]()
    layer.receive(0.0, [added("ann"), wants("ann", "#")])
    fast = TopicsFastPath(layer)
    layer.send(0.0, [message("a", b"1")])
    assert fast.send_one(0.0, message("a", b"2")) is not None
    layer.send(0.0, [Record("#", lambda now, group, expires: seen.extend(group.payloads))])
    assert fast.send_one(0.0, message("a", b"3")) is None
    layer.send(0.0, [message("a", b"3"), Record("#", None)])
    assert fast.send_one(0.0, message("a", b"4")) is not None
    assert seen == [b"3"]
