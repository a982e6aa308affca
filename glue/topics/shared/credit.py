"""Credit: the number of unacknowledged messages that a member may have.

The credit follows the time that the member takes. It doubles when an acknowledgement comes within QUICK and the credit
was used up. It halves when an acknowledgement takes longer than SLOW. So a member has 50 to 200 ms of work, and a slow
member gets less than a fast one. No other member can take a message that a member has. Therefore more credit would make
new members wait, and would lose more time when a member dies.
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
    """The credit of one member, and the used part: `count` messages of `size` bytes."""

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
        """Note that messages are sent to the member."""
        self.count += count
        self.size += size
        if self.room <= 0:
            self.was_used_up = True

    def release(self, count: int, size: int) -> None:
        """Note that the member no longer has some messages."""
        self.count -= count
        self.size -= size

    def learn(self, took: float) -> None:
        """Adapt the credit to an acknowledgement that came `took` seconds after its messages were sent."""
        if took > SLOW:
            self.window = max(1, self.window // 2)
        elif took < QUICK and self.was_used_up:
            self.window = min(2 * self.window, MOST)
        self.was_used_up = self.room <= 0
