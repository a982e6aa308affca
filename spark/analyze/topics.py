"""Published messages and bytes by topic, and the catch-up of late joiners with retained values."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark.analyze.datagrams import interval_of

REPLAYED = 2  # `retain` of a value sent to a late joiner (docs/wire-format.md)
CATCH_UP_NS = 10 * 10**9
"""Limit in ns after a newcomer's first datagram. Later replays answer a later subscription."""


def _bundles(frames: DataFrame) -> DataFrame:
    """Return groups of messages, one row for each."""
    columns = ["sender", "incarnation", "capture_point", "attempt", "time_ns", "destination", "destination_port"]
    return frames.where("topics is not null").select(*columns, sql.inline("topics"))


def topics(frames: DataFrame, vantage: DataFrame, interval_ns: int) -> DataFrame:
    """Return messages, bytes of payload, and carrying groups (`bundles`), per publisher, topic and interval.

    `vantage` (sender, incarnation, point) tells at which point each publisher is counted. A message counts once for any
    number of transmissions and receivers, in the interval of its first capture. A message in several fragments counts
    when the index of its bundle is complete.
    """
    bundles = _bundles(frames.join(sql.broadcast(vantage), ["sender", "incarnation"]).where("capture_point = point"))
    once = (
        bundles.where(f"retain <> {REPLAYED}")
        .groupBy("sender", "incarnation", "topic", "sequence")
        .agg(sql.max("count").alias("count"), sql.max("bytes").alias("bytes"), sql.min("time_ns").alias("time_ns"))
        .withColumn("interval", interval_of(sql.col("time_ns"), interval_ns))
    )
    return once.groupBy("sender", "incarnation", "topic", "interval").agg(
        sql.sum("count").alias("messages"),
        sql.sum("bytes").alias("bytes"),
        sql.count("*").alias("bundles"),
        sql.max("sequence").alias("latest_sequence"),
    )


def late_joiners(frames: DataFrame, vantage: DataFrame, addresses: DataFrame, arrivals: DataFrame) -> DataFrame:
    """Return how long newcomers took to receive the retained values, by newcomer and publisher.

    `arrivals` (point, owner, owner_incarnation, appeared_ns) tells when each life was first seen at each point.

    Columns: (sender, newcomer, newcomer_incarnation, values, first_ns, caught_up_ns). `caught_up_ns` is the time from
    the newcomer's first datagram to the last transmission of a value to it, with resends, both seen at the publisher's
    point. Of a value in fragments, the first fragment counts. `values` counts each value once.
    """
    here = frames.join(sql.broadcast(vantage), ["sender", "incarnation"]).where("capture_point = point")
    replays = (
        _bundles(here)
        .where(f"retain = {REPLAYED}")
        .withColumn("address", sql.xxhash64("destination", "destination_port"))
        .withColumnRenamed("capture_point", "point")
        .join(sql.broadcast(addresses), ["point", "address"])
        .where("time_ns >= begins and time_ns < ends")
    )
    return (
        replays.join(sql.broadcast(arrivals), ["point", "owner", "owner_incarnation"])
        .where(f"time_ns - appeared_ns between 0 and {CATCH_UP_NS}")
        .groupBy(
            "sender",
            "incarnation",
            sql.col("owner").alias("newcomer"),
            sql.col("owner_incarnation").alias("newcomer_incarnation"),
        )
        .agg(
            sql.count_distinct("topic", "sequence").alias("values"),
            sql.min("appeared_ns").alias("first_ns"),
            (sql.max("time_ns") - sql.min("appeared_ns")).alias("caught_up_ns"),
        )
    )
