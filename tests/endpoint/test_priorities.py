"""Priorities of real endpoints: who is let in when the queue is full, and what a wrong one is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import glue
import glue.aio
from glue.endpoint.options import Priority
from tests.support.event_loop import pair, run
from tests.support.lan import PATIENCE, Lan, fill, listen

ORDER: tuple[Priority, ...] = ("bulk", "normal", "high", "urgent")


def test_what_is_more_urgent_is_let_in_where_bulk_is_refused(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=2_000_000), lan.start("b", receive_limit=1000)
    unread = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    counts = [fill(a, "t", priority=priority) for priority in ORDER]
    assert all(counts), f"accepted, by class: {counts}"
    for priority in ORDER:
        with pytest.raises(glue.WouldBlockError):
            a.publish("t", bytes(10_000), priority=priority, block=False)
    unread.close()


def test_an_urgent_message_passes_a_publisher_that_waits_with_bulk(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=2_000_000), lan.start("b", receive_limit=1000)
    unread = b.subscribe("bulk")
    ear = listen(b, "urgent", a)
    assert a.wait_for_subscribers("bulk", 1, PATIENCE)
    fill(a, "bulk", priority="bulk")
    more = [bytes(10_000)] * 300  # more than the queue holds, so that the thread waits however much was taken since
    waiting = threading.Thread(target=a.publish_many, args=("bulk", more), kwargs={"priority": "bulk"})
    waiting.start()
    a.publish("urgent", "now", priority="urgent")
    ear.wait()
    assert waiting.is_alive()
    read = threading.Thread(target=lambda: [None for _ in unread])
    read.start()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    unread.close()
    read.join(PATIENCE)


def test_in_an_event_loop_it_is_the_same() -> None:
    async def accepted(endpoint: glue.aio.Endpoint, priority: Priority) -> int:
        count, refused = 0, False
        while True:
            try:
                await endpoint.publish("t", bytes(10_000), priority=priority, block=False)
            except glue.WouldBlockError:
                if refused:
                    return count
                refused = not await endpoint.flush(0.1)
            else:
                count, refused = count + 1, False

    async def main() -> None:
        async with pair(a_queue_limit=2_000_000, b_receive_limit=1000) as (a, b):
            unread = b.subscribe("t")
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            counts = [await accepted(a, priority) for priority in ORDER]
            assert all(counts), f"accepted, by class: {counts}"
            unread.close()
            await a.close(0)

    run(main())


@pytest.mark.parametrize("wrong", ["soon", "", 1, None, ["urgent"]])
def test_an_unknown_priority_is_the_callers_mistake(lan: Lan, wrong: Any) -> None:
    a = lan.start("a")
    with pytest.raises(glue.ConfigurationError, match="expected one of urgent, high, normal, bulk"):
        a.publish("t", 1, priority=wrong)
    with pytest.raises(glue.ConfigurationError, match="expected one of urgent, high, normal, bulk"):
        a.publish_many("t", [b"1"], priority=wrong)


@pytest.mark.parametrize("priority", ORDER)
def test_a_stream_of_any_class_arrives_in_order(lan: Lan, priority: Priority) -> None:
    a, b = lan.pair()
    ear = listen(b, "t", a)
    a.publish_many("t", range(1000), priority=priority)
    assert [message.payload for message in ear.wait(1000)] == list(range(1000))
