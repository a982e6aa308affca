"""Charts as SVG text: lines over a few steps, and medians with their high percentiles.

Colours are classes of a style sheet with a light and a dark mode, background included, so a chart is readable
everywhere. Lines differ by colour, mark and label. The first series is the subject of the chart and is drawn thicker.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from benchmarks.results import Row, grouped, show, values_of

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 72, 130, 56, 52
ROW = 30  # height of a line of `tails`
LABEL = 15  # least distance between two labels
HEADROOM = 1.08  # factor between the highest point and the end of a linear axis

LIGHT = ("#0b62c4", "#c2410c", "#0f7b53", "#a21caf", "#92700a", "#475569", "#be123c", "#0e7490")
DARK = ("#6cb2ff", "#ff9a66", "#5fd6a4", "#ee9bf5", "#e8c55a", "#a9b6c8", "#ff8fa6", "#67d3e6")
MARKS = ("circle", "square", "diamond", "triangle")


class Series(NamedTuple):
    """A line: its name and its points (x, y), in order of x."""

    name: str
    points: list[tuple[float, float]]


class Tail(NamedTuple):
    """A median and a high percentile of one quantity."""

    name: str
    median: float
    high: float


def points(rows: Iterable[Row], x: str, y: str, scale: float = 1.0) -> list[tuple[float, float]]:
    """Return the medians of `y`, times `scale`, over `x`."""
    groups = grouped(rows, [x]).items()
    found = [(float(key), values_of(group, y)) for (key,), group in groups]
    return sorted((key, statistics.median(values) * scale) for key, values in found if values)


def write(directory: Path, made: Mapping[str, str]) -> None:
    """Write charts into a directory by file name."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (directory / name).write_text(text)


# ---------------------------------------------------------------------------------------------------------- scales


class Scale:
    """Converts values to pixels on a linear or logarithmic axis. The ticks are round values."""

    def __init__(self, values: Sequence[float], length: float, logarithmic: bool) -> None:
        self._length = length
        self._logarithmic = logarithmic
        if logarithmic:
            low, high = min(values), max(values)
            self._low, self._high = math.log10(low / 1.25), math.log10(high * 1.25)
            powers = range(math.floor(self._low), math.ceil(self._high) + 1)
            steps = (1,) if self._high - self._low > 2.5 else (1, 2, 5)
            ticks = [step * 10.0**power for power in powers for step in steps]
            self.ticks = [tick for tick in ticks if self._low <= math.log10(tick) <= self._high]
        else:
            self._low, self._high = 0.0, max(values) * HEADROOM or 1.0
            rough = self._high / 5
            unit = 10.0 ** math.floor(math.log10(rough))
            step = unit * next(factor for factor in (1, 2, 5, 10) if factor * unit >= rough)
            self.ticks = [step * number for number in range(int(self._high / step) + 1)]

    def __call__(self, value: float) -> float:
        """Return pixels from the start of the axis."""
        place = math.log10(value) if self._logarithmic else value
        return (place - self._low) / (self._high - self._low) * self._length


# ---------------------------------------------------------------------------------------------------------- charts


