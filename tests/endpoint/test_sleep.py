"""Endpoints that sleep, over real sockets: the calls of both kinds of endpoint."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from tests.support.event_loop import pair, run
from tests.support.lan import PATIENCE, Lan


def test_messages_wait_for_an_endpoint_that_sleeps(lan: Lan) -> None:
    publisher, node = lan.start("publisher"), lan.start("node", sleep=5)
    woken: list[glue.Woke] = []
    node.on_wake = woken.append
    subscription = node.subscribe("node/#")
    heard = publisher.subscribe("state")
    assert publisher.wait_for_subscribers("node/command", 1, PATIENCE)
    assert node.wait_for_subscribers("state", 1, PATIENCE)

    def pause(seconds: float) -> None:
        assert seconds == 5
        for number in range(10):
            publisher.publish("node/command", number)
        node.publish("state", "published asleep")
        assert publisher.flush(PATIENCE), "what waits for an endpoint that sleeps is not waited for"

    for _ in range(2):
        woke = node.sleep(pause=pause)
        assert woke == glue.Woke(waited=10, dropped=0, publishers=1, silent=())
        assert [subscription.get(PATIENCE).payload for _ in range(10)] == list(range(10))
        assert heard.get(PATIENCE).payload == "published asleep"
    assert len(woken) == 2


def test_an_endpoint_of_asyncio_sleeps_likewise() -> None:
    async def main() -> None:
        async with pair(b_sleep=5) as (publisher, node):
            subscription = node.subscribe("node/#")
            assert await publisher.wait_for_subscribers("node/command", 1, PATIENCE)

            async def pause(seconds: float) -> None:
                await publisher.publish("node/command", seconds)

            woke = await node.sleep(1, pause)
            assert (woke.waited, woke.publishers) == (1, 1)
            assert (await subscription.get(PATIENCE)).payload == 1

    run(main())


def test_sleep_is_refused_in_a_handler_and_while_asleep(lan: Lan) -> None:
    publisher, node = lan.start("publisher"), lan.start("node", sleep=5)
    errors: list[Any] = []

    def handler(message: glue.Message) -> None:
        try:
            node.sleep()
        except glue.ConfigurationError as error:
            errors.append(error)
        publisher.publish("done", None)

    done = node.subscribe("done")
    node.subscribe("node/#", handler)
    assert publisher.wait_for_subscribers("node/command", 1, PATIENCE)
    publisher.publish("node/command", 1)
    assert done.get(PATIENCE)
    assert "in a handler" in str(errors[0])

    def again(seconds: float) -> None:
        with pytest.raises(glue.ConfigurationError, match="is asleep"):
            node.sleep()

    node.sleep(pause=again)


def test_an_endpoint_that_is_closed_asleep_ends(lan: Lan) -> None:
    node = lan.start("node", sleep=5)
    with pytest.raises(glue.ClosedError):
        node.sleep(pause=lambda seconds: node.close())


def test_a_sleep_that_failed_may_be_tried_again(lan: Lan) -> None:
    node = lan.start("node", sleep=5)

    def fail(seconds: float) -> None:
        raise KeyError(seconds)

    with pytest.raises(KeyError):
        node.sleep(pause=fail)
    assert node.sleep(pause=lambda seconds: None) == glue.Woke(waited=0, dropped=0, publishers=0, silent=())
