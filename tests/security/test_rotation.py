"""Rotation of the key: members take the new epoch one after the other, and none is cut off that gets it in time."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import glue
from glue.cmd import key as command
from glue.endpoint.secrets import KeyFile, read_key, write_secret
from glue.security import new_key, retire, rotated
from glue.simulation import SimulatedEndpoint, World
from tests.support.lan import PATIENCE, Ear, Lan

NAMES = ("kitchen", "hall", "attic")


class Plant:
    """Sealed endpoints that all publish each tenth of a second, in virtual time."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.key = new_key(Random(seed).randbytes)
        self.heard: dict[str, int] = dict.fromkeys(NAMES, 0)
        self.sent = 0
        self.endpoints = {name: self.start(name) for name in NAMES}

    def start(self, name: str) -> SimulatedEndpoint:
        endpoint = self.world.endpoint(name, key=self.key)

        def hear(message: glue.Message) -> None:
            self.heard[name] += 1

        endpoint.subscribe("plant/#", hear)
        return endpoint

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.world.run(0.1)
            for endpoint in self.endpoints.values():
                if endpoint.is_running:
                    endpoint.publish("plant/x", b"x")
                    self.sent += 1

    def rotate(self, *names: str) -> None:
        """Give these members a key file with the next epoch."""
        new = rotated(self.key, Random(9).randbytes, overlap=20)
        for name in names:
            self.endpoints[name]._core.security._new_key = lambda: new
            self.endpoints[name]._core.security.look_at = 0.0

    def epochs(self) -> dict[str, tuple[int, list[int]]]:
        """The number of the epoch that each seals with, and of those that it opens."""
        found = {}
        for name, endpoint in self.endpoints.items():
            rotation = endpoint._core.security.rotation
            found[name] = rotation.sealing.number, [epoch.number for epoch in rotation.key.epochs]
        return found


def test_members_pass_a_new_epoch_on_within_seconds_and_the_old_one_ends() -> None:
    plant = Plant(1)
    plant.run(2)
    kitchen = plant.endpoints["kitchen"]._core.security
    kitchen._new_key = lambda: rotated(plant.key, Random(9).randbytes, overlap=10)
    kitchen.look_at = 0.0
    plant.run(3)
    assert plant.epochs() == dict.fromkeys(NAMES, (2, [1, 2]))
    plant.run(12)
    assert plant.epochs() == dict.fromkeys(NAMES, (2, [2]))
    plant.world.run(2.0)
    assert plant.heard == dict.fromkeys(NAMES, plant.sent)  # no message was lost over it


def test_a_member_that_was_offline_catches_up_within_the_overlap_and_is_told_afterwards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plant = Plant(2)
    plant.run(1)
    plant.endpoints["attic"].crash()
    plant.rotate("kitchen", "hall")
    plant.run(2)
    plant.endpoints["attic"].restart()
    plant.run(3)
    assert plant.epochs()["attic"] == (2, [1, 2])
    plant.endpoints["attic"].crash()
    plant.run(25)
    plant.endpoints["attic"].restart()  # with the file of before, as a simulated endpoint writes none
    plant.run(2)
    assert plant.endpoints["attic"].peers == []
    assert "missed a rotation" in caplog.text


def test_a_member_that_returns_after_all_others_seal_with_the_new_epoch_gets_it() -> None:
    plant = Plant(4)
    plant.run(1)
    plant.endpoints["attic"].close()
    plant.rotate("kitchen", "hall")
    plant.run(5)
    assert plant.epochs()["hall"] == (2, [1, 2])
    plant.endpoints["attic"].restart()
    plant.run(1)
    assert plant.epochs()["attic"] == (2, [1, 2])
    assert len(plant.endpoints["attic"].peers) == 2
    heard = plant.heard["kitchen"]
    plant.run(1)
    assert plant.heard["kitchen"] >= heard + 25  # from all three


