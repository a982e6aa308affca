"""A damaged capture is read on behind the damage, at what is surely a block or record of its own; the rest is told."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from spark.read import Partition, Tally, files, partitions
from spark.schema import FILES, frames_columns
from tests.spark import captures as made
from tests.spark.captures import GOLDEN, MICROSECONDS, NANOSECONDS, START_NS, frame, packet, pcap, pcapng, section
from tests.spark.rows import Row, read_bytes

FRAMES = [frame(datagram) for datagram in GOLDEN.values()]
NOISE = b"\xff" * 16


def start_of(index: int, order: str = "<") -> int:
    """The byte at which the block of a packet starts in a `pcapng` of `FRAMES`."""
    return len(pcapng(FRAMES[:index], order))


def damaged(data: bytes, *places: int, noise: bytes = NOISE) -> bytes:
    """Overwritten from each place on."""
    changed = bytearray(data)
    for place in places:
        changed[place : place + len(noise)] = noise
    return bytes(changed)


def told(part: Partition) -> Row:
    """The row of `files` of a partition."""
    tally = Tally()
    for _ in part.batches((), tally):
        pass
    row: Row = part.files_row(tally).to_pylist()[0]
    assert list(row) == [column.name for column in FILES]
    return row


@pytest.mark.parametrize("order", ["<", ">"])
def test_only_damaged_packets_are_missing(tmp_path: Path, order: str) -> None:
    data = pcapng(FRAMES * 300, order)
    whole, _ = read_bytes(tmp_path, data)
    starts = [row["offset"] for row in whole]
    hurt = [4, 3000]
    rows, tally = read_bytes(tmp_path, damaged(data, *(starts[index] for index in hurt)))
    assert rows == [row for index, row in enumerate(whole) if index not in hurt]
    (part,) = partitions([str(tmp_path / "trace.pcap")], 0)
    row = told(part)
    assert (row["faults"], row["fault_offset"]) == (2, starts[4])
    assert row["unread"] == sum(starts[index + 1] - starts[index] for index in hurt)
    assert row["bytes"] + row["unread"] == len(data)
    assert tally.fault is not None
    assert "4,294,967,295 bytes" in tally.fault.cause


@pytest.mark.parametrize("gone", [1, 2, 3, 4, 50])
def test_it_goes_on_also_where_bytes_are_missing(tmp_path: Path, gone: int) -> None:
    data = pcapng(FRAMES)
    rows, _ = read_bytes(tmp_path, data[: start_of(5) + 20] + data[start_of(5) + 20 + gone :])
    whole, _ = read_bytes(tmp_path, data)
    assert [row["counter"] for row in rows] == [row["counter"] for row in [*whole[:5], *whole[6:]]]


def test_lengths_that_contradict_each_other_are_a_fault_of_one_packet(tmp_path: Path) -> None:
    rows, tally = read_bytes(tmp_path, damaged(pcapng(FRAMES), start_of(8) - 4, noise=b"\0\0\0\x40"))
    assert len(rows) == len(FRAMES) - 1
    assert tally.fault is not None
    assert tally.fault.offset == start_of(7)


@pytest.mark.parametrize(("inner", "read"), [(pcapng(FRAMES * 3)[start_of(0) :], 2), (pcapng(FRAMES * 3), 1)])
def test_blocks_within_a_payload_are_not_taken_for_those_of_the_file(tmp_path: Path, inner: bytes, read: int) -> None:
    data = pcapng([*FRAMES, frame(b"foreign " + inner), *FRAMES])
    whole, _ = read_bytes(tmp_path, data)
    rows, tally = read_bytes(tmp_path, damaged(data, start_of(len(FRAMES))))
    assert [row["offset"] for row in rows] == [row["offset"] for row in whole[: read * len(FRAMES)]]
    assert tally.fault is not None  # behind the header of a section, though in a payload, it might be another section
    (part,) = partitions([str(tmp_path / "trace.pcap")])
    assert (told(part)["unread"] == len(data) - start_of(len(FRAMES))) == (read == 1)


def test_where_a_section_lost_its_header_it_goes_on_with_the_next(tmp_path: Path) -> None:
    sections = [
        section() + made.interface(description=f"glue capture point: {name}") + packet(FRAMES[0], START_NS)
        for name in ("left", "middle", "right")
    ]
    rows, tally = read_bytes(tmp_path, damaged(b"".join(sections), len(sections[0])))
    assert [row["capture_point"] for row in rows] == ["left", "right"]
    assert tally.fault is not None


def test_packets_of_an_interface_that_was_lost_are_left_out_up_to_the_next_section(tmp_path: Path) -> None:
    one = section() + made.interface() + packet(FRAMES[0], START_NS)
    rows, _ = read_bytes(tmp_path, damaged(one + packet(FRAMES[1], START_NS), 28) + one)
    assert len(rows) == 1
    rows, tally = read_bytes(tmp_path, one + packet(FRAMES[1], START_NS, interface=1) * 3 + one)
    assert [row["offset"] < len(one) for row in rows] == [True, False]
    assert tally.fault is not None


def test_parts_of_a_damaged_file_are_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 2 << 20)
    frames = FRAMES * 1600
    data, rng, path = pcapng(frames), random.Random(5), tmp_path / "trace.pcapng"
    starts = [row["offset"] for row in read_bytes(tmp_path, data, ["offset"])[0]]
    hurt = [at + rng.randrange(1000) for at in range(500, len(frames) - 1500, 9000)]
    path.write_bytes(damaged(data, *(starts[index] for index in hurt)))
    parts = partitions([str(path)], 1 << 20)
    assert len(parts) > 2
    columns = frames_columns(["offset"])
    found = [row["offset"] for part in parts for batch in part.batches(columns) for row in batch.to_pylist()]
    assert found == [start for index, start in enumerate(starts) if index not in hurt]
    rows = [told(part) for part in parts]
    assert sum(row["faults"] for row in rows) == len(hurt)
    assert sum(row["bytes"] + (row["unread"] or 0) for row in rows) == len(data)


# ------------------------------------------------------------------------------------------------- pcap


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [MICROSECONDS, NANOSECONDS])
def test_only_damaged_records_of_a_pcap_are_missing(tmp_path: Path, order: str, magic: int) -> None:
    data = pcap(FRAMES * 300, order, magic)
    whole, _ = read_bytes(tmp_path, data)
    starts = [row["offset"] for row in whole]
    hurt = [4, 3000, len(starts) - 2]
    rows, _ = read_bytes(tmp_path, damaged(data, *(starts[index] for index in hurt)))
    assert rows == [row for index, row in enumerate(whole) if index not in hurt]
    (part,) = partitions([str(tmp_path / "trace.pcap")], 0)
    row = told(part)
    assert (row["faults"], row["fault_offset"]) == (3, starts[4])
    assert row["unread"] == sum(starts[index + 1] - starts[index] for index in hurt)
    assert row["bytes"] + row["unread"] == len(data) - 24


@pytest.mark.parametrize("noise", [b"\0" * 16, b"\xff" * 12, b"\0\0\0\x40" * 4, b"{}" * 40], ids=repr)
@pytest.mark.parametrize("shift", [0, 8, 40])
def test_a_pcap_is_read_on_whatever_the_damage(tmp_path: Path, noise: bytes, shift: int) -> None:
    data = pcap(FRAMES * 200)
    whole, _ = read_bytes(tmp_path, data, ["offset", "counter"])
    rows, _ = read_bytes(tmp_path, damaged(data, whole[700]["offset"] + shift, noise=noise), ["offset", "counter"])
    assert [row for row in rows if row in whole] == rows
    assert len(whole) - len(rows) <= 3


@pytest.mark.parametrize("gone", [1, 2, 3, 4, 50])
def test_a_pcap_goes_on_also_where_bytes_are_missing(tmp_path: Path, gone: int) -> None:
    data = pcap(FRAMES)
    whole, _ = read_bytes(tmp_path, data)
    at = whole[5]["offset"] + 20
    rows, tally = read_bytes(tmp_path, data[:at] + data[at + gone :])
    counters = [row["counter"] for row in rows]
    assert [counters[:5], counters[-8:]] == [[row["counter"] for row in some] for some in (whole[:5], whole[-8:])]
    assert len(rows) >= len(whole) - 3
    assert tally.fault is not None


def test_a_clock_that_is_set_is_no_damage_and_a_damaged_time_is(tmp_path: Path) -> None:
    data = bytearray(pcap(FRAMES * 3))
    whole, _ = read_bytes(tmp_path, bytes(data))
    for row in whole[:40]:  # before a clock was set, as on a host that has none without power
        data[row["offset"] : row["offset"] + 4] = (1000).to_bytes(4, "little")
    rows, tally = read_bytes(tmp_path, bytes(data))
    assert (len(rows), tally.fault) == (len(whole), None)
    at = whole[60]["offset"]
    rows, tally = read_bytes(tmp_path, damaged(bytes(data), at, noise=b"\0\0\0\0"))
    assert [row["offset"] for row in rows] == [row["offset"] for row in whole if row["offset"] != at]
    assert tally.fault is not None
    assert "a time far from those" in tally.fault.cause


@pytest.mark.parametrize("tail", [b"", b"cut"])
def test_records_within_a_payload_are_not_taken_for_those_of_the_file(tmp_path: Path, tail: bytes) -> None:
    data = pcap([*FRAMES, frame(b"foreign " + pcap(FRAMES * 3)[24:] + tail), *FRAMES])
    whole, _ = read_bytes(tmp_path, data)
    start = len(pcap(FRAMES))
    rows, tally = read_bytes(tmp_path, damaged(data, start))
    assert [row["offset"] for row in rows] == [row["offset"] for row in whole]
    assert tally.fault is not None


def test_parts_of_a_damaged_pcap_are_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 2 << 20)
    frames = FRAMES * 1600
    data, path = pcap(frames), tmp_path / "trace.pcap"
    starts = [row["offset"] for row in read_bytes(tmp_path, data, ["offset"])[0]]
    hurt = [*range(500, len(frames) - 1500, 9000)]
    path.write_bytes(damaged(data, *(starts[index] for index in hurt)))
    parts = partitions([str(path)], 1 << 20)
    assert len(parts) > 2
    found = [
        row["offset"]
        for part in parts
        for batch in part.batches(frames_columns(["offset"]))
        for row in batch.to_pylist()
    ]
    assert found == [start for index, start in enumerate(starts) if index not in hurt]
    rows = [told(part) for part in parts]
    assert sum(row["faults"] for row in rows) == len(hurt)
    assert sum(row["bytes"] + (row["unread"] or 0) for row in rows) == len(data) - 24
