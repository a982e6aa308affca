"""From frames to all tables of an analysis.

The frames are read once and kept (in memory, else on disk). From them come the lives and the datagrams; from where
the datagrams were seen, the homes; from the delays between homes, the clocks; and then the deliveries, over which
everything else is a sum or one sorted scan. What comes to the driver is small: some rows for each pair of endpoints
and interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.storagelevel import StorageLevel

from spark.analyze import consensus, counts, presence, topics, unseen
from spark.analyze.datagrams import datagrams, interval_of
from spark.analyze.delays import find_relations, offsets_table
from spark.analyze.deliveries import deliveries, observed
from spark.analyze.places import Life, addresses_table, find_homes, find_lives, lives_table
from spark.analyze.rhythm import rhythm
from spark.analyze.roundtrips import round_trips
from spark.measures.clocks import Relation

SECOND = 10**9
INTERVALS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
MOST_INTERVALS = 120  # columns of a chart that are still told apart

USED = (
    "capture_point", "time_ns", "direction", "source", "source_port", "destination", "destination_port", "multicast",
    "size", "sender", "incarnation", "counter", "kind", "channel", "sequence", "attempt", "ack_channel", "ack_next",
    "ack_held_us", "ack_ranges", "fragment_size", "fragment_total", "fragment_index", "name", "interval_ms", "topics",
    "consensus",
)  # fmt: skip
"""The columns of `frames` that are read."""

PAIR = ("sender", "receiver")


class NothingFoundError(ValueError):
    """There is no datagram of glue in what was to be analysed."""


@dataclass
class Analysis:
    """What was found. The tables are not computed before they are asked for; `close` gives back what is kept."""

    start_ns: int
    end_ns: int
    interval_ns: int
    points: list[str]
    lives: list[Life]
    relations: dict[tuple[int, int], list[Relation]]
    tables: dict[str, DataFrame]
    kept: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Give back memory and disk; the tables can no longer be computed quickly."""
        for table in self.kept:
            table.unpersist()


def analyze(frames: DataFrame, interval: float | None = None, until_ns: int | None = None) -> Analysis:
    """Analyse a trace; `interval` is the length (seconds) of the intervals that measures are told for.

    Default: the shortest of `INTERVALS` with which there are at most `MOST_INTERVALS`. With `until_ns`, what was sent
    in later intervals than those that end by then is only used to learn what became of the rest. Raises
    NothingFoundError.
    """
    kept = [frames.select(*USED).persist(StorageLevel.MEMORY_AND_DISK)]
    lives = find_lives(kept[0])
    if not lives:
        raise NothingFoundError("there is no datagram of glue in it")
    points = sorted({point for life in lives for point in life.seen})
    spans = [_span(lives, point) for point in points]
    start, end = min(first for first, _ in spans), max(last for _, last in spans)
    interval_ns = _interval_ns(end - start, interval)

    spark = frames.sparkSession
    kept.append(datagrams(kept[0], points).persist(StorageLevel.MEMORY_AND_DISK))
    kept.append(round_trips(kept[0], addresses_table(spark, lives, points)).persist(StorageLevel.MEMORY_AND_DISK))
    _settle(lives, points, kept[1], kept[2])

    expected = deliveries(kept[1], lives_table(spark, lives, points), addresses_table(spark, lives, points), points)
    relations = find_relations(expected, (start, end))
    rows = observed(expected, offsets_table(spark, relations), spans, interval_ns)
    until_ns = end + 1 if until_ns is None else until_ns - until_ns % interval_ns
    rows = rows.where(sql.col("interval") < until_ns)
    kept.append(rows.persist(StorageLevel.MEMORY_AND_DISK))
    vantage = _vantage(spark, lives, points)
    trips = kept[2].where(sql.col("sent_ns") < until_ns)
    said = consensus.messages(kept[0])
    commits = consensus.commits(said, vantage, interval_ns).where(sql.col("interval") < until_ns)
    proven = unseen.acknowledged(kept[0], addresses_table(spark, lives, points), lives_table(spark, lives, points))
    drawn = _intermediate(kept[3], trips, commits, proven, vantage, points, interval_ns)
    kept += [table.persist(StorageLevel.MEMORY_AND_DISK) for table in drawn]
    tables = _tables(kept, vantage, lives, points, interval_ns)
    tables["topics"] = tables["topics"].where(sql.col("interval") < until_ns)
    return Analysis(start, min(end, until_ns), interval_ns, points, lives, relations, tables, kept)


def _span(lives: Sequence[Life], point: str) -> tuple[int, int]:
    seen = [life.seen[point] for life in lives if point in life.seen]
    return min(first for first, _ in seen), max(last for _, last in seen)


def _interval_ns(length: int, interval: float | None) -> int:
    if interval is None:
        interval = next((value for value in INTERVALS if length <= value * SECOND * MOST_INTERVALS), INTERVALS[-1])
    return max(1, round(interval * SECOND))


