"""How work is cut and planned by how much of it there is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark.read import partitions
from spark.session import ADAPTIVE, PARTITIONS, SMALL_BYTES, suit
from spark.source import packed, size_of, total_size
from tests.spark.captures import GOLDEN, frame, pcap


def test_small_files_are_read_together_and_large_ones_are_not(tmp_path: Path) -> None:
    data = pcap([frame(datagram) for datagram in GOLDEN.values()])
    for name in "abcde":
        (tmp_path / f"{name}.pcap").write_bytes(data)
    (tmp_path / "0.pcap").touch()  # the first one is empty
    parts = partitions([str(tmp_path)])
    together = packed(parts, 2 * len(data))
    assert [len(task.parts) for task in together] == [3, 2, 1]
    assert [part for task in together for part in task.parts] == parts
    assert [len(task.parts) for task in packed(parts[1:], 1)] == [1] * 5
    assert packed([]) == []


def test_a_compressed_file_counts_for_more(tmp_path: Path) -> None:
    plain, small = tmp_path / "a.pcap", tmp_path / "b.pcap.gz"
    plain.write_bytes(bytes(100))
    small.write_bytes(bytes(100))
    assert (size_of(str(plain)), size_of(str(small)), size_of(str(tmp_path / "deleted.pcap"))) == (100, 800, 0)
    assert total_size([f"file:{tmp_path}"]) == 900


def test_a_task_reads_16_megabytes_of_small_files() -> None:
    def tasks(*sizes: int) -> list[int]:
        parts: list[Any] = [SimpleNamespace(start=7, stop=7 + size) for size in sizes]
        return [len(task.parts) for task in packed(parts)]

    assert tasks(8 << 20, 8 << 20, 1, (16 << 20) - 1, 1, 17 << 20, 1) == [2, 2, 1, 1, 1]
    assert tasks(0, 8 << 20, (8 << 20) + 1) == [2, 1]


class Context:
    """What `suit` asks of Spark."""

    defaultParallelism = 4  # noqa: N815 (Spark's name)

    def __init__(self, master: str, **given: str) -> None:
        self.master = master
        self._given = given

    def getConf(self) -> Any:  # noqa: N802
        return SimpleNamespace(contains=self._given.__contains__)


@pytest.mark.parametrize(
    ("master", "size", "wanted"),
    [
        ("local[*,4]", 1000, {ADAPTIVE: "false", PARTITIONS: "4"}),
        ("local[*,4]", SMALL_BYTES + 1, {ADAPTIVE: "true", PARTITIONS: "8"}),
        ("local[*,4]", 10 << 30, {ADAPTIVE: "true", PARTITIONS: "160"}),
        ("spark://host:7077", 1000, {ADAPTIVE: "false", PARTITIONS: "4"}),
        ("spark://host:7077", 1 << 30, {ADAPTIVE: "true", PARTITIONS: "200"}),
        ("spark://host:7077", 1 << 40, {ADAPTIVE: "true", PARTITIONS: "16384"}),
    ],
)
def test_large_captures_get_more_partitions_and_adaptive_execution(
    master: str, size: int, wanted: dict[str, str]
) -> None:
    done: dict[str, str] = {}
    spark: Any = SimpleNamespace(sparkContext=Context(master), conf=SimpleNamespace(set=done.__setitem__))
    suit(spark, size)
    assert done == wanted


def test_what_the_user_set_is_left_as_it_is() -> None:
    done: dict[str, str] = {}
    context = Context("local[2]", **{ADAPTIVE: "true", PARTITIONS: "7"})
    spark: Any = SimpleNamespace(sparkContext=context, conf=SimpleNamespace(set=done.__setitem__))
    suit(spark, 1000)
    assert done == {}
