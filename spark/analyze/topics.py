"""What was published: messages and bytes by topic, and how late joiners caught up with the retained values."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark.analyze.datagrams import interval_of

REPLAYED = 2  # `retain` of a value that is told to a late joiner (docs/wire-format.md)
CATCH_UP_NS = 10 * 10**9
"""Replays later than this after a newcomer's first datagram answer a later subscription."""


def _bundles(frames: DataFrame) -> DataFrame:
    """Groups of messages, one row each."""
    columns = ["sender", "incarnation", "capture_point", "attempt", "time_ns", "destination", "destination_port"]
    return frames.where("topics is not null").select(*columns, sql.inline("topics"))


def topics(frames: DataFrame, vantage: DataFrame, interval_ns: int) -> DataFrame:
    """Per publisher, topic and interval: messages, bytes of payload, rows of messages (`bundles`) that carried them.

    `vantage` (sender, incarnation, point) says at which point each publisher is counted. A message counts once, however
    often it was sent and to however many, for the interval in which that was first captured. One in several fragments
    is captured where the index of its bundle is whole.
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
    """How long newcomers took to get the retained values, by newcomer and publisher.

    `arrivals` (point, owner, owner_incarnation, appeared_ns) says when each life was first seen at each point.
    (sender, newcomer, newcomer_incarnation, values, first_ns, caught_up_ns): `caught_up_ns` from the newcomer's first
    datagram to the last time that a value was told to it, resends included, both as seen where the publisher is (of a
    value in fragments, the first of them). `values` counts each topic's once.
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
