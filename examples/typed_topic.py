"""Typed topics: a thermometer publishes readings of a dataclass, and a display receives them as such.

    python examples/typed_topic.py

Both run in this program; in two programs, or on two machines, it is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import glue


@dataclass
class Reading:
    """What a thermometer measures."""

    celsius: float
    battery: int = 100


def main() -> None:
    """Publish three readings, and show them."""
    with glue.Endpoint() as thermometer, glue.Endpoint() as display:
        display.on_mismatch = print
        readings = display.topic("home/+/reading", Reading).subscribe()
        thermometer.wait_for_subscribers("home/kitchen/reading", 1, timeout=5)
        kitchen = thermometer.topic("home/kitchen/reading", Reading)
        for step in range(3):
            kitchen.publish(Reading(21.5 + step, battery=90))
        for _ in range(3):
            reading = readings.get(timeout=5)
            print(reading.topic, reading.value.celsius, reading.value.battery)


if __name__ == "__main__":
    main()
