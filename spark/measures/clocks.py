"""How far two capture points' clocks are apart, and how far they drift: found from two-way traffic alone.

A datagram's raw delay (arrival by one clock less departure by the other) is its time under way plus the offset of
the clocks. Nothing arrives before it left: so the offset, as a line over time, lies below the raw delays of one
direction and above the negated raw delays of the other. Only the lower convex hull of each direction can touch
that line (Zhang, Liu, Xia: Clock Synchronization Algorithms for Network Measurements, INFOCOM 2002; Paxson: On
Calibrating Measurements of Packet Transit Times, SIGMETRICS 1998), and hulls of parts of a trace have the hull of
the whole in them: any amount of data comes down to a few dozen points.

All straight lines between the two hulls form a polygon in the plane of (offset, drift). The estimate is a line from
its middle; how far the polygon's corners are from it is the error bound, without any assumption but that clocks run
evenly: it is half the least round trip where both directions saw an empty network, as with NTP (RFC 5905).
Where no straight line fits, a clock was stepped or bent; then the time is halved, and each half has a line of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MAX_DRIFT = 1e-3
"""Seconds a second: ten times what a bad crystal is off, twice the fastest slew of NTP (500 ppm, RFC 5905)."""

TOLERANCE = 1.0  # ns: clocks are read in whole nanoseconds
MOST_PIECES = 64  # a trace of a day is cut into pieces of 22 minutes at the least
FEWEST_POINTS = 4  # in each direction, below which a piece is not cut further


class Hull(NamedTuple):
    """Raw delays that matter: `times` ascending (the first point's clock), `delays`; nanoseconds."""

    times: Integers
    delays: Integers

    def between(self, start: int, stop: int) -> Hull:
        """The points with start <= time < stop."""
        inside = (self.times >= start) & (self.times < stop)
        return Hull(self.times[inside], self.delays[inside])


class Relation(NamedTuple):
    """Second clock less first, while the first shows `start` to `stop`: `offset` at `start`, plus `drift` a second.

    Nanoseconds; `bound` is the largest error of the offset in that time, `drift_bound` that of `drift` (both None
    where no line fits: the clock was set meanwhile, and the offset is a guess).
    """

    start: int
    stop: int
    offset: float
    drift: float
    bound: float | None
    drift_bound: float | None

    def at(self, time: npt.ArrayLike) -> Floats:
        """The offset at times of the first clock."""
        elapsed = (np.asarray(time, np.int64) - self.start).astype(np.float64)
        return self.offset + self.drift * elapsed


def lower_hull(times: Integers, delays: Integers) -> Hull:
    """The points under which no straight line between two others passes.

    First, in a few sweeps over all points, what lies above its two neighbours' line goes; a scan with a stack
    (Andrew 1979) ends it.
    """
    order = np.lexsort((delays, times))
    times, delays = times[order], delays[order]
    first = np.concatenate(([True], times[1:] != times[:-1])) if len(times) else np.zeros(0, bool)
    times, delays = times[first], delays[first]
    while len(times) > 64:
        x, y = (times - times[0]).astype(np.float64), (delays - delays[0]).astype(np.float64)
        above = (y[1:-1] - y[:-2]) * (x[2:] - x[:-2]) > (y[2:] - y[:-2]) * (x[1:-1] - x[:-2])
        if above.sum() * 8 < len(times):
            break
        keep = np.concatenate(([True], ~above, [True]))
        times, delays = times[keep], delays[keep]
    return _scan(times, delays)


def _scan(times: Integers, delays: Integers) -> Hull:
    hull: list[tuple[int, int]] = []
    for x, y in zip(times.tolist(), delays.tolist(), strict=True):
        while len(hull) > 1:
            (x1, y1), (x2, y2) = hull[-2], hull[-1]
            if (y2 - y1) * (x - x1) < (y - y1) * (x2 - x1):
                break
            hull.pop()
        hull.append((x, y))
    points = np.array(hull, np.int64).reshape(-1, 2)
    return Hull(points[:, 0], points[:, 1])


def relate(forth: Hull, back: Hull) -> list[Relation]:
    """How the second clock relates to the first, piece by piece in order of time; empty without two-way traffic.

    `forth` holds the raw delays from the first point to the second, `back` those of the other direction, both at
    the times of the first clock at which datagrams left it or reached it: the hulls of consecutive parts of the trace,
    one behind the other (of the whole trace, one hull would do if no clock was ever set).
    """
    if not len(forth.times) or not len(back.times):
        return []
    start = int(min(forth.times[0], back.times[0]))
    stop = int(max(forth.times[-1], back.times[-1]))
    return _pieces(forth, back, start, stop, MOST_PIECES)


def _pieces(forth: Hull, back: Hull, start: int, stop: int, most: int) -> list[Relation]:
    above, below = (lower_hull(*hull.between(start, stop + 1)) for hull in (forth, back))
    whole = _line(above, below, start, stop)
    if whole is not None:
        return [whole]
    middle = (start + stop) // 2
    halves = [(start, middle), (middle + 1, stop)]
    enough = all(
        len(hull.between(begin, end + 1).times) >= FEWEST_POINTS for hull in (forth, back) for begin, end in halves
    )
    if most >= 2 and enough:
        return [piece for begin, end in halves for piece in _pieces(forth, back, begin, end, most // 2)]
    above, below = forth.between(start, stop + 1), back.between(start, stop + 1)
    guess = float(np.median(above.delays) - np.median(below.delays)) / 2
    return [Relation(start, stop, guess, 0.0, None, None)]


def _line(above: Hull, below: Hull, start: int, stop: int) -> Relation | None:
    """The middle of all lines that pass below the one hull and above the negated other; None if there is none."""
    zero = int(above.delays[0])  # clocks may be years apart: subtract before going to floating point
    x = np.concatenate((above.times, below.times)) - start
    y = np.concatenate((above.delays - zero, -below.delays - zero))
    is_above = np.arange(len(x)) < len(above.times)
    lines = _corners(x.astype(np.float64), y.astype(np.float64), is_above)
    if not len(lines):
        return None
    length = float(stop - start)
    at_start, at_stop = lines[:, 0], lines[:, 0] + lines[:, 1] * length
    extremes = [at_start.argmin(), at_start.argmax(), at_stop.argmin(), at_stop.argmax()]
    offset, drift = lines[extremes].mean(axis=0)
    ends = np.stack((at_start - offset, at_stop - (offset + drift * length)))
    bound = float(np.abs(ends).max()) + TOLERANCE
    return Relation(start, stop, zero + float(offset), float(drift), bound, float(np.abs(lines[:, 1] - drift).max()))


def _corners(x: Floats, y: Floats, is_above: npt.NDArray[np.bool_]) -> Floats:
    """The corners (offset, drift) of the polygon of lines below the points `is_above` and above the others.

    A corner is a line through two of the points, or through one at the steepest drift; those that respect all
    the points are it. With n points that is n^3 / 2 comparisons; hulls have dozens.
    """
    i, j = np.triu_indices(len(x), 1)
    apart = x[i] != x[j]
    i, j = i[apart], j[apart]
    slopes = (y[j] - y[i]) / (x[j] - x[i])
    through = np.concatenate((i, np.arange(len(x)), np.arange(len(x))))
    slopes = np.concatenate((slopes, np.full(len(x), MAX_DRIFT), np.full(len(x), -MAX_DRIFT)))
    gentle = np.abs(slopes) <= MAX_DRIFT
    through, slopes = through[gentle], slopes[gentle]
    offsets = y[through] - slopes * x[through]
    room = y[None, :] - (offsets[:, None] + slopes[:, None] * x[None, :])
    room[:, ~is_above] *= -1
    fits = (room >= -TOLERANCE).all(axis=1)
    return np.column_stack((offsets[fits], slopes[fits]))
