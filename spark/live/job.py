"""Micro-batches of frames become a report that follows the network.

Each micro-batch adds its frames to a store of Parquet files, one directory a batch, written over when Spark repeats the
batch after a crash: so every frame is there exactly once. The *watermark* is the latest time seen less a delay, in
which arrivals, resends and acknowledgements of what was sent before it come in; intervals that end by then are final,
and frames that come yet later for them are counted and dropped. Then the analysis, the very one of a batch, goes over
what the store holds, and tells the final intervals. The store forgets what is older than it is to keep, so that a
round costs the same after a year.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from spark.analyze.job import SECOND, USED, analyze
from spark.analyze.result import Result, collect
from spark.live.source import SETTLE, LiveCaptures


@dataclass(frozen=True, kw_only=True)
class Live:
    """What to follow and how; all times in seconds.

    `captures` is the directory that grows, `state` one of the job's own: a job that is started again with it goes on
    where it was. `delay` is how long what belongs to an interval may come after it, the difference of the capture
    points' clocks included; `keep` how far back the report goes.
    """

    captures: Path
    state: Path
    interval: float = 1.0
    delay: float = 30.0
    keep: float = 3600.0
    settle: float = SETTLE

    @property
    def frames(self) -> Path:
        """The store of frames."""
        return self.state / "frames"

    def start(
        self, spark: SparkSession, told: Callable[[Result], object], every: float = 10.0, once: bool = False
    ) -> StreamingQuery:
        """Start the stream; `told` gets each new analysis. `once`: take what is there now, and end."""
        spark.dataSource.register(LiveCaptures)
        self.frames.mkdir(parents=True, exist_ok=True)
        source = spark.readStream.format("pcap-live").option("settle", str(self.settle)).load(str(self.captures))
        writer = source.select(*USED).writeStream.option("checkpointLocation", str(self.state / "checkpoint"))
        timed = writer.trigger(once=True) if once else writer.trigger(processingTime=f"{every} seconds")

        def take(batch: DataFrame, number: int) -> None:
            result = self.take(batch, number)
            if result is not None:
                told(result)

        return timed.foreachBatch(take).start()

    def take(self, batch: DataFrame, number: int) -> Result | None:
        """Add a micro-batch and analyse what is final by now; None if that is nothing."""
        marks = self._marks()
        marks = {name: mark for name, mark in marks.items() if int(name) < number}  # a repeated batch counts anew
        final = self.final(max((mark["latest_ns"] for mark in marks.values()), default=0))
        here = self.frames / f"batch={number}"
        batch.where(sql.col("time_ns") >= final).write.mode("overwrite").parquet(str(here))
        times = sql.min("time_ns"), sql.max("time_ns"), sql.count("*")
        stored = batch.sparkSession.read.parquet(str(here)).agg(*times).first()
        assert stored is not None
        late = batch.where(sql.col("time_ns") < final).count() if final else 0
        mark = {"first_ns": stored[0] or 0, "latest_ns": stored[1] or 0, "frames": stored[2], "late": late}
        marks[str(number)] = mark
        latest = max(mark["latest_ns"] for mark in marks.values())
        self._forget(marks, latest)
        self._write(marks)
        return self._analysis(batch.sparkSession, marks, self.final(latest))

    def final(self, latest_ns: int) -> int:
        """The end of the last interval that is final when this is the latest time seen."""
        watermark = max(0, latest_ns - round(self.delay * SECOND))
        return watermark - watermark % round(self.interval * SECOND)

    def _analysis(self, spark: SparkSession, marks: dict[str, dict[str, int]], final: int) -> Result | None:
        filled = {number: mark for number, mark in marks.items() if mark["frames"]}
        if min((mark["first_ns"] for mark in filled.values()), default=final) >= final:
            return None
        paths = [str(self.frames / f"batch={number}") for number in filled]
        analysis = analyze(spark.read.parquet(*paths), self.interval, until_ns=final)
        try:
            result = collect(analysis)
        finally:
            analysis.close()
        result["trace"]["late_frames"] = sum(mark["late"] for mark in marks.values())
        return result

    def _forget(self, marks: dict[str, dict[str, int]], latest: int) -> None:
        """Delete the batches that are older than what is to be kept."""
        oldest = latest - round((self.keep + self.delay) * SECOND)
        for number in [number for number, mark in marks.items() if mark["latest_ns"] < oldest]:
            shutil.rmtree(self.frames / f"batch={number}", ignore_errors=True)
            del marks[number]

    def _marks(self) -> dict[str, dict[str, int]]:
        """What each batch in the store holds, by its number."""
        path = self.state / "batches.json"
        marks: dict[str, dict[str, int]] = json.loads(path.read_text()) if path.exists() else {}
        return marks

    def _write(self, marks: dict[str, dict[str, int]]) -> None:
        path = self.state / "batches.json"
        path.with_suffix(".new").write_text(json.dumps(marks))
        path.with_suffix(".new").replace(path)
