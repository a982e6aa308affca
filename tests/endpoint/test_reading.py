"""What a subscription of a threaded endpoint makes of deliveries, gaps and slow readers, without a network."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import glue
from glue.sync.subscription import Subscription
from tests.endpoint.reading import LOST, LoneSubscription, delivery

PATIENCE = 10.0


class Reader(LoneSubscription):
    kind = Subscription


@pytest.mark.parametrize("payload_only", [False, True])
def test_a_handler_is_called_for_each_message_and_goes_on_after_a_failure(payload_only: bool) -> None:
    got: list[Any] = []

    def handle(item: Any) -> None:
        got.append(item if payload_only else item.payload)
        if got[-1] in ("p2", "p4", "p5"):
            raise SystemExit

    reader = Reader(handle, payload_only=payload_only)
    reader.put(delivery(1, 4), LOST, delivery(5))
    assert got == ["p1", "p2", "p3", "p4", "p5"]
    assert (reader.counted, reader.gaps) == ({"handled": 5, "failed": 3}, [("lost", 2, "t")])
    with pytest.raises(TypeError) as caught:
        reader.subscription.get()
    assert str(caught.value) == "the subscription to 't' has a handler; iterate over one without"


@pytest.mark.parametrize("payload_only", [False, True])
def test_a_failure_is_logged_with_its_message(payload_only: bool, caplog: pytest.LogCaptureFixture) -> None:
    def handle(item: Any) -> None:
        if (item if payload_only else item.payload) == "p7":
            raise KeyError

    for among in (delivery(5, 4), delivery(7)):
        caplog.clear()
        reader = Reader(handle, payload_only=payload_only)
        reader.put(among)
        (record,) = caplog.records
        told = repr(glue.Message("p7", 7, among))
        assert record.getMessage() == f"the handler of 't' failed on {told}; further failures are counted"
        assert "#7" in told
        assert "p7" in told


@pytest.mark.parametrize("payload_only", [False, True])
def test_a_handler_that_closes_leaves_the_rest_unread(payload_only: bool) -> None:
    got: list[Any] = []

    def handle(item: Any) -> None:
        got.append(item)
        if len(got) == 2:
            reader.subscription.close()

    reader = Reader(handle, payload_only=payload_only)
    reader.put(delivery(1, 5))
    assert (len(got), reader.counted) == (2, {"handled": 2, "unread": 3})
    assert reader.ended == [reader.subscription]
    reader.put(delivery(6, 2), delivery(8))
    assert (len(got), reader.counted) == (2, {"handled": 2, "unread": 6})
    reader.subscription.close()
    assert reader.ended == [reader.subscription]


def test_what_has_expired_is_not_handled() -> None:
    got: list[Any] = []
    for payload_only in (False, True):
        reader = Reader(got.append, payload_only=payload_only)
        reader.put(delivery(1, 2, time.monotonic() - 1.0), delivery(3, 2, time.monotonic() + 100.0))
        assert reader.counted == {"expired": 2, "handled": 2}
    assert [getattr(item, "payload", item) for item in got] == ["p3", "p4"] * 2


def test_a_group_is_told_of_a_whole_delivery_unless_the_subscription_closed() -> None:
    told: list[int] = []
    reader = Reader(lambda payload: None, payload_only=True)
    reader.subscription._delivered = lambda delivery: told.append(delivery.sequence)
    reader.put(delivery(1, 2), delivery(3))
    assert told == [1, 3]
    reader.subscription.close()
    reader.put(delivery(4))
    assert told == [1, 3]


def test_a_reader_gets_messages_and_gaps_in_order_and_waits_in_time() -> None:
    reader = Reader()
    reader.put(delivery(1, 2), LOST, delivery(3))
    assert reader.counted == {"kept": 3}
    assert [reader.subscription.get(0).payload for _ in range(3)] == ["p1", "p2", "p3"]
    assert (reader.gaps, reader.counted) == ([("lost", 2, "t")], {"kept": 3, "handled": 3, "done": 2})
    for timeout, words in ((0.001, "no message on 't' in 0.001 s"), (0, "no message on 't' in 0 s")):
        with pytest.raises(TimeoutError) as caught:
            reader.subscription.get(timeout)
        assert str(caught.value) == words
    threading.Timer(0.01, lambda: reader.put(delivery(4))).start()
    assert reader.subscription.get(PATIENCE).payload == "p4"
    reader.put(delivery(5))
    with reader.subscription as same:
        assert next(same).payload == "p5"
    with pytest.raises(glue.ClosedError) as closed:
        reader.subscription.get()
    assert str(closed.value) == "the subscription to 't' is closed, and all was read"
    with pytest.raises(StopIteration):
        next(reader.subscription)
    reader.put(LOST, delivery(6, 2))
    assert len(reader.gaps) == 1
    assert reader.counted["unread"] == 2
    assert repr(reader.subscription) == "<Subscription 't' closed>"


def test_two_readers_are_both_woken_by_a_delivery_of_two_and_by_the_end() -> None:
    reader = Reader()
    got: list[Any] = []

    def read() -> None:
        got.extend(message.payload for message in reader.subscription)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    reader.put(delivery(1, 2))
    reader.put(delivery(3, 2))
    deadline = time.monotonic() + PATIENCE
    while len(reader.gaps) + reader.counted["handled"] < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    reader.subscription.close()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert sorted(got) == ["p1", "p2", "p3", "p4"]


def test_a_reader_that_is_too_slow_is_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    reader = Reader(policy="disconnect")
    reader.put(delivery(1, 2))
    assert reader.ended == []
    reader.put(delivery(3))
    assert reader.counted == {"disconnected": 1, "unread": 2}
    assert [reader.subscription.get().payload for _ in range(2)] == ["p1", "p2"]
    with pytest.raises(glue.SlowReaderError) as caught:
        reader.subscription.get()
    assert str(caught.value) == "the subscription to 't' was disconnected: its reader is too slow"
    assert (reader.gaps, len(caplog.records)) == ([("disconnected", 1, "t")], 1)
    assert (
        caplog.records[0].getMessage() == "<Subscription 't' closed> is disconnected: more messages wait than its limit"
    )
    with pytest.raises(glue.SlowReaderError):
        next(reader.subscription)


@pytest.mark.parametrize("payload_only", [False, True])
def test_a_handler_behind_a_buffer_has_a_thread_of_its_own(payload_only: bool) -> None:
    got: list[Any] = []
    began, gate = threading.Event(), threading.Event()

    def handle(item: Any) -> None:
        got.append(item if payload_only else item.payload)
        began.set()
        assert gate.wait(PATIENCE)
        if got[-1] == "p1":
            raise KeyError
        if got[-1] == "p4":
            reader.subscription.close()

    reader = Reader(handle, "drop_oldest", payload_only=payload_only)
    reader.put(delivery(1))
    assert began.wait(PATIENCE)
    assert reader.subscription._thread.daemon  # it keeps no program from ending
    reader.put(delivery(2, 3), LOST)
    gate.set()
    reader.subscription._join(PATIENCE)
    assert reader.subscription._thread is not None
    assert not reader.subscription._thread.is_alive()
    assert got == ["p1", "p3", "p4"]
    assert reader.counted == {"overwritten": 1, "handled": 3, "failed": 1}
    assert reader.gaps == [("overwritten", 1, "t"), ("lost", 2, "t")]
    reader.subscription._join(PATIENCE)


def test_a_handler_behind_a_buffer_that_closes_gets_nothing_more_and_gaps_are_told() -> None:
    got: list[Any] = []
    began, gate = threading.Event(), threading.Event()

    def handle(message: Any) -> None:
        got.append(message.payload)
        began.set()
        assert gate.wait(PATIENCE)
        reader.subscription.close()

    reader = Reader(handle, "drop_oldest", limit=5)
    reader.put(delivery(1))
    assert began.wait(PATIENCE)
    reader.put(delivery(2, 2), LOST, delivery(4))
    gate.set()
    reader.subscription._join(PATIENCE)
    assert not reader.subscription._thread.is_alive()
    assert (got, reader.gaps) == (["p1"], [("lost", 2, "t")])
