"""Shared subscriptions on the wire: interests of members, topics of what they are sent, and acknowledgements.

A member is one subscription. Its interest is `$glue/share/GROUP/MEMBER/+/PATTERN`. MEMBER is the endpoint's id, its
incarnation and a number, with dashes between, so that a new life never gets messages for an earlier life. The member
gets messages on `$glue/share/GROUP/MEMBER/AGAIN/TOPIC`. AGAIN is 1 for messages that another member had before, else 0.
The member acknowledges on `$glue/done/PUBLISHER` with a JSON list of `[topic, first, last]`: the wrapped topic, and the
first and the last sequence number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from glue.errors import TopicError
from glue.topics.names import check_pattern
from glue.topics.wrapped import SHARED

DONE: Final = "$glue/done/"
ACKNOWLEDGEMENTS: Final = 4096
"""Entries in one message of acknowledgements at most."""
NUMBER_LIMIT: Final = 2**50
"""The largest sequence number."""

Acknowledgement = tuple[str, int, int]
"""A wrapped topic, and the first and the last sequence number that the member is done with."""


def member_id(endpoint_id: str, incarnation: int, number: int) -> str:
    """The id of a member: the `number`th of one life of its endpoint."""
    return f"{endpoint_id}-{incarnation}-{number}"


def interest_of(group: str, member: str, pattern: str) -> str:
    """The interest of a member."""
    return f"{SHARED}{group}/{member}/+/{pattern}"


def topic_of(group: str, member: str, is_again: bool, topic: str) -> str:
    """The topic of what a member is sent."""
    return f"{SHARED}{group}/{member}/{int(is_again)}/{topic}"


def parse_interest(endpoint_id: str, interest: str) -> tuple[str, str, str] | None:
    """The group, the member and the pattern of an interest of this endpoint; None for one that is malformed."""
    parts = interest.split("/", 5)
    if len(parts) < 6 or parts[4] != "+" or not parts[2] or "+" in parts[2] or "#" in parts[2]:
        return None
    owner, *numbers = parts[3].split("-")
    if owner != endpoint_id or len(numbers) != 2:
        return None
    if not all(number.isascii() and number.isdigit() and len(number) <= 16 for number in numbers):
        return None
    try:
        check_pattern(parts[5])
    except TopicError:
        return None
    return parts[2], parts[3], parts[5]


def parse_topic(topic: str) -> tuple[str, str, str] | None:
    """The group, the member and the topic inside of a wrapped topic; None for any other."""
    parts = topic.split("/", 5)
    return (parts[2], parts[3], parts[5]) if len(parts) == 6 and topic.startswith(SHARED) else None


def encode_done(acknowledgements: Sequence[Acknowledgement]) -> list[bytes]:
    """Payloads with these acknowledgements."""
    starts = range(0, len(acknowledgements), ACKNOWLEDGEMENTS)
    return [orjson.dumps(acknowledgements[start : start + ACKNOWLEDGEMENTS]) for start in starts]


def decode_done(payload: bytes) -> list[Acknowledgement]:
    """The acknowledgements of a payload; raises ValueError if it is malformed."""
    entries = orjson.loads(payload)
    if type(entries) is not list or len(entries) > ACKNOWLEDGEMENTS:
        raise ValueError("no list")
    found: list[Acknowledgement] = []
    for entry in entries:
        if type(entry) is not list or len(entry) != 3:
            raise ValueError("no entry")
        topic, first, last = entry
        if type(topic) is not str or type(first) is not int or type(last) is not int:
            raise ValueError("malformed entry")
        if not 1 <= first <= last <= NUMBER_LIMIT:
            raise ValueError("malformed numbers")
        found.append((topic, first, last))
    return found
