"""Whether two patterns have a topic in common."""

from __future__ import annotations


def overlaps(one: str, other: str) -> bool:
    """Whether there is a topic that matches both of two well-formed patterns."""
    return _overlap(one.split("/"), other.split("/"))


def _overlap(one: list[str], other: list[str]) -> bool:
    for place in range(max(len(one), len(other))):
        a = one[place] if place < len(one) else None
        b = other[place] if place < len(other) else None
        if place == 0 and {a, b} & {"+", "#"} and ((a or "")[:1] == "$" or (b or "")[:1] == "$"):
            return False  # no wildcard matches such a first level
        if a == "#" or b == "#":
            return True
        if a is None or b is None:  # "sport/#" matches "sport", which was looked at above
            return False
        if a != b and "+" not in (a, b):
            return False
    return True
