"""The datagram that a rally (`glue.fastpath.session`) expects, written beforehand: a few comparisons recognize it.

All of it follows from what came and left before but for three things: for how long its acknowledgement was held back,
when its message was published, and the payload. The last two are taken to be as long as those of the latest message.
"""

from __future__ import annotations

HELD = 5  # digits of how long an acknowledgement was held; more is told by none of ours
ZERO = ord("0")

Halves = tuple[bytes, bytes]
"""What stands before, and behind, what is not known of some part of a datagram."""


class Question:
    """A datagram, but for what is not known of it yet."""

    __slots__ = ("_before", "_behind", "_between", "_digits", "_fixed", "_start")

    def __init__(self, header: Halves, entry: Halves, index: Halves, digits: int, size: int) -> None:
        """The parts of serialization, transport (for how long) and topics (when, in so many digits).

        `size`: of the payload (bytes).
        """
        self._digits = digits
        self._before = header[0] + entry[0]
        self._between = entry[1] + header[1] + index[0]
        self._behind = index[1]
        self._start = len(self._before)
        self._fixed = len(self._between) + digits + len(self._behind) + size

    def read(self, data: bytes) -> tuple[bytes, bytes, bytes] | None:
        """For how long, when, and the payload, if this is it."""
        start, between, at = self._start, self._between, len(data) - self._fixed
        if not start < at <= start + HELD or not data.startswith(self._before) or not data.startswith(between, at):
            return None
        begin = at + len(between)
        end = begin + self._digits
        held, moment = data[start:at], data[begin:end]
        if not data.startswith(self._behind, end) or not (held + moment).isdigit() or moment[0] == ZERO:
            return None
        if held[0] == ZERO and len(held) > 1:  # no number begins so
            return None
        return held, moment, data[end + len(self._behind) :]
