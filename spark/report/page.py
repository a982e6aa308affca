"""Page of the report: the verdict, then charts, then every table, sortable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from spark.analyze.verdict import ENOUGH, duration, pair_totals, percent, verdict
from spark.report import charts

Row = dict[str, Any]
Result = dict[str, Any]

MOST_ROWS = 1000
"""Most rows of a table on the page. The Parquet files beside the page have all rows."""

WORST = ("lost", "unrepaired", "longest_loss", "p99_ns", "late")
"""Columns that select the rows of a longer table: the rows with the highest values of the table's first such column."""

MOST_POINTS = 6
"""Most capture points named in the head of the page."""

TABLES = (
    ("endpoints", "Endpoints", "One row for each life. Home is the capture point at its own host."),
    (
        "latencies",
        "Times",
        "Percentiles over the whole trace, to half a percent; least and most are exact. What has too few samples for a "
        "percentile shows none.",
    ),
    (
        "streams",
        "Streams",
        "Each channel to each receiver. Sent and lost count datagrams, resends among them; unseen are lost ones that "
        "were acknowledged, so the capture missed them.",
    ),
    ("repairs", "Repairs", "Frames that were sent again, by interval. Spare resends were of what had arrived."),
    ("rhythm", "Order and rhythm", "Loss periods, reordering and jitter, by interval."),
    ("reassemblies", "Messages in fragments", "By interval; complete are those of which every fragment came."),
    ("clocks", "Clocks", "Offset and drift of capture points' clocks, each with its largest error."),
    ("announcements", "Announcements", "As each capture point saw them; late are gaps of 1.5 intervals and more."),
    ("silences", "Silences", "Times in which a capture point heard nothing of a life."),
    ("late_joiners", "Late joiners", "How long newcomers took to be told the retained values."),
    ("leaders", "Leaders of models", "One row for each term. Vacant is the time since an earlier leader was heard."),
    ("topics", "Topics", "Messages and bytes of payload, by interval."),
    (
        "sealed",
        "Sealed datagrams",
        "What is in the open, by sender and destination. Missing are numbers that this capture point did not see: of "
        "multicasts, lost ones; of unicasts, also those to others. Nothing of it is authenticated.",
    ),
    ("files", "Files", "What was read of each part of a capture, what was skipped as not glue's, and what is damaged."),
)

COMMITS = "From a leader's first append with an entry to its first one that tells that entry as committed."


def page(result: Result, title: str = "glue: what became of the traffic") -> str:
    """Return the report as self-contained HTML."""
    sections = [
        section("Loss over time", charts.loss_map(result)),
        section("Round trips", charts.distribution(result, "round trip")),
        section("Round trips over time", charts.percentiles_over_time(result, "round trip")),
        section("One-way delays", charts.distribution(result, "one way"), _bounds(result)),
        section("Resends", charts.resends(result)),
        section("Repair times", charts.distribution(result, "repair")),
        section("Commits of models", charts.distribution(result, "commit"), COMMITS),
        section("Who was there", charts.timeline(result)),
        section("Topics", charts.topic_rates(result)),
        section("Pairs", table(_pairs(result)), "What each endpoint sent to each other's capture point."),
        *[section(name, table(_sure(result.get(key, ()))), about) for key, name, about in TABLES],
    ]
    return document(title, _about(result) + _verdict(result), sections)


def _sure(rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows of `latencies` without percentiles of too few samples. Other rows stay unchanged."""
    if not rows or "p99_ns" not in rows[0]:
        return rows
    return [row | {f"{name}_ns": None for name, enough in ENOUGH.items() if row["count"] < enough} for row in rows]


def document(title: str, head: str, sections: Sequence[str]) -> str:
    """Return a page of these sections, with its style and script."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_resource("page.css")}</style></head><body>'
        f"<main><h1>{escape(title)}</h1>{head}{''.join(sections)}</main>"
        f"<script>{_resource('sort.js')}</script></body></html>"
    )


@cache
def _resource(name: str) -> str:
    return (files("spark.report") / name).read_text("utf-8")


