"""How a door finds its cluster, proposes, and gives up and comes back, with a model that the test plays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.errors import ClosedError, MinorityError, RefusedError
from glue.gateway.mqtt.access import Everybody
from glue.gateway.mqtt.cluster import joining
from glue.gateway.mqtt.cluster.joining import Joining
from glue.gateway.mqtt.cluster.shared import LARGEST
from glue.gateway.mqtt.cluster.units import Unit
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.translation import FROM_LOG
from glue.model.state import ABSENT, Change, Expect, Set
from tests.gateway.mqtt.played_model import Model

ID = "00000000000000aa"
OTHER = "00000000000000bb"


class Door:
    """One door's part in a cluster."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.model: Any = Model()
        self.living = [ID]
        self.subscribers: list[str] = []
        requests = SimpleNamespace(responders=lambda topic: self.living)
        core = SimpleNamespace(requests=requests, subscribers=lambda topic: self.subscribers)
        endpoint: Any = SimpleNamespace(id=ID, _core=core)
        self.joining = Joining(endpoint, cast(Any, self.model), Everybody(), limits)
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1

    async def start(self) -> None:
        await self.joining.start(self.flush)
        await turns()

    def is_ready(self) -> bool:
        return self.joining.shared.is_ready

    def has_joined(self) -> bool:
        return self.joining.broker.has_joined

    def is_timed(self) -> bool:
        return self.joining._lazy is not None

    def look(self, now: float) -> None:
        self.joining._look(now)


async def turns(count: int = 20) -> None:
    """Let everything run that can."""
    for _ in range(count):
        await asyncio.sleep(0)


