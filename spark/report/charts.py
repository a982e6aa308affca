"""Charts of a report, each drawn from the tables of an analysis."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark.analyze.verdict import clock, duration, pair_totals, percent
from spark.measures.sketch import value_of
from spark.report import svg
from spark.report.svg import BOTTOM, HEIGHT, LEFT, PALETTE, RIGHT, TOP, WIDTH, Line

Row = dict[str, Any]
Result = dict[str, Any]
Pair = tuple[str, str]

MOST_ROWS = 24  # of a heat map: the pairs with most losses; of the timeline: the lives given up most often
ROW = 18  # pixels
MOST_LETTERS = 27  # most letters of the names beside heat map and timeline
SHORTEST_NS = 1000.0
"""Least value of an axis of durations, in nanoseconds. Clocks and network cards are no more precise."""
ODD = 0.001  # share of a line's samples that may lie below the short end of its axis
# least average of messages of a topic in each interval of its line; with fewer, chance makes a zigzag
ENOUGH_EVENTS = 5
OWN = "$glue/"  # prefix of glue's own topics


def loss_map(result: Result) -> str:
    """Return a heat map of losses: a row for each pair, a cell for each interval, darker with more loss."""
    totals = pair_totals(result)
    shown = sorted((pair for pair in totals if totals[pair]["sent"]), key=lambda pair: -totals[pair]["lost"])[
        :MOST_ROWS
    ]
    cells = defaultdict(list)
    for row in result["pairs"]:
        if row["sent"]:
            cells[row["sender"], row["receiver"]].append(row)
    most = max((row["lost"] / row["sent"] for rows in cells.values() for row in rows), default=0) or 1
    side = svg.left_of(_side(*pair) for pair in shown)
    across = _times(result, side)
    height = TOP + ROW * len(shown) + BOTTOM
    marks = list(svg.ticks_below(across, height))
    for number, pair in enumerate(shown):
        y = TOP + ROW * number
        marks.append(svg.text(side - svg.MARGIN, y + 13, _side(*pair), "end"))
        for row in cells[pair]:
            x = across.place(row["interval"])
            width = across.place(row["interval"] + result["trace"]["interval_ns"]) - x
            share = row["lost"] / row["sent"]
            title = f"{pair[0]} → {pair[1]}, {clock(row['interval'])}: {row['lost']} of {row['sent']} lost"
            kind, opacity = ("loss", 0.15 + 0.85 * share / most) if share else ("sound", 1.0)
            marks.append(svg.rectangle(x, y + 1, width - 0.5, ROW - 2, kind, title, opacity))
    note = f'<p class="legend"><span><i class="ksound"></i>none lost</span><span><i class="kloss"></i>{percent(most)}'
    note += f" lost in one interval</span>{_others(len(totals) - len(shown), 'pairs', 'that lost less', 'Pairs')}</p>"
    return svg.chart("Loss over time for each pair", marks, height) + note


def distribution(result: Result, measure: str) -> str:
    """Return the cumulative distribution of a measure for each of the busiest pairs."""
    counts: dict[Pair, Counter[int]] = defaultdict(Counter)
    for row in result["histograms"]:
        if row["measure"] == measure:
            counts[row["sender"], row["receiver"]][row["bucket"]] += row["count"]
    shown = sorted(counts, key=lambda pair: (-counts[pair].total(), pair))[:PALETTE]
    if not shown:
        return ""
    low, high = min(_shortest(counts[pair]) for pair in shown), max(value_of(max(counts[pair])) for pair in shown)
    across = svg.logarithmic(min(max(low, SHORTEST_NS), high), high, LEFT, WIDTH - RIGHT, duration)
    up = svg.linear(0, 1, HEIGHT - BOTTOM, TOP, lambda share: f"{100 * share:.0f} %")
    drawn = [Line(_arrow(pair), _cumulated(counts[pair]), colour) for colour, pair in enumerate(shown)]
    marks = [*svg.grid(across, up), *svg.lines(drawn, across, up, percent)]
    return svg.chart(f"Distribution: {measure}", marks) + svg.legend((line.name, line.colour) for line in drawn)


def _shortest(counts: Counter[int]) -> float:
    """Return the least value to show of these counts by bucket: the first bucket after the share `ODD`."""
    upto = 0
    for bucket in sorted(counts):
        upto += counts[bucket]
        if upto > ODD * counts.total():
            return value_of(bucket)
    return SHORTEST_NS


def _cumulated(counts: Counter[int]) -> list[tuple[float, float | None]]:
    total, upto = counts.total(), 0
    points: list[tuple[float, float | None]] = []
    for bucket in sorted(counts):
        points.append((value_of(bucket), upto / total))
        upto += counts[bucket]
        points.append((value_of(bucket), upto / total))
    return points


def percentiles_over_time(result: Result, measure: str) -> str:
    """Return the median (dashed) and the 99th percentile of a measure over time, for the busiest pairs."""
    rows: dict[Pair, list[Row]] = defaultdict(list)
    for row in result["latencies_over_time"]:
        if row["measure"] == measure:
            rows[row["sender"], row["receiver"]].append(row)
    shown = sorted(rows, key=lambda pair: (-sum(row["count"] for row in rows[pair]), pair))[:PALETTE]
    if not shown:
        return ""
    values = [row[name] for pair in shown for row in rows[pair] for name in ("p50_ns", "p99_ns")]
    low = min(max(min(values), SHORTEST_NS), max(values))
    up = svg.logarithmic(low, max(values), HEIGHT - BOTTOM, TOP, duration)
    left = svg.left_of(label for _, label in up.ticks)
    across = _times(result, left)
    drawn = [
        Line(
            f"{_arrow(pair)} {name}",
            _line(result, {row["interval"]: row[f"{name}_ns"] for row in rows[pair]}),
            colour,
            dash,
        )
        for colour, pair in enumerate(shown)
        for name, dash in (("p50", True), ("p99", False))
    ]
    marks = [*svg.grid(across, up, left=left), *svg.lines(drawn, across, up, duration)]
    legend = svg.legend((f"{_arrow(pair)}, p99 (p50 dashed)", colour) for colour, pair in enumerate(shown))
    return svg.chart(f"Percentiles over time: {measure}", marks) + legend


def resends(result: Result) -> str:
    """Return resends of frames in each interval: needed resends, and on top resends of frames that had arrived."""
    needed, spare = Counter[int](), Counter[int]()
    for row in result["repairs"]:
        needed[row["interval"]] += row["resends"] - (row["spare"] or 0)
        spare[row["interval"]] += row["spare"] or 0
    most = max(((needed + spare)[interval] for interval in needed), default=0)
    if not most:
        return ""
    up = svg.linear(0, most, HEIGHT - BOTTOM, TOP, lambda value: f"{value:,.0f}", whole=True)
    left = svg.left_of(label for _, label in up.ticks)
    across = _times(result, left)
    marks = list(svg.grid(across, up, left=left))
    for interval in sorted(needed):
        x = across.place(interval)
        width = max(1.0, across.place(interval + result["trace"]["interval_ns"]) - x - 1)
        low, high = up.place(needed[interval]), up.place(needed[interval] + spare[interval])
        told = f"{clock(interval)}: {needed[interval]} needed, {spare[interval]} not"
        marks.append(svg.rectangle(x, low, width, up.place(0) - low, "f0", told))
        if spare[interval]:
            marks.append(svg.rectangle(x, high, width, low - high, "f1", told))
    return svg.chart("Resends over time", marks) + svg.legend([("needed", 0), ("had arrived already", 1)])


def timeline(result: Result) -> str:
    """Return when each life was present, and when others received nothing from it: red if longer than its lease."""
    silent = defaultdict(list)
    for row in result["silences"]:
        silent[row["sender"], row["incarnation"]].append(row)

    def trouble(life: Row) -> tuple[int, int]:
        rows = silent[life["endpoint"], life["incarnation"]]
        return -sum(row["expired"] for row in rows), -len(rows)

    lives = result["endpoints"]
    worst = sorted(range(len(lives)), key=lambda number: trouble(lives[number]))[:MOST_ROWS]
    side = svg.left_of(_side(lives[number]["endpoint"]) for number in worst)
    across = _times(result, side)
    height = TOP + ROW * len(worst) + BOTTOM
    marks = list(svg.ticks_below(across, height))
    for place, life in enumerate(lives[number] for number in sorted(worst)):
        y = TOP + ROW * place
        begin, end = across.place(life["first_ns"]), across.place(life["last_ns"])
        told = f"{life['endpoint']}, life {life['incarnation']}: {clock(life['first_ns'])} to {clock(life['last_ns'])}"
        marks.append(svg.text(side - svg.MARGIN, y + 13, _side(life["endpoint"]), "end"))
        marks.append(svg.rectangle(begin, y + 3, end - begin, ROW - 6, "f0", told))
        marks += [_silence(row, y, across) for row in silent[life["endpoint"], life["incarnation"]]]
    keys = '<p class="legend"><span><i class="k0"></i>there</span><span><i class="knote"></i>silent, as seen by one'
    keys += '</span><span><i class="kloss"></i>given up by it</span>'
    keys += _others(len(lives) - len(worst), "lives", "that were silent less often", "Endpoints")
    return svg.chart("Who was there", marks, height) + keys + "</p>"


def _others(count: int, what: str, which: str, section: str) -> str:
    """Return a text about what a chart does not show, and the section that has it."""
    return f"<span>{count:,} other {what}, {which}: see {section}</span>" if count > 0 else ""


def _side(*names: str) -> str:
    """Return names for the side of a chart. Long names keep their beginning and more of their end."""
    room = (MOST_LETTERS + 3) // len(names) - 3  # three letters for each arrow
    if sum(map(len, names)) > room * len(names):
        head = room // 4
        names = tuple(name if len(name) <= room else f"{name[:head]}…{name[head + 1 - room :]}" for name in names)
    return " → ".join(names)


def _silence(row: Row, y: float, across: svg.Axis) -> str:
    begin, end = across.place(row["from_ns"]), across.place(row["to_ns"])
    told = f"{row['point']} heard nothing of {row['sender']} for {duration(row['to_ns'] - row['from_ns'])}"
    return svg.rectangle(begin, y + 3, end - begin, ROW - 6, "loss" if row["expired"] else "note", told)


def topic_rates(result: Result) -> str:
    """Return messages per second of the busiest topics. A model's own traffic counts as one topic.

    Rare topics have longer intervals.
    """
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for row in result["topics"]:
        counts[topic_name(row["topic"])][row["interval"]] += row["messages"]
    shown = sorted(counts, key=lambda topic: (-counts[topic].total(), topic))[:PALETTE]
    if not shown:
        return ""
    drawn = [Line(topic, _rates(result, counts[topic]), colour) for colour, topic in enumerate(shown)]
    most = max(rate for line in drawn for _, rate in line.points if rate is not None)
    up = svg.linear(0, most, HEIGHT - BOTTOM, TOP, lambda value: f"{_number(value)}/s")
    left = svg.left_of(label for _, label in up.ticks)
    across = _times(result, left)
    marks = [
        *svg.grid(across, up, left=left),
        *svg.lines(drawn, across, up, lambda value: f"{_number(value)} messages/s"),
    ]
    return svg.chart("Messages by topic", marks) + svg.legend((line.name, line.colour) for line in drawn)


def _number(value: float) -> str:
    """Format a number with four digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def topic_name(topic: str) -> str:
    """Return the name of a topic. glue's own topics have the name of their model."""
    if not topic.startswith(OWN):
        return topic
    kind, _, rest = topic.removeprefix(OWN).partition("/")
    return f"{kind} {rest.partition('/')[0]}".strip()


