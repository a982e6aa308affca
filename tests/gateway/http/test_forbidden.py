"""What a door does with stored subscriptions and topics that the group's rules forbid when it starts again."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.errors import ForbiddenError
from glue.gateway.http.client import Client, DoorError
from glue.gateway.http.journal import Journal
from glue.gateway.http.subscriptions import Subscription
from tests.gateway.http.doors import Doors
from tests.gateway.http.played import URL, Door, run, turns


def test_a_door_begins_without_a_subscription_whose_topic_rules_now_forbid_and_goes_on_with_it_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def program() -> None:
        door = Door()
        await door.delivering.start()
        for id, topic in (("s", "secret"), ("other", "t"), ("third", "secret")):
            await door.add(id, topic)
        door.network.store("secret", b"1")
        await turns()
        await door.delivering.close()
        door.network.store("secret", b"2", number=2)

        def next_life() -> Door:
            made = Door()
            made.network.log, made.store = door.network.log, door.store
            made.delivering.store = door.store
            return made

        refusing = next_life()
        good = refusing.network.keep

        async def keep(pattern: str, **more: Any) -> Any:
            if pattern == "secret":
                raise ForbiddenError("http may not subscribe to 'secret'")
            return await good(pattern, **more)

        refusing.network.keep = keep  # type: ignore[assignment]
        with caplog.at_level(logging.WARNING, "glue.http"):
            await refusing.delivering.start()
        assert [record.getMessage() for record in caplog.records] == [
            "this door delivers nothing to subscription s: http may not subscribe to 'secret'",
            "this door delivers nothing to subscription third: http may not subscribe to 'secret'",
        ]
        refusing.network.store("t", b"3")
        refusing.network.store("secret", b"4", number=3)  # as a wider pattern might keep it
        await refusing.delivering.change(Subscription("s", "secret", URL, state="paused"))
        await refusing.delivering.change(Subscription("s", "secret", URL))
        await refusing.delivering.open_lanes(refusing.delivering.subscriptions["s"])  # as doors do that share
        await turns()
        assert refusing.subscriber.got == [("other", b"3")]
        assert sorted(refusing.delivering.subscriptions) == ["other", "s", "third"]
        await refusing.delivering.remove("third")
        assert refusing.delivering.forbidden == {"s": "http may not subscribe to 'secret'"}
        assert refusing.network.kept == {"$dead/#": 1, "t": 1}
        await refusing.delivering.close()

        allowed = next_life()
        await allowed.delivering.start()
        await turns()
        assert allowed.subscriber.got == [("s", b"2"), ("s", b"4")]
        await allowed.delivering.close()

    run(program())


def test_a_door_starts_without_a_created_topic_that_rules_now_forbid(
    door: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with door(data_dir=tmp_path) as gateway, Client(f"http://127.0.0.1:{gateway.port}") as carrier:
        for topic in ("secret", "t"):
            carrier.call("POST", "/create", {"topic": topic})
    good = Journal.want

    async def want(journal: Journal, pattern: str) -> None:
        if pattern == "secret":
            raise ForbiddenError("no rule allows it")
        await good(journal, pattern)

    monkeypatch.setattr(Journal, "want", want)
    with door(data_dir=tmp_path) as gateway, Client(f"http://127.0.0.1:{gateway.port}") as carrier:
        assert caplog.messages == ["topic secret is not kept: no rule allows it"]
        assert carrier.call("POST", "/create", {"topic": "t"}) == {"topic": "t"}
        for path, more in (("/create", {}), ("/subscribe", {"addr": URL}), ("/publish", {"payload": ""})):
            with pytest.raises(DoorError) as refusal:
                carrier.call("POST", path, {"topic": "secret", **more})
            assert refusal.value.status == 403
        monkeypatch.undo()  # the rules allow it again while the door runs, and it is created once more
        assert gateway.door is not None
        delivering = gateway.door.delivering
        id = carrier.subscribe("secret", "http://127.0.0.1:9/")["id"]
        assert carrier.call("POST", "/create", {"topic": "secret"}) == {"topic": "secret"}
        carrier.call("DELETE", f"/v1/subscriptions/{id}")
        assert delivering.journal.patterns == ["$dead/#", "secret", "t"]
    with door(data_dir=tmp_path) as gateway, Client(f"http://127.0.0.1:{gateway.port}") as carrier:
        carrier.call("POST", "/publish", {"topic": "secret", "payload": ""})
        assert gateway.door is not None
        assert gateway.door.delivering.journal.patterns == ["$dead/#", "secret", "t"]


def test_a_door_keeps_what_it_may_both_keep_and_subscribe_to() -> None:
    async def program() -> None:
        asked: list[tuple[str, str]] = []

        def require(action: str, topic: str) -> None:
            asked.append((action, topic))
            raise ForbiddenError("no rule allows it")

        door = Door()
        door.network._core.guard = SimpleNamespace(require=require)
        await door.delivering.start()
        with pytest.raises(ForbiddenError):
            await door.add("s", "secret")
        assert asked == [("subscribe", "secret")]
        assert (door.network.kept, door.store.subscriptions) == ({"$dead/#": 1}, {})
        await door.delivering.close()

    run(program())


def test_a_subscription_that_another_door_has_made_is_known_here_also_if_it_is_forbidden() -> None:
    async def program() -> None:
        door = Door()
        await door.delivering.start()
        door.network._core.guard = SimpleNamespace(require=refuse)
        told = Subscription("s", "secret", URL)
        await door.delivering.resume(told)
        await door.delivering.keep("created")
        assert (door.delivering.forbidden, door.delivering.unkept) == ({"s": "no"}, {"created": "no"})
        assert door.delivering.subscriptions == {"s": told}
        with pytest.raises(ForbiddenError):  # one of this door, which its watch of the model has learned first
            await door.delivering.add(told)
        assert (door.delivering.subscriptions, door.delivering.forbidden) == ({}, {})
        await door.delivering.close()

    def refuse(action: str, topic: str) -> None:
        raise ForbiddenError("no")

    run(program())
