"""A leader whose disk is full stands aside and says so; another one leads, and it comes back when there is room."""

from __future__ import annotations

import logging
from random import Random

import pytest

from glue.model.consensus import Role
from glue.model.questions import Committed, Refused, Write
from glue.model.state import Set, Update
from glue.simulation import World
from glue.simulation.consensus import SimulatedDisk
from glue.simulation.model import SimulatedModel

WAIT = 8.0


class Plant:
    def __init__(self, mergeable: dict[str, str] | None = None) -> None:
        self.world = World(6)
        self.disks = [SimulatedDisk(Random(number)) for number in range(3)]
        self.endpoints = [self.world.endpoint(f"e{number}") for number in range(len(self.disks))]
        self.models = [
            endpoint.model("plant", voters=3, directory=disk, mergeable=mergeable)
            for endpoint, disk in zip(self.endpoints, self.disks, strict=True)
        ]
        self.world.run(WAIT)

    def leader(self, besides: SimulatedModel | None = None) -> int:
        """The number of the endpoint that leads."""
        return next(
            number for number, model in enumerate(self.models)
            if model is not besides and model.group.status.role is Role.LEADER
        )  # fmt: skip

    def write(self, number: int, value: int, wait: float = WAIT) -> object:
        asked = self.models[number].ask(Write([Set("k", value)]))
        self.world.run(wait)
        return asked.ending

    def reads(self, number: int) -> list[object]:
        return [change.value for change in self.models[number].group.local("k")]


def test_a_leader_whose_disk_is_full_stands_aside_and_is_back_when_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plant = Plant()
    victim = plant.leader()
    model, disk = plant.models[victim], plant.disks[victim]
    assert isinstance(plant.write(victim, 1), Committed)
    disk.is_full = True
    with caplog.at_level(logging.WARNING, "glue"):
        assert not isinstance(plant.write(victim, 2, 0.2), Committed)
        group = model.group
        assert group.status.role is Role.FOLLOWER
        assert "no room on the disk" in group.failure(plant.world.time)
        assert group.statistics["times that the disk was full"] == 1
        assert group.replica.statistics["stepped down, unable to store"] == 1
        refused = plant.write(victim, 3, 0.2)
        assert isinstance(refused, Refused)
        assert "no room" in refused.reason
        assert plant.reads(victim) in ([1], [2]), "what is here can still be read"
        plant.world.run(WAIT)
        successor = plant.leader(besides=model)
        assert isinstance(plant.write(successor, 4), Committed)
        disk.is_full = False
        plant.world.run(WAIT)
    assert [record.message.partition(":")[0] for record in caplog.records] == ["model 'plant'"] * 2, "once each"
    assert "there is room on the disk again" in caplog.records[-1].message
    assert (group.failure(plant.world.time), plant.reads(victim)) == ("", [4])
    assert isinstance(plant.write(victim, 5), Committed)
    assert [plant.reads(number) for number in range(3)] == [[5]] * 3


def test_what_was_acknowledged_survives_a_power_cut_while_the_disk_is_full() -> None:
    plant = Plant()
    victim = plant.leader()
    assert isinstance(plant.write(victim, 1), Committed)
    endpoint = plant.endpoints[victim]
    plant.disks[victim].is_full = True
    plant.write(victim, 2, 1.0)
    endpoint.crash()
    plant.disks[victim].crash()
    endpoint.restart()
    plant.models[victim] = endpoint.model("plant", voters=3, directory=plant.disks[victim])
    plant.world.run(WAIT)
    assert plant.reads(victim)[0] in (1, 2)
    assert len({str(plant.reads(number)) for number in range(3)}) == 1


def test_mergeable_keys_that_found_no_room_are_written_once_there_is() -> None:
    plant = Plant({"count/": "counter"})
    disk, model = plant.disks[0], plant.models[0]
    disk.is_full = True
    asked = model.ask(Write([Update("count/0", 5)]))
    plant.world.run(1.0)
    assert not isinstance(asked.ending, Committed)
    disk.is_full = False
    plant.world.run(WAIT)
    asked = model.ask(Write([Update("count/0", 1)]))
    plant.world.run(WAIT)
    assert isinstance(asked.ending, Committed)
    endpoint = plant.endpoints[0]
    endpoint.crash()
    disk.crash()
    endpoint.restart()
    again = endpoint.model("plant", voters=3, directory=disk, mergeable={"count/": "counter"})
    plant.world.run(0.1)
    assert [change.value for change in again.group.local("count/0")] == [6]


def test_a_watch_misses_no_mergeable_change_while_the_disk_is_full() -> None:
    """What is merged is read at once, and so it is told, whether or not there was room for it on the disk."""
    plant = Plant({"count/": "counter"})
    model = plant.models[0]
    watch = model.watch("count/#")
    plant.world.run(1.0)
    plant.disks[0].is_full = True
    plant.models[1].ask(Write([Update("count/theirs", 7)]))
    plant.world.run(0.1)
    plant.disks[0].is_full = False
    plant.world.run(WAIT)
    plant.disks[0].is_full = True
    asked = model.ask(Write([Update("count/ours", 5)]))
    plant.world.run(0.1)
    assert not isinstance(asked.ending, Committed)
    plant.disks[0].is_full = False
    plant.world.run(WAIT)
    assert model.group.failure(plant.world.time) == ""
    assert [(change.key, change.value) for change in watch.changes] == [("count/theirs", 7), ("count/ours", 5)]
