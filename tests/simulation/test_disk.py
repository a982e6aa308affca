"""The simulated disk: what a crash keeps of what was written, renamed and synced, over many seeds."""

from __future__ import annotations

from random import Random

import pytest

from glue.simulation.consensus import SimulatedDisk
from glue.simulation.disk import LONGEST_HOLE, PowerCut

SEEDS = range(200)


def test_what_was_synced_stays_and_of_the_rest_a_part_or_a_hole() -> None:
    kept = set()
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed))
        disk.create("log")
        disk.append("log", b"synced")
        disk.sync("log")
        disk.sync_names()
        disk.append("log", b"x" * 100)
        assert (disk.size("log"), disk.size("other")) == (106, 0)
        disk.crash()
        found = disk.read("log")
        assert found is not None
        assert found.startswith(b"synced")
        written = found[6:].rstrip(b"\0")
        hole = len(found) - 6 - len(written)
        assert written == b"x" * len(written)
        assert len(written) + hole <= 100
        assert hole <= LONGEST_HOLE
        kept.add("whole" if len(written) == 100 else "hole" if hole else "part" if written else "nothing")
        disk.crash()
        assert disk.read("log") == found, "what a crash has left is durable"
    assert kept == {"whole", "hole", "part", "nothing"}


def test_renames_that_were_not_synced_happen_in_order_up_to_one_of_them() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed))
        disk.create("a")
        disk.append("a", b"1")
        disk.sync("a")
        disk.sync_names()
        disk.create("b")
        disk.append("b", b"2")
        disk.sync("b")
        disk.rename("b", "a")
        disk.crash()
        outcomes.add((disk.read("a"), disk.read("b")))
    assert outcomes == {(b"1", None), (b"1", b"2"), (b"2", None)}


def test_a_name_that_was_synced_stays_renamed() -> None:
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed))
        disk.create("new")
        disk.append("new", b"1")
        disk.sync("new")
        disk.rename("new", "file")
        disk.sync_names()
        disk.crash()
        assert (disk.read("file"), disk.read("new")) == (b"1", None)


def test_a_failed_sync_loses_what_was_written_and_the_next_one_works() -> None:
    disk = SimulatedDisk(Random(1))
    disk.create("log")
    disk.append("log", b"12")
    disk.sync("log")
    disk.append("log", b"34")
    disk.fails_to_sync = True
    with pytest.raises(OSError, match="failed to sync"):
        disk.sync("log")
    assert disk.read("log") == b"12"
    disk.append("log", b"5")
    disk.sync("log")
    assert disk.read("log") == b"125"


def test_a_full_disk_takes_a_part_and_says_so_until_a_crash() -> None:
    parts = set()
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed))
        disk.create("log")
        disk.is_full = True
        with pytest.raises(OSError, match="no space"):
            disk.append("log", b"1234")
        parts.add(disk.read("log"))
        disk.crash()
        assert not disk.is_full
    assert parts == {b"1234"[:size] for size in range(5)}


def test_truncated_bytes_are_gone_and_what_is_left_of_them_is_durable() -> None:
    disk = SimulatedDisk(Random(1))
    disk.create("log")
    disk.append("log", b"123456")
    disk.sync("log")
    disk.sync_names()
    disk.truncate("log", 3)
    disk.crash()
    assert disk.read("log") == b"123"
    disk.flip("log", 9)
    assert disk.read("log") == b"103"


def test_the_power_is_cut_after_so_many_calls() -> None:
    def all_calls(disk: SimulatedDisk) -> None:
        disk.create("a")
        disk.append("a", b"1")
        disk.sync("a")
        disk.truncate("a", 0)
        disk.rename("a", "b")
        disk.sync_names()

    for calls in range(6):
        disk = SimulatedDisk(Random(calls))
        disk.power_cut_after = calls
        with pytest.raises(PowerCut):
            all_calls(disk)
        assert disk.calls == calls
    disk = SimulatedDisk(Random(7))
    all_calls(disk)
    assert disk.calls == 6


def test_a_wiped_disk_is_empty() -> None:
    disk = SimulatedDisk(Random(1))
    disk.create("a")
    disk.sync_names()
    disk.rename("a", "b")
    disk.wipe()
    disk.crash()
    assert (disk.read("a"), disk.read("b")) == (None, None)
