"""A battery node that sleeps between its moments awake, and a thermostat that sends it a setpoint meanwhile."""

from __future__ import annotations

import time

import glue

REST = 0.2
"""Seconds; a real node would sleep for a minute or more."""


def main() -> None:
    """Three cycles: sleep, wake up, get what waited, publish a reading."""
    with glue.Endpoint("thermostat") as thermostat, glue.Endpoint("valve", sleep=REST) as valve:
        readings = thermostat.subscribe("valve/battery")
        setpoints = valve.subscribe("valve/setpoint")
        valve.wait_for_subscribers("valve/battery")
        thermostat.wait_for_subscribers("valve/setpoint")

        def rest(seconds: float) -> None:
            """Sleep; the thermostat goes on meanwhile."""
            for celsius in (20, 21):
                thermostat.publish("valve/setpoint", celsius)
            time.sleep(seconds)

        for volts in (3.7, 3.6, 3.5):
            woke = valve.sleep(pause=rest)
            print("waited:", woke.waited, "setpoints:", [next(setpoints).payload for _ in range(woke.waited)])
            valve.publish("valve/battery", volts)
            print("battery:", next(readings).payload)


if __name__ == "__main__":
    main()
