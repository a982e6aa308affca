"""Where a large pcap is cut, rule by rule: targets, votes, proofs, and when the file is walked instead."""

from __future__ import annotations

import io
import struct
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spark.read import cuts, pcap
from spark.read.cuts import PROOF, proven_cut, voted_cut
from spark.read.partitions import _walked, partitions
from spark.read.pcap import Pcap
from spark.read.records import Fault, Scan
from spark.read.resync import NEAR
from tests.spark import captures
from tests.spark.captures import MICROSECONDS, NANOSECONDS

FORMAT = Pcap(captures.pcap([], snapshot=100)[:24])


class Opened(io.BytesIO):
    """A capture that is in memory."""

    @property
    def size(self) -> int:
        return len(self.getvalue())

    def open(self) -> Opened:
        return Opened(self.getvalue())


def records(*lengths: int) -> tuple[bytes, list[int]]:
    """A capture of frames of so many bytes, and where its records start."""
    frames = [bytes(length) for length in lengths]
    places = [24 + sum(16 + length for length in lengths[:number]) for number in range(len(lengths) + 1)]
    return captures.pcap(frames), places


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The targets for which a cut was looked for; there is one 3 bytes behind each, unless it is in FAILED."""
    targets: list[int] = []

    def proven(stream: Any, format: Pcap, target: int, size: int) -> int | None:
        targets.append(target)
        return None if target in FAILED else target + 3

    monkeypatch.setattr(cuts, "proven_cut", proven)
    monkeypatch.setattr(cuts, "walked_cuts", lambda file, format, targets: ["walked", *targets])
    FAILED.clear()
    return targets


FAILED: set[int] = set()


@pytest.mark.parametrize(
    ("size", "targets"), [(474, [124, 224, 324]), (475, [124, 224, 324, 424]), (174, []), (24, [])]
)
def test_no_part_is_smaller_than_half_of_what_was_asked_for(size: int, targets: list[int], tried: list[int]) -> None:
    file: Any = Opened(bytes(size))
    assert cuts.cuts(file, FORMAT, 100) == [24, *(target + 3 for target in targets)]
    assert tried == targets


def test_a_file_is_walked_if_more_than_half_of_its_cuts_fail(tried: list[int]) -> None:
    file: Any = Opened(bytes(500))
    FAILED.update((124, 324))
    assert cuts.cuts(file, FORMAT, 100) == [24, 227, 427]
    FAILED.add(424)
    assert cuts.cuts(file, FORMAT, 100) == ["walked", 124, 224, 324, 424]


def test_a_cut_that_two_targets_find_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([300, 300, 299, 301])
    monkeypatch.setattr(cuts, "proven_cut", lambda *_: next(found))
    file: Any = Opened(bytes(500))
    assert cuts.cuts(file, FORMAT, 100) == [24, 300, 301]


@pytest.mark.parametrize(
    ("target", "earlier", "reached", "proven"),
    [
        (24 + PROOF, None, 24, True),  # the walk starts at the first record
        (25 + PROOF, 30, 30, True),
        (25 + PROOF, None, None, False),
        (25 + PROOF, 26 + PROOF, 26 + PROOF, True),  # both votes fell on the same record
        (25 + PROOF, 27 + PROOF, None, False),
    ],
)
def test_a_walk_from_far_before_proves_a_cut(
    target: int, earlier: int | None, reached: int | None, proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = 26 + PROOF
    votes, walks = {target: cut, target - PROOF: earlier}, list[tuple[int, int]]()

    def walk(stream: Any, format: Pcap, start: int, stop: int) -> int:
        walks.append((start, stop))
        return stop

    monkeypatch.setattr(cuts, "voted_cut", lambda stream, format, at, size: votes[at])
    monkeypatch.setattr(cuts, "_walk", walk)
    assert proven_cut(None, FORMAT, target, 10**9) == (cut if proven else None)
    assert walks == ([] if reached is None else [(reached, cut)])
    monkeypatch.setattr(cuts, "_walk", lambda stream, format, start, stop: stop + 1)
    assert proven_cut(None, FORMAT, target, 10**9) is None, "the walk led elsewhere"
    votes[target] = None
    assert proven_cut(None, FORMAT, target, 10**9) is None


def test_a_walk_ends_at_the_first_record_from_a_byte_on() -> None:
    data, places = records(10, 20, 30, 40)
    for stop, end in ((places[1], places[1]), (places[1] + 1, places[2]), (places[2], places[2]), (24, 24)):
        assert cuts._walk(Opened(data), FORMAT, 24, stop) == end
    assert cuts._walk(Opened(data), FORMAT, places[1], places[3]) == places[3]
    assert cuts._walk(Opened(data), FORMAT, places[3], len(data)) == len(data)
    assert cuts._walk(Opened(data[: places[3] + 15]), FORMAT, places[2], len(data)) == places[3], (
        "its length is missing"
    )
    big = Pcap(captures.pcap([], ">")[:24])
    assert cuts._walk(Opened(captures.pcap([bytes(9)] * 2, ">")), big, 24, 30) == 24 + 25


@pytest.mark.parametrize(("snapshot", "reach"), [(100, 216), (999, 2014), (1000, 2014)])
def test_most_chains_reach_the_first_record_behind_two_snapshots(
    snapshot: int, reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuts, "USUAL_FRAME", 999)
    format = Pcap(captures.pcap([], snapshot=snapshot)[:24])
    data, places = records(*[60, 90, 73] * (reach // 60 + 10))
    for target in (24, 25, places[2] + 60):
        expected = next(place for place in places if place >= target + reach)
        assert voted_cut(Opened(data), format, target, len(data)) == expected
    target = len(data) - reach
    assert voted_cut(Opened(data), format, target - 300, len(data)) is not None
    assert voted_cut(Opened(data), format, target, len(data)) is None, "no chain is as long"


def test_a_record_may_start_where_just_its_header_is_left() -> None:
    header = struct.pack("<IIII", 5, 0, 7, 60)
    for noise in (0, 1, 5):
        data = b"\xff" * noise + header
        held = np.frombuffer(data + bytes(16), np.uint8)
        assert cuts._chains(held, len(data), FORMAT).get(noise) == noise + 16 + 7
        assert noise not in cuts._chains(held, len(data) - 1, FORMAT)


@pytest.mark.parametrize(("magic", "most"), [(MICROSECONDS, 999_999), (NANOSECONDS, 999_999_999)])
def test_a_chain_has_fractions_of_a_second_in_the_file_s_unit(magic: int, most: int) -> None:
    format = Pcap(captures.pcap([], magic=magic, snapshot=100)[:24])
    for fraction, is_one in ((most, True), (most + 1, False)):
        data = struct.pack("<IIII", 5, fraction, 7, 60)
        assert (0 in cuts._chains(np.frombuffer(data + bytes(16), np.uint8), 16, format)) == is_one


# ---------------------------------------------------------------------------------------- partitions of a file


@pytest.mark.parametrize("write", [captures.pcap, captures.pcapng])
def test_a_file_is_cut_if_it_is_larger_than_a_part_and_a_half(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("spark.read.partitions")  # a function of the package has this name, too
    monkeypatch.setattr(module, "cuts", lambda file, format, size: [24, 100])
    monkeypatch.setattr(module, "_walked", lambda file, format, size: [(0, format), (100, format)])
    path = tmp_path / "a.pcap"
    data = write([bytes(60)] * 40)
    path.write_bytes(data[: len(data) // 3 * 3])
    third = len(data) // 3
    assert len(partitions([str(path)], 2 * third)) == 1
    assert [(part.start, part.stop) for part in partitions([str(path)], 2 * third - 1)] == [
        (24 if write is captures.pcap else 0, 100), (100, None),
    ]  # fmt: skip


def test_a_pcapng_is_cut_behind_whole_blocks_of_reading_without_a_fault() -> None:
    scans = [(0, 60, None), (60, 39, None), (99, 1, Fault("x", 100)), (130, 20, None), (150, 99, None), (249, 1, None),
             (250, 99, None), (349, 1, None)]  # fmt: skip
    format: Any = SimpleNamespace(first=0)

    def read(given: Any, start: int, stop: int | None) -> Any:
        assert (given, start, stop) == (format, 0, None)
        for offset, consumed, fault in scans:
            format.first = offset + consumed
            nothing: Any = None
            yield offset, Scan(nothing, consumed, fault)

    for size, expected in (
        (400, [(0, 0), (150, 150), (250, 250)]),
        (401, [(0, 0), (150, 150), (250, 250), (350, 350)]),
    ):
        format.first = 0
        file: Any = SimpleNamespace(size=size, scans=read)
        assert [(start, known.first) for start, known in _walked(file, format, 100)] == expected


# -------------------------------------------------------------------------------------------- times of a pcap


def scan_of(format: Pcap, *times: int, fraction: int = 0) -> Scan:
    data = b"".join(struct.pack("<IIII", time, fraction, 1, 60) + b"x" for time in times)
    return format.scan(np.frombuffer(data + bytes(64), np.uint8), len(data), 0)


@pytest.mark.parametrize(
    ("before", "times", "good"),
    [
        ([], [1000, 1000 + NEAR, 1000 + 2 * NEAR], 3),
        ([], [1000, 1001 + NEAR, 1000], 1),
        ([], [9 * NEAR, 1000, 1001], 3),  # the clock was set
        ([], [1000, 9 * NEAR, 9 * NEAR], 3),
        ([], [1000, 9 * NEAR], 2),  # or was it?
        ([1000], [9 * NEAR, 1000], 0),
        ([1000, 9 * NEAR], [9 * NEAR, 1000], 2),
        ([1000], [1000 + NEAR, 1000 + 3 * NEAR, 1000], 1),
    ],
)
def test_a_time_far_from_both_its_neighbours_is_damage(before: list[int], times: list[int], good: int) -> None:
    format = Pcap(captures.pcap([])[:24])
    if before:
        scan_of(format, *before)
    scan = scan_of(format, *times)
    assert [time // 10**9 for time in scan.records.time_ns.tolist()] == times[:good]
    fault = None if good == len(times) else Fault("a time far from those before and behind", 17 * good)
    assert (scan.fault, scan.consumed) == (fault, 17 * good)


@pytest.mark.parametrize(("magic", "most"), [(MICROSECONDS, 999_999), (NANOSECONDS, 999_999_999)])
def test_a_time_has_less_than_a_second_in_the_file_s_unit(magic: int, most: int) -> None:
    unit = 10**9 // (most + 1)
    scan = scan_of(Pcap(captures.pcap([], magic=magic)[:24]), 5, fraction=most)
    assert (scan.records.time_ns.tolist(), scan.fault) == ([5 * 10**9 + most * unit], None)
    scan = scan_of(Pcap(captures.pcap([], magic=magic)[:24]), 5, fraction=most + 1)
    assert scan.fault == Fault("a time of more than a second's fraction", 0)


@pytest.mark.parametrize(("times", "near"), [([], None), ([5], 5), ([7, 9, 5], 7), ([1, 100, *range(11, 20)], 15)])
def test_after_damage_records_are_near_the_middle_of_the_latest_times(
    times: list[int], near: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def searched(buffer: Any, *given: Any) -> tuple[int, bool]:
        asked.append(given)
        return 3, False

    monkeypatch.setattr(pcap, "next_record", searched)
    format = Pcap(captures.pcap([], magic=MICROSECONDS, link=101)[:24])
    for start in range(0, len(times), 7):  # in several blocks
        scan_of(format, *times[start : start + 7])
    buffer = np.zeros(600, np.uint8)
    for over in (False, True):
        assert format.resume(buffer, 88, over) == (3, False)
    scan_of(format)
    format.resume(buffer, 88, True)
    common = (88, "<", 10**6, near)
    assert asked == [(*common, False, 101), (*common, True, None), (*common, True, 101)]
