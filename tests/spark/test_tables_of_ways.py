"""The tables between frames and findings, made of a few rows by hand that stand on either side of each limit.

As in `test_tables.py`, all of it is one query. What a function gathers or gives to workers itself is taken from it
and made with the rest.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spark.analyze import consensus, counts, delays, deliveries, job, places, sealed, unseen
from spark.analyze.datagrams import KINDS, datagrams
from spark.analyze.gather import gather, local_table
from spark.analyze.namesakes import renamed
from spark.analyze.places import BIN_NS, EVER, Life, addresses_table, lives_table
from spark.measures.clocks import Relation
from spark.schema import arrow_schema, frames_columns
from tests.spark.test_tables import Rows, Tables, fates

POINTS = ["p", "q", "r"]
ADDRESSES = {name: (f"10.0.0.{number}", number) for number, name in enumerate("abcdef", 1)}
LATER = 500  # when the second endpoint at an address appears


def frame(point: str, time_ns: int, counter: int, to: str | None, sender: str = "a", **more: Any) -> dict[str, Any]:
    destination, port = ADDRESSES[to] if to else ("239.0.0.1", 9)
    source, source_port = ADDRESSES[sender]
    return {
        "file": f"{point}.pcap", "capture_point": point, "time_ns": time_ns, "sender": sender, "incarnation": 1,
        "source": source, "source_port": source_port, "destination": destination, "destination_port": port,
        "multicast": to is None, "counter": counter, "size": 100 + counter, **more,
    }  # fmt: skip


def table_of(spark: SparkSession, rows: Rows) -> DataFrame:
    columns = arrow_schema(frames_columns(job.USED))
    return spark.createDataFrame(
        pa.Table.from_pylist([{n: row.get(n) for n in columns.names} for row in rows], columns)
    )


def frames_on_the_way() -> Rows:
    """What a and c send to others: a datagram is a case, and its counter its number."""
    whole: dict[str, Any] = {
        "kind": "data",
        "channel": 7,
        "sequence": 3,
        "attempt": 1,
        "fragment_size": 10,
        "fragment_index": 2,
    }
    return [
        frame("p", 120, 1, None, **whole, fragment_total=21), frame("p", 110, 1, None, **whole, fragment_total=21),
        frame("q", 130, 1, None, **whole, fragment_total=21),
        frame("q", 140, 2, None, "c", kind=KINDS[-1], fragment_size=10, fragment_total=20),
        frame("p", 150, 3, "b", kind=KINDS[0]), frame("r", 155, 3, "b"), frame("q", 160, 3, "b"),
        frame("p", 170, 4, "d", kind="unknown"),  # at home where a is
        frame("p", 180, 5, "c"),  # whose home is not known
        frame("p", LATER - 1, 6, "e"), frame("p", LATER, 7, "e"), frame("r", LATER - 1, 8, "e"),
        frame("p", 190, 9, "f"),  # of which nothing is known
        frame("q", 200, 10, "a", "c"),  # from one whose home is not known
    ]  # fmt: skip


def lives() -> list[Life]:
    def life(name: str, home: str | None, address: str = "", **seen: tuple[int, int]) -> Life:
        return Life(name, 1, name, ADDRESSES[address or name], seen or {"p": (50, 9000)}, home=home)

    return [
        life("a", "p"), life("b", "q"), life("c", None, q=(40, 9000)), life("d", "p"),
        life("e", "q", p=(60, 450), q=(7, 450)), life("after e", "r", "e", p=(LATER, 9000), r=(3, 9000)),
    ]  # fmt: skip


EXPECTED_ROWS = (
    "sender string, incarnation bigint, counter bigint, kind string, attempt bigint, channel bigint, sequence bigint, "
    "size int, fragment_index bigint, fragments bigint, multicast boolean, home int, receiver int, sent_ns bigint, "
    "arrived_ns bigint, copies bigint"
)
OFFSETS = "from int, to int, begins bigint, ends bigint, zero bigint, offset_ns bigint, drift double, bound_ns double"
SPANS = [(0, 10_000), (1000, 2000), (1000, 2000)]


def expected(spark: SparkSession) -> DataFrame:
    """Deliveries from point 0 and others; the counter numbers the cases."""
    cases: list[tuple[int | None, int | None, int | None, int | None]] = [
        (0, 1, 100, 1150), (0, 1, 499, None), (0, 1, 500, 1700), (0, 1, 700, 1900), (0, 1, 897, None),
        (0, 1, 898, None), (0, 1, 0, None), (0, 2, 1499, None), (0, 2, 1500, None), (0, 2, 2500, None),
        (0, 2, 2501, None), (1, 0, 1500, None), (1, 0, 99_999, None), (0, None, 1999, None), (None, 1, None, 2000),
        (1, 2, 3000, 3001),
    ]  # fmt: skip
    rows = [
        ("a", 1, number, "data", 0, 7, number, 100, None, None, True, home, receiver, sent, arrived, 1)
        for number, (home, receiver, sent, arrived) in enumerate(cases)
    ]
    return local_table(spark, rows, EXPECTED_ROWS)


def offsets(spark: SparkSession) -> DataFrame:
    pieces = [(0, 1, 0, 500, 100, 1000, 0.0, 5.0), (0, 1, 500, 10**6, 500, 1100, 0.01, 7.0)]
    return local_table(spark, [*pieces, (0, 2, 0, 10**6, 0, -500, 0.0, 1.0)], OFFSETS)


def sightings() -> Rows:
    more: dict[str, Any] = {"direction": "out", "interval_ms": 100}
    return [
        frame("p", 7, 5, None, **more), frame("p", BIN_NS - 1, 3, None, direction="in", interval_ms=200),
        frame("p", 20, 4, None, **more), frame("p", BIN_NS, 9, None, name="x"), frame("q", 2 * BIN_NS, 1, None),
        frame("q", 3 * BIN_NS - 1, 2, None, name="y"), frame("p", 0, 0, None, sender="b"),
        frame("p", 0, 1, None, sender="b", source_port=7, file="b.pcap", direction="out"),
    ]  # fmt: skip


SEALED = (
    "capture_point string, network bigint, life string, kind string, source string, source_port int, "
    "destination string, destination_port int, number bigint, time_ns bigint, file string, offset bigint, part int, "
    "size int"
)


def sealed_rows(spark: SparkSession) -> DataFrame:
    def row(life: str, number: int, ms: int, size: int, to: str = "g", kind: str = "multicast") -> tuple[Any, ...]:
        return ("p", 1, life, kind, "s", 5, to, 6, number, ms * 10**6, "f", number, 0, size)

    return local_table(
        spark,
        [row("l", 5, 0, 100), row("l", 6, 1000, 200), row("l", 6, 1500, 300), row("l", 9, 4000, 401),
         row("m", 1, 0, 10, "x"), row("m", 2, 1, 10, "y"), row("m", 5, 2000, 11, "x"), row("m", 8, 2000, 3, "z"),
         row("m", 9, 2000, 3, "z"), row("m", 1, 0, 10, "x", "unicast"), row("m", 2, 50, 10, "x", "unicast")],
        SEALED,
    )  # fmt: skip


def spoken(**more: Any) -> dict[str, Any]:
    return {"model": "m", "group": "g", "kind": "append", "term": 1, "pre": None, "previous_index": 0, "entries": 1,
            "commit_index": 0, **more}  # fmt: skip


def _samples(spark: SparkSession, troubled: DataFrame, whole: DataFrame) -> DataFrame:
    """All measured times of a few rows."""
    vantage = local_table(
        spark, [("a", 1, "p", True), ("b", 1, "q", False)],
        "sender string, incarnation bigint, point string, is_home boolean",
    )  # fmt: skip
    trips = local_table(
        spark,
        [("p", "a", 1, "b", 1999, 70), ("q", "a", 1, "b", 1999, 60), ("q", "b", 1, "a", 2000, 50)],
        "point string, owner string, owner_incarnation bigint, acker string, sent_ns bigint, round_trip_ns bigint",
    )
    where = job.Whereabouts(POINTS, vantage, vantage, vantage)
    one, *more = job._samples(fates(spark).where("sequence in (0, 1, 5)"), trips, where, troubled, whole, 1000)
    for other in more:
        one = one.unionByName(other)
    return one.select("measure", "sender", "receiver", "value_ns", "interval")


def buckets(spark: SparkSession) -> DataFrame:
    rows: list[tuple[Any, ...]] = [
        ("one way", "a", "b", 1000 * (n // 4), n, 1 + n, 100 + n, 110 + n) for n in (0, 1, 4, 5)
    ]
    rows.append(("one way", "a", "b", 0, None, 3, -9, -1))
    return local_table(
        spark, rows,
        "measure string, sender string, receiver string, interval bigint, bucket int, count bigint, least_ns bigint, "
        "most_ns bigint",
    )  # fmt: skip


RELATIONS = {
    (0, 1): [Relation(1000, 1999, 250.4, 0.25, 3.5, 1e-6), Relation(2000, 2999, -100.0, 0.0, None, None)],
    (0, 2): [Relation(5, 9, 0.6, 0.0, 1.0, 0.0)],
}


def _taken(spark: SparkSession, patch: pytest.MonkeyPatch, seen: DataFrame) -> dict[str, DataFrame]:
    """What `find_lives` and `_settle` gather, and what `find_relations` gives to workers."""
    told: dict[str, DataFrame] = {}

    def take(tables: dict[str, DataFrame], most: int) -> dict[str, pa.Table]:
        assert most == 1_000_000
        told.update(tables)
        return dict.fromkeys(tables, pa.table({}))

    patch.setattr(places, "gather", take)
    patch.setattr(job, "gather", take)
    patch.setattr(job, "find_homes", Mock())
    places.find_lives(table_of(spark, sightings()), seen)
    answers = local_table(
        spark, [("a", "b", "p", 5), ("a", "b", "p", 0), ("a", "b", "p", -1), ("a", "b", "q", 7), ("b", "a", "p", -1)],
        "owner string, acker string, point string, round_trip_ns bigint",
    )  # fmt: skip
    job._settle([], POINTS, datagrams(table_of(spark, frames_on_the_way()), POINTS), answers)
    given = Mock(return_value=Mock())
    given.return_value.groupBy.return_value.applyInArrow.return_value.toArrow.return_value.to_pylist.return_value = []
    patch.setattr(type(seen), "mapInArrow", lambda self, *_: given(self))
    ways = "home int, receiver int, sent_ns bigint, arrived_ns bigint"
    rows = [(0, 1, 1000, 1107), (1, 0, 1109, 1000), (2, 1, 1111, 1011), (0, 1, 999, 1000), (0, 1, 1010, None),
            (0, None, 1010, 1020), (0, 1, None, 1020), (0, 2, 1704, 1709)]  # fmt: skip
    assert delays.find_relations(local_table(spark, rows, ways), (1000, 1000 + 64 * 11 + 63)) == {}
    assert delays.find_relations(local_table(spark, rows[:3], ways), (1000, 1001)) == {}
    told["delays"], told["delays of a moment"] = (call.args[0] for call in given.call_args_list)
    return told


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """All tables by one query."""
    known = lives()
    owned, homes = addresses_table(spark, known, POINTS), lives_table(spark, known, POINTS)
    on_the_way = datagrams(table_of(spark, frames_on_the_way()), POINTS)
    seen = places.sightings(table_of(spark, sightings()))
    proven = local_table(
        spark, [("a", 1, 7, 1, 5, False), ("a", 1, 8, 1, 4, True)],
        "sender string, incarnation bigint, channel bigint, receiver int, upto bigint, parity boolean",
    )  # fmt: skip
    troubled = unseen.with_unseen(counts.troubled(fates(spark)), proven)
    whole = counts.reassemblies(fates(spark))
    counted = counts.tables(fates(spark), troubled, whole, buckets(spark))
    said = [frame("p", 5, 1, None, consensus=[spoken(), spoken(kind="vote?", pre=True)]), frame("p", 6, 2, None)]
    named = renamed(table_of(spark, sightings()), {("p", "p.pcap"): "one", ("p", "b.pcap"): "two"})
    with pytest.MonkeyPatch.context() as patch:
        taken = _taken(spark, patch, seen)
    found = gather(
        {
            **taken,
            "deliveries": deliveries.deliveries(on_the_way, homes, owned, POINTS),
            "observed": deliveries.observed(expected(spark), offsets(spark), SPANS, 1000).select(
                "counter", "lost", "under_way_ns", "bound_ns", "interval"
            ),
            "sightings": seen,
            "sealed": sealed.flows(sealed_rows(spark)).drop("capture_point", "network", "sender"),
            "offsets": delays.offsets_table(spark, RELATIONS),
            "messages": consensus.messages(table_of(spark, said)),
            "renamed": named.groupBy("file", "capture_point").agg(sql.count("*").alias("frames")),
            "samples": _samples(spark, troubled, whole),
            **{f"counts: {name}": counted[name] for name in (
                "pairs", "streams", "reassemblies", "histograms", "latencies", "latencies_over_time")},
        },
        1000,
    )  # fmt: skip
    return {name: sorted(([*row.values()] for row in table.to_pylist()), key=str) for name, table in found.items()}


EXPECTED: Tables = {
    "places": [
        ["a", 1, "10.0.0.1", 1, "p", "p.pcap", 7, 250000000, 2, 3, 9],
        ["a", 1, "10.0.0.1", 1, "q", "q.pcap", 500000000, 749999999, 0, 1, 2],
        ["b", 1, "10.0.0.2", 2, "p", "p.pcap", 0, 0, 0, 0, 0], ["b", 1, "10.0.0.2", 7, "p", "b.pcap", 0, 0, 1, 1, 1],
    ],
    "names": [["a", 1, "y"]],
    "coverage": [["a", 1, 7, 2, 2], ["c", 1, 0, 2, 0]],
    "least": [["a", "b", "p", 0], ["a", "b", "q", 7]],
    "delays": [
        [0, 1, False, 0, 1000, -109], [0, 1, True, -1, 999, 1], [0, 1, True, 0, 1000, 107], [0, 2, True, 64, 1704, 5],
        [1, 2, False, 1, 1011, -100],
    ],
    "delays of a moment": [[0, 1, False, 0, 1000, -109], [0, 1, True, 0, 1000, 107], [1, 2, False, 11, 1011, -100]],
    "deliveries": [
        ["a", 1, 1, "data", 1, 7, 3, 101, 2, 3, True, 0, 1, 110, 130, 1],
        ["a", 1, 1, "data", 1, 7, 3, 101, 2, 3, True, 0, 2, 110, None, 0],
        ["a", 1, 3, "data", None, None, None, 103, None, None, False, 0, 1, 150, 160, 1],
        ["a", 1, 4, None, None, None, None, 104, None, None, False, 0, None, 170, None, None],
        ["a", 1, 5, None, None, None, None, 105, None, None, False, 0, None, 180, None, None],
        ["a", 1, 6, None, None, None, None, 106, None, None, False, 0, 1, 499, None, 0],
        ["a", 1, 7, None, None, None, None, 107, None, None, False, 0, 2, 500, None, 0],
        ["a", 1, 8, None, None, None, None, 108, None, None, False, 0, 1, None, None, 0],
        ["a", 1, 9, None, None, None, None, 109, None, None, False, 0, None, 190, None, None],
        ["c", 1, 10, None, None, None, None, 110, None, None, False, None, 0, None, None, 0],
        ["c", 1, 2, "path", None, None, None, 102, None, 2, True, None, 0, None, None, 0],
        ["c", 1, 2, "path", None, None, None, 102, None, 2, True, None, 1, None, 140, 1],
        ["c", 1, 2, "path", None, None, None, 102, None, 2, True, None, 2, None, None, 0],
    ],
    "observed": [
        [0, False, 50, 5.0, 0], [1, True, None, 5.0, 0], [10, None, None, 1.0, 2000], [11, True, None, None, 1000],
        [12, True, None, None, 99000], [13, None, None, None, 1000], [14, None, None, None, 2000],
        [15, False, None, None, 3000], [2, False, 100, 7.0, 0], [3, False, 98, 7.0, 0], [4, True, None, 7.0, 0],
        [5, None, None, 7.0, 0], [6, True, None, 5.0, 0], [7, None, None, 1.0, 1000], [8, True, None, 1.0, 1000],
        [9, True, None, 1.0, 2000],
    ],
    "sightings": [
        ["p", "b.pcap", "b", 1, "10.0.0.2", 7, 0, 0, 0, None, 1, 1, 1],
        ["p", "p.pcap", "a", 1, "10.0.0.1", 1, 0, 7, 249999999, 200, 2, 3, 5],
        ["p", "p.pcap", "a", 1, "10.0.0.1", 1, 1, 250000000, 250000000, None, 0, 9, 9],
        ["p", "p.pcap", "b", 1, "10.0.0.2", 2, 0, 0, 0, None, 0, 0, 0],
        ["q", "q.pcap", "a", 1, "10.0.0.1", 1, 2, 500000000, 749999999, None, 0, 1, 2],
    ],
    "sealed": [
        ["l", "multicast", "g:6", 4, 1001, 0, 4000000000, 0.8, 187.7, 2500000000, 2, 1],
        ["m", "multicast", "x:6", 2, 21, 0, 2000000000, 0.5, 5.3, 2000000000, 2, 0],
        ["m", "multicast", "y:6", 1, 10, 1000000, 1000000, None, None, None, 0, 0],
        ["m", "multicast", "z:6", 2, 6, 2000000000, 2000000000, None, None, 0, 2, 0],
        ["m", "unicast", "x:6", 2, 20, 0, 50000000, 20.0, 200.0, 50000000, 0, 0],
    ],
    "offsets": [
        [0, 1, 0, 2000, 1000, 250, 0.25, 3.5], [0, 1, 2000, EVER, 2000, -100, 0.0, None],
        [0, 2, 0, EVER, 5, 1, 0.0, 1.0], [1, 0, 0, 2250, 1250, -250, -0.2, 3.5],
        [1, 0, 1900, EVER, 1900, 100, -0.0, None], [2, 0, 0, EVER, 6, -1, -0.0, 1.0],
    ],
    "messages": [
        ["p", 5, "a", 1, "m", "g", "append", 1, None, 0, 1, 0], ["p", 5, "a", 1, "m", "g", "vote?", 1, True, 0, 1, 0],
    ],
    "renamed": [["b.pcap", "two", 1], ["p.pcap", "one", 5], ["q.pcap", "q", 2]],
    "samples": [
        ["answer", "b", "a", 50, 2000], ["one way", "a", "q", 10, 0], ["one way", "a", "q", 30, 0],
        ["reassembly", "a", "q", 165, 2000], ["repair", "a", "q", 130, 0], ["round trip", "a", "b", 70, 1000],
    ],
    "counts: pairs": [
        ["a", 1, 1, 0, 9, 4, 5, 2, 3, 2, 4, 1227], ["a", 1, 1, 1000, 0, 0, 0, 0, 5, 8, 8, 887],
        ["a", 1, 1, 2000, 9, 6, 3, 0, 2, 0, 6, 1021], ["a", 1, None, 0, 0, 0, 0, 0, 0, 1, 0, 131],
    ],
    "counts: streams": [
        ["a", 1, 1, "ack", 7, 1, 0, 1, 0, 0, 0, 0, 130, 100, 100, 0],
        ["a", 1, 1, "data", 7, 15, 10, 5, 2, 9, 8, 18, 2518, 100, 2300, 1],
        ["a", 1, 1, "data", 8, 2, 0, 2, 0, 0, 0, 0, 207, 100, 100, 0],
        ["a", 1, 1, "data", 9, 0, 0, 0, 0, 1, 2, 0, 280, 100, 200, 0],
        ["a", 1, None, "data", 7, 0, 0, 0, 0, 0, 1, 0, 131, 100, 100, 0],
    ],
    "counts: reassemblies": [["a", 1, 1, 2000, 2, 1]],
    "counts: histograms": [
        ["one way", "a", "b", 0, 1], ["one way", "a", "b", 1, 2], ["one way", "a", "b", 4, 5],
        ["one way", "a", "b", 5, 6],
    ],
    "counts: latencies": [["one way", "a", "b", 14, 3, 100, 1.035607, 1.046015, 1.046015, 1.046015, 115]],
    "counts: latencies_over_time": [
        ["one way", "a", "b", 0, 3, 3, 100, 1.005, 1.005, 1.005, 1.005, 111],
        ["one way", "a", "b", 1000, 11, 0, 104, 1.046015, 1.046015, 1.046015, 1.046015, 115],
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_a_table_has_what_is_within_the_limits_alone(tables: Tables, name: str) -> None:
    rounded = [[round(value, 6) if isinstance(value, float) else value for value in row] for row in tables[name]]
    assert rounded == EXPECTED[name]
