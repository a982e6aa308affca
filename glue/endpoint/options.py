"""Types of the options of `publish` and `subscribe`."""

from __future__ import annotations

import math
from typing import Any, Literal

from glue.contract import BULK, HIGH, LARGE, NORMAL, URGENT, Options
from glue.errors import ConfigurationError
from glue.topics.names import check_type

Priority = Literal["urgent", "high", "normal", "bulk"]
"""The order of sending: no message holds back messages of a higher priority on other topics."""

Reliability = Literal["reliable", "best-effort"]
"""Whether a message is resent until it is acknowledged."""

Policy = Literal["block", "drop_oldest", "drop_newest", "disconnect"]
"""What happens to messages when the reader of a subscription is slow."""

PRIORITIES: dict[Priority, int] = {"urgent": URGENT, "high": HIGH, "normal": NORMAL, "bulk": BULK}

KEY = 1000
"""Characters of the key of a message to groups at most."""

CENTURY = 100 * 365.25 * 86_400
"""Seconds; more than a few centuries are more than a lock can wait."""

LARGE_MESSAGE = 32 << 10  # bytes from which on a normal message is LARGE: half of what a system call sends


def class_of(priority: Priority, size: int) -> int:
    """The class of a message of `size` bytes with a priority of this name. Raises ConfigurationError."""
    level = PRIORITIES.get(priority) if isinstance(priority, str) else None
    if level is None:
        raise ConfigurationError(f"priority={priority!r}: expected one of {', '.join(PRIORITIES)}")
    return LARGE if level == NORMAL and size >= LARGE_MESSAGE else level


def chosen_options(
    type: str | None, retain: bool, lifespan: float | None, reliability: Reliability, receipt: Any, key: str | None
) -> Options:
    """Options of which any is set, checked."""
    reliable = reliability == "reliable"
    if not reliable and reliability != "best-effort":
        raise ConfigurationError(f"reliability={reliability!r}: expected one of reliable, best-effort")
    if lifespan is not None and not _is_duration(lifespan):
        raise ConfigurationError(f"lifespan={lifespan!r}: expected a positive number of seconds")
    if type is not None:
        check_type(type)
    if receipt is not None and not reliable:
        raise ConfigurationError("receipt=True: best effort is never acknowledged; leave reliability out")
    if key is not None and (not isinstance(key, str) or len(key) > KEY):
        raise ConfigurationError(f"key={key!r:.80}: expected a string of at most {KEY} characters")
    return Options(type, retain, lifespan, reliable, True, receipt, key)


def waiting_time(timeout: Any) -> float | None:
    """Seconds that a call waits at most; None: for ever, also for a century. Raises ConfigurationError."""
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or math.isnan(timeout):
        raise ConfigurationError(f"timeout={timeout!r}: expected a number of seconds, or None to wait for ever")
    return timeout if timeout < CENTURY else None


def _is_duration(value: Any) -> bool:
    """Whether it is a positive number of seconds, and not infinite."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf
