"""Wrapped topics: interests in a part of the messages, and the topics on which this part travels.

A wrapped interest is an ordinary pattern under `$glue/`, with the wanted pattern at its end. The publisher reads the
interest and publishes the wanted messages on a wrapped topic that matches it. The receiver removes the wrapping.

* `$glue/limited/INTERVAL/PATTERN`: the latest value of each topic, once in INTERVAL milliseconds at most.
* `$glue/share/GROUP/MEMBER/+/PATTERN`: a member's share of the messages (see `shared/wire.py`).
* `$glue/sample/INTERVAL/COUNT/PATTERN`: samples, COUNT in INTERVAL milliseconds at most (see `samples.py`).
"""

from __future__ import annotations

from typing import Final

from glue.errors import TopicError
from glue.topics.names import check_pattern

LIMITED: Final = "$glue/limited/"
SHARED: Final = "$glue/share/"
SAMPLED: Final = "$glue/sample/"
WRAPPINGS: Final = {LIMITED: 3, SHARED: 5, SAMPLED: 4}
"""The beginnings of wrapped topics, with the number of levels before the topic inside."""

INTERVAL_LIMIT: Final = 10**9
"""Milliseconds between two values at most: eleven days."""


def limited(interval: int, topic: str) -> str:
    """The wrapped topic, or pattern, of a limited rate; `interval` in milliseconds."""
    return f"{LIMITED}{interval}/{topic}"


def sampled(interval: int, count: int, topic: str) -> str:
    """The wrapped topic, or pattern, of samples; `interval` in milliseconds, `count` in an interval at most."""
    return f"{SAMPLED}{interval}/{count}/{topic}"


def interval_of(interest: str) -> tuple[int, str] | None:
    """The interval (milliseconds) and the pattern of a limited interest; None for one that is malformed."""
    _, _, number, pattern = interest.split("/", 3) if interest.count("/") >= 3 else ("", "", "", "")
    if not (number.isascii() and number.isdigit() and len(number) <= 10 and 0 < int(number) <= INTERVAL_LIMIT):
        return None
    try:
        check_pattern(pattern)
    except TopicError:
        return None
    return int(number), pattern


def unwrapped(topic: str) -> str:
    """The topic inside a wrapped topic, "" if there is none; any other topic as it is."""
    if topic[0] == "$":
        for beginning, levels in WRAPPINGS.items():
            if topic.startswith(beginning):
                parts = topic.split("/", levels)
                return parts[levels] if len(parts) > levels else ""
    return topic


def is_wrapped(topic: str) -> bool:
    """Whether a topic or a pattern is wrapped."""
    return topic[0] == "$" and topic.startswith(tuple(WRAPPINGS))
