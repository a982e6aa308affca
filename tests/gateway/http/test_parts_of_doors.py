"""Doors that share their deliveries, with a model that the test plays: what each takes, keeps and gives back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from glue.errors import MinorityError, RefusedError
from glue.gateway.http import sharing
from glue.gateway.http.sharing import ModelStore, Sharing, part_of
from glue.gateway.http.subscriptions import Subscription
from tests.gateway.http.played import URL, Door, run, turns


class Lease:
    """A lock of a model: the test says what remains, and what becomes of a renewal."""

    def __init__(self) -> None:
        self.remaining = 5.0
        self.renewals: asyncio.Queue[Exception | None] = asyncio.Queue()
        self.events: list[str] = []

    def renewed(self, *outcomes: Exception | None) -> None:
        """Let a renewal have each of these outcomes."""
        for outcome in outcomes:
            self.renewals.put_nowait(outcome)

    async def renew(self) -> None:
        self.events.append("renew")
        if (problem := await self.renewals.get()) is not None:
            raise problem

    async def release(self) -> None:
        self.events.append("release")


class Model:
    """A model: its keys, and the locks that a door asks for."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.asked: list[tuple[str, int, float, float]] = []
        self.leases: dict[str, list[Any]] = {}
        self.watched: list[str] = []
        self.closed = 0

    def _new_owner(self) -> int:
        return 7

    async def _lock(self, name: str, owner: int, lease: float, wait: float) -> Lease:
        self.asked.append((name, owner, lease, wait))
        if not (waiting := self.leases.get(name)):
            await asyncio.Event().wait()
        found = waiting.pop(0)  # type: ignore[union-attr]
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    async def items(self, pattern: str) -> dict[str, Any]:
        return {key: value for key, value in self.keys.items() if key.startswith(pattern.removesuffix("#"))}

    async def set(self, key: str, value: Any) -> None:
        self.keys[key] = value

    async def delete(self, key: str) -> None:
        self.keys.pop(key, None)

    async def get(self, key: str, *, stale: bool = False) -> Any:
        assert stale
        return self.keys.get(key)

    async def watch(self, pattern: str) -> Any:
        self.watched.append(pattern)
        changes: asyncio.Queue[Any] = asyncio.Queue()
        model = self

        class Watch:
            def __aiter__(self) -> Any:
                return self

            async def __anext__(self) -> Any:
                return await changes.get()

            def close(self) -> None:
                model.closed += 1

        setattr(
            self, pattern.split("/")[1], lambda key, value: changes.put_nowait(SimpleNamespace(key=key, value=value))
        )
        return Watch()


def test_a_store_in_a_model_has_what_another_door_wrote() -> None:
    async def program() -> None:
        model: Any = Model()
        one, other = ModelStore(model), ModelStore(model)
        await one.put("s", {"id": "s"})
        await one.create("a/b")
        await one.save({f"l{number}": {"offset": number} for number in range(600)})
        assert one.subscriptions == {"s": {"id": "s"}}
        assert one.topics == {"a/b"}
        await other.open()
        assert (other.subscriptions, other.topics) == ({"s": {"id": "s"}}, {"a/b"})
        assert await other.position("l599") == {"offset": 599}
        await other.save({"l0": None})
        assert "http/positions/l0" not in model.keys
        assert len(model.keys) == 601
        await other.save({"s": {"offset": 5}})
        await other.put("s", None)
        await other.put("s", None)
        assert (other.subscriptions, await one.position("s")) == ({}, None)
        assert "http/subscriptions/s" not in model.keys

    run(program())


def test_what_a_minority_refused_is_not_in_the_store_of_a_door() -> None:
    async def program() -> None:
        model: Any = Model()
        store = ModelStore(model)
        await store.put("s", {"id": "s"})

        async def refuse(*_: Any) -> None:
            raise MinorityError("alone")

        model.set = model.delete = refuse
        for change in (store.put("s", {"id": "other"}), store.put("s", None), store.put("t", {}), store.create("a/b")):
            with pytest.raises(MinorityError):
                await change
        assert (store.subscriptions, store.topics) == ({"s": {"id": "s"}}, set())

    run(program())


def part_with(id: str) -> str:
    return f"http/part/{part_of(id)}"


