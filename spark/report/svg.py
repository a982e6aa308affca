"""Charts as SVG text: axes, lines, bars, heat maps and timelines, without libraries and scripts.

Colours are CSS variables of the page, so a drawing suits light and dark mode. Every mark has a `<title>`, which
browsers show under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 860, 250
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 10, 26
PALETTE = 6
"""Most lines in a chart. All colours differ, also for colour-blind readers."""

NS = 10**9
MARGIN = 8  # pixels between a label and its mark
LEAST_RATIO = 2.0
"""Least ratio between the ends of a logarithmic axis, so that nearly equal values appear close together."""
STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


class Axis(NamedTuple):
    """A scale: `place` maps a value to a pixel, and `ticks` are values with labels."""

    place: Callable[[float], float]
    ticks: list[tuple[float, str]]


class Line(NamedTuple):
    """A line of a chart, with its points in order. A None value interrupts the line."""

    name: str
    points: Sequence[tuple[float, float | None]]
    colour: int
    dashed: bool = False


def linear(
    low: float, high: float, start: float, stop: float, label: Callable[[float], str], whole: bool = False
) -> Axis:
    """Return a linear axis with round ticks, from `low` at pixel `start` to `high` at pixel `stop`.

    `whole` allows ticks at whole numbers only.
    """
    high = high if high > low else low + 1
    step = max(_nice((high - low) / 4), 1 if whole else 0)
    first = math.ceil(low / step - 1e-9)
    ticks = [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]
    scale = (stop - start) / (high - low)
    return Axis(lambda value: start + (value - low) * scale, [(tick, label(tick)) for tick in ticks])


def logarithmic(low: float, high: float, start: float, stop: float, label: Callable[[float], str]) -> Axis:
    """Return a logarithmic axis. Each decade gets as many ticks as fit. Values beyond an end are placed at the end."""
    low, high = math.log10(max(low, 1e-12)), math.log10(max(high, 1e-12))
    short = max(0.0, math.log10(LEAST_RATIO) - (high - low)) / 2
    low, high = low - short, high + short
    scale = (stop - start) / (high - low)
    digits = (
        (1.0,) if high - low > 3 else (1.0, 2.0, 5.0) if high - low > 1 else (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)
    )
    exponents = range(math.floor(low), math.ceil(high) + 1)
    ticks = [digit * 10.0**exponent for exponent in exponents for digit in digits]
    inside = [tick for tick in ticks if low - 0.02 <= math.log10(tick) <= high + 0.02]
    return Axis(
        lambda value: start + (min(max(math.log10(max(value, 1e-12)), low), high) - low) * scale,
        [(tick, label(tick)) for tick in inside],
    )


def time(begin: int, end: int, start: float = LEFT, stop: float = WIDTH - RIGHT) -> Axis:
    """A time axis (nanoseconds since 1970, UTC). What lies before or after is placed at the nearer end."""
    span = max((end - begin) / NS, 1e-3)
    step = next((step for step in STEPS if span / step <= 8), STEPS[-1] * math.ceil(span / STEPS[-1] / 8))
    step_ns = round(step * NS)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86400 else "%d %b"
    ticks = range(-(-begin // step_ns) * step_ns, end + 1, step_ns)
    scale = (stop - start) / max(end - begin, 1)
    tenths = [f".{tick // (NS // 10) % 10}" if step < 1 else "" for tick in ticks]
    times = [datetime.fromtimestamp(tick // (NS // 10) / 10, UTC).strftime(form) for tick in ticks]
    labels = [(float(tick), time + tenth) for tick, time, tenth in zip(ticks, times, tenths, strict=True)]
    return Axis(lambda value: start + (min(max(value, begin), end) - begin) * scale, labels)


def _nice(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= step * 0.999)


def width_of(words: str) -> float:
    """Estimate the pixels of a label. The estimate is rather high, because fonts differ."""
    return sum(
        3.5 if letter in NARROW else 9.5 if letter in WIDE else 8.0 if letter.isupper() else 6.6 for letter in words
    )


NARROW, WIDE = frozenset("fijlrtI.,:;|!'/() "), frozenset("mwMW→…@%")


def left_of(labels: Iterable[str], least: float = LEFT) -> float:
    """Return the pixels to leave free for labels beside a chart."""
    return max([least, *(width_of(label) + 2 * MARGIN for label in labels)])


def chart(name: str, marks: Iterable[str], height: float = HEIGHT, width: float = WIDTH) -> str:
    """Return an SVG drawing of these marks. `name` describes the drawing for screen readers."""
    body = "".join(marks)
    drawing = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(name)}">{body}</svg>'
    return f'<div class="chart">{drawing}</div>'


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "label") -> str:
    """Return a text. With anchor "end" the text ends at x."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def rectangle(x: float, y: float, width: float, height: float, kind: str, title: str, opacity: float = 1.0) -> str:
    """Return a filled rectangle."""
    see = f' fill-opacity="{opacity:.3f}"' if opacity < 1 else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.8):.1f}" height="{height:.1f}"'
    return f'<rect {place} class="{kind}"{see}><title>{escape(title)}</title></rect>'


def point(x: float, y: float, kind: str, title: str) -> str:
    """Return a filled circle."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}"><title>{escape(title)}</title></circle>'


def grid(horizontal: Axis, vertical: Axis, height: float = HEIGHT, left: float = LEFT) -> Iterable[str]:
    """Yield the ticks of both axes, with lines across the chart for the vertical axis, which is at `left`."""
    for value, label in vertical.ticks:
        y = vertical.place(value)
        yield f'<line x1="{left:g}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        yield text(left - MARGIN, y + 4, label, "end")
    yield from ticks_below(horizontal, height)


def ticks_below(horizontal: Axis, height: float = HEIGHT) -> Iterable[str]:
    """Yield the labels of a horizontal axis, all within the chart."""
    for value, label in horizontal.ticks:
        half = width_of(label) / 2
        yield text(min(max(horizontal.place(value), half), WIDTH - half), height - 8, label, "middle")


def lines(drawn: Iterable[Line], horizontal: Axis, vertical: Axis, told: Callable[[float], str]) -> Iterable[str]:
    """Yield lines. A line of up to 150 points shows the value of each point under the pointer."""
    for line in drawn:
        path, pen = [], "M"
        for x, y in line.points:
            if y is None:
                pen = "M"
                continue
            path.append(f"{pen}{horizontal.place(x):.1f} {vertical.place(y):.1f}")
            pen = "L"
        dash = ' stroke-dasharray="4 3"' if line.dashed else ""
        yield f'<path d="{"".join(path)}" class="line c{line.colour}"{dash}><title>{escape(line.name)}</title></path>'
        for x, y in line.points if len(line.points) <= 150 else ():
            if y is not None:
                title = escape(f"{line.name}: {told(y)}")
                place = f'cx="{horizontal.place(x):.1f}" cy="{vertical.place(y):.1f}"'
                yield f'<circle {place} r="4" class="ask"><title>{title}</title></circle>'


def legend(names: Iterable[tuple[str, int]]) -> str:
    """Return names beside their colours, as HTML."""
    keys = "".join(f'<span><i class="k{colour}"></i>{escape(name)}</span>' for name, colour in names)
    return f'<p class="legend">{keys}</p>'
