"""Types of the options of `publish` and `subscribe`."""

from __future__ import annotations

from typing import Literal

from glue.contract import BULK, HIGH, LARGE, NORMAL, URGENT
from glue.errors import ConfigurationError

Priority = Literal["urgent", "high", "normal", "bulk"]
"""The order of sending: no message holds back messages of a higher priority on other topics."""

Reliability = Literal["reliable", "best-effort"]
"""Whether a message is resent until it is acknowledged."""

Policy = Literal["block", "drop_oldest", "drop_newest", "disconnect"]
"""What happens to messages when the reader of a subscription is slow."""

PRIORITIES: dict[Priority, int] = {"urgent": URGENT, "high": HIGH, "normal": NORMAL, "bulk": BULK}

LARGE_MESSAGE = 32 << 10  # bytes of a normal message from which on it is LARGE: half of what one system call sends


def class_of(priority: Priority, size: int) -> int:
    """The class of a message of `size` bytes with a priority of this name. Raises ConfigurationError."""
    level = PRIORITIES.get(priority) if isinstance(priority, str) else None
    if level is None:
        raise ConfigurationError(f"priority={priority!r}: expected one of {', '.join(PRIORITIES)}")
    return LARGE if level == NORMAL and size >= LARGE_MESSAGE else level
