"""The tables of an analysis, made of a few rows by hand that stand on either side of each limit.

All of it is one query, as that takes less than many. A table is told as its rows in order, without the column names.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.analyze import consensus, counts, presence, topics, unseen
from spark.analyze.gather import gather, local_table
from spark.analyze.job import USED
from spark.analyze.places import Life, addresses_table, arrivals_table, lives_table
from spark.analyze.roundtrips import round_trips
from spark.schema import arrow_schema, frames_columns

NS = 10**9
MS = 10**6
POINTS = ["p", "q"]
ADDRESSES = {"a": ("10.0.0.1", 1), "b": ("10.0.0.2", 2), "c": ("10.0.0.3", 3), "all": ("239.0.0.1", 9)}
Rows = list[dict[str, Any]]
Tables = dict[str, list[list[Any]]]


def frame(point: str, time_ns: int, sender: str, to: str, counter: int, **more: Any) -> dict[str, Any]:
    (source, source_port), (destination, destination_port) = ADDRESSES[sender], ADDRESSES[to]
    return {
        "file": f"{point}.pcap", "capture_point": point, "time_ns": time_ns, "sender": sender, "incarnation": 1,
        "source": source, "source_port": source_port, "destination": destination, "size": 100,
        "destination_port": destination_port, "multicast": to == "all", "counter": counter, **more,
    }  # fmt: skip


def data(time_ns: int, counter: int, sequence: int, attempt: int = 0, to: str = "all", **more: Any) -> dict[str, Any]:
    return frame("p", time_ns, "a", to, counter, kind="data", channel=7, sequence=sequence, attempt=attempt, **more)


def ack(time_ns: int, counter: int, upto: int, ranges: list[int] | None = None, **more: Any) -> dict[str, Any]:
    told = {"kind": "ack", "ack_channel": 7, "ack_next": upto, "ack_held_us": 1, "ack_ranges": ranges, **more}
    return frame("p", time_ns, "b", "a", counter, **told)


def group(topic: str, sequence: int, count: int, retain: int = 0) -> dict[str, Any]:
    return {"topic": topic, "sequence": sequence, "count": count, "bytes": 10 * count, "at": 0, "retain": retain}


def frames_of_round_trips() -> Rows:
    """Each frame of channel 7 is one case; its sequence is its number."""
    us = 1000
    rows, number = Rows(), 0

    def case(acked: int, *resends: tuple[int, str], **more: Any) -> None:
        nonlocal number
        start, number = 1_000_000 * (number + 1), number + 1
        rows.append(data(start, 100 * number, number))
        rows.extend(
            data(start + at * us, 100 * number + place, number, place, to) for place, (at, to) in enumerate(resends, 1)
        )
        rows.append(ack(start + acked * us, 100 * number + 50, number + 1, **more))

    case(40)
    case(40, (30, "all"))  # sent again before
    case(40, (50, "all"))
    case(40, (30, "b"))
    case(40, (30, "c"))  # to another one alone
    case(40, (20, "c"), (30, "b"))
    case(40, (50, "b"))
    case(40, (20, "c"), (25, "c"), (30, "c"))  # to too many to know
    case(0)
    case(40, ack_held_us=99_999)  # or longer
    case(40, ack_held_us=45)  # longer than it took
    case(40, ack_ranges=[20, 21])  # tells of frame 20
    case(40, ack_ranges=[1] * 200)  # as many as there may be
    case(40, ack_channel=0)
    case(40, (20, "c"), (30, "c"))  # to another one alone, twice
    case(40, (40, "all"))
    case(40, (40, "b"))
    case(40)
    rows.append(data(18_030_000, 1801, 18, 1, "c", multicast=None))  # perhaps to all
    case(99_999, ack_held_us=99_998)
    rows.append(ack(3 * MS, 9000, 0))  # of nothing
    rows.append(ack(1_050_000, 9001, 2, ack_held_us=30))  # the second answer to the first frame
    rows += [data(20 * MS, 2000, 20), data(21 * MS, 2100, 201), ack(21 * MS + 7 * us, 2150, 1, [5] * 197 + [202])]
    rows += [  # channels with parity, and with frames that were given up
        frame("p", 22 * MS, "a", "all", 2200 + place, kind=kind, channel=channel)
        for place, (kind, channel) in enumerate((("parity", 8), ("skip", 9), ("parity", 9)))
    ]
    rows += [ack(23 * MS, 2250, 5, ack_channel=8), ack(23 * MS, 2251, 5, ack_channel=9)]
    return rows


def frames_of_announcements() -> Rows:
    def said(ms: int, kind: str = "announce", sender: str = "c") -> dict[str, Any]:
        return frame("q", ms * MS, sender, "all", ms, kind=kind, interval_ms=100, name=sender)

    return [said(0), said(150), said(301), said(400, "goodbye"), said(900, "goodbye"), said(320), said(5, sender="b")]


def frames_of_topics() -> Rows:
    def bundle(point: str, ms: int, *groups: dict[str, Any], to: str = "all", **more: Any) -> dict[str, Any]:
        return frame(point, ms * MS, "a", to, 30_000 + ms, kind="best", topics=list(groups), **more)

    return [
        bundle("p", 30_000, group("x", 1, 2), group("y", 1, 1)),
        bundle("p", 30_400, group("x", 1, 2)),  # again
        bundle("q", 30_001, group("x", 1, 2)),  # elsewhere
        bundle("p", 30_999, group("x", 3, 1)),
        bundle("p", 31_000, group("x", 4, 5)),
        bundle("p", 40_000, group("x", 4, 5, 2), to="c"),
        bundle("p", 45_000, group("x", 4, 5, 2), group("y", 1, 1, 2), to="c"),
        bundle("p", 50_000, group("z", 1, 1, 2), to="c"),
        bundle("p", 50_001, group("late", 1, 1, 2), to="c"),
        bundle("p", 39_999, group("early", 1, 1, 2), to="c"),
    ]


def lives() -> list[Life]:
    """The endpoint a lives at p, b and c at q; c is the second that has its address."""
    former = Life("former", 1, "former", ADDRESSES["c"], {"p": (1, 2)})
    return [
        Life("a", 1, "a", ADDRESSES["a"], {"p": (0, 99 * NS), "q": (5, 99 * NS)}, home="p"),
        Life("b", 1, "b", ADDRESSES["b"], {"p": (3, 99 * NS), "q": (0, 99 * NS)}, home="q"),
        former,
        Life("c", 1, "c", ADDRESSES["c"], {"p": (40 * NS, 99 * NS), "q": (0, 99 * NS)}, home="q"),
    ]


def said(spark: SparkSession) -> DataFrame:
    """What a model's endpoints say, at the point where each is seen best, and a little elsewhere."""
    rows: list[tuple[Any, ...]] = []

    def append(sender: str, term: int, at: int, previous: int, entries: int, commit: int, point: str = "") -> None:
        point = point or {"a": "p", "b": "q"}[sender]
        rows.append((point, at, sender, 1, "m", "g", "append", term, None, previous, entries, commit))

    def ask(sender: str, term: int, at: int, is_pre: bool) -> None:
        rows.append(("q", at, sender, 1, "m", "g", "vote?", term, is_pre, None, None, None))

    append("a", 1, 100, 0, 1, 0)
    append("a", 1, 130, 1, 2, 0)
    append("a", 1, 150, 0, 1, 0)  # again
    append("a", 1, 160, 3, 0, 1)
    append("a", 1, 230, 3, 0, 3)
    append("a", 1, 90, 0, 1, 0, "q")
    append("a", 1, 240, 3, 0, 3, "q")
    ask("b", 2, 300, False)
    ask("c", 2, 310, False)
    ask("c", 2, 320, True)
    ask("b", 3, 330, True)
    append("b", 4, 400, 3, 1, 3)
    append("b", 4, 420, 4, 0, 4)
    append("b", 4, 450, 4, 1, 5)  # committed before it was first seen
    schema = (
        "capture_point string, time_ns bigint, sender string, incarnation bigint, model string, group string, "
        "kind string, term bigint, pre boolean, previous_index bigint, entries bigint, commit_index bigint"
    )
    return local_table(spark, rows, schema)


