"""Presence of endpoints: missing announcements, silences that made others give up a peer, and restarts.

Every capture point has its own view. Ordering all datagrams would sort the whole trace. Therefore only the first and
the last datagram of each quarter of a second count (`places.sightings`). A longer silence shows between two of these.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

LEASE = 5  # announced intervals (docs/wire-format.md)
LATE = 1.5  # announced intervals: announcements vary by a tenth, so the next one was lost or late
DEFAULT_INTERVAL_MS = 1000


def silences(seen: DataFrame) -> DataFrame:
    """Return silences: times without any datagram of a life at a capture point, longer than 1.5 announced intervals.

    `seen` is the table `places.sightings`. Silences shorter than a sighting's time are not found.

    Columns: (point, sender, incarnation, from_ns, to_ns, interval_ms, expired). `expired` tells that the silence
    exceeded the lease of five intervals, so a peer at this point has given up a life that came back. That is a false
    expiry, except at the sender's own point.
    """
    key = ["point", "sender", "incarnation"]
    before = Window.partitionBy(*key).orderBy("first", "last").rowsBetween(Window.unboundedPreceding, -1)
    bins = (
        seen.withColumn("from_ns", sql.max("last").over(before))
        .withColumn("told", sql.max("interval_ms").over(Window.partitionBy(*key)))
        .withColumn("interval_ms", sql.coalesce("told", sql.lit(DEFAULT_INTERVAL_MS)))
        .withColumn("silent_ms", (sql.col("first") - sql.col("from_ns")) / 1e6)
    )
    return bins.where(sql.col("silent_ms") > LATE * sql.col("interval_ms")).select(
        *key,
        "from_ns",
        sql.col("first").alias("to_ns"),
        "interval_ms",
        (sql.col("silent_ms") > LEASE * sql.col("interval_ms")).alias("expired"),
    )


def announcements(frames: DataFrame) -> DataFrame:
    """Return announcements per life and capture point.

    Columns: (point, sender, incarnation, announcements, longest_gap_ns, late, goodbyes). `late` counts gaps of more
    than 1.5 announced intervals, in which announcements were lost or not sent.
    """
    key = ["capture_point", "sender", "incarnation"]
    gap = sql.col("time_ns") - sql.lag("time_ns").over(Window.partitionBy(*key, "kind").orderBy("time_ns"))
    told = frames.where(sql.col("kind").isin("announce", "goodbye")).select(*key, "kind", "interval_ms", "time_ns")
    is_late = (sql.col("kind") == "announce") & (sql.col("gap") > LATE * 1e6 * sql.col("interval_ms"))
    return (
        told.withColumn("gap", gap)
        .groupBy(*key)
        .agg(
            sql.count_if(sql.col("kind") == "announce").alias("announcements"),
            sql.max(sql.when(sql.col("kind") == "announce", sql.col("gap"))).alias("longest_gap_ns"),
            sql.count_if(is_late).alias("late"),
            sql.count_if(sql.col("kind") == "goodbye").alias("goodbyes"),
        )
        .withColumnRenamed("capture_point", "point")
    )
