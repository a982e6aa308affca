"""Round trips: from data to the acknowledgement of it, as each capture point saw them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark.schema import DATA_KINDS

LONGEST_HELD_US = 99_999
"""`held_us` stands for anything longer then (docs/wire-format.md): such an answer tells nothing about the way."""


def round_trips(frames: DataFrame, addresses: DataFrame) -> DataFrame:
    """The samples: (point, owner, owner_incarnation, acker, sent_ns, round_trip_ns).

    A sample is the time from a data frame to the first acknowledgement of which it is the newest frame, less the time
    that the receiver says it held that back. By Karn's rule (Karn and Partridge, SIGCOMM 1987) a frame that was sent
    more than once gives none, as it is unknown which attempt was answered. At the sender's home that is the round trip
    of RFC 2681; elsewhere the part of it beyond the point. A resend to one member of a group counts for all of them.
    """
    key = ["point", "owner", "owner_incarnation", "channel", "sequence"]
    data = (
        frames.where(sql.col("kind").isin(*DATA_KINDS))
        .groupBy(
            sql.col("capture_point").alias("point"),
            sql.col("sender").alias("owner"),
            sql.col("incarnation").alias("owner_incarnation"),
            "channel",
            "sequence",
        )
        .agg(sql.min("time_ns").alias("sent_ns"), sql.max("attempt").alias("attempts"))
        .where("attempts = 0")
    )
    way = sql.col("acknowledged_ns") - sql.col("sent_ns") - sql.col("held_us") * 1000
    return (
        data.join(_acknowledgements(frames, addresses), key)
        .where("acknowledged_ns > sent_ns")
        .select(
            "point", "owner", "owner_incarnation", "acker", "sent_ns",
            sql.greatest(way, sql.lit(1)).alias("round_trip_ns"),
        )
    )  # fmt: skip


def _acknowledgements(frames: DataFrame, addresses: DataFrame) -> DataFrame:
    """For each newest acknowledged frame and who acknowledged it, the first time that was seen."""
    newest = sql.coalesce(sql.get("ack_ranges", sql.size("ack_ranges") - 1), sql.col("ack_next")) - 1
    acks = frames.where(f"ack_channel > 0 and ack_held_us < {LONGEST_HELD_US}").select(
        sql.col("capture_point").alias("point"),
        sql.xxhash64("destination", "destination_port").alias("address"),
        sql.col("sender").alias("acker"),
        sql.col("ack_channel").alias("channel"),
        newest.alias("sequence"),
        "time_ns",
        "ack_held_us",
    )
    of_owner = acks.join(sql.broadcast(addresses), ["point", "address"]).where(
        "time_ns >= begins and time_ns < ends and sequence >= 0"
    )
    return of_owner.groupBy("point", "owner", "owner_incarnation", "channel", "sequence", "acker").agg(
        sql.min("time_ns").alias("acknowledged_ns"),
        sql.min_by("ack_held_us", "time_ns").alias("held_us"),  # the least of pairs would make Spark sort
    )
