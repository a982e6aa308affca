"""Who the endpoints are, and at which capture point each of them lives.

A capture point at an endpoint's own host sees all that the endpoint sends, at the moment it is sent: that is the
endpoint's *home*. Losses and delays are measured from the sender's home to the receiver's. Where the recorder
noted directions, they tell it. Otherwise home is where the endpoint's counters have the fewest gaps between the first
and the last one seen, however long the capture ran; of points with (almost) as few, the one where answers to its data
take the longest, as that is the full round trip, and where its own answers take the shortest, as they leave there. A
single point is the home of those whose counters have no gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spark.analyze.gather import gather, local_table
from spark.analyze.namesakes import Presence, find_namesakes

NEARLY_ALL = 0.98
"""A point may be an endpoint's home if it saw at least so much of what the best point saw, each of what was sent while
it captured: a capture may drop some, and a network that loses less does not tell the points apart."""

WITHOUT_GAPS = 0.999
"""Share of a life's counters that the only point must have seen to be its home; elsewhere it misses what others got."""

EVER = 1 << 62  # nanoseconds since 1970: the year 2116

BIN_NS = 250_000_000
"""Nanoseconds that one row of `sightings` stands for: longer silences show between two of them."""

MOST_LIVES = 1_000_000
"""Rows of lives at points and addresses that come to the driver; no network this is made for has a hundredth."""


@dataclass
class Life:
    """One life of an endpoint: where it sends from, and at each capture point the first and last time seen (ns)."""

    sender: str
    incarnation: int
    name: str
    address: tuple[str, int]
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    leaving: dict[str, int] = field(default_factory=dict)  # datagrams captured as going out, by point
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # first and last of each file, by point
    home: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Its identity on the network."""
        return self.sender, self.incarnation

    def span(self, point: str) -> int:
        """How many datagrams it sent while the point captured, by its counters in each of the point's files."""
        count, upto = 0, -1
        for least, most in sorted(self.counters.get(point, ())):
            count += max(0, most - max(least, upto + 1) + 1)
            upto = max(upto, most)
        return count


def sightings(frames: DataFrame) -> DataFrame:
    """Where and when something of each life was seen: a row for each point, file, address and `BIN_NS` with anything.

    (point, file, sender, incarnation, source, source_port, bin, first, last, interval_ms, leaving, least, most): the
    last two are counters.
    """
    return frames.groupBy(
        sql.col("capture_point").alias("point"), "file", "sender", "incarnation", "source", "source_port",
        sql.floor(sql.col("time_ns") / BIN_NS).alias("bin"),
    ).agg(
        sql.min("time_ns").alias("first"),
        sql.max("time_ns").alias("last"),
        sql.max("interval_ms").alias("interval_ms"),
        sql.count_if(sql.col("direction") == "out").alias("leaving"),
        sql.min("counter").alias("least"),
        sql.max("counter").alias("most"),
    )  # fmt: skip


def find_lives(frames: DataFrame, seen: DataFrame) -> tuple[list[Life], dict[tuple[str, str], str]]:
    """All lives in a trace (`seen`: its `sightings`), in order of appearance; and its `namesakes`, which are to be
    told apart before the lives are of use.

    As many rows come to the driver as lives times files. Names are asked for apart: Spark sorts all rows for the
    greatest of texts.
    """
    places = seen.groupBy("sender", "incarnation", "source", "source_port", "point", "file").agg(
        sql.min("first").alias("first"), sql.max("last").alias("last"), sql.sum("leaving").alias("leaving"),
        sql.min("least").alias("least"), sql.max("most").alias("most"),
    )  # fmt: skip
    told = frames.where("name is not null").groupBy("sender", "incarnation").agg(sql.max("name").alias("name"))
    found = gather({"places": places, "names": told}, MOST_LIVES)
    names = {(row["sender"], row["incarnation"]): row["name"] for row in found["names"].to_pylist()}
    order = "first", "point", "sender", "incarnation", "file", "source", "source_port"  # some are seen at one moment
    rows = sorted(found["places"].to_pylist(), key=lambda row: [row[column] for column in order])
    lives: dict[tuple[str, int], Life] = {}
    for row in rows:
        key = row["sender"], row["incarnation"]
        name = names.get(key) or row["sender"]
        life = lives.setdefault(key, Life(*key, name, (row["source"], row["source_port"])))
        first, last = life.seen.get(row["point"], (row["first"], row["last"]))
        life.seen[row["point"]] = min(first, row["first"]), max(last, row["last"])
        life.leaving[row["point"]] = life.leaving.get(row["point"], 0) + row["leaving"]
        life.counters.setdefault(row["point"], []).append((row["least"], row["most"]))
    return list(lives.values()), find_namesakes(
        Presence(
            row["point"], row["file"], (row["sender"], row["incarnation"]), (row["least"], row["most"]),
            (row["first"], row["last"]),
        )
        for row in rows
    )  # fmt: skip


