"""Offset and drift between the clocks of two capture points, computed from two-way traffic alone.

The raw delay of a datagram is the arrival by one clock less the departure by the other clock: the true delay plus the
offset of the clocks. True delays are positive. Therefore the offset, as a line over time, lies below the raw delays of
one direction and above the negated raw delays of the other. Only the lower convex hull of each direction can touch this
line (Zhang, Liu, Xia: Clock Synchronization Algorithms for Network Measurements, INFOCOM 2002; Paxson: On Calibrating
Measurements of Packet Transit Times, SIGMETRICS 1998). The hulls of parts of a trace contain the hull of the whole, so
a few dozen points represent any amount of data.

All straight lines between the two hulls form a polygon in the plane of (offset, drift). The estimate is a line from the
middle of the polygon. The error bound is the largest distance to a corner, and assumes only that clocks run evenly. The
bound is half the least round trip if both directions saw an empty network, as with NTP (RFC 5905). If no straight line
fits, a clock was set or changed its rate. Then the time is halved, and each half gets its own line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MAX_DRIFT = 1e-3
"""Limit of the drift in seconds per second: ten times a bad crystal's, twice NTP's fastest slew (500 ppm, RFC 5905)."""

TOLERANCE = 1.0  # ns: clocks are read in whole nanoseconds
MOST_PIECES = 64  # most pieces of a trace; pieces of a day have at least 22 minutes
FEWEST_POINTS = 4  # least points in each direction for which a piece is halved


class Hull(NamedTuple):
    """Lower convex hull of raw delays in nanoseconds. `times` ascend and are by the first point's clock."""

    times: Integers
    delays: Integers

    def between(self, start: int, stop: int) -> Hull:
        """Return the points with start <= time < stop."""
        inside = (self.times >= start) & (self.times < stop)
        return Hull(self.times[inside], self.delays[inside])


class Relation(NamedTuple):
    """Second clock less first clock, in nanoseconds, while the first shows `start` to `stop`.

    `offset` holds at `start`. `drift` is the change of the offset per unit of time. `bound` is the largest error of the
    offset, and `drift_bound` that of the drift. Both bounds are None if no line fits. Then a clock was set, and the
    offset is a guess.
    """

    start: int
    stop: int
    offset: float
    drift: float
    bound: float | None
    drift_bound: float | None

    def at(self, time: npt.ArrayLike) -> Floats:
        """Return the offset at times of the first clock."""
        elapsed = (np.asarray(time, np.int64) - self.start).astype(np.float64)
        return self.offset + self.drift * elapsed


def lower_hull(times: Integers, delays: Integers) -> Hull:
    """Return the lower convex hull of the points.

    Vectorized sweeps first remove points above the line between their neighbours. A scan with a stack (Andrew 1979)
    completes the hull.
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
    """Return the relations of the second clock to the first, in order of time; empty without two-way traffic.

    `forth` has the raw delays from the first point to the second, and `back` those of the other direction. Their times
    are by the first clock: the departures and arrivals at the first point. Each argument concatenates the hulls of
    consecutive parts of the trace. If no clock was ever set, one hull of the whole trace is enough.
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
    """Return the middle of all lines below one hull and above the negated other, None if no line fits."""
    zero = int(above.delays[0])  # clocks may be years apart, so subtract before converting to floating point
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
    """Return the corners (offset, drift) of the polygon of lines below the points `is_above` and above the others.

    A corner is a line through two points, or through one point at the limit of the drift. A line is a corner if it
    respects all points. With n points this takes n^3 / 2 comparisons; hulls have dozens of points.
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
