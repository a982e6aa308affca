"""Credit: how many messages a member may have that it has not acknowledged.

The credit follows the time that the member takes. While acknowledgements come within QUICK and the credit was used up,
it doubles; when one takes longer than SLOW, it halves. So a member has 50 to 200 ms of work, and a slow one gets less
than a fast one. As each message that a member has is one that no other can take, more would make a newcomer wait, and
lose more time when the member dies.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = 4
"""Messages of credit that a new member has."""
MOST: Final = 8192
"""Messages of credit at most: 20 ms of a member that handles 400,000 messages a second."""
MOST_BYTES: Final = 1 << 20
"""Bytes of payload that a member has at most; a single message may be larger."""
QUICK, SLOW = 0.05, 0.2
"""Seconds from sending a message to its acknowledgement."""


class Credit:
    """The credit of one member, and what it has used of it: `count` messages of `size` bytes."""

    __slots__ = ("count", "size", "was_used_up", "window")

    def __init__(self) -> None:
        self.window = FIRST
        self.count = self.size = 0
        self.was_used_up = False

    @property
    def room(self) -> int:
        """Messages that the member may have in addition."""
        return self.window - self.count if self.size < MOST_BYTES or not self.count else 0

    def use(self, count: int, size: int) -> None:
        """The member is sent messages."""
        self.count += count
        self.size += size
        if self.room <= 0:
            self.was_used_up = True

    def release(self, count: int, size: int) -> None:
        """The member has messages no more."""
        self.count -= count
        self.size -= size

    def learn(self, took: float) -> None:
        """The member acknowledged messages after so many seconds."""
        if took > SLOW:
            self.window = max(1, self.window // 2)
        elif took < QUICK and self.was_used_up:
            self.window = min(2 * self.window, MOST)
        self.was_used_up = self.room <= 0
