"""What a capture missed: frames that were acknowledged, so they arrived, though the receiver's capture never saw them.

A capture that is overrun looks like a network that loses. The acknowledgements in the trace tell them apart: `next` of
any of them says that all frames of the channel below it have arrived. Ranges say more, but only of what lies above
`next` at the end of the trace, and would have to be kept for each frame. Where a sender gives frames up (`skip`), a
receiver acknowledges what it was never sent; nothing is claimed about such channels. In a channel with parity, what was
acknowledged although no transmission of it arrived counts as mended by parity: what the capture missed is not told
apart there.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

CHANNEL = ("sender", "incarnation", "channel")


def acknowledged(frames: DataFrame, addresses: DataFrame, lives: DataFrame) -> DataFrame:
    """How far each channel was acknowledged from where: (sender, incarnation, channel, receiver, upto, parity).

    All frames of the channel below `upto` have arrived at the capture point number `receiver`, the home of whoever
    acknowledged; with `parity`, some may have been mended instead. Some rows for each stream; small enough to be sent
    everywhere.
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
    """Frames of streams (`counts.troubled`) that were acknowledged although none of their transmissions was captured.

    `mended` tells so of those in channels with parity, `unseen` of the others.
    """
    missed = (sql.col("arrivals") == 0) & (sql.col("lost") > 0) & (sql.col("sequence") < sql.col("upto"))
    joined = frames.join(sql.broadcast(proven), [*CHANNEL, "receiver"], "left")
    return (
        joined.withColumn("unseen", sql.coalesce(missed & ~sql.col("parity"), sql.lit(False)))
        .withColumn("mended", sql.coalesce(missed & sql.col("parity"), sql.lit(False)))
        .drop("upto", "parity")
    )
