"""Table `deliveries`: a row for each datagram and each capture point expected to receive it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark.analyze.datagrams import NAME, interval_of, kind_name

COLUMNS = (
    *NAME, "kind", "attempt", "channel", "sequence", "size", "fragment_index", "fragments", "multicast", "home",
    "receiver", "sent_ns", "arrived_ns", "copies",
)  # fmt: skip


def deliveries(datagrams: DataFrame, lives: DataFrame, addresses: DataFrame, points: Sequence[str]) -> DataFrame:
    """Return the expected and actual receptions of each datagram.

    - `home`: number of the capture point at the sender, null if unknown.
    - `sent_ns`: departure by the clock of `home`, null if not captured there.
    - `receiver`: number of the receiving point. A multicast has a row for every other point. A unicast has one row, for
      the home of its endpoint. The number is null if this home is unknown, or if the sender has the same home: local
      traffic does not cross the network.
    - `arrived_ns`: first arrival by the receiver's clock, null without one.
    - `copies`: number of arrivals.
    """
    times = sql.array(*[f"time_{number}" for number in range(len(points))])
    sightings = sql.array(
        *[
            sql.struct(
                sql.lit(number).alias("receiver"),
                sql.col(f"time_{number}").alias("arrived_ns"),
                sql.col(f"copies_{number}").cast("bigint").alias("copies"),
            )
            for number in range(len(points))
        ]
    )
    owned = addresses.where(sql.col("point") == points[0]).drop("point")
    seen_at = sql.coalesce(*[f"time_{number}" for number in range(len(points))])
    is_theirs = [sql.col("address") == sql.col("to"), seen_at >= sql.col("begins"), seen_at < sql.col("ends")]
    whole = (
        datagrams.withColumnRenamed("address", "to")
        .join(sql.broadcast(lives), ["sender", "incarnation"])
        .join(sql.broadcast(owned), is_theirs, "left")
        .withColumn("sent_ns", sql.get(times, sql.col("home")))
        .withColumn("kind", kind_name(sql.col("kind")))
        .withColumn("multicast", sql.col("multicast") == 1)
    )
    receivers = sql.filter(
        sightings,
        lambda sighting: sql.when(
            sql.col("multicast"), sql.col("home").isNull() | (sighting["receiver"] != sql.col("home"))
        ).otherwise(
            (sighting["receiver"] == sql.col("owner_home")) & ~sql.col("owner_home").eqNullSafe(sql.col("home"))
        ),
    )
    return whole.withColumn("sighting", sql.explode_outer(receivers)).select("*", "sighting.*").select(*COLUMNS)


def observed(rows: DataFrame, offsets: DataFrame, spans: Sequence[tuple[int, int]], interval_ns: int) -> DataFrame:
    """Return deliveries with four more columns.

    `offsets` relates the clocks (see `delays.offsets_table`). `spans` has the first and last time of each point's
    capture.

    - `lost`: true if a datagram left and did not arrive while the receiver's capture ran; false if it arrived; null if
      unknown.
    - `under_way_ns`: one-way delay (RFC 7679) by the sender's clock, null without two-way traffic.
    - `bound_ns`: largest error of `under_way_ns`.
    - `interval`: start of the interval of the departure by the sender's clock, else of the arrival by the receiver's.
    """
    firsts, lasts = (sql.array(*[sql.lit(span[end]) for span in spans]) for end in (0, 1))
    there = sql.col("sent_ns") + sql.coalesce(sql.col("clock_ns"), sql.lit(0))
    running = sql.col("clock_ns").isNull() | (
        (there >= sql.get(firsts, sql.col("receiver"))) & (there <= sql.get(lasts, sql.col("receiver")))
    )
    at = sql.coalesce("sent_ns", "arrived_ns")
    joined = rows.join(
        sql.broadcast(offsets),
        (rows["home"] == offsets["from"])
        & (rows["receiver"] == offsets["to"])
        & (rows["sent_ns"] >= offsets["begins"])
        & (rows["sent_ns"] < offsets["ends"]),
        "left",
    ).withColumn(
        "clock_ns", sql.col("offset_ns") + (sql.col("drift") * (sql.col("sent_ns") - sql.col("zero"))).cast("bigint")
    )
    return joined.select(
        *COLUMNS,
        sql.when(sql.col("sent_ns").isNull() | sql.col("receiver").isNull(), sql.lit(None))
        .when(sql.col("arrived_ns").isNotNull(), sql.lit(False))
        .when(running, sql.lit(True))
        .alias("lost"),
        (sql.col("arrived_ns") - sql.col("sent_ns") - sql.col("clock_ns")).alias("under_way_ns"),
        "bound_ns",
        interval_of(at, interval_ns).alias("interval"),
    )
