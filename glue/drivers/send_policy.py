"""Send policy: a publisher's thread sends at once while the line is idle, and in bundles while it is busy.

The line is idle when nothing was sent a moment ago. The first publication after received messages may be a reply, so
it leaves at once, too: the peer may wait for each reply before the next request.
"""

from __future__ import annotations

import math
import time

from glue.endpoint.core import STREAM_SHARE

COALESCE = 100e-6  # seconds after a send within which more is gathered before the next
BUNDLE = 880 << 10  # bytes gathered at most before the publisher sends: one bundle of topics
OUTBOX = 1 << 20  # bytes gathered at most while the leader is busy; beyond, a publisher waits for its turn
LATELY = 0.001  # seconds after a message was received or sent, during which it may be part of an exchange
BUSY = 512 << 10  # unacknowledged bytes from which on only full bundles are worth sending


class SendPolicy:
    """Decides when to send, from what was sent and received lately."""

    __slots__ = ("_answering", "_received_at", "_replied_at", "_sent_at", "bundle")

    def __init__(self, queue_limit: int) -> None:
        self.bundle = min(BUNDLE, queue_limit // STREAM_SHARE)
        self._sent_at = 0.0
        self._answering = False  # whether messages came since then
        self._received_at = self._replied_at = -math.inf  # when messages came, and when some left at once

    def sent(self) -> None:
        """Datagrams have left just now."""
        self._sent_at = time.monotonic()
        self._answering = False

    def spoke(self, now: float) -> None:
        """Messages were published that leave at once."""
        self._replied_at = now

    def answered(self, now: float) -> None:
        """Record that a reply was sent: one message, published in answer to another."""
        self._sent_at = self._replied_at = now
        self._answering = False

    def is_exchange(self, now: float) -> bool:
        """Whether messages came, and others were published, so lately that answers may follow at once."""
        return now - LATELY < self._received_at and now - LATELY < self._replied_at

    def arrived(self, now: float) -> None:
        """Messages have come up."""
        self._answering = True
        self._received_at = now

    def is_due(self, gathered: int, backlog: int) -> bool:
        """Whether to send so many bytes now, while `backlog` bytes are unacknowledged."""
        if gathered >= self.bundle:
            return True
        return backlog < BUSY and (self._answering or time.monotonic() - self._sent_at >= COALESCE)
