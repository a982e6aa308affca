"""Positions, and their journal on a disk that fails."""

from __future__ import annotations

from random import Random

import pytest

from glue.consumers import Position, Positions
from glue.consumers.positions import NAME, Stored
from glue.errors import StorageError, StorageFullError
from glue.simulation.disk import SimulatedDisk


@pytest.mark.parametrize("seed", range(30))
def test_a_position_is_what_a_set_of_offsets_is(seed: int) -> None:
    luck = Random(seed)
    position, naive = Position(5), set(range(5))
    for _ in range(40):
        first = luck.randrange(60)
        stop = first + luck.randrange(6)
        if luck.random() < 0.1:
            position.skip_to(first)
            naive |= set(range(first))
        else:
            fresh = set(range(first, stop)) - naive
            assert position.done(first, stop) == len(fresh)
            naive |= fresh
        assert position.next == min(set(range(100)) - naive)
        assert [*position.beyond] == [*Position.decode(position.encode()).beyond]
        for offset in range(70):
            assert position.is_done(offset) == (offset in naive)
        left = {offset for a, b in position.left(first, 70) for offset in range(a, b)}
        assert left == set(range(first, 70)) - naive


@pytest.mark.parametrize("value", [None, [], [1], [-1, []], [True, []], [1, [[2]]], [1, [["a", 3]]], [1 << 62, []]])
def test_what_is_no_position_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="no "):
        Position.decode(value)


def reader(positions: Positions, name: str = "billing") -> None:
    positions.put(name, Stored(Position(), 0, {"epoch": 1}))


@pytest.mark.parametrize("seed", range(40))
def test_what_was_synced_survives_a_crash_at_any_call(seed: int) -> None:
    luck = Random(seed)
    disk = SimulatedDisk(luck)
    positions = Positions(disk, "log")
    reader(positions)
    positions.sync()
    synced = 0
    for _ in range(60):
        first = positions.stored["billing"].position.next
        positions.done("billing", first, first + 1 + luck.randrange(3))
        if luck.random() < 0.3:
            positions.sync()
            synced = positions.stored["billing"].position.next
        if luck.random() < 0.1:
            disk.crash()
            positions = Positions(disk, "log")
            assert positions.stored["billing"].position.next >= synced
            assert positions.stored["billing"].about == {"epoch": 1}


def test_a_journal_that_grows_is_replaced_by_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.storage.journal.SLACK", 1000)
    disk = SimulatedDisk(Random(1))
    positions = Positions(disk, "log")
    reader(positions)
    for offset in range(500):
        positions.done("billing", offset, offset + 1)
        positions.sync()
        assert disk.size(NAME) < 2500
    assert Positions(disk, "log").stored["billing"].position.next == 500


def test_a_full_disk_is_tried_again_and_a_failed_one_is_not() -> None:
    disk = SimulatedDisk(Random(1))
    positions = Positions(disk, "log")
    reader(positions)
    positions.sync()
    positions.done("billing", 0, 3)
    disk.is_full = True
    with pytest.raises(StorageFullError):
        positions.sync()
    disk.is_full = False
    positions.sync()
    assert Positions(disk, "log").stored["billing"].position.next == 3
    positions = Positions(disk, "log")
    positions.done("billing", 3, 4)
    disk.fails_to_sync = True
    for _ in range(2):
        with pytest.raises(StorageError):
            positions.sync()
    assert positions.failure


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_bit_makes_positions_older_never_newer(seed: int) -> None:
    luck = Random(seed)
    disk = SimulatedDisk(luck)
    positions = Positions(disk, "log")
    reader(positions)
    positions.sync()
    for offset in range(10):
        positions.done("billing", offset, offset + 1)
        positions.sync()
    disk.flip(NAME, luck.randrange(8 * disk.size(NAME)))
    positions = Positions(disk, "log")
    assert "billing" not in positions.stored or positions.stored["billing"].position.next <= 10


def test_positions_in_another_log_are_void() -> None:
    disk = SimulatedDisk(Random(1))
    positions = Positions(disk, "log")
    reader(positions)
    positions.sync()
    assert Positions(disk, "another").stored == {}
