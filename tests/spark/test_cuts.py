"""One large capture read in parts gives what it gives as a whole, also where payloads are captures themselves."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from spark.read import Partition, Tally, partitions
from spark.read.cuts import cuts, proven_cut, walked_cuts
from spark.read.files import CaptureFile
from spark.read.pcap import Pcap
from spark.source import files_row
from tests.spark.captures import GOLDEN, ethernet, frame, ipv4, pcap, pcapng, udp
from tests.spark.rows import read

NAMES = ["offset", "counter", "time_ns"]
DATAGRAMS = [frame(datagram) for datagram in GOLDEN.values()]


def nested(rng: random.Random) -> bytes:
    """A frame of another program that carries a piece of a capture, cut anywhere."""
    inner = pcap([bytes(rng.randrange(60, 200)) for _ in range(40)])
    start = rng.randrange(24, 200)
    return ethernet(ipv4(udp(inner[start : start + rng.randrange(200, 1400)])))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of 12 MB, most of whose bytes are pieces of captures."""
    rng = random.Random(4)
    frames = [nested(rng) if rng.random() < 0.8 else rng.choice(DATAGRAMS) for _ in range(18_000)]
    path = tmp_path_factory.mktemp("cuts") / "hostile.pcap"
    path.write_bytes(pcap(frames))
    return path


def test_every_cut_is_at_a_true_record(hostile: Path) -> None:
    file = CaptureFile(str(hostile))
    format = file.new_format()
    assert isinstance(format, Pcap)
    true = {offset for _, scan in file.scans(format, 24, None) for offset in scan.records.offset.tolist()}
    rng = random.Random(5)
    with file.open() as stream:
        for _ in range(60):
            target = rng.randrange(100, file.size - 400_000)
            cut = proven_cut(stream, format, target, file.size)
            assert cut is not None
            assert cut in true
            assert cut >= target


def test_voted_cuts_part_the_file_and_walked_ones_too(hostile: Path) -> None:
    file = CaptureFile(str(hostile))
    format = file.new_format()
    assert isinstance(format, Pcap)
    voted = cuts(file, format, 1 << 20)
    walked = walked_cuts(file, format, range(24 + (1 << 20), file.size, 1 << 20))
    sizes = [stop - start for found in (voted, walked) for start, stop in pairwise(found)]
    assert len(voted) == len(walked) == round(file.size / (1 << 20))
    assert all(abs(size - (1 << 20)) < 300_000 for size in sizes)


def test_parts_give_the_same_rows_as_the_whole(hostile: Path) -> None:
    whole, counted = read(hostile, NAMES)
    parts, counted_in_parts = read(hostile, NAMES, 1 << 20)
    assert parts == whole
    assert counted_in_parts.records == counted.records == 18_000
    assert counted_in_parts.skipped == counted.skipped


def test_parts_of_pcapng_give_the_same_rows_as_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark.read.files.BLOCK", 1 << 20)
    section = pcapng(DATAGRAMS * 500)
    (tmp_path / "trace.pcapng").write_bytes(section + pcapng(DATAGRAMS * 500, ">"))
    whole, _ = read(tmp_path / "trace.pcapng", NAMES)
    parts, _ = read(tmp_path / "trace.pcapng", NAMES, 1 << 20)
    assert len(partitions([str(tmp_path / "trace.pcapng")], 1 << 20)) > 2
    assert parts == whole
    assert len(whole) == 1000 * len(DATAGRAMS)


def test_a_wrong_cut_is_named(hostile: Path) -> None:
    file = CaptureFile(str(hostile))
    part = Partition(str(hostile), 24, 1_000_001, file.new_format(), "x")
    tally = Tally()
    rows = sum(batch.num_rows for batch in part.batches(tally=tally))
    assert rows > 100
    assert tally.fault is not None
    assert "no record ends at byte 1,000,001, where the next part begins" in tally.fault.cause
    assert part.files_row(tally)["unread"].to_pylist() == [1_000_001 - tally.fault.offset]


def test_a_fault_costs_one_record_of_one_part(tmp_path: Path) -> None:
    path = tmp_path / "trace.pcap"
    path.write_bytes(pcap(DATAGRAMS * 3000))
    whole, _ = read(path, NAMES)
    place = len(whole) // 2
    middle, behind = whole[place]["offset"], whole[place + 1]["offset"]
    damaged = bytearray(path.read_bytes())
    damaged[middle : middle + 16] = b"\xff" * 16
    path.write_bytes(damaged)
    parts = partitions([str(path)], 1 << 18)
    rows, tally = read(path, NAMES, 1 << 18)
    assert rows == whole[:place] + whole[place + 1 :]
    assert tally.fault is not None
    assert tally.fault.offset == middle
    files = [files_row(part).to_pylist()[0] for part in parts]
    assert [row["unread"] for row in files if row["fault"]] == [behind - middle]
    assert sum(row["bytes"] for row in files) == len(damaged) - 24 - (behind - middle)


def test_where_no_vote_is_possible_the_file_is_walked(tmp_path: Path) -> None:
    frames = [frame(b"\x01" * 60_000)] * 9 + DATAGRAMS * 300  # where these are, no window shows two whole records
    path = tmp_path / "trace.pcap"
    path.write_bytes(pcap(frames))
    whole, parts = read(path, NAMES)[0], read(path, NAMES, 1 << 18)[0]
    assert parts == whole
