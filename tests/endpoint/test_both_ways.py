"""What both kinds of endpoints do alike: locks, voters, watches, receivers that are put away, iterators that end."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

import glue
from tests.support.event_loop import pair, run
from tests.support.lan import PATIENCE, Lan

FAST: dict[str, Any] = {"voters": 2, "election_timeout": 0.1}


def hold(context: glue.Context, message: Any) -> Any:
    """Add up what comes."""
    context.state["sum"] = context.state.get("sum", 0) + message
    return context.state["sum"]


def test_a_lock_is_renewed_and_lost_and_the_leadership_is_handed_over(lan: Lan) -> None:
    a, b = lan.pair()
    models = {one.name: one.model("plant", **FAST) for one in (a, b)}
    assert all(model.wait_until_ready(PATIENCE) for model in models.values())
    lock = models["a"].lock("door", 5.0)
    before = lock.remaining
    lock.renew(20.0)
    assert before < 5.1 < lock.remaining <= 20
    lock.release()
    assert lock.remaining == 0
    with models["b"].lock("door", 5.0):
        with pytest.raises(glue.RefusedError, match="held by b"):
            lock.renew()
        with pytest.raises(glue.GlueError):
            models["a"].lock("door", timeout=0.05)
    end = time.monotonic() + PATIENCE
    while models["b"].status.leader != "b" and time.monotonic() < end:  # on a busy machine it may go to and fro
        with suppress(glue.GlueError):
            models["a"].transfer("b", timeout=0.5)
    while models["b"].status.voters != ("b",) and time.monotonic() < end:
        with suppress(glue.GlueError):
            models["b"].remove("a", timeout=0.5)
    assert (models["b"].status.leader, models["b"].status.voters) == ("b", ("b",))
    with pytest.raises(glue.ModelError):
        models["b"].watch("a#", print)


def test_the_same_under_asyncio() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            models = {one.name: one.model("plant", **FAST) for one in (a, b)}
            assert all([await model.wait_until_ready(PATIENCE) for model in models.values()])
            lock = await models["a"].lock("door", 5.0)
            before = lock.remaining
            await lock.renew(20.0)
            assert before < 5.1 < lock.remaining <= 20
            await lock.release()
            assert lock.remaining == 0
            async with await models["b"].lock("door", 5.0):
                with pytest.raises(glue.RefusedError, match="held by b"):
                    await lock.renew()
                with pytest.raises(glue.GlueError):
                    await models["a"].lock("door", timeout=0.05)
            async with asyncio.timeout(PATIENCE):
                while models["b"].status.leader != "b":
                    with suppress(glue.GlueError):
                        await models["a"].transfer("b", timeout=0.5)
                while models["b"].status.voters != ("b",):
                    with suppress(glue.GlueError):
                        await models["b"].remove("a", timeout=0.5)
            with pytest.raises(glue.ModelError):
                await models["b"].watch("a#", print)
            async with await models["b"].watch("k") as watch:
                await models["b"].set("k", 1)
                assert (await watch.get(PATIENCE)).value == 1
            with pytest.raises(glue.ClosedError):
                await watch.get(PATIENCE)

    run(main())


def test_receivers_are_served_and_put_away(lan: Lan) -> None:
    a, b = lan.pair()
    model = a.model("plant", voters=1, election_timeout=0.1)
    with a.receivers("sum", hold, model=model, partitions=2) as receivers:
        assert receivers.wait_until_served(PATIENCE)
        assert [b.ask("sum/x", number, PATIENCE) for number in (1, 2)] == [1, 3]
    assert receivers.close()
    with pytest.raises(glue.RequestError):
        b.ask("sum/x", 1, 0.1)
    waiting = b.receivers("other", hold, model=b.model("nobody", voters=3))
    assert not waiting.wait_until_served(0.05)
    assert a.close_receivers(PATIENCE)
    assert a.close_receivers(0)

    async def coroutine(context: glue.Context, message: Any) -> Any:
        return message

    with pytest.raises(glue.ConfigurationError, match=r"glue\.aio"):
        a.receivers("sum", coroutine, model=model)


def test_receivers_are_served_and_put_away_under_asyncio() -> None:
    async def main() -> None:
        async with pair() as (a, b):
            model = a.model("plant", voters=1, election_timeout=0.1)
            async with a.receivers("sum", hold, model=model, partitions=2) as receivers:
                assert await receivers.wait_until_served(PATIENCE)
                assert [await b.ask("sum/x", number, PATIENCE) for number in (1, 2)] == [1, 3]
            assert await receivers.close()
            with pytest.raises(glue.RequestError):
                await b.ask("sum/x", 1, 0.1)
            waiting = b.receivers("other", hold, model=b.model("nobody", voters=3))
            assert not await waiting.wait_until_served(0.05)
            assert await a.close_receivers(PATIENCE)
            assert await a.close_receivers(0)

    run(main())


def test_a_subscription_with_a_handler_cannot_be_iterated_and_a_closed_one_ends(lan: Lan) -> None:
    a, b = lan.pair()
    with pytest.raises(TypeError, match="has a handler; iterate over one without"):
        next(iter(a.subscribe("t", print)))
    subscription, seen = b.subscribe("t"), list[Any]()
    thread = threading.Thread(target=lambda: seen.extend(message.payload for message in subscription))
    thread.start()
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    for number in range(3):
        a.publish("t", number)
    assert a.flush(PATIENCE)
    end = time.monotonic() + PATIENCE
    while len(seen) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    subscription.close()
    thread.join(PATIENCE)
    assert seen == [0, 1, 2]


def test_an_iterator_under_asyncio() -> None:
    async def main() -> None:
        async with pair() as (one, other):
            with pytest.raises(TypeError, match="has a handler; iterate over one without"):
                await anext(aiter(one.subscribe("t", print)))
            received = other.subscribe("t")
            assert await one.wait_for_subscribers("t", 1, PATIENCE)
            await one.publish_many("t", range(300))
            found = [(await received.get(PATIENCE)).payload for _ in range(300)]
            assert found == list(range(300))
            received.close()
            assert [message async for message in received] == []

    run(main())
