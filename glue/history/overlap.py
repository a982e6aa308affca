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


def covers(kept: str, wanted: str) -> bool:
    """Whether every topic that matches the second well-formed pattern matches the first one, too."""
    one, other = kept.split("/"), wanted.split("/")
    if one[0] in ("+", "#") and other[0][:1] == "$":
        return False  # no wildcard matches such a first level
    for place, level in enumerate(one):
        if level == "#":
            return True
        if place >= len(other) or other[place] == "#" or level not in ("+", other[place]):
            return False
    return len(one) == len(other)
