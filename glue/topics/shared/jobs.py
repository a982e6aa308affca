"""Jobs: runs of messages for a group, each run on its way to one member at a time."""

from __future__ import annotations

from math import inf
from typing import Any, Protocol


class Content(Protocol):
    """The messages of a job."""

    @property
    def size(self) -> int:
        """Bytes of payload."""

    def part(self, start: int, stop: int) -> Any:
        """Return the messages from `start` to before `stop`, as another content."""


class Job:
    """`count` messages alike but for their payloads.

    * `key`: messages of one key stay in order at one member; None for none. A job with a key is one message.
    * `expires`: monotonic seconds after which the messages need not be handled.
    * `is_again`: whether another member had the messages before, without an acknowledgement.
    * `skips`: how often a member missed the messages although it got later messages.
    * `order`: counts up in the order in which jobs were offered; parts of a job have the same.
    * `first`, `sent_at`: the number of the first message on the lane to the member, and when the job was sent.
    * `ahead`: how many messages the member had before this job.
    """

    __slots__ = (
        "ahead",
        "content",
        "count",
        "expires",
        "first",
        "is_again",
        "key",
        "order",
        "sent_at",
        "size",
        "skips",
    )

    def __init__(
        self, content: Content, count: int, key: str | None = None, expires: float = inf, order: int = 0
    ) -> None:
        self.content: Any = content
        self.count = count
        self.size = content.size
        self.key = key
        self.expires = expires
        self.order = order
        self.is_again = False
        self.skips = 0
        self.first = self.ahead = 0
        self.sent_at = 0.0

    @property
    def last(self) -> int:
        """The number of the last message on the lane."""
        return self.first + self.count - 1

    def split(self, count: int) -> Job:
        """Remove the first `count` messages and return a job with them; at least one message must remain here."""
        head = self._part(0, count)
        rest = self._part(count, self.count)
        self.content, self.size, self.count = rest.content, rest.size, rest.count
        self.first, self.ahead = rest.first, rest.ahead
        return head

    def _part(self, start: int, stop: int) -> Job:
        part = Job(self.content.part(start, stop), stop - start, self.key, self.expires, self.order)
        part.is_again, part.skips, part.sent_at = self.is_again, self.skips, self.sent_at
        part.first, part.ahead = self.first + start, self.ahead + start
        return part
