"""`glue doctor` on real machines: a pair that is well, and one that hears no multicast."""

from __future__ import annotations

import pytest

from benchmarks.doctor_faults import examine, run_fault
from benchmarks.doctor_places import HEALTHY, place
from benchmarks.doctor_scenes import FAULTS
from tests.support.namespaces import needs_namespaces

pytestmark = [pytest.mark.namespaces, needs_namespaces]


def test_two_machines_that_hear_each_other_give_no_alarm() -> None:
    with place(2) as scene:
        scene.endpoint(1, "kitchen")
        scene.endpoint(2, "hall")
        verdict, findings, _ = examine(scene, [], None)
    assert [one for one in findings if one["level"] != "note"] == []
    assert verdict["verdict"] == "All is well: 2 endpoints answered, and all ways between 2 machines work."
    assert len(HEALTHY) >= 10


def test_large_datagrams_that_are_lost_are_named() -> None:
    (fault,) = [one for one in FAULTS if one.name == "mtu 1280 at one end"]
    outcome = run_fault(fault, None)
    assert (outcome.rule, outcome.alarms) == ("large-lost", ["large-lost"])
    assert "1280, 1500" in outcome.verdict