def test_a_leaked_epoch_is_not_answered_with_the_new_one() -> None:
    plant = Plant(3)
    plant.run(1)
    new = rotated(plant.key, Random(9).randbytes, overlap=5, shares=False)
    for name in ("kitchen", "hall"):  # the operator copies the file; the attic stands for the thief
        plant.endpoints[name]._core.security._new_key = lambda: new
        plant.endpoints[name]._core.security.look_at = 0.0
    plant.run(20)
    assert plant.epochs()["attic"] == (1, [1])
    assert plant.epochs()["kitchen"] == plant.epochs()["hall"] == (2, [2])
    assert [peer.name for peer in plant.endpoints["kitchen"].peers] == ["hall"]


def test_the_command_rotates_a_running_plant_and_its_files(
    lan: Lan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = new_key(os.urandom).to_text()
    paths = [tmp_path / name for name in ("operator.key", "kitchen.key", "hall.key")]
    for path in paths:
        write_secret(path, content)
    kitchen, hall = lan.start("kitchen", key=paths[1]), lan.start("hall", key=paths[2])
    ear = Ear()
    hall.subscribe("x", ear)
    options = ["--interface", str(lan.settings["interface"]), "--network-id", str(lan.settings["network_id"])]
    options += ["--multicast-address", str(lan.settings["multicast_address"])]
    assert command.main(["rotate", str(paths[0]), *options]) == 0
    assert "2 of 2 members have it" in capsys.readouterr().out
    assert [read_key(path).newest.number for path in paths] == [2, 2, 2]
    assert kitchen.wait_for_subscribers("x", 1, timeout=PATIENCE)
    kitchen.publish("x", "after")
    assert ear.wait()[0].payload == "after"


def test_the_files_of_epochs_are_read_back() -> None:
    key = rotated(new_key(os.urandom), os.urandom, overlap=5, shares=False)
    for made in (key, retire(key), rotated(key, os.urandom)):
        assert type(key).from_text(made.to_text(), "x") == made
    assert len(rotated(key, os.urandom).epochs) == 2
    assert rotated(key, os.urandom).retired == (key.epochs[0].id,)


def test_a_file_of_a_rotation_long_ago_begins_with_the_newest_epoch(tmp_path: Path) -> None:
    path = tmp_path / "plant.key"
    write_secret(path, rotated(new_key(os.urandom), os.urandom).to_text())
    assert len(glue.Endpoint("a", key=path)._core.security.key.epochs) == 2
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert [epoch.number for epoch in glue.Endpoint("a", key=path)._core.security.key.epochs] == [2]


def test_a_copy_of_the_file_does_not_begin_the_overlap_again(tmp_path: Path) -> None:
    path = tmp_path / "plant.key"
    key = rotated(new_key(os.urandom), os.urandom, at=time.time() - 61)
    write_secret(path, key.to_text())
    assert [epoch.number for epoch in glue.Endpoint("a", key=path)._core.security.key.epochs] == [2]
    taken = KeyFile(str(path))
    taken.keep(replace(key, rotated_at=0.0))  # came from another member: the file knows already when
    assert read_key(path).rotated_at == key.rotated_at
    newer = rotated(key, os.urandom)
    taken.keep(newer)
    assert read_key(path).rotated_at > key.rotated_at


def test_an_older_key_file_in_place_of_the_present_one_is_not_taken_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, older = tmp_path / "plant.key", new_key(os.urandom)
    write_secret(path, rotated(older, os.urandom).to_text())
    file = KeyFile(str(path))
    file.newest = 2
    write_secret(path, older.to_text(), replaces=True)
    assert file.look() is None
    assert "goes on with epoch 2: copy the present key file back" in caplog.text


def test_a_damaged_key_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "plant.key"
    write_secret(path, new_key(os.urandom).to_text()[:-20])
    with pytest.raises(glue.ConfigurationError, match="copy the key file of the group again"):
        glue.Endpoint("a", key=path)
