"""Shared subscriptions and delayed messages of endpoints with threads, over real sockets."""

from __future__ import annotations

import threading
import time
from typing import Any

import glue
from tests.support.lan import PATIENCE, Ear, Lan


def test_the_members_of_a_group_share_the_messages_and_flush_waits_for_their_handlers(lan: Lan) -> None:
    a, b = lan.pair()
    c = lan.start("c")
    ears = [Ear(), Ear()]
    b.subscribe("jobs/#", ears[0], group="workers", payload_only=True)
    c.subscribe("jobs/#", ears[1], group="workers", payload_only=True)
    assert a.wait_for_subscribers("jobs/1", 2, PATIENCE)
    for number in range(500):
        a.publish("jobs/1", number)
    assert a.flush(PATIENCE)
    assert sorted(ears[0].heard + ears[1].heard) == list(range(500))
    assert ears[0].heard
    assert ears[1].heard


def test_an_iterating_member_acknowledges_when_it_asks_for_the_next(lan: Lan) -> None:
    a, b = lan.pair()
    c = lan.start("c")
    first = b.subscribe("jobs", group="workers")
    assert a.wait_for_subscribers("jobs", 1, PATIENCE)
    for number in range(3):
        a.publish("jobs", number)
    assert [first.get(PATIENCE).payload for _ in range(2)] == [0, 1]
    assert not a.flush(0.2)
    ear = Ear()
    c.subscribe("jobs", ear, group="workers")
    assert a.wait_for_subscribers("jobs", 2, PATIENCE)
    first.close()
    ear.wait(2)
    assert [(message.payload, message.redelivered) for message in ear.heard] == [(1, True), (2, True)]
    assert a.flush(PATIENCE)


def test_a_handler_that_raises_is_done_with_its_message(lan: Lan) -> None:
    a, b = lan.pair()

    def fail(message: glue.Message) -> None:
        raise ValueError(message.payload)

    b.subscribe("jobs", fail, group="workers")
    assert a.wait_for_subscribers("jobs", 1, PATIENCE)
    a.publish("jobs", 1)
    assert a.flush(PATIENCE)


def test_an_endpoint_may_work_on_its_own_jobs(lan: Lan) -> None:
    a = lan.start("a")
    ears = [Ear(), Ear()]
    for ear in ears:
        a.subscribe("jobs", ear, group="workers")
    for number in range(10):
        a.publish("jobs", number, key=str(number % 2))
    assert a.flush(PATIENCE)
    assert sorted(ears[0].payloads + ears[1].payloads) == list(range(10))


def test_a_delayed_message_comes_later_from_any_thread_and_can_be_cancelled(lan: Lan) -> None:
    a, b = lan.pair()
    came: list[tuple[Any, float]] = []
    ear = Ear()

    def note(message: glue.Message) -> None:
        came.append((message.payload, time.monotonic()))
        ear(message)

    b.subscribe("t", note)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    before = time.monotonic()
    cancelled = a.publish("t", "cancelled", delay=0.05)
    thread = threading.Thread(target=lambda: a.publish("t", "late", delay=0.1))
    thread.start()
    thread.join()
    a.publish("t", "now")
    assert cancelled.cancel()
    ear.wait(2)
    assert [payload for payload, _ in came] == ["now", "late"]
    assert came[1][1] - before >= 0.1
    assert a.publish("t", "never", delay=30).waiting
