"""The shell of deliveries in virtual time: when it looks again, stores positions and ends; what a next life does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from glue.errors import StorageError
from glue.gateway.http.delivering import Delivering
from glue.gateway.http.items import Attempt, Outcome
from glue.gateway.http.limits import Limits
from glue.gateway.http.store import MemoryStore
from glue.gateway.http.subscriptions import Subscription
from glue.storage import Record
from tests.gateway.http.played import URL, Door, run_in_virtual_time, turns

Program = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def virtually(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Run a program in virtual time."""
    return lambda program: run_in_virtual_time(program(), monkeypatch)


async def begun(*ids: str, door: Door | None = None, **settings: Any) -> Door:
    """A door with subscriptions of the topic `t`."""
    door = door or Door()
    await door.delivering.start()
    for id in ids:
        await door.add(id, "t", **settings)
    return door


def timed(door: Door, takes: float = 0.0) -> list[float]:
    """The times of the attempts from now on; each takes some seconds."""
    loop, found, send = asyncio.get_running_loop(), list[float](), door.subscriber.send

    async def noted(attempt: Attempt) -> Outcome:
        found.append(loop.time())
        await asyncio.sleep(takes)
        return await send(attempt)

    door.subscriber.send = noted  # type: ignore[method-assign]
    return found


def test_what_fails_is_tried_again_when_it_is_due_and_nothing_else_happens(virtually: Program) -> None:
    async def program() -> None:
        door = await begun("s")
        times, door.subscriber.answers = timed(door), [Outcome(500), Outcome(500)]
        door.network.store("t", b"1")
        await asyncio.sleep(10.0)
        first, second, third = times
        assert first == 1_000.0
        assert 0.8 <= second - first <= 1.2
        assert 1.6 <= third - second <= 2.4
        assert door.delivering._tasks == set(), "what has ended is forgotten"
        await door.delivering.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtually(program)


def test_positions_are_stored_five_times_a_second_and_all_of_them_once_a_minute(virtually: Program) -> None:
    async def program() -> None:
        door = await begun("s")
        await door.add("idle", "u")
        saved: list[tuple[float, list[str]]] = []

        async def save(positions: Any) -> None:
            saved.append((asyncio.get_running_loop().time() - 1_000.0, sorted(positions)))

        door.store.save = save  # type: ignore[method-assign]
        await asyncio.sleep(0.3)
        door.network.store("t", b"1")
        await asyncio.sleep(0.05)
        assert saved == []
        await asyncio.sleep(150.0)
        assert [ids for _, ids in saved] == [["s"], ["idle", "s"], ["idle", "s"]]
        assert saved[0][0] == pytest.approx(0.4)
        assert 60.0 <= saved[1][0] <= 60.3
        assert 120.0 <= saved[2][0] <= 120.6
        await door.delivering.close()

    virtually(program)


@pytest.mark.parametrize(("takes", "offset"), [(0.4, 1), (0.6, 0)])
def test_what_is_under_way_at_the_end_has_half_a_second(virtually: Program, takes: float, offset: int) -> None:
    async def program() -> None:
        door = await begun("s")
        timed(door, takes)
        door.network.store("t", b"1")
        await turns()
        await door.delivering.finish()
        assert asyncio.get_running_loop().time() == pytest.approx(1_000.0 + min(takes, 0.5))
        await turns()
        assert door.delivering._tasks == set(), "what has not ended is cut off: it is another door's now"
        await door.delivering.close()
        assert (await door.store.position("s") or {})["offset"] == offset
        door.network.store("t", b"2", number=2)
        await turns()
        assert door.delivering.journal.recent.durable == 1, "nobody looks at the log any more"

    virtually(program)


