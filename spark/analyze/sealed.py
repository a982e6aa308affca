"""Sums over sealed datagrams that were not opened: what their addresses, times, sizes and numbers tell without the key.

A sender numbers its unicasts and its multicasts, each kind on its own, for all destinations. So a gap in the multicasts
is a loss, of the network or of the capture. A gap in the unicasts may also be what went to others, past this point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from spark.analyze.gather import gather
from spark.analyze.result import EMPTY, MOST_ROWS, Result, Row, files_rows
from spark.analyze.verdict import clock, duration

LIFE = ("capture_point", "network", "life", "kind")
FLOW = (*LIFE, "sender", "destination")
SECOND = 10**9
MOST_FLOWS = 12  # on the terminal
SHOWN = 8  # digits of a life on the terminal


def flows(datagrams: DataFrame) -> DataFrame:
    """Return the sums of the table `sealed` of the data source, by capture point, sender, life, kind and destination.

    - `datagrams`, `bytes`: how many, and their UDP payload, doubled ones among them.
    - `datagrams_per_s`, `bytes_per_s`: means from the first to the last; null for less than two times.
    - `silence_ns`: the longest time between two datagrams.
    - `missing`: numbers directly before those of these datagrams that no datagram of the life had at this point.
    - `doubled`: further copies of a number that was seen at this point.
    """
    numbered = Window.partitionBy(*LIFE).orderBy("number", "time_ns", "file", "offset", "part")
    timed = Window.partitionBy(*FLOW).orderBy("time_ns")
    step = sql.col("number") - sql.lag("number").over(numbered)
    rows = datagrams.select(
        "*",
        sql.concat("source", sql.lit(":"), "source_port").alias("sender"),
        step.alias("step"),
    ).withColumn("destination", sql.concat("destination", sql.lit(":"), "destination_port"))
    silence = sql.col("time_ns") - sql.lag("time_ns").over(timed)
    seconds = (sql.max("time_ns") - sql.min("time_ns")) / SECOND
    rate = sql.when(seconds > 0, (sql.count("*") - 1) / seconds)
    return (
        rows.withColumn("silence", silence)
        .groupBy(*FLOW)
        .agg(
            sql.count("*").alias("datagrams"),
            sql.sum(sql.col("size").cast("bigint")).alias("bytes"),
            sql.min("time_ns").alias("first_ns"),
            sql.max("time_ns").alias("last_ns"),
            sql.round(rate, 1).alias("datagrams_per_s"),
            sql.round(rate * sql.avg("size"), 1).alias("bytes_per_s"),
            sql.max("silence").alias("silence_ns"),
            sql.coalesce(sql.sum(sql.when(sql.col("step") > 1, sql.col("step") - 1)), sql.lit(0)).alias("missing"),
            sql.count_if(sql.col("step") == 0).alias("doubled"),
        )
    )


def add_sealed(result: Result, datagrams: DataFrame, cure: str) -> None:
    """Add the table `sealed` to a result, and `cure`, which tells what would open the datagrams."""
    rows: list[Row] = gather({"sealed": flows(datagrams)}, MOST_ROWS + 1)["sealed"].to_pylist()
    if not rows:
        return
    if len(rows) > MOST_ROWS:
        result["trace"]["left_out"].append("sealed")
    rows.sort(
        key=lambda row: (*(str(row[name]) for name in ("capture_point", "sender", "life", "kind")), -row["bytes"])
    )
    result["sealed"] = rows[:MOST_ROWS]
    result["trace"]["sealed"] = cure


def only_sealed(datagrams: DataFrame, files: pa.Table, cure: str) -> Result:
    """Return the result for captures whose only datagrams of glue are sealed."""
    result: Result = {"trace": {"namesakes": {}, "left_out": []}} | {name: [] for name in EMPTY}
    result["files"] = files_rows(files)
    add_sealed(result, datagrams, cure)
    rows = result["sealed"]
    result["trace"] |= {
        "start_ns": min(row["first_ns"] for row in rows),
        "end_ns": max(row["last_ns"] for row in rows),
        "interval_ns": SECOND,
        "points": sorted({row["capture_point"] for row in rows}),
    }
    return result


def sealed_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the largest flows, as lines for a terminal."""
    if not rows:
        return []
    told = [
        f"{'sealed, at':>12} {'sender':>21} {'life':>8} {'destination':>21} {'datagrams':>10} {'bytes':>13} "
        f"{'bytes/s':>11} {'first':>8} {'last':>8} {'silence':>7} {'missing':>7} {'doubled':>7}"
    ]
    for row in sorted(rows, key=lambda row: -int(row["bytes"]))[:MOST_FLOWS]:
        rate = "" if row["bytes_per_s"] is None else f"{row['bytes_per_s']:,.0f}"
        silence = "" if row["silence_ns"] is None else duration(row["silence_ns"])
        told.append(
            f"{row['capture_point']:>12} {row['sender'] or '':>21} {row['life'][:SHOWN]} "
            f"{row['destination'] or row['kind']:>21} {row['datagrams']:>10,} {row['bytes']:>13,} {rate:>11} "
            f"{clock(row['first_ns'])} {clock(row['last_ns'])} {silence:>7} {row['missing']:>7,} {row['doubled']:>7,}"
        )
    rest = len(rows) - MOST_FLOWS
    return [*told, f"… and {rest:,} more in the report."] if rest > 0 else told
