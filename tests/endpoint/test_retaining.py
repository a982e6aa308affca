"""Retained values: the last one of a topic, for those who come late."""

from __future__ import annotations

import threading

import pytest

from tests.support.lan import PATIENCE, Lan, listen


def test_a_late_joiner_gets_the_last_value(lan: Lan) -> None:
    a = lan.start("a")
    for number in range(3):
        a.publish("lamp", number, retain=True, type="state")
    b = lan.start("b")
    (message,) = listen(b, "lamp").wait(1)
    assert (message.payload, message.sequence, message.type, message.retained) == (2, 3, "state", True)
    assert message.publisher == "a"


def test_a_late_subscription_gets_the_last_value_too(lan: Lan) -> None:
    a, b = lan.pair()
    early = listen(b, "lamp", a)
    a.publish("lamp", "on", retain=True)
    assert not early.wait(1)[0].retained
    assert listen(b, "+").wait(1)[0].retained
    assert listen(a, "#").wait(1)[0].payload == "on"


def test_values_of_every_topic_that_matches_are_given(lan: Lan) -> None:
    a = lan.start("a")
    for number in range(100):
        a.publish(f"lamp/{number}", number, retain=True)
    ear = listen(lan.start("b"), "lamp/#")
    ear.wait(100)
    assert sorted(ear.payloads) == list(range(100))


def test_each_publisher_has_a_value_of_its_own(lan: Lan) -> None:
    a, b = lan.pair()
    a.publish("lamp", "of a", retain=True)
    b.publish("lamp", "of b", retain=True)
    ear = listen(lan.start("c"), "lamp")
    ear.wait(2)
    assert sorted(ear.payloads) == ["of a", "of b"]


def test_what_is_not_to_be_retained_is_not(lan: Lan) -> None:
    a = lan.start("a")
    a.publish("lamp", "gone")
    a.publish("other", "kept", retain=True)
    a.flush(PATIENCE)  # what is published at the start waits for who is late
    ear = listen(lan.start("b"), "#")
    assert ear.wait(1)[0].payload == "kept"
    assert a.flush(PATIENCE)
    assert len(ear.heard) == 1


def test_an_empty_payload_clears_it(lan: Lan) -> None:
    a = lan.start("a")
    ear = listen(a, "lamp")
    a.publish("lamp", "on", retain=True)
    a.publish("lamp", b"", retain=True)
    a.publish("other", "kept", retain=True)
    ear.wait(2)
    assert ear.payloads == ["on", b""]
    late = listen(lan.start("b"), "#")
    assert late.wait(1)[0].topic == "other"
    assert a.flush(PATIENCE)
    assert len(late.heard) == 1


def test_a_value_that_outlived_its_lifespan_is_not_given(lan: Lan) -> None:
    a = lan.start("a")
    a.publish("lamp", "stale", retain=True, lifespan=0.01)
    a.publish("other", "fresh", retain=True, lifespan=60)
    threading.Event().wait(0.05)
    ear = listen(lan.start("b"), "#")
    assert ear.wait(1)[0].payload == "fresh"
    assert a.flush(PATIENCE)
    assert len(ear.heard) == 1


@pytest.mark.parametrize("count", [1, 1000])
def test_from_the_retained_value_to_live_messages_nothing_is_missing_or_doubled(lan: Lan, count: int) -> None:
    a = lan.start("a")
    a.publish("t", 0, retain=True)
    stop = threading.Event()

    def publish() -> None:
        for number in range(1, count + 1):
            a.publish("t", number, retain=True)
        stop.set()

    publisher = threading.Thread(target=publish)
    publisher.start()
    ear = listen(lan.start("b"), "t")
    assert stop.wait(PATIENCE)
    publisher.join(PATIENCE)
    ear.wait_until(lambda heard: bool(heard) and heard[-1].payload == count)
    numbers = ear.payloads
    assert numbers == list(range(numbers[0], count + 1))
    assert [message.retained for message in ear.heard[1:]] == [False] * (len(numbers) - 1)
