"""Table `datagrams`: one row for each datagram, with its times at each capture point. All other tables derive from it.

A datagram has one identity at every point: (sender, incarnation, counter). Therefore one grouping by identity, with
conditional aggregates for each capture point and without sorting, finds departures, arrivals, duplicates and losses.
All aggregates have a fixed width, so Spark keeps them in its fast hash table.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from spark.read.entries import ENTRIES

NAME = ("sender", "incarnation", "counter")
KINDS = tuple(kind for layer in ("transport", "discovery") for kind in ENTRIES[layer])

KEPT = ("attempt", "channel", "sequence", "size", "fragment_index")


def datagrams(frames: DataFrame, points: Sequence[str]) -> DataFrame:
    """Return a row for each datagram: `NAME`, fields of the header, and sightings.

    - `kind`: position in `KINDS`, from 1; 0 or null for other kinds.
    - `address`: hash of the destination.
    - `time_i`: time in ns of the first copy at capture point number i, null without one.
    - `copies_i`: number of copies at capture point number i.
    """
    return frames.groupBy(*NAME).agg(
        sql.max(sql.array_position(sql.array(*map(sql.lit, KINDS)), sql.col("kind"))).alias("kind"),
        sql.max(sql.xxhash64("destination", "destination_port")).alias("address"),
        sql.max(sql.col("multicast").cast("int")).alias("multicast"),
        sql.max(sql.ceil(sql.col("fragment_total") / sql.col("fragment_size"))).alias("fragments"),
        *[sql.max(name).alias(name) for name in KEPT],
        *[aggregate for number, point in enumerate(points) for aggregate in _sightings(number, point)],
    )


def _sightings(number: int, point: str) -> list[Column]:
    here = sql.col("capture_point") == point
    return [
        sql.min(sql.when(here, sql.col("time_ns"))).alias(f"time_{number}"),
        sql.sum(sql.when(here, 1).otherwise(0)).alias(f"copies_{number}"),
    ]


def kind_name(code: Column) -> Column:
    """Return the name of a `kind` of `datagrams`."""
    return sql.get(sql.array(*map(sql.lit, KINDS)), (code - 1).cast("int"))


def interval_of(time: Column, interval_ns: int) -> Column:
    """Return the start of the interval of a time. Intervals begin at multiples of their length since 1970."""
    return time - sql.pmod(time, sql.lit(interval_ns))
