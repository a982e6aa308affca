"""What a setting may be: the smallest and the greatest value that is taken, and the next ones, which are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from glue import ConfigurationError
from glue.settings import SETTINGS, Settings

BOUNDS: list[tuple[str, float, float]] = [
    ("network_id", 0, 65_535),
    ("listen_port", 0, 65_535),
    ("announce_interval", 0.01, 3600.0),
    ("lease_intervals", 1.5, 1000.0),
    ("spin", 0.0, 0.1),
    ("parity", 0.0, 1.0),
    ("consumer_alert", 0.1, 604_800.0),
    ("sleep", 0.05, 86400.0),
    ("malloc_threshold", 0, 32 << 20),
    ("message_limit", 1, 1 << 40),
    ("queue_limit", 1, 1 << 40),
    ("receive_limit", 1, 1 << 40),
    ("receive_buffer", 1, 1 << 40),
]


def beside(value: float, direction: float) -> float:
    return int(value + math.copysign(1, direction)) if isinstance(value, int) else math.nextafter(value, direction)


@pytest.mark.parametrize(("name", "least", "most"), BOUNDS)
def test_a_setting_may_be_at_its_bounds_and_not_beyond(name: str, least: float, most: float) -> None:
    for value in (least, most):
        values: dict[str, Any] = {name: value}
        assert getattr(Settings(**values), name) == value
    for value in (beside(least, -math.inf), beside(most, math.inf)):
        values = {name: value}
        with pytest.raises(ConfigurationError, match=name):
            Settings(**values)


@pytest.mark.parametrize(("name", "taken"), [("", False), ("a", True), ("ä" * 127, True), ("a" * 255, True)])
def test_a_name_has_1_to_255_bytes(name: str, taken: bool) -> None:
    if taken:
        assert Settings(name=name).name == name
    else:
        with pytest.raises(ConfigurationError, match="name"):
            Settings(name=name)
    with pytest.raises(ConfigurationError, match="name"):
        Settings(name="ä" * 128)


def test_the_defaults_are_those_of_the_documentation() -> None:
    settings = Settings()
    assert {name: getattr(settings, name) for name in SETTINGS} == {
        "name": None,
        "interface": None,
        "network_id": 1,
        "multicast_address": "239.192.137.1:37320",
        "listen_port": 0,
        "announce_interval": 1.0,
        "lease_intervals": 5.0,
        "sleep": None,
        "message_limit": 256 << 20,
        "queue_limit": 4 << 20,
        "receive_limit": 32 << 20,
        "receive_buffer": 32 << 20,
        "offload": True,
        "spin": 0.0005,
        "sched_batch": True,
        "malloc_threshold": 16 << 20,
        "parity": None,
        "discovery": "multicast",
        "key": None,
        "identity": None,
        "policy": None,
        "storage_key": None,
        "consumer_alert": 60.0,
        "doctor": True,
        "peers": (),
    }
