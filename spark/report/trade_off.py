"""Page of a what-if: a chart of cost and delay for each set of settings, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from spark.analyze.verdict import duration, percent
from spark.report import svg
from spark.report.page import document, section, table
from spark.report.svg import BOTTOM, HEIGHT, RIGHT, TOP, WIDTH

Row = dict[str, Any]

TITLE = "glue: what other settings would have done"
NEAR = 14  # pixels; closer points share a label
MOST_NUMBERS = 6  # most numbers in one label


def name_of(row: Row) -> str:
    """Return the name of a set of settings in charts."""
    return ", ".join(f"{name} {value}" for name, value in row.items() if isinstance(value, str)) or "as it is"


def chart(rows: Sequence[Row]) -> str:
    """Return a chart with a numbered point for each set: bytes beyond the payload to the right, p99 upwards.

    A set that does not deliver everything is marked as a loss. The lower left corner is best.
    """
    shown = [(n, row) for n, row in enumerate(rows, 1) if row["p99_ms"] is not None and row["overhead"] is not None]
    if not shown:
        return ""
    costs, delays = [row["overhead"] for _, row in shown], [row["p99_ms"] * 1e6 for _, row in shown]
    margin = (max(costs) - min(costs)) / 20 or 0.01
    up = svg.logarithmic(min(delays) / 1.2, max(delays) * 1.2, HEIGHT - BOTTOM, TOP, duration)
    left = svg.left_of(label for _, label in up.ticks)
    across = svg.linear(max(0.0, min(costs) - margin), max(costs) + margin, left, WIDTH - RIGHT, percent)
    marks = list(svg.grid(across, up, left=left))
    labels: list[tuple[float, float, list[int]]] = []
    for number, row in shown:
        x, y = across.place(row["overhead"]), up.place(row["p99_ms"] * 1e6)
        whole = row["delivered"] >= row["expected"]
        told = f"{number}: {name_of(row)}: {percent(row['overhead'])} more than the payload, "
        told += f"p99 {duration(row['p99_ms'] * 1e6)}, {row['delivered']:,} of {row['expected']:,} delivered"
        marks.append(svg.point(x, y, "f0" if whole else "loss", told))
        near = next((label for label in labels if abs(label[0] - x) < NEAR and abs(label[1] - y) < NEAR), None)
        if near is None:
            labels.append((x, y, [number]))
        else:
            near[2].append(number)
    marks += [svg.text(x + 8, y - 6, _listed(numbers)) for x, y, numbers in labels]
    return svg.chart("Cost and delay of each set", marks)


def _listed(numbers: Sequence[int]) -> str:
    more = "" if len(numbers) <= MOST_NUMBERS else ", …"
    return ", ".join(map(str, numbers[:MOST_NUMBERS])) + more


def page(rows: Sequence[Row]) -> str:
    """Return the page as self-contained HTML."""
    readable = [
        {"set": n, **{name: value for name, value in row.items() if not name.endswith("_ms")}, **_times(row)}
        for n, row in enumerate(rows, 1)
    ]
    words = f"{len(rows):,} sets of settings over the same traffic, losses and delays."
    about = "To the right: bytes sent beyond the payload. Upwards: the 99th percentile from publishing to the handler. "
    about += "Numbers are those of the sets below; red: not everything was delivered."
    return document(
        TITLE, f'<p class="about">{escape(words)}</p>',
        [section("Cost and delay", chart(rows), about), section("All sets", table(readable))],
    )  # fmt: skip


def _times(row: Row) -> Row:
    return {f"{name}_ns": None if row[f"{name}_ms"] is None else row[f"{name}_ms"] * 1e6 for name in ("p50", "p99")}
