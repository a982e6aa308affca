"""A host's monotonic clock: it starts anywhere, runs a little fast or slow, and never goes back."""

from __future__ import annotations

import math

from glue.errors import ConfigurationError


class Clock:
    """Turns the world's true time into what one host reads, and back.

    `offset` is what it reads at true time 0; `drift` its error of rate (50e-6: fast by 50 µs each second).
    """

    __slots__ = ("_rate", "_reading", "_since")

    def __init__(self, offset: float = 0.0, drift: float = 0.0) -> None:
        self._since = 0.0
        self._reading = offset
        self._rate = _rate(drift)

    def read(self, time: float) -> float:
        """What the clock shows at this true time."""
        return self._reading + (time - self._since) * self._rate

    def moment(self, reading: float) -> float:
        """The true time from which on the clock shows at least this."""
        time = self._since + (reading - self._reading) / self._rate
        while self.read(time) < reading:  # rounded down: step by what floating point can tell apart
            time += max(math.ulp(time), math.ulp(reading))
        return time

    def adjust(self, time: float, drift: float | None = None, jump: float = 0.0) -> None:
        """From this true time on run at another rate, and be `jump` seconds further; it cannot jump back."""
        if not 0 <= jump < math.inf:
            raise ConfigurationError(f"jump={jump!r}: a monotonic clock only jumps forward; expected 0 or more seconds")
        rate = self._rate if drift is None else _rate(drift)
        self._reading, self._since, self._rate = self.read(time) + jump, time, rate


def _rate(drift: float) -> float:
    if not -1 < drift < math.inf:
        raise ConfigurationError(f"drift={drift!r}: expected more than -1 (50e-6: fast by 50 µs each second)")
    return 1.0 + drift