def _rates(result: Result, counts: Counter[int]) -> Sequence[tuple[float, float | None]]:
    """Return messages per second over time, at the middles of intervals.

    As many intervals are combined as needed for `ENOUGH_EVENTS` messages in each.
    """
    length = result["trace"]["interval_ns"]
    begin = result["trace"]["start_ns"] // length
    number = max(1, math.ceil((result["trace"]["end_ns"] - begin * length) / length))
    together = min(number, math.ceil(ENOUGH_EVENTS * number / counts.total()))
    points: list[tuple[float, float | None]] = []
    for first in range(0, number, together):
        span = min(together, number - first)  # the last interval is shorter
        start = (begin + first) * length
        messages = sum(counts[start + place * length] for place in range(span))
        points.append((min(start + span * length / 2, result["trace"]["end_ns"]), messages / (span * length / 1e9)))
    if len(points) == 1:  # a line needs two points
        return [(result["trace"]["start_ns"], points[0][1]), (result["trace"]["end_ns"], points[0][1])]
    return points


def _times(result: Result, left: float = LEFT) -> svg.Axis:
    return svg.time(result["trace"]["start_ns"], result["trace"]["end_ns"], left)


def _line(result: Result, values: Mapping[int, float]) -> Sequence[tuple[float, float | None]]:
    """Return the values at the middles of all intervals of the trace, None where there is no value."""
    length = result["trace"]["interval_ns"]
    begin = result["trace"]["start_ns"] // length * length
    last = result["trace"]["end_ns"]
    starts: Iterable[int] = range(begin, max(last, begin + 1), length)
    return [(min(start + length // 2, last), values.get(start)) for start in starts]


def _arrow(pair: Pair) -> str:
    return f"{pair[0]} → {pair[1]}"
