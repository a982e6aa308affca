"""`datagrams`: one row for each datagram, with when each capture point saw it; the table that all else is drawn from.

A datagram has one name wherever it is seen: (sender, incarnation, counter). So one grouping by that name, with a
conditional aggregate for each capture point and no sorting, tells who sent it when and where it arrived, was doubled
or never came. All aggregates are of fixed width, which lets Spark keep them in its fast hash table.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

NAME = ("sender", "incarnation", "counter")
DISCOVERY = ("announce", "answer", "probe", "want", "operations", "goodbye")
KINDS = ("data", "group", "open", "skip", "ack", "best", "parity", "mended", *DISCOVERY)

KEPT = ("attempt", "channel", "sequence", "size", "fragment_index")


def datagrams(frames: DataFrame, points: Sequence[str]) -> DataFrame:
    """One row for each datagram: `NAME`, what it is, and for capture point number i `time_i` (ns) and `copies_i`.

    `time_i` is that of the first copy, null if none was captured there; `copies_i` counts all of them. `kind` is a
    place in `KINDS`, from 1; 0 for any other. `address` is a hash of the destination.
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
    """The name of a `kind` of `datagrams`."""
    return sql.get(sql.array(*map(sql.lit, KINDS)), (code - 1).cast("int"))


def interval_of(time: Column, interval_ns: int) -> Column:
    """The start of the interval that a time lies in; intervals begin at multiples of their length since 1970."""
    return time - sql.pmod(time, sql.lit(interval_ns))
