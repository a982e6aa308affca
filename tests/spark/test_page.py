"""What the report shows of a trace that is too large to be shown whole."""

from __future__ import annotations

from typing import Any

from spark.report import charts
from spark.report.page import MOST_ROWS, table

NS = 10**9


def life(name: str) -> dict[str, Any]:
    return {"endpoint": name, "incarnation": 1, "first_ns": 0, "last_ns": 100 * NS}


def test_a_table_that_is_too_long_shows_the_rows_with_most_losses() -> None:
    rows = [{"receiver": f"r{number}", "lost": number} for number in range(MOST_ROWS + 2)]
    html = table(rows)
    assert html.count("<tr>") == MOST_ROWS + 1
    assert f"<td>r{MOST_ROWS + 1}</td>" in html
    assert "<td>r1</td>" not in html
    assert "2 more are in the tables" in html


def test_the_timeline_of_many_shows_who_was_given_up_and_says_how_many_it_leaves_out() -> None:
    lives = [life(f"endpoint {number}") for number in range(charts.MOST_ROWS + 5)]
    silence = {"point": "p", "sender": lives[-1]["endpoint"], "incarnation": 1, "from_ns": NS, "to_ns": 9 * NS}
    trace = {"start_ns": 0, "end_ns": 100 * NS}
    html = charts.timeline({"trace": trace, "endpoints": lives, "silences": [silence | {"expired": True}]})
    assert html.count('class="f0"') == charts.MOST_ROWS
    assert f">{lives[-1]['endpoint']}<" in html
    assert "5 other lives" in html


def test_long_names_keep_their_ends() -> None:
    pair = {"sender": "plant-7/line-3/conveyor-017", "receiver": "plant-7/line-3/conveyor-018"}
    row = {**pair, "interval": 0, "sent": 10, "arrived": 9, "lost": 1}
    html = charts.loss_map({"trace": {"start_ns": 0, "end_ns": NS, "interval_ns": NS}, "pairs": [row]})
    assert ">pla…eyor-017 → pla…eyor-018<" in html
