"""A thousand thermostats on three hosts, of which one is lost: the others go on with what they know.

python examples/thermostats.py [COUNT]    # all three hosts are endpoints of this process
"""

from __future__ import annotations

import sys
import time
from typing import Any

import glue


class Thermostat(glue.Receiver):
    """Keeps a target temperature."""

    def activate(self, context: glue.Context) -> None:
        self.target = context.state.get("target", 20)

    def receive(self, context: glue.Context, message: Any) -> Any:
        """Set the target, or tell it."""
        match message:
            case {"set": value}:
                self.target = context.state["target"] = value
                return "ok"
            case "get":
                return self.target
            case _:
                raise ValueError("expected {'set': degrees} or 'get'")


def main(count: int) -> None:
    """Set all thermostats, lose a host, and read them all."""
    hosts = [glue.Endpoint(f"host {number}").start() for number in range(3)]
    with glue.Endpoint("caller") as caller:
        kinds = []
        for host in hosts:
            plant = host.model("plant", voters=3)
            kinds.append(host.receivers("thermostat", Thermostat, model=plant))
        for number in range(count):
            caller.send(f"thermostat/{number}", {"set": 15 + number % 10})
        assert all(caller.ask(f"thermostat/{number}", "get", timeout=20) == 15 + number % 10 for number in range(count))
        print(f"{count} thermostats on {sum(kind.owned > 0 for kind in kinds)} hosts")
        hosts[0].close()
        began = time.monotonic()
        assert all(caller.ask(f"thermostat/{number}", "get", timeout=20) == 15 + number % 10 for number in range(count))
        print(f"{count} thermostats on {sum(kind.owned > 0 for kind in kinds[1:])} hosts")
        print(f"after {time.monotonic() - began:.1f} s", file=sys.stderr)
    for host in hosts[1:]:
        host.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