def _settle(lives: Sequence[Life], points: Sequence[str], seen: DataFrame, answers: DataFrame) -> None:
    """Find out where the lives are at home."""
    coverage = seen.groupBy("sender", "incarnation").agg(
        (sql.max("counter") - sql.min("counter") + 1).alias("span"),
        *[sql.count(f"time_{number}").alias(f"seen_{number}") for number in range(len(points))],
    )
    least = answers.groupBy("owner", "acker", "point").agg(sql.min("round_trip_ns").alias("least"))
    told = {(row["owner"], row["acker"], row["point"]): float(row["least"]) for row in least.collect()}
    find_homes(lives, points, coverage.collect(), told)


def _vantage(spark: SparkSession, lives: Sequence[Life], points: Sequence[str]) -> DataFrame:
    """At which point each life's own doings are best seen: its home, else the first point that saw it."""
    rows = [
        (*life.key, life.home or next(point for point in points if point in life.seen), life.home is not None)
        for life in lives
    ]
    return spark.createDataFrame(rows, "sender string, incarnation bigint, point string, is_home boolean")


def _intermediate(
    rows: DataFrame,
    trips: DataFrame,
    commits: DataFrame,
    proven: DataFrame,
    vantage: DataFrame,
    points: Sequence[str],
    interval_ns: int,
) -> list[DataFrame]:
    """What several tables are drawn from: frames in trouble, messages in fragments, all times in buckets."""
    troubled = unseen.with_unseen(counts.troubled(rows), proven)
    whole = counts.reassemblies(rows)
    samples = _samples(rows, trips, vantage, troubled, whole, points, interval_ns).unionByName(commits)
    return [troubled, whole, counts.histogram(samples)]


def _tables(
    kept: Sequence[DataFrame], vantage: DataFrame, lives: Sequence[Life], points: Sequence[str], interval_ns: int
) -> dict[str, DataFrame]:
    frames, _, _, rows, troubled, whole, buckets = kept
    addresses = addresses_table(frames.sparkSession, lives, points)
    return {
        "deliveries": rows,
        "pairs": counts.pairs(rows),
        "streams": counts.streams(rows, troubled),
        "repairs": counts.repairs(troubled),
        "reassemblies": whole.groupBy("sender", "incarnation", "receiver", "interval").agg(
            sql.count("*").alias("messages"), sql.count("reassembly_ns").alias("complete")
        ),
        "rhythm": rhythm(rows),
        "histograms": buckets.groupBy("measure", *PAIR, "bucket").agg(sql.sum("count").alias("count")),
        "latencies": counts.percentiles(buckets, ["measure", *PAIR]),
        "latencies_over_time": counts.percentiles(buckets, ["measure", *PAIR, "interval"]),
        "announcements": presence.announcements(frames),
        "silences": presence.silences(frames),
        "topics": topics.topics(frames, vantage, interval_ns),
        "leaders": consensus.leaders(consensus.messages(frames), vantage),
        "late_joiners": topics.late_joiners(frames, vantage, addresses),
    }


def _samples(
    rows: DataFrame,
    trips: DataFrame,
    vantage: DataFrame,
    troubled: DataFrame,
    whole: DataFrame,
    points: Sequence[str],
    interval_ns: int,
) -> DataFrame:
    """All measured times: (measure, sender, receiver, interval, value_ns); receivers are points or endpoints.

    A round trip is one from the sender's home; elsewhere only the way from the point on is seen, the "answer".
    """
    names = sql.array(*map(sql.lit, points))
    at_home = trips.join(
        sql.broadcast(vantage.toDF("owner", "owner_incarnation", "point", "is_home")),
        ["owner", "owner_incarnation", "point"],
    )
    trip_columns = ["owner as sender", "acker as receiver", "round_trip_ns as value_ns"]
    interval = interval_of(sql.col("sent_ns"), interval_ns).alias("interval")
    found = [
        at_home.select(
            sql.when(sql.col("is_home"), "round trip").otherwise("answer").alias("measure"),
            *map(sql.expr, trip_columns),
            interval,
        ),
        _timed(rows, "one way", "under_way_ns", names),
        _timed(troubled, "repair", "repair_ns", names),
        _timed(whole, "reassembly", "reassembly_ns", names),
    ]
    first, *others = found
    for other in others:
        first = first.unionByName(other)
    return first


def _timed(rows: DataFrame, measure: str, column: str, names: Any) -> DataFrame:
    return rows.where(sql.col(column).isNotNull()).select(
        sql.lit(measure).alias("measure"),
        "sender",
        sql.get(names, sql.col("receiver")).alias("receiver"),
        sql.col(column).alias("value_ns"),
        "interval",
    )


def error_of(relations: Sequence[Relation]) -> float | None:
    """The largest error of the offset of two clocks, in nanoseconds; None if it is unknown."""
    bounds = [relation.bound for relation in relations]
    known = [bound for bound in bounds if bound is not None]
    return max(known) if len(known) == len(bounds) and known else None


def seconds(nanoseconds: float) -> float:
    """For humans, with what is left of the precision."""
    return math.floor(nanoseconds) / SECOND
