"""What two patterns have in common: whether one matches all that the other does, and whether both match something.

Patterns are well-formed and have the wildcards of MQTT; a topic is a pattern without one. A wildcard as the first level
does not match levels that begin with `$` (MQTT 3.1.1, section 4.7.2). In rules it does: `every_level` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest


def covers(pattern: str, other: str, *, every_level: bool = False) -> bool:
    """Whether a pattern matches every topic that another pattern matches."""
    mine, theirs = pattern.split("/"), other.split("/")
    if not every_level and _misses(mine, theirs):
        return False
    if theirs == ["#"]:
        theirs = ["+", "#"]  # says the same, as each topic has a first level
    for place, level in enumerate(mine):
        if level == "#":
            return True
        if place >= len(theirs) or theirs[place] == "#" or level not in ("+", theirs[place]):
            return False
    return len(mine) == len(theirs)


def meet(one: str, other: str, *, every_level: bool = False) -> bool:
    """Whether some topic matches both patterns."""
    mine, theirs = one.split("/"), other.split("/")
    if not every_level and (_misses(mine, theirs) or _misses(theirs, mine)):
        return False
    for left, right in zip_longest(mine, theirs):
        if "#" in (left, right):
            return True
        if left is None or right is None or (left != right and "+" not in (left, right)):
            return False
    return True


def _misses(pattern: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the first level of a pattern is a wildcard, which does not match that of the other."""
    return pattern[0] in ("+", "#") and other[0].startswith("$")
