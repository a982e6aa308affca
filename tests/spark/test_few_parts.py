"""A capture is cut for several readers only where that is worth it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark.read import partitions
from tests.spark.captures import GOLDEN, START_NS, block, frame, interface, pcap, section
from tests.spark.rows import read_bytes


@pytest.mark.parametrize(("share", "parts"), [(2.0, 1), (0.7, 1), (0.5, 2)])
def test_a_file_is_cut_from_one_and_a_half_parts_on(tmp_path: Path, share: float, parts: int) -> None:
    data = pcap([frame(GOLDEN["data"])] * 400)
    (tmp_path / "a.pcap").write_bytes(data)
    assert len([*partitions([str(tmp_path / "a.pcap")], int(share * len(data)))]) == parts


@pytest.mark.parametrize("beyond", [0, 4, 8, 12])
def test_a_packet_that_says_more_than_its_block_holds_is_damaged(tmp_path: Path, beyond: int) -> None:
    data = frame(GOLDEN["data"])
    data += bytes(-len(data) % 4)
    head = struct.pack("<IIIII", 0, START_NS >> 32, START_NS & 0xFFFFFFFF, len(data) + beyond, len(data) + beyond)
    rows, tally = read_bytes(tmp_path, section() + interface() + block("<", 6, head + data))
    assert len(rows) == (beyond == 0)
    assert (tally.fault is None) == (beyond == 0)
