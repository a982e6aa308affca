"""Quality of service: a door's events for a panel that comes late, and a standby that takes over.

    python examples/quality_of_service.py

All endpoints are in one program. Several programs, also on several machines, work in the same way.
"""

from __future__ import annotations

import glue

SETPOINT = glue.STATE.replace(ownership="exclusive", deadline=10)


def late_panel() -> None:
    """Publish events, and read them later; a chart requests more than a probe offers."""
    with glue.Endpoint("door") as door, glue.Endpoint("panel") as panel:
        events = door.topic("door/+/event", qos=glue.EVENT)
        for event in ("opened", "closed"):
            events.publish(event, "door/front/event")
        received = panel.topic("door/+/event", qos=glue.EVENT).subscribe()
        for _ in range(2):
            message = received.get(timeout=5)
            print(message.topic, message.payload)

        panel.on_qos_mismatch = print
        door.on_qos_mismatch = lambda mismatch: None  # the same, seen from the door
        levels = panel.topic("door/front/battery", qos=glue.STATE).subscribe()
        door.wait_for_subscribers("door/front/battery", timeout=5)
        door.topic("door/front/battery", qos=glue.SENSOR).publish(0.9)
        print("battery", levels.get(timeout=5).payload)


def standby() -> None:
    """Let a controller end, and another one take over."""
    with glue.Endpoint("panel") as panel, glue.Endpoint("spare") as spare:
        setpoints = panel.topic("boiler/setpoint", qos=SETPOINT).subscribe()
        second = spare.topic("boiler/setpoint", qos=SETPOINT.replace(strength=1))
        with glue.Endpoint("main") as main:
            first = main.topic("boiler/setpoint", qos=SETPOINT.replace(strength=2))
            first.publish(60)
            message = setpoints.get(timeout=5)
            print("setpoint", message.payload, "from", message.publisher)
            spare.wait_for_subscribers("boiler/setpoint", timeout=5)
            second.publish(55)
            spare.flush(5)  # 55 has come, and is left out while main is there
        second.publish(56)
        message = setpoints.get(timeout=5)
        print("setpoint", message.payload, "from", message.publisher)


if __name__ == "__main__":
    late_panel()
    standby()
