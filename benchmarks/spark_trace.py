"""Benchmark of trace analysis: Spark compared with DuckDB, scapy and tshark.

    python -m benchmarks.spark_trace [--frames 1e6] [--runs 5] [--only spark,duckdb,scapy,tshark] [--directory DIR]

All ways turn the same two files (see `benchmarks.spark_capture`) into loss, resends, duplicates and round-trip
percentiles per stream. Each way must find the known truth of the files. After a warm-up run, where one helps, each way
runs `--runs` times, and the median counts. The first run of Spark, with the start of its session, is printed as "cold".
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from benchmarks.spark_capture import Truth, make
from spark.read import partitions
from spark.schema import arrow_schema, ddl, frames_columns

NAMES = (
    "capture_point", "time_ns", "source", "destination", "kind", "channel", "sequence", "attempt",
    "ack_channel", "ack_next", "ack_held_us",
)  # fmt: skip
PERCENTILES = (0.5, 0.9, 0.99)

QUERY = """
WITH told AS (
    SELECT *, kind = 'data' AS is_data, capture_point = 'left' AS is_left FROM frames WHERE kind IN ('data', 'ack')
), messages AS (
    SELECT CASE WHEN is_data THEN source ELSE destination END AS host,
           CASE WHEN is_data THEN channel ELSE ack_channel END AS stream,
           CASE WHEN is_data THEN sequence ELSE ack_next - 1 END AS place,
           count(CASE WHEN is_data AND is_left THEN 1 END) AS sent,
           count(CASE WHEN is_data AND NOT is_left THEN 1 END) AS arrived,
           bit_or(CASE WHEN is_data AND NOT is_left THEN CAST(1 AS BIGINT) << CAST(attempt AS INT) END) AS attempts,
           min(CASE WHEN is_data AND is_left THEN time_ns END) AS sent_ns,
           min(CASE WHEN NOT is_data AND is_left THEN time_ns - ack_held_us * 1000 END) AS acked_ns
    FROM told GROUP BY 1, 2, 3
)
SELECT host, stream, count(*) AS messages, sum(sent) - count(*) AS resends,
       sum(sent - coalesce(bit_count(attempts), 0)) AS lost,
       sum(arrived - coalesce(bit_count(attempts), 0)) AS duplicates,
       {percentiles}
FROM messages WHERE sent > 0 GROUP BY host, stream
"""
"""SQL in one pass, the same for Spark and DuckDB except for the names of the percentile functions.

An ACK is grouped with the frame it acknowledges. Attempts are counted separately: one lost attempt and another
duplicated attempt must not cancel out. No aggregate is a string, because Spark would sort for it.
"""

Row = tuple[Any, ...]
Way = Callable[[], list[Row]]


def query(percentile: str) -> str:
    """Return the query for an engine with this name for approximate percentiles."""
    return QUERY.format(
        percentiles=", ".join(
            f"{percentile}(CASE WHEN sent = 1 THEN acked_ns - sent_ns END, {p}) AS rtt_{int(p * 100)}"
            for p in PERCENTILES
        )
    )


class SparkWay:
    """Spark's data source and SQL."""

    def __init__(self, directory: Path) -> None:
        from spark.session import session

        self._spark = session("benchmark", progress=False)
        schema = ddl(frames_columns(NAMES))
        self._spark.read.format("pcap").schema(schema).load(str(directory)).createOrReplaceTempView("frames")

    def __call__(self) -> list[Row]:
        """Run the query once."""
        return [tuple(row)[:6] for row in self._spark.sql(query("percentile_approx")).collect()]

    def close(self) -> None:
        """End the session."""
        self._spark.stop()


def duckdb_way(directory: Path) -> Way:
    """Return a way with the same reader and DuckDB in one process."""
    import duckdb

    columns = frames_columns(NAMES)

    def run() -> list[Row]:
        batches = (batch for part in partitions([str(directory)]) for batch in part.batches(columns))
        frames = pa.RecordBatchReader.from_batches(arrow_schema(columns), batches)
        with duckdb.connect() as connection:
            connection.register("frames", frames)
            connection.execute("CREATE TABLE rows AS SELECT * FROM frames")
            rows = connection.execute(query("approx_quantile").replace("FROM frames", "FROM rows")).fetchall()
        return [tuple(row[:6]) for row in rows]

    return run


def summarized(frames: pd.DataFrame) -> list[Row]:
    """Return the result computed with pandas from the columns FIELDS."""
    data = frames[frames.kind == "data"]
    left = data[data.point == "left"].groupby(["source", "channel", "sequence"], as_index=False)
    sent = left.agg(sent=("time_ns", "size"), sent_ns=("time_ns", "min"))
    right = data[data.point == "right"].groupby(["source", "channel", "sequence"], as_index=False)
    right = right.agg(arrived=("time_ns", "size"), attempts=("attempt", "nunique"))
    both = sent.merge(right, how="left").fillna({"arrived": 0, "attempts": 0})
    acks = frames[(frames.kind == "ack") & (frames.point == "left")]
    acked = acks.assign(acked_ns=acks.time_ns - acks.held_us * 1000, sequence=acks.sequence - 1)
    acked = acked.groupby(["destination", "channel", "sequence"], as_index=False).acked_ns.min()
    first = both[both.sent == 1].merge(acked, left_on=["source", "channel", "sequence"],
                                       right_on=["destination", "channel", "sequence"])  # fmt: skip
    (first.acked_ns - first.sent_ns).groupby(first.source).quantile(list(PERCENTILES))
    both["lost"] = both.sent - both.attempts
    both["duplicates"] = both.arrived - both.attempts
    groups = both.groupby(["source", "channel"])
    found = groups.agg(messages=("sent", "size"), sent=("sent", "sum"), lost=("lost", "sum"), dup=("duplicates", "sum"))
    return [
        (source, int(channel), int(row.messages), int(row.sent - row.messages), int(row.lost), int(row.dup))
        for (source, channel), row in found.iterrows()
    ]


