"""What the charts, the page and the verdict show at their limits: exactly so much, and one more."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from spark.analyze.locate import BOTH, EVERYTHING, INCOMING, Pair, places
from spark.analyze.verdict import NOTE, verdict
from spark.measures.sketch import bucket_of, value_of
from spark.report import charts, svg, trade_off
from spark.report.page import _bounds, _pairs, _sure, _worst
from tests.spark.test_recorded_words import NS, leader, life, pair, result, silence, times

MINUTE, HOUR = 60, 3600
ROUND_STEPS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 4 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR,
)  # fmt: skip


@pytest.mark.parametrize("place", range(len(ROUND_STEPS)))
def test_an_axis_of_time_has_nine_ticks_at_most_at_times_that_people_count_in(place: int) -> None:
    step = ROUND_STEPS[place]
    ticks = [at for at, _ in svg.time(0, round(8 * step * NS)).ticks]
    assert ticks == [round(number * step * NS) for number in range(9)]
    more = [at for at, _ in svg.time(0, round(8.01 * step * NS)).ticks]
    following = (*ROUND_STEPS, 2 * 86400)[place + 1]
    assert more[1] - more[0] == round(following * NS)


def test_an_axis_of_time_tells_days_only_where_its_ticks_are_days() -> None:
    assert [label for _, label in svg.time(0, 4 * 43200 * NS).ticks][:2] == ["00:00", "06:00"]
    assert [label for _, label in svg.time(0, 8 * 43200 * NS).ticks][:3] == ["00:00", "12:00", "00:00"]


def labels(low: float, high: float) -> list[float]:
    return [float(label) for _, label in svg.logarithmic(low, high, 0, 100, lambda value: f"{value:g}").ticks]


def test_a_logarithmic_axis_of_exactly_one_or_three_decades_has_the_denser_ticks() -> None:
    assert labels(1, 10) == [1, 1.5, 2, 2.5, 3, 4, 5, 7, 10]
    assert labels(1, 1000) == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    nothing = svg.logarithmic(0, 0, 0, 100, str)
    assert [nothing.place(0), nothing.place(1e-12), nothing.place(1)] == pytest.approx([50, 50, 100])


def test_a_line_shows_the_values_of_150_points_and_of_no_more() -> None:
    axis = svg.linear(0, 200, 0, 100, str)

    def shown(count: int) -> int:
        points = [(float(x), 1.0) for x in range(count)]
        return "".join(svg.lines([svg.Line("a", points, 0)], axis, axis, str)).count("<circle")

    assert [shown(150), shown(151)] == [150, 0]


def pairs_of(count: int) -> list[Pair]:
    return [(f"e{number:02}", "z") for number in range(count)]


def test_a_heat_map_has_24_pairs_those_that_lost_most() -> None:
    rows = [pair(*ends, 1000, number) for number, ends in enumerate(pairs_of(26))]
    html = charts.loss_map(result(pairs=rows))
    sides = re.findall(r'text-anchor="end" class="label">(e\d\d)', html)
    assert sides == [f"e{number:02}" for number in range(25, 1, -1)]
    assert "2 other pairs, that lost less: see Pairs" in html
    assert "1 other pairs" in charts.loss_map(result(pairs=rows[:25]))
    assert "other pairs" not in charts.loss_map(result(pairs=rows[:24]))


def test_a_cell_of_a_heat_map_is_the_darker_the_nearer_it_is_to_the_worst() -> None:
    rows = [pair("A", "B", 100, lost, 36_000 + lost) for lost in (1, 2, 4, 0)]
    html = charts.loss_map(result(pairs=rows))
    assert re.findall(r'class="(\w+)"(?: fill-opacity="([\d.]+)")?><title>', html) == [
        ("loss", "0.363"), ("loss", "0.575"), ("loss", ""), ("sound", ""),
    ]  # fmt: skip
    assert "4 % lost in one interval" in html


def test_axes_of_durations_span_all_lines() -> None:
    short, long = int(bucket_of([2e6])[0]), int(bucket_of([5e8])[0])
    rows = [
        {"measure": "round trip", "sender": name, "receiver": "z", "bucket": bucket, "count": 5}
        for name, bucket in (("a", short), ("b", long), ("b", (short + long) // 2))
    ]
    html = charts.distribution(result(histograms=rows), "round trip")
    assert {float(x) for x in re.findall(r"[ML]([\d.]+) ", html)} == {svg.LEFT, 455.0, svg.WIDTH - svg.RIGHT}
    over = [
        {**times("round trip", 9, p99, name, "z"), "interval": 36_001 * NS} for name, p99 in (("a", 3e6), ("b", 9e8))
    ]
    html = charts.percentiles_over_time(result(latencies_over_time=over), "round trip")
    assert sorted(float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)", html))[::3] == [svg.TOP, svg.HEIGHT - svg.BOTTOM]


def test_a_timeline_has_24_lives_those_given_up_and_then_those_silent_most_often() -> None:
    lives = [life(f"e{number:02}") for number in range(27)]
    silences = [silence(f"e{number:02}", point, False) for number in range(3, 27) for point in "pq"]
    silences += [silence("e00", "p", True), silence("e01", "p", False)]
    html = charts.timeline(result(endpoints=lives, silences=silences))
    sides = re.findall(r'text-anchor="end" class="label">(e\d\d)', html)
    assert sides == ["e00", *(f"e{number:02}" for number in range(3, 26))]
    assert "3 other lives" in html


@pytest.mark.parametrize(
    ("chart", "table"), [(charts.distribution, "histograms"), (charts.percentiles_over_time, "latencies_over_time")]
)
def test_a_chart_of_lines_has_the_six_pairs_with_most_samples_in_order(chart: Any, table: str) -> None:
    rows: list[dict[str, Any]] = []
    for number, ends in enumerate(pairs_of(8)):
        count = 200 if number == 7 else 100 if number < 6 else 50
        row = times("round trip", count // 2, 2e6 + number, *ends)
        rows += [{**row, "interval": at * NS, "bucket": at - 35_000} for at in (36_001, 36_002)]
        rows.append({**row, "measure": "other", "count": 9000, "interval": 36_001 * NS, "bucket": 1})
    html = chart({**result(), table: rows}, "round trip")
    legend = re.findall(r'<i class="k(\d)"></i>(e\d\d)', html)
    assert legend == [("0", "e07"), *((str(n + 1), f"e{n:02}") for n in range(5))]


def test_an_axis_of_durations_leaves_out_a_thousandth_and_no_more() -> None:
    assert charts._shortest(Counter({10: 1, 900: 999})) == value_of(900)
    assert charts._shortest(Counter({10: 2, 900: 998})) == value_of(10)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("x" * 27,), "x" * 27), (("ab" * 14,), "ababab…" + "ab" * 10),
        (("a" * 12, "b" * 12), f"{'a' * 12} → {'b' * 12}"),
        (("abc" * 5, "b" * 10), f"abc…bcabcabc → {'b' * 10}"),
        (("c" * 13, "b" * 12), f"ccc…{'c' * 8} → {'b' * 12}"), (("a" * 20, "b" * 4), f"{'a' * 20} → bbbb"),
    ],
)  # fmt: skip
def test_names_beside_a_chart_have_27_letters_with_their_arrow(names: tuple[str, ...], shown: str) -> None:
    assert charts._side(*names) == shown


def test_rates_are_of_as_many_intervals_as_give_five_messages() -> None:
    def rates(counts: dict[int, int], seconds: int = 100) -> list[tuple[float, float | None]]:
        trace = {"start_ns": 0, "end_ns": seconds * NS, "interval_ns": NS}
        return list(charts._rates({"trace": trace}, Counter({at * NS: count for at, count in counts.items()})))

    assert len(rates({0: 500})) == 100
    assert len(rates({0: 499})) == 50
    assert len(rates({0: 101})) == len(rates({99: 100})) == 20
    assert rates({0: 7, 3: 8, 4: 85})[:2] == [(2.5 * NS, 20.0), (7.5 * NS, 0.0)]
    assert rates({9: 3}, 10) == [(0, 0.3), (10 * NS, 0.3)]
    moment = {"start_ns": 10 * NS, "end_ns": 10 * NS, "interval_ns": NS}
    assert charts._rates({"trace": moment}, Counter({10 * NS: 3})) == [(10 * NS, 3.0)] * 2
    assert rates({0: 15, 6: 1}, 7) == [(1.5 * NS, 5.0), (4.5 * NS, 0.0), (6.5 * NS, 1.0)]


def test_percentiles_over_time_are_at_the_middles_of_intervals() -> None:
    trace = {"start_ns": 5 * NS + 1, "end_ns": 7 * NS + 2, "interval_ns": NS}
    assert charts._line({"trace": trace}, {5 * NS: 1.0, 7 * NS: 3.0}) == [
        (5.5 * NS, 1.0), (6.5 * NS, None), (7 * NS + 2, 3.0),
    ]  # fmt: skip
    moment = {"start_ns": 6 * NS, "end_ns": 6 * NS, "interval_ns": NS}
    assert charts._line({"trace": moment}, {6 * NS: 1.0}) == [(6 * NS, 1.0)]


def test_numbers_and_topics_of_a_chart_are_short() -> None:
    assert [charts._number(value) for value in (999.94, 1000, 12345.6, 0.12345)] == [
        "999.9",
        "1,000",
        "12,346",
        "0.1235",
    ]
    topics = ["t/x", "$glue/model/m/log", "$glue/log"]
    assert [charts.topic_name(topic) for topic in topics] == ["t/x", "model m", "log"]


def test_resends_are_bars_of_a_pixel_at_least() -> None:
    def row(interval: int, resends: int, spare: int | None) -> dict[str, Any]:
        return {"interval": interval * NS, "resends": resends, "spare": spare}

    found = result({"end_ns": 46_000 * NS}, repairs=[row(36_000, 5, 5), row(36_001, 1, None), row(36_000, 3, 0)])
    html = charts.resends(found)
    assert re.findall(r'width="([\d.]+)"', html) == ["1.0"] * 3
    assert set(re.findall(r"<title>[\d:]+: ([^<]+)<", html)) == {"3 needed, 5 not", "1 needed, 0 not"}
    assert charts.resends(result(repairs=[row(36_000, 0, 0)])) == ""
    mostly_spare = charts.resends(result(repairs=[row(36_001, 10, 9)]))
    assert re.findall(r'y="([\d.]+)" width="[\d.]+" height="([\d.]+)"', mostly_spare) == [
        ("202.6", "21.4"), ("10.0", "192.6"),
    ]  # fmt: skip
    one = charts.resends(result(repairs=[row(36_001, 1, 0)]))
    assert re.findall(r'text-anchor="end" class="label">([^<]+)', one) == ["0", "1"]


@pytest.mark.parametrize(("count", "sure"), [(9, ""), (10, "p50 p90"), (99, "p50 p90"), (100, "p50 p90 p99"),
                                             (999, "p50 p90 p99"), (1000, "p50 p90 p99 p999")])  # fmt: skip
def test_a_percentile_is_in_the_table_from_its_number_of_samples_on(count: int, sure: str) -> None:
    (row,) = _sure([times("commit", count, 1e6)])
    assert [name for name in ("p50", "p90", "p99", "p999") if row[f"{name}_ns"] is not None] == sure.split()


def test_the_page_tells_the_largest_error_of_clocks_and_the_lossiest_pairs_first() -> None:
    clocks = [{"bound": bound} for bound in (1500.0, None, 2500.0)]
    assert _bounds({"clocks": clocks}).endswith("wrong by at most 2.5 µs.")
    assert _bounds({"clocks": clocks[1:2]}) == ""
    told = _pairs(result(pairs=[pair("A", "B", 0, 0), pair("A", "C", 100, 1), pair("B", "C", 10, 5)]))
    assert [(row["sender"], row["receiver"], row["loss"]) for row in told] == [
        ("B", "C", 0.5), ("A", "C", 0.01), ("A", "B", None),
    ]  # fmt: skip
    rows, _ = _worst([{"late": value} for value in [None, 0.5, *[0] * 999, 2]])
    assert [row["late"] for row in rows[:3]] == [2, 0.5, None]
    rows, _ = _worst([{"late": None}, *({"x": 1, "late": 0} for _ in range(999)), {"late": 1}])
    assert rows[0] == {"late": 1}


def settings(p99: float | None, overhead: float | None, **named: str) -> dict[str, Any]:
    return {**named, "p50_ms": 1.0, "p99_ms": p99, "overhead": overhead, "delivered": 10, "expected": 10}


def numbers(html: str) -> list[str]:
    """The labels of points; the ticks have units."""
    return re.findall(r'class="label">([\d, …]+)<', html)


def test_sets_of_settings_share_a_label_only_if_they_are_near_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numbers(trade_off.chart([settings(None, 0.1), settings(2.0, None), settings(3.0, 0.2)])) == ["3"]
    assert trade_off.name_of(settings(1.0, 0.1)) == "as it is"
    assert trade_off.name_of(settings(1.0, 0.1, fec="on", rate="3")) == "fec on, rate 3"
    alone = trade_off.chart([settings(2.0, 0.2)])
    assert re.findall(r'middle" class="label">([^<]+)', alone) == ["19 %", "19.5 %", "20 %", "20.5 %", "21 %"]

    def shared(across: float, up: float) -> bool:
        def axis(at: float) -> svg.Axis:
            return svg.Axis(lambda value: 100.0 if value < at else 100.0 + (across if at == 0.5 else up), [])

        monkeypatch.setattr(svg, "linear", lambda *_: axis(0.5))
        monkeypatch.setattr(svg, "logarithmic", lambda *_: axis(5e6))
        return numbers(trade_off.chart([settings(1.0, 0.1), settings(9.0, 0.9)])) == ["1, 2"]

    assert [shared(13.9, 13.9), shared(14, 0), shared(0, 14), shared(-13.9, 0), shared(0, -14)] == [
        True, False, False, True, False,
    ]  # fmt: skip


def of(kinds: dict[Pair, tuple[int, int]], notable: float = 0.01) -> list[tuple[str, str]]:
    return [(place.kind, place.endpoint) for place in places(kinds, notable)]


def test_losses_are_put_down_to_a_place_from_50_datagrams_and_3_losses_on() -> None:
    ends = [("a", "b"), ("c", "b"), ("a", "c"), ("c", "a")]

    def to_b(sent: int, lost: int) -> list[tuple[str, str]]:
        return of({one: (sent, lost if one[1] == "b" else 0) for one in ends})

    assert to_b(50, 3) == to_b(300, 3) == [(INCOMING, "b")]
    assert to_b(49, 3) == to_b(50, 2) == to_b(301, 3) == []


def test_losses_within_a_factor_of_five_have_one_cause() -> None:
    ends = [(one, other) for one in "abc" for other in "abc" if one != other]

    def others(lost: int) -> list[tuple[str, str]]:
        return of({one: (10_000, 500 if "b" in one else lost) for one in ends}, 0.001)

    assert others(100) == [(EVERYTHING, "")]
    assert others(99) == [(BOTH, "b")]  # of what is left, either link may be the cause
    assert of({("a", "b"): (100, 5), ("c", "b"): (100, 5)}) == [(INCOMING, "b")]
    assert of({("a", "b"): (100, 5), ("c", "b"): (100, 5), ("a", "c"): (100, 5)}) == [(EVERYTHING, "")]


def test_a_verdict_of_pairs_that_nobody_observed_and_of_leaders_without_a_gap() -> None:
    ends = [("A", "B"), ("C", "B"), ("A", "C")]
    rows = [pair(*one, 0 if one[1] == "C" else 1000, 20 if one[1] == "B" else 0) for one in ends]
    (finding,) = verdict(result(pairs=rows))
    assert finding.text.endswith("; the pairs without such a cause lost 0 %.")
    (finding,) = verdict(result(leaders=[leader("A", 1, None), leader("B", 2, None)]))
    assert finding == (NOTE, "The model m changed its leader, and was at most 0 ns without a leader.")


def test_buckets_are_as_fine_as_they_are_told_to_be() -> None:
    first, last = bucket_of([1000, 10**12]).tolist()
    assert last - first == 2073
    assert bucket_of([0, 1]).tolist() == [0, 0]