def lines(title: str, x_title: str, y_title: str, series: Sequence[Series], *, names: Mapping[float, str] | None = None,
          logarithmic: bool = False) -> str:  # fmt: skip
    """Return a chart of lines over evenly spaced steps.

    `names` are the labels of the steps, by x. A logarithmic chart needs values above 0.
    """
    steps = sorted({x for one in series for x, _ in one.points})
    scale = Scale([y for one in series for _, y in one.points], HEIGHT - TOP - BOTTOM, logarithmic)
    width = WIDTH - LEFT - RIGHT
    across = {x: LEFT + width * (number + 0.5) / len(steps) for number, x in enumerate(steps)}
    bottom = HEIGHT - BOTTOM
    parts = [_heading(title, y_title)]
    for tick in scale.ticks:
        y = bottom - scale(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 8, y + 4, show(tick), "tick", "end"))
    for x, place in across.items():
        parts.append(_text(place, bottom + 18, (names or {}).get(x, show(x)), "tick", "middle"))
    parts.append(_text(LEFT + width / 2, HEIGHT - 12, x_title, "tick", "middle"))
    ends = []
    for number, one in reversed(list(enumerate(series))):  # draws the first series last, on top
        dots = [(across[x], bottom - scale(y)) for x, y in one.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(f'<polyline class="line s{number}{" main" if number == 0 else ""}" points="{path}"/>')
        parts += [_mark(number, x, y) for x, y in dots]
        ends.append((dots[-1][1], dots[-1][0], number, one.name))
    parts += _labels(ends)
    return _page(HEIGHT, parts)


def _labels(ends: list[tuple[float, float, int, str]]) -> list[str]:
    """Return labels at the ends of the lines, with enough distance between them."""
    ends.sort()
    places = [y for y, _, _, _ in ends]
    for number in range(1, len(places)):
        places[number] = max(places[number], places[number - 1] + LABEL)
    over = max(0.0, places[-1] - (HEIGHT - BOTTOM))
    return [
        _text(WIDTH - RIGHT + 8, y - over + 4, name, f"label t{number}{' main' if number == 0 else ''}", "start")
        for y, (_, _, number, name) in zip(places, ends, strict=True)
    ]


def tails(title: str, unit: str, rows: Sequence[Tail], main: str) -> str:
    """Return a chart with a line for each row, from the median (full) to the high percentile (hollow). `main` stands
    out.
    """
    left = 170
    height = TOP + ROW * len(rows) + ROW
    scale = Scale([value for row in rows for value in (row.median, row.high)], WIDTH - left - 60, True)
    parts = [_heading(title, unit)]
    for tick in scale.ticks:
        x = left + scale(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - ROW}"/>')
        parts.append(_text(x, height - ROW + 18, show(tick), "tick", "middle"))
    for number, row in enumerate(rows):
        y = TOP + ROW * (number + 0.5)
        kind = 0 if row.name == main else 5
        low, high = left + scale(row.median), left + scale(row.high)
        parts.append(_text(left - 12, y + 4, row.name, f"label t{kind}{'' if kind else ' main'}", "end"))
        parts.append(f'<line class="line s{kind}" x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<circle class="mark f{kind}" cx="{low:.1f}" cy="{y:.1f}" r="5"/>')
        parts.append(f'<circle class="hollow s{kind}" cx="{high:.1f}" cy="{y:.1f}" r="5"/>')
        parts.append(_text(low, y - 8, show(row.median), "tick", "middle"))
        parts.append(_text(high + 10, y + 4, show(row.high), "tick", "start"))
    return _page(height, parts)


# ----------------------------------------------------------------------------------------------------------- pieces


def _heading(title: str, unit: str) -> str:
    return _text(16, 24, title, "title", "start") + _text(16, 42, unit, "tick", "start")


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _mark(number: int, x: float, y: float) -> str:
    shape, size = MARKS[number % len(MARKS)], 4.5 if number == 0 else 3.5
    if shape == "circle":
        return f'<circle class="mark f{number}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>'
    corners = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "diamond": ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
        "triangle": ((0, -1.3), (1.2, 1), (-1.2, 1)),
    }[shape]
    path = " ".join(f"{x + dx * size:.1f},{y + dy * size:.1f}" for dx, dy in corners)
    return f'<polygon class="mark f{number}" points="{path}"/>'


def _page(height: int, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n<style>\n{STYLE}</style>\n'
        f'<rect class="paper" width="100%" height="100%" rx="6"/>\n{body}\n</svg>\n'
    )


def _colours(paper: str, ink: str, faint: str, grid: str, colours: Sequence[str]) -> str:
    rules = [
        f".paper {{ fill: {paper}; }} .title {{ fill: {ink}; }} .tick {{ fill: {faint}; }} .grid {{ stroke: {grid}; }}",
        f".hollow {{ fill: {paper}; }}",
    ]
    rules += [
        f".s{number} {{ stroke: {colour}; }} .f{number}, .t{number} {{ fill: {colour}; }}"
        for number, colour in enumerate(colours)
    ]
    return "\n".join(rules)


STYLE = (
    ".title { font-size: 15px; font-weight: 600; } .tick { font-size: 12px; } .label { font-size: 12px; }\n"
    ".label.main { font-weight: 700; } .line { fill: none; stroke-width: 1.7; } .line.main { stroke-width: 3; }\n"
    ".hollow { stroke-width: 2; }\n"
    + _colours("#ffffff", "#1f2328", "#59636e", "#e3e7eb", LIGHT)
    + "\n@media (prefers-color-scheme: dark) {\n"
    + _colours("#10151c", "#e6edf3", "#9aa5b1", "#2b333d", DARK)
    + "\n}\n"
)
