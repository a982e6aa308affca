"""Frames missed by the capture: acknowledged frames, which have therefore arrived, without a captured arrival.

An overloaded capture looks like a lossy network. Acknowledgements in the trace show the difference: all frames of a
channel below `next` have arrived. Ranges tell more, but only about frames above `next` at the end of the trace, and
would have to be kept for each frame. When a sender gives up frames (`skip`), a receiver acknowledges frames that were
never sent. Such channels are left out. In a channel with parity, an acknowledged frame without a captured arrival
counts as mended by parity. Frames that the capture missed are not distinguished there.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

CHANNEL = ("sender", "incarnation", "channel")


def acknowledged(frames: DataFrame, addresses: DataFrame, lives: DataFrame) -> DataFrame:
    """Return how far each channel was acknowledged: (sender, incarnation, channel, receiver, upto, parity).

    All frames of the channel below `upto` have arrived at capture point number `receiver`, the home of the
    acknowledging endpoint. With `parity`, some may have been mended instead. The table has a few rows for each stream,
    and is small enough to broadcast.
    """
    told = (
        frames.where("ack_channel > 0")
        .groupBy(
            sql.col("capture_point").alias("point"),
            sql.xxhash64("destination", "destination_port").alias("address"),
            "sender",
            "incarnation",
            sql.col("ack_channel").alias("channel"),
        )
        .agg(sql.max("ack_next").alias("upto"), sql.max("time_ns").alias("time_ns"))
    )
    owned = addresses.select("point", "address", "begins", "ends", "owner", "owner_incarnation")
    proven = (
        told.join(sql.broadcast(lives.withColumnRenamed("home", "receiver")), ["sender", "incarnation"])
        .join(sql.broadcast(owned), ["point", "address"])
        .where("time_ns >= begins and time_ns < ends and receiver is not null")
        .groupBy(
            sql.col("owner").alias("sender"), sql.col("owner_incarnation").alias("incarnation"), "channel", "receiver"
        )
        .agg(sql.max("upto").alias("upto"))
    )
    has = frames.where(sql.col("kind").isin("parity", "skip")).groupBy(*CHANNEL)
    doubts = has.agg(sql.bool_or(sql.col("kind") == "skip").alias("skip"))
    return (
        proven.join(sql.broadcast(doubts), list(CHANNEL), "left")
        .where("not coalesce(skip, false)")
        .withColumn("parity", sql.col("skip").isNotNull())
        .drop("skip")
    )


def with_unseen(frames: DataFrame, proven: DataFrame) -> DataFrame:
    """Mark the frames (`counts.troubled`) that were acknowledged although no transmission was captured on arrival.

    In channels with parity the mark is `mended`, in others `unseen`.
    """
    missed = (sql.col("arrivals") == 0) & (sql.col("lost") > 0) & (sql.col("sequence") < sql.col("upto"))
    joined = frames.join(sql.broadcast(proven), [*CHANNEL, "receiver"], "left")
    return (
        joined.withColumn("unseen", sql.coalesce(missed & ~sql.col("parity"), sql.lit(False)))
        .withColumn("mended", sql.coalesce(missed & sql.col("parity"), sql.lit(False)))
        .drop("upto", "parity")
    )
