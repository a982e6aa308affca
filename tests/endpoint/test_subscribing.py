"""Subscribing: handlers and iterators, patterns, what a message tells, and what a handler may do."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import glue
from tests.support.lan import PATIENCE, Ear, Lan, listen


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("", "the pattern is empty"),
        ("a/#/b", "'#' at level 1 must be the last level"),
        ("a+/b", "level 0 is 'a[+]'; a wildcard must be a whole level"),
        ("a\0", "NUL at character 1"),
        (b"bytes", "expected a string"),
        (None, "expected a string"),
    ],
)
def test_a_wrong_pattern_is_refused(lan: Lan, pattern: str, complaint: str) -> None:
    a = lan.start("a")
    with pytest.raises(glue.TopicError, match=complaint):
        a.subscribe(pattern)


def test_to_wait_for_subscribers_takes_a_topic_not_a_pattern(lan: Lan) -> None:
    with pytest.raises(glue.TopicError, match="'#' at character 2 is a wildcard; wildcards are for patterns"):
        lan.start("a").wait_for_subscribers("t/#", 1, 0)


def test_a_handler_that_cannot_be_called_or_would_have_to_be_awaited_is_refused(lan: Lan) -> None:
    async def coroutine(message: glue.Message) -> None:
        pass

    a = lan.start("a")
    with pytest.raises(glue.ConfigurationError, match="handler='print': expected something to call"):
        a.subscribe("t", "print")  # type: ignore[call-overload]
    with pytest.raises(glue.ConfigurationError, match=r"a coroutine function is for glue\.aio\.Endpoint"):
        a.subscribe("t", coroutine)


def test_a_message_tells_where_it_comes_from(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "room/temperature", a)
    before = time.time()
    a.publish("room/temperature", "first")
    a.publish("room/temperature", {"celsius": 21.5}, type="reading")
    first, message = ear.wait(2)
    assert (message.topic, message.payload, message.type) == ("room/temperature", {"celsius": 21.5}, "reading")
    assert (message.publisher, message.publisher_id, message.incarnation) == ("a", a.id, a.incarnation)
    assert (first.sequence, message.sequence) == (1, 2)
    assert (first.type, message.retained) == (None, False)
    assert before - 0.001 <= first.published_at <= message.published_at <= time.time() + 0.001
    assert repr(first) == "<Message room/temperature #1 from a: 'first'>"


@pytest.mark.parametrize("payload", [bytes(1_000_000), "x" * 1_000_000, list(range(100_000)), {"key": "x" * 100_000}])
def test_a_large_message_is_shown_in_short(lan: Lan, payload: Any) -> None:
    a = lan.start("a")
    ear = listen(a, "t")
    a.publish("t", payload)
    assert len(repr(ear.wait(1)[0])) < 150


def test_each_topic_of_a_publisher_has_a_sequence_of_its_own(lan: Lan) -> None:
    a = lan.start("a")
    ear = listen(a, "#")
    for topic in ("x", "y", "x"):
        a.publish(topic, None)
    assert [(message.topic, message.sequence) for message in ear.wait(3)] == [("x", 1), ("y", 1), ("x", 2)]


@pytest.mark.parametrize(
    ("pattern", "heard"),
    [
        ("home/kitchen/lamp", ["home/kitchen/lamp"]),
        ("home/+/lamp", ["home/kitchen/lamp", "home//lamp"]),
        ("home/#", ["home/kitchen/lamp", "home//lamp", "home", "home/kitchen"]),
        ("+/kitchen", ["home/kitchen"]),
        ("#", ["home/kitchen/lamp", "home//lamp", "home", "home/kitchen", "/", "ключ"]),
        ("+", ["home", "ключ"]),
        ("$private/#", ["$private/key"]),
        ("$private/+", ["$private/key"]),
        ("+/key", []),
    ],
)
def test_wildcards_match_as_in_mqtt(lan: Lan, pattern: str, heard: list[str]) -> None:
    a, b = lan.pair()
    ear, own, end = listen(b, pattern), listen(a, pattern), listen(b, "$end", a)
    for topic in ("home/kitchen/lamp", "home//lamp", "home", "home/kitchen", "/", "ключ", "$private/key"):
        a.publish(topic, 1)
    a.publish("$end", 1)
    end.wait(1)
    assert [message.topic for message in ear.heard] == heard
    assert [message.topic for message in own.wait(len(heard))] == heard


def test_an_endpoint_hears_its_own_messages(lan: Lan) -> None:
    a = lan.start("a")
    ear = listen(a, "t")
    a.publish("t", "to myself")
    (message,) = ear.wait(1)
    assert (message.payload, message.publisher, message.publisher_id) == ("to myself", "a", a.id)


def test_handlers_of_one_topic_each_get_every_message(lan: Lan) -> None:
    a, b = lan.pair()
    ears = [listen(b, pattern) for pattern in ("t/x", "t/x", "t/+", "#")]
    assert a.wait_for_subscribers("t/x", 1, PATIENCE)
    a.publish_many("t/x", range(100))
    for ear in ears:
        ear.wait(100)
        assert ear.payloads == list(range(100))


def test_an_iterator_waits_for_each_message_and_ends_with_its_subscription(lan: Lan) -> None:
    a, b = lan.pair()
    subscription = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    ear = Ear()

    def read() -> None:
        for message in subscription:
            ear(message)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(3):
        a.publish("t", number)
        ear.wait(number + 1)
    subscription.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()
    assert ear.payloads == [0, 1, 2]


def test_an_iterator_ends_with_its_endpoint(lan: Lan) -> None:
    a = lan.start("a")
    subscription = a.subscribe("t")
    reader = threading.Thread(target=list, args=(subscription,))
    reader.start()
    a.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()
    assert subscription.closed


def test_get_gives_up_in_time(lan: Lan) -> None:
    a = lan.start("a")
    subscription = a.subscribe("t")
    with pytest.raises(TimeoutError, match=r"no message on 't' in 0\.01 s"):
        subscription.get(timeout=0.01)
    a.publish("t", "late")
    assert subscription.get(PATIENCE).payload == "late"


def test_what_waits_can_be_read_after_closing_and_then_no_more(lan: Lan) -> None:
    a = lan.start("a")
    with a.subscribe("t") as subscription:
        ear = listen(a, "t")
        a.publish_many("t", range(3))
        ear.wait(3)
        assert next(subscription).payload == 0
    assert [message.payload for message in subscription] == [1, 2]
    with pytest.raises(glue.ClosedError, match="the subscription to 't' is closed, and all was read"):
        subscription.get()
    assert repr(subscription) == "<Subscription 't' closed>"


def test_a_subscription_with_a_handler_is_not_an_iterator_as_well(lan: Lan) -> None:
    subscription = lan.start("a").subscribe("t", print)
    with pytest.raises(TypeError, match="the subscription to 't' has a handler"):
        subscription.get()


def test_several_threads_share_the_messages_of_one_iterator(lan: Lan) -> None:
    a, b = lan.pair()
    subscription = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    ear, all_there = Ear(), threading.Barrier(4)

    def read() -> None:
        ear(subscription.get(PATIENCE))
        all_there.wait(PATIENCE)  # none of them takes two

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    a.publish_many("t", range(4))
    ear.wait(4)
    for reader in readers:
        reader.join(PATIENCE)
    assert sorted(ear.payloads) == [0, 1, 2, 3]


@pytest.mark.parametrize("by_endpoint", [False, True])
def test_a_closed_subscription_hears_nothing_more(lan: Lan, by_endpoint: bool) -> None:
    a, b = lan.pair()
    closed, ear = Ear(), listen(b, "t")
    subscription = b.subscribe("t", closed)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    a.publish("t", 1)
    closed.wait(1)
    if by_endpoint:
        b.unsubscribe(subscription)
    else:
        subscription.close()
    subscription.close()
    a.publish("t", 2)
    ear.wait(2)
    assert closed.payloads == [1]
    assert subscription.closed


def test_publishers_are_told_when_nobody_listens_any_more(lan: Lan) -> None:
    a, b = lan.pair()
    with b.subscribe("t"):
        assert a.wait_for_subscribers("t", 1, PATIENCE)
    b.subscribe("other")
    assert a.wait_for_subscribers("other", 1, PATIENCE)
    assert not a.wait_for_subscribers("t", 1, 0)


def test_a_handler_may_publish_and_subscribe_and_unsubscribe(lan: Lan) -> None:
    a, b = lan.pair()
    ear, late = Ear(), Ear()

    def handle(message: glue.Message) -> None:
        subscription.close()
        b.subscribe("later", late)
        b.publish("answer", message.payload)

    subscription = b.subscribe("question", handle)
    a.subscribe("answer", ear)
    assert a.wait_for_subscribers("question", 1, PATIENCE)
    assert b.wait_for_subscribers("answer", 1, PATIENCE)
    a.publish_many("question", range(10))
    ear.wait(1)
    assert a.wait_for_subscribers("later", 1, PATIENCE)
    a.publish("later", "heard")
    assert late.wait(1)[0].payload == "heard"
    assert ear.payloads == [0]


def test_a_handler_that_raises_is_logged_and_hears_the_next_one(lan: Lan, caplog: pytest.LogCaptureFixture) -> None:
    a, b = lan.pair()
    ear, other = Ear(), listen(b, "t")

    def fail(message: glue.Message) -> None:
        ear(message)
        raise KeyError("my mistake")

    b.subscribe("t", fail)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    a.publish_many("t", range(3))
    ear.wait(3)
    other.wait(3)
    assert ear.payloads == other.payloads == [0, 1, 2]
    b.close()
    assert [record.getMessage() for record in caplog.records if record.name == "glue"] == [
        "the handler of 't' failed on <Message t #1 from a: 0>; further failures are counted"
    ]
    assert "my mistake" in caplog.text


def test_a_slow_handler_holds_up_neither_other_subscriptions_nor_the_lease(lan: Lan) -> None:
    a, b = lan.pair(announce_interval=0.05, lease_intervals=8)
    removed, slow, done = Ear(), Ear(), threading.Event()
    a.on_peer_removed = b.on_peer_removed = removed

    def sleep(message: glue.Message) -> None:
        done.wait(0.5)  # longer than the lease
        slow(message)

    b.subscribe("t", sleep)
    ear = listen(b, "#")
    assert a.wait_for_subscribers("other", 1, PATIENCE)
    a.publish_many("t", range(5))
    a.publish("other", 5)
    ear.wait(6)
    assert ear.payloads == [0, 1, 2, 3, 4, 5]
    assert slow.heard == []
    slow.wait(1)
    done.set()
    slow.wait(5)
    assert slow.payloads == [0, 1, 2, 3, 4]
    assert removed.heard == []


def test_many_slow_handlers_hold_up_nobody(lan: Lan) -> None:
    a, b = lan.pair()
    done, slow = threading.Event(), Ear()

    def wait(message: glue.Message) -> None:
        done.wait(PATIENCE)
        slow(message)

    for _ in range(10):
        b.subscribe("t", wait)
    ear = listen(b, "t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    a.publish("t", 1)
    ear.wait(1)
    done.set()
    slow.wait(10)


def test_handlers_are_called_one_at_a_time_and_in_order(lan: Lan) -> None:
    a, b = lan.pair()
    inside, ear = threading.Lock(), Ear()

    def handle(message: glue.Message) -> None:
        assert inside.acquire(blocking=False)
        if message.sequence % 100 == 0:
            threading.Event().wait(0.05)  # long enough for another thread to take over
        ear(message)
        inside.release()

    b.subscribe("t", handle)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    for number in range(500):
        a.publish("t", number)
    ear.wait(500)
    assert ear.payloads == list(range(500))


def test_a_handler_may_be_given_the_payloads_alone(lan: Lan) -> None:
    a, b = lan.pair()
    heard: list[Any] = []
    done = threading.Event()

    def handler(payload: Any) -> None:
        heard.append(payload)
        if payload == "last":
            done.set()

    b.subscribe("t", handler, payload_only=True)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    for payload in (payloads := [b"bytes", {"a": [1]}, None, "last"]):
        a.publish("t", payload)
    assert done.wait(PATIENCE)
    assert heard == payloads


def test_payloads_alone_are_for_handlers(lan: Lan) -> None:
    with pytest.raises(glue.ConfigurationError, match="payload_only=True: that is for a handler"):
        lan.start("a").subscribe("t", payload_only=True)  # type: ignore[call-overload]
