"""Publishing: what is refused, back-pressure, order, size, and being told that all of it has arrived."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import glue
from glue.endpoint.options import Reliability
from glue.stack import Stack
from tests.support.lan import PATIENCE, Ear, Lan, fill, listen, wait_until_full


@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({"topic": ""}, glue.TopicError, "the topic is empty"),
        ({"topic": "a/+/b"}, glue.TopicError, r"'\+' at character 2 is a wildcard"),
        ({"topic": "a/#"}, glue.TopicError, "'#' at character 2 is a wildcard"),
        ({"topic": "a\0b"}, glue.TopicError, "NUL at character 1"),
        ({"topic": "\ud800"}, glue.TopicError, "lone surrogate at character 0"),
        ({"topic": "x" * 65_536}, glue.TopicError, "65536 bytes; expected 1 to 65535"),
        ({"topic": b"bytes"}, glue.TopicError, "expected a string"),
        ({"topic": ["list"]}, glue.TopicError, "expected a string"),
        ({"topic": None}, glue.TopicError, "expected a string"),
        ({"type": ""}, glue.ConfigurationError, "type='': expected a string of 1 to 255 bytes"),
        ({"type": "x" * 256}, glue.ConfigurationError, "1 to 255 bytes"),
        ({"type": "\ud800"}, glue.ConfigurationError, "1 to 255 bytes"),
        ({"type": 7}, glue.ConfigurationError, "type=7"),
        ({"lifespan": 0}, glue.ConfigurationError, "lifespan=0: expected a positive number of seconds"),
        ({"lifespan": float("nan")}, glue.ConfigurationError, "lifespan=nan"),
        ({"lifespan": float("inf")}, glue.ConfigurationError, "lifespan=inf"),
        ({"lifespan": "1"}, glue.ConfigurationError, "lifespan='1'"),
        ({"reliability": "maybe"}, glue.ConfigurationError, "reliability='maybe': expected one of reliable, best-eff"),
        ({"payload": bytes(1001)}, glue.MessageTooLargeError, "1001 bytes on 't'; message_limit is 1000"),
        ({"payload": "x" * 1000}, glue.MessageTooLargeError, "1002 bytes"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_and_says_what_is_wrong(
    lan: Lan, options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    endpoint = lan.start(message_limit=1000)
    with pytest.raises(error, match=complaint):
        endpoint.publish(**{"topic": "t", "payload": 1, **options})
    assert endpoint.statistics["topics"]["messages published"] == 0


def test_nobody_need_listen(lan: Lan) -> None:
    a, _ = lan.pair()
    assert a.wait_for_peers(1, PATIENCE)
    a.publish("t", "of the start")
    a.flush(PATIENCE)  # from here on nothing waits for who is late
    for _ in range(1000):
        a.publish("t", bytes(100_000))
    assert a.flush(PATIENCE)
    assert a.statistics["topics"]["messages to nobody"] == 1001


def test_flush_tells_when_every_subscriber_has_all(lan: Lan) -> None:
    a, b, c = lan.start("a"), lan.start("b"), lan.start("c")
    first, second = listen(b, "t"), listen(c, "t")
    assert a.wait_for_subscribers("t", 2, PATIENCE)
    for number in range(500):
        a.publish("t", number)
    assert a.flush(PATIENCE)
    assert a.statistics["transport"]["frames undelivered"] == 0
    assert [ear.wait(500) and ear.payloads for ear in (first, second)] == [list(range(500))] * 2


def test_flush_without_anything_to_wait_for_is_true_at_once(lan: Lan) -> None:
    assert lan.start("a").flush(0)


def test_a_full_queue_refuses_at_once_if_asked_to(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=100_000), lan.start("b", receive_limit=1000)
    unread = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    accepted = fill(a, "t")
    with pytest.raises(glue.WouldBlockError, match="bytes wait to be acknowledged, with queue_limit=100000"):
        a.publish("t", 1, block=False)
    assert not a.flush(0)
    assert b.wait_for_peers(1, PATIENCE)
    for _ in range(accepted):
        unread.get(PATIENCE)
    assert a.flush(PATIENCE)
    a.publish("t", "room again", block=False)
    assert unread.get(PATIENCE).payload == "room again"


def test_streams_of_several_threads_leave_room_for_what_is_more_urgent(lan: Lan) -> None:
    """Each may go beyond its limit by what it takes at once, but not all of them together."""
    limit = 400_000
    a, b = lan.start("a", queue_limit=limit), lan.start("b", receive_limit=1000)
    b.subscribe("bulk")
    assert a.wait_for_subscribers("bulk", 1, PATIENCE)
    fill(a, "bulk", priority="bulk")  # so that from now on nothing is taken
    given = [0] * 8

    def stream(number: int) -> None:
        def source() -> Iterator[bytes]:
            while True:
                given[number] += 1
                yield bytes(10_000)

        with contextlib.suppress(glue.ClosedError):
            a.publish_many("bulk", source(), priority="normal")

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(len(given))]
    for thread in threads:
        thread.start()
    before: list[int] = []
    while before != given or not all(given):  # until all of them wait
        before = [*given]
        time.sleep(0.1)
    a.publish("bulk", b"urgent", priority="high", block=False)
    a.close(timeout=0)
    for thread in threads:
        thread.join(PATIENCE)


def test_a_refusal_does_not_read_the_stack_which_another_thread_may_be_using(
    lan: Lan, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = lan.start("a", queue_limit=100_000), lan.start("b", receive_limit=1000)
    b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    fill(a, "t")
    backlog = vars(Stack)["backlog"]

    def read(stack: Stack) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        return backlog.__get__(stack)

    with monkeypatch.context() as patch:
        patch.setattr(Stack, "backlog", property(read))
        with pytest.raises(glue.WouldBlockError):
            a.publish("t", 1, block=False)


def test_a_publisher_waits_for_a_slow_reader_and_nothing_is_lost(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=50_000), lan.start("b", receive_limit=50_000)
    slow = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)

    def publish() -> None:
        for _ in range(2000):
            a.publish("t", bytes(1000))

    publisher = threading.Thread(target=publish)
    publisher.start()
    wait_until_full(a)
    assert publisher.is_alive()
    assert [slow.get(PATIENCE).sequence for _ in range(2000)] == list(range(1, 2001))
    publisher.join(PATIENCE)
    assert not publisher.is_alive()
    assert a.flush(PATIENCE)
    assert b.statistics["endpoint"]["senders stopped"] == b.statistics["endpoint"]["senders released"] > 0


def test_a_reader_that_gives_up_releases_the_publisher(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=50_000), lan.start("b", receive_limit=50_000)
    unread, ear = b.subscribe("t"), Ear()
    b.subscribe("other", ear)
    assert a.wait_for_subscribers("other", 1, PATIENCE)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    fill(a, "t")
    unread.close()
    a.publish("other", "through")
    assert ear.wait(1)[0].payload == "through"
    assert a.flush(PATIENCE)
    assert next(unread).payload == bytes(10_000)


def test_a_publisher_that_waits_goes_on_when_the_reader_is_gone(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=50_000), lan.start("b", receive_limit=1000)
    b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    fill(a, "t")
    publisher = threading.Thread(target=a.publish, args=("t", bytes(100_000)))
    publisher.start()
    b.close(timeout=0)
    publisher.join(PATIENCE)
    assert not publisher.is_alive()
    assert a.flush(PATIENCE)


def test_a_reader_that_does_not_read_holds_up_no_other(lan: Lan) -> None:
    a, b, c = lan.start("a"), lan.start("b", receive_limit=1000), lan.start("c")
    b.subscribe("t")
    ear = listen(c, "t")
    assert a.wait_for_subscribers("t", 2, PATIENCE)
    for number in range(1000):
        a.publish("t", number)
    ear.wait(1000)
    assert ear.payloads == list(range(1000))


def test_the_order_of_each_thread_is_kept(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)

    def publish(thread: int) -> None:
        for number in range(1000):
            a.publish("t", [thread, number])

    threads = [threading.Thread(target=publish, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    ear.wait(8000)
    assert [message.sequence for message in ear.heard] == list(range(1, 8001))
    for number in range(8):
        assert [payload[1] for payload in ear.payloads if payload[0] == number] == list(range(1000))


def test_the_order_across_topics_is_kept(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "t/#")
    assert a.wait_for_subscribers("t/x", 1, PATIENCE)
    for number in range(1000):
        a.publish(f"t/{number % 7}", number)
    ear.wait(1000)
    assert ear.payloads == list(range(1000))


def test_a_stream_arrives_as_if_published_one_by_one(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)
    payloads = [*range(1000), *(bytes([number % 256]) * number for number in range(1000)), "end", bytes(1_000_000)]
    a.publish_many("t", iter(payloads))
    ear.wait(len(payloads))
    assert ear.payloads == payloads
    assert [message.sequence for message in ear.heard] == list(range(1, 1 + len(payloads)))


def test_of_a_stream_from_a_slow_source_only_the_latest_is_held_back(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)
    early: list[list[int]] = []

    def source() -> Iterator[int]:
        for number in range(10):
            yield number
            threading.Event().wait(0.005)  # it is slow
            early.append([message.payload for message in ear.wait(number)][:number])

    a.publish_many("t", source())
    assert early == [list(range(number)) for number in range(10)]
    assert [message.payload for message in ear.wait(10)] == list(range(10))


def test_an_empty_stream_publishes_nothing(lan: Lan) -> None:
    a = lan.start("a")
    a.publish_many("t", [])
    assert a.statistics["topics"]["messages published"] == 0


@pytest.mark.parametrize("reliability", ["reliable", "best-effort"])
def test_either_reliability_arrives_on_a_good_network(lan: Lan, reliability: Reliability) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)
    a.publish("t", "small", reliability=reliability)
    a.publish("t", bytes(50_000), reliability=reliability)
    ear.wait(2)
    assert sorted(map(len, ear.payloads)) == [5, 50_000]


def test_sixty_four_megabytes_arrive_intact(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)
    payload = random.Random(1).randbytes(64 << 20)
    a.publish("t", payload)
    assert ear.wait(1)[0].payload == payload
    assert a.flush(PATIENCE)


def test_the_largest_message_allowed_goes_through_with_the_longest_topic(lan: Lan) -> None:
    a, b = lan.pair(message_limit=100_000)
    topic = "x" * 65_535
    ear = listen(b, topic, a)
    a.publish(topic, bytes(100_000))
    assert ear.wait(1)[0].topic == topic
    with pytest.raises(glue.MessageTooLargeError):
        a.publish_many(topic, [bytes(100_001)])


def test_what_is_older_than_its_lifespan_is_not_delivered(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=64 << 20), lan.start("b", receive_limit=1000)
    blocked = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    for _ in range(200):  # 20 MB: more than three windows of 4,096 frames, so the last wait until the first are read
        a.publish("t", bytes(100_000))
    a.publish("t", "stale", lifespan=0.05)
    a.publish("t", "fresh", lifespan=60)
    assert not a.flush(0.1)  # long enough for the one, not for the other
    heard = [blocked.get(PATIENCE).payload]
    while isinstance(heard[-1], bytes):
        heard.append(blocked.get(PATIENCE).payload)
    assert heard[-1] == "fresh"


def test_everything_is_counted_by_layer(lan: Lan) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)
    a.publish_many("t", range(10))
    ear.wait(10)
    counted = a.statistics
    layers = ["network", "serialization", "discovery", "transport", "fragmentation", "topics", "model", "endpoint"]
    assert list(counted) == layers
    assert counted["topics"]["messages published"] == 10
    assert counted["serialization"]["datagrams sent"] > 0
    assert b.statistics["topics"]["messages received"] == 10


@pytest.mark.parametrize("wait", [lambda e: e.flush(PATIENCE), lambda e: e.wait_for_peers(1, PATIENCE)])
def test_waiting_in_a_handler_works_and_lets_the_others_go_on(lan: Lan, wait: Callable[[glue.Endpoint], bool]) -> None:
    a, b = lan.pair()
    outcome = Ear()

    def handle(message: glue.Message) -> None:
        b.publish("answer", bytes(3_000_000))
        outcome(wait(b))

    ear = listen(a, "answer", b)
    b.subscribe("question", handle)
    assert a.wait_for_subscribers("question", 1, PATIENCE)
    a.publish("question", 1)
    assert outcome.wait(1) == [True]
    assert len(ear.wait(1)[0].payload) == 3_000_000


def test_a_handler_that_waits_in_vain_gets_false_and_disturbs_nobody(
    lan: Lan, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = lan.pair()
    outcome = Ear()
    b.subscribe("question", lambda message: outcome(b.wait_for_peers(2, 0.2)))
    other = listen(b, "other", a)
    assert a.wait_for_subscribers("question", 1, PATIENCE)
    a.publish("question", 1)
    a.publish("other", 2)
    assert other.wait(1)[0].payload == 2
    assert outcome.wait(1) == [False]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_handler_that_publishes_into_a_full_queue_waits_for_room(lan: Lan) -> None:
    a, b = lan.start("a"), lan.start("b", queue_limit=20_000)
    ear = listen(a, "echo", b)
    b.subscribe("t", lambda message: b.publish("echo", message.payload))
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    for number in range(500):
        a.publish("t", bytes([number % 256]) * 5000)
    ear.wait(500)
    assert [payload[0] for payload in ear.payloads] == [number % 256 for number in range(500)]


def publish_until_refused(endpoint: glue.Endpoint, topic: str) -> None:
    for _ in range(10_000):
        endpoint.publish(topic, bytes(1000), block=False)
        endpoint.flush(PATIENCE)


def test_an_endpoint_that_does_not_read_its_own_messages_is_held_back(lan: Lan) -> None:
    a = lan.start("a", receive_limit=100_000)
    subscription = a.subscribe("t")
    with pytest.raises(glue.WouldBlockError, match="to be handled here, with receive_limit=100000"):
        publish_until_refused(a, "t")
    done = threading.Event()

    def publish_one_more() -> None:
        a.publish("t", b"more")
        done.set()

    waiting = threading.Thread(target=publish_one_more)
    waiting.start()
    while subscription.get(PATIENCE).payload != b"more":
        pass
    waiting.join(PATIENCE)
    assert done.is_set()
