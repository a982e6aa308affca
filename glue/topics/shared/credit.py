"""Credit: the number of unacknowledged messages that a member may have.

The credit follows the time that messages wait at the member, behind others. That is the time until the acknowledgement
without that of a message which the member had alone: the way there and back, and the handling. The credit is at least
twice the messages after which the last one waited less than QUICK, and it falls to what takes AIM if one waited longer
than SLOW. So a member has 50 to 200 ms of work, beside what is on the way, and a slow member gets less than a fast one.
But a slow network or disk costs no credit. No other member can take a message that a member has. Therefore more credit
would make new members wait, and would lose more time when a member dies.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = 4
"""Messages of credit that a new member has."""
MOST: Final = 8192
"""Messages of credit at most: 20 ms of a member that handles 400,000 messages a second."""
MOST_BYTES: Final = 1 << 20
"""Bytes of payload that a member has at most; a single message may be larger."""
QUICK, AIM, SLOW = 0.05, 0.1, 0.2
"""Seconds that a message waits at the member, behind others."""


class Credit:
    """The credit of one member, and the used part: `count` messages of `size` bytes."""

    __slots__ = ("_alone", "count", "size", "window")

    def __init__(self) -> None:
        self.window = FIRST
        self.count = self.size = 0
        self._alone = 0.0  # seconds that a message takes which the member has alone

    @property
    def room(self) -> int:
        """Messages that the member may have in addition."""
        return self.window - self.count if self.size < MOST_BYTES or not self.count else 0

    def use(self, count: int, size: int) -> None:
        """Note that messages are sent to the member."""
        self.count += count
        self.size += size

    def release(self, count: int, size: int) -> None:
        """Note that the member no longer has some messages."""
        self.count -= count
        self.size -= size

    def learn(self, took: float, place: int) -> None:
        """Adapt the credit to an acknowledgement. `took`: seconds since its message was sent.

        `place`: the message's place among those that the member had then; 1: no other was before it.
        """
        self._alone = took if place == 1 else min(self._alone, took)
        waited = took - self._alone
        if waited > SLOW:
            self.window = min(self.window, max(1, int(place * (self._alone + AIM) / took)))
        elif waited < QUICK:
            self.window = max(self.window, min(2 * place, MOST))
