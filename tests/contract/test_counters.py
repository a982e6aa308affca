"""Counters are those of the standard library, but quicker."""

from __future__ import annotations

from collections import Counter

from glue.contract.counters import Counters


def test_what_never_happened_counts_nothing_and_what_did_adds_up() -> None:
    counters = Counters()
    assert counters["never"] == 0
    assert "never" not in counters
    counters["once"] += 1
    counters["twice"] += 1
    counters["twice"] += 1
    assert counters == Counter({"once": 1, "twice": 2})
    assert counters.copy() == counters
    assert counters + Counter(once=1) == Counter(once=2, twice=2)
