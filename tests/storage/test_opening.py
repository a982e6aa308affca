"""What opening a log does to its directory, in order: what must be durable before something else may say so."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest

from glue.simulation.consensus import SimulatedDisk
from glue.storage import Retention
from glue.storage.framing import record as framed
from glue.storage.framing import scan
from glue.storage.opening import JUMP, open_segments
from glue.storage.replacing import replace_file
from glue.storage.segments import Segments
from tests.storage.records import everything, messages
from tests.storage.test_files import filled, opened, sequences

READS = ("read", "read_at", "names", "size")


class Noting:
    """A directory that notes what changes it, and what is synced."""

    def __init__(self, disk: SimulatedDisk, reads: bool = False) -> None:
        self._disk = disk
        self._reads = reads
        self.did: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._disk, name)

        def call(*arguments: Any) -> Any:
            if self._reads or name not in READS:
                self.did.append(" ".join([name, *(one for one in arguments if isinstance(one, str))]))
            return method(*arguments)

        return call


def opening(disk: SimulatedDisk) -> tuple[list[str], Any]:
    noting: Any = Noting(disk)
    found = open_segments(noting, Segments(noting), Random(7))
    return noting.did, found


def replaced(name: str) -> list[str]:
    """The steps by which a file is replaced."""
    did: Any = Noting(SimulatedDisk(Random(2)))
    replace_file(did, name, b"x")
    return [*did.did]


def many() -> SimulatedDisk:
    """A log of several segments, closed."""
    disk, log = filled(9, 600)
    assert len(log.segments) == 3
    return disk


def names(disk: SimulatedDisk) -> list[str]:
    return sorted(name for name in disk.names() if name.endswith(".log"))


def test_a_new_log_gets_its_id_before_its_first_segment() -> None:
    disk = SimulatedDisk(Random(1))
    did, found = opening(disk)
    (segment,) = found.segments
    assert did == [*replaced("log.id"), f"create {segment.file}", "sync_names"]
    assert (segment.base, segment.end, found.lost) == (0, 0, [])
    assert (len(found.id), found.id) == (16, f"{Random(7).getrandbits(64):016x}")
    assert segment.index is not None
    again, same = opening(disk)
    assert again == [f"sync {segment.file}", "sync_names"]
    assert same.id == found.id


def test_what_a_killed_process_left_is_made_durable() -> None:
    disk = many()
    last = names(disk)[-1]
    assert opening(disk)[0] == [f"sync {last}", "sync_names"]
    disk.create("failed")
    content = disk.read(last)
    did, _ = opening(disk)
    assert did == [*replaced(last), "remove failed", f"sync {last}", "sync_names"]
    assert disk.read(last) == content
    assert sequences(opened(disk, 600)) == list(range(1, 10))


def test_lost_streams_are_counted_from_all_segments_and_saved() -> None:
    disk = many()
    disk.remove("streams")
    last = names(disk)[-1]
    did, found = opening(disk)
    assert did == [f"sync {last}", *replaced("streams"), f"sync {last}", "sync_names"]
    saved = orjson.loads(scan(disk.read("streams") or b"")[0][0])
    assert saved[:3] == [1, found.id, found.segments[-1].base]
    held = {stream.topic: [*state.held] for stream, state in found.streams.of(everything)}
    assert held["pump/speed"] == [(1, 10)]
    assert opening(disk)[0] == [f"sync {last}", "sync_names"], "once"
    alone, _ = filled(2)
    assert "streams" not in alone.names()
    assert opening(alone)[0] == [f"sync {names(alone)[0]}", "sync_names"], "one segment is read anyway"


@pytest.mark.parametrize("content", [
    b"", b"junk", framed(b"junk"), framed(orjson.dumps([2, "x", 99, []])), framed(orjson.dumps([1, "x", 99])),
    framed(orjson.dumps([1, "x", 99, [[1]]])), framed(orjson.dumps([1, "x", 99, 7])),
])  # fmt: skip
def test_streams_that_cannot_be_read_are_counted_anew(content: bytes) -> None:
    disk = many()
    disk.truncate("streams", 0)
    disk.append("streams", content)
    _, found = opening(disk)
    states = {stream.topic: state for stream, state in found.streams.of(everything)}
    assert [*states["pump/speed"].held] == [*states["pump/speed"].durable] == [(1, 10)]


def test_an_index_that_is_missing_is_saved_again() -> None:
    disk = many()
    first = names(disk)[0]
    (index,) = [name for name in disk.names() if name.startswith(first.removesuffix(".log")) and name != first]
    disk.remove(index)
    did, _ = opening(disk)
    assert any(index in one for one in did)
    assert index in disk.names()


@pytest.mark.parametrize("place", [1, 2])
def test_after_damage_the_streams_are_saved_before_the_segments_look_whole(place: int) -> None:
    disk = many()
    damaged, last = names(disk)[place], names(disk)[-1]
    content = bytearray(disk.read(damaged) or b"")
    content[30] ^= 1
    disk.truncate(damaged, 0)
    disk.append(damaged, bytes(content))
    if place == 1:
        disk.remove(damaged.replace(".log", ".index"))
    did, found = opening(disk)
    assert did[: 1 + len(replaced("streams"))] == [f"sync {last}", *replaced("streams")]
    end = found.segments[2].end
    if place == 2:
        assert found.segments[-1].base == end + JUMP == end + (1 << 32)
        assert did[-2:] == [f"create {found.segments[-1].file}", "sync_names"]
    else:
        assert did[-2:] == [f"sync {last}", "sync_names"]
    assert len(names(disk)) == len(found.segments) == place + 2
    gone = [n for stream, start, stop in found.lost if stream.topic == "pump/speed" for n in range(start, stop)]
    states = {stream.topic: state for stream, state in found.streams.of(everything)}
    held = [number for start, stop in states["pump/speed"].held for number in range(start, stop)]
    known = range(1, 10 if place == 1 else 7)  # what is in the last segment was not yet saved as held
    assert sorted([*held, *gone]) == [number for number in range(1, 10) if number in held or number in known]
    assert bool(gone) == (place == 1)
    assert len(held) < 9
    saved = orjson.loads(scan(disk.read("streams") or b"")[0][0])
    assert saved[2] == end
    again = opened(disk, 600)
    assert again.damaged == 0
    assert sequences(again) == held


def test_what_retention_removed_is_not_lost() -> None:
    disk = SimulatedDisk(Random(1))
    log = opened(disk, 600)
    for number in range(1, 101):
        log.append([messages(number, topic="a", at=float(number))])
    log.sync()
    log.retain([Retention(everything, count=10)], 100.0)
    kept = sequences(log, "a")
    damaged = names(disk)[-1]
    content = bytearray(disk.read(damaged) or b"")
    content[30] ^= 1
    disk.truncate(damaged, 0)
    disk.append(damaged, bytes(content))
    _, found = opening(disk)
    ((_, state),) = found.streams.of(everything)
    assert state.first_kept == kept[0] > 1
    gone = [number for _, start, stop in found.lost for number in range(start, stop)]
    assert gone
    assert {*gone} < {*kept}
    held = [number for start, stop in state.held for number in range(start, stop)]
    assert sorted([*held, *gone]) == list(range(1, 101))
    assert opened(disk, 600).append([messages(1, 3, "a")]) == found.segments[-1].base


@pytest.mark.parametrize("tail", [b"\x05", bytes(40), framed(b"x" * 9)[:-3]])
def test_what_a_crash_left_behind_is_cut_off_and_its_bytes_are_counted(tail: bytes) -> None:
    disk, log = filled()
    name = log.segments[-1].file
    size = disk.size(name)
    disk.append(name, tail)
    noting: Any = Noting(disk)
    files = Segments(noting)
    segment, is_damaged = files.scanned(log.segments[-1].base)
    assert (files.torn, files.damaged, files.rebuilt, is_damaged) == (len(tail), 0, 1, False)
    assert (segment.size, disk.size(name)) == (size, size)
    assert noting.did == [f"truncate {name}", f"sync {name}"]
