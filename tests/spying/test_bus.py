"""Topics as samples show them: rates from sequence numbers, publishers, bounds."""

from __future__ import annotations

from typing import Any

import pytest

from glue.spying import bus as module
from glue.spying.bus import Bus, Sample, busiest, matching, senders


def sample(topic: str = "home/a", sequence: int = 1, at: float = 0.0, **other: Any) -> Sample:
    given = {"payload": 1, "size": 10, "type": "json", "publisher": "kitchen", "publisher_id": "k", "incarnation": 1}
    return Sample(topic, sequence=sequence, published_at=1000.0 + at, **{**given, **other})


def test_a_rate_follows_from_two_samples_however_many_messages_were_left_out() -> None:
    bus = Bus()
    bus.take(0.0, sample(sequence=1, at=0.0))
    assert not bus.topics["home/a"].is_rate_known
    bus.take(1.0, sample(sequence=1001, at=2.0))
    topic = bus.topics["home/a"]
    assert (topic.rate_at(1.0), topic.count) == (500.0, 1000)


def test_a_rate_fades_while_nothing_comes() -> None:
    bus = Bus()
    for second in range(3):
        bus.take(float(second), sample(sequence=second + 1, at=float(second)))
    topic = bus.topics["home/a"]
    assert topic.rate_at(4.5) == 1.0
    assert topic.rate_at(12.0) == pytest.approx(0.1)


def test_publishers_of_a_topic_count_apart_and_a_restart_begins_anew() -> None:
    bus = Bus()
    bus.take(0.0, sample(sequence=5))
    bus.take(0.0, sample(sequence=1, publisher="attic", publisher_id="a"))
    bus.take(1.0, sample(sequence=15, at=1.0))
    bus.take(1.0, sample(sequence=3, at=1.0, publisher="attic", publisher_id="a"))
    assert bus.topics["home/a"].rate_at(1.0) == 12.0
    bus.take(2.0, sample(sequence=1, at=2.0, incarnation=2))
    assert bus.topics["home/a"].rate_at(2.0) == 2.0
    bus.forget("a")
    assert [*bus.topics["home/a"].sources] == ["k"]


def test_an_overtaken_sample_changes_no_rate() -> None:
    bus = Bus()
    for sequence, at in ((1, 0.0), (11, 1.0), (6, 0.5)):
        bus.take(at, sample(sequence=sequence, at=at))
    assert bus.topics["home/a"].rate_at(1.0) == 10.0


def test_topics_and_publishers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOPICS", 2)
    monkeypatch.setattr(module, "SOURCES", 2)
    bus = Bus()
    for name in "abc":
        bus.take(0.0, sample(name))
        bus.take(0.0, sample("a", publisher_id=name))
    assert (len(bus.topics), bus.left_out, len(bus.topics["a"].sources)) == (2, 1, 2)
    assert [topic.name for topic in bus.take_fresh()] == ["a", "b"]
    assert bus.take_fresh() == []


def test_what_changed_is_told_once_and_what_has_no_room_later() -> None:
    bus = Bus()
    for name in "abc":
        bus.take(0.0, sample(name))
    assert [topic.name for topic in bus.take_changed(2)] == ["a", "b"]
    bus.take(0.0, sample("a"))
    assert [topic.name for topic in bus.take_changed(10)] == ["a", "c"]
    assert bus.take_changed(10) == []


def test_sums_by_publisher_and_the_busiest_topics() -> None:
    bus = Bus()
    for name, count in (("a", 10), ("b", 30)):
        bus.take(0.0, sample(name, 1))
        bus.take(1.0, sample(name, 1 + count, 1.0))
    (one,) = senders(1.0, bus.topics.values())
    assert (one.name, one.rate, one.bytes_rate, one.messages, one.topics) == ("kitchen", 40.0, 400.0, 40, 2)
    assert [topic.name for topic in busiest(1.0, bus.topics.values(), 1)] == ["b"]
    assert [topic.name for topic in matching(bus.topics.values(), "A")] == ["a"]