def run(program: Coroutine[Any, Any, None]) -> None:
    asyncio.run(program)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits in real time."""
    monkeypatch.setattr(joining, "LAZY", 0.0)


def test_a_door_joins_with_a_free_number_once_a_majority_is_in_reach(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        door = Door(Limits(packet_size=LARGEST + 1))
        assert door.joining.broker.limits.packet_size == LARGEST
        assert Door(Limits(packet_size=5)).joining.broker.limits.packet_size == 5
        shared = door.joining.shared
        assert (shared.name[:17], shared.is_ready) == (f"{ID}-", False)
        door.model.log.commit([Set("d/0", f"{OTHER}-1")])
        door.living = [ID, OTHER]
        door.model.answers = [RefusedError("another door was faster")]
        task = asyncio.create_task(door.start())
        await turns()
        assert not task.done() or door.joining.broker.has_joined
        await task
        assert door.model.asked[0] == ("d/0", 2.0)
        assert (shared.door, shared.is_ready, door.joining.broker.has_joined) == (1, True, True)
        assert [one[0] for one in door.model.asked if len(one) == 2 and one[0] != "d/0"] == [Expect("d/1", ABSENT)] * 2
        assert door.flushes >= 1
        await door.joining.close()
        assert door.model.is_closed

    with caplog.at_level(logging.INFO, "glue.mqtt"):
        run(program())
    assert caplog.messages == ["the door is number 1 of the cluster 'doors'"]


def test_a_door_takes_the_number_of_a_dead_one_from_it() -> None:
    async def program() -> None:
        door = Door()
        door.joining.shared.replica.doors = {number: f"{number + 1_000:016x}-1" for number in range(256)}
        door.living = [f"{number + 1_000:016x}" for number in range(256) if number != 77]
        door.model.log.commit([Set("d/77", f"{1_077:016x}-1")])
        await door.start()
        assert door.joining.shared.door == 77
        assert door.model.asked[-1][0] == Expect("d/77", f"{1_077:016x}-1")
        await door.joining.close()

    run(program())


def test_a_door_without_a_majority_serves_and_says_what_it_does_not(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "START_TIMEOUT", 0.0)

    async def program() -> None:
        door = Door()
        door.model.problem = MinorityError("two of three are missing")
        await door.start()
        before = door.flushes
        door.look(1e9)
        assert door.flushes == before, "nothing is known yet"
        assert not door.has_joined()
        assert not door.joining.broker.is_chosen
        door.model.problem = None
        await turns()
        assert door.has_joined()
        await door.joining.close()
        closed = Door()
        closed.model.problem = ClosedError("closed")
        await closed.start()
        assert closed.joining._tasks[0].done()
        await closed.joining.close()

    run(program())
    text = "sessions that stay, wills and QoS 1 and 2 are refused until then: "
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [f"{text}two of three are missing", f"{text}no majority of the voters was found"]


def unit(number: int) -> tuple[Unit, list[str]]:
    """A unit, and what it is told."""
    told: list[str] = []
    made = Unit([], [Set(f"x/{number}", number)])
    made.committed = lambda now: told.append("committed")
    made.refused = lambda now: told.append("refused")
    return made, told


def test_what_waits_is_proposed_at_once_if_it_is_urgent_and_else_soon() -> None:
    async def program() -> None:
        door = Door()
        await door.start()
        shared = door.joining.shared
        door.joining.begin()
        assert (door.is_timed(), door.joining._poke.is_set()) == (False, False)
        lazy, told = unit(1)
        shared.propose(lazy)
        door.joining.begin()
        timer = door.joining._lazy
        assert door.is_timed()
        door.joining.begin()
        assert door.joining._lazy is timer
        assert not door.joining._poke.is_set()
        await turns()
        assert told == ["committed"]
        assert not door.is_timed()
        urgent, told = unit(2)
        shared.propose(urgent)
        shared.is_urgent = True
        door.joining.begin()
        assert (door.is_timed(), door.joining._poke.is_set()) == (False, True)
        await turns()
        assert (told, shared.is_pending, door.model.asked[-1]) == (
            ["committed"], False, (Set("x/2", 2), Set(f"b/{shared.door}", 2)),
        )  # fmt: skip
        assert door.model.timeouts[-1] == 5.0, "what an election takes, and more"
        last, told = unit(3)
        shared.propose(last)
        await door.joining.close()
        assert told == ["committed"], "committed before the end"

    run(program())


@pytest.mark.parametrize(
    ("problem", "told", "words"),
    [
        (MinorityError("no majority"), [], "no majority"), (TimeoutError(), [], "a batch took too long"),
        (RefusedError("no"), ["refused"], "the model takes nothing more"),
    ],
)  # fmt: skip
def test_a_batch_that_fails_cuts_the_door_off_and_a_majority_brings_it_back(
    problem: Exception, told: list[str], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        door = Door()
        await door.start()
        shared = door.joining.shared
        door.model.answers = [problem]
        made, seen = unit(1)
        shared.propose(made)
        shared.is_urgent = True
        door.joining.begin()
        before = door.flushes
        await turns()
        assert (seen, shared.is_ready, shared.is_pending) == (told, False, False)
        assert door.flushes > before
        assert door.joining.broker.statistics["times without a majority"] == 1
        now = door.joining._settled_at
        door.look(now)
        assert door.is_ready()
        await door.joining.close()

    with caplog.at_level(logging.INFO, "glue.mqtt"):
        run(program())
    assert caplog.messages[1:] == [
        f"sessions and messages of QoS 1 and 2 are not served: {words}", "a majority of the doors is in reach again",
    ]  # fmt: skip


def test_a_refused_unit_with_a_guard_is_refused_alone() -> None:
    async def program() -> None:
        door = Door()
        await door.start()
        shared = door.joining.shared
        good, told = unit(1)
        guarded, refused = unit(2)
        guarded.guards.append(Expect("x/9", 5))
        for one in (good, guarded):
            shared.propose(one)
        shared.is_urgent = True
        door.joining.begin()
        await turns(40)
        assert (told, refused, shared.is_ready) == (["committed"], ["refused"], True)
        await door.joining.close()

    run(program())


def test_a_change_that_the_model_cannot_take_is_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        door = Door()
        await door.start()
        shared = door.joining.shared
        wrong, told = Unit([], [Set("x/1", bytes(3 << 19).hex())]), list[str]()
        good, seen = unit(2)
        wrong.refused = lambda now: told.append("refused")
        for one in (wrong, good):
            shared.propose(one)
        shared.is_urgent = True
        door.joining.begin()
        await turns(40)
        assert (told, seen, shared.is_ready, shared.is_pending) == (["refused"], ["committed"], True, False)
        await door.joining.close()

    run(program())
    assert "a change is left out or proposed again in parts: the value for key 'x/1'" in caplog.messages[-1]


def test_a_door_without_a_leader_promises_nothing_after_three_seconds() -> None:
    async def program() -> None:
        door = Door()
        await door.start()
        begun = door.joining._settled_at - 3.0
        door.look(begun + 0.5)
        door.model.leader = None
        for step in range(1, 7):
            door.look(begun + 0.5 + step / 2)
            assert door.is_ready(), step
        door.look(begun + 4.0)
        assert not door.is_ready()
        door.look(begun + 4.5)
        assert door.joining.broker.statistics["times without a majority"] == 1
        door.model.leader = "x"
        door.look(begun + 5.0)
        assert door.is_ready()
        door.model.leader = None
        door.look(begun + 50.0)
        assert door.is_ready(), "the machine was asleep, so nobody knows yet"
        for step in range(1, 8):
            door.look(begun + 50.0 + step / 2)
        assert not door.is_ready()
        await door.joining.close()

    run(program())


def test_a_door_whose_leader_goes_at_once_waits_as_long() -> None:
    async def program() -> None:
        door = Door()
        door.model.leader = None
        await door.start()
        begun = door.joining._settled_at - 3.0
        for step in range(1, 7):
            door.look(begun + step / 2)
            assert door.is_ready(), step
        door.look(begun + 3.5)
        assert not door.is_ready()
        await door.joining.close()

    run(program())


def test_the_first_living_door_is_chosen_once_all_are_known() -> None:
    async def program() -> None:
        door = Door()
        await door.start()
        broker, shared = door.joining.broker, door.joining.shared
        door.model.watcher(Change("f/x", b'{"t":[1,0]}', 1_000))
        await turns()
        settled = door.joining._settled_at
        for now, living, is_chosen in (
            (settled - 0.1, [ID], False), (settled, [ID], True), (settled + 0.5, [], True),
            (settled + 1.0, [ID, OTHER], True), (settled + 1.5, ["0" * 16], False),
        ):  # fmt: skip
            shared.replica.doors = {0: shared.name, 1: f"{OTHER}-1", 2: "0" * 16 + "-2"}
            door.living = living
            broker.subscriptions.is_changed = False
            before, flushes = door.joining.patterns, door.flushes
            door.look(now)
            assert broker.is_chosen == is_chosen
            assert door.joining.patterns == ({"t"} if is_chosen else set())
            assert broker.subscriptions.is_changed == (before != door.joining.patterns)
            assert door.flushes == flushes + 1
        await door.joining.close()

    run(program())


def test_a_door_gets_from_another_one_what_is_in_no_log() -> None:
    door = Door()
    door.joining.shared.replica.doors = {0: f"{ID}-1", 1: f"{OTHER}-1"}
    logged, alone = Publish("t", (b"1",), 1), Publish("t", (b"1",), 1)
    logged.offset = 5
    for subscribers, is_wanted in (([], False), ([OTHER], False), (["c" * 16], True), ([OTHER, "c" * 16], True)):
        door.subscribers = subscribers
        assert (door.joining.wants(logged), door.joining.wants(alone)) == (is_wanted, True)
    logged.offset = 0
    assert door.joining.wants(logged)

    def message(publisher: str, **properties: str) -> Any:
        return SimpleNamespace(publisher_id=publisher, properties=properties)

    assert not door.joining.takes(logged, message(OTHER, **{FROM_LOG: "1"}))
    assert logged.qos == 1
    assert door.joining.takes(logged, message("c" * 16))
    assert logged.qos == 1
    assert door.joining.takes(logged, message(OTHER))
    assert logged.qos == 0


def test_publishers_are_read_again_once_there_is_room() -> None:
    async def program() -> None:
        door = Door()
        await door.start()
        shared, broker = door.joining.shared, door.joining.broker
        client: Any = object()
        broker.clients["link"] = client
        shared.size = 9 << 20
        assert door.joining.is_full()
        for size, is_changed in ((9 << 20, False), (0, True), (0, False)):
            shared.size = size
            broker.changed.clear()
            door.joining._read_on()
            assert (client in broker.changed) == is_changed
        shared.size = 9 << 20
        assert door.joining.is_full(), "so publishers are not read, however soon there is room again"
        shared.size = 0
        door.model.watcher(Change("x/1", b"1", 2_000))
        seen: list[bool] = []
        door.joining._flush = lambda: seen.append(client in broker.changed)
        await turns()
        assert seen[0], "a commit has made room"
        broker.clients.clear()
        broker.changed.clear()
        await door.joining.close()

    run(program())