def test_a_log_that_cannot_be_read_is_tried_again_by_each_lane_and_told_once_a_second(
    virtually: Program, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems: dict[str, list[Exception]] = {
        "t": [StorageError("the disk is gone"), OSError("still"), IndexError("shrunk")], "u": [OSError("too")],
    }  # fmt: skip

    async def program() -> None:
        door = await begun("s")
        await door.add("other", "u")
        await door.add("third", "v")
        times, read = timed(door), door.delivering.journal.recent.read

        def reading(topics: Callable[[str], bool], offset: int, size: int) -> Any:
            for topic, left in problems.items():
                if topics(topic) and left:
                    raise left.pop(0)
            return read(topics, offset, size)

        monkeypatch.setattr(door.delivering.journal.recent, "read", reading)
        door.network.store("t", b"1")
        await asyncio.sleep(0.5)
        door.network.store("u", b"2")
        door.network.store("v", b"3")
        await asyncio.sleep(10.0)
        assert sorted(door.subscriber.got) == [("other", b"2"), ("s", b"1"), ("third", b"3")], "nobody is held up"
        assert [one - 1_000.0 for one in times] == pytest.approx([0.5, 1.5, 3.0], abs=0.01)
        await door.delivering.close()

    with caplog.at_level(logging.ERROR, "glue.http"):
        virtually(program)
    assert caplog.messages == [
        f"the log could not be read: {words}" for words in ("the disk is gone", "still", "shrunk")
    ]


def test_a_message_behind_a_dead_letter_is_not_held_up(virtually: Program) -> None:
    async def program() -> None:
        door = await begun("s", give_up_after=1e-9)
        times, door.subscriber.answers = timed(door, 0.001), [Outcome(500)]
        door.network.store("t", b"1", b"2")
        await asyncio.sleep(0.1)
        assert [payload for _, payload in door.subscriber.got] == [b"1", b"2"]
        assert times[1] - times[0] < 0.01
        await door.delivering.close()

    virtually(program)


def test_a_subscription_that_is_resumed_or_not_told_of_in_detail_goes_on_at_once(virtually: Program) -> None:
    async def program() -> None:
        door = await begun("s", state="paused")
        door.network.store("t", b"1")
        await turns()
        await door.delivering.change(Subscription("s", "t", URL))
        await turns()
        assert door.subscriber.got == [("s", b"1")]
        log = door.network.log
        log.append([Record("b" * 16, "hall", 1, "t", 1, [b"2"], 1e9)])  # of which only the log tells
        door.network.store("t", b"3", number=2)
        await turns()
        assert door.subscriber.got == [("s", b"1"), ("s", b"2"), ("s", b"3")]
        await door.delivering.close()

    virtually(program)


class Remembering(MemoryStore):
    """A store that reads what another life has left."""

    async def open(self) -> None:
        self.subscriptions = {"s": Subscription("s", "t", URL).stored()}


def replaying(log: str) -> dict[str, Any]:
    return {"log": log, "offset": 0, "since": 0.0, "seen": [], "limit": 2}


@pytest.mark.parametrize(("log", "is_here"), [("log", True), ("other", False)])
def test_a_next_life_goes_on_with_a_replay_of_its_own_log_and_else_with_what_comes(
    virtually: Program, log: str, is_here: bool
) -> None:
    async def program() -> None:
        door = Door()
        door.store = door.delivering.store = Remembering()
        await door.store.save({"s/replay": replaying(log)})
        door.network.log.append([
            Record("a" * 16, "kitchen", 1, topic, 1, [b"old"], 1e9) for topic in ("t", "$dead/s")
        ])  # fmt: skip
        await begun(door=door)
        await turns()
        replayed = [("s/replay", b"old")] if is_here else []
        assert door.subscriber.got == replayed, "without a position it begins now"
        assert door.delivering.machine.lanes["s"].since > 1.6e9
        door.network.store("t", b"new", number=2)
        await turns()
        assert door.subscriber.got == [*replayed, ("s", b"new")]
        await door.delivering.close()

    virtually(program)


def test_a_subscription_that_is_removed_leaves_no_replay(virtually: Program) -> None:
    async def program() -> None:
        door = await begun("s", state="paused")
        door.network.store("$dead/s", b"1", b"2")
        await turns()
        assert await door.delivering.replay("s") == 2
        assert await door.store.position("s/replay") == replaying("log")
        assert sorted(door.delivering.machine.lanes) == ["s", "s/replay"]
        await door.delivering.remove("s")
        assert door.delivering.machine.lanes == {}
        assert [await door.store.position(id) for id in ("s", "s/replay")] == [None, None]
        await door.delivering.close()

    virtually(program)


def test_a_door_alone_owns_all_subscriptions_and_one_of_several_none_yet() -> None:
    async def program() -> None:
        network: Any = Door().network
        sender: Any = None
        assert Delivering(network, MemoryStore(), sender, Limits()).is_owner("s")
        assert not Delivering(network, MemoryStore(), sender, Limits(), is_portable=True).is_owner("s")

    asyncio.run(program())
