"""A capture is cut for several readers only where that is worth it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.read import partitions
from tests.spark.captures import GOLDEN, frame, pcap


@pytest.mark.parametrize(("share", "parts"), [(2.0, 1), (0.7, 1), (0.5, 2)])
def test_a_file_is_cut_from_one_and_a_half_parts_on(tmp_path: Path, share: float, parts: int) -> None:
    data = pcap([frame(GOLDEN["data"])] * 400)
    (tmp_path / "a.pcap").write_bytes(data)
    assert len([*partitions([str(tmp_path / "a.pcap")], int(share * len(data)))]) == parts
