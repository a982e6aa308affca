"""The stream over a growing directory tells what the batch tells, also when it is ended and started again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.analyze.job import analyze
from spark.analyze.result import Result, collect
from spark.analyze.verdict import verdict
from spark.convert import frames
from spark.live.job import Live
from tests.spark.scenario import Scenario
from tests.spark.truth import pcapng

NS = 10**9


def rotated(truth: Scenario, directory: Path, first: int, last: int) -> None:
    """What each point captured from then until then (seconds of its clock since the first frame of all), as files."""
    zero = min(frame.time for captured in truth.taps.captured.values() for frame in captured)
    for point, captured in truth.taps.captured.items():
        part = [frame for frame in sorted(captured) if first * NS <= frame.time - zero < last * NS]
        if part:
            (directory / f"{point}-{first:03}.pcapng").write_bytes(pcapng(point, part))


def damage(captures: Path) -> None:
    """One file is cut off, in one bytes are missing, and one is no capture at all."""
    cut, hurt = captures / "a-016.pcapng", captures / "b-016.pcapng"
    cut.write_bytes(cut.read_bytes()[:-5])
    data = hurt.read_bytes()
    hurt.write_bytes(data[: len(data) // 2] + data[len(data) // 2 + 7 :])
    (captures / "notes.pcap").write_bytes(b"this is no capture")


def rounded(value: Any) -> Any:
    """Without the digits that depend on the order of additions: delays between clocks are good for 100 ns."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return pytest.approx(value, abs=100, rel=1e-9) if isinstance(value, float) else value


def test_a_stream_that_was_interrupted_tells_what_a_batch_over_all_tells(spark: SparkSession, tmp_path: Path) -> None:
    truth = Scenario(seed=5)
    captures, told = tmp_path / "captures", list[Result]()
    captures.mkdir()

    def live(once: bool = False) -> Live:
        """Another process, as far as the stream can tell: all it has is its state."""
        return Live(captures=captures, state=tmp_path / "state", told=told.append, interval=1.0, delay=8.0, settle=0.0,
                    every=0.1, once=once)  # fmt: skip

    def go_on() -> None:
        query = live().start(spark)
        query.processAllAvailable()
        query.stop()

    def batch_until(end_ns: int) -> Result:
        analysis = analyze(frames(spark, [str(captures)], None), 1.0, until_ns=end_ns)
        try:
            return collect(analysis, frames(spark, [str(captures)], None, "files"))
        finally:
            analysis.close()

    rotated(truth, captures, 0, 7)
    go_on()
    assert told == []  # nothing is final yet
    live(once=True).finish(spark)
    everything = told.pop()  # unless nothing more is waited for
    assert sum(row["sent"] for row in everything["pairs"] if row["receiver"] == "b") > 500
    rotated(truth, captures, 7, 16)
    rotated(truth, captures, 16, 40)
    damage(captures)
    final = live().final(max(frame.time for captured in truth.taps.captured.values() for frame in captured))
    with ThreadPoolExecutor(1) as beside:  # each alone leaves cores idle while it plans
        waiting = beside.submit(batch_until, final)
        go_on()
        batch = waiting.result()
    (result,) = told
    assert result["trace"].pop("late_frames") == 0
    assert sum(row["lost"] for row in result["pairs"]) > 100
    faults = {Path(row["file"]).name: row["fault"] for row in result["files"] if row["fault"]}
    assert faults.keys() == {"a-016.pcapng", "b-016.pcapng", "notes.pcap"}
    assert [text for text in (finding.text for finding in verdict(result)) if "is damaged" in text][2:]
    for name in batch:
        if name not in ("latencies", "latencies_over_time", "histograms"):
            assert rounded(batch[name]) == result[name], name
    for name in (
        "latencies",
        "latencies_over_time",
        "histograms",
    ):  # a delay may fall on either side of a bucket's edge
        assert len(batch[name]) == pytest.approx(len(result[name]), rel=0.02)
        trips = [[row for row in found[name] if row["measure"] == "round trip"] for found in (batch, result)]
        assert rounded(trips[0]) == trips[1]
