"""Counters are those of the standard library, but quicker."""

from __future__ import annotations

from collections import Counter

from glue.contract.counters import Counts


def test_what_never_happened_counts_nothing_and_what_did_adds_up() -> None:
    counts = Counts()
    assert counts["never"] == 0
    assert "never" not in counts
    counts["once"] += 1
    counts["twice"] += 1
    counts["twice"] += 1
    assert counts == Counter({"once": 1, "twice": 2})
    assert counts.copy() == counts
    assert counts + Counter(once=1) == Counter(once=2, twice=2)
