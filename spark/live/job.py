"""Live analysis of micro-batches of frames.

Each micro-batch writes its frames to a store of Parquet files, with one directory for each batch. Spark may repeat a
batch after a crash. The repetition overwrites the directory, so each frame is stored once. The faults of the batch's
files are stored beside its frames.

The *watermark* is the latest time seen less a delay. The delay leaves time for arrivals, resends and acknowledgements
of earlier datagrams. Intervals that end before the watermark are final. Frames that arrive later for a final interval
are counted and dropped. After each batch the ordinary analysis runs on the store and reports the final intervals. The
store deletes old batches, so the cost of a round stays constant.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.storagelevel import StorageLevel

from spark.analyze.job import SECOND, USED, analyze
from spark.analyze.result import Result, collect
from spark.live.source import SETTLE, TALLY, LiveCaptures
from spark.session import suit

FRAME_BYTES = 500
"""Assumed bytes of capture for a stored frame, to distinguish small captures from large ones."""

EVER = 1 << 62  # nanoseconds since 1970: the year 2116


@dataclass(kw_only=True)
class Live:
    """Job of a live analysis. All times are in seconds.

    - `captures`: the growing directory.
    - `state`: the job's own directory. A new job with the same directory continues.
    - `told`: called with the result of each analysis.
    - `said`: called with progress as text.
    - `every`: time between two reports.
    - `once`: report all present captures without waiting, and end.
    - `interval`: length of measured intervals.
    - `delay`: how late frames of an interval may come, including the difference of the capture points' clocks.
    - `keep`: how far back the report goes.
    - `settle`: time without a write after which a file is complete.
    """

    captures: Path
    state: Path
    told: Callable[[Result], object]
    said: Callable[[str], object] = lambda _: None
    every: float = 10.0
    once: bool = False
    interval: float = 1.0
    delay: float = 30.0
    keep: float = 3600.0
    settle: float = SETTLE
    rounds: int = field(default=0, init=False)

    @property
    def frames(self) -> Path:
        """Directory of the stored frames."""
        return self.state / "frames"

    @property
    def files(self) -> Path:
        """Directory of the stored rows of `files`."""
        return self.state / "files"

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start the stream, at its beginning or at its checkpoint."""
        spark.dataSource.register(LiveCaptures)
        self.frames.mkdir(parents=True, exist_ok=True)
        source = spark.readStream.format("pcap-live").option("settle", str(self.settle)).load(str(self.captures))
        writer = source.select(*USED, TALLY).writeStream.option("checkpointLocation", str(self.state / "checkpoint"))
        timed = (
            writer.trigger(availableNow=True) if self.once else writer.trigger(processingTime=f"{self.every} seconds")
        )
        return timed.foreachBatch(self._round).start()

    def finish(self, spark: SparkSession) -> None:
        """Report the whole store if no round has run, because all files had been taken before."""
        if not self.rounds:
            result = self._analysis(spark, self._marks(), EVER)
            if result is not None:
                self.told(result)

    def _round(self, batch: DataFrame, number: int) -> None:
        began = time.monotonic()
        result = self.take(batch, number)
        if result is not None:
            self.told(result)
        self.rounds += 1
        took = time.monotonic() - began
        if took > self.every and not self.once:
            self.said(f"this round took {took:.0f} s, longer than the {self.every:g} s between two reports")

    def take(self, batch: DataFrame, number: int) -> Result | None:
        """Add a micro-batch, and return the analysis of the final intervals, None if there are none."""
        marks = self._marks()
        marks = {name: mark for name, mark in marks.items() if int(name) < number}  # a repeated batch counts again
        final = self.final(max((mark["latest_ns"] for mark in marks.values()), default=0))
        batch = batch.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            mark = self._store(batch, number, final)
        finally:
            batch.unpersist()
        marks[str(number)] = mark
        latest = max(mark["latest_ns"] for mark in marks.values())
        for known in marks.values():  # a batch of late frames or faults alone is as old as the frames beside it
            known["latest_ns"] = known["latest_ns"] or latest
        self._forget(marks, latest)
        self._write(marks)
        kept = sum(mark["frames"] for mark in marks.values())
        self.said(f"took {mark['frames']:,} datagrams; the report is made of {kept:,}")
        return self._analysis(batch.sparkSession, marks, EVER if self.once else self.final(latest))

    def _store(self, batch: DataFrame, number: int, final: int) -> dict[str, int]:
        """Write the frames of a micro-batch that are not late, and its rows of `files`. Return its mark."""
        is_frame, is_late = sql.col(TALLY).isNull(), sql.col("time_ns") < final
        for rows, directory in (
            (batch.where(is_frame & ~is_late).drop(TALLY), self.frames),
            (batch.where(~is_frame).select(f"{TALLY}.*"), self.files),
        ):
            rows.write.mode("overwrite").parquet(str(directory / f"batch={number}"))
        stored = sql.when(is_frame & ~is_late, sql.col("time_ns"))
        told = batch.agg(sql.min(stored), sql.max(stored), sql.count(stored), sql.count_if(is_frame & is_late)).first()
        assert told is not None
        return {"first_ns": told[0] or 0, "latest_ns": told[1] or 0, "frames": told[2], "late": told[3]}

    def final(self, latest_ns: int) -> int:
        """Return the end of the last final interval, given the latest time seen."""
        watermark = max(0, latest_ns - round(self.delay * SECOND))
        return watermark - watermark % round(self.interval * SECOND)

    def _analysis(self, spark: SparkSession, marks: dict[str, dict[str, int]], final: int) -> Result | None:
        filled = {number: mark for number, mark in marks.items() if mark["frames"]}
        if min((mark["first_ns"] for mark in filled.values()), default=final) >= final:
            return None
        suit(spark, FRAME_BYTES * sum(mark["frames"] for mark in filled.values()))
        frames = spark.read.parquet(*(str(self.frames / f"batch={number}") for number in filled))
        files = spark.read.parquet(*(str(self.files / f"batch={number}") for number in marks))
        analysis = analyze(frames, self.interval, until_ns=None if final == EVER else final)
        try:
            result = collect(analysis, files)
        finally:
            analysis.close()
        result["trace"]["late_frames"] = sum(mark["late"] for mark in marks.values())
        return result

    def _forget(self, marks: dict[str, dict[str, int]], latest: int) -> None:
        """Delete the batches that are older than `keep`."""
        oldest = latest - round((self.keep + self.delay) * SECOND)
        for number in [number for number, mark in marks.items() if mark["latest_ns"] < oldest]:
            for directory in (self.frames, self.files):
                shutil.rmtree(directory / f"batch={number}", ignore_errors=True)
            del marks[number]

    def _marks(self) -> dict[str, dict[str, int]]:
        """Return the mark of each batch in the store, by its number."""
        path = self.state / "batches.json"
        marks: dict[str, dict[str, int]] = json.loads(path.read_text()) if path.exists() else {}
        return marks

    def _write(self, marks: dict[str, dict[str, int]]) -> None:
        path = self.state / "batches.json"
        path.with_suffix(".new").write_text(json.dumps(marks))
        path.with_suffix(".new").replace(path)