def seen(spark: SparkSession) -> DataFrame:
    """Sightings with silences of either side of each limit: one and a half announced intervals, and the lease."""
    rows: list[tuple[Any, ...]] = []

    def bins(sender: str, interval_ms: int | None, *spans: tuple[float, float]) -> None:
        rows.extend(("p", sender, 1, round(f * MS), round(t * MS), interval_ms) for f, t in spans)

    bins("short", 200, (0, 100), (400, 400), (700.001, 800))
    bins("long", 200, (0, 0), (1000, 1000), (2000.001, 2001))
    bins("unknown", None, (0, 0), (1500, 1500), (3000.001, 3001), (8001.001, 8001.1))
    bins("within", 200, (0, 900), (100, 200), (1201, 1300))
    schema = "point string, sender string, incarnation bigint, first bigint, last bigint, interval_ms bigint"
    return local_table(spark, rows, schema)


FATES = (
    "kind string, sender string, incarnation bigint, channel bigint, sequence bigint, attempt bigint, receiver int, "
    "counter bigint, size int, sent_ns bigint, arrived_ns bigint, copies bigint, lost boolean, under_way_ns bigint, "
    "interval bigint, fragment_index bigint, fragments bigint"
)


def fates(spark: SparkSession) -> DataFrame:
    """Deliveries of channels of a: each sequence is a case. Channel 7 is acknowledged below 5, 8 has parity."""
    rows: list[tuple[Any, ...]] = []

    def sent(sequence: int, attempt: int, sent_ns: int | None, way: int | None, copies: int = 1, kind: str = "data",
             index: int | None = None, receiver: int | None = 1, channel: int = 7, known: bool = True,
             ) -> None:  # fmt: skip
        is_lost = None if sent_ns is None or receiver is None or not known else way is None
        arrived = None if way is None else (sent_ns or 1000) + way
        under_way = None if sent_ns is None else way
        at = sent_ns if sent_ns is not None else arrived or 0
        rows.append((kind, "a", 1, channel, sequence, attempt, receiver, len(rows), 100 + sequence, sent_ns, arrived,
                     None if receiver is None else copies if way is not None else 0, is_lost, under_way,
                     at - at % 1000, index, 3))  # fmt: skip

    sent(0, 0, 100, 10)  # nothing wrong
    sent(1, 0, 100, None)
    sent(1, 1, 200, 30)  # repaired
    sent(2, 0, 100, 10, copies=3)
    sent(2, 1, 200, 10)  # for nothing
    sent(11, 0, 2100, None)
    sent(11, 1, 2200, None)  # never
    sent(3, 0, 100, None, channel=8)  # mended
    sent(4, 0, 100, None)  # only the capture missed it
    sent(5, 2, None, 10)  # the sender has no capture
    sent(6, 1, None, 10, kind="group")
    sent(7, 0, None, 10)
    sent(8, 0, 2100, 40, index=0)
    sent(9, 0, 2200, 10, index=1)
    sent(9, 1, 2300, 10, index=1)
    sent(10, 0, 2300, 5, index=2)
    sent(20, 0, 2100, 40, index=0)
    sent(21, 0, 2100, None, index=1)
    sent(22, 0, 2100, 40, index=2)
    sent(30, 0, 100, None, kind="ack")
    sent(31, 0, 100, None, receiver=None)
    sent(4, 0, 100, None, channel=8)  # not acknowledged yet
    sent(40, 0, 100, None, channel=9, known=False)  # no capture at the receiver meanwhile
    sent(40, 1, 200, None, channel=9, known=False)
    sent(13, 0, None, 10)  # of whom the sender has no capture, as also of the following
    sent(13, 1, None, 10)
    sent(14, 0, None, 10, kind="group")
    sent(14, 1, None, 10, kind="group")
    sent(15, 2, None, 10, kind="group")
    return local_table(spark, rows, FATES)


