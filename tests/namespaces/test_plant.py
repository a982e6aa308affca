"""Real voters that are killed, stopped and cut off: what they acknowledged is linearizable, and nothing is lost."""

from __future__ import annotations

import pytest

from glue.simulation.linearizability import check
from tests.namespaces.plant import run
from tests.support.namespaces import needs_namespaces

pytestmark = [pytest.mark.namespaces, needs_namespaces]


def test_nothing_acknowledged_is_lost_when_voters_are_killed_stopped_and_cut_off() -> None:
    history, _ = run(kills=6, seed=1)
    verdict = check(history.operations())
    assert verdict.linearizable, verdict
    assert history.counts["done"] > 150
