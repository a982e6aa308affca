"""Sums and percentiles over deliveries. All can be combined over intervals, files and micro-batches."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from spark.measures.sketch import LOG_GAMMA
from spark.schema import DATA_KINDS

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
FRAME = ("sender", "incarnation", "channel", "sequence")
"""Identity of a frame of a stream, for all attempts and paths."""


def tables(rows: DataFrame, troubled: DataFrame, whole: DataFrame, buckets: DataFrame) -> dict[str, DataFrame]:
    """Return the tables derived from deliveries, `troubled`, `reassemblies` (`whole`) and `histogram` (`buckets`)."""
    pair = ["measure", "sender", "receiver"]
    return {
        "pairs": pairs(rows),
        "streams": streams(rows, troubled),
        "repairs": repairs(troubled),
        "reassemblies": whole.groupBy("sender", "incarnation", "receiver", "interval").agg(
            sql.count("*").alias("messages"), sql.count("reassembly_ns").alias("complete")
        ),
        "histograms": buckets.where("bucket is not null").groupBy(*pair, "bucket").agg(sql.sum("count").alias("count")),
        "latencies": percentiles(buckets, pair),
        "latencies_over_time": percentiles(buckets, [*pair, "interval"]),
    }


def counted() -> list[Column]:
    """Return the sums over deliveries in all tables of losses.

    - `sent`, `arrived`: datagrams with a known fate, and the part that arrived.
    - `lost`: datagrams that left and did not arrive (one-way loss, RFC 7680). A resend is another datagram.
    - `duplicates`: further copies of arrived datagrams (RFC 5560).
    - `later_attempts`: datagrams with an attempt above 0. These are resends, and frames of a group that a member first
      gets by unicast.
    - `unobserved`: datagrams with an unknown fate, because the sender or the receiver had no capture at the time.
    - `seen`: datagrams captured at the receiver.
    - `bytes`: UDP payload of all datagrams.
    """
    known = sql.col("lost").isNotNull()
    return [
        sql.count_if(known).alias("sent"),
        sql.count_if(known & ~sql.col("lost")).alias("arrived"),
        sql.count_if("lost").alias("lost"),
        sql.coalesce(sql.sum(sql.greatest(sql.col("copies") - 1, sql.lit(0))), sql.lit(0)).alias("duplicates"),
        sql.count_if(sql.col("attempt") > 0).alias("later_attempts"),
        sql.count_if(~known).alias("unobserved"),
        sql.count_if(sql.col("copies") > 0).alias("seen"),
        sql.sum(sql.col("size").cast("bigint")).alias("bytes"),
    ]


def pairs(rows: DataFrame) -> DataFrame:
    """Return `counted` per sender, receiver and interval."""
    return rows.groupBy("sender", "incarnation", "receiver", "interval").agg(*counted())


def streams(rows: DataFrame, frames: DataFrame) -> DataFrame:
    """Return `counted` per stream (a channel of a sender's life) and receiver, with the first and last time.

    `channel` is null for acknowledgements, discovery and best effort. `unseen` counts frames of `lost` datagrams that
    were acknowledged nevertheless. The capture, not the network, lost at least as many.
    """
    at = sql.coalesce("sent_ns", "arrived_ns")
    times = [sql.min(at).alias("first_ns"), sql.max(at).alias("last_ns")]
    kind = sql.when(sql.col("kind").isin(*DATA_KINDS), "data").otherwise(sql.col("kind")).alias("kind")
    told = rows.groupBy("sender", "incarnation", "receiver", kind, "channel").agg(*counted(), *times)
    key = ["sender", "incarnation", "receiver", "kind", "channel"]
    missed = frames.where("unseen").groupBy(*key[:3], sql.lit("data").alias("kind"), "channel")
    return told.join(missed.agg(sql.count("*").alias("unseen")), key, "left").fillna(0, ["unseen"])


def troubled(rows: DataFrame) -> DataFrame:
    """Return the frames of streams that were sent more than once to a receiver, or never arrived.

    - `arrivals`, `lost`: arrived transmissions, and lost transmissions.
    - `resends`: transmissions after the first. Without a capture at the sender, the number of the latest attempt.
    - `spare`: arrived resends of a frame with another arrival; null if unobserved.
    - `missed`: earlier attempts that must have been lost, if the sender has no capture; else 0. For a frame of a group
      the number is at most 1, because its resends may have been for other members.
    - `repair_ns`: time from the first transmission to the first arrival, by the sender's clock. Null if the first
      attempt arrived, or the time is unknown.
    - `interval`: the interval of the first transmission seen.
    """
    arrival = sql.min(sql.when(sql.col("under_way_ns").isNotNull(), sql.col("sent_ns") + sql.col("under_way_ns")))
    missed = sql.when(sql.col("group"), (sql.col("first_attempt") > 0).cast("bigint")).otherwise(
        sql.greatest(sql.col("attempts") + 1 - sql.col("transmissions"), sql.lit(0))
    )
    return (
        rows.where(sql.col("kind").isin(*DATA_KINDS))
        .groupBy(*FRAME, "receiver")
        .agg(
            sql.count("*").alias("transmissions"),
            sql.max("attempt").alias("attempts"),
            sql.min("attempt").alias("first_attempt"),
            sql.bool_or(sql.col("kind") == "group").alias("group"),
            sql.min("sent_ns").alias("first_ns"),
            sql.count_if(sql.col("copies") > 0).alias("arrivals"),
            sql.count_if("lost").alias("lost"),
            sql.min(sql.when(sql.col("copies") > 0, sql.col("attempt"))).alias("arrived_attempt"),
            arrival.alias("arrival_ns"),
            sql.min("interval").alias("interval"),
        )
        .where("attempts > 0 and (transmissions > 1 or first_ns is null) or arrivals = 0 and lost > 0")
        .select(
            *FRAME, "receiver", "arrivals", "lost", "interval",
            sql.when(sql.col("first_ns").isNull(), sql.col("attempts"))
            .otherwise(sql.col("transmissions") - 1).alias("resends"),
            sql.when(sql.col("receiver").isNotNull(), sql.greatest(sql.col("arrivals") - 1, sql.lit(0))).alias("spare"),
            sql.when(sql.col("first_ns").isNull(), missed).otherwise(0).alias("missed"),
            sql.when(sql.col("arrived_attempt") > 0, sql.col("arrival_ns") - sql.col("first_ns")).alias("repair_ns"),
        )
    )  # fmt: skip


def repairs(frames: DataFrame) -> DataFrame:
    """Return resent and mended frames, per sender, receiver and interval.

    - `frames`, `resends`: resent frames, and their resends.
    - `spare`: resends of frames that had arrived. The acknowledgement was lost or late.
    - `missed`: transmissions that must have been lost, for senders without a capture.
    - `repaired`: frames with a lost first attempt and an arrived resend.
    - `mended`: frames restored by parity, also if they were resent.
    - `unrepaired`: lost frames without any arrival or acknowledgement in the trace.
    """
    was_resent = sql.col("resends") > 0
    return (
        frames.where(was_resent | sql.col("mended"))
        .groupBy("sender", "incarnation", "receiver", "interval")
        .agg(
            sql.count_if(was_resent).alias("frames"),
            sql.sum("resends").alias("resends"),
            sql.sum("spare").alias("spare"),
            sql.sum("missed").alias("missed"),
            sql.count(sql.when(sql.col("lost") > 0, sql.col("repair_ns"))).alias("repaired"),
            sql.count_if("mended").alias("mended"),
            sql.count_if(
                (sql.col("lost") > 0) & (sql.col("arrivals") == 0) & ~sql.col("unseen") & ~sql.col("mended")
            ).alias("unrepaired"),
        )
    )


def reassemblies(rows: DataFrame) -> DataFrame:
    """Return messages in fragments per receiver, with the time from the first to the last needed fragment.

    A message is identified by its channel and the sequence of its first fragment. `reassembly_ns` is null unless all
    fragments arrived. Only the first arrival of a fragment counts, for any attempt.
    """
    parts = rows.where("fragment_index is not null and receiver is not null and arrived_ns is not null")
    first = parts.withColumn("message", sql.col("sequence") - sql.col("fragment_index"))
    key = ["sender", "incarnation", "kind", "channel", "message", "receiver"]
    each = first.groupBy(*key, "fragment_index").agg(
        sql.min("arrived_ns").alias("arrived_ns"),
        sql.max("fragments").alias("fragments"),
        sql.min("interval").alias("interval"),
    )
    whole = each.groupBy(*key).agg(
        sql.count("*").alias("had"),
        sql.max("fragments").alias("fragments"),
        (sql.max("arrived_ns") - sql.min("arrived_ns")).alias("took_ns"),
        sql.min("interval").alias("interval"),
    )
    complete = sql.col("had") == sql.col("fragments")
    return whole.select(*key, "interval", "fragments", sql.when(complete, sql.col("took_ns")).alias("reassembly_ns"))


def histogram(samples: DataFrame) -> DataFrame:
    """Count samples (measure, sender, receiver, interval, value_ns) in the buckets of `spark.measures.sketch`.

    Negative values, impossible as times, are counted in the bucket null.
    """
    bucket = sql.ceil(sql.log(sql.greatest(sql.col("value_ns"), sql.lit(1))) / LOG_GAMMA).cast("int")
    key = ("measure", "sender", "receiver", "interval")
    return samples.groupBy(*key, sql.when(sql.col("value_ns") >= 0, bucket).alias("bucket")).agg(
        sql.count("*").alias("count"), sql.min("value_ns").alias("least_ns"), sql.max("value_ns").alias("most_ns")
    )


def percentiles(buckets: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return percentiles of a histogram by `key`, in nanoseconds, with exact `count`, `least_ns` and `most_ns`.

    `negative` counts the values below zero. The other columns exclude these values. A key with negative values only has
    no row.
    """
    merged = buckets.groupBy(*key, "bucket").agg(
        sql.sum("count").alias("all"), sql.min("least_ns").alias("least_ns"), sql.max("most_ns").alias("most_ns")
    )
    is_time = sql.col("bucket").isNotNull()
    counted = merged.withColumn("count", sql.when(is_time, sql.col("all")).otherwise(0))
    upto = sql.sum("count").over(Window.partitionBy(*key).orderBy("bucket"))
    total = sql.sum("count").over(Window.partitionBy(*key))
    ranked = counted.withColumn("upto", upto).withColumn("total", total)
    middle = 2 / (1 + sql.exp(sql.lit(LOG_GAMMA)))
    return (
        ranked.groupBy(*key)
        .agg(
            sql.sum("count").alias("count"),
            sql.sum(sql.col("all") - sql.col("count")).alias("negative"),
            sql.min(sql.when(is_time, sql.col("least_ns"))).alias("least_ns"),
            *[
                (middle * sql.exp(LOG_GAMMA * sql.min(sql.when(reached(share), sql.col("bucket"))))).alias(f"{name}_ns")
                for name, share in SHARES.items()
            ],
            sql.max(sql.when(is_time, sql.col("most_ns"))).alias("most_ns"),
        )
        .where("count > 0")
    )


def reached(share: float) -> Column:
    """Return whether buckets up to this one contain at least this share of all values."""
    return sql.col("upto") >= sql.greatest(sql.lit(1), sql.ceil(sql.lit(share) * sql.col("total") - 1e-9))
