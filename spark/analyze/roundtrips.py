"""Round trips from data to its acknowledgement, as each capture point saw them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark.schema import DATA_KINDS

LONGEST_HELD_US = 99_999
"""Largest `held_us`, which stands for all longer times (docs/wire-format.md). Such an answer tells no round trip."""


MOST_RANGES = 100
"""Most ranges in an acknowledgement, the lowest ones (docs/wire-format.md). With as many, the newest frame may be
missing.
"""


def round_trips(frames: DataFrame, addresses: DataFrame) -> DataFrame:
    """Return samples of round trips: (point, owner, owner_incarnation, acker, sent_ns, round_trip_ns).

    A sample is the time from a data frame to the first acknowledgement with this frame as its newest, less the time
    that the receiver reports as held. By Karn's rule (Karn and Partridge, SIGCOMM 1987) a frame that was resent to this
    receiver before gives no sample, because the answered attempt is unknown. A resend to another member of a group does
    not matter. At the sender's home a sample is the round trip of RFC 2681. Elsewhere it is the part beyond the point.
    A sample is negative if the reported held time exceeds the total, because a receiver's turn begins before it reads
    the arrived data.
    """
    key = ["point", "owner", "owner_incarnation", "channel", "sequence"]
    answered = _transmissions(frames).join(_acknowledgements(frames, addresses), key)
    is_before = sql.col("acknowledged_ns") > sql.col("alone_ns")
    to_it = sql.col("acker_address").isin(sql.col("one"), sql.col("another")) | (sql.col("alone") > 2)
    again = (sql.col("acknowledged_ns") > sql.col("again_ns")) | (is_before & to_it)
    way = sql.col("acknowledged_ns") - sql.col("sent_ns") - sql.col("held_us") * 1000
    return answered.where(
        (sql.col("acknowledged_ns") > sql.col("sent_ns")) & ~sql.coalesce(again, sql.lit(False))
    ).select("point", "owner", "owner_incarnation", "acker", "sent_ns", way.alias("round_trip_ns"))


def _transmissions(frames: DataFrame) -> DataFrame:
    """Return when each data frame was first sent, and resent to all (`again_ns`) or to single receivers (`alone_ns`).

    `alone` counts the latter, and `one` and `another` are two of their addresses. If there are more resends, all
    receivers are assumed. This keeps all columns at a fixed width.
    """
    is_resend = sql.col("attempt") > 0
    is_alone = is_resend & ~sql.coalesce(sql.col("multicast"), sql.lit(True))
    to, time = sql.xxhash64("destination", "destination_port"), sql.col("time_ns")
    return (
        frames.where(sql.col("kind").isin(*DATA_KINDS))
        .groupBy(
            sql.col("capture_point").alias("point"),
            sql.col("sender").alias("owner"),
            sql.col("incarnation").alias("owner_incarnation"),
            "channel",
            "sequence",
        )
        .agg(
            sql.min(sql.when(~is_resend, time)).alias("sent_ns"),
            sql.min(sql.when(is_resend & ~is_alone, time)).alias("again_ns"),
            sql.min(sql.when(is_alone, time)).alias("alone_ns"),
            sql.count_if(is_alone).alias("alone"),
            sql.min(sql.when(is_alone, to)).alias("one"),
            sql.max(sql.when(is_alone, to)).alias("another"),
        )
    )


def _acknowledgements(frames: DataFrame, addresses: DataFrame) -> DataFrame:
    """Return when the acknowledgement of each newest frame was first seen, for each acknowledging endpoint."""
    newest = sql.coalesce(sql.get("ack_ranges", sql.size("ack_ranges") - 1), sql.col("ack_next")) - 1
    is_told = f"ack_channel > 0 and ack_held_us < {LONGEST_HELD_US}"
    is_whole = f"coalesce(size(ack_ranges), 0) < {2 * MOST_RANGES}"
    acks = (
        frames.where(is_told)
        .where(is_whole)
        .select(
            sql.col("capture_point").alias("point"),
            sql.xxhash64("destination", "destination_port").alias("address"),
            sql.xxhash64("source", "source_port").alias("from"),
            sql.col("sender").alias("acker"),
            sql.col("ack_channel").alias("channel"),
            newest.alias("sequence"),
            "time_ns",
            "ack_held_us",
        )
    )
    of_owner = acks.join(sql.broadcast(addresses), ["point", "address"]).where(
        "time_ns >= begins and time_ns < ends and sequence >= 0"
    )
    return of_owner.groupBy("point", "owner", "owner_incarnation", "channel", "sequence", "acker").agg(
        sql.min("time_ns").alias("acknowledged_ns"),
        sql.min_by("ack_held_us", "time_ns").alias("held_us"),  # the least of pairs would make Spark sort
        sql.max("from").alias("acker_address"),
    )