def test_a_door_delivers_while_it_holds_a_part_and_asks_again_after_its_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "TRY_INTERVAL", 0.0)
    monkeypatch.setattr(sharing, "LEASE", 0.0)

    async def program() -> None:
        model: Any = Model()
        door = Door(store=ModelStore(model))
        held, again = Lease(), Lease()
        model.leases[part_with("s")] = [MinorityError("none"), held, again]
        await door.delivering.start()
        made = Sharing(model, door.delivering)
        await door.add("s", "t", "earliest")
        await door.add("other", "t", "earliest")
        assert door.delivering.machine.lanes == {}
        assert part_of("s") != part_of("other")
        door.network.store("t", b"1")
        await made.start()
        assert model.watched == ["http/subscriptions/#", "http/topics/#"]
        held.renewed(None, RefusedError("busy"), MinorityError("none"))
        await turns(100)
        assert [*door.delivering.machine.lanes] == ["s"]
        assert door.subscriber.got == [("s", b"1")]
        assert held.events == ["renew"] * 4
        assert {one for one in model.asked if one[0] == part_with("s")} == {(part_with("s"), 7, 0.0, 10.0)}
        assert len({name for name, *_ in model.asked}) == 16
        assert (door.delivering.is_owner("s"), door.delivering.is_owner("other")) == (True, False)
        await made.close()
        assert held.events[-1] == "release"
        assert again.events == []
        assert door.delivering.machine.lanes == {}
        assert model.closed == 2
        assert model.keys["http/positions/s"]["offset"] == 1, "stored before it is given back"
        await door.delivering.close()

    run(program())


@pytest.mark.parametrize("way", ["refused", "over", "too late"])
def test_a_door_that_loses_a_part_delivers_no_more_until_it_has_it_again(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "LEASE", 0.0)

    async def program() -> None:
        model: Any = Model()
        door, held, again = Door(store=ModelStore(model)), Lease(), Lease()
        model.leases[part_with("s")] = [held]
        await door.delivering.start()
        made = Sharing(model, door.delivering)
        await door.add("s", "t", "earliest")
        await made.start()
        held.renewed(None)
        await turns(50)
        assert [*door.delivering.machine.lanes] == ["s"]
        before = len(model.asked)
        held.remaining = 0.0
        held.renewed(RefusedError("lost") if way == "refused" else MinorityError("none") if way == "too late" else None)
        await turns(50)
        assert door.delivering.machine.lanes == {}
        assert not door.delivering.is_owner("s")
        assert [name for name, *_ in model.asked[before:]] == [part_with("s")]
        assert held.events == ["renew"] * 2, "it is another door's now"
        model.leases[part_with("s")] = [again]
        await made.close()
        assert "release" not in held.events
        await door.delivering.close()

    run(program())


def test_what_another_door_changes_is_taken_over() -> None:
    async def program() -> None:
        model: Any = Model()
        door = Door(store=ModelStore(model))
        await door.delivering.start()
        made = Sharing(model, door.delivering)
        await made.start()
        stored = Subscription("s", "t", URL).stored()
        model.subscriptions("http/subscriptions/s", stored)
        model.topics("http/topics/a/b", True)
        model.topics("http/topics/gone", None)
        await turns()
        assert door.store.subscriptions == {"s": stored}
        assert [*door.delivering.subscriptions] == ["s"]
        assert door.store.topics == {"a/b"}
        assert door.network.kept == {"$dead/#": 1, "t": 1, "a/b": 1}
        for _ in range(2):
            model.topics("http/topics/a/b", True)
            model.subscriptions("http/subscriptions/s", {**stored, "state": "paused"})
        model.subscriptions("http/subscriptions/wrong", {"id": "x"})
        await turns()
        assert door.delivering.subscriptions["s"].state == "paused"
        assert door.network.kept["a/b"] == 1
        model.subscriptions("http/subscriptions/s", None)
        model.subscriptions("http/subscriptions/unknown", None)
        await turns()
        assert (door.store.subscriptions, door.delivering.subscriptions) == ({}, {})
        assert door.network.kept == {"$dead/#": 1, "a/b": 1}
        await made.close()
        await door.delivering.close()

    run(program())
