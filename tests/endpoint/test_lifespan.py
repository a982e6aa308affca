"""A lifespan holds until a message is handed over, also while it waits for a slow handler or an unread iterator."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest

import glue
import glue.aio
from glue.simulation import World
from tests.support.event_loop import pair, run
from tests.support.lan import PATIENCE, Lan, listen


def outlive(seconds: float) -> None:
    """Wait until a lifespan is over; the clock is what is tested, so there is nothing else to wait for."""
    time.sleep(seconds + 0.05)


def test_an_iterator_skips_what_was_not_read_in_time(lan: Lan) -> None:
    a, b = lan.pair()
    subscription = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    a.publish("t", "short", lifespan=0.1)
    a.publish("t", "long")
    assert a.flush(PATIENCE)
    outlive(0.1)
    assert subscription.get(PATIENCE).payload == "long"
    assert b.statistics["endpoint"]["messages expired unhandled"] == 1


def test_a_slow_handler_is_not_given_what_grew_too_old(lan: Lan) -> None:
    a, b = lan.pair()
    heard: list[str] = []
    last = threading.Event()

    def slowly(message: glue.Message) -> None:
        heard.append(message.payload)
        if message.payload == "first":
            outlive(0.2)
        if message.payload == "last":
            last.set()

    b.subscribe("t", slowly)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    for payload in ("first", "second", "third"):
        a.publish("t", payload, lifespan=0.2)
    a.publish("t", "last")
    assert last.wait(PATIENCE)
    assert heard == ["first", "last"]


def test_asyncio_skips_them_too() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            subscription = b.subscribe("t")
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            await a.publish("t", "short", lifespan=0.1)
            await a.publish("t", "long")
            assert await a.flush(PATIENCE)
            await asyncio.sleep(0.15)
            assert (await subscription.get(PATIENCE)).payload == "long"

    run(main())


def test_in_simulation_time_is_virtual() -> None:
    world = World(seed=1)
    a, b = world.endpoint("a"), world.endpoint("b")
    slow = b.subscribe("t", handling_time=0.5)
    world.run(1)
    for number in range(4):
        a.publish("t", number, lifespan=0.7)
    world.run(5)
    assert [message.payload for message in slow.received] == [0]


def test_a_handler_that_exits_loses_only_that_message(lan: Lan, caplog: pytest.LogCaptureFixture) -> None:
    a, b = lan.pair()
    heard: list[str] = []

    def leave(message: glue.Message) -> None:
        heard.append(message.payload)
        if message.payload == "exit":
            sys.exit(1)

    b.subscribe("t", leave)
    other = listen(b, "other")
    assert a.wait_for_subscribers("other", 1, PATIENCE)
    for payload in ("before", "exit", "after"):
        a.publish("t", payload)
    a.publish("other", "unaffected")
    other.wait(1)
    assert heard == ["before", "exit", "after"]
    assert "SystemExit" in caplog.text


def test_an_empty_text_clears_a_retained_value_too(lan: Lan) -> None:
    a = lan.start("a")
    a.publish("t", "kept", retain=True)
    a.publish("t", "", retain=True)
    a.publish("u", "kept", retain=True)
    b = lan.start("b")
    ear = listen(b, "#")
    assert [message.topic for message in ear.wait(1)] == ["u"]
