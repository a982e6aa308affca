"""What the doctor sees where its own endpoint cannot start."""

from __future__ import annotations

from typing import Any

from glue.doctor import diagnose
from glue.observing.observer import MEETING, Observer
from tests.support.lan import private_network


def test_an_interface_that_is_not_there_is_seen_with_its_reason() -> None:
    paused: list[float] = []
    settings: dict[str, Any] = {**private_network(), "interface": "nowhere7"}
    seen = Observer(settings, paused.append).look()
    assert paused == [MEETING], "others are listened to all the same"
    assert "nowhere7" in seen.machine.failure
    assert (seen.machine.wanted, seen.machine.port_taken, seen.machine.looped) == ("nowhere7", False, None)
    assert (seen.endpoints, seen.ways, seen.network_id) == ((), (), settings["network_id"])
    assert "nowhere7" in diagnose(seen).findings[0].verdict