def _about(result: Result) -> str:
    trace = result["trace"]
    begin, end = (datetime.fromtimestamp(trace[name] / 1e9, UTC) for name in ("start_ns", "end_ns"))
    words = f"{begin:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC, captured at {_listed(trace['points'])}; "
    words += f"intervals of {duration(trace['interval_ns'])}."
    if trace["left_out"]:
        words += f" Too large to be shown whole: {', '.join(trace['left_out'])}."
    return f'<p class="about">{escape(words)}</p>'


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - MOST_POINTS
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:MOST_POINTS])} and {rest:,} more points"


def _verdict(result: Result) -> str:
    items = "".join(f'<li class="{finding.level}">{escape(finding.text)}</li>' for finding in verdict(result))
    return f'<ul class="verdict">{items}</ul>'


def section(name: str, content: str, about: str = "") -> str:
    """Return a named section of the page, "" without content."""
    if not content:
        return ""
    words = f"<p>{escape(about)}</p>" if about else ""
    return f"<section><h2>{escape(name)}</h2>{words}{content}</section>"


def _bounds(result: Result) -> str:
    known = [row["bound"] for row in result["clocks"] if row["bound"] is not None]
    return f"By clocks related through two-way traffic; wrong by at most {duration(max(known))}." if known else ""


def _pairs(result: Result) -> list[Row]:
    rows = []
    for (sender, receiver), counter in pair_totals(result).items():
        names = ("sent", "arrived", "lost", "duplicates", "later_attempts", "unobserved", "bytes")
        share = {"loss": counter["lost"] / counter["sent"] if counter["sent"] else None}
        rows.append({"sender": sender, "receiver": receiver} | share | {name: counter[name] for name in names})
    return sorted(rows, key=lambda row: -(row["loss"] or 0))


def table(rows: Sequence[Row]) -> str:
    """Return rows as a sortable table, "" without rows."""
    if not rows:
        return ""
    columns = list(rows[0])
    shown, rest = _worst(rows)
    head = "".join(f'<th><button type="button">{escape(_heading(column))}</button></th>' for column in columns)
    body = "".join(f"<tr>{''.join(_cell(row[column], column) for column in columns)}</tr>" for row in shown)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{rest}'


def _worst(rows: Sequence[Row]) -> tuple[Sequence[Row], str]:
    """Return the rows to show, and a text about the others."""
    if len(rows) <= MOST_ROWS:
        return rows, ""
    column = next((column for column in WORST if column in rows[0]), None)
    which = "first rows"
    if column is not None:
        rows = sorted(rows, key=lambda row: -(row[column] or 0))
        which = f"rows with the greatest “{_heading(column)}”"
    return rows[:MOST_ROWS], (
        f"<p>The {MOST_ROWS:,} {which}; {len(rows) - MOST_ROWS:,} more are in the tables beside this page.</p>"
    )


TIMES = ("interval", "first_ns", "last_ns", "from_ns", "to_ns", "start", "stop")
SHORT = ("bound", "offset")


def _heading(column: str) -> str:
    return column.removesuffix("_ns").replace("_", " ")


def _cell(value: Any, column: str) -> str:
    """Return a cell with a readable text and a value to sort by."""
    if value is None:
        return '<td data-value=""></td>'
    if isinstance(value, str | bool):
        return f"<td>{escape('yes' if value is True else '' if value is False else value)}</td>"
    if isinstance(value, float) and not math.isfinite(value):
        return '<td data-value=""></td>'
    return f'<td class="number" data-value="{value!r}">{escape(_form(column)(value))}</td>'


def _form(column: str) -> Callable[[float], str]:
    if column in TIMES:
        return lambda value: datetime.fromtimestamp(value / 1e9, UTC).strftime("%H:%M:%S.%f")[:-3]
    if column.endswith("_ns") or column in SHORT:
        return duration
    if column in ("loss", "overhead"):
        return percent
    if column.startswith("drift"):
        return lambda value: f"{value * 1e6:.2f} ppm"
    return lambda value: f"{value:,}" if column != "incarnation" else str(value)
