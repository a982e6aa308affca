"""Analysis from frames to all tables.

The frames are read once and cached in memory or on disk, unless they are `stored`. Lives and datagrams come from the
frames, homes from the places where datagrams were seen, and clocks from the delays between homes. Then come the
deliveries, and each other table is a sum or one sorted scan over these. The driver gets little data: some rows for each
pair of endpoints and interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spark.analyze import consensus, counts, presence, topics, unseen
from spark.analyze.datagrams import datagrams, interval_of
from spark.analyze.delays import find_relations, offsets_table
from spark.analyze.deliveries import deliveries, observed
from spark.analyze.gather import gather, local_table
from spark.analyze.namesakes import renamed
from spark.analyze.places import (
    MOST_LIVES,
    Life,
    addresses_table,
    arrivals_table,
    find_homes,
    find_lives,
    lives_table,
    sightings,
)
from spark.analyze.rhythm import rhythm
from spark.analyze.roundtrips import round_trips
from spark.measures.clocks import Relation
from spark.session import forget, remember

SECOND = 10**9
INTERVALS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
MOST_INTERVALS = 120  # most columns of a chart that are distinguishable

USED = (
    "file", "capture_point", "time_ns", "direction", "source", "source_port", "destination", "destination_port",
    "multicast", "size", "sender", "incarnation", "counter", "kind", "channel", "sequence", "attempt", "ack_channel",
    "ack_next", "ack_held_us", "ack_ranges", "fragment_size", "fragment_total", "fragment_index", "name", "interval_ms",
    "topics", "consensus",
)  # fmt: skip
"""Columns of `frames` that an analysis reads."""


class NothingFoundError(ValueError):
    """The input has no glue datagram. `instead` tells what the input has."""

    def __init__(self, instead: Sequence[str] = ()) -> None:
        super().__init__("; ".join(["there is no datagram of glue in it", *instead]))


@dataclass(frozen=True)
class Whereabouts:
    """Tables of locations for joins: see `_vantage`, `places.lives_table` and `places.addresses_table`."""

    points: list[str]
    vantage: DataFrame
    lives: DataFrame
    addresses: DataFrame


@dataclass
class Analysis:
    """Result of an analysis. Tables are computed on demand, until `close` releases cached data."""

    start_ns: int
    end_ns: int
    interval_ns: int
    points: list[str]
    lives: list[Life]
    relations: dict[tuple[int, int], list[Relation]]
    tables: dict[str, DataFrame]
    namesakes: dict[tuple[str, str], str] = field(default_factory=dict)
    """New names of capture points that share a name, by (name, file); see `namesakes.find_namesakes`."""
    kept: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Release memory and disk. Tables can no longer be computed."""
        for table in self.kept:
            forget(table)


def analyze(
    frames: DataFrame,
    interval: float | None = None,
    until_ns: int | None = None,
    said: Callable[[str], object] = lambda _: None,
    stored: bool = False,
) -> Analysis:
    """Analyse a trace.

    - `interval`: length of measured intervals in seconds. The default is the shortest of `INTERVALS` that gives at most
      `MOST_INTERVALS`.
    - `until_ns`: end of the measured time. Later frames only show what became of earlier ones.
    - `said`: called with the next step as text.
    - `stored`: the frames are in columns on this machine, and need no cache.

    Raises NothingFoundError if the frames have no glue datagram.
    """
    kept: list[DataFrame] = []

    def keep(table: DataFrame) -> DataFrame:
        kept.append(remember(table))
        return kept[-1]

    spark = frames.sparkSession
    said("reading the captures")
    frames, seen, lives, names = _find_lives(frames.select(*USED), keep, stored)
    if not lives:
        raise NothingFoundError
    points = sorted({point for life in lives for point in life.seen})
    spans = [_span(lives, point) for point in points]
    start, end = min(first for first, _ in spans), max(last for _, last in spans)
    interval_ns = _interval_ns(end - start, interval)
    until_ns = end + 1 if until_ns is None else until_ns - until_ns % interval_ns
    said(f"{len({life.sender for life in lives}):,} endpoints at {len(points):,} capture points; finding their homes")
    named = keep(datagrams(frames, points))
    answers = keep(round_trips(frames, addresses_table(spark, lives, points)))
    _settle(lives, points, named, answers)
    where = _whereabouts(spark, lives, points)
    expected = deliveries(named, where.lives, where.addresses, points)
    said("relating the clocks")
    relations = find_relations(expected, (start, end))
    said("counting")
    observations = observed(expected, offsets_table(spark, relations), spans, interval_ns)
    rows = keep(observations.where(sql.col("interval") < until_ns))

    acknowledged = unseen.acknowledged(frames, where.addresses, where.lives)
    troubled = keep(unseen.with_unseen(counts.troubled(rows), acknowledged))
    whole = keep(counts.reassemblies(rows))
    commits = consensus.commits(consensus.messages(frames), where.vantage, interval_ns)
    samples = [
        *_samples(rows, answers.where(sql.col("sent_ns") < until_ns), where, troubled, whole, interval_ns),
        commits.where(sql.col("interval") < until_ns),
    ]
    buckets = keep(counts.histogram(reduce(DataFrame.unionByName, samples)))
    tables = {
        "deliveries": rows,
        **counts.tables(rows, troubled, whole, buckets),
        "rhythm": rhythm(rows),
        "announcements": presence.announcements(frames),
        "silences": presence.silences(seen),
        "topics": topics.topics(frames, where.vantage, interval_ns).where(sql.col("interval") < until_ns),
        "leaders": consensus.leaders(consensus.messages(frames), where.vantage),
        "late_joiners": topics.late_joiners(frames, where.vantage, where.addresses, arrivals_table(spark, lives)),
    }
    return Analysis(start, min(end, until_ns), interval_ns, points, lives, relations, tables, names, kept)


