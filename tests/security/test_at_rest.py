"""Files that are sealed at rest: what a thief of the disk sees, and that storages keep their promises on them.

By hand, with many seeds: `python -m tests.security.test_at_rest 0 10000`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from unittest import mock

import pytest

import glue
from glue.endpoint.secrets import write_secret
from glue.security import AES_GCM, CHACHA, Suite, new_key, rotated
from glue.security import at_rest as room
from glue.security.at_rest import CHUNK, OVERHEAD, SealedDirectory, sealed_directory
from glue.simulation import World
from glue.simulation.consensus import SimulatedDisk
from glue.storage import SEALED
from tests.security.pair import KEY, OTHER_KEY
from tests.storage.swarm import first_violation, run_seed
from tests.support.lan import Lan

SEEDS = 25


def opened(disk: SimulatedDisk, suite: Suite = AES_GCM, seed: int = 1) -> SealedDirectory:
    return sealed_directory(disk, KEY, suite, Random(seed).randbytes)


@pytest.mark.parametrize("suite", [AES_GCM, CHACHA], ids=lambda suite: suite.name)
def test_any_part_of_a_file_is_read_back_and_nothing_of_it_is_in_the_open(suite: Suite) -> None:
    disk, random = SimulatedDisk(Random(1)), Random(2)
    directory, plain = opened(disk, suite), b""
    directory.create("log")
    for size in (1, 0, 700, CHUNK, 3 * CHUNK + 5, 16):
        part = bytes([65 + size % 7]) * size
        directory.append("log", part)
        plain += part
    for found in (directory, opened(disk, CHACHA, 9)):
        assert found.read("log") == plain
        assert found.size("log") == len(plain)
        for _ in range(50):
            start, size = random.randrange(len(plain) + 9), random.randrange(CHUNK)
            assert found.read_at("log", start, size) == plain[start : start + size]
    assert found.read("other") is None
    assert [*found.names()] == ["log"]
    assert b"AAAA" not in bytes(disk.read("log") or b"")
    assert disk.size("log") == len(plain) + 8 * OVERHEAD


@pytest.mark.parametrize("size", [0, 1, 100, 150, 250, 300])
def test_a_file_that_is_cut_anywhere_goes_on_from_there(size: int) -> None:
    disk = SimulatedDisk(Random(1))
    directory = opened(disk)
    directory.create("log")
    plain = b"".join(bytes([number]) * 100 for number in range(3))
    for start in (0, 100, 200):
        directory.append("log", plain[start : start + 100])
    directory.truncate("log", size)
    directory.append("log", b"more")
    assert directory.read("log") == opened(disk).read("log") == plain[:size] + b"more"


@pytest.mark.parametrize("seed", range(5))
def test_a_crash_after_a_cut_costs_nothing_of_what_was_kept(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    directory, plain = opened(disk), bytes(range(200))
    directory.create("log")
    directory.append("log", plain)
    directory.sync("log")
    directory.sync_names()
    directory.truncate("log", 150)
    disk.crash()
    assert opened(disk).read("log") == plain[:150]


def test_a_file_that_was_removed_is_gone_at_once() -> None:
    directory = opened(SimulatedDisk(Random(1)))
    for part in (b"one", b"another"):
        assert (directory.read("log"), directory.size("log")) == (None, 0)
        directory.create("log")
        directory.append("log", part)
        assert directory.read("log") == part
        directory.remove("log")


def test_what_a_crash_cut_short_is_gone_and_what_is_damaged_is_seen_as_damage() -> None:
    disk = SimulatedDisk(Random(1))
    directory = opened(disk)
    directory.create("log")
    for part in (b"one", b"two", b"three"):
        directory.append("log", part)
    whole = bytes(disk.read("log") or b"")
    chunk = len(b"one") + OVERHEAD
    for cut in range(2 * chunk + 1, len(whole)):
        for rest in (b"", bytes(40)):
            disk.create("log")
            disk.append("log", whole[:cut] + rest)
            torn = opened(disk)
            assert torn.read("log") == b"onetwo", cut
            torn.append("log", b"3")
            assert opened(disk).read("log") == b"onetwo3", cut
    for bit in range(8 * chunk, 16 * chunk, 3):
        disk.create("log")
        disk.append("log", whole)
        disk.flip("log", bit)
        found = opened(disk).read("log") or b""
        assert (found[:3], found[-5:]) == (b"one", b"three"), bit
        assert {*found[3:-5]} == {255} or bit >= 16 * chunk - 8, bit  # the last byte of a chunk is not looked at


def test_a_chunk_cannot_be_moved_nor_copied_to_another_file() -> None:
    disk = SimulatedDisk(Random(1))
    directory = opened(disk)
    for name in ("log", "other"):
        directory.create(name)
        directory.append(name, b"one")
        directory.append(name, b"two")
    chunk = len(b"one") + OVERHEAD
    log, other = bytes(disk.read("log") or b""), bytes(disk.read("other") or b"")
    for forged in (log[chunk:] + log[:chunk], other, log[:chunk] + other[chunk:]):
        disk.create("log")
        disk.append("log", forged)
        assert b"two" not in (opened(disk).read("log") or b"")


def test_another_key_a_plain_and_a_sealed_directory_are_told_apart() -> None:
    disk = SimulatedDisk(Random(1))
    opened(disk)
    with pytest.raises(glue.ConfigurationError, match="another key"):
        sealed_directory(disk, OTHER_KEY, AES_GCM, Random(1).randbytes)
    later = rotated(KEY, Random(5).randbytes)
    sealed_directory(disk, later, AES_GCM, Random(1).randbytes)
    for bit in range(8 * disk.size(SEALED)):
        disk.flip(SEALED, bit)
        opened(disk)
        disk.flip(SEALED, bit)
    plain = SimulatedDisk(Random(1))
    plain.create("log.id")
    with pytest.raises(glue.ConfigurationError, match="not sealed; give storage_key= an empty directory"):
        opened(plain)


def test_a_damaged_copy_of_the_mark_is_made_whole_before_the_other_one_is_damaged_too() -> None:
    disk = SimulatedDisk(Random(1))
    opened(disk)
    for damaged in (10, disk.size(SEALED) - 10):
        disk.flip(SEALED, 8 * damaged)
        opened(disk)
    disk.crash()
    opened(disk)


def test_a_model_and_a_keeper_seal_what_they_store(lan: Lan, tmp_path: Path) -> None:
    write_secret(tmp_path / "store.key", new_key(Random(3).randbytes).to_text())
    key = str(tmp_path / "store.key")
    with lan.start("kitchen", storage_key=key) as kitchen:
        kitchen.model("plant", voters=1, data_dir=tmp_path / "plant", election_timeout=0.1).set("valve", "secret word")
        kitchen.keep("home/#", data_dir=tmp_path / "log")
        kitchen.publish("home/lamp", "secret word", acks="disk", receipt=True).wait(10)
    stored = [path.read_bytes() for path in tmp_path.glob("*/*")]
    assert len(stored) > 4
    assert not any(b"secret word" in data or b"home/lamp" in data for data in stored)
    with lan.start("kitchen", storage_key=key) as kitchen:
        assert (
            kitchen.model("plant", voters=1, data_dir=tmp_path / "plant", election_timeout=0.1).get("valve")
            == "secret word"
        )
        keeper = kitchen.keep("home/#", data_dir=tmp_path / "log")
        assert [record.payloads for _, record in keeper.log.read(lambda topic: True, 0).records] == [[b'"secret word"']]
    with lan.start("kitchen") as kitchen:
        with pytest.raises(glue.ConfigurationError, match="is sealed; name its key file by storage_key="):
            kitchen.keep("home/#", data_dir=tmp_path / "log")
        with pytest.raises(glue.ConfigurationError, match="is sealed"):
            kitchen.model("plant", voters=1, data_dir=tmp_path / "plant", election_timeout=0.1)


def test_the_key_of_what_is_stored_is_looked_at_when_the_endpoint_is_made(tmp_path: Path) -> None:
    key = tmp_path / "store.key"
    with pytest.raises(glue.ConfigurationError, match=r"storage_key=.*no such file"):
        glue.Endpoint("kitchen", storage_key=key)
    write_secret(key, "{}")
    with pytest.raises(glue.ConfigurationError, match="damaged, or no glue key"):
        glue.Endpoint("kitchen", storage_key=key)
    write_secret(key, new_key(Random(3).randbytes).to_text(), replaces=True)
    key.chmod(0o644)
    with pytest.raises(glue.ConfigurationError, match="chmod 600"):
        glue.Endpoint("kitchen", storage_key=key)


def test_a_store_of_receivers_that_the_key_does_not_seal_is_told(
    lan: Lan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_secret(tmp_path / "store.key", new_key(Random(3).randbytes).to_text())
    with lan.start("kitchen", storage_key=tmp_path / "store.key") as kitchen:
        kitchen.receivers("lamp", lambda context, message: None, store=f"sqlite:{tmp_path / 'state.db'}")
    assert "storage_key does not seal the store" in caplog.text


def test_simulated_endpoints_seal_alike() -> None:
    world, disk, log = World(seed=1), SimulatedDisk(Random(1)), SimulatedDisk(Random(2))
    endpoint = world.endpoint("kitchen", storage_key=KEY)
    endpoint.model("plant", voters=1, directory=disk)
    world.run(3.0)
    endpoint.keep("home/#", directory=log)
    endpoint.publish("home/lamp", "secret word")
    world.run(1.0)
    assert disk.read(SEALED) is not None
    assert len(log.names()) > 2
    assert not any(b"secret word" in (log.read(name) or b"") for name in log.names())


def test_no_seed_of_the_swarm_of_faulty_disks_breaks_a_promise() -> None:
    assert first_violation(range(SEEDS), key=KEY) is None


def _torn_bytes_stay(self: SealedDirectory, name: str) -> room.Layout:
    """The mistake: a file goes on behind what a crash has left of a chunk."""
    layout = found_before(self, name)
    layout.is_torn = False
    return layout


def _acknowledged_is_cut(self: SealedDirectory, name: str, layout: room.Layout, size: int) -> bool:
    """The mistake: a file ends at the first damaged chunk."""
    return name == SEALED and again_before(self, name, layout, size)


found_before, again_before = SealedDirectory._found, SealedDirectory._found_again

PLANTED: dict[str, Callable[[], object]] = {
    "torn bytes stay": lambda: mock.patch.object(SealedDirectory, "_found", _torn_bytes_stay),
    "what is damaged is cut": lambda: mock.patch.object(SealedDirectory, "_found_again", _acknowledged_is_cut),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name: str) -> None:
    patch: mock._patch[object] = PLANTED[name]()  # type: ignore[assignment]
    with patch:
        assert first_violation(range(300), key=KEY) is not None


def main(first: int, stop: int) -> None:
    """Hunt through seeds."""
    for seed in range(first, stop):
        run_seed(seed, key=KEY)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
