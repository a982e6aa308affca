"""What happened so far, by cause: the counters behind every layer's `statistics`.

A message is counted a dozen times on its way, so a count must cost little.
"""

from __future__ import annotations

from collections import Counter


class Counters(Counter[str]):
    """A `collections.Counter` whose items are set as fast as those of a dict: half of the time of a count.

    Counter defines `__delitem__` in Python, to forgive what is not there, and CPython then sets
    items by way of Python, too.
    """

    __delitem__ = dict.__delitem__  # type: ignore[assignment]
