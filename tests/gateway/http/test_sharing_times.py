"""Doors that share their deliveries, in virtual time: when leases are renewed, and that none delivers after its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from glue.errors import MinorityError, RefusedError, StorageError
from glue.gateway.http.items import Attempt, Outcome
from glue.gateway.http.sharing import ModelStore, Sharing
from tests.gateway.http.played import Door, run_in_virtual_time, turns
from tests.gateway.http.test_parts_of_doors import Model, part_with

Program = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
LASTS = 1.5


@pytest.fixture
def virtually(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Run a program in virtual time."""
    return lambda program: run_in_virtual_time(program(), monkeypatch)


def now() -> float:
    return round(asyncio.get_running_loop().time() - 1_000.0, 6)


class Lease:
    """A lock that ends by itself; each renewal has the outcome that the test says, by default success."""

    def __init__(self, seconds: float = LASTS, *outcomes: Exception | None) -> None:
        self._until = now() + seconds
        self._outcomes = list(outcomes)
        self.renewed: list[float] = []
        self.released: list[float] = []

    @property
    def remaining(self) -> float:
        return self._until - now()

    async def renew(self) -> None:
        self.renewed.append(now())
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if isinstance(outcome, TimeoutError):
            await asyncio.sleep(1e9)
        if outcome is not None:
            raise outcome
        self._until = now() + LASTS

    async def release(self) -> None:
        self.released.append(now())


async def prepared(*leases: Any) -> tuple[Door, Sharing, Any]:
    """A door with the subscription `s`, which will get these leases of its part."""
    model: Any = Model()
    door = Door(store=ModelStore(model))
    model.leases[part_with("s")] = list(leases)
    await door.delivering.start()
    await door.add("s", "t", "earliest")
    return door, Sharing(model, door.delivering), model


async def shared(*leases: Any) -> tuple[Door, Sharing, Any]:
    """As `prepared`, and it has begun."""
    door, made, model = await prepared(*leases)
    await made.start()
    await turns()
    return door, made, model


def is_delivering(door: Door) -> bool:
    assert ("s" in door.delivering.machine.lanes) == door.delivering.is_owner("s")
    return door.delivering.is_owner("s")


def test_a_lease_is_renewed_four_times_in_its_time(virtually: Program) -> None:
    async def program() -> None:
        lease = Lease()
        door, made, model = await shared(lease)
        assert is_delivering(door)
        await asyncio.sleep(1.6)
        assert lease.renewed == pytest.approx([0.375, 0.75, 1.125, 1.5])
        await door.store.create("a/b")
        assert model.keys["http/topics/a/b"] is True, "as another door reads it"
        await made.close()
        assert lease.released == [1.6]
        assert asyncio.all_tasks() - {asyncio.current_task(), *door.delivering._loops} == set()
        assert not is_delivering(door)
        await door.delivering.close()

    virtually(program)


@pytest.mark.parametrize(
    ("seconds", "outcomes", "renewed", "ends"),
    [
        (1.5, [MinorityError("none")] * 9, [0.375, 0.75, 1.125], 1.5),
        (1.5, [None, TimeoutError()], [0.375, 0.75], 1.875),
        (0.9, [RefusedError("busy"), *[MinorityError("none")] * 9], [0.375, 0.75], 0.9),
        (0.9, [RefusedError("busy"), None, *[MinorityError("none")] * 9], [0.375, 0.75, 1.125, 1.5, 1.875], 2.25),
        (0.2, [MinorityError("none")] * 9, [], 0.2),
    ],
)
def test_a_door_ends_with_its_lease_and_not_before(
    virtually: Program, seconds: float, outcomes: list[Any], renewed: list[float], ends: float
) -> None:
    async def program() -> None:
        lease = Lease(seconds, *outcomes)
        door, made, _ = await shared(lease)
        await asyncio.sleep(ends - 0.01 - now())
        assert is_delivering(door)
        await asyncio.sleep(0.02)
        assert not is_delivering(door)
        assert [at for at in lease.renewed if at < ends - 1e-6] == pytest.approx(renewed)
        await made.close()
        assert lease.released == [], "it is another door's"
        await door.delivering.close()

    virtually(program)


def test_a_part_is_asked_for_again_after_a_failure_and_after_a_loss(virtually: Program) -> None:
    async def program() -> None:
        first = Lease(0.45, *[MinorityError("none")] * 9)
        lost = MinorityError("none")
        door, made, model = await shared(lost, lost, first, lost)
        asked: list[float] = []
        lock = model._lock

        async def noted(name: str, *more: Any) -> Any:
            if name == part_with("s"):
                asked.append(now())
            return await lock(name, *more)

        model._lock = noted
        assert not is_delivering(door)
        await asyncio.sleep(1.0)
        assert asked == pytest.approx([0.2, 0.4, 0.45, 0.65])
        await made.close()
        await door.delivering.close()

    virtually(program)


