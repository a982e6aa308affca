"""Files of the simulated disk: removed, wiped, read in part, or caught by a power cut in the middle of a call."""

from __future__ import annotations

from random import Random

import pytest

from glue.simulation.disk import PowerCut, SimulatedDisk

SEEDS = range(60)


def with_file(seed: int, data: bytes = b"1234") -> SimulatedDisk:
    """A disk with a durable file "a"."""
    disk = SimulatedDisk(Random(seed))
    disk.create("a")
    disk.append("a", data)
    disk.sync("a")
    disk.sync_names()
    return disk


def test_a_removed_file_may_come_back_until_the_names_are_synced() -> None:
    found = set()
    for seed in SEEDS:
        disk = with_file(seed)
        calls = disk.calls
        disk.remove("b")
        assert disk.calls == calls, "there is nothing to remove"
        disk.remove("a")
        assert (disk.read("a"), disk.names(), disk.calls) == (None, [], calls + 1)
        disk.crash()
        found.add(disk.read("a"))
        gone = with_file(seed)
        gone.remove("a")
        gone.sync_names()
        gone.crash()
        assert gone.names() == []
    assert found == {None, b"1234"}


def test_a_new_name_may_be_lost_until_it_is_synced() -> None:
    found = set()
    for seed in SEEDS:
        disk = SimulatedDisk(Random(seed))
        disk.create("a")
        disk.append("a", b"1")
        disk.sync("a")
        disk.crash()
        found.add(disk.read("a"))
    assert found == {None, b"1"}


@pytest.mark.parametrize("then", ["", "crash"])
def test_nothing_of_a_wiped_disk_comes_back(then: str) -> None:
    for seed in SEEDS:
        disk = with_file(seed)
        disk.rename("a", "b")
        disk.create("c")
        disk.wipe()
        if then:
            disk.crash()
        assert disk.names() == []
        disk.create("d")
        disk.sync_names()
        disk.crash()
        assert disk.names() == ["d"]


def test_a_part_of_a_file_is_read() -> None:
    disk = with_file(1)
    assert [disk.read_at("a", *part) for part in ((0, 2), (1, 2), (3, 9), (9, 1))] == [b"12", b"23", b"4", b""]
    assert (disk.read_at("b", 0, 1), disk.size("b"), disk.size("a")) == (None, 0, 4)
    assert with_file(1, b"").read("a") == b""


def test_a_power_cut_keeps_a_part_of_what_is_appended_and_is_over_after_the_crash() -> None:
    parts = set()
    for seed in SEEDS:
        disk = with_file(seed)
        disk.power_cut_after = disk.calls
        with pytest.raises(PowerCut):
            disk.append("a", b"56")
        parts.add(disk.read("a"))
        disk.fails_to_sync = True
        disk.crash()
        disk.append("a", b"7")
        disk.sync("a")
        assert disk.read("a").endswith(b"7")  # type: ignore[union-attr]
    assert parts == {b"1234", b"12345", b"123456"}


def test_of_a_file_that_was_truncated_nothing_comes_back() -> None:
    for seed in SEEDS:
        disk = with_file(seed)
        disk.truncate("a", 1)
        disk.append("a", b"xy")
        disk.crash()
        assert disk.read("a").rstrip(b"\0") in (b"1", b"1x", b"1xy")  # type: ignore[union-attr]
        disk.truncate("a", 0)
        disk.append("a", b"z")
        disk.fails_to_sync = True
        with pytest.raises(OSError, match="failed to sync"):
            disk.sync("a")
        assert disk.read("a") == b"", "only what was durable is left"