FIELDS = ["point", "time_ns", "source", "destination", "kind", "channel", "sequence", "attempt", "held_us"]


def row_of(point: str, time_ns: int, source: Any, destination: Any, payload: bytes) -> tuple[Any, ...]:
    """Return a datagram's row for pandas."""
    header = json.loads(payload[: payload.index(b"\n")])
    entry = header["transport"]
    if entry[0] == "data":
        return point, time_ns, source, destination, "data", entry[6], entry[7], entry[1], 0
    return point, time_ns, source, destination, "ack", entry[3], entry[4], 0, entry[1]


def scapy_way(directory: Path) -> Way:
    """Return a way with scapy's raw reader, Python's JSON and pandas."""
    from scapy.utils import RawPcapReader

    def rows() -> Any:
        for point in ("left", "right"):
            for frame, told in RawPcapReader(str(directory / f"{point}.pcap")):
                source, destination = (socket.inet_ntoa(frame[at : at + 4]) for at in (26, 30))
                yield row_of(point, told.sec * 10**9 + told.usec, source, destination, frame[42:])

    return lambda: summarized(pd.DataFrame(rows(), columns=FIELDS))


def tshark_way(directory: Path) -> Way:
    """Return a way with tshark's fields, Python's JSON and pandas."""
    wanted = ["frame.time_epoch", "ip.src", "ip.dst", "udp.payload"]

    def rows() -> Any:
        for point in ("left", "right"):
            command = ["tshark", "-n", "-r", str(directory / f"{point}.pcap"), "-T", "fields"]
            command += [word for field in wanted for word in ("-e", field)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    time_, source, destination, payload = line.rstrip("\n").split("\t")
                    seconds, _, fraction = time_.partition(".")
                    time_ns = int(seconds) * 10**9 + int(fraction)
                    yield row_of(point, time_ns, source, destination, bytes.fromhex(payload[:400]))

    return lambda: summarized(pd.DataFrame(rows(), columns=FIELDS))


def check(found: list[Row], truth: dict[str, Truth]) -> None:
    """Exit with an error if the result differs from the truth."""
    told = {(one.host, 1, one.messages, one.resends, one.lost, one.duplicates) for one in truth.values()}
    if set(found) != told:
        sys.exit(f"wrong: {sorted(found)} instead of {sorted(told)}")


def measured(name: str, way: Way, truth: dict[str, Truth], runs: int, warm: bool) -> dict[str, Any]:
    """Measure a way `runs` times and print its median. `warm` adds a warm-up run."""
    times = []
    for _ in range(runs + warm):
        began = time.perf_counter()
        found = way()
        times.append(time.perf_counter() - began)
        check(found, truth)
    seconds = times[1:] if warm else times
    median = statistics.median(seconds)
    print(f"{name:10} {median:7.2f} s  ({', '.join(f'{one:.2f}' for one in seconds)})", flush=True)
    return {"way": name, "seconds": median, "runs": seconds, "first": times[0]}


def captured(directory: Path, frames: int) -> dict[str, Truth]:
    """Return the truth of the captures in this directory. Missing captures are made."""
    note = directory / "truth.json"
    if not note.exists():
        directory.mkdir(exist_ok=True)
        note.write_text(json.dumps({name: vars(truth) for name, truth in make(directory, frames).items()}))
    return {name: Truth(**values) for name, values in json.loads(note.read_text()).items()}


WAYS = {"duckdb": duckdb_way, "scapy": scapy_way, "tshark": tshark_way}


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_trace")
    parser.add_argument("--frames", type=float, default=1e6)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="spark,duckdb,scapy,tshark")
    parser.add_argument("--directory", help="keep the captures here, or use those that are here")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    with tempfile.TemporaryDirectory(prefix="glue-spark-trace-") as made:
        directory = Path(arguments.directory or made)
        truth = captured(directory, int(arguments.frames))
        size = sum(path.stat().st_size for path in directory.glob("*.pcap"))
        print(f"{int(arguments.frames):,} frames, {size / 1e6:.0f} MB", flush=True)
        if "spark" in wanted:
            began = time.perf_counter()
            way = SparkWay(directory)
            check(way(), truth)
            print(f"{'spark cold':10} {time.perf_counter() - began:7.2f} s, session included", flush=True)
            measured("spark", way, truth, arguments.runs, warm=True)
            way.close()
        for name, make_way in WAYS.items():
            if name in wanted:
                measured(name, make_way(directory), truth, arguments.runs, warm=name == "duckdb")


if __name__ == "__main__":
    main()