def test_a_position_that_cannot_be_found_holds_up_no_other_and_is_looked_for_again(
    virtually: Program, caplog: pytest.LogCaptureFixture
) -> None:
    other = next(f"s{number}" for number in range(999) if part_with(f"s{number}") == part_with("s"))

    async def program() -> None:
        door, made, _ = await prepared(Lease())
        await door.add(other, "t", "earliest")
        good = door.store.position

        async def position(lane: str) -> Any:
            if lane == "s" and not 4.0 <= now() < 6.0:
                raise StorageError("the log is damaged")
            return await good(lane)

        door.store.position = position  # type: ignore[method-assign]
        door.network.store("t", b"1")
        await made.start()
        await asyncio.sleep(3.0 - now())
        assert door.subscriber.got == [(other, b"1")]
        told = "subscription s waits, as its position cannot be found: the log is damaged"
        assert caplog.messages == [told]
        await asyncio.sleep(5.0 - now())
        assert door.subscriber.got == [(other, b"1"), ("s", b"1")], "its lease was renewed all the time"
        await asyncio.sleep(6.0 - now())
        door.delivering.close_lanes("s")  # as at the loss of the part
        await asyncio.sleep(8.0 - now())
        assert caplog.messages == [told] * 2, "once each time that it begins"
        await made.close()
        await door.delivering.close()

    virtually(program)


def test_a_door_that_can_follow_a_part_of_the_model_only_leaves_nothing_open_there(virtually: Program) -> None:
    async def program() -> None:
        door, made, model = await prepared()
        watch = model.watch

        async def without_topics(pattern: str) -> Any:
            if pattern.startswith("http/topics/"):
                raise MinorityError("no majority")
            return await watch(pattern)

        model.watch = without_topics
        with pytest.raises(MinorityError):
            await made.start()
        await made.close()
        assert (len(model.watched), model.closed) == (1, 1), "else each change would wait there"
        await door.delivering.close()

    virtually(program)


def test_a_lease_that_is_over_when_it_comes_delivers_nothing(virtually: Program) -> None:
    async def program(seconds: float, delivered: list[Any]) -> None:
        door, made, _ = await prepared(Lease(seconds))
        door.network.store("t", b"1")
        await made.start()
        await asyncio.sleep(1.0)
        assert door.subscriber.got == delivered
        await made.close()
        await door.delivering.close()

    virtually(lambda: program(0.0, []))
    virtually(lambda: program(0.1, [("s", b"1")]))


def test_what_is_under_way_at_the_end_has_its_time_while_the_lease_is_kept(virtually: Program) -> None:
    async def program() -> None:
        lease = Lease()
        door, made, model = await shared(lease)

        async def send(attempt: Attempt) -> Outcome:
            await asyncio.sleep(0.45)
            return Outcome(204)

        door.subscriber.send = send  # type: ignore[method-assign]
        await asyncio.sleep(0.3)
        door.network.store("t", b"1")
        await turns()
        await made.close()
        assert (now(), lease.renewed, lease.released) == (0.75, [0.375, 0.75], [0.75])
        assert model.keys["http/positions/s"]["offset"] == 1
        await door.delivering.close()

    virtually(program)


def test_a_door_without_a_majority_ends_all_the_same(virtually: Program) -> None:
    async def program() -> None:
        lease = Lease()
        door, made, model = await shared(lease)
        door.network.store("t", b"1")
        await turns()

        async def never(*_: Any) -> None:
            await asyncio.sleep(1e9)

        model.set = lease.release = never  # type: ignore[method-assign]
        await made.close()
        assert now() == pytest.approx(4.0), "two seconds for positions, two for the parts"
        assert model.closed == 2
        assert not is_delivering(door)

    virtually(program)


def test_a_part_that_cannot_be_given_back_does_not_keep_the_others(virtually: Program) -> None:
    async def program() -> None:
        one, other = Lease(), Lease()
        door, made, model = await shared(one)

        async def failing() -> None:
            raise MinorityError("none")

        one.release = failing  # type: ignore[method-assign]
        made._locks[99] = other  # type: ignore[assignment]
        await made.close()
        assert (len(other.released), model.closed) == (1, 2)
        await door.delivering.close()

    virtually(program)


def test_a_lease_that_is_nearly_over_is_given_back_too(virtually: Program) -> None:
    async def program() -> None:
        lease = Lease(0.9)
        door, made, _ = await shared(lease)
        await made.close()
        assert lease.released == [0.0]
        await door.delivering.close()

    virtually(program)
