"""Small captures are read while Java starts: what Spark then finds is what the data source would have given."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glue.simulation import World
from glue.simulation.clock import Clock
from spark.analyze import ahead as module
from spark.analyze.ahead import Ahead, is_worth_it
from spark.analyze.job import USED
from spark.read import CaptureError, Tally, partitions
from spark.schema import arrow_schema, frames_columns
from spark.session import SMALL_BYTES
from tests.spark.truth import Taps

COLUMNS = frames_columns(USED)
ORDER = [("file", "ascending"), ("time_ns", "ascending"), ("sender", "ascending"), ("counter", "ascending")]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = World(3)
    a, b = world.endpoint("a"), world.endpoint("b")
    taps = Taps(world, {"a": a.host, "b": b.host}, {"a": Clock(), "b": Clock()})
    b.subscribe("t")
    world.run(1.0)
    a.publish("t", b"one")
    world.run(1.0)
    directory = tmp_path_factory.mktemp("captures")
    taps.write(directory)
    (directory / "broken.pcapng").write_bytes(b"no capture at all")
    return directory


def test_frames_and_files_are_those_of_the_data_source(captures: Path) -> None:
    ahead = Ahead([str(captures)])
    frames = Path(ahead.frames())
    parts = partitions([str(captures)])
    tallies = [Tally() for _ in parts]
    rows = [batch for part, tally in zip(parts, tallies, strict=True) for batch in part.batches(COLUMNS, tally)]
    files = [part.files_row(tally) for part, tally in zip(parts, tallies, strict=True)]
    assert (frames / "_SUCCESS").exists()
    found = pa.concat_tables([pq.read_table(part) for part in sorted(frames.glob("*.parquet"))])
    assert found.num_rows > 10
    assert found.sort_by(ORDER).equals(pa.Table.from_batches(rows).sort_by(ORDER))
    assert (
        pq.read_table(frames.parent / "files" / "part-0.parquet").to_pylist()
        == pa.Table.from_batches(files).to_pylist()
    )
    ahead.close()
    assert not frames.parent.exists()


@pytest.mark.parametrize(("cores", "parts"), [(2, 2), (None, 1)])
def test_each_core_gets_a_file_with_its_share(
    cores: int | None, parts: int, captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    ahead = Ahead([str(captures / "a.pcapng"), str(captures / "b.pcapng")])
    rows = [pq.read_table(part).num_rows for part in Path(ahead.frames()).glob("*.parquet")]
    assert len(rows) == parts
    assert all(rows)
    ahead.close()


def test_what_is_closed_in_the_midst_reads_no_more_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    began, over, batches = threading.Event(), threading.Event(), list[int]()

    def read(*_: Any) -> Iterator[pa.RecordBatch]:
        for number in range(100):
            batches.append(number)
            began.set()
            over.wait(60)
            yield pa.RecordBatch.from_pylist([], arrow_schema(COLUMNS))

    monkeypatch.setattr(module, "partitions", lambda *_: [SimpleNamespace(batches=read)])
    ahead = Ahead(["a.pcap"])
    assert began.wait(60)
    directory = Path(ahead._directory.name)
    thread = ahead._thread

    def join() -> None:  # by now it is closed
        over.set()
        thread.join()

    monkeypatch.setattr(ahead, "_thread", SimpleNamespace(join=join))
    ahead.close()
    assert batches == [0]
    assert not directory.exists()


def test_what_reading_raises_is_raised_where_the_frames_are_asked_for(tmp_path: Path) -> None:
    ahead = Ahead([str(tmp_path / "missing.pcap")])
    with pytest.raises(CaptureError, match=r"missing\.pcap"):
        ahead.frames()
    ahead.close()


def test_only_small_captures_are_read_here_and_only_for_a_spark_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert is_worth_it(SMALL_BYTES, None)
    assert is_worth_it(SMALL_BYTES, "local[2]")
    assert not is_worth_it(SMALL_BYTES + 1, None)
    assert not is_worth_it(1, "spark://there:7077")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not is_worth_it(1, None)