def samples(spark: SparkSession) -> DataFrame:
    """Measured times: of one pair a hundred, of another three of which one is negative, of the last only that."""
    rows = [("round trip", "a", "b", 0, 1000 * number) for number in range(1, 101)]
    rows += [("round trip", "a", "c", 1000 * number, value) for number, value in enumerate((-5, 0, 7000))]
    rows += [("round trip", "c", "a", 0, -1)]
    return local_table(spark, rows, "measure string, sender string, receiver string, interval bigint, value_ns bigint")


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """All tables by one query."""
    columns = arrow_schema(frames_columns(USED))
    rows = [*frames_of_round_trips(), *frames_of_announcements(), *frames_of_topics()]
    full = [{name: row.get(name) for name in columns.names} for row in rows]
    frames = spark.createDataFrame(pa.Table.from_pylist(full, schema=columns))
    known = lives()
    vantage = local_table(
        spark, [("a", 1, "p"), ("b", 1, "q"), ("c", 1, "q")], "sender string, incarnation bigint, point string"
    )
    addresses, homes = addresses_table(spark, known, POINTS), lives_table(spark, known, POINTS)
    proven = local_table(
        spark, [("a", 1, 7, 1, 5, False), ("a", 1, 8, 1, 4, True), ("a", 1, 9, 1, 99, False)],
        "sender string, incarnation bigint, channel bigint, receiver int, upto bigint, parity boolean",
    )  # fmt: skip
    troubled = unseen.with_unseen(counts.troubled(fates(spark)), proven)
    buckets = counts.histogram(samples(spark))
    found = gather(
        {
            "round trips": round_trips(frames, addresses),
            "acknowledged": unseen.acknowledged(frames, addresses, homes),
            "announcements": presence.announcements(frames),
            "silences": presence.silences(seen(spark)),
            "topics": topics.topics(frames, vantage, NS),
            "late joiners": topics.late_joiners(frames, vantage, addresses, arrivals_table(spark, known)),
            "leaders": consensus.leaders(said(spark), vantage),
            "commits": consensus.commits(said(spark), vantage, 50),
            "troubled": troubled.drop("sender", "incarnation"),
            "repairs": counts.repairs(troubled),
            "reassemblies": counts.reassemblies(fates(spark)).drop("sender", "incarnation", "kind", "channel"),
            "latencies": counts.percentiles(buckets, ["sender", "receiver"]),
        },
        1000,
    )
    return {name: sorted(([*row.values()] for row in table.to_pylist()), key=str) for name, table in found.items()}


