"""What captures tell of sealed datagrams without their key: rows of `sealed`, and where trains are cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from glue.contract.sealed import FORMATS, HEAD
from spark.read import Tally, partitions
from spark.read.sealed import SealedReader
from spark.schema import SEALED
from tests.golden.seal import BLOCK, FOLDER
from tests.spark.captures import (
    GOLDEN,
    GROUP,
    GROUP_PORT,
    SOURCE,
    SOURCE_PORT,
    START_NS,
    STEP_NS,
    ethernet,
    frame,
    interface,
    ipv4,
    packet,
    pcap,
    section,
    udp,
)
from tests.spark.rows import Row, read_bytes

SALT = bytes(range(16))
SMALLEST = HEAD.size + 16  # an empty content and its tag
MULTICAST = 1 << 31


def datagram(number: int, size: int = SMALLEST, format: int = FORMATS.start, salt: bytes = SALT) -> bytes:
    """A sealed datagram of so many bytes."""
    return HEAD.pack(format, 3, 777, salt, number).ljust(size, b"\x99")


def sealed_rows(directory: Path, data: bytes) -> list[Row]:
    """All rows of `sealed`."""
    path = directory / "trace.pcap"
    path.write_bytes(data)
    (part,) = partitions([str(path)], 0)
    return [row for batch in part.batches(SEALED, reader_of=SealedReader) for row in batch.to_pylist()]


def test_every_column_is_what_stands_in_the_open(tmp_path: Path) -> None:
    other = bytes(reversed(SALT))
    sent = [datagram(5, 60), datagram(MULTICAST + 70_000, 50, FORMATS.stop - 1, other), datagram(MULTICAST - 1)]
    foreign = [frame(GOLDEN["data"]), ethernet(ipv4(bytes(30), protocol=6)), frame(datagram(1, format=FORMATS.stop))]
    rows = sealed_rows(tmp_path, pcap([*map(frame, sent), *foreign]))
    common = {
        "capture_point": "trace", "file": str(tmp_path / "trace.pcap"), "part": 0, "direction": None, "source": SOURCE,
        "source_port": SOURCE_PORT, "destination": GROUP, "destination_port": GROUP_PORT, "network": 777, "epoch": 3,
    }  # fmt: skip
    names = ("life", "kind", "number", "size")
    own = [
        (SALT.hex(), "unicast", 5, 60), (other.hex(), "multicast", 70_000, 50),
        (SALT.hex(), "unicast", MULTICAST - 1, SMALLEST),
    ]  # fmt: skip
    places = [24, 24 + 16 + len(frame(sent[0])), 24 + 32 + len(frame(sent[0])) + len(frame(sent[1]))]
    assert rows == [
        {**common, **dict(zip(names, told, strict=True)), "offset": place, "time_ns": START_NS + number * STEP_NS}
        for number, (told, place) in enumerate(zip(own, places, strict=True))
    ]
    assert list(rows[0]) == [column.name for column in SEALED]


def test_points_and_directions_are_told_and_nothing_sealed_gives_no_row(tmp_path: Path) -> None:
    described = section() + interface(description="glue capture point: hall")
    (row,) = sealed_rows(tmp_path, described + packet(frame(datagram(1)), START_NS, flags=2))
    assert (row["capture_point"], row["direction"]) == ("hall", "out")
    assert sealed_rows(tmp_path, described + packet(frame(GOLDEN["data"]), START_NS)) == []
    assert sealed_rows(tmp_path, pcap([])) == []


def numbers(rows: list[Row]) -> list[tuple[int, int, int]]:
    return [(row["part"], row["number"], row["size"]) for row in rows]


@pytest.mark.parametrize("size", [SMALLEST, SMALLEST + 1, 700])
def test_a_train_is_cut_into_its_datagrams_whose_formats_may_differ(tmp_path: Path, size: int) -> None:
    train = b"".join(datagram(255 + place, size, FORMATS.start + place) for place in range(4)) + datagram(259)
    rows = sealed_rows(tmp_path, pcap([frame(train), frame(datagram(9))]))
    assert numbers(rows) == [*((place, 255 + place, size) for place in range(4)), (4, 259, SMALLEST), (0, 9, SMALLEST)]
    assert {row["life"] for row in rows} == {SALT.hex()}


@pytest.mark.parametrize(
    ("following", "sizes"),
    [
        (datagram(6, 50), [60, 50]),
        (datagram(7, 50), [110]),
        (datagram(5, 50), [110]),
        (datagram(6, 50, salt=bytes(16)), [110]),
    ],
)
def test_only_the_next_number_of_the_same_life_goes_on(tmp_path: Path, following: bytes, sizes: list[int]) -> None:
    rows = sealed_rows(tmp_path, pcap([frame(datagram(5, 60) + following)]))
    assert [row["size"] for row in rows] == sizes


def test_the_head_of_the_next_one_within_a_datagram_too_short_is_its_content(tmp_path: Path) -> None:
    short = datagram(5, SMALLEST - 1) + datagram(6, 60)
    assert numbers(sealed_rows(tmp_path, pcap([frame(short)]))) == [(0, 5, len(short))]


def test_the_number_after_the_last_one_is_the_first(tmp_path: Path) -> None:
    rows = sealed_rows(tmp_path, pcap([frame(datagram(2 * MULTICAST - 1, 50) + datagram(0, 50))]))
    assert [(row["kind"], row["number"]) for row in rows] == [("multicast", MULTICAST - 1), ("unicast", 0)]


@pytest.mark.parametrize(("captured", "told"), [(64, [(0, 5, 40), (1, 6, 40)]), (63, [(0, 5, 80)]), (23, [])])
def test_what_is_captured_of_a_train_is_cut_as_far_as_it_shows(
    tmp_path: Path, captured: int, told: list[tuple[int, int, int]]
) -> None:
    data = pcap([frame(datagram(5) + datagram(6))], snapshot=42 + captured)
    assert numbers(sealed_rows(tmp_path, data)) == told


def test_golden_trains_are_cut_and_rows_of_sealed_are_not_counted(tmp_path: Path) -> None:
    block = (FOLDER / "block.sealed").read_bytes()
    data = pcap([frame(block), frame(GOLDEN["data"])])
    rows = sealed_rows(tmp_path, data)
    assert [row["part"] for row in rows] == list(range(BLOCK))
    assert [row["number"] - rows[0]["number"] for row in rows] == list(range(BLOCK))
    assert len({row["life"] for row in rows}) == 1
    assert sum(row["size"] for row in rows) == len(block)
    assert {row["time_ns"] for row in rows} == {START_NS}
    (part,) = partitions([str(tmp_path / "trace.pcap")], 0)
    tally = Tally()
    assert sum(batch.num_rows for batch in part.batches(SEALED, tally, SealedReader)) == BLOCK
    assert (tally.records, tally.datagrams, +tally.skipped) == (0, 0, {})
    frames, counted = read_bytes(tmp_path, data)
    assert (len(frames), counted.records, +counted.skipped) == (1, 2, {"sealed": 1})


def test_datagrams_of_several_lives_over_both_versions_of_ip(tmp_path: Path) -> None:
    lives = [bytes([number]) * 16 for number in range(5)]
    captured = [
        ethernet(ipv4(udp(datagram(number, salt=life), 6000 + number), options=bytes(4 * (number % 2))))
        for number, life in enumerate(lives)
    ]
    rows = sealed_rows(tmp_path, pcap(captured + captured))
    assert [row["life"] for row in rows] == [life.hex() for life in lives] * 2
    assert [row["source_port"] for row in rows] == [6000 + number for number in range(5)] * 2
    assert [row["number"] for row in rows] == [*range(5)] * 2