def _find_lives(
    frames: DataFrame, keep: Callable[[DataFrame], DataFrame], stored: bool
) -> tuple[DataFrame, DataFrame, list[Life], dict[tuple[str, str], str]]:
    """Return the frames, their sightings, the lives, and new names of capture points."""
    frames = frames if stored else keep(frames)
    seen = keep(sightings(frames))
    lives, names = find_lives(frames, seen)
    if names:
        frames = keep(renamed(frames, names))
        seen = keep(sightings(frames))
        lives, _ = find_lives(frames, seen)
    return frames, seen, lives, names


def _span(lives: Sequence[Life], point: str) -> tuple[int, int]:
    seen = [life.seen[point] for life in lives if point in life.seen]
    return min(first for first, _ in seen), max(last for _, last in seen)


def _interval_ns(length: int, interval: float | None) -> int:
    if interval is None:
        interval = next((value for value in INTERVALS if length <= value * SECOND * MOST_INTERVALS), INTERVALS[-1])
    return max(1, round(interval * SECOND))


def _settle(lives: Sequence[Life], points: Sequence[str], seen: DataFrame, answers: DataFrame) -> None:
    """Set the homes of the lives."""
    coverage = seen.groupBy("sender", "incarnation").agg(
        *[sql.count(f"time_{number}").alias(f"seen_{number}") for number in range(len(points))]
    )
    least = (
        answers.where("round_trip_ns >= 0")
        .groupBy("owner", "acker", "point")
        .agg(sql.min("round_trip_ns").alias("least"))
    )
    found = gather({"coverage": coverage, "least": least}, MOST_LIVES)
    told = {(row["owner"], row["acker"], row["point"]): float(row["least"]) for row in found["least"].to_pylist()}
    find_homes(lives, points, found["coverage"].to_pylist(), told)


def _whereabouts(spark: SparkSession, lives: Sequence[Life], points: list[str]) -> Whereabouts:
    """Return the tables of locations, after the homes are set."""
    return Whereabouts(
        points, _vantage(spark, lives, points), lives_table(spark, lives, points), addresses_table(spark, lives, points)
    )


def _vantage(spark: SparkSession, lives: Sequence[Life], points: Sequence[str]) -> DataFrame:
    """Return the point where each life is seen best: the home, else the first point with sightings of the life."""
    rows = [
        (*life.key, life.home or next(point for point in points if point in life.seen), life.home is not None)
        for life in lives
    ]
    return local_table(spark, rows, "sender string, incarnation bigint, point string, is_home boolean")


def _samples(
    rows: DataFrame, trips: DataFrame, where: Whereabouts, troubled: DataFrame, whole: DataFrame, interval_ns: int
) -> list[DataFrame]:
    """Return all measured times: (measure, sender, receiver, interval, value_ns). Receivers are points or endpoints.

    A sample at the sender's home is a round trip. Elsewhere it is an "answer": the part from the point on.
    """
    names = sql.array(*map(sql.lit, where.points))
    at_home = trips.join(
        sql.broadcast(where.vantage.toDF("owner", "owner_incarnation", "point", "is_home")),
        ["owner", "owner_incarnation", "point"],
    )
    return [
        at_home.select(
            sql.when(sql.col("is_home"), "round trip").otherwise("answer").alias("measure"),
            sql.col("owner").alias("sender"),
            sql.col("acker").alias("receiver"),
            sql.col("round_trip_ns").alias("value_ns"),
            interval_of(sql.col("sent_ns"), interval_ns).alias("interval"),
        ),
        _timed(rows, "one way", "under_way_ns", names),
        _timed(troubled, "repair", "repair_ns", names),
        _timed(whole, "reassembly", "reassembly_ns", names),
    ]


def _timed(rows: DataFrame, measure: str, column: str, names: Any) -> DataFrame:
    return rows.where(sql.col(column).isNotNull()).select(
        sql.lit(measure).alias("measure"),
        "sender",
        sql.get(names, sql.col("receiver")).alias("receiver"),
        sql.col(column).alias("value_ns"),
        "interval",
    )
