"""Files, their parts and what is told of each: names, cuts at their bounds, and rows of `files`."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark.read import CaptureError, Partition, Tally, captures, check, cuts, files, partitions
from spark.read.cuts import proven_cut, walked_cuts
from spark.read.files import CaptureFile, point_name
from spark.read.pcap import Pcap
from spark.read.records import MAXIMUM_SNAPSHOT, Fault
from tests.spark.captures import (
    GOLDEN,
    MICROSECONDS,
    START_NS,
    STEP_NS,
    ethernet,
    frame,
    interface,
    ipv4,
    packet,
    pcap,
    pcapng,
    section,
    udp,
)
from tests.spark.rows import Row

DATA = frame(GOLDEN["data"])
RECORD = 16 + len(DATA)
FOREIGN = ethernet(ipv4(udp(b"a query")))


def told(part: Partition) -> tuple[Row, int]:
    """The row of `files` of a part, and the number of its rows of `frames`."""
    tally = Tally()
    count = sum(batch.num_rows for batch in part.batches((), tally))
    row: Row = part.files_row(tally).to_pylist()[0]
    return row, count


def test_a_row_of_files_tells_what_was_read_of_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([DATA, FOREIGN, DATA, FOREIGN, FOREIGN]))
    (part,) = partitions([str(path)])
    assert told(part)[0] == {
        "file": str(path), "start": 24, "records": 5, "datagrams": 2, "skipped": [("other UDP", 3)],
        "bytes": path.stat().st_size - 24, "unread": None, "faults": 0, "fault": None, "fault_offset": None,
        "dropped": None, "first_ns": START_NS, "last_ns": START_NS + 4 * STEP_NS,
    }  # fmt: skip
    path.write_bytes(pcap([]))
    row, _ = told(part)
    assert [row[name] for name in ("records", "datagrams", "skipped", "bytes", "first_ns", "last_ns")] == [
        0, 0, [], 0, None, None,
    ]  # fmt: skip


def test_a_part_that_is_read_again_is_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    one = interface(description="glue capture point: a") + packet(DATA, START_NS)
    other = interface(description="glue capture point: b") + packet(DATA, START_NS, interface=1)
    path.write_bytes(section() + one + other)
    (part,) = partitions([str(path)])
    read = [[row for batch in part.batches() for row in batch.to_pylist()] for _ in range(2)]
    assert [[row["capture_point"] for row in rows] for rows in read] == [["a", "b"]] * 2
    assert len(part.format.interfaces) == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(("stop", "unread"), [(None, RECORD - 1), (24 + 3 * RECORD - 5, RECORD - 5)])
def test_what_is_missing_at_the_end_of_a_part_is_unread(tmp_path: Path, stop: int | None, unread: int) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([DATA] * 3)[:-1])
    (part,) = partitions([str(path)])
    row, _ = told(Partition(part.path, 24, stop, part.format, "a"))
    assert (row["records"], row["faults"], row["fault_offset"]) == (2, 1, 24 + 2 * RECORD)
    assert (row["bytes"], row["unread"]) == (2 * RECORD, unread)


def test_a_file_that_is_no_capture_is_told_unless_it_was_named(tmp_path: Path) -> None:
    (tmp_path / "b.pcap").write_bytes(b"these are notes")
    (part,) = partitions([str(tmp_path)], 4)
    row, count = told(part)
    cause = "neither pcap nor pcapng: it starts with 74 68 65 73 65 20 61 72"
    assert (row["fault"], row["fault_offset"], row["faults"], row["start"]) == (cause, 0, 1, 0)
    assert (row["records"], row["bytes"], row["unread"], row["first_ns"], count) == (0, 0, 15, None, 0)
    with pytest.raises(CaptureError, match=r"b\.pcap: neither pcap"):
        partitions([str(tmp_path), str(tmp_path / "b.pcap")])


def test_only_a_file_that_is_named_has_to_be_a_capture_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap([DATA]))
    (tmp_path / "b.pcap").write_bytes(b"these are notes")
    check([str(tmp_path), str(tmp_path / "a.pcap"), f"{tmp_path}/*.pcap"])
    with pytest.raises(CaptureError, match=r"b\.pcap: neither pcap nor pcapng"):
        check(iter([str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap")]))
    with pytest.raises(CaptureError, match=r"c\.pcap: no capture there"):
        check([str(tmp_path / "c.pcap")])


def test_damaged_compressed_data_is_read_up_to_the_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE", 100)
    plain = pcap([frame(np.random.default_rng(number).bytes(900)) for number in range(400)])
    packed = bytearray(pa.Codec("zstd").compress(plain, asbytes=True))
    packed[len(packed) // 2 :] = bytes(len(packed) - len(packed) // 2)
    path = tmp_path / "a.pcap.zst"
    path.write_bytes(packed)
    (part,) = partitions([str(path)], 1000)
    row, _ = told(part)
    assert row["fault"].startswith("compressed data damaged: ")
    assert "\n" not in row["fault"]
    assert (row["faults"], row["unread"]) == (1, None)
    assert row["fault_offset"] == row["bytes"] + 24
    assert row["records"] * (16 + 942) == row["bytes"] > 0


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("a.pcap", "a"), ("b/a.pcapng.gz", "a"), ("a.cap.zst", "a"), ("a.b.cap", "a.b"), ("a.dump", "a.dump"),
        ("s3://b/c/a.pcap.gz?scheme=http://x/y", "a"), ("c?d.pcap", "c?d"), ("a.gz.pcap", "a.gz"),
    ],
)  # fmt: skip
def test_a_file_names_its_point_without_endings(name: str, point: str) -> None:
    assert point_name(name) == point


def test_files_are_found_by_their_endings_and_patterns_that_are_names_are_names(tmp_path: Path) -> None:
    names = ["[a].pcap", "a.cap", "b.pcapng.zst", "c.pcap.gz", "d.pcap.xz", "e.pcapx", "f.gz", "g.cap.gz"]
    for name in names:
        (tmp_path / name).write_bytes(pcap([]))
    found = [Path(name).name for name in captures([f"{tmp_path}/"])]
    assert found == [names[0], names[1], names[2], names[3], names[7]]
    assert captures([f"{tmp_path}/[a].pcap"]) == [f"{tmp_path}/[a].pcap"]
    assert captures([f"{tmp_path}/f.gz", f"{tmp_path}/?.cap", f"{tmp_path}/f.gz"]) == [
        f"{tmp_path}/f.gz", f"{tmp_path}/a.cap",
    ]  # fmt: skip
    with pytest.raises(CaptureError) as refused:
        captures([f"{tmp_path}/*.txt"])
    assert str(refused.value) == (
        f"{tmp_path}/*.txt: no capture there; files end in .pcap, .pcapng, .cap, maybe then .gz or .zst"
    )


@pytest.mark.parametrize("size", [4000, 9000])
def test_a_pcapng_is_cut_into_parts_none_of_which_is_small(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BLOCK", 1000)
    data = pcapng([DATA] * 100)
    for name, content in (("a.pcapng", data), ("b.pcapng.gz", gzip.compress(data, 0))):
        (tmp_path / name).write_bytes(content)
    parts = partitions([str(tmp_path / "a.pcapng")], size, "pi")
    starts = [part.start for part in parts]
    assert [part.stop for part in parts] == [*starts[1:], None]
    lengths = np.diff([*starts, len(data)])
    assert all(size <= length < size + 1000 for length in lengths[:-1])
    assert size // 2 < lengths[-1] <= size + size // 2 + 1000
    assert {part.point for part in parts} == {"pi"}
    rows = [told(part)[0] for part in parts]
    assert sum(row["datagrams"] for row in rows) == 100
    assert [row["fault"] for row in rows] == [None] * len(parts)
    assert len(partitions([str(tmp_path / "b.pcapng.gz")], size)) == 1
    assert len(partitions([str(tmp_path / "a.pcapng")], 0)) == 1


# ------------------------------------------------------------------------------------------------- cuts of pcap


def opened(directory: Path, data: bytes) -> tuple[CaptureFile, Pcap]:
    (directory / "a.pcap").write_bytes(data)
    file = CaptureFile(str(directory / "a.pcap"))
    format: Any = file.new_format()
    return file, format


def test_a_walk_cuts_at_the_first_record_from_each_target_on(tmp_path: Path) -> None:
    file, format = opened(tmp_path, pcap([DATA] * 30))
    places = [24 + number * RECORD for number in range(30)]
    assert walked_cuts(file, format, range(places[3], file.size, 4 * RECORD)) == [24, *places[3::4]]
    assert walked_cuts(file, format, range(places[3] + 1, file.size, 4 * RECORD)) == [24, *places[4::4]]
    assert walked_cuts(file, format, range(25, places[2], 10)) == [24, places[1], places[2]]
    assert walked_cuts(file, format, range(0)) == [24]


def test_a_cut_is_proven_by_a_walk_from_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, format = opened(tmp_path, pcap([DATA] * 4000, snapshot=2000))
    places = [24 + number * RECORD for number in range(4000)]
    reach = 2 * 2000 + 16
    for proof in (2 << 20, 50_000):
        monkeypatch.setattr(cuts, "PROOF", proof)
        with file.open() as stream:
            found = proven_cut(stream, format, places[2000] + 1, file.size)
            assert found in places
            assert found is not None
            assert places[2000] + 1 + reach <= found < places[2000] + 1 + 2 * reach
    damaged = bytearray((tmp_path / "a.pcap").read_bytes())
    damaged[places[1900] + 8 : places[1900] + 12] = struct.pack("<I", len(DATA) + 1)
    (tmp_path / "a.pcap").write_bytes(damaged)
    with file.open() as stream:
        assert proven_cut(stream, format, places[2000], file.size) is None, "the walk does not end there"
        assert proven_cut(stream, format, places[3000], file.size) in places, "a later walk begins behind the damage"


@pytest.mark.parametrize(
    ("fields", "is_one"),
    [
        ((5, 0, 60, 60), True), ((5, 999_999, 60, 60), True), ((5, 1_000_000, 60, 60), False),
        ((5, 0, 0, 60), False), ((5, 0, 1, 256), True), ((5, 0, 500, 500), True), ((5, 0, 501, 501), False),
        ((5, 0, 60, 59), False), ((5, 0, 60, 1 << 20), True), ((5, 0, 60, (1 << 20) + 1), False),
    ],
)  # fmt: skip
def test_what_may_be_a_record_has_plausible_fields(fields: tuple[int, int, int, int], is_one: bool) -> None:
    for order in "<>":
        format = Pcap(pcap([], order, MICROSECONDS, snapshot=500))
        data = b"\xff" * 4 + struct.pack(order + "IIII", *fields) + b"\xff" * 20
        found = {
            start: end
            for start, end in cuts._chains(np.frombuffer(data, np.uint8), len(data), format).items()
            if start % 4 == 0
        }
        assert found == ({4: 4 + 16 + fields[2]} if is_one else {})


def test_a_record_larger_than_any_snapshot_is_a_fault_of_its_place() -> None:
    def scanned(length: int) -> tuple[int, Fault | None]:
        data = pcap([DATA])[24:] + struct.pack("<IIII", START_NS // 10**9, 0, length, length)
        scan = Pcap(pcap([])).scan(np.frombuffer(data + bytes(64), np.uint8), len(data), 100)
        return scan.consumed, scan.fault

    assert scanned(MAXIMUM_SNAPSHOT) == (RECORD, None)
    assert scanned(MAXIMUM_SNAPSHOT + 1) == (RECORD, Fault("a record of 262,145 bytes", 100 + RECORD))


@pytest.mark.parametrize(("fraction", "is_sound"), [(999_999_999, True), (1_000_000_000, False)])
def test_a_fraction_is_less_than_a_second(fraction: int, is_sound: bool) -> None:
    data = pcap([DATA])[24:] + struct.pack("<IIII", START_NS // 10**9, fraction, 1, 1) + b"x"
    scan = Pcap(pcap([])).scan(np.frombuffer(data + bytes(64), np.uint8), len(data), 100)
    cause = None if is_sound else Fault("a time of more than a second's fraction", 100 + RECORD)
    assert (scan.consumed, scan.fault) == (len(data) if is_sound else RECORD, cause)


def test_the_header_of_each_damaged_record_tells_where_the_next_one_starts(tmp_path: Path) -> None:
    foreign = frame(b"foreign " + pcap([DATA] * 3)[24:])
    frames = [DATA, foreign, *[DATA] * 300, foreign, DATA]  # the faults are farther apart than a payload is long
    data = bytearray(pcap(frames))
    starts = [24 + sum(16 + len(one) for one in frames[:place]) for place in range(len(frames))]
    for place in (1, 302):
        data[starts[place] : starts[place] + 16] = b"\xff" * 16
    file, format = opened(tmp_path, bytes(data))
    found = [place for _, scan in file.scans(format, 24, None) for place in scan.records.offset.tolist()]
    assert found == [starts[0], *starts[2:302], starts[303]], "not what is in the payloads"
