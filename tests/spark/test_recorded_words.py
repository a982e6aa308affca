"""The verdict and the page of small results with one thing wrong each, word for word, beside `recorded/analysis.json`.

Nothing here needs Spark. A change that is meant is taken over by `pytest tests/spark --rewrite`, and read in the diff.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from spark.analyze.locate import BOTH, EVERYTHING, INCOMING, OUTGOING, places
from spark.analyze.verdict import clock, duration, percent, verdict
from spark.measures.sketch import bucket_of
from spark.report import charts, page, svg, trade_off
from spark.report.page import _cell, _heading, _listed, _worst
from tests.spark.page import tags
from tests.spark.recordings import compare
from tests.spark.test_verdict import TABLES

NS = 10**9
MORE = ("histograms", "latencies_over_time", "topics", "sealed")
PAIRS = (("A", "B"), ("A", "C"), ("B", "A"), ("B", "C"), ("C", "A"), ("C", "B"))


def result(trace: dict[str, Any] | None = None, **tables: list[dict[str, Any]]) -> dict[str, Any]:
    told = {"start_ns": 36_000 * NS, "end_ns": 36_010 * NS, "interval_ns": NS, "points": ["here"], "left_out": []}
    return {"trace": told | (trace or {}), **{name: tables.get(name, []) for name in (*TABLES, *MORE)}}


def pair(sender: str, receiver: str, sent: int, lost: int, at: int = 36_001, **more: Any) -> dict[str, Any]:
    counts = {"sent": sent, "arrived": sent - lost, "lost": lost, "duplicates": 1, "later_attempts": 2}
    counts |= {"unobserved": 3, "bytes": 1000 * sent, **more}
    return {"sender": sender, "receiver": receiver, "interval": at * NS, **counts}


def pairs(lossy: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    return [pair(*ends, 1000, lossy.get(ends, 0)) for ends in PAIRS]


def repair(**changed: int | None) -> list[dict[str, Any]]:
    counts = {"unrepaired": 0, "frames": 5, "mended": 0, "repaired": 5, "missed": 0, "resends": 9, "spare": 2}
    return [{"sender": "A", "receiver": "B", "interval": 36_001 * NS, **counts, **changed}]


def times(measure: str, count: int, p99: float, sender: str = "A", receiver: str = "B") -> dict[str, Any]:
    row = {"measure": measure, "sender": sender, "receiver": receiver, "count": count, "least_ns": 1000}
    return row | {
        "p50_ns": p99 / 3, "p90_ns": p99 / 2, "p99_ns": p99, "p999_ns": p99 * 2, "most_ns": int(p99 * 3),
    }  # fmt: skip


def life(name: str, incarnation: int = 1, home: str | None = None) -> dict[str, Any]:
    return {"endpoint": name, "id": f"id-{name}", "incarnation": incarnation, "home": home,
            "first_ns": 36_002 * NS, "last_ns": 36_009 * NS}  # fmt: skip


def silence(name: str, point: str, expired: bool, incarnation: int = 1) -> dict[str, Any]:
    return {"sender": name, "incarnation": incarnation, "point": point, "from_ns": 36_003 * NS,
            "to_ns": 36_003 * NS + 6_500_000_000, "expired": expired}  # fmt: skip


def leader(name: str | None, term: int, vacant: int | None) -> dict[str, Any]:
    return {"model": "m", "leader": name, "term": term, "vacant_ns": vacant}


def file(**changed: Any) -> dict[str, Any]:
    return {"file": "a.pcap", "dropped": None, "fault": None, "unread": None, "faults": 0, "fault_offset": 0, **changed}


def sealed(kind: str, missing: int, life: str = "l1") -> dict[str, Any]:
    return {"kind": kind, "missing": missing, "datagrams": 1000, "doubled": 10, "life": life, "sender": "10.0.0.1",
            "capture_point": "here"}  # fmt: skip


UNSEEN = [{"sender": "A", "receiver": "B", "unseen": 20}]
WRONG: dict[str, dict[str, Any]] = {
    "nothing": result(), "sound": result(pairs=pairs({})),
    **{f"A to B lost {lost}": result(pairs=pairs({("A", "B"): lost})) for lost in (0, 1, 2, 49, 50, 200)},
    "two pairs lost": result(pairs=pairs({("A", "B"): 20, ("B", "C"): 3})),
    "only two": result(pairs=[pair("A", "B", 1000, 20), pair("B", "A", 1000, 0, 36_005)]),
    "one pair, at times": result(pairs=[pair("A", "B", 500, 20), pair("A", "B", 500, 0, 36_002),
                                        pair("A", "B", 500, 1, 36_004), pair("B", "C", 0, 0)]),
    "all pairs": result(pairs=pairs(dict.fromkeys(PAIRS, 20))),
    "of B": result(pairs=pairs({ends: 20 for ends in PAIRS if "B" in ends} | {("A", "C"): 1})),
    "from B": result(pairs=pairs({ends: 20 for ends in PAIRS if ends[0] == "B"})),
    "to B": result(pairs=pairs({ends: 20 for ends in PAIRS if ends[1] == "B"})),
    "all of three pairs": result(pairs=[row for row in pairs(dict.fromkeys(PAIRS, 20)) if row["sender"] != "C"]),
    "mended": result(pairs=pairs({("A", "B"): 20}), repairs=repair(mended=15)),
    "mended only": result(pairs=pairs({("A", "B"): 20}), repairs=repair(mended=15, frames=0, repaired=0)),
    "one not repaired": result(pairs=pairs({("A", "B"): 2}), repairs=repair(unrepaired=1)),
    "some not repaired": result(pairs=pairs({("A", "B"): 2}), repairs=repair(unrepaired=1200, frames=0)),
    "no repair known": result(pairs=pairs({("A", "B"): 2}), repairs=repair(frames=0, repaired=0)),
    "repairs of few": result(pairs=pairs({("A", "B"): 2}), latencies=[times("repair", 99, 1e6)]),
    "repairs of many": result(pairs=pairs({("A", "B"): 2}), latencies=[
        times("repair", 100, 1e6), times("round trip", 100, 9e6)]),
    "repairs of two pairs": result(pairs=pairs({ends: 20 for ends in PAIRS if "B" in ends}), latencies=[
        times("repair", 100, 1e6), times("repair", 100, 5e6, "B", "C"), times("repair", 5, 9e6, "C", "B")]),
    "captures missed": result(pairs=pairs({("A", "B"): 20}), streams=UNSEEN),
    "captures missed some": result(pairs=pairs({("A", "B"): 60}), streams=UNSEEN),
    "missed by numbers": result(repairs=repair(missed=1200)),
    "given up": result(endpoints=[life("A"), life("B", home="b")],
                       silences=[silence("A", "p", True), silence("A", "q", False), silence("B", "b", True)]),
    "restarted": result(endpoints=[life("A"), life("A", 2), life("B")]),
    "clock set": result(clocks=[{"from": "a", "to": "b", "bound": None}, {"from": "a", "to": "c", "bound": 1500.0}]),
    "led": result(leaders=[leader("A", 1, None)], latencies=[times("commit", 100, 1e6, receiver="model m"),
                                                             times("commit", 50, 9e6, receiver="model m")]),
    "led by two": result(leaders=[leader("A", 1, None), leader(None, 2, 10), leader("B", 3, 1_500_000_000)]),
    "led by three": result(leaders=[leader("A", 1, None), leader("B", 2, 7_000_000), leader("A", 3, 5)],
                           latencies=[times("commit", 9, 1e6, receiver="model m")]),
    "leader unknown": result(leaders=[leader(None, 1, None)]),
    "damaged": result(files=[file(fault="bad block", fault_offset=12345, faults=1),
                             file(fault="bad block", fault_offset=1, faults=3, unread=4321, dropped=7),
                             file(dropped=1700)]),
    "namesakes": result({"namesakes": {"pi": ["a.pcap", "b.pcap"]}}),
    "sealed": result({"sealed": "no key was given"}, sealed=[sealed("unicast", 9), sealed("multicast", 10)]),
    "sealed lives": result({"sealed": "no key"}, sealed=[sealed("multicast", 0), sealed("multicast", 3, "l2"),
                                                         sealed("multicast", 30, "l2")]),
    **{f"round trips of {count}": result(latencies=[times("round trip", count, 2e6)]) for count in (9, 10, 99, 100)},
    "round trips of pairs": result(latencies=[times("round trip", 100, 2e6), times("round trip", 200, 3e6, "B", "C"),
                                              times("round trip", 3, 9e9, "C", "A")]),
    "many of a kind": result(clocks=[{"from": f"a{n}", "to": "b", "bound": None} for n in range(7)]),
    "five of a kind": result(clocks=[{"from": f"a{n}", "to": "b", "bound": None} for n in range(5)]),
}  # fmt: skip


def test_the_verdict_of_each_trouble(pytestconfig: pytest.Config) -> None:
    lines = []
    for name, found in WRONG.items():
        lines += [f"{name}:", *(f"  {finding.level}: {finding.text}" for finding in verdict(found))]
    compare(lines, "verdicts", pytestconfig)


def marks(html: str) -> list[str]:
    """A drawing and its legend, a mark a line."""
    return re.sub(r"(</?(?:rect|text|path|circle|line|svg|p|span|div)\b)", r"\n\1", html).split("\n")


def test_the_charts_of_a_small_result(pytestconfig: pytest.Config) -> None:
    histogram = [{"measure": "round trip", "sender": "A", "receiver": "B", "bucket": bucket_of(value), "count": count}
                 for value, count in ((500, 1), (5e5, 40), (5e6, 8))]  # fmt: skip
    over_time = [{"interval": at * NS, **times("round trip", 100, p99)} for at, p99 in ((36_001, 1e6), (36_003, 4e6))]
    counted = ("t", 36_001, 30), ("t", 36_002, 40), ("$glue/model/m", 36_004, 3), ("u", 36_009, 1)
    topics = [
        {"topic": name, "interval": at * NS, "messages": count, "bytes": 10 * count} for name, at, count in counted
    ]
    small = result(
        {"points": [f"p{number}" for number in range(8)], "left_out": ["rhythm"], "sealed": "x"},
        pairs=[*pairs({("A", "B"): 20, ("B", "C"): 3}), pair("A", "B", 100, 100, 36_005), pair("A", "B", 0, 0, 36_006)],
        repairs=[
            *repair(), *repair(interval=36_002 * NS, resends=4, spare=0), *repair(interval=36_003 * NS, spare=None),
        ],
        endpoints=[life("A"), life("B", 2), life("a very long name of an endpoint in the attic")],
        silences=[silence("A", "p", True), silence("A", "q", False)],
        histograms=histogram, latencies_over_time=over_time, topics=topics,
        latencies=[times("round trip", 99, 2e6)], clocks=[{"from": "a", "to": "b", "bound": 1.5e3, "drift": 2e-6}],
    )  # fmt: skip
    lines = []
    for html in (
        charts.loss_map(small), charts.distribution(small, "round trip"), charts.distribution(small, "one way"),
        charts.percentiles_over_time(small, "round trip"), charts.percentiles_over_time(small, "none"),
        charts.resends(small), charts.resends(result()), charts.timeline(small), charts.topic_rates(small),
        charts.topic_rates(result()), charts.loss_map(result()), charts.timeline(result()),
    ):  # fmt: skip
        lines += marks(html)
    sets = [
        {"fec": "on", "rate": 3, "p50_ms": 1.0, "p99_ms": 2.0, "overhead": 0.25, "delivered": 10, "expected": 10},
        {"fec": "off", "rate": 3, "p50_ms": 1.5, "p99_ms": 2.01, "overhead": 0.2501, "delivered": 9, "expected": 10},
        {"fec": "half", "rate": 3, "p50_ms": 1.0, "p99_ms": 40.0, "overhead": 0.5, "delivered": 10, "expected": 10},
        {"fec": "none", "rate": 3, "p50_ms": None, "p99_ms": None, "overhead": None, "delivered": 0, "expected": 10},
    ]
    lines += [*marks(trade_off.chart(sets)), *tags(trade_off.page(sets)), *tags(page(small))]
    assert trade_off.chart(sets[3:]) == ""
    assert [trade_off._listed(range(1, count)) for count in (7, 8)] == ["1, 2, 3, 4, 5, 6", "1, 2, 3, 4, 5, 6, …"]
    compare(lines, "charts", pytestconfig)


def test_axes_have_round_ticks_and_their_ends_where_they_are_put(pytestconfig: pytest.Config) -> None:
    lines = []
    for low, high, whole in (
        (0, 1, False),
        (0, 1, True),
        (3, 3, False),
        (0, 7, True),
        (-2.5, 97, False),
        (0, 1e6, False),
    ):
        axis = svg.linear(low, high, 10, 110, lambda value: f"{value:g}", whole)
        places = [round(axis.place(value), 3) for value in (low, (low + high) / 2, high)]
        lines.append(f"linear {low} {high} {whole}: {[label for _, label in axis.ticks]} {places}")
    for low, high in ((1, 1), (1, 2), (1, 9.9), (1, 10.5), (1, 999), (1, 1001), (0, 1), (5e5, 6e5)):
        axis = svg.logarithmic(low, high, 10, 110, lambda value: f"{value:g}")
        places = [round(axis.place(value), 3) for value in (low / 2, low, high, high * 2)]
        lines.append(f"logarithmic {low} {high}: {[label for _, label in axis.ticks]} {places}")
    for begin, seconds in ((0, 0), (36_000 * NS + 1, 0.5), (36_000 * NS, 8), (36_000 * NS, 8.1), (36_000 * NS, 480),
                           (36_000 * NS, 481), (0, 86400 * 8), (0, 86400 * 30)):  # fmt: skip
        axis = svg.time(begin, begin + int(seconds * NS), 10, 110)
        places = [round(axis.place(begin + int(share * seconds * NS)), 3) for share in (-1, 0, 0.5, 1, 2)]
        lines.append(f"time {begin} {seconds}: {[label for _, label in axis.ticks]} {places}")
    compare(lines, "axes", pytestconfig)
    assert [svg._nice(step) for step in (0.9, 1, 1.1, 2, 2.1, 5, 5.1, 10)] == [1, 1, 2, 2, 5, 5, 10, 10]
    assert svg.width_of("fW,Ab ") == 3.5 + 9.5 + 3.5 + 8.0 + 6.6 + 3.5
    assert [svg.left_of([]), svg.left_of(["x" * 20])] == pytest.approx([64, 148.0])


def test_cells_are_read_by_people_and_sorted_by_value() -> None:
    shown = {
        ("interval", 36_000_123_000_000): "10:00:00.123", ("p99_ns", 1.5e6): "1.5 ms", ("bound", 2e3): "2 µs",
        ("loss", 0.5): "50 %", ("drift", 2.5e-6): "2.50 ppm", ("sent", 1234): "1,234", ("incarnation", 1234): "1234",
        ("overhead", 0.01): "1 %",
    }  # fmt: skip
    for (column, value), text in shown.items():
        value = value if column != "interval" else 36_000 * NS + 123_400_000
        assert _cell(value, column) == f'<td class="number" data-value="{value!r}">{text}</td>'
    empty = '<td data-value=""></td>'
    assert _cell(None, "x") == _cell(float("inf"), "loss") == _cell(float("nan"), "loss") == empty
    assert [_cell(value, "x") for value in ("a<b", True, False)] == ["<td>a&lt;b</td>", "<td>yes</td>", "<td></td>"]
    assert _heading("longest_gap_ns") == "longest gap"
    assert _listed("abcdef") == "a, b, c, d, e, f"
    assert _listed("abcdefg") == "a, b, c, d, e, f and 1 more points"
    rows, told = _worst([{"x": number} for number in range(1001)])
    assert (rows[0], len(rows)) == ({"x": 0}, 1000)
    assert told == "<p>The 1,000 first rows; 1 more are in the tables beside this page.</p>"
    assert _worst([{"x": 1}] * 1000)[1] == ""
    rows, told = _worst([{"late": number or None, "p99_ns": number} for number in range(1002)])
    assert rows[0]["p99_ns"] == 1001
    assert "rows with the greatest “p99”; 2 more" in told


def test_numbers_round_at_their_limits() -> None:
    assert [duration(value) for value in (0, 999.4, 999.5, 1e3, 999_500, 1e6, 999.4e6, 999.5e6, -2e3, 12.3e9)] == [
        "0 ns", "999 ns", "1 µs", "1 µs", "1 ms", "1 ms", "999 ms", "1 s", "-2 µs", "12.3 s",
    ]  # fmt: skip
    assert [percent(share) for share in (0, 0.0012345, 0.0999, 0.1, 0.12345, 1)] == [
        "0 %", "0.12 %", "10 %", "10 %", "12.3 %", "100 %",
    ]  # fmt: skip
    assert clock(36_061 * NS) == "10:01:01"


def test_losses_have_one_place_only_where_all_its_pairs_lose() -> None:
    def found(lossy: dict[tuple[str, str], int], sent: int = 1000) -> list[tuple[str, str]]:
        counts = {ends: (sent, lossy.get(ends, 0)) for ends in PAIRS}
        return [(one.kind, one.endpoint) for one in places(counts, 0.01)]

    of_b = [ends for ends in PAIRS if "B" in ends]
    assert found(dict.fromkeys(PAIRS, 20)) == [(EVERYTHING, "")]
    assert found(dict.fromkeys(of_b, 20)) == [(BOTH, "B")]
    assert found(dict.fromkeys(of_b[1:], 20)) == [(OUTGOING, "B")]
    assert found({ends: 20 for ends in PAIRS if ends[1] == "B"}) == [(INCOMING, "B")]
    assert found({("A", "B"): 20}) == []
    assert found(dict.fromkeys(of_b, 9)) == [], "not of note"
    assert found({**dict.fromkeys(of_b, 100), **{ends: 20 for ends in PAIRS if "B" not in ends}}) == [(EVERYTHING, "")]
