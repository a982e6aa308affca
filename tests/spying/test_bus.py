"""Topics as samples show them: rates from sequence numbers, publishers, bounds."""

from __future__ import annotations

from typing import Any

import pytest

from glue.spying import bus as module
from glue.spying.bus import PATIENCE, SOURCES, TOPICS, Bus, Sample, Source


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


def test_an_overtaken_sample_changes_neither_rate_nor_value() -> None:
    bus = Bus()
    for sequence, at in ((1, 0.0), (11, 1.0), (6, 0.5)):
        bus.take(at, sample(sequence=sequence, at=at, payload=sequence))
    topic = bus.topics["home/a"]
    assert (topic.rate_at(1.0), topic.payload, topic.published_at) == (10.0, 11, 1001.0)
    assert [each.name for each in bus.take_changed(5)] == ["home/a"]
    bus.take(1.5, sample(sequence=7, at=0.6))
    assert bus.take_changed(5) == []
    bus.take(2.0, sample(sequence=7, at=2.0, payload="of another", publisher="attic", publisher_id="a"))
    assert topic.payload == "of another"


def test_the_value_shown_is_not_replaced_by_an_older_one() -> None:
    bus = Bus()
    for place, sequence in enumerate((2, 1, 3, 2)):
        bus.take(place, sample(sequence=sequence, payload=sequence))
    topic = bus.topics["home/a"]
    assert (topic.payload, topic.received_at, bus.samples) == (3, 2.0, 4)
    bus.take(4.0, sample(sequence=1, payload="other", publisher_id="other"))
    bus.take(5.0, sample(sequence=1, payload="restarted", incarnation=9))
    assert topic.payload == "restarted"


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


def test_a_rate_holds_for_twice_the_last_pause_and_a_second() -> None:
    source = Source("kitchen", 1, 10, 1000.0, 50.0)
    assert source.rate_at(50.0) == 0.0
    source.take(30, 1004.0, 53.0)
    assert (source.rate, source.pause, source.count) == (5.0, 3.0, 20)
    assert PATIENCE == 2.0
    assert [source.rate_at(now) for now in (53.0, 60.0, 60.5, 153.0)] == [5.0, 5.0, 1 / 7.5, 0.01]
    source.take(30, 1005.0, 54.0)  # the same message again, as a retained one
    assert (source.rate, source.pause, source.count, source.received_at) == (5.0, 3.0, 20, 54.0)
    source.take(31, 1005.0, 54.5)
    assert (source.rate, source.pause, source.count) == (2.0, 0.5, 21), "the publisher's clock stood still"
    source.take(32, 1004.0, 54.5)
    assert (source.rate, source.pause, source.count) == (2.0, 0.0, 22), "no time has passed at all"
    source.take(31, 1009.0, 59.0)
    assert (source.sequence, source.at, source.received_at) == (32, 1004.0, 54.5)
    source.take(33, 1104.0, 154.5)
    assert source.rate_at(154.5) == 0.01


def test_a_topic_has_what_the_last_sample_told() -> None:
    bus = Bus()
    topic = bus.take(3.0, sample(size=80))
    assert topic is not None
    assert (topic.size, topic.mean_size, topic.retained, topic.changed) == (80, 80.0, False, True)
    assert (topic.published_at, topic.received_at, topic.payload, topic.type, topic.codec) == (
        1000.0, 3.0, 1, "json", "",
    )  # fmt: skip
    same = bus.take(4.0, sample(sequence=2, at=1.5, size=0, payload=b"x", type="t", codec="c", retained=True))
    assert same is topic
    assert (topic.size, topic.mean_size, topic.retained) == (0, 70.0, True)
    assert (topic.published_at, topic.received_at, topic.payload, topic.type, topic.codec) == (
        1001.5, 4.0, b"x", "t", "c",
    )  # fmt: skip
    assert (bus.samples, bus.left_out, topic.count) == (2, 0, 1)
    bus.take(5.0, sample(publisher_id="new", at=2.0))
    assert topic.is_rate_known, "of one of them"
    assert (TOPICS, SOURCES) == (50_000, 64)


def test_a_restarted_publisher_keeps_its_place_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOURCES", 1)
    bus = Bus()
    for publisher, incarnation in (("k", 1), ("other", 1), ("k", 2)):
        bus.take(0.0, sample(publisher_id=publisher, incarnation=incarnation))
    (source,) = bus.topics["home/a"].sources.values()
    assert (source.name, source.incarnation, source.count) == ("kitchen", 2, 0)
    bus.forget("nobody")
    assert len(bus.topics["home/a"].sources) == 1
