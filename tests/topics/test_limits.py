"""Limited rates: malformed interests, bounds, and wrapped topics without anything inside."""

from __future__ import annotations

from collections import Counter

import pytest

from glue.contract import Delivery, Subscribe
from glue.topics import limits as module
from glue.topics.bundle import MessageGroup, encode
from glue.topics.limits import Limits
from glue.topics.wrapped import interval_of, limited, unwrapped
from tests.topics.parties import added, deliveries, inbound, message, topics


@pytest.mark.parametrize("text", ["", "0/a", "x/a", "10", "10/", "99999999999/a", "10/a+", "-1/a", "\u0661/a"])
def test_a_malformed_limited_interest_is_counted(text: str) -> None:
    limits = Limits(counts := Counter[str]())
    limits.add("$glue/limited/" + text)
    limits.remove("$glue/limited/" + text)
    assert not limits
    assert counts["malformed interest"] == 1


def test_interests_are_counted_by_endpoint() -> None:
    limits = Limits(Counter())
    for _ in range(2):
        limits.add(limited(100, "a/+"))
    limits.remove(limited(100, "a/+"))
    assert limits.intervals("a/b") == (100,)
    limits.remove(limited(100, "a/+"))
    limits.remove(limited(100, "a/+"))
    assert limits.intervals("a/b") == ()
    assert not limits


def test_what_has_no_room_to_wait_goes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOPICS", 1)
    monkeypatch.setattr(module, "WAITING_SIZE", 3)
    limits = Limits(counts := Counter[str]())
    limits.add(limited(1000, "#"))
    assert [item.topic for item in limits.offer(0.0, message("a", b"1"))] == [limited(1000, "a")]
    assert list(limits.offer(0.0, message("a", b"12"))) == []
    assert [item.payloads for item in limits.offer(0.0, message("a", b"1234"))] == [[b"1234"]]
    assert len(list(limits.offer(0.0, message("b", b"1")))) == len(list(limits.offer(0.0, message("b", b"2")))) == 1
    assert counts["limited rates exceeded: too many topics"] == 3
    assert [item.payloads for item in limits.due(1.0)] == [[b"12"]]
    assert list(limits.due(2.0)) == list(limits.due(3.0)) == []
    assert limits.deadline == float("inf")


def test_wrapped_topics() -> None:
    assert unwrapped(limited(5, "a/b")) == "a/b"
    assert unwrapped("$glue/limited/5") == ""
    assert unwrapped("$glue/request/5/a") == "$glue/request/5/a"
    assert interval_of(limited(5, "a/#")) == (5, "a/#")


def test_a_forged_wrapped_topic_without_a_topic_inside_is_dropped() -> None:
    layer = topics()
    layer.receive(0.0, [added("peer")])
    layer.send(0.0, [Subscribe("token", limited(5, "#"))])
    bad = encode([MessageGroup("$glue/limited/5", 1, 0, [b"x"], 1)])
    good = encode([MessageGroup(limited(5, "a/b"), 1, 0, [b"x"], 1)])
    up, _ = layer.receive(0.0, [inbound("peer", bad, good)])
    found: list[Delivery] = deliveries(up)
    assert [(one.topic, one.wrapped) for one in found] == [("a/b", limited(5, "a/b"))]
    assert layer.statistics["malformed wrapped topic"] == 1
