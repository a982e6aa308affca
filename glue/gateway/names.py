"""Topics by which one kind of door finds another."""

from __future__ import annotations

from typing import Final

MQTT_DOORS: Final = "$mqtt/doors"
"""MQTT doors answer requests on this topic: "clients" and "sessions" are answered by lists of objects."""