EXPECTED: Tables = {
    # of the frames that are missing, some were sent again before, and some are answered by nothing that tells
    "round trips": [["p", "a", 1, "b", sent * MS, way] for sent, way in (
        (1, 39_000), (11, -5_000), (15, 39_000), (16, 39_000), (17, 39_000), (19, 1_000), (21, 6_000), (3, 39_000),
        (5, 39_000), (7, 39_000))],
    "acknowledged": [["a", 1, 7, 1, 20, False], ["a", 1, 8, 1, 5, True]],
    "announcements": [["q", "b", 1, 1, None, 0, 0], ["q", "c", 1, 4, 151 * MS, 1, 2]],
    "silences": [
        ["p", "long", 1, 0, 1000 * MS, 200, False],
        ["p", "long", 1, 1000 * MS, 2000 * MS + 1000, 200, True],
        ["p", "short", 1, 400 * MS, 700 * MS + 1000, 200, False],
        ["p", "unknown", 1, 1500 * MS, 3000 * MS + 1000, 1000, False],
        ["p", "unknown", 1, 3001 * MS, 8001 * MS + 1000, 1000, True],
        ["p", "within", 1, 900 * MS, 1201 * MS, 200, False],
    ],
    "topics": [
        ["a", 1, "x", 30 * NS, 3, 30, 2, 3], ["a", 1, "x", 31 * NS, 5, 50, 1, 4], ["a", 1, "y", 30 * NS, 1, 10, 1, 1],
    ],
    "late joiners": [["a", 1, "c", 1, 3, 40 * NS, 10 * NS]],
    "leaders": [
        ["m", "g", 1, "a", 100, 230, None, 0, 3, 3],
        ["m", "g", 2, None, None, None, None, 2, None, None],
        ["m", "g", 4, "b", 400, 450, 160, 0, 5, 5],
    ],
    "commits": [["commit", who, "model m", took, at] for who, took, at in (
        ("a", 100, 100), ("a", 100, 100), ("a", 60, 100), ("b", 20, 400))],
    "troubled": [
        [7, 1, 1, 1, 1, 0, 1, 0, 0, 130, False, False],
        [7, 1, 11, 0, 2, 2000, 1, 0, 0, None, False, False],
        [7, 1, 13, 2, 0, 1000, 1, 1, 0, None, False, False],
        [7, 1, 14, 2, 0, 1000, 1, 1, 0, None, False, False],
        [7, 1, 15, 1, 0, 1000, 2, 0, 1, None, False, False],
        [7, 1, 2, 2, 0, 0, 1, 1, 0, None, False, False],
        [7, 1, 21, 0, 1, 2000, 0, 0, 0, None, False, False],
        [7, 1, 4, 0, 1, 0, 0, 0, 0, None, True, False],
        [7, 1, 5, 1, 0, 1000, 2, 0, 2, None, False, False],
        [7, 1, 6, 1, 0, 1000, 1, 0, 1, None, False, False],
        [7, 1, 9, 2, 0, 2000, 1, 1, 0, None, False, False],
        [8, 1, 3, 0, 1, 0, 0, 0, 0, None, False, True],
        [8, 1, 4, 0, 1, 0, 0, 0, 0, None, False, False],
        [9, 1, 40, 0, 0, 0, 1, 0, 0, None, False, False],
    ],
    "repairs": [
        ["a", 1, 1, 0, 3, 3, 1, 0, 1, 1, 0], ["a", 1, 1, 1000, 5, 7, 2, 4, 0, 0, 0],
        ["a", 1, 1, 2000, 2, 2, 1, 0, 0, 0, 1],
    ],
    "reassemblies": [[20, 1, 2000, 3, None], [8, 1, 2000, 3, 165]],
    "latencies": [
        ["a", "b", 100, 0, 1000, 49_766, 89_777, 99_219, 100_216, 100_000],
        ["a", "c", 2, 1, 0, 1, 7010, 7010, 7010, 7000],
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_a_table_has_what_is_within_the_limits_alone(tables: Tables, name: str) -> None:
    rounded = [[round(value) if isinstance(value, float) else value for value in row] for row in tables[name]]
    assert rounded == EXPECTED[name]
