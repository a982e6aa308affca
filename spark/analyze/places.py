"""Endpoints of a trace, and the capture point at which each of them lives.

A capture point on an endpoint's host sees everything that the endpoint sends, at the moment of sending. This point is
the endpoint's *home*. Losses and delays are measured from the sender's home to the receiver's.

Recorded directions decide the home if there are any. Otherwise the home is the point with the fewest gaps in the
endpoint's counters, between the first and the last one seen there. Among nearly equal points, answers to the endpoint's
data take longest at its home, where they are the full round trip, and the endpoint's own answers take shortest. A
single point is the home of every endpoint without gaps in its counters.
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
"""Least share, relative to the best point, of an endpoint's datagrams that its home has seen.

Only datagrams sent during the point's capture count. A capture may drop some. A network that loses less does not
distinguish the points.
"""

WITHOUT_GAPS = 0.999
"""Least share of a life's counters that a single point has seen if it is the home. Another place would miss unicast."""

EVER = 1 << 62  # nanoseconds since 1970: the year 2116

BIN_NS = 250_000_000
"""Nanoseconds of one row of `sightings`. Longer silences show between two rows."""

MOST_LIVES = 1_000_000
"""Most rows of lives at points and addresses on the driver, a hundred times the largest supported network."""


@dataclass
class Life:
    """A life of an endpoint: the address, and the first and last time at each capture point (ns)."""

    sender: str
    incarnation: int
    name: str
    address: tuple[str, int]
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    leaving: dict[str, int] = field(default_factory=dict)  # datagrams captured as outgoing, by point
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # first and last of each file, by point
    home: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Identity on the network."""
        return self.sender, self.incarnation

    def span(self, point: str) -> int:
        """Return how many datagrams the life sent during the point's capture, by the counters in each of its files."""
        count, upto = 0, -1
        for least, most in sorted(self.counters.get(point, ())):
            count += max(0, most - max(least, upto + 1) + 1)
            upto = max(upto, most)
        return count


def sightings(frames: DataFrame) -> DataFrame:
    """Return where and when each life was seen: a row for each point, file, address and non-empty `BIN_NS`.

    Columns: (point, file, sender, incarnation, source, source_port, bin, first, last, interval_ms, leaving, least,
    most). `least` and `most` are counters.
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
    """Return all lives in order of appearance, and new names of capture points (`find_namesakes`).

    `seen` is the table `sightings`. If there are new names, the frames must be renamed before the lives are valid. The
    driver gets as many rows as lives times files. Names of endpoints are queried separately, because Spark sorts all
    rows to find a maximum of texts.
    """
    places = seen.groupBy("sender", "incarnation", "source", "source_port", "point", "file").agg(
        sql.min("first").alias("first"), sql.max("last").alias("last"), sql.sum("leaving").alias("leaving"),
        sql.min("least").alias("least"), sql.max("most").alias("most"),
    )  # fmt: skip
    told = frames.where("name is not null").groupBy("sender", "incarnation").agg(sql.max("name").alias("name"))
    found = gather({"places": places, "names": told}, MOST_LIVES)
    names = {(row["sender"], row["incarnation"]): row["name"] for row in found["names"].to_pylist()}
    order = "first", "point", "sender", "incarnation", "file", "source", "source_port"  # rows may share a time
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

    The `coverage` of a life has `seen_i`, the number of datagrams at point number i. The `answers` are the least times
    from data to acknowledgement by (sender, acknowledging endpoint, point), without the delay at the receiver.
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
    """Return the share of a life's datagrams that a point sees, by Laplace's rule of succession for small numbers."""
    return (seen + 1) / (sent + 2) if seen else 0.0


def _nearness(sender: str, point: str, answers: dict[tuple[str, str, str], float]) -> float:
    """Return how much longer answers to an endpoint take at a point than the endpoint's own answers, in nanoseconds."""
    to_it = [time for (owner, _, at), time in answers.items() if owner == sender and at == point]
    by_it = [time for (_, acker, at), time in answers.items() if acker == sender and at == point]
    return (min(to_it) if to_it else 0.0) - (min(by_it) if by_it else 0.0)


def lives_table(session: SparkSession, lives: Sequence[Life], points: Sequence[str]) -> DataFrame:
    """Return the lives as a table for joins: (sender, incarnation, home). Home is the number of a point, null if
    unknown.
    """
    rows = [(*life.key, points.index(life.home) if life.home else None) for life in lives]
    return local_table(session, rows, "sender string, incarnation bigint, home int")


def addresses_table(session: SparkSession, lives: Sequence[Life], points: Sequence[str]) -> DataFrame:
    """Return owners of addresses: (point, begins, ends, owner, owner_incarnation, owner_home, address).

    Usually a life has its own address. If several lives share an address, each life owns the address from its first
    datagram on, by the capture point's clock.
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
    """Return when each life was first seen at each point: (point, owner, owner_incarnation, appeared_ns)."""
    rows = [(point, *life.key, first) for life in lives for point, (first, _) in life.seen.items()]
    return local_table(session, rows, "point string, owner string, owner_incarnation bigint, appeared_ns bigint")
