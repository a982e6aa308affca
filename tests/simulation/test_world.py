"""The world as a whole: time passes only when asked, and the same seed gives the same world, always."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glue.contract import Event, Request, Train
from glue.errors import ConfigurationError
from glue.simulation import Burst, Conditions, SimulationError, World
from tests.simulation.machines import Counting, Echo, Listener

ROOT = Path(__file__).parents[2]
EVERYTHING = Conditions(
    loss=0.1,
    burst=Burst(enter=0.05, leave=0.3),
    corrupt=0.05,
    duplicate=0.2,
    jitter=0.002,
    reorder=0.1,
    rate=1e6,
)


def eventful(seed: int) -> str:
    """Four hosts that echo each other's multicasts while everything befalls them; the hash of it all."""
    world = World(seed)
    hosts = [world.add(Echo(), drift=number * 1e-5) for number in range(3)]
    hosts.append(world.add(Counting(None, count=200, together=5)))
    world.network.set_conditions(EVERYTHING)
    world.at(0.05, lambda: world.network.partition(hosts[:2], hosts[2:]))
    world.at(0.08, world.network.heal)
    world.at(0.1, hosts[0].pause)
    world.at(0.12, hosts[0].resume)
    world.at(0.13, hosts[1].crash)
    world.at(0.15, lambda: hosts[1].restart(Echo()))
    world.run(0.3)
    return world.trace_hash


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    assert eventful(1) == eventful(1)
    assert eventful(1) != eventful(2)


def test_the_trace_does_not_depend_on_the_hash_seed_of_the_process() -> None:
    command = [sys.executable, "-c", "from tests.simulation.test_world import eventful; print(eventful(1))"]
    hashes = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    ]
    assert hashes == [eventful(1)] * 2


def test_running_in_one_go_or_in_steps_gives_the_same_trace() -> None:
    def trace(steps: int) -> str:
        world = World(9)
        echo = world.add(Echo())
        world.add(Counting(echo.address, count=100))
        world.network.set_conditions(EVERYTHING)
        for _ in range(steps):
            world.run(1.0 / steps)
        return world.trace_hash

    assert trace(1) == trace(4)


def test_a_note_is_part_of_the_trace() -> None:
    def trace(*notes: str) -> str:
        world = World()
        for note in notes:
            world.note(note)
        return world.trace_hash

    assert trace("leader a") == trace("leader a") != trace("leader b")


def test_randomness_is_split_by_purpose_and_follows_the_seed() -> None:
    world, same, other = World(1), World(1), World(2)
    assert world.random("a").random() == same.random("a").random()
    assert len({world.random("a").random(), world.random("b").random(), other.random("a").random()}) == 3


def test_actions_happen_at_their_time_in_the_order_they_were_planned() -> None:
    world = World()
    happened: list[tuple[str, float]] = []
    for name, time in (("late", 2.0), ("early", 1.0), ("also late", 2.0)):
        world.at(time, lambda name=name: happened.append((name, world.time)))  # type: ignore[misc]
    world.run(1.5)
    world.after(0.25, lambda: happened.append(("soon", world.time)))
    world.run(1.5)
    assert happened == [("early", 1.0), ("soon", 1.75), ("late", 2.0), ("also late", 2.0)]
    assert world.time == 3.0


def test_the_past_cannot_be_changed() -> None:
    world = World()
    world.run(2.0)
    with pytest.raises(SimulationError, match=r"it is 2\.0 already"):
        world.at(1.0, lambda: None)
    with pytest.raises(SimulationError, match=r"cannot pass from 2\.0 to 1\.0"):
        world.run(-1.0)


def test_run_until_stops_at_the_very_moment_or_tells_that_it_never_came() -> None:
    world = World()
    receiver = world.add(machine := Listener())
    world.add(Counting(receiver.address, count=10, interval=1.0))
    assert world.run_until(lambda: len(machine.trains) == 3, timeout=100.0)
    assert world.time == 2.0005
    assert not world.run_until(lambda: len(machine.trains) == 99, timeout=50.0)
    assert world.time == 52.0005


def test_run_within_run_is_refused() -> None:
    world = World()
    world.at(1.0, lambda: world.run(1.0))
    with pytest.raises(SimulationError, match="within run"):
        world.run(2.0)
    world.run(1.0)


def test_hosts_that_answer_each_other_without_delay_do_not_hang_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.simulation.schedule.STEPS_AT_ONE_INSTANT", 1000)
    world = World()
    echo = world.add(Echo())
    sender = world.add(Counting(echo.address))
    world.network.set_conditions(Conditions(delay=0.0))
    world.at(0.5, lambda: sender.restart(EchoOnce(echo.address)))
    with pytest.raises(SimulationError, match=r"time stands still at 0\.5"):
        world.run(1.0)


class EchoOnce(Counting):
    """Sends one datagram and echoes what comes back."""

    def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
        _, sent = super().turn(now, trains, requests)
        return [], sent + Echo().turn(now, trains, requests)[1]


def test_hosts_get_addresses_of_their_own() -> None:
    world = World()
    named = world.add(Listener(), ("10.0.0.2", 37320))
    hosts = [world.add(Listener()) for _ in range(255)]
    addresses = [host.address for host in (named, *hosts)]
    assert len(set(addresses)) == 256
    assert addresses[-1] == ("10.0.1.6", 37320)
    with pytest.raises(ConfigurationError, match="taken"):
        world.add(Listener(), named.address)
