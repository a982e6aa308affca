"""Tells what a door refuses: each cause once, again if it lasts, and a bounded number of lines in a time.

A client that is refused tries again, and an attacker tries everything. The first must not hide in the log, and the
second must not fill it. So a cause is told once and, if it still happens, again after `AGAIN`, with how often it came
meanwhile. Beyond `LINES` at once, causes wait for their turn; what was left out is counted in the next line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

AGAIN: Final = 600.0
"""Seconds after which a cause that lasts is told again."""

LINES: Final = 30
"""Lines at once: what a person reads in a glance."""

PAUSE: Final = 2.0
"""Seconds for a line more: 43,200 lines, some 6 MB, a day at most."""

CAUSES: Final = 1_000
"""Causes that are remembered, some 400 bytes each; beyond, the one that was told first is forgotten."""


class Refusals:
    """The refusals of one door."""

    def __init__(self, log: Callable[[str], None]) -> None:
        """`log` takes a line."""
        self._log = log
        self._told: dict[str, tuple[float, int]] = {}  # when a cause was told, and how often it came since
        self._room = float(LINES)
        self._since = 0.0
        self._left_out = 0

    def tell(self, now: float, text: str, cause: str = "") -> None:
        """Tell of a refusal. The `cause` is the text without what differs each time, such as a port."""
        cause = cause or text
        told = self._told.get(cause)
        if told is not None and now - told[0] < AGAIN:
            self._told[cause] = told[0], told[1] + 1
            return
        self._room, self._since = min(LINES, self._room + (now - self._since) / PAUSE), now
        if self._room < 1:
            self._left_out += 1
            return
        self._room -= 1
        self._told.pop(cause, None)
        self._told[cause] = now, 0
        if len(self._told) > CAUSES:
            del self._told[next(iter(self._told))]
        if told is not None and told[1]:
            text += f" ({told[1] + 1} times since the last line about it)"
        if self._left_out:
            text += f"; {self._left_out} other refusals were not logged"
            self._left_out = 0
        self._log(text)
