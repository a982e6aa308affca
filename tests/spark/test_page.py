"""What the report shows of a trace that is too large to be shown whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spark.analyze.result import replaced
from spark.measures.sketch import bucket_of
from spark.report import charts, svg
from spark.report.page import MOST_ROWS, _sure, section, table

NS = 10**9
TRACE = {"start_ns": 0, "end_ns": 100 * NS, "interval_ns": NS}


def life(name: str) -> dict[str, Any]:
    return {"endpoint": name, "incarnation": 1, "first_ns": 0, "last_ns": 100 * NS}


def test_a_table_that_is_too_long_shows_the_rows_with_most_losses() -> None:
    rows = [{"receiver": f"r{number}", "lost": number} for number in range(MOST_ROWS + 2)]
    html = table(rows)
    assert html.count("<tr>") == MOST_ROWS + 1
    assert f"<td>r{MOST_ROWS + 1}</td>" in html
    assert "<td>r1</td>" not in html
    assert "2 more are in the tables" in html


def test_a_section_with_nothing_in_it_is_left_out_with_its_heading() -> None:
    assert section("Resends", "", "how many") == ""
    html = section("A & B", "<svg></svg>", "1 < 2")
    assert re.findall(r">([^<>]+)<", html) == ["A &amp; B", "1 &lt; 2"]
    assert "<svg></svg>" in html


def test_the_timeline_of_many_shows_who_was_given_up_and_says_how_many_it_leaves_out() -> None:
    lives = [life(f"endpoint {number}") for number in range(charts.MOST_ROWS + 5)]
    silence = {"point": "p", "sender": lives[-1]["endpoint"], "incarnation": 1, "from_ns": NS, "to_ns": 9 * NS}
    trace = {"start_ns": 0, "end_ns": 100 * NS}
    html = charts.timeline({"trace": trace, "endpoints": lives, "silences": [silence | {"expired": True}]})
    assert html.count('class="f0"') == charts.MOST_ROWS
    assert f">{lives[-1]['endpoint']}<" in html
    assert "5 other lives" in html


def test_percentiles_of_few_samples_are_left_out_of_the_table() -> None:
    row = {"measure": "commit", "count": 50, **{f"{name}_ns": 7e6 for name in ("p50", "p90", "p99", "p999")}}
    (told,) = _sure([row])
    assert [told[f"{name}_ns"] for name in ("p50", "p90", "p99", "p999")] == [7e6, 7e6, None, None]


def x_of(html: str, words: str) -> float:
    """Where a label ends that is anchored at its end."""
    found = re.search(rf'<text x="([\d.]+)" y="[\d.]+" text-anchor="end" class="label">{re.escape(words)}<', html)
    assert found
    return float(found[1])


def test_labels_are_not_cut_at_the_left() -> None:
    pair = {"sender": "WWWWWWWWWWWW", "receiver": "MMMMMMMMMMMM"}
    row = {**pair, "interval": 0, "sent": 10, "arrived": 9, "lost": 1}
    html = charts.loss_map({"trace": TRACE, "pairs": [row]})
    assert x_of(html, "WWWWWWWWWWWW → MMMMMMMMMMMM") > 24 * 10  # pixels that a wide letter has at most
    topics = [{"topic": "t", "interval": second * NS, "messages": 123_456_789} for second in range(100)]
    assert x_of(charts.topic_rates({"trace": TRACE, "topics": topics}), "100,000,000/s") > 72


def heights(html: str) -> list[float]:
    """The heights of the points of the only line of a chart."""
    (path,) = re.findall(r'<path d="([^"]+)" class="line', html)
    return [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)]


def test_ticks_of_a_logarithmic_axis_are_as_dense_as_fits_its_decades() -> None:
    def ticks(low: float, high: float) -> list[float]:
        return [float(text) for _, text in svg.logarithmic(low, high, 0, 100, lambda value: f"{value:g}").ticks]

    assert ticks(1, 1e5) == [1, 10, 100, 1000, 10_000, 100_000]
    assert ticks(1, 100) == [1, 2, 5, 10, 20, 50, 100]
    assert ticks(1, 9) == [1, 1.5, 2, 2.5, 3, 4, 5, 7]


def test_a_chart_over_time_stays_within_its_plot() -> None:
    topics = [{"topic": "t", "interval": second * NS, "messages": 50} for second in range(102)]  # the trace ends at 100
    html = charts.topic_rates({"trace": TRACE, "topics": topics})
    (path,) = re.findall(r'<path d="([^"]+)" class="line', html)
    places = [float(x) for x in re.findall(r"[ML]([\d.]+) ", path)]
    assert max(places) <= svg.WIDTH - svg.RIGHT


def test_rates_below_one_an_interval_are_no_zigzag() -> None:
    topics = [{"topic": "t", "interval": second * NS, "messages": 1} for second in range(0, 100, 3)]
    drawn = heights(charts.topic_rates({"trace": TRACE, "topics": topics}))
    assert len(drawn) < 10
    assert max(drawn[:-1]) - min(drawn[:-1]) < 60  # of 214 pixels: none falls to zero
    busy = [{"topic": "t", "interval": second * NS, "messages": 50} for second in range(100)]
    assert len(heights(charts.topic_rates({"trace": TRACE, "topics": busy}))) == 100


def test_a_models_own_topics_are_one_and_called_by_its_name() -> None:
    topics = [{"topic": f"$glue/model/plant/{end}", "interval": 0, "messages": 10} for end in ("all", "to/1f", "to/2e")]
    html = charts.topic_rates({"trace": TRACE, "topics": [*topics, {"topic": "x", "interval": 0, "messages": 5}]})
    assert "model plant" in html
    assert "$glue" not in html
    assert html.count('class="line') == 2


def test_an_axis_of_durations_does_not_begin_at_odd_samples() -> None:
    counts = {0: 1, int(bucket_of(500_000)): 5000, int(bucket_of(900_000)): 5000}
    pair = {"measure": "round trip", "sender": "A", "receiver": "B"}
    html = charts.distribution(
        {"histograms": [{**pair, "bucket": b, "count": n} for b, n in counts.items()]}, "round trip"
    )
    labels = re.findall(r'class="label">([^<]+)<', html)
    assert labels
    assert not any(label.endswith(" ns") for label in labels)


def test_long_names_keep_their_ends() -> None:
    pair = {"sender": "plant-7/line-3/conveyor-017", "receiver": "plant-7/line-3/conveyor-018"}
    row = {**pair, "interval": 0, "sent": 10, "arrived": 9, "lost": 1}
    html = charts.loss_map({"trace": {"start_ns": 0, "end_ns": NS, "interval_ns": NS}, "pairs": [row]})
    assert ">pla…eyor-017 → pla…eyor-018<" in html


EVIL = '<script>alert("x")</script>&'


def test_names_from_the_network_are_text_on_the_page() -> None:
    html = table([{"sender": EVIL, "topic": f"home/{EVIL}", "count": 1}])
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 2


def test_a_page_that_cannot_be_written_leaves_the_one_before_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")

    def write() -> None:
        with replaced(path) as fresh:
            fresh.write_text("half of a")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write()
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "before"
