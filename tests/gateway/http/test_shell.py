"""The shell of deliveries: what it begins with, stores, tells and gives up."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from glue.errors import ConfigurationError, ForbiddenError
from glue.gateway.http import delivering, destinations
from glue.gateway.http.items import Attempt, Event, Outcome
from glue.gateway.http.limits import Limits
from glue.gateway.http.subscriptions import Subscription
from tests.gateway.http.played import URL, Door, Subscriber, run, run_in_virtual_time, turns
from tests.support.lan import PATIENCE


def test_a_subscription_begins_now_or_at_a_time_or_with_the_oldest_message() -> None:
    async def program() -> None:
        door = Door(Limits(subscriptions=4))
        await door.delivering.start()
        door.network.store("t", b"1", b"2", at=1e9)
        door.network.store("t", b"3", number=3, at=2e9)
        await turns()
        for id, start in (("all", "earliest"), ("some", 1.5e9), ("none", None)):
            await door.add(id, "t", start)
        position = await door.store.position("all")
        assert position == {"log": "log", "offset": 0, "since": 0.0, "seen": []}
        assert (await door.store.position("some") or {})["since"] == 1.5e9
        assert [(await door.store.position(id) or {})["offset"] for id in ("some", "none")] == [2, 3]
        assert (await door.store.position("none") or {})["since"] > 1.6e9
        await turns()
        assert sorted(door.subscriber.got) == [("all", b"1"), ("all", b"2"), ("all", b"3"), ("some", b"3")]
        await door.add("fourth", "t")
        with pytest.raises(ConfigurationError, match="there are 4 subscriptions already"):
            await door.add("fifth", "t")
        assert sorted(door.delivering.subscriptions) == sorted(door.store.subscriptions) == [
            "all", "fourth", "none", "some",
        ]  # fmt: skip
        assert door.network.kept == {"$dead/#": 1, "t": 1}
        for id in ("all", "some", "none", "fourth"):
            assert door.network.kept["t"] == 1
            await door.delivering.remove(id)
        assert (door.network.kept, door.delivering.machine.lanes) == ({"$dead/#": 1}, {})
        assert (door.store.subscriptions, await door.store.position("all")) == ({}, None)
        await door.delivering.forget("all")
        await door.delivering.close()

    run(program())


def test_positions_are_stored_at_the_end_and_a_next_life_goes_on_there() -> None:
    async def program() -> None:
        door = Door()
        await door.delivering.start()
        await door.add("s", "t")
        door.network.store("t", b"1", b"2")
        await turns()
        await door.delivering.close()
        assert ((await door.store.position("s")) or {})["offset"] == 2
        door.network.store("t", b"3", number=3)
        again = Door()
        again.network.log, again.store = door.network.log, door.store
        again.delivering.store = door.store
        await again.delivering.start()
        await turns()
        assert again.subscriber.got == [("s", b"3")]
        await again.delivering.change(Subscription("s", "t", URL, state="paused"))
        assert door.store.subscriptions["s"]["state"] == "paused"
        again.network.store("t", b"4", number=4)
        await turns()
        assert again.subscriber.got == [("s", b"3")]
        await again.delivering.close()

    run(program())


def test_of_a_topic_that_may_not_be_kept_nothing_stays_that_the_next_life_could_not_begin_with() -> None:
    async def program() -> None:
        door = Door()
        await door.delivering.start()
        good = door.network.keep

        async def keep(pattern: str, **more: Any) -> Any:
            raise ForbiddenError("the door may not keep it")

        put = door.store.put

        async def refuse_to_remove(id: str, subscription: Any) -> None:
            if subscription is None:
                raise OSError("full")
            await put(id, subscription)

        door.network.keep = keep  # type: ignore[assignment]
        for store_put in (put, refuse_to_remove, put):
            door.store.put = store_put  # type: ignore[method-assign]
            with pytest.raises(ForbiddenError):
                await door.add("s", "t")
            assert door.store.subscriptions == {}
            assert (store_put is put) == (await door.store.position("s") is None)
            assert (door.delivering.subscriptions, door.delivering.machine.lanes) == ({}, {})
        door.network.keep = good  # type: ignore[method-assign]
        await door.add("s", "t")
        door.network.store("t", b"1")
        await turns()
        assert door.subscriber.got == [("s", b"1")]
        await door.delivering.remove("s")
        assert door.network.kept == {"$dead/#": 1}
        await door.delivering.close()

    run(program())


def test_an_attempt_that_fails_in_the_door_itself_is_made_again_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        door, good = Door(), Subscriber()

        async def send(attempt: Attempt) -> Outcome:
            if attempt.number < 3 and attempt.lane == "s":
                raise AttributeError("a mistake")
            return await good.send(attempt)

        door.subscriber.send = send  # type: ignore[method-assign]
        await door.delivering.start()
        for id in ("s", "other"):
            await door.add(id, "t")
        door.network.store("t", b"1", b"2")
        await asyncio.sleep(0.1)
        assert good.got == [("other", b"1"), ("other", b"2")]
        await asyncio.sleep(10.0)
        assert good.got[2:] == [("s", b"1"), ("s", b"2")]
        assert caplog.messages == ["an attempt failed"] * 4
        assert door.delivering.machine.under_way == 0
        await door.delivering.close()

    run_in_virtual_time(program(), monkeypatch)


def test_a_delivery_under_way_may_end_while_the_door_closes_but_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivering, "FINISH_TIME", 0.05)

    async def program(ends: bool) -> int:
        door, answer = Door(), asyncio.Event()

        async def send(attempt: Attempt) -> Outcome:
            door.subscriber.got.append((attempt.lane, attempt.item.payload))
            await answer.wait()
            return Outcome(204)

        door.subscriber.send = send  # type: ignore[method-assign]
        await door.delivering.start()
        await door.add("s", "t")
        door.network.store("t", b"1", b"2")
        await turns()
        closing = asyncio.create_task(door.delivering.close())
        await turns()
        assert (door.subscriber.got, closing.done()) == ([("s", b"1")], False)
        if ends:
            answer.set()
        await closing
        assert door.subscriber.got == [("s", b"1")], "none begins"
        position = await door.store.position("s")
        assert position is not None
        return int(position["offset"])

    assert asyncio.run(program(ends=True)) == 1, "its next life begins with the second"
    assert asyncio.run(program(ends=False)) == 0, "its next life delivers the first again"


def test_who_has_no_time_to_close_a_door_leaves_nothing_running() -> None:
    async def program() -> None:
        door = Door()

        async def send(attempt: Attempt) -> Outcome:
            await asyncio.sleep(PATIENCE)
            return Outcome(204)

        door.subscriber.send = send  # type: ignore[method-assign]
        await door.delivering.start()
        await door.add("s", "t")
        door.network.store("t", b"1")
        await turns()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(door.delivering.close(), 0.01)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(program())


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_dead_letter_is_stored_and_replayed_once(
    is_kept: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destinations, "CONTACTS", 1e9)

    async def program() -> None:
        door = Door(data_dir="disk" if is_kept else None)
        made, network = door.delivering, door.network
        await made.start()
        await door.add("s", "t", give_up_after=1e-9)
        network.problem = OSError("no room")
        door.subscriber.answers = [Outcome(500)]
        network.store("t", b"1")
        await turns()
        assert caplog.messages == ["a dead letter of subscription s could not be stored: no room"]
        network.problem = None
        network.is_stored = False
        machine = made.machine
        for is_stored in (False, True):
            network.is_stored, network.published = is_stored, []
            slot = machine.lanes["s"].slots[0]
            slot.due, door.subscriber.answers = 0.0, [Outcome(500)]
            machine._queue(0.0, "s", machine.lanes["s"])
            made._wake.set()
            await turns()
            ((topic, payload, options),) = network.published
            told = {"properties": options["properties"]}
            assert (topic, payload) == ("$dead/s", b"1")
            assert options == ({**told, "receipt": True, "acks": "disk"} if is_kept else told)
            assert options["properties"]["glue-dead-reason"].startswith("answer 500, ")
            if not is_kept:
                break
            assert ("s" in machine.lanes and 0 in machine.lanes["s"].slots) == (not is_stored)
        assert machine.statistics["dead letters"] == 1
        network.store("$dead/s", b"1")
        await turns()
        door.subscriber.got.clear()
        assert await made.dead_from("s") == 0
        assert await made.replay("s") == 2
        assert (await door.store.position("s/replay") or {})["limit"] == 2
        await turns()
        assert door.subscriber.got == [("s/replay", b"1")]
        assert await made.dead_from("s") == 2
        assert network.published[-1][:1] == ("$alerts/http/s",)
        assert network.published[-1][1]["event"] == "replayed"
        assert await made.replay("s") == 2
        await turns()
        assert door.subscriber.got == [("s/replay", b"1")], "nothing new is dead"
        await made.save()
        assert await door.store.position("s/replay") is None
        await door.store.save({"s/replayed": {"log": "other", "offset": 7}})
        assert await made.dead_from("s") == 0
        await made.remove("s")
        assert door.store._positions == {}, "nothing of it is left"
        await made.close()

    run(program())


@pytest.mark.parametrize(
    ("kind", "level", "is_retained"),
    [("failing", logging.WARNING, True), ("gone", logging.WARNING, True), ("recovered", logging.INFO, True),
     ("missed", logging.WARNING, False), ("replayed", logging.INFO, False)],
)  # fmt: skip
def test_news_of_a_subscription_are_logged_and_published(
    kind: str, level: int, is_retained: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        door = Door()
        await door.delivering.start()
        await door.add("s", "t")
        for lane, detail in (("s", ""), ("s/replay", "why")):
            door.delivering.machine.events.append(Event(kind, lane, detail))
        door.delivering._advance()
        await turns()
        assert [(topic, payload["event"], payload["subscription"], payload["detail"], options)
                for topic, payload, options in door.network.published] == [
            ("$alerts/http/s", kind, "s", detail, {"retain": is_retained}) for detail in ("", "why")
        ]  # fmt: skip
        assert door.network.published[0][1]["at"] > 1.6e9
        assert door.store.subscriptions["s"]["state"] == ("gone" if kind == "gone" else "active")
        await door.delivering.close()

    with caplog.at_level(logging.INFO, "glue.http"):
        run(program())
    assert [(one.levelno, one.getMessage()) for one in caplog.records] == [
        (level, f"subscription s: {kind}"), (level, f"subscription s: {kind} (why)"),
    ]  # fmt: skip


def test_positions_are_stored_regularly_and_after_a_failure_once_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delivering, "SAVE_INTERVAL", 0.0)

    async def program() -> None:
        door, saved, problems = Door(), list[Any](), [OSError("no room"), None]
        await door.delivering.start()
        await door.add("s", "t")
        await door.add("idle", "u")

        async def save(positions: Any) -> None:
            if problems and (problem := problems.pop(0)) is not None:
                raise problem
            saved.append({name: position and position["offset"] for name, position in positions.items()})

        monkeypatch.setattr(door.store, "save", save)
        door.network.store("t", b"1")
        await turns()
        assert saved == [{"s": 1, "idle": 1}], "all are stored once more"
        monkeypatch.setattr(delivering, "IDLE_INTERVAL", -1.0)
        saved.clear()
        await door.delivering.save()
        assert saved == []
        await door.delivering.close()
        assert saved[-1] == {"s": 1, "idle": 1}

    run(program())
    assert caplog.messages == ["positions could not be stored: no room"]
