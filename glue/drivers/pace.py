"""When a publisher's thread sends by itself: at once while the line is idle, in bundles while it is busy.

The line is idle when nothing was sent a moment ago. What is published after messages came may be the answer to them,
so the first of it leaves at once, too: who asks may ask again as fast as answers come.
"""

from __future__ import annotations

import time

from glue.core import STREAM_SHARE

COALESCE = 100e-6  # seconds after a send within which more is gathered before the next
BUNDLE = 880 << 10  # bytes gathered at most before they are sent by whoever published them: one bundle of topics
OUTBOX = 1 << 20  # bytes gathered at most while the leader is busy; beyond, a publisher waits for its turn
BUSY = 512 << 10  # bytes unacknowledged from which on nothing is gained by sending less than a full bundle


class Pace:
    """What was sent and came lately."""

    __slots__ = ("_answering", "_sent_at", "bundle")

    def __init__(self, queue_limit: int) -> None:
        self.bundle = min(BUNDLE, queue_limit // STREAM_SHARE)
        self._sent_at = 0.0
        self._answering = False  # whether messages came since then

    def sent(self) -> None:
        """Datagrams have left just now."""
        self._sent_at = time.monotonic()
        self._answering = False

    def arrived(self) -> None:
        """Messages have come up."""
        self._answering = True

    def is_due(self, gathered: int, backlog: int) -> bool:
        """Whether to send so many bytes now, while `backlog` bytes are unacknowledged."""
        if gathered >= self.bundle:
            return True
        return backlog < BUSY and (self._answering or time.monotonic() - self._sent_at >= COALESCE)
