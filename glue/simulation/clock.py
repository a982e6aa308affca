"""A host's monotonic clock. It has an arbitrary start, a small error of rate, and never goes back."""

from __future__ import annotations

import math

from glue.errors import ConfigurationError


class Clock:
    """Converts between the world's true time and the reading of one host's clock, in seconds.

    `offset` is the reading at true time 0. `drift` is the error of rate: 50e-6 gains 50 µs each second.
    """

    __slots__ = ("_rate", "_reading", "_since")

    def __init__(self, offset: float = 0.0, drift: float = 0.0) -> None:
        self._since = 0.0
        self._reading = offset
        self._rate = _rate(drift)

    def read(self, time: float) -> float:
        """Return the clock's reading at true time `time`."""
        return self._reading + (time - self._since) * self._rate

    def moment(self, reading: float) -> float:
        """Return the true time from which the clock reads at least `reading`."""
        time = self._since + (reading - self._reading) / self._rate
        while self.read(time) < reading:  # rounding left the time too early: take the smallest step that changes it
            time += max(math.ulp(time), math.ulp(reading))
        return time

    def adjust(self, time: float, drift: float | None = None, jump: float = 0.0) -> None:
        """Change the rate from true time `time` on, and advance the reading by `jump` seconds.

        `drift=None` keeps the rate. Raises ConfigurationError for a negative jump, or a drift of -1 or less.
        """
        if not 0 <= jump < math.inf:
            raise ConfigurationError(f"jump={jump!r}: a monotonic clock only jumps forward; expected 0 or more seconds")
        rate = self._rate if drift is None else _rate(drift)
        self._reading, self._since, self._rate = self.read(time) + jump, time, rate


def _rate(drift: float) -> float:
    if not -1 < drift < math.inf:
        raise ConfigurationError(f"drift={drift!r}: expected more than -1 (50e-6: fast by 50 µs each second)")
    return 1.0 + drift