def find_homes(
    lives: Iterable[Life],
    points: Sequence[str],
    coverage: Iterable[Mapping[str, Any]],
    answers: dict[tuple[str, str, str], float],
) -> None:
    """Set the home of each life.

    `coverage` has for each life the datagrams that point number i saw as `seen_i`; `answers` the least time from data
    to its acknowledgement by (sender, who acknowledged, point), without the time the receiver held it.
    """
    seen = {(row["sender"], row["incarnation"]): row for row in coverage}
    for life in lives:
        counts = {point: seen[life.key][f"seen_{number}"] or 0 for number, point in enumerate(points)}
        leaving = {point: count for point, count in life.leaving.items() if count}
        if leaving:
            life.home = max(leaving, key=lambda point: (leaving[point], point))
            continue
        if len(points) == 1 and counts[points[0]] < WITHOUT_GAPS * life.span(points[0]):
            continue
        shares = {point: _share(count, life.span(point)) for point, count in counts.items()}
        likely = [point for point in points if shares[point] >= NEARLY_ALL * max(shares.values())]
        life.home = max(likely, key=lambda point: (_nearness(life.sender, point, answers), counts[point]))


def _share(seen: int, sent: int) -> float:
    """The share of a life's datagrams that a point sees, by Laplace's rule of succession: few tell little."""
    return (seen + 1) / (sent + 2) if seen else 0.0


def _nearness(sender: str, point: str, answers: dict[tuple[str, str, str], float]) -> float:
    """How much longer answers to an endpoint take at a point than its own answers do, in nanoseconds."""
    to_it = [time for (owner, _, at), time in answers.items() if owner == sender and at == point]
    by_it = [time for (_, acker, at), time in answers.items() if acker == sender and at == point]
    return (min(to_it) if to_it else 0.0) - (min(by_it) if by_it else 0.0)


def lives_table(session: SparkSession, lives: Sequence[Life], points: Sequence[str]) -> DataFrame:
    """The lives for joins: (sender, incarnation, home), home as the number of a point, null if unknown."""
    rows = [(*life.key, points.index(life.home) if life.home else None) for life in lives]
    return local_table(session, rows, "sender string, incarnation bigint, home int")


def addresses_table(session: SparkSession, lives: Sequence[Life], points: Sequence[str]) -> DataFrame:
    """Who has an address, and when: (point, begins, ends, owner, owner_incarnation, owner_home, address).

    Mostly a life has an address of its own. Where several follow each other at one, each has it from its first
    datagram on, by the clock of the capture point.
    """
    by_address: dict[tuple[str, int], list[Life]] = {}
    for life in lives:
        by_address.setdefault(life.address, []).append(life)
    rows = []
    for (host, port), holders in by_address.items():
        for point in points:
            begins = [life.seen.get(point, min(life.seen.values()))[0] for life in holders]
            begins[0] = 0
            for life, begin, end in zip(holders, begins, [*begins[1:], EVER], strict=True):
                home = points.index(life.home) if life.home else None
                rows.append((point, host, port, begin, end, *life.key, home))
    table = local_table(
        session,
        rows,
        "point string, host string, port int, begins bigint, ends bigint, owner string, owner_incarnation bigint, "
        "owner_home int",
    )
    return table.select("*", sql.xxhash64("host", "port").alias("address")).drop("host", "port")


def arrivals_table(session: SparkSession, lives: Sequence[Life]) -> DataFrame:
    """When each life was first seen at each point, for joins: (point, owner, owner_incarnation, appeared_ns)."""
    rows = [(point, *life.key, first) for life in lives for point, (first, _) in life.seen.items()]
    return local_table(session, rows, "point string, owner string, owner_incarnation bigint, appeared_ns bigint")
