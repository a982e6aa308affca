"""Numbers drawn with characters: a sparkline of one line, and a plot of several lines in dots of braille."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

BARS: Final = "▁▂▃▄▅▆▇█"
POINTS: Final = 600
"""Points of a series: ten minutes at one a second."""
_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a braille character, by row and column


class Series:
    """The latest values of one number, with their times (seconds)."""

    __slots__ = ("points",)

    def __init__(self) -> None:
        self.points: deque[tuple[float, float]] = deque(maxlen=POINTS)

    def add(self, at: float, value: float) -> None:
        """Add a value; one of the same time replaces the last."""
        if self.points and self.points[-1][0] >= at:
            self.points.pop()
        self.points.append((at, value))

    @property
    def values(self) -> list[float]:
        """The values, the latest last."""
        return [value for _, value in self.points]


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw the last `width` values as bars, from the least to the greatest of them."""
    shown = values[-width:] if width > 0 else []
    if not shown:
        return ""
    least, most = min(shown), max(shown)
    if most == least:
        return BARS[3] * len(shown)
    step = (most - least) / (len(BARS) - 1)
    return "".join([BARS[round((value - least) / step)] for value in shown])


def plot(points: Sequence[tuple[float, float]], width: int, height: int) -> list[str]:
    """Draw times and values as a curve of `width` by `height` characters, with the bounds at the left.

    Each character has two by four dots. Returns no lines if there are no points or there is no room.
    """
    bounds = [number_text(max(v for _, v in points)), number_text(min(v for _, v in points))] if points else ["", ""]
    margin = max(map(len, bounds))
    columns, rows = 2 * (width - margin - 2), 4 * height
    if not points or columns < 2 or height < 1:
        return []
    first, last = points[0][0], points[-1][0]
    least, most = min(v for _, v in points), max(v for _, v in points)
    dots = [[0] * (columns // 2) for _ in range(height)]
    before: tuple[int, int] | None = None
    for at, value in points:
        x = 0 if last == first else round((at - first) / (last - first) * (columns - 1))
        y = rows // 2 if most == least else round((most - value) / (most - least) * (rows - 1))
        for px, py in _line(before or (x, y), (x, y)):
            dots[py // 4][px // 2] |= _DOTS[py % 4][px % 2]
        before = x, y
    lines = []
    for place, row in enumerate(dots):
        label = bounds[0] if place == 0 else bounds[1] if place == height - 1 else ""
        lines.append(f"{label:>{margin}} ┤" + "".join([chr(0x2800 + dot) for dot in row]))
    return lines


def _line(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The dots from one to another, both included."""
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (start[0] + round((end[0] - start[0]) * i / steps), start[1] + round((end[1] - start[1]) * i / steps))
        for i in range(steps + 1)
    ]


def number_text(value: float) -> str:
    """A number in few characters: 1234567 as 1.23M."""
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.3g}{unit}"
    return f"{value:.3g}" if size < 1000 else f"{value:.4g}"
