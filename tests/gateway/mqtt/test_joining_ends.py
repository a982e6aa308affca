"""How a door goes on with its cluster when something stays out, and how it leaves it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from glue.errors import MinorityError, RefusedError
from glue.gateway.mqtt.cluster import joining
from glue.model.state import Expect, Set
from tests.gateway.mqtt.test_joining import ID, OTHER, Door, run, turns, unit


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits in real time."""
    monkeypatch.setattr(joining, "LAZY", 0.0)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged as a warning or worse; other tests may have turned on more."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_door_that_does_not_see_its_own_batch_in_time_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joining, "CALL_TIMEOUT", 0.0)

    async def program() -> None:
        door = Door()
        await door.start()
        door.model.watcher = None
        made, told = unit(1)
        door.joining.shared.propose(made)
        door.joining.shared.is_urgent = True
        door.joining.begin()
        await turns(50)
        assert (told, door.is_ready(), door.joining.shared.is_pending) == ([], False, False)
        await door.joining.close()

    run(program())
    assert warnings(caplog) == ["sessions and messages of QoS 1 and 2 are not served: a batch took too long"]


def test_a_door_that_loses_the_majority_while_it_registers_begins_anew() -> None:
    async def program() -> None:
        door = Door()
        door.model.answers = [RefusedError("another door was faster"), MinorityError("it has just gone")]
        await door.start()
        assert door.model.asked.count(("d/0", 2.0)) == 2, "it asks once more whether there is a majority"
        assert (door.has_joined(), door.joining._trouble) == (True, "it has just gone")
        await door.joining.close()

    run(program())


def test_a_sweep_that_fails_is_told_and_the_next_one_follows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joining, "INTERVAL", 0.0)

    async def program() -> None:
        door = Door()
        looks: list[float] = []

        def look(now: float) -> None:
            looks.append(now)
            if len(looks) == 1:
                raise RuntimeError("odd")

        monkeypatch.setattr(door.joining, "_look", look)
        await door.start()
        await turns(30)
        assert len(looks) > 1
        await door.joining.close()
        seen = len(looks)
        await turns()
        assert len(looks) == seen, "it has left"

    run(program())
    assert warnings(caplog) == ["a sweep of the cluster failed"]


def test_another_batch_follows_at_once_only_if_something_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        door = Door()
        await door.start()
        shared = door.joining.shared
        first, told = unit(1)
        shared.propose(first)
        shared.is_urgent = True
        second, told_too = unit(2)
        first.committed = lambda now: shared.propose(second)
        monkeypatch.setattr(joining, "LAZY", 60.0)
        door.joining.begin()
        await turns()
        assert (told, told_too, door.is_timed()) == ([], [], True), "nobody waits for the second one"
        timer = door.joining._lazy
        assert timer is not None
        shared.is_urgent = True
        door.joining.begin()
        await turns()
        assert told_too == ["committed"]
        shared.is_ready = False
        shared.propose(unit(3)[0])
        await door.joining.close()
        assert timer.cancelled()
        assert door.model.is_closed
        assert shared.is_pending, "without a majority nothing waits for a commit"

    run(program())


@pytest.mark.parametrize(("pause", "is_ready"), [(1.5, False), (1.51, True)])
def test_a_door_whose_machine_stood_still_waits_anew_for_a_leader(pause: float, is_ready: bool) -> None:
    async def program() -> None:
        door = Door()
        await door.start()
        door.look(1e6)
        door.model.leader = None
        for after in (1.5, 3.0, 3.0 + pause):
            door.look(1e6 + after)
        assert door.is_ready() == is_ready
        await door.joining.close()

    run(program())


def test_a_number_that_a_dead_door_had_is_taken_only_from_it(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        door = Door()
        door.model.log.commit([Set(f"d/{number}", f"{OTHER}-{number}") for number in range(200)])
        door.model.log.commit([Set(f"d/{number}", f"{OTHER}-{number}") for number in range(200, 256)])
        door.living = [ID]
        with caplog.at_level(logging.INFO, "glue.mqtt"):
            await door.start()
        name = door.joining.shared.name
        asked = [one for one in door.model.asked if isinstance(one[0], Expect)]
        assert asked == [(Expect("d/0", f"{OTHER}-0"), Set("d/0", name))]
        await door.joining.close()
        again = Door()
        again.model = again.joining._model = door.model
        again.model.asked.clear()
        await again.start()
        asked = [one for one in again.model.asked if isinstance(one[0], Expect)]
        assert asked == [(Expect("d/0", name), Set("d/0", again.joining.shared.name))], "its own former number"
        await again.joining.close()
        await asyncio.sleep(0)

    run(program())
    assert {*caplog.messages} == {"the door is number 0 of the cluster 'doors'"}
