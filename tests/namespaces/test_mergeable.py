"""Mergeable keys across a real partition: both sides write, and read alike when the cable is in again."""

from __future__ import annotations

from pathlib import Path

import pytest

import glue
from tests.namespaces.endpoints import endpoint
from tests.namespaces.talkers import ANNOUNCE_INTERVAL, PATIENCE
from tests.support.lan import Ear
from tests.support.namespaces import needs_namespaces, segment

pytestmark = [pytest.mark.namespaces, needs_namespaces]

MERGEABLE = {"stats/": "counter", "tags/": "set", "seen/": "register", "notes/": "multi"}
EXPECTED = {"stats/parts": 111, "tags/parts": ["blue", "red"], "notes/shift": glue.Conflict(["early", "late"])}
"""What all read in the end: not what one of the other side reads, who learns it first."""


def test_both_sides_of_a_partition_write_and_are_alike_after_the_heal(tmp_path: Path) -> None:
    with (
        segment(3) as hosts,
        endpoint(hosts[0], announce_interval=ANNOUNCE_INTERVAL) as a,
        endpoint(hosts[1], announce_interval=ANNOUNCE_INTERVAL) as b,
        endpoint(hosts[2], announce_interval=ANNOUNCE_INTERVAL) as c,
    ):
        one, other, alone = [
            each.model("plant", voters=3, mergeable=MERGEABLE, data_dir=tmp_path / each.name, election_timeout=0.3)
            for each in (a, b, c)
        ]
        assert alone.wait_until_ready(PATIENCE)
        one.add("stats/parts", 1)
        alone.synchronize(PATIENCE)
        hosts[2].unplug()
        with pytest.raises((glue.MinorityError, glue.UnknownOutcomeError)):
            alone.set("valve/1", "open", timeout=1.0)
        alone.add("stats/parts", 10)
        alone.add("tags/parts", "blue")
        alone.set("notes/shift", "late")
        one.add("stats/parts", 100)
        one.add("tags/parts", "red")
        one.set("notes/shift", "early")
        other.set("valve/1", "closed", timeout=PATIENCE)
        assert (one.get("stats/parts"), alone.get("stats/parts")) == (101, 11)
        ears = [listen(model) for model in (one, other, alone)]
        hosts[2].plug()
        for ear in ears:
            ear.wait_until(lambda heard: dict(heard) == EXPECTED)
        alone.synchronize(PATIENCE)
        for model in (one, other, alone):
            assert model.items("stats/#") | model.items("tags/#") | model.items("notes/#") == EXPECTED
        assert alone.conflicts() == {"notes/shift": ["early", "late"]}


def listen(model: glue.Model) -> Ear:
    """Hears what mergeable keys become."""
    ear = Ear()

    def note(change: glue.Change) -> None:
        if change.key in EXPECTED:
            ear((change.key, change.value))

    model.watch("#", note)
    return ear
