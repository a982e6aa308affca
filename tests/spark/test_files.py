"""Captures of every kind of file: the rows are the same whatever wrote them, up to the fault if there is one."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from spark.read import CaptureError, captures, files, partitions
from spark.read.pcapng import Interface
from tests.spark import captures as made
from tests.spark.captures import GOLDEN, MICROSECONDS, NANOSECONDS, START_NS, STEP_NS, frame, pcap, pcapng
from tests.spark.rows import read, read_bytes

FRAMES = [frame(datagram) for datagram in GOLDEN.values()]


def counters(rows: list[dict[str, object]]) -> list[object]:
    return [row["counter"] for row in rows]


@pytest.fixture
def expected(tmp_path: Path) -> list[object]:
    rows, _ = read_bytes(tmp_path, pcap(FRAMES))
    assert len(rows) == len(FRAMES)
    return counters(rows)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit"), [(MICROSECONDS, 1000), (NANOSECONDS, 1)])
def test_pcap_in_both_byte_orders_and_units(
    tmp_path: Path, expected: list[object], order: str, magic: int, unit: int
) -> None:
    rows, tally = read_bytes(tmp_path, pcap(FRAMES, order, magic))
    assert counters(rows) == expected
    assert [row["time_ns"] for row in rows] == [(START_NS + i * STEP_NS) // unit * unit for i in range(len(FRAMES))]
    assert tally.fault is None


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_in_both_byte_orders(tmp_path: Path, expected: list[object], order: str) -> None:
    rows, tally = read_bytes(tmp_path, pcapng(FRAMES, order))
    assert counters(rows) == expected
    assert [row["time_ns"] for row in rows] == [START_NS + i * STEP_NS for i in range(len(FRAMES))]
    assert tally.fault is None


def test_every_resolution_of_a_clock_gives_its_time() -> None:
    for resolution in range(256):
        units = (2 if resolution & 0x80 else 10) ** (resolution & 0x7F)
        for ticks in (0, 1, 999, 1 << 31, 1_700_000_000 * 2**20 + 7, (1 << 62) + 12345):
            exact = ticks * 10**9 // units
            if exact < 1 << 62:
                (found,) = Interface(1, 0, None, resolution, 5).nanoseconds(np.array([ticks]))
                assert abs(int(found) - 5 - exact) <= (1 if resolution & 0x80 else 9 * (resolution > 27)), resolution


@pytest.mark.parametrize(("resolution", "ticks"), [(None, 10**6), (6, 10**6), (3, 10**3), (0x80 | 20, 1 << 20)])
def test_clocks_of_pcapng_interfaces(tmp_path: Path, resolution: int | None, ticks: int) -> None:
    data = made.section() + made.interface(resolution=resolution) + made.packet(FRAMES[0], 1_700_000_000 * ticks + 1)
    rows, _ = read_bytes(tmp_path, data)
    assert rows[0]["time_ns"] == 1_700_000_000 * 10**9 + 10**9 // ticks


def test_pcapng_of_several_sections_and_interfaces(tmp_path: Path) -> None:
    first = made.section() + made.interface(description="glue capture point: left") + made.interface(resolution=6)
    first += made.packet(FRAMES[0], START_NS) + made.packet(FRAMES[1], START_NS // 1000, interface=1)
    second = made.section(">") + made.interface(">", description="glue capture point: right")
    second += made.packet(FRAMES[2], START_NS, ">", flags=1) + made.packet(FRAMES[3], START_NS, ">", flags=2)
    rows, tally = read_bytes(tmp_path, first + second)
    assert [row["capture_point"] for row in rows] == ["left", "trace", "right", "right"]
    assert [row["direction"] for row in rows] == [None, None, "in", "out"]
    assert {row["time_ns"] for row in rows} == {START_NS}
    assert tally.fault is None


def test_blocks_of_old_and_simple_packets(tmp_path: Path) -> None:
    data = FRAMES[0].ljust(len(FRAMES[0]) + -len(FRAMES[0]) % 4, b"\0")
    simple = made.block("<", 3, struct.pack("<I", len(FRAMES[0])) + data)
    old = made.block(
        "<", 2, struct.pack("<HHIIII", 0, 0, START_NS >> 32, START_NS & 0xFFFFFFFF, len(FRAMES[0]), 0) + data
    )
    rows, _ = read_bytes(tmp_path, made.section() + made.interface() + simple + old)
    assert [row["time_ns"] for row in rows] == [0, START_NS]
    assert rows[0]["counter"] == rows[1]["counter"]


def test_drops_that_the_recorder_tells(tmp_path: Path) -> None:
    def drops(count: int) -> bytes:
        return made.block("<", 5, struct.pack("<III", 0, 0, 0) + made.option("<", 5, struct.pack("<Q", count)))

    def dropped(data: bytes) -> int | None:
        return read_bytes(tmp_path, data)[1].dropped

    assert dropped(pcapng(FRAMES) + drops(12)) == 12
    assert dropped(pcapng(FRAMES) + drops(3) + drops(5)) == 5, "each tells of all so far"
    assert dropped(pcapng(FRAMES) + drops(12) + pcapng(FRAMES) + drops(5)) == 17, "another section counts anew"


@pytest.mark.parametrize("name", ["trace.pcap.gz", "trace.pcapng.zst"])
def test_compressed_files(tmp_path: Path, expected: list[object], name: str) -> None:
    plain = pcapng(FRAMES) if "ng" in name else pcap(FRAMES)
    packed = gzip.compress(plain) if name.endswith("gz") else pa.Codec("zstd").compress(plain, asbytes=True)
    (tmp_path / name).write_bytes(packed)
    rows, tally = read(tmp_path / name)
    assert counters(rows) == expected
    assert rows[0]["capture_point"] == "trace"
    assert tally.fault is None


def test_compressed_data_that_is_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    packed = gzip.compress(pcap(FRAMES * 20_000), compresslevel=1)
    (tmp_path / "trace.pcap.gz").write_bytes(packed[: len(packed) // 2])
    rows, tally = read(tmp_path / "trace.pcap.gz", ["counter"])
    assert len(rows) > 100_000
    assert tally.fault is not None


@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize("lost", [1, 10, 100])
def test_a_file_that_ends_too_soon_is_read_up_to_there(tmp_path: Path, write, lost: int) -> None:  # type: ignore[no-untyped-def]
    data = write(FRAMES)
    rows, tally = read_bytes(tmp_path, data[:-lost])
    assert len(rows) == len(FRAMES) - 1
    assert tally.fault is not None
    assert tally.fault.cause == "the file ends within a record"
    assert tally.fault.offset == len(write(FRAMES[:-1]))


def test_a_corrupt_length_in_a_pcap_is_named(tmp_path: Path) -> None:
    before, damaged = pcap(FRAMES[:5]), bytearray(pcap(FRAMES))
    damaged[len(before) : len(before) + 16] = b"\xff" * 16
    rows, tally = read_bytes(tmp_path, bytes(damaged))
    assert len(rows) == len(FRAMES) - 1
    assert tally.fault is not None
    assert tally.fault.offset == len(before)
    assert "4,294,967,295 bytes" in tally.fault.cause


def test_a_file_without_frames_and_an_empty_one(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, pcap([]))[0] == []
    assert read_bytes(tmp_path, b"")[0] == []


def test_what_is_no_capture_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "trace.pcap").write_bytes(b"PK\3\4 something else altogether")
    with pytest.raises(CaptureError, match=r"trace\.pcap: neither pcap nor pcapng: it starts with 50 4b 03 04"):
        partitions([str(tmp_path / "trace.pcap")])
    (tmp_path / "day.mcap").write_bytes(b"\x89MCAP0\r\n" + bytes(9))
    with pytest.raises(CaptureError, match=r"day\.mcap: an MCAP file has messages, no datagrams"):
        partitions([str(tmp_path / "day.mcap")])
    with pytest.raises(CaptureError, match="no capture there"):
        partitions([str(tmp_path / "missing.pcap")])


def test_directories_and_patterns(tmp_path: Path) -> None:
    for name in ("b/two.pcapng", "a.pcap", "b/c/three.pcap.gz", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    names = [Path(name).name for name in captures([str(tmp_path)])]
    assert names == ["a.pcap", "three.pcap.gz", "two.pcapng"]
    assert [Path(name).name for name in captures([f"{tmp_path}/**/*.pcap*"])] == names
    assert [Path(name).name for name in captures([f"{tmp_path}/a.pcap", f"{tmp_path}/*.pcap"])] == ["a.pcap"]


def test_the_capture_point_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "trace.pcap").write_bytes(pcap(FRAMES))
    assert {row["capture_point"] for row in read(tmp_path / "trace.pcap", point="hall")[0]} == {"hall"}


@pytest.mark.parametrize("options", ["", "?endpoint_override=http://minio:9000&scheme=http"])
def test_captures_elsewhere_than_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    """Nothing but Arrow's filesystem knows this address: no path of it exists here."""
    data = pcapng(FRAMES * 200)
    (tmp_path / "bucket" / "day").mkdir(parents=True)
    (tmp_path / "bucket" / "day" / "hall.pcapng").write_bytes(data)
    (tmp_path / "bucket" / "yard.pcap.gz").write_bytes(gzip.compress(pcap(FRAMES)))
    store = SubTreeFileSystem(str(tmp_path), LocalFileSystem())

    def from_uri(uri: str) -> tuple[SubTreeFileSystem, str]:
        return store, uri.removeprefix("store://").removesuffix(options)

    monkeypatch.setattr(files, "FileSystem", SimpleNamespace(from_uri=from_uri))
    parts = partitions([f"store://bucket{options}"], len(data) // 4)
    names = {f"store://bucket/day/hall.pcapng{options}", f"store://bucket/yard.pcap.gz{options}"}
    assert {part.path for part in parts} == names
    assert {part.point for part in parts} == {"hall", "yard"}
    assert sum(batch.num_rows for part in parts for batch in part.batches()) == 201 * len(FRAMES)
